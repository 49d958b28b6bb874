//! Handles and their settings, versions, texts of statuses, and `cublasXerbla`.

use std::ffi::c_char;

use crate::call::Call;
use crate::driver::driver;
use crate::handle::{self, Owner, Settings};
use crate::host;
use crate::status::{Outcome, Status, need};

/// The versions of NVIDIA's libraries that this library stands for: cuBLAS (major, minor, patch) and the CUDA runtime.
const VERSIONS: [(usize, [i32; 3], usize); 2] = [(12, [12, 9, 3], 12080), (13, [13, 10, 0], 13000)];

/// Returns the parts of cuBLAS's version.
fn parts<const TOOLKIT: usize>() -> [i32; 3] {
    VERSIONS[usize::from(TOOLKIT == VERSIONS[1].0)].1
}

/// Returns cuBLAS's version as a number.
pub(crate) fn number<const TOOLKIT: usize>() -> i32 {
    let [major, minor, patch] = parts::<TOOLKIT>();
    major * 10_000 + minor * 100 + patch
}

/// Prints a line to standard error, unless `MARGAY_QUIET` is set.
pub(crate) fn complain(line: &str) {
    if std::env::var_os("MARGAY_QUIET").is_none() {
        eprintln!("{line}");
    }
}

/// `cublasCreate`.
///
/// # Safety
/// None: the place may be any address. The same holds for the other functions of this module.
pub(crate) unsafe fn create(place: *mut usize) -> Outcome {
    create_for(place, Owner::Cublas)
}

/// Creates a handle and stores it.
pub(crate) fn create_for(place: *mut usize, owner: Owner) -> Outcome {
    need(!place.is_null(), 0)?;
    let context = driver()?.enter(0)?;
    let handle = handle::create(owner, context);
    if host::write(place, handle).is_none() {
        handle::remove(handle, owner)?;
        return Err(Status::INVALID_VALUE.into());
    }
    Ok(())
}

/// `cublasDestroy`: waits for the work of the device, as NVIDIA's library does.
pub(crate) unsafe fn destroy(handle: usize) -> Outcome {
    handle::remove(handle, Owner::Cublas)?;
    if let Ok(driver) = driver() {
        // SAFETY: the function has no parameters. A failure of earlier work is not a failure of this call.
        let _ = unsafe { (driver.wait_context)() };
    }
    Ok(())
}

/// `cublasGetVersion`, which accepts any handle.
pub(crate) unsafe fn version<const TOOLKIT: usize>(_handle: usize, place: *mut i32) -> Outcome {
    need(host::write(place, number::<TOOLKIT>()).is_some(), 0)
}

/// `cublasGetVersion` of the legacy interface.
pub(crate) unsafe fn legacy_version<const TOOLKIT: usize>(place: *mut i32) -> Outcome {
    need(host::write(place, number::<TOOLKIT>()).is_some(), 0)
}

/// `cublasGetProperty`.
pub(crate) unsafe fn property<const TOOLKIT: usize>(kind: i32, place: *mut i32) -> Outcome {
    let part = usize::try_from(kind)
        .ok()
        .and_then(|kind| parts::<TOOLKIT>().get(kind).copied());
    let part = part.ok_or(Status::INVALID_VALUE)?;
    need(host::write(place, part).is_some(), 0)
}

/// `cublasGetCudartVersion`.
pub(crate) unsafe fn runtime_version<const TOOLKIT: usize>() -> usize {
    VERSIONS[usize::from(TOOLKIT == VERSIONS[1].0)].2
}

/// `cublasGetStatusName`.
pub(crate) unsafe fn status_name(status: i32) -> *const c_char {
    Status(status).name().as_ptr()
}

/// `cublasGetStatusString`.
pub(crate) unsafe fn status_string(status: i32) -> *const c_char {
    Status(status).text().as_ptr()
}

