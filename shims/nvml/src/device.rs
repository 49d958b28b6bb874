//! Functions of devices.
#![allow(non_snake_case, reason = "the names are NVIDIA's")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

use margay::device::{MAX_DEVICES, uuid_of};

use crate::answer::{give, give_text};
use crate::facts::{Facts, utilization};
use crate::processes::computing;
use crate::state::{Answer, Code, serve};

/// `nvmlDevice_t`: the address of the device's mark.
pub(crate) type Device = *const c_void;

static DEVICES: [u8; MAX_DEVICES as usize] = [0; MAX_DEVICES as usize];

fn handle(facts: &Facts) -> Device {
    let first = DEVICES.as_ptr();
    first.wrapping_add(facts.number() as usize).cast()
}

/// The device with a handle.
fn device_of(device: Device) -> Result<Facts, Code> {
    let number = (device as usize).wrapping_sub(DEVICES.as_ptr() as usize);
    match number < Facts::count() as usize {
        true => Ok(Facts::of(number as u32)),
        false => Err(Code::INVALID_ARGUMENT),
    }
}

/// Gives the handle of the device that is looked for.
///
/// # Safety
/// `out` is null or a place for a handle.
unsafe fn give_device(out: *mut Device, is: impl Fn(&Facts) -> bool) -> Answer {
    match Facts::all().iter().find(|facts| is(facts)) {
        // SAFETY: the caller's place.
        Some(facts) => unsafe { give(out, handle(facts)) },
        None => Err(Code::NOT_FOUND),
    }
}

/// Answers a question about a device, if it is one.
pub(crate) fn about(device: Device, body: impl FnOnce(Facts) -> Answer) -> c_int {
    serve(|| body(device_of(device)?)).0
}

/// # Safety
/// `text` is null or a C string.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Code> {
    if text.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: the caller vouches for it.
    unsafe { CStr::from_ptr(text) }
        .to_str()
        .map_err(|_| Code::INVALID_ARGUMENT)
}

/// The number of devices.
///
/// # Safety
/// `count` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_int {
    // SAFETY: the caller's place.
    serve(|| unsafe { give(count, Facts::count()) }).0
}

/// The same under its first name.
///
/// # Safety
/// As [`nvmlDeviceGetCount_v2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount(count: *mut c_uint) -> c_int {
    // SAFETY: the caller's place.
    unsafe { nvmlDeviceGetCount_v2(count) }
}

/// The device with a number.
///
/// # Safety
/// `device` is a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(
    index: c_uint,
    device: *mut Device,
) -> c_int {
    serve(|| match index < Facts::count() {
        // SAFETY: the caller's place.
        true => unsafe { give(device, handle(&Facts::of(index))) },
        false => Err(Code::INVALID_ARGUMENT),
    })
    .0
}

/// The same under its first name.
///
/// # Safety
/// As [`nvmlDeviceGetHandleByIndex_v2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex(index: c_uint, device: *mut Device) -> c_int {
    // SAFETY: the caller's place.
    unsafe { nvmlDeviceGetHandleByIndex_v2(index, device) }
}

/// The device with a UUID, written as it is told.
///
/// # Safety
/// `uuid` is a C string, `device` a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(
    uuid: *const c_char,
    device: *mut Device,
) -> c_int {
    serve(|| {
        // SAFETY: the caller's text.
        let uuid = unsafe { text(uuid) }?;
        // SAFETY: the caller's place.
        unsafe { give_device(device, |facts| uuid.eq_ignore_ascii_case(&facts.uuid())) }
    })
    .0
}

/// `nvmlUUID_t`.
#[repr(C)]
#[derive(Debug)]
pub struct Uuid {
    version: c_uint,
    kind: c_uint,
    value: [u8; 41],
}

