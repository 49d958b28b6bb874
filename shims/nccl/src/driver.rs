//! The driver library: the functions that this crate calls, and the table of native kernels ([`margay_native`]).

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::sync::OnceLock;

use margay_native::table::Library;
pub(crate) use margay_native::table::{Native, Range};

use crate::status::{Outcome, Status, failure};

macro_rules! functions {
    ($($field:ident $name:literal ($($kind:ty),*);)*) => {
        /// The functions of the driver library that this crate calls. Handles and addresses are numbers.
        pub(crate) struct Driver {
            $(pub(crate) $field: unsafe extern "C" fn($($kind),*) -> u32,)*
            pub(crate) native: &'static Native,
        }

        #[cfg_attr(test, allow(dead_code, reason = "tests have a driver of their own"))]
        fn load(library: Library, native: &'static Native) -> Option<Driver> {
            Some(Driver {
                $($field: {
                    let address = library.symbol($name)?;
                    // SAFETY: the driver library's function has this type.
                    unsafe { transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> u32>(address) }
                },)*
                native,
            })
        }
    };
}

functions! {
    init c"cuInit" (u32);
    device_count c"cuDeviceGetCount" (*mut c_int);
    context c"cuCtxGetCurrent" (*mut usize);
    set_context c"cuCtxSetCurrent" (usize);
    device c"cuCtxGetDevice" (*mut c_int);
    retain_primary c"cuDevicePrimaryCtxRetain" (*mut usize, c_int);
    register c"cuMemHostRegister_v2" (usize, usize, u32);
    unregister c"cuMemHostUnregister" (usize);
    wait_value c"cuStreamWaitValue32_v2" (usize, usize, u32, u32);
    capture_info c"cuStreamGetCaptureInfo_v2" (usize, *mut u32, *mut u64, usize, usize, usize);
    create_event c"cuEventCreate" (*mut usize, u32);
    record_event c"cuEventRecord" (usize, usize);
    wait_event c"cuStreamWaitEvent" (usize, usize, u32);
    query_event c"cuEventQuery" (usize);
    destroy_event c"cuEventDestroy_v2" (usize);
    alloc c"cuMemAlloc_v2" (*mut usize, usize);
    free c"cuMemFree_v2" (usize);
}

/// Makes a context current until it is dropped.
pub(crate) struct Entered {
    driver: &'static Driver,
    before: usize,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // SAFETY: the function accepts all numbers. If the context is gone, no context is current.
        let _ = unsafe { (self.driver.set_context)(self.before) };
    }
}

impl Driver {
    /// Makes `context` current until the returned value is dropped.
    pub(crate) fn enter(&'static self, context: usize) -> Outcome<Entered> {
        let before = self.current()?;
        // SAFETY: the function accepts all numbers.
        checked(unsafe { (self.set_context)(context) }, "cuCtxSetCurrent")?;
        Ok(Entered {
            driver: self,
            before,
        })
    }

    /// Returns the current context; 0 if there is none.
    pub(crate) fn current(&self) -> Outcome<usize> {
        let mut context = 0;
        // SAFETY: the variable is valid.
        let code = unsafe { (self.context)(&raw mut context) };
        checked(code, "cuCtxGetCurrent")?;
        Ok(context)
    }

    /// Returns the primary context of a device.
    pub(crate) fn primary(&self, device: i32) -> Outcome<usize> {
        let mut context = 0;
        // SAFETY: the variable is valid, and the driver checks the device.
        let code = unsafe { (self.retain_primary)(&raw mut context, device) };
        checked(code, "cuDevicePrimaryCtxRetain")?;
        Ok(context)
    }

    /// Returns a number that differs between the captures of streams, and is 0 for a stream that is not captured.
    pub(crate) fn capture(&self, stream: usize) -> Outcome<u64> {
        const ACTIVE: u32 = 1;
        let (mut status, mut capture) = (0, 0);
        // SAFETY: the variables are valid, the other results may be null, and the driver checks the stream.
        let code =
            unsafe { (self.capture_info)(stream, &raw mut status, &raw mut capture, 0, 0, 0) };
        checked(code, "cuStreamGetCaptureInfo")?;
        Ok(if status == ACTIVE { capture.max(1) } else { 0 })
    }

    /// Makes a stream wait until the word at `address` is `value`.
    pub(crate) fn wait_for(&self, stream: usize, address: usize, value: u32) -> Outcome {
        const EQUAL: u32 = 1;
        // SAFETY: the driver checks the stream and the address.
        let code = unsafe { (self.wait_value)(stream, address, value, EQUAL) };
        checked(code, "cuStreamWaitValue32")
    }

    /// Whether a range is memory that kernels may access.
    pub(crate) fn is_accessible(&self, address: usize, bytes: usize) -> bool {
        // SAFETY: the function accepts all numbers.
        bytes == 0
            || matches!(
                unsafe { (self.native.memory)(address as *const c_void, bytes) },
                1 | 2
            )
    }
}

/// Returns an error for a result of the driver.
pub(crate) fn checked(code: u32, function: &str) -> Outcome {
    const INVALID_VALUE: u32 = 1;
    match code {
        0 => Ok(()),
        INVALID_VALUE => {
            let text = format!("the driver's {function} does not accept an argument");
            Err(failure(Status::INVALID_ARGUMENT, &text))
        }
        _ => {
            let text = format!("the driver's {function} returned {code}");
            Err(failure(Status::CUDA, &text))
        }
    }
}

/// Returns the driver library.
///
/// # Errors
/// `CUDA` if no driver library is found, or one without native kernels. The next call tries again.
pub(crate) fn driver() -> Outcome<&'static Driver> {
    static FOUND: OnceLock<Driver> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found);
    }
    #[cfg(test)]
    let found = Some(crate::fake::driver());
    #[cfg(not(test))]
    let found = find();
    let missing = || failure(Status::CUDA, "Margay's driver library is not found");
    let found = found.ok_or_else(missing)?;
    // SAFETY: the function accepts all numbers.
    checked(unsafe { (found.init)(0) }, "cuInit")?;
    Ok(FOUND.get_or_init(|| found))
}

#[cfg_attr(test, allow(dead_code, reason = "tests have a driver of their own"))]
fn find() -> Option<Driver> {
    let library = Library::find()?;
    load(library, library.native()?)
}
