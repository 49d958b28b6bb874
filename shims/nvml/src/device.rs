//! The NVML functions that return devices or properties of a device.
#![allow(non_snake_case, reason = "the names are NVIDIA's")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

use margay::device::{MAX_DEVICES, uuid_of};

use crate::answer::{give, give_text};
use crate::facts::{Facts, utilization};
use crate::processes::computing;
use crate::state::{Answer, Code, serve};

/// `nvmlDevice_t`: the address of the device's element in [`DEVICES`].
pub(crate) type Device = *const c_void;

static DEVICES: [u8; MAX_DEVICES as usize] = [0; MAX_DEVICES as usize];

fn handle(facts: &Facts) -> Device {
    let first = DEVICES.as_ptr();
    first.wrapping_add(facts.number() as usize).cast()
}

/// Returns the device that a handle refers to.
fn device_of(device: Device) -> Result<Facts, Code> {
    let number = (device as usize).wrapping_sub(DEVICES.as_ptr() as usize);
    match number < Facts::count() as usize {
        true => Ok(Facts::of(number as u32)),
        false => Err(Code::INVALID_ARGUMENT),
    }
}

/// Writes to `out` the handle of the first device for which `is` returns true.
///
/// # Safety
/// `out` must be null or point to memory for a handle.
unsafe fn give_device(out: *mut Device, is: impl Fn(&Facts) -> bool) -> Answer {
    match Facts::all().iter().find(|facts| is(facts)) {
        // SAFETY: the caller guarantees the memory.
        Some(facts) => unsafe { give(out, handle(facts)) },
        None => Err(Code::NOT_FOUND),
    }
}

/// Runs `body`, the body of an NVML function, with the device that a handle refers to. Returns an
/// error code if the handle is invalid.
pub(crate) fn about(device: Device, body: impl FnOnce(Facts) -> Answer) -> c_int {
    serve(|| body(device_of(device)?)).0
}

/// # Safety
/// `text` must be null or a C string.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Code> {
    if text.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: the caller guarantees a C string.
    unsafe { CStr::from_ptr(text) }
        .to_str()
        .map_err(|_| Code::INVALID_ARGUMENT)
}

/// Returns the number of devices.
///
/// # Safety
/// `count` must be null or point to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_int {
    // SAFETY: the caller guarantees the memory.
    serve(|| unsafe { give(count, Facts::count()) }).0
}

/// Returns the number of devices. This function is the first version of [`nvmlDeviceGetCount_v2`].
///
/// # Safety
/// The caller must satisfy the conditions of [`nvmlDeviceGetCount_v2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount(count: *mut c_uint) -> c_int {
    // SAFETY: the caller guarantees the memory.
    unsafe { nvmlDeviceGetCount_v2(count) }
}

/// Returns the device with this index.
///
/// # Safety
/// `device` must be null or point to memory for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(
    index: c_uint,
    device: *mut Device,
) -> c_int {
    serve(|| match index < Facts::count() {
        // SAFETY: the caller guarantees the memory.
        true => unsafe { give(device, handle(&Facts::of(index))) },
        false => Err(Code::INVALID_ARGUMENT),
    })
    .0
}

/// Returns the device with this index. This function is the first version of [`nvmlDeviceGetHandleByIndex_v2`].
///
/// # Safety
/// The caller must satisfy the conditions of [`nvmlDeviceGetHandleByIndex_v2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex(index: c_uint, device: *mut Device) -> c_int {
    // SAFETY: the caller guarantees the memory.
    unsafe { nvmlDeviceGetHandleByIndex_v2(index, device) }
}

