//! The table of the driver API: all exported functions in one list.
//!
//! A row first names the exports that share a signature. Each name is followed by the CUDA version that introduced the
//! export. The suffix `ptds` or `ptsz` marks an export whose default stream is the per-thread default stream. Then the
//! row lists the parameters with their C types, and finally the function of [`crate::serve`] that implements the
//! exports.
//!
//! `(refuses function)` marks a function that checks its arguments and can never succeed. A row without a function
//! names the result of every call after `cuInit`: `unsupported`, or the result that CUDA documents for a missing
//! feature (`no_such_handle` where no handle is valid, `no_such_value`, `no_graphics`, `no_system_support`). [`Status`]
//! distinguishes these three kinds of rows. `tests/support_table.rs` calls the exports that cannot succeed and compares
//! the results with the table.
//!
//! ```text
//! cuMemsetD8_v2 3020,
//! cuMemsetD8_v2_ptds 7000 ptds:
//!     (dst_device: CUdeviceptr, uc: c_uchar, n: usize) => memset_d8;
//! ```
//!
//! The macro generates three things from a row: the exported function with its panic guard, argument conversion and
//! trace ([`crate::guard`], [`crate::convert`]), the entry for `cuGetProcAddress` ([`procaddress`]), and the row of the
//! support table ([`api_rows`]). Each module of this folder contains one family of rows.
//!
//! Invariant: the library exports exactly the functions of this table and `margay_settle` ([`crate::control`]).

pub mod array;
pub mod context;
pub mod copy;
pub mod device;
pub mod general;
pub mod graph;
pub mod green_context;
pub mod interop;
pub mod launch;
pub mod memory;
pub mod module;
pub mod pool;
mod procaddress;
pub mod stream;
pub mod virtual_memory;

use std::ffi::c_void;

use crate::result::CuResult;

/// Whether calls of an entry point can succeed, and how calls fail if they cannot succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The export is implemented: calls with correct arguments succeed.
    Works,
    /// The export checks its arguments but cannot succeed: every call fails, with a result that
    /// depends on the arguments.
    Refuses,
    /// The export is not implemented: every call after `cuInit` fails with this result.
    Fails(CuResult),
}

/// A row of the table: one exported entry point.
#[derive(Debug)]
pub struct ApiRow {
    /// The exported name.
    pub export: &'static str,
    /// The CUDA version that introduced the export: 12050 for 12.5.
    pub since: u32,
    /// The default-stream suffix: `""`, `"ptds"` or `"ptsz"`.
    pub stream_suffix: &'static str,
    /// The parameter list as it is written in the table row: names and C types.
    pub parameters: &'static str,
    /// Whether calls can succeed, and the result if they cannot.
    pub status: Status,
    address: *const c_void,
}

// SAFETY: the pointer is the address of a function; nothing is written through it.
unsafe impl Sync for ApiRow {}
// SAFETY: the pointer is the address of a function; nothing is written through it.
unsafe impl Send for ApiRow {}

impl ApiRow {
    /// Returns whether a function of [`crate::serve`] implements the export.
    pub fn is_implemented(&self) -> bool {
        !matches!(self.status, Status::Fails(_))
    }

    /// Returns the address of the exported function.
    pub fn address(&self) -> *const c_void {
        self.address
    }

    /// Returns the name by which `cuGetProcAddress` finds the export: the name without version and stream suffix.
    pub fn symbol(&self) -> &'static str {
        crate::guard::symbol_of(self.export)
    }
}

/// The families of exports, each with its name. A family is a group of related exports, such as
/// those for contexts.
static FAMILIES: &[(&str, &[ApiRow])] = &[
    ("General", general::ROWS),
    ("Devices and primary contexts", device::ROWS),
    ("Contexts", context::ROWS),
    ("Modules, libraries, linking", module::ROWS),
    ("Memory", memory::ROWS),
    ("Copies and fills", copy::ROWS),
    ("Memory pools", pool::ROWS),
    ("Streams and events", stream::ROWS),
    ("Functions, launches, occupancy", launch::ROWS),
    ("Graphs and stream capture", graph::ROWS),
    ("Arrays, textures, surfaces", array::ROWS),
    ("Virtual memory, multicast", virtual_memory::ROWS),
    ("Green contexts", green_context::ROWS),
    ("Graphics, external memory", interop::ROWS),
];

/// Returns the families of the driver API, each with its name and rows.
pub fn families() -> impl Iterator<Item = (&'static str, &'static [ApiRow])> {
    FAMILIES.iter().copied()
}

/// Returns the rows of all exports.
pub fn api_rows() -> impl Iterator<Item = &'static ApiRow> {
    FAMILIES.iter().flat_map(|(_, rows)| rows.iter())
}

