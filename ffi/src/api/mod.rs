//! The table of the driver interface: every export, from one list.
//!
//! A row names the exports that share a signature, each with the CUDA version that introduced
//! it and, for the variants whose default stream is the thread's own, `ptds` or `ptsz`; then the
//! parameters with their C types; then the function of [`crate::serve`] that implements it. `(refuses function)` names a
//! function that checks its arguments and can never succeed. Without a function the row names the result: `unsupported`,
//! or the one that CUDA documents for a missing feature: `no_such_handle` where no handle is valid, `no_such_value`,
//! `no_graphics`, `no_system_support`. [`Status`] is the difference, and `tests/support_table.rs` calls what a row
//! says cannot succeed.
//!
//! ```text
//! cuMemsetD8_v2 3020,
//! cuMemsetD8_v2_ptds 7000 ptds:
//!     (dst_device: CUdeviceptr, uc: c_uchar, n: usize) => memset_d8;
//! ```
//!
//! From a row come the exported function with its guard, argument conversion and trace
//! ([`crate::guard`], [`crate::convert`]), the answer of `cuGetProcAddress`
//! ([`procaddress`]) and the support table ([`api_rows`]). The tables of this folder are
//! the families of one list.
//!
//! Invariant: the library exports exactly the rows of this table.

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

/// What a caller can expect of an entry point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It is implemented: correct arguments succeed.
    Works,
    /// It is implemented as far as errors go: every call fails with a result that depends on the arguments.
    Refuses,
    /// There is no implementation: every call fails with this result.
    Fails(CuResult),
}

/// One exported entry point.
#[derive(Debug)]
pub struct ApiRow {
    /// The exported name.
    pub export: &'static str,
    /// The version of CUDA that introduced it: 12050 for 12.5.
    pub since: u32,
    /// `""`, `"ptds"` or `"ptsz"`.
    pub stream_suffix: &'static str,
    /// The parameters as written in the table.
    pub parameters: &'static str,
    /// Whether it can succeed, and what it answers if not.
    pub status: Status,
    address: *const c_void,
}

// SAFETY: the address is that of a function; nothing is written through it.
unsafe impl Sync for ApiRow {}
// SAFETY: as above.
unsafe impl Send for ApiRow {}

impl ApiRow {
    /// Whether a function of [`crate::serve`] is behind it.
    pub fn is_implemented(&self) -> bool {
        !matches!(self.status, Status::Fails(_))
    }

    /// The function's address.
    pub fn address(&self) -> *const c_void {
        self.address
    }

    /// The name under which `cuGetProcAddress` knows it: the export without version and stream
    /// suffix.
    pub fn symbol(&self) -> &'static str {
        crate::guard::symbol_of(self.export)
    }
}

/// All families.
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

/// The families of the interface with their rows.
pub fn families() -> impl Iterator<Item = (&'static str, &'static [ApiRow])> {
    FAMILIES.iter().copied()
}

/// Every export.
pub fn api_rows() -> impl Iterator<Item = &'static ApiRow> {
    FAMILIES.iter().flat_map(|(_, rows)| rows.iter())
}

/// Declares a family: `ROWS` and the exported functions. See the module's documentation.
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
        /// Pointers are null or valid for what the CUDA documentation says of this function.
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
                    // SAFETY: the caller of an entry point vouches for its pointers.
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