/// Returns the device with this UUID. The UUID has the text form of [`nvmlDeviceGetUUID`].
///
/// # Safety
/// `uuid` must be null or a C string; `device` must be null or point to memory for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(
    uuid: *const c_char,
    device: *mut Device,
) -> c_int {
    serve(|| {
        // SAFETY: the caller guarantees a C string.
        let uuid = unsafe { text(uuid) }?;
        // SAFETY: the caller guarantees the memory.
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

/// Returns the device with this UUID. The UUID is a text (kind 1) or a sequence of bytes (kind 2).
///
/// # Safety
/// `uuid` must be null or point to a structure; `device` must be null or point to memory for a
/// handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUIDV(
    uuid: *const Uuid,
    device: *mut Device,
) -> c_int {
    serve(|| {
        // SAFETY: the caller guarantees a valid structure.
        let uuid = unsafe { uuid.as_ref() }.ok_or(Code::INVALID_ARGUMENT)?;
        let as_text = CStr::from_bytes_until_nul(&uuid.value)
            .ok()
            .and_then(|text| text.to_str().ok());
        let is = |facts: &Facts| match uuid.kind {
            1 => as_text.is_some_and(|text| text.eq_ignore_ascii_case(&facts.uuid())),
            _ => uuid.value.starts_with(&uuid_of(facts.number() as i32)),
        };
        match uuid.kind {
            // SAFETY: the caller guarantees the memory.
            1 | 2 => unsafe { give_device(device, is) },
            _ => Err(Code::INVALID_ARGUMENT),
        }
    })
    .0
}

/// Returns the device at a PCI location such as `00000000:A0:00.0`. The domain (the digits before
/// the first colon) may have any length, or be absent.
///
/// # Safety
/// `place` must be null or a C string; `device` must be null or point to memory for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(
    place: *const c_char,
    device: *mut Device,
) -> c_int {
    serve(|| {
        // SAFETY: the caller guarantees a C string.
        let place = parse_place(unsafe { text(place) }?).ok_or(Code::INVALID_ARGUMENT)?;
        // SAFETY: the caller guarantees the memory.
        unsafe { give_device(device, |facts| facts.pci() == place) }
    })
    .0
}

/// Parses a PCI location into domain, bus and device. The function after the dot is optional.
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

/// Returns the device at a PCI location. This function is the first version of [`nvmlDeviceGetHandleByPciBusId_v2`].
///
/// # Safety
/// The caller must satisfy the conditions of [`nvmlDeviceGetHandleByPciBusId_v2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId(
    place: *const c_char,
    device: *mut Device,
) -> c_int {
    // SAFETY: the caller guarantees the text and the memory.
    unsafe { nvmlDeviceGetHandleByPciBusId_v2(place, device) }
}

/// Returns the device's name.
///
/// # Safety
/// `name` must be null or point to memory for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    device: Device,
    name: *mut c_char,
    length: c_uint,
) -> c_int {
    // SAFETY: the caller guarantees the buffer.
    about(device, |facts| unsafe {
        give_text(name, length, &facts.name())
    })
}

/// Returns the device's UUID as text.
///
/// # Safety
/// `uuid` must be null or point to memory for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(
    device: Device,
    uuid: *mut c_char,
    length: c_uint,
) -> c_int {
    // SAFETY: the caller guarantees the buffer.
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

/// Returns the total, free and used memory of the device.
///
/// # Safety
/// `memory` must be null or point to memory for the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: Device, memory: *mut Memory) -> c_int {
    about(device, |facts| {
        let now = facts.memory();
        let answer = Memory {
            total: now.total,
            free: now.free,
            used: now.total - now.free,
        };
        // SAFETY: the caller guarantees the memory.
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

/// The value of the field `version` of [`MemoryV2`]: the size of the structure in the low bits, and the version 2 in
/// the top byte.
const MEMORY_V2: c_uint = size_of::<MemoryV2>() as c_uint | 2 << 24;

/// Returns the total, free and used memory of the device. The reported reserved memory is 0.
///
/// # Safety
/// `memory` must be null or point to the structure, with its version set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    device: Device,
    memory: *mut MemoryV2,
) -> c_int {
    about(device, |facts| {
        // SAFETY: the caller guarantees a valid structure.
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
        // SAFETY: the caller guarantees the memory.
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

/// Returns the utilisation of the host's processor cores in percent, both as the utilisation of the
/// device and as the utilisation of its memory.
///
/// # Safety
/// `out` must be null or point to memory for the structure.
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
        // SAFETY: the caller guarantees the memory.
        unsafe { give(out, answer) }
    })
}

/// Returns the device's compute capability.
///
/// # Safety
/// `major` and `minor` must be null or point to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: Device,
    major: *mut c_int,
    minor: *mut c_int,
) -> c_int {
    about(device, |facts| {
        let capability = facts.capability();
        // SAFETY: the caller guarantees the memory.
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
            /// `out` must be null or point to memory for a number.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(device: Device, out: *mut c_uint) -> c_int {
                // SAFETY: the caller guarantees the memory.
                about(device, |facts| unsafe { give(out, { let value: fn(&Facts) -> c_uint = $value; value(&facts) }) })
            }
        )*
    };
}

