//! The initialisation state of the library, and its result codes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use margay::cancellation::Disabled;

/// A result code (`nvmlReturn_t`).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub i32);

macro_rules! codes {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl Code {
            $(#[doc = $text] pub const $name: Code = Code($number);)*

            /// Returns a text that describes the result code.
            pub(crate) fn text(self) -> &'static std::ffi::CStr {
                match self.0 {
                    $($number => {
                        const TEXT: &str = concat!($text, "\0");
                        match std::ffi::CStr::from_bytes_with_nul(TEXT.as_bytes()) {
                            Ok(text) => text,
                            Err(_) => c"",
                        }
                    })*
                    _ => c"Unknown Error",
                }
            }
        }
    };
}

codes! {
    SUCCESS = 0, "Success";
    UNINITIALIZED = 1, "Uninitialized";
    INVALID_ARGUMENT = 2, "Invalid Argument";
    NOT_SUPPORTED = 3, "Not Supported";
    NO_PERMISSION = 4, "Insufficient Permissions";
    ALREADY_INITIALIZED = 5, "Already Initialized";
    NOT_FOUND = 6, "Not Found";
    INSUFFICIENT_SIZE = 7, "Insufficient Size";
    INSUFFICIENT_POWER = 8, "Insufficient External Power";
    DRIVER_NOT_LOADED = 9, "Driver Not Loaded";
    TIMEOUT = 10, "Timeout";
    IRQ_ISSUE = 11, "Interrupt Request Issue";
    LIBRARY_NOT_FOUND = 12, "NVML Shared Library Not Found";
    FUNCTION_NOT_FOUND = 13, "Function Not Found";
    CORRUPTED_INFOROM = 14, "Corrupted infoROM";
    GPU_IS_LOST = 15, "GPU is lost";
    RESET_REQUIRED = 16, "GPU requires reset";
    OPERATING_SYSTEM = 17, "GPU access blocked by the operating system";
    LIB_RM_VERSION_MISMATCH = 18, "Driver/library version mismatch";
    IN_USE = 19, "In use by another client";
    MEMORY = 20, "Insufficient Memory";
    NO_DATA = 21, "No data";
    VGPU_ECC_NOT_SUPPORTED = 22, "ECC not supported for vGPU";
    INSUFFICIENT_RESOURCES = 23, "Insufficient resources";
    FREQ_NOT_SUPPORTED = 24, "Frequency not supported";
    ARGUMENT_VERSION_MISMATCH = 25, "Argument version mismatch";
    DEPRECATED = 26, "Deprecated function";
    NOT_READY = 27, "Not ready";
    GPU_NOT_FOUND = 28, "GPU not found";
    INVALID_STATE = 29, "Invalid state";
    RESET_TYPE_NOT_SUPPORTED = 30, "Reset type not supported";
    UNKNOWN = 999, "Unknown Error";
}

/// The result of the body of an NVML function.
pub(crate) type Answer = Result<(), Code>;

/// The number of calls that have initialised the library minus the number of calls of `nvmlShutdown`.
static USERS: AtomicU32 = AtomicU32::new(0);

/// Counts an initialisation.
pub(crate) fn begin() {
    USERS.fetch_add(1, Ordering::AcqRel);
}

/// Decrements [`USERS`]. Returns `UNINITIALIZED` if the library is not initialised.
pub(crate) fn end() -> Answer {
    USERS
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |users| {
            users.checked_sub(1)
        })
        .map(drop)
        .map_err(|_| Code::UNINITIALIZED)
}

/// Runs the body of an NVML function that requires an initialised library, and converts a panic to
/// the result code `UNKNOWN`. Other threads cannot cancel this thread (`pthread_cancel`) while the
/// body runs.
pub(crate) fn serve(body: impl FnOnce() -> Answer) -> Code {
    if USERS.load(Ordering::Acquire) == 0 {
        return Code::UNINITIALIZED;
    }
    let _uncancelled = Disabled::begin();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Code::SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => Code::UNKNOWN,
    }
}

/// Returns the result of a function for a feature that the devices do not have.
pub(crate) fn refuse() -> Code {
    serve(|| Err(Code::NOT_SUPPORTED))
}