/// `cublasXerbla`: reports a wrong parameter.
pub(crate) unsafe fn xerbla(name: *const c_char, number: i32) {
    let name = host::read_text(name).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    complain(&format!(
        " ** On entry to {name} parameter number {number} had an illegal value"
    ));
}

/// `cublasSetWorkspace`. The workspace is not used.
pub(crate) unsafe fn set_workspace(
    _call: &Call,
    _workspace: *mut std::ffi::c_void,
    _size: usize,
) -> Outcome {
    Ok(())
}

/// `cublasSetSmCountTarget`: a number from 0 to that of the device. The number of workers does not depend on it.
pub(crate) unsafe fn set_sm_count_target(call: &Call, count: i32) -> Outcome {
    const MULTIPROCESSORS: i32 = 16;
    let (mut device, mut most) = (0, 0);
    // SAFETY: the variables are valid.
    unsafe {
        crate::driver::status_of((call.driver.device)(&raw mut device))?;
    }
    // SAFETY: as above.
    unsafe {
        crate::driver::status_of((call.driver.attribute)(
            &raw mut most,
            MULTIPROCESSORS,
            device,
        ))?;
    }
    need((0..=most).contains(&count), 0)?;
    call.set(|settings| settings.sm_count = count)
}

macro_rules! getters {
    ($($get:ident $type:ty: $settings:ident => $value:expr;)*) => {$(
        /// Stores a setting of the handle.
        pub(crate) unsafe fn $get(call: &Call, place: *mut $type) -> Outcome {
            let $settings: &Settings = &call.settings;
            need(host::write(place, $value).is_some(), 0)
        }
    )*};
}

getters! {
    stream usize: settings => settings.stream;
    pointer_mode i32: settings => i32::from(settings.device_pointers);
    atomics_mode i32: settings => settings.atomics;
    math_mode i32: settings => settings.math;
    sm_count_target i32: settings => settings.sm_count;
    emulation_strategy i32: settings => settings.emulation_strategy;
    special_values i32: settings => settings.special_values;
    mantissa_control i32: settings => settings.mantissa_control;
    mantissa_bits i32: settings => settings.mantissa_bits;
    mantissa_offset i32: settings => settings.mantissa_offset;
    mantissa_pointer usize: settings => settings.mantissa_pointer;
    environment_mode i32: settings => settings.environment;
}

macro_rules! setters {
    ($($set:ident $type:ty: $value:ident if $valid:expr, $settings:ident => $store:expr;)*) => {$(
        /// Changes a setting of the handle.
        pub(crate) unsafe fn $set(call: &Call, $value: $type) -> Outcome {
            need($valid, 0)?;
            call.set(|$settings| $store)
        }
    )*};
}

/// The values of `cublasMath_t` without the flag that forbids reductions of less precision.
const MATH_MODES: [i32; 6] = [0, 1, 2, 3, 4, 8];
/// `CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION`. Sums always have the precision of the compute type.
const NO_REDUCED_PRECISION: i32 = 16;

setters! {
    set_stream usize: value if true, settings => settings.stream = value;
    set_pointer_mode i32: value if matches!(value, 0 | 1), settings => settings.device_pointers = value == 1;
    set_atomics_mode i32: value if matches!(value, 0 | 1), settings => settings.atomics = value;
    set_math_mode i32: value if MATH_MODES.contains(&(value & !NO_REDUCED_PRECISION)), settings => settings.math = value;
    set_emulation_strategy i32: value if matches!(value, 0..=2), settings => settings.emulation_strategy = value;
    set_special_values i32: value if true, settings => settings.special_values = value;
    set_mantissa_control i32: value if matches!(value, 0 | 1), settings => settings.mantissa_control = value;
    set_mantissa_bits i32: value if value >= 0, settings => settings.mantissa_bits = value;
    set_mantissa_offset i32: value if true, settings => settings.mantissa_offset = value;
    set_mantissa_pointer usize: value if true, settings => settings.mantissa_pointer = value;
    set_environment_mode i32: value if true, settings => settings.environment = value;
}
