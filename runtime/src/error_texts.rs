//! Errors of the device runtime: numbers, names and texts of `cudaError_t`.

use std::ffi::CStr;

/// A `cudaError_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CudaError(pub(crate) u32);

/// The result of a device runtime call: nothing, or an error.
pub(crate) type Answer = Result<(), CudaError>;

macro_rules! errors {
    ($($constant:ident $number:literal $name:literal $text:literal;)*) => {
        impl CudaError {
            $(pub(crate) const $constant: CudaError = CudaError($number);)*
        }

        static ALL: &[(u32, &CStr, &CStr)] = &[$(($number, $name, $text),)*];
    };
}

errors! {
    SUCCESS 0 c"cudaSuccess" c"no error";
    INVALID_VALUE 1 c"cudaErrorInvalidValue" c"invalid argument";
    MEMORY_ALLOCATION 2 c"cudaErrorMemoryAllocation" c"out of memory";
    INVALID_CONFIGURATION 9 c"cudaErrorInvalidConfiguration" c"invalid configuration argument";
    INVALID_PITCH 12 c"cudaErrorInvalidPitchValue" c"invalid pitch argument";
    INVALID_DIRECTION 21 c"cudaErrorInvalidMemcpyDirection" c"invalid copy direction for memcpy";
    MAX_DEPTH 65 c"cudaErrorLaunchMaxDepthExceeded" c"launch would exceed maximum depth of nested launches";
    PENDING_COUNT 69 c"cudaErrorLaunchPendingCountExceeded" c"launch would exceed the number of pending launches";
    INVALID_FUNCTION 98 c"cudaErrorInvalidDeviceFunction" c"invalid device function";
    INVALID_DEVICE 101 c"cudaErrorInvalidDevice" c"invalid device ordinal";
    INVALID_HANDLE 400 c"cudaErrorInvalidResourceHandle" c"invalid resource handle";
    OUT_OF_RESOURCES 701 c"cudaErrorLaunchOutOfResources" c"too many resources requested for launch";
    NOT_SUPPORTED 801 c"cudaErrorNotSupported" c"operation not supported";
    UNKNOWN 999 c"cudaErrorUnknown" c"unknown error";
}

impl CudaError {
    /// Returns the device runtime's error that corresponds to an error of this crate.
    pub(crate) fn of(error: &crate::Error) -> CudaError {
        use crate::Error as E;
        match error {
            E::InvalidValue(_) => CudaError::INVALID_CONFIGURATION,
            E::LaunchOutOfResources(_) => CudaError::OUT_OF_RESOURCES,
            E::NotFound(_) => CudaError::INVALID_FUNCTION,
            E::InvalidHandle(_) => CudaError::INVALID_HANDLE,
            E::UnsupportedLimit(_) => CudaError::NOT_SUPPORTED,
            _ => CudaError::UNKNOWN,
        }
    }
}

fn row(number: u32) -> Option<&'static (u32, &'static CStr, &'static CStr)> {
    ALL.iter().find(|(known, ..)| *known == number)
}

/// The name and the text of every error number that is not in the table.
static UNRECOGNIZED: &CStr = c"unrecognized error code";

/// Returns whether `bytes` bytes at an address are inside an error's name or text. Device code
/// receives the addresses of names and texts from the device runtime, and is allowed to read these
/// bytes.
pub(crate) fn holds(address: u64, bytes: u64) -> bool {
    let texts = ALL.iter().flat_map(|&(_, name, text)| [name, text]);
    texts.chain([UNRECOGNIZED]).any(|text| {
        let offset = address.wrapping_sub(text.as_ptr() as u64);
        let len = text.count_bytes() as u64 + 1;
        offset < len && bytes <= len - offset
    })
}

/// Returns the name of an error, or a general text for an unknown number.
pub(crate) fn name(number: u32) -> &'static CStr {
    row(number).map_or(UNRECOGNIZED, |(_, name, _)| name)
}

/// Returns the text of an error, or a general text for an unknown number.
pub(crate) fn text(number: u32) -> &'static CStr {
    row(number).map_or(UNRECOGNIZED, |(.., text)| text)
}