numbers! {
    /// Returns the device's index.
    nvmlDeviceGetIndex = |facts| facts.number();
    /// Returns the device's index. On a GPU, the result is the minor number of the device file, but
    /// Margay's devices have no device file.
    nvmlDeviceGetMinorNumber = |facts| facts.number();
    /// Returns `NVML_BRAND_UNKNOWN`.
    nvmlDeviceGetBrand = |_| 0;
    /// Returns `NVML_COMPUTEMODE_DEFAULT`: several processes can use the device at the same time.
    nvmlDeviceGetComputeMode = |_| 0;
    /// Returns the total number of CUDA cores of the device's multiprocessors.
    nvmlDeviceGetNumGpuCores = |facts| facts.cores();
    /// Returns 0: the device is the only one on its board.
    nvmlDeviceGetMultiGpuBoard = |_| 0;
    /// Returns 0: no display is connected.
    nvmlDeviceGetDisplayMode = |_| 0;
    /// Returns 0: no display is active.
    nvmlDeviceGetDisplayActive = |_| 0;
    /// Returns the number of the GPU architecture that has the device's compute capability
    /// (`NVML_DEVICE_ARCH_*`).
    nvmlDeviceGetArchitecture = |facts| architecture(facts.capability());
}

/// Returns the `NVML_DEVICE_ARCH_*` value of a compute capability.
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

/// Returns whether two devices are on the same board. In Margay, each device is on a board of its
/// own, so this is true only if both handles refer to the same device.
///
/// # Safety
/// `same` must be null or point to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceOnSameBoard(
    first: Device,
    second: Device,
    same: *mut c_int,
) -> c_int {
    about(first, |facts| {
        let other = device_of(second)?;
        // SAFETY: the caller guarantees the memory.
        unsafe { give(same, c_int::from(facts.number() == other.number())) }
    })
}

/// The current version of `nvmlProcessInfo_t`.
#[repr(C)]
#[derive(Debug)]
pub struct ProcessInfo {
    pid: c_uint,
    memory: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// The first version of `nvmlProcessInfo_t`.
#[repr(C)]
#[derive(Debug)]
pub struct ProcessInfoV1 {
    pid: c_uint,
    memory: c_ulonglong,
}

/// The value that NVML uses for an unknown memory size.
const NOT_AVAILABLE: c_ulonglong = c_ulonglong::MAX;
/// The value of the instance IDs of a process that does not use an instance of a partitioned GPU.
const NO_INSTANCE: c_uint = c_uint::MAX;

/// Writes a list into a buffer of `*count` elements, and writes the list's length to `count`. If
/// the list is longer than the buffer, returns `INSUFFICIENT_SIZE`.
///
/// # Safety
/// `count` must be null or point to a number. `out` must be null or point to memory for `*count`
/// elements.
unsafe fn give_list<T>(count: *mut c_uint, out: *mut T, list: Vec<T>) -> Answer {
    if count.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let room = unsafe { count.read_unaligned() } as usize;
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    unsafe { give(count, list.len() as c_uint) }?;
    if list.len() > room {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    for (index, element) in list.into_iter().enumerate() {
        // SAFETY: the caller guarantees memory for `room` elements, and the list is not longer.
        unsafe { give(out.wrapping_add(index), element) }?;
    }
    Ok(())
}

/// Returns the processes that use the device for computations. The memory that each process uses is
/// reported as unknown.
///
/// # Safety
/// `count` must be null or point to a number. `out` must be null or point to memory for `*count`
/// elements.
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
        // SAFETY: the caller guarantees the buffer.
        unsafe { give_list(count, out, list.collect()) }
    })
}

/// Returns the processes that use the device for computations. This function is the second version
/// of [`nvmlDeviceGetComputeRunningProcesses_v3`].
///
/// # Safety
/// The caller must satisfy the conditions of [`nvmlDeviceGetComputeRunningProcesses_v3`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    device: Device,
    count: *mut c_uint,
    out: *mut ProcessInfo,
) -> c_int {
    // SAFETY: the caller guarantees the buffer.
    unsafe { nvmlDeviceGetComputeRunningProcesses_v3(device, count, out) }
}

/// Returns the processes that use the device for computations, as [`ProcessInfoV1`]. This function
/// is the first version of [`nvmlDeviceGetComputeRunningProcesses_v3`].
///
/// # Safety
/// The caller must satisfy the conditions of [`nvmlDeviceGetComputeRunningProcesses_v3`]. The
/// elements of `out` have the type [`ProcessInfoV1`].
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
        // SAFETY: the caller guarantees the buffer.
        unsafe { give_list(count, out, list.collect()) }
    })
}

macro_rules! no_processes {
    ($($name:ident)*) => {
        $(
            /// Returns an empty list: there are no graphics processes and no processes of an MPS server.
            ///
            /// # Safety
            /// `count` must be null or point to memory for a number.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(device: Device, count: *mut c_uint, _out: *mut c_void) -> c_int {
                // SAFETY: the caller guarantees the memory.
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
