//! The table of the driver interface: every export, from one list.
//!
//! A row names the exports that share a signature, each with the CUDA version that introduced
//! it and, for the variants whose default stream is the thread's own, `ptds` or `ptsz`; then the
//! parameters with their C types; then the function of [`crate::serve`] that answers, or what is answered where there
//! is nothing behind it: `unsupported`, or the code that the documentation has for that function: `no_such_handle`
//! where no handle can be a valid one, `no_such_value`, `no_graphics`, `no_system_support`.
//!
//! ```text
//! cuMemsetD8_v2 3020,
//! cuMemsetD8_v2_ptds 7000 ptds:
//!     (dst_device: CUdeviceptr, uc: c_uchar, n: usize) => memset_d8;
//! ```
//!
//! From a row come the exported function with its guard, argument conversion and trace
//! ([`crate::guard`], [`crate::convert`]), the answer of `cuGetProcAddress`
//! ([`crate::procaddress`]) and the support table ([`api_rows`]). The tables of this folder are
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
pub mod stream;
pub mod virtual_memory;

use std::ffi::c_void;

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
    /// Whether there is an implementation behind it.
    pub served: bool,
    address: *const c_void,
}

// SAFETY: the address is that of a function; nothing is written through it.
unsafe impl Sync for ApiRow {}
// SAFETY: as above.
unsafe impl Send for ApiRow {}

impl ApiRow {
    /// The function's address.
    pub fn address(&self) -> *const c_void {
        self.address
    }

    /// The name under which `cuGetProcAddress` knows it: the export without version and stream
    /// suffix.
    pub fn symbol(&self) -> &'static str {
        symbol_of(self.export)
    }
}

/// An export's name without version and stream suffix.
pub(crate) fn symbol_of(export: &str) -> &str {
    let name = export
        .strip_suffix("_ptds")
        .or_else(|| export.strip_suffix("_ptsz"))
        .unwrap_or(export);
    match name.rsplit_once("_v") {
        Some((base, version)) if version.len() == 1 => base,
        _ => name,
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
    ($( $($name:ident $since:literal $($suffix:ident)?),+ : $parameters:tt => $serve:ident; )*) => {
        $($(
            cuda_api!(@export $name [$($suffix)?] $parameters $serve);
        )+)*

        pub(super) static ROWS: &[$crate::api::ApiRow] = &[
            $($(
                $crate::api::ApiRow {
                    export: stringify!($name),
                    since: $since,
                    stream_suffix: concat!($(stringify!($suffix))?),
                    parameters: stringify!($parameters),
                    served: cuda_api!(@served $serve),
                    address: $name as *const std::ffi::c_void,
                },
            )+)*
        ];
    };

    (@export $name:ident $suffix:tt ($($parameter:ident: $type:ty),*) $serve:ident) => {
        #[doc = concat!("Driver entry point `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// Pointers are null or valid for what the CUDA documentation says of this function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($parameter: $type),*) -> $crate::CuResult {
            static CALL: $crate::guard::Call =
                $crate::guard::Call::new(stringify!($name), cuda_api!(@stream $suffix));
            cuda_api!(@body $serve ($($parameter),*))
        }
    };

    (@body unsupported ($($parameter:ident),*)) => {
        $crate::guard::unsupported(
            &CALL,
            &[$((stringify!($parameter), &$parameter as &dyn $crate::guard::Traced)),*],
        )
    };
    (@body no_such_handle ($($parameter:ident),*)) => {
        $crate::guard::refuse(
            &CALL,
            &[$((stringify!($parameter), &$parameter as &dyn $crate::guard::Traced)),*],
            $crate::CuResult::INVALID_HANDLE,
        )
    };
    (@body no_such_value ($($parameter:ident),*)) => {
        $crate::guard::refuse(
            &CALL,
            &[$((stringify!($parameter), &$parameter as &dyn $crate::guard::Traced)),*],
            $crate::CuResult::INVALID_VALUE,
        )
    };
    (@body no_graphics ($($parameter:ident),*)) => {
        $crate::guard::refuse(
            &CALL,
            &[$((stringify!($parameter), &$parameter as &dyn $crate::guard::Traced)),*],
            $crate::CuResult::INVALID_GRAPHICS_CONTEXT,
        )
    };
    (@body no_system_support ($($parameter:ident),*)) => {
        $crate::guard::refuse(
            &CALL,
            &[$((stringify!($parameter), &$parameter as &dyn $crate::guard::Traced)),*],
            $crate::CuResult::OPERATING_SYSTEM,
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

    (@served unsupported) => { false };
    (@served no_such_handle) => { false };
    (@served no_such_value) => { false };
    (@served no_graphics) => { false };
    (@served no_system_support) => { false };
    (@served $serve:ident) => { true };
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
