//! The statuses of cuBLAS, and the failures of calls.

use std::ffi::CStr;

/// A `cublasStatus_t`. Every number is valid, because programs pass statuses too.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) i32);

/// The name and the text of a number that is no status.
const UNKNOWN: &CStr = c"unrecognized status";

impl Status {
    /// The call succeeded.
    pub(crate) const SUCCESS: Status = Status(0);
    /// The handle is unknown, or there is no driver.
    pub(crate) const NOT_INITIALIZED: Status = Status(1);
    /// Memory is exhausted.
    pub(crate) const ALLOC_FAILED: Status = Status(3);
    /// An argument is wrong.
    pub(crate) const INVALID_VALUE: Status = Status(7);
    /// The device lacks a feature.
    pub(crate) const ARCH_MISMATCH: Status = Status(8);
    /// Device memory cannot be accessed.
    pub(crate) const MAPPING_ERROR: Status = Status(11);
    /// The work could not be submitted, or failed.
    pub(crate) const EXECUTION_FAILED: Status = Status(13);
    /// Something else failed.
    pub(crate) const INTERNAL_ERROR: Status = Status(14);
    /// The library lacks a feature.
    pub(crate) const NOT_SUPPORTED: Status = Status(15);
    /// A license is missing.
    pub(crate) const LICENSE_ERROR: Status = Status(16);

    /// Returns the constant's name in NVIDIA's headers.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Status::SUCCESS => c"CUBLAS_STATUS_SUCCESS",
            Status::NOT_INITIALIZED => c"CUBLAS_STATUS_NOT_INITIALIZED",
            Status::ALLOC_FAILED => c"CUBLAS_STATUS_ALLOC_FAILED",
            Status::INVALID_VALUE => c"CUBLAS_STATUS_INVALID_VALUE",
            Status::ARCH_MISMATCH => c"CUBLAS_STATUS_ARCH_MISMATCH",
            Status::MAPPING_ERROR => c"CUBLAS_STATUS_MAPPING_ERROR",
            Status::EXECUTION_FAILED => c"CUBLAS_STATUS_EXECUTION_FAILED",
            Status::INTERNAL_ERROR => c"CUBLAS_STATUS_INTERNAL_ERROR",
            Status::NOT_SUPPORTED => c"CUBLAS_STATUS_NOT_SUPPORTED",
            Status::LICENSE_ERROR => c"CUBLAS_STATUS_LICENSE_ERROR",
            _ => UNKNOWN,
        }
    }

    /// Returns a text for readers.
    pub(crate) fn text(self) -> &'static CStr {
        match self {
            Status::SUCCESS => c"success",
            Status::NOT_INITIALIZED => c"the library was not initialized",
            Status::ALLOC_FAILED => c"the resource allocation failed",
            Status::INVALID_VALUE => {
                c"an unsupported value or parameter was passed to the function"
            }
            Status::ARCH_MISMATCH => c"an absent device architectural feature is required",
            Status::MAPPING_ERROR => c"an access to GPU memory space failed",
            Status::EXECUTION_FAILED => c"the GPU program failed to execute",
            Status::INTERNAL_ERROR => c"an internal operation failed",
            Status::NOT_SUPPORTED => c"the functionality is not supported",
            Status::LICENSE_ERROR => c"the license check failed",
            _ => UNKNOWN,
        }
    }
}

/// Why a call failed: the status, and the number of the wrong parameter as BLAS counts (the first after the handle is 1;
/// 0 if the failure has no such parameter).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) parameter: u32,
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure {
            status,
            parameter: 0,
        }
    }
}

/// The result of a function of this crate.
pub(crate) type Outcome = Result<(), Failure>;

/// Returns `INVALID_VALUE` for a parameter unless a condition holds.
pub(crate) fn need(condition: bool, parameter: u32) -> Outcome {
    match condition {
        true => Ok(()),
        false => Err(Failure {
            status: Status::INVALID_VALUE,
            parameter,
        }),
    }
}
