//! The driver library: the functions that this crate calls, and the table of native kernels.
//!
//! A native kernel is a function that the driver runs on its workers in the order of a stream (`runtime/src/native_kernel.rs`).
//! The driver returns the table of functions for native kernels for the identifier [`TABLE`].

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::sync::OnceLock;

use crate::status::{Outcome, Status, failure};

/// The identifier of the table of native kernels.
const TABLE: [u8; 16] = *b"MargayNativeKern";
/// The version of the table's layout.
const VERSION: usize = 1;

/// A range of memory that a native kernel accesses.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    pub(crate) writes: u32,
    pub(crate) pad: u32,
}

/// A native kernel: `tasks` calls of `run`. The driver calls `drop` once, also if it does not accept the kernel.
#[repr(C)]
pub(crate) struct Kernel {
    pub(crate) size: usize,
    pub(crate) name: *const c_char,
    pub(crate) context: *mut c_void,
    pub(crate) tasks: u32,
    pub(crate) pad: u32,
    pub(crate) run: extern "C" fn(*mut c_void, u32) -> u32,
    pub(crate) drop: Option<extern "C" fn(*mut c_void)>,
    pub(crate) ranges: *const Range,
    pub(crate) range_count: usize,
}

/// The table of native kernels.
#[repr(C)]
pub(crate) struct Native {
    pub(crate) size: usize,
    pub(crate) version: usize,
    /// Submits a kernel to a stream.
    pub(crate) launch: unsafe extern "C" fn(usize, u32, *const Kernel) -> u32,
    /// Says what a range is: 0 other memory, 1 device or managed memory, 2 registered host memory, 3 not inside one.
    pub(crate) memory: unsafe extern "C" fn(usize, usize) -> u32,
    /// Returns the number of workers.
    pub(crate) workers: extern "C" fn() -> u32,
}

macro_rules! functions {
    ($($field:ident $name:literal ($($kind:ty),*);)*) => {
        /// The functions of the driver library that this crate calls. Handles and addresses are numbers.
        pub(crate) struct Driver {
            $(pub(crate) $field: unsafe extern "C" fn($($kind),*) -> u32,)*
            pub(crate) native: &'static Native,
        }

        #[cfg_attr(test, allow(dead_code, reason = "tests have a driver of their own"))]
        fn load(library: *mut c_void, native: &'static Native) -> Option<Driver> {
            Some(Driver {
                $($field: {
                    let address = symbol(library, $name)?;
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
        bytes == 0 || matches!(unsafe { (self.native.memory)(address, bytes) }, 1 | 2)
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

type GetExportTable = unsafe extern "C" fn(*mut *const c_void, *const [u8; 16]) -> c_int;

#[cfg_attr(test, allow(dead_code, reason = "tests have a driver of their own"))]
fn find() -> Option<Driver> {
    let library = library()?;
    let address = symbol(library, c"cuGetExportTable")?;
    // SAFETY: the driver library's function has this type.
    let get = unsafe { transmute::<*mut c_void, GetExportTable>(address) };
    let (mut table, id) = (std::ptr::null(), TABLE);
    // SAFETY: both arguments are valid during the call.
    let code = unsafe { get(&raw mut table, &raw const id) };
    if code != 0 || table.is_null() {
        return None;
    }
    // SAFETY: a table with this identifier begins with its size and its version, and is never freed.
    let [size, version] = unsafe { table.cast::<[usize; 2]>().read() };
    if size < size_of::<Native>() || version != VERSION {
        return None;
    }
    // SAFETY: the table has the layout of this version.
    load(library, unsafe { &*table.cast::<Native>() })
}

/// Returns a handle for `dlsym`: that of all libraries that the program can see if one of them is the driver, else that
/// of the driver library, which is loaded if necessary.
#[cfg_attr(test, allow(dead_code, reason = "tests have a driver of their own"))]
fn library() -> Option<*mut c_void> {
    if symbol(libc::RTLD_DEFAULT, c"cuGetExportTable").is_some() {
        return Some(libc::RTLD_DEFAULT);
    }
    const LIBRARY: *const c_char = c"libcuda.so.1".as_ptr();
    // SAFETY: the name is a C string.
    let library = unsafe { libc::dlopen(LIBRARY, libc::RTLD_NOW | libc::RTLD_LOCAL) };
    (!library.is_null()).then_some(library)
}

#[cfg_attr(test, allow(dead_code, reason = "tests have a driver of their own"))]
fn symbol(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the handle belongs to a loaded library or is one of the special handles, and the name is a C string.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
