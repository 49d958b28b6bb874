//! Functions that concern no device.
#![allow(non_snake_case, reason = "the names are NVIDIA's")]

use std::ffi::{c_char, c_int, c_uint};

use crate::answer::{give, give_text};
use crate::facts::Facts;
use crate::processes;
use crate::state::{Code, begin, end, serve};

/// Begins a use of the library.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_int {
    begin();
    Code::SUCCESS.0
}

/// The same under its first name.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit() -> c_int {
    nvmlInit_v2()
}

/// The same; flags say that a machine may lack devices, which ours does not.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> c_int {
    nvmlInit_v2()
}

/// Ends a use of the library.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_int {
    end().map_or_else(|code| code.0, |()| Code::SUCCESS.0)
}

/// A result code in words.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(code: c_int) -> *const c_char {
    Code(code).text().as_ptr()
}

/// The driver's version.
///
/// # Safety
/// `version` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> c_int {
    // SAFETY: the caller's buffer.
    serve(|| unsafe { give_text(version, length, &Facts::of(0).driver_version()) }).0
}

/// The library's version: that of CUDA, and the driver's.
///
/// # Safety
/// `version` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) -> c_int {
    serve(|| {
        let facts = Facts::of(0);
        let text = format!("{}.{}", facts.cuda_version() / 1000, facts.driver_version());
        // SAFETY: the caller's buffer.
        unsafe { give_text(version, length, &text) }
    })
    .0
}

/// The version of CUDA, as 13050 for 13.5.
///
/// # Safety
/// `version` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) -> c_int {
    // SAFETY: the caller's place.
    serve(|| unsafe { give(version, Facts::of(0).cuda_version()) }).0
}

/// The same.
///
/// # Safety
/// As [`nvmlSystemGetCudaDriverVersion`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) -> c_int {
    // SAFETY: the caller's place.
    unsafe { nvmlSystemGetCudaDriverVersion(version) }
}

/// The file that a process runs.
///
/// # Safety
/// `name` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetProcessName(
    pid: c_uint,
    name: *mut c_char,
    length: c_uint,
) -> c_int {
    serve(|| {
        let text = processes::name(pid).ok_or(Code::NOT_FOUND)?;
        // SAFETY: the caller's buffer.
        unsafe { give_text(name, length, &text) }
    })
    .0
}

/// There are no S-class units.
///
/// # Safety
/// `count` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlUnitGetCount(count: *mut c_uint) -> c_int {
    // SAFETY: the caller's place.
    serve(|| unsafe { give(count, 0) }).0
}
