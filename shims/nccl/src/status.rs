//! The results of NCCL's functions, and the text of the last error.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

/// An `ncclResult_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) i32);

impl Status {
    /// The call succeeded.
    pub(crate) const SUCCESS: Status = Status(0);
    /// A function of the driver failed.
    pub(crate) const CUDA: Status = Status(1);
    /// A function of the system failed.
    pub(crate) const SYSTEM: Status = Status(2);
    /// The library failed.
    pub(crate) const INTERNAL: Status = Status(3);
    /// An argument is wrong.
    pub(crate) const INVALID_ARGUMENT: Status = Status(4);
    /// The call is wrong at this point, or is unsupported.
    pub(crate) const INVALID_USAGE: Status = Status(5);
    /// The work has not ended.
    pub(crate) const IN_PROGRESS: Status = Status(7);

    /// Returns the text for `ncclGetErrorString`.
    pub(crate) fn text(self) -> &'static CStr {
        match self.0 {
            0 => c"no error",
            1 => c"unhandled cuda error",
            2 => c"unhandled system error",
            3 => c"internal error",
            4 => c"invalid argument",
            5 => c"invalid usage",
            6 => c"remote process exited or there was a network error",
            7 => c"NCCL operation in progress",
            8 => c"NCCL operation timed out",
            _ => c"unknown result code",
        }
    }
}

/// The result of a call.
pub(crate) type Outcome<T = ()> = Result<T, Status>;

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Keeps the text of an error for `ncclGetLastError`, prints it if the variable `NCCL_DEBUG` asks for warnings, and
/// returns the status.
pub(crate) fn failure(status: Status, text: &str) -> Status {
    if std::env::var_os("NCCL_DEBUG").is_some_and(|level| level != "VERSION") {
        eprintln!("NCCL WARN (Margay) {text}");
    }
    let kept = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // A thread that ends has no last error.
    let _ = LAST.try_with(|last| *last.borrow_mut() = kept);
    status
}

/// Returns the text of the calling thread's last error. It is valid until the thread's next error.
pub(crate) fn last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

/// Returns an error unless a condition holds.
pub(crate) fn need(holds: bool, text: &str) -> Outcome {
    match holds {
        true => Ok(()),
        false => Err(failure(Status::INVALID_ARGUMENT, text)),
    }
}