/// Declares a family: its `ROWS` and its exported functions. The module's documentation describes the syntax.
macro_rules! cuda_api {
    ($( $($name:ident $since:literal $($suffix:ident)?),+ : $parameters:tt => $answer:tt; )*) => {
        $($(
            cuda_api!(@export $name [$($suffix)?] $parameters $answer);
        )+)*

        pub(super) static ROWS: &[$crate::api::ApiRow] = &[
            $($(
                $crate::api::ApiRow {
                    export: stringify!($name),
                    since: $since,
                    stream_suffix: concat!($(stringify!($suffix))?),
                    parameters: stringify!($parameters),
                    status: cuda_api!(@status $answer),
                    address: $name as *const std::ffi::c_void,
                },
            )+)*
        ];
    };

    (@export $name:ident $suffix:tt ($($parameter:ident: $type:ty),*) $answer:tt) => {
        #[doc = concat!("Driver entry point `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// Each pointer must be null or valid for the accesses that the CUDA documentation
        /// describes for this function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($parameter: $type),*) -> $crate::CuResult {
            static CALL: $crate::guard::Call =
                $crate::guard::Call::new(stringify!($name), cuda_api!(@stream $suffix));
            cuda_api!(@body $answer ($($parameter),*))
        }
    };

    (@body unsupported ($($parameter:ident),*)) => {
        $crate::guard::unsupported(
            &CALL,
            &[$((stringify!($parameter), &$parameter as &dyn $crate::guard::Traced)),*],
        )
    };
    (@body (refuses $serve:ident) $parameters:tt) => { cuda_api!(@body $serve $parameters) };
    (@body no_such_handle $parameters:tt) => { cuda_api!(@refuse no_such_handle $parameters) };
    (@body no_such_value $parameters:tt) => { cuda_api!(@refuse no_such_value $parameters) };
    (@body no_graphics $parameters:tt) => { cuda_api!(@refuse no_graphics $parameters) };
    (@body no_system_support $parameters:tt) => { cuda_api!(@refuse no_system_support $parameters) };
    (@refuse $why:ident ($($parameter:ident),*)) => {
        $crate::guard::refuse(
            &CALL,
            &[$((stringify!($parameter), &$parameter as &dyn $crate::guard::Traced)),*],
            cuda_api!(@result $why),
        )
    };
    (@body $serve:ident ($($parameter:ident),*)) => {
        $crate::guard::enter(
            &CALL,
            &[$((stringify!($parameter), &$parameter as &dyn $crate::guard::Traced)),*],
            || $serve(
                &CALL,
                $(
                    // SAFETY: the caller of an entry point guarantees that its pointers are valid.
                    unsafe { $crate::convert::FromAbi::from_abi($parameter, &CALL) }?,
                )*
            ),
        )
    };

    (@status (refuses $serve:ident)) => { $crate::api::Status::Refuses };
    (@status unsupported) => { $crate::api::Status::Fails(cuda_api!(@result unsupported)) };
    (@status no_such_handle) => { $crate::api::Status::Fails(cuda_api!(@result no_such_handle)) };
    (@status no_such_value) => { $crate::api::Status::Fails(cuda_api!(@result no_such_value)) };
    (@status no_graphics) => { $crate::api::Status::Fails(cuda_api!(@result no_graphics)) };
    (@status no_system_support) => { $crate::api::Status::Fails(cuda_api!(@result no_system_support)) };
    (@status $serve:ident) => { $crate::api::Status::Works };
    (@result unsupported) => { $crate::CuResult::NOT_SUPPORTED };
    (@result no_such_handle) => { $crate::CuResult::INVALID_HANDLE };
    (@result no_such_value) => { $crate::CuResult::INVALID_VALUE };
    (@result no_graphics) => { $crate::CuResult::INVALID_GRAPHICS_CONTEXT };
    (@result no_system_support) => { $crate::CuResult::OPERATING_SYSTEM };
    (@stream []) => { $crate::guard::DefaultStream::Legacy };
    (@stream [$suffix:ident]) => { $crate::guard::DefaultStream::PerThread };
}
use cuda_api;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_lose_version_and_stream_suffix() {
        let symbol = |export: &str| {
            api_rows()
                .find(|row| row.export == export)
                .map(ApiRow::symbol)
        };
        assert_eq!(symbol("cuInit"), Some("cuInit"));
        assert_eq!(symbol("cuMemcpyHtoD_v2_ptds"), Some("cuMemcpyHtoD"));
        assert_eq!(symbol("cuCtxCreate_v4"), Some("cuCtxCreate"));
        assert_eq!(symbol("cuLaunchKernel_ptsz"), Some("cuLaunchKernel"));
    }
}
