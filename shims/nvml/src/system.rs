//! The NVML functions that do not concern a certain device.
#![allow(non_snake_case, reason = "the names are NVIDIA's")]

use std::ffi::{c_char, c_int, c_uint};

use crate::answer::{give, give_text};
use crate::facts::Facts;
use crate::processes;
use crate::state::{Code, begin, end, serve};

/// Initialises the library. For each call, the program must call [`nvmlShutdown`] once.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_int {
    begin();
    Code::SUCCESS.0
}

/// Initialises the library. This function is the first version of [`nvmlInit_v2`].
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit() -> c_int {
    nvmlInit_v2()
}

/// Initialises the library. The flags state that initialisation may succeed without devices. This library ignores the
/// flags, because it always has a device.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> c_int {
    nvmlInit_v2()
}

/// Ends one use of the library, which a call of [`nvmlInit_v2`] began. The library is initialised
/// until all uses have ended.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_int {
    end().map_or_else(|code| code.0, |()| Code::SUCCESS.0)
}

/// Returns the description of a result code.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(code: c_int) -> *const c_char {
    Code(code).text().as_ptr()
}

/// Returns the driver's version as text.
///
/// # Safety
/// `version` must be null or point to memory for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> c_int {
    // SAFETY: the caller guarantees the buffer.
    serve(|| unsafe { give_text(version, length, &Facts::of(0).driver_version()) }).0
}

/// Returns the library's version as text: the major CUDA version and the driver's version.
///
/// # Safety
/// `version` must be null or point to memory for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) -> c_int {
    serve(|| {
        let facts = Facts::of(0);
        let text = format!("{}.{}", facts.cuda_version() / 1000, facts.driver_version());
        // SAFETY: the caller guarantees the buffer.
        unsafe { give_text(version, length, &text) }
    })
    .0
}

/// Returns the CUDA version of the driver: 13050 for 13.5.
///
/// # Safety
/// `version` must be null or point to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) -> c_int {
    // SAFETY: the caller guarantees the memory.
    serve(|| unsafe { give(version, Facts::of(0).cuda_version()) }).0
}

/// Returns the CUDA version of the driver. This function is the second version of
/// [`nvmlSystemGetCudaDriverVersion`].
///
/// # Safety
/// The caller must satisfy the conditions of [`nvmlSystemGetCudaDriverVersion`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) -> c_int {
    // SAFETY: the caller guarantees the memory.
    unsafe { nvmlSystemGetCudaDriverVersion(version) }
}

/// Returns the path of the program that a process runs.
///
/// # Safety
/// `name` must be null or point to memory for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetProcessName(
    pid: c_uint,
    name: *mut c_char,
    length: c_uint,
) -> c_int {
    serve(|| {
        let text = processes::name(pid).ok_or(Code::NOT_FOUND)?;
        // SAFETY: the caller guarantees the buffer.
        unsafe { give_text(name, length, &text) }
    })
    .0
}

/// Returns 0, the number of S-class units (enclosures with several GPUs).
///
/// # Safety
/// `count` must be null or point to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlUnitGetCount(count: *mut c_uint) -> c_int {
    // SAFETY: the caller guarantees the memory.
    serve(|| unsafe { give(count, 0) }).0
}