/// The device with a UUID as text (kind 1) or bytes (kind 2).
///
/// # Safety
/// `uuid` points to the structure, `device` is a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUIDV(
    uuid: *const Uuid,
    device: *mut Device,
) -> c_int {
    serve(|| {
        // SAFETY: the caller's structure.
        let uuid = unsafe { uuid.as_ref() }.ok_or(Code::INVALID_ARGUMENT)?;
        let as_text = CStr::from_bytes_until_nul(&uuid.value)
            .ok()
            .and_then(|text| text.to_str().ok());
        let is = |facts: &Facts| match uuid.kind {
            1 => as_text.is_some_and(|text| text.eq_ignore_ascii_case(&facts.uuid())),
            _ => uuid.value.starts_with(&uuid_of(facts.number() as i32)),
        };
        match uuid.kind {
            // SAFETY: the caller's place.
            1 | 2 => unsafe { give_device(device, is) },
            _ => Err(Code::INVALID_ARGUMENT),
        }
    })
    .0
}

/// The device at a place on the bus: `00000000:A0:00.0`, with a domain of any length or none.
///
/// # Safety
/// `place` is a C string, `device` a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(
    place: *const c_char,
    device: *mut Device,
) -> c_int {
    serve(|| {
        // SAFETY: the caller's text.
        let place = parse_place(unsafe { text(place) }?).ok_or(Code::INVALID_ARGUMENT)?;
        // SAFETY: the caller's place.
        unsafe { give_device(device, |facts| facts.pci() == place) }
    })
    .0
}

/// Domain, bus and device of a text; the function behind the dot may be missing.
fn parse_place(text: &str) -> Option<(u32, u32, u32)> {
    let (place, function) = text.split_once('.').unwrap_or((text, "0"));
    let numbers: Option<Vec<u32>> = place
        .split(':')
        .chain([function])
        .map(|part| u32::from_str_radix(part, 16).ok())
        .collect();
    match numbers?.as_slice() {
        [domain, bus, device, 0] => Some((*domain, *bus, *device)),
        [bus, device, 0] => Some((0, *bus, *device)),
        _ => None,
    }
}

/// The same under its first name.
///
/// # Safety
/// As [`nvmlDeviceGetHandleByPciBusId_v2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId(
    place: *const c_char,
    device: *mut Device,
) -> c_int {
    // SAFETY: the caller's text and place.
    unsafe { nvmlDeviceGetHandleByPciBusId_v2(place, device) }
}

/// The device's name.
///
/// # Safety
/// `name` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    device: Device,
    name: *mut c_char,
    length: c_uint,
) -> c_int {
    // SAFETY: the caller's buffer.
    about(device, |facts| unsafe {
        give_text(name, length, &facts.name())
    })
}

/// The UUID as text.
///
/// # Safety
/// `uuid` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(
    device: Device,
    uuid: *mut c_char,
    length: c_uint,
) -> c_int {
    // SAFETY: the caller's buffer.
    about(device, |facts| unsafe {
        give_text(uuid, length, &facts.uuid())
    })
}

/// `nvmlMemory_t`.
#[repr(C)]
#[derive(Debug)]
pub struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// Memory of the device.
///
/// # Safety
/// `memory` is a place for the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: Device, memory: *mut Memory) -> c_int {
    about(device, |facts| {
        let now = facts.memory();
        let answer = Memory {
            total: now.total,
            free: now.free,
            used: now.total - now.free,
        };
        // SAFETY: the caller's place.
        unsafe { give(memory, answer) }
    })
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
#[derive(Debug)]
pub struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// Size and number of the structure.
const MEMORY_V2: c_uint = size_of::<MemoryV2>() as c_uint | 2 << 24;

/// Memory of the device; nothing is reserved.
///
/// # Safety
/// `memory` points to the structure, with its version.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    device: Device,
    memory: *mut MemoryV2,
) -> c_int {
    about(device, |facts| {
        // SAFETY: the caller's structure.
        match unsafe { memory.as_ref() }.map(|memory| memory.version) {
            Some(MEMORY_V2) => {}
            Some(_) => return Err(Code::ARGUMENT_VERSION_MISMATCH),
            None => return Err(Code::INVALID_ARGUMENT),
        }
        let now = facts.memory();
        let answer = MemoryV2 {
            version: MEMORY_V2,
            total: now.total,
            reserved: 0,
            free: now.free,
            used: now.total - now.free,
        };
        // SAFETY: the caller's place.
        unsafe { give(memory, answer) }
    })
}

