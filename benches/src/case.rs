//! Describes a kernel to measure: its sources in three languages, its data and its launches.

use serde::Serialize;

use crate::work::Work;

/// The amount of data that the kernels process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Enough data for measurements.
    Full,
    /// Little data, enough to compare results.
    Small,
}

impl Scale {
    /// Returns `full` at [`Scale::Full`] and `small` at [`Scale::Small`].
    pub(crate) fn pick(self, full: usize, small: usize) -> usize {
        match self {
            Scale::Full => full,
            Scale::Small => small,
        }
    }
}

/// A set of kernels. The report has a table and means for each set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// The 28 kernels that Margay's optimisations were measured with first.
    First,
    /// Twenty kernels of other kinds, which show whether an optimisation helps in general.
    Second,
}

impl Set {
    /// All sets, in the order of their tables.
    pub const ALL: [Set; 2] = [Set::First, Set::Second];

    /// Returns the name of the set on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Set::First => "first",
            Set::Second => "second",
        }
    }
}

/// States whether performance goals are set for a kernel, and to which set it belongs. The report contains means over
/// the kernels with goals and means over all kernels of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The eleven kernels for which performance goals are set. They belong to the first set.
    Goals,
    /// The other kernels of the first set.
    More,
    /// The kernels of the second set.
    Second,
}

impl Group {
    /// Returns the set to which the kernels of this group belong.
    pub fn set(self) -> Set {
        match self {
            Group::Goals | Group::More => Set::First,
            Group::Second => Set::Second,
        }
    }
}

/// The source code of a kernel in PTX, OpenCL C and C, with compiler options. A kernel has the same name and arguments
/// in PTX and OpenCL.
#[derive(Clone, Copy, Debug)]
pub struct Sources {
    pub(crate) ptx: &'static str,
    pub(crate) opencl: &'static str,
    pub(crate) opencl_options: &'static str,
    pub(crate) c: &'static str,
    /// Options for clang, in addition to the options for every source.
    pub(crate) c_options: &'static [&'static str],
    /// Whether parts of the C code's work that have equal sizes take different times. If so, the
    /// work is divided into more parts than there are threads.
    pub(crate) c_uneven: bool,
}

/// Builds [`Sources`] from the path of a PTX file in the repository and the name, without extension, of the files in
/// `benches/opencl` and `benches/c`. If there are two names, the first name belongs to the OpenCL
/// file and the second name belongs to the C file.
macro_rules! sources {
    ($ptx:literal, $name:literal $(, $field:ident: $value:expr)* $(,)?) => {
        $crate::case::sources!($ptx, $name / $name $(, $field: $value)*)
    };
    ($ptx:literal, $opencl:literal / $c:literal $(, $field:ident: $value:expr)* $(,)?) => {
        $crate::case::Sources {
            $($field: $value,)*
            ..$crate::case::Sources::new(
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../", $ptx)),
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/opencl/", $opencl, ".cl")),
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/c/", $c, ".c")),
            )
        }
    };
}
pub(crate) use sources;

impl Sources {
    /// Returns sources without extra compiler options. Parts of the C code's work that have equal
    /// sizes must take equal times.
    pub(crate) const fn new(ptx: &'static str, opencl: &'static str, c: &'static str) -> Sources {
        Sources {
            ptx,
            opencl,
            opencl_options: "-cl-std=CL1.2",
            c,
            c_options: &[],
            c_uneven: false,
        }
    }
}

/// A kernel to measure.
pub struct Case {
    /// The kernel's name.
    pub name: &'static str,
    /// The size of the data at [`Scale::Full`] as a text, such as "1 Mi options".
    pub size: &'static str,
    /// Whether performance goals are set for the kernel.
    pub group: Group,
    pub(crate) sources: Sources,
    /// Function that creates the data and computes the expected results with a loop in Rust.
    pub(crate) make: fn(Scale) -> Work,
}
