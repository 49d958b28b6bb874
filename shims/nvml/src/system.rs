//! The functions that are not specific to a device.
#![allow(non_snake_case, reason = "the names are NVIDIA's")]

use std::ffi::{c_char, c_int, c_uint};

use crate::answer::{give, give_text};
use crate::facts::Facts;
use crate::processes;
use crate::state::{Code, begin, end, serve};

/// Initialises the library. Each call needs a matching [`nvmlShutdown`].
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

/// Ends one use of the library. Each call of this function matches one call of [`nvmlInit_v2`].
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
/// `version` is null or points to memory for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> c_int {
    // SAFETY: the caller guarantees the buffer.
    serve(|| unsafe { give_text(version, length, &Facts::of(0).driver_version()) }).0
}

/// Returns the library's version as text: the major CUDA version and the driver's version.
///
/// # Safety
/// `version` is null or points to memory for `length` bytes.
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

/// Returns the CUDA version: 13050 for 13.5.
///
/// # Safety
/// `version` is null or points to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) -> c_int {
    // SAFETY: the caller guarantees the memory.
    serve(|| unsafe { give(version, Facts::of(0).cuda_version()) }).0
}

/// Returns the CUDA version. This function is the second version of [`nvmlSystemGetCudaDriverVersion`].
///
/// # Safety
/// The conditions of [`nvmlSystemGetCudaDriverVersion`] apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) -> c_int {
    // SAFETY: the caller guarantees the memory.
    unsafe { nvmlSystemGetCudaDriverVersion(version) }
}

/// Returns the path of the program that a process runs.
///
/// # Safety
/// `name` is null or points to memory for `length` bytes.
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

/// Returns 0: there are no S-class units.
///
/// # Safety
/// `count` is null or points to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlUnitGetCount(count: *mut c_uint) -> c_int {
    // SAFETY: the caller guarantees the memory.
    serve(|| unsafe { give(count, 0) }).0
}