/// `nvmlUtilization_t`.
#[repr(C)]
#[derive(Debug)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// How busy the cores are that are the device; they are what works on its memory, too.
///
/// # Safety
/// `out` is a place for the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    device: Device,
    out: *mut Utilization,
) -> c_int {
    about(device, |_| {
        let percent = utilization().ok_or(Code::UNKNOWN)?;
        let answer = Utilization {
            gpu: percent,
            memory: percent,
        };
        // SAFETY: the caller's place.
        unsafe { give(out, answer) }
    })
}

/// Compute capability.
///
/// # Safety
/// `major` and `minor` are places for numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: Device,
    major: *mut c_int,
    minor: *mut c_int,
) -> c_int {
    about(device, |facts| {
        let capability = facts.capability();
        // SAFETY: the caller's places.
        unsafe {
            give(major, capability.0 as c_int)?;
            give(minor, capability.1 as c_int)
        }
    })
}

macro_rules! numbers {
    ($($(#[$about:meta])* $name:ident = $value:expr;)*) => {
        $(
            $(#[$about])*
            ///
            /// # Safety
            /// `out` is a place for a number.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(device: Device, out: *mut c_uint) -> c_int {
                // SAFETY: the caller's place.
                about(device, |facts| unsafe { give(out, { let value: fn(&Facts) -> c_uint = $value; value(&facts) }) })
            }
        )*
    };
}

numbers! {
    /// The device's number.
    nvmlDeviceGetIndex = |facts| facts.number();
    /// The number of its file, which it has not.
    nvmlDeviceGetMinorNumber = |facts| facts.number();
    /// `NVML_BRAND_UNKNOWN`.
    nvmlDeviceGetBrand = |_| 0;
    /// `NVML_COMPUTEMODE_DEFAULT`: many processes may use it at once.
    nvmlDeviceGetComputeMode = |_| 0;
    /// What the multiprocessors compute at once.
    nvmlDeviceGetNumGpuCores = |facts| facts.cores();
    /// It is alone on its board.
    nvmlDeviceGetMultiGpuBoard = |_| 0;
    /// No display is connected.
    nvmlDeviceGetDisplayMode = |_| 0;
    /// Nor used.
    nvmlDeviceGetDisplayActive = |_| 0;
    /// The generation of GPUs that has the capability.
    nvmlDeviceGetArchitecture = |facts| architecture(facts.capability());
}

/// `NVML_DEVICE_ARCH_*`.
fn architecture(capability: (u32, u32)) -> c_uint {
    match capability {
        (3, _) => 2,
        (5, _) => 3,
        (6, _) => 4,
        (7, 5) => 6,
        (7, _) => 5,
        (8, 9) => 8,
        (8, _) => 7,
        (9, _) => 9,
        (10..=12, _) => 10,
        _ => c_uint::MAX,
    }
}

/// Whether two devices are on one board: only if they are the same.
///
/// # Safety
/// `same` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceOnSameBoard(
    first: Device,
    second: Device,
    same: *mut c_int,
) -> c_int {
    about(first, |facts| {
        let other = device_of(second)?;
        // SAFETY: the caller's place.
        unsafe { give(same, c_int::from(facts.number() == other.number())) }
    })
}

/// `nvmlProcessInfo_t` as it is now.
#[repr(C)]
#[derive(Debug)]
pub struct ProcessInfo {
    pid: c_uint,
    memory: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// The first form of it.
#[repr(C)]
#[derive(Debug)]
pub struct ProcessInfoV1 {
    pid: c_uint,
    memory: c_ulonglong,
}

/// What stands for bytes that are not known.
const NOT_AVAILABLE: c_ulonglong = c_ulonglong::MAX;
/// What stands for no instance.
const NO_INSTANCE: c_uint = c_uint::MAX;

/// Writes a list into a buffer of `count` elements, or says how many it takes.
///
/// # Safety
/// `count` is null or the caller's number; `out` is null or has room for so many elements.
unsafe fn give_list<T>(count: *mut c_uint, out: *mut T, list: Vec<T>) -> Answer {
    if count.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: the caller's number.
    let room = unsafe { count.read_unaligned() } as usize;
    // SAFETY: as above.
    unsafe { give(count, list.len() as c_uint) }?;
    if list.len() > room {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    for (index, element) in list.into_iter().enumerate() {
        // SAFETY: there is room for them.
        unsafe { give(out.wrapping_add(index), element) }?;
    }
    Ok(())
}

/// The processes that compute. What each of them uses is not known.
///
/// # Safety
/// `out` has room for as many elements as `count` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Device,
    count: *mut c_uint,
    out: *mut ProcessInfo,
) -> c_int {
    about(device, |_| {
        let list = computing().into_iter().map(|pid| ProcessInfo {
            pid,
            memory: NOT_AVAILABLE,
            gpu_instance: NO_INSTANCE,
            compute_instance: NO_INSTANCE,
        });
        // SAFETY: the caller's buffer.
        unsafe { give_list(count, out, list.collect()) }
    })
}

/// The same under an earlier name.
///
/// # Safety
/// As [`nvmlDeviceGetComputeRunningProcesses_v3`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    device: Device,
    count: *mut c_uint,
    out: *mut ProcessInfo,
) -> c_int {
    // SAFETY: the caller's buffer.
    unsafe { nvmlDeviceGetComputeRunningProcesses_v3(device, count, out) }
}

/// The same with smaller elements.
///
/// # Safety
/// As [`nvmlDeviceGetComputeRunningProcesses_v3`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses(
    device: Device,
    count: *mut c_uint,
    out: *mut ProcessInfoV1,
) -> c_int {
    about(device, |_| {
        let list = computing().into_iter().map(|pid| ProcessInfoV1 {
            pid,
            memory: NOT_AVAILABLE,
        });
        // SAFETY: the caller's buffer.
        unsafe { give_list(count, out, list.collect()) }
    })
}

