//! The legacy interface (`cublas.h`): one implicit handle, options as letters, and a status that the program asks for.

use std::ffi::c_char;

use parking_lot::Mutex;

use crate::driver::{driver, status_of};
use crate::handle::Settings;
use crate::host;
use crate::status::{Outcome, Status, need};

/// The state of the interface.
#[derive(Default)]
struct State {
    /// The settings between `cublasInit` and `cublasShutdown`.
    settings: Option<Settings>,
    /// The first failure since the last question.
    failure: Option<Status>,
}

static STATE: Mutex<State> = Mutex::new(State {
    settings: None,
    failure: None,
});

/// A number that is no value of an option.
const UNKNOWN: i32 = -1;

macro_rules! options {
    ($($name:ident: $($letters:pat => $value:literal),*;)*) => {$(
        /// Returns the value of an option for a letter.
        pub(crate) fn $name(letter: c_char) -> i32 {
            match letter.cast_unsigned() {
                $($letters => $value,)*
                _ => UNKNOWN,
            }
        }
    )*};
}

options! {
    op: b'N' | b'n' => 0, b'T' | b't' => 1, b'C' | b'c' => 2;
    uplo: b'L' | b'l' => 0, b'U' | b'u' => 1;
    side: b'L' | b'l' => 0, b'R' | b'r' => 1;
    diag: b'N' | b'n' => 0, b'U' | b'u' => 1;
}

/// Returns the settings of the implicit handle.
///
/// # Errors
/// `NOT_INITIALIZED` before `cublasInit`.
pub(crate) fn settings() -> Result<Settings, Status> {
    STATE.lock().settings.ok_or(Status::NOT_INITIALIZED)
}

/// Keeps the status of a call for `cublasGetError`.
pub(crate) fn record(status: Status) {
    if status != Status::SUCCESS {
        STATE.lock().failure.get_or_insert(status);
    }
}

/// `cublasInit`.
///
/// # Safety
/// None. The same holds for the other functions of this module.
pub(crate) unsafe fn init() -> Outcome {
    let started = driver().and_then(|driver| driver.enter(0));
    if let Err(status) = started {
        record(status);
        return Err(status.into());
    }
    STATE.lock().settings.get_or_insert_default();
    Ok(())
}

/// `cublasShutdown`.
pub(crate) unsafe fn shutdown() -> Outcome {
    STATE.lock().settings = None;
    Ok(())
}

/// `cublasGetError`: returns the first failure since the last call.
pub(crate) unsafe fn error() -> Outcome {
    let failure = STATE.lock().failure.take();
    failure.map_or(Ok(()), |failure| Err(failure.into()))
}

/// `cublasSetKernelStream`.
pub(crate) unsafe fn set_stream(stream: usize) -> Outcome {
    let mut state = STATE.lock();
    let settings = state.settings.as_mut().ok_or(Status::NOT_INITIALIZED)?;
    settings.stream = stream;
    Ok(())
}

/// `cublasAlloc`.
pub(crate) unsafe fn alloc(n: i32, size: i32, place: *mut usize) -> Outcome {
    settings()?;
    need(n > 0 && size > 0, 0)?;
    need(host::read(place.cast_const()).is_some(), 0)?;
    let driver = driver()?;
    driver.enter(0)?;
    let (mut address, bytes) = (0, n as usize * size as usize);
    // SAFETY: the variable is valid.
    let allocated = status_of(unsafe { (driver.alloc)(&raw mut address, bytes) });
    allocated.map_err(|_| Status::ALLOC_FAILED)?;
    need(host::write(place, address).is_some(), 0)
}

/// `cublasFree`.
pub(crate) unsafe fn free(address: usize) -> Outcome {
    settings()?;
    if address == 0 {
        return Ok(());
    }
    let driver = driver()?;
    driver.enter(0)?;
    // SAFETY: the driver checks the address.
    status_of(unsafe { (driver.free)(address) }).map_err(|_| Status::INTERNAL_ERROR.into())
}
