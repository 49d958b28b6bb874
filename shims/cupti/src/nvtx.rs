//! The functions by which a client of NVTX finds `libcupti` (`NVTX_INJECTION64_PATH`). They pass the client to the driver
//! library, which receives the annotations.

use std::ffi::{c_int, c_void};

use margay_activity::interface::Outcome;

use crate::driver::{driver, symbol};
use crate::guarded;

type Initialise = unsafe extern "C" fn(*const c_void) -> c_int;

/// Gives the client of NVTX the driver library's functions. Returns 1, or 0 without Margay's driver library.
///
/// # Safety
/// `get` is the function of an NVTX client that its interface describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(get: *const c_void) -> c_int {
    let mut result = 0;
    guarded(|| {
        if get.is_null() {
            return Err(Outcome::INVALID_PARAMETER);
        }
        (driver()?.want_annotations)();
        let address = symbol(c"InitializeInjectionNvtx2").ok_or(Outcome::NOT_INITIALIZED)?;
        // SAFETY: the driver library's function has this type.
        let initialise = unsafe { std::mem::transmute::<*mut c_void, Initialise>(address) };
        // SAFETY: the caller guarantees the function.
        result = unsafe { initialise(get) };
        Ok(())
    });
    result
}

/// Does what [`InitializeInjectionNvtx2`] does.
///
/// # Safety
/// `get` is the function of an NVTX client that its interface describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiNvtxInitialize2(get: *const c_void) -> Outcome {
    // SAFETY: the caller guarantees the function.
    match unsafe { InitializeInjectionNvtx2(get) } {
        0 => Outcome::NOT_INITIALIZED,
        _ => Outcome::SUCCESS,
    }
}

/// The interface of NVTX 1 does not exist.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjectionNvtx(_get: *const c_void) -> c_int {
    0
}