macro_rules! no_processes {
    ($($name:ident)*) => {
        $(
            /// No process draws, and none shares the device through a server.
            ///
            /// # Safety
            /// `count` is a place for a number.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(device: Device, count: *mut c_uint, _out: *mut c_void) -> c_int {
                // SAFETY: the caller's place.
                about(device, |_| unsafe { give(count, 0) })
            }
        )*
    };
}

no_processes! {
    nvmlDeviceGetGraphicsRunningProcesses
    nvmlDeviceGetGraphicsRunningProcesses_v2
    nvmlDeviceGetGraphicsRunningProcesses_v3
    nvmlDeviceGetMPSComputeRunningProcesses
    nvmlDeviceGetMPSComputeRunningProcesses_v2
    nvmlDeviceGetMPSComputeRunningProcesses_v3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_on_the_bus_have_several_forms() {
        for text in [
            "00000000:A0:00.0",
            "0000:a0:00.0",
            "0:A0:0",
            "a0:00.0",
            "A0:00",
        ] {
            assert_eq!(parse_place(text), Some((0, 0xa0, 0)), "{text}");
        }
        for text in ["", "A0", "0000:A0:00.1", "x:A0:00.0", "1:2:3:4.0"] {
            assert_eq!(parse_place(text), None, "{text}");
        }
    }

    #[test]
    fn structures_have_the_sizes_of_c() {
        assert_eq!(MEMORY_V2, 0x0200_0028);
        assert_eq!(size_of::<ProcessInfo>(), 24);
    }
}
