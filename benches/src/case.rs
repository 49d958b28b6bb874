//! A kernel to measure: its sources in three languages, and the work that it does.

use crate::work::Work;

/// How much data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Enough to measure.
    Full,
    /// Enough to compare results.
    Small,
}

impl Scale {
    /// One of two sizes.
    pub(crate) fn pick(self, full: usize, small: usize) -> usize {
        match self {
            Scale::Full => full,
            Scale::Small => small,
        }
    }
}

/// Which mean a kernel counts for, besides that over all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The eleven that goals are set for.
    Goals,
    /// The others.
    More,
}

/// A kernel in the languages of the contenders. Kernels have the same names and arguments in PTX and OpenCL.
#[derive(Clone, Copy, Debug)]
pub struct Sources {
    pub(crate) ptx: &'static str,
    pub(crate) opencl: &'static str,
    pub(crate) opencl_options: &'static str,
    pub(crate) c: &'static str,
    /// For clang, beside those for every source.
    pub(crate) c_options: &'static [&'static str],
    /// Whether parts of equal size take unequal time.
    pub(crate) c_uneven: bool,
}

/// [`Sources`] from a PTX file, by its path in the repository, and the files of a name in `benches`; of two names
/// the first is that of the OpenCL file and the second that of the C file.
macro_rules! sources {
    ($ptx:literal, $name:literal $(, $field:ident: $value:expr)* $(,)?) => {
        $crate::case::sources!($ptx, $name / $name $(, $field: $value)*)
    };
    ($ptx:literal, $opencl:literal / $c:literal $(, $field:ident: $value:expr)* $(,)?) => {
        $crate::case::Sources {
            $($field: $value,)*
            ..$crate::case::Sources::new(
                include_str!(concat!("../../../", $ptx)),
                include_str!(concat!("../../opencl/", $opencl, ".cl")),
                include_str!(concat!("../../c/", $c, ".c")),
            )
        }
    };
}
pub(crate) use sources;

impl Sources {
    /// Without options, in parts that take equal time.
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
    /// Its name.
    pub name: &'static str,
    /// The data at [`Scale::Full`], in words.
    pub size: &'static str,
    /// What it counts for.
    pub group: Group,
    pub(crate) sources: Sources,
    /// Makes the data and, with a loop in Rust, the results.
    pub(crate) make: fn(Scale) -> Work,
}
