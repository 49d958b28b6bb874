//! Implements the entry points that return properties and attributes of devices.

use std::ffi::{c_char, c_int, c_uint};

use margay::{Device, Runtime};

use crate::convert::{FromAbi, Out, Text, read_array};
use crate::guard::Call;
use crate::handles::current;
use crate::result::{CuResult, Served};
use crate::types::{CUdevprop, CUuuid};

impl FromAbi<c_int> for Device {
    unsafe fn from_abi(raw: c_int, _call: &Call) -> Result<Device, CuResult> {
        Ok(Runtime::global()?.device(raw)?)
    }
}

pub(crate) fn device_get(_: &Call, device: Out<c_int>, ordinal: Device) -> Served {
    device.set(ordinal.ordinal());
    Ok(())
}

pub(crate) fn device_get_count(_: &Call, count: Out<c_int>) -> Served {
    count.set(Runtime::global()?.device_count());
    Ok(())
}

pub(crate) fn device_get_name(_: &Call, name: *mut c_char, len: c_int, device: Device) -> Served {
    write_text(name, len, &device.name())
}

/// Writes `text` with a terminating NUL to `out`, truncated to `room` bytes.
fn write_text(out: *mut c_char, room: c_int, text: &str) -> Served {
    let room = usize::try_from(room).unwrap_or(0);
    if out.is_null() || room == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let len = text.len().min(room - 1);
    // SAFETY: the caller guarantees `room` bytes, of which `len + 1` are written.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, len);
        out.add(len).write(0);
    }
    Ok(())
}

pub(crate) fn device_get_uuid(_: &Call, uuid: Out<CUuuid>, device: Device) -> Served {
    uuid.set(CUuuid {
        bytes: device.uuid(),
    });
    Ok(())
}

pub(crate) fn device_total_mem_v2(_: &Call, bytes: Out<usize>, device: Device) -> Served {
    bytes.set(device.total_memory() as usize);
    Ok(())
}

/// Returns the device's memory size as a 32-bit number, as CUDA versions before 3.2 do. If the size
/// exceeds 32 bits, returns the largest 32-bit number.
pub(crate) fn device_total_mem_v1(_: &Call, bytes: Out<c_uint>, device: Device) -> Served {
    bytes.set(u32::try_from(device.total_memory()).unwrap_or(u32::MAX));
    Ok(())
}

pub(crate) fn device_get_attribute(
    _: &Call,
    value: Out<c_int>,
    attribute: c_uint,
    device: Device,
) -> Served {
    let number = i32::try_from(attribute).map_err(|_| CuResult::INVALID_VALUE)?;
    value.set(device.attribute(number).ok_or(CuResult::INVALID_VALUE)?);
    Ok(())
}

pub(crate) fn device_get_properties(
    _: &Call,
    properties: Out<CUdevprop>,
    device: Device,
) -> Served {
    let attribute = |number| device.attribute(number).unwrap_or(0);
    properties.set(CUdevprop {
        max_threads_per_block: attribute(1),
        max_threads_dim: [2, 3, 4].map(attribute),
        max_grid_size: [5, 6, 7].map(attribute),
        shared_mem_per_block: attribute(8),
        total_constant_memory: attribute(9),
        simd_width: attribute(10),
        mem_pitch: attribute(11),
        regs_per_block: attribute(12),
        clock_rate: attribute(13),
        texture_align: attribute(14),
    });
    Ok(())
}

pub(crate) fn device_compute_capability(
    _: &Call,
    major: Out<c_int>,
    minor: Out<c_int>,
    device: Device,
) -> Served {
    let (high, low) = device.compute_capability();
    major.set(high);
    minor.set(low);
    Ok(())
}

pub(crate) fn device_get_exec_affinity_support(
    _: &Call,
    supported: Out<c_int>,
    kind: c_uint,
    _device: Device,
) -> Served {
    if kind != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    supported.set(0);
    Ok(())
}

pub(crate) fn device_get_pci_bus_id(
    _: &Call,
    text: *mut c_char,
    len: c_int,
    device: Device,
) -> Served {
    write_text(text, len, &device.pci_bus_id())
}

pub(crate) fn device_get_by_pci_bus_id(_: &Call, device: Out<c_int>, text: Text) -> Served {
    let wanted = parse_pci(&text.0).ok_or(CuResult::INVALID_VALUE)?;
    let runtime = Runtime::global()?;
    for ordinal in 0..runtime.device_count() {
        if parse_pci(&runtime.device(ordinal)?.pci_bus_id()) == Some(wanted) {
            device.set(ordinal);
            return Ok(());
        }
    }
    Err(CuResult::INVALID_DEVICE)
}

/// Parses `domain:bus:device.function`, where domain and function are optional.
fn parse_pci(text: &str) -> Option<[u32; 3]> {
    let hex = |part: &str| u32::from_str_radix(part, 16).ok();
    let (place, function) = text.split_once('.').unwrap_or((text, "0"));
    hex(function)?;
    let parts: Vec<u32> = place.split(':').map(hex).collect::<Option<_>>()?;
    match parts[..] {
        [bus, device] => Some([0, bus, device]),
        [domain, bus, device] => Some([domain, bus, device]),
        _ => None,
    }
}

/// Returns whether a device can access the memory of another device. A device is not its own peer. Every other device
/// can be accessed, because all devices belong to the same process.
pub(crate) fn device_can_access_peer(
    _: &Call,
    can: Out<c_int>,
    device: Device,
    peer: Device,
) -> Served {
    can.set(c_int::from(device.ordinal() != peer.ordinal()));
    Ok(())
}

/// Returns the same attributes for every pair of different devices: all kinds of access are supported.
pub(crate) fn device_get_p2p_attribute(
    _: &Call,
    value: Out<c_int>,
    attribute: c_uint,
    source: Device,
    destination: Device,
) -> Served {
    if !(1..=5).contains(&attribute) {
        return Err(CuResult::INVALID_VALUE);
    }
    if source.ordinal() == destination.ordinal() {
        return Err(CuResult::INVALID_DEVICE);
    }
    // Attributes 2 to 4 (access, native atomics, array access) are 1. The performance rank (1) is 0, the best value;
    // "only partial native atomics" (5) is 0.
    value.set(c_int::from((2..=4).contains(&attribute)));
    Ok(())
}

/// Bits of `CUatomicOperationCapability`.
const SIGNED: c_uint = 1;
const UNSIGNED: c_uint = 2;
const REDUCTION: c_uint = 4;
const SCALAR_32: c_uint = 8;
const SCALAR_64: c_uint = 0x10;
const SCALAR_128: c_uint = 0x20;

/// The supported atomic operations on the memory of another device, indexed by `CUatomicOperation`. They are the scalar
/// operations that PTX defines.
const PEER_ATOMICS: [c_uint; 13] = [
    SIGNED | UNSIGNED | REDUCTION | SCALAR_32 | SCALAR_64,
    SIGNED | UNSIGNED | REDUCTION | SCALAR_32 | SCALAR_64,
    SIGNED | UNSIGNED | REDUCTION | SCALAR_32 | SCALAR_64,
    UNSIGNED | REDUCTION | SCALAR_32,
    UNSIGNED | REDUCTION | SCALAR_32,
    UNSIGNED | REDUCTION | SCALAR_32 | SCALAR_64,
    UNSIGNED | REDUCTION | SCALAR_32 | SCALAR_64,
    UNSIGNED | REDUCTION | SCALAR_32 | SCALAR_64,
    UNSIGNED | SCALAR_32 | SCALAR_64 | SCALAR_128,
    UNSIGNED | SCALAR_32 | SCALAR_64 | SCALAR_128,
    REDUCTION | SCALAR_32 | SCALAR_64,
    0,
    0,
];

/// Writes, for each operation in the array `operations`, its capabilities from `table` to `out`.
fn atomic_capabilities(
    out: *mut c_uint,
    operations: *const c_uint,
    count: c_uint,
    table: &[c_uint; 13],
) -> Served {
    if out.is_null() || count == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller guarantees `count` elements.
    let operations = unsafe { read_array(operations, count as usize) }?;
    let answers: Option<Vec<c_uint>> = operations
        .iter()
        .map(|&operation| table.get(operation as usize).copied())
        .collect();
    for (index, answer) in answers
        .ok_or(CuResult::INVALID_VALUE)?
        .into_iter()
        .enumerate()
    {
        // SAFETY: the caller guarantees memory for `count` elements.
        unsafe { out.add(index).write_unaligned(answer) };
    }
    Ok(())
}

pub(crate) fn device_get_p2p_atomic_capabilities(
    _: &Call,
    out: *mut c_uint,
    operations: *const c_uint,
    count: c_uint,
    source: Device,
    destination: Device,
) -> Served {
    if source.ordinal() == destination.ordinal() {
        return Err(CuResult::INVALID_DEVICE);
    }
    atomic_capabilities(out, operations, count, &PEER_ATOMICS)
}

/// Returns no capabilities, because atomic operations of a device are not guaranteed to be atomic for accesses of the
/// host. The value of the attribute `HOST_NATIVE_ATOMIC_SUPPORTED` agrees with this.
pub(crate) fn device_get_host_atomic_capabilities(
    _: &Call,
    out: *mut c_uint,
    operations: *const c_uint,
    count: c_uint,
    _device: Device,
) -> Served {
    atomic_capabilities(out, operations, count, &[0; 13])
}

pub(crate) fn device_get_luid(
    _: &Call,
    luid: *mut c_char,
    mask: Out<c_uint>,
    device: Device,
) -> Served {
    if luid.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    let (bytes, node) = device.luid();
    // SAFETY: the pointer is not null; the caller guarantees eight bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), luid, bytes.len()) };
    mask.set(node);
    Ok(())
}

/// The number of the device attribute that contains the maximum width of textures in linear memory,
/// in texels.
const LINEAR_WIDTH: i32 = 69;

pub(crate) fn device_get_texture_1d_linear_max_width(
    _: &Call,
    width: Out<usize>,
    format: c_uint,
    channels: c_uint,
    device: Device,
) -> Served {
    // The known formats are integers of 8, 16 and 32 bits, floats of 16 and 32 bits, and the normalised formats with 1,
    // 2 or 4 channels.
    let known = matches!(format, 1..=3 | 8..=10 | 0x10 | 0x20 | 0xc0..=0xcb);
    if !known || !matches!(channels, 1 | 2 | 4) {
        return Err(CuResult::INVALID_VALUE);
    }
    let most = device
        .attribute(LINEAR_WIDTH)
        .ok_or(CuResult::INVALID_VALUE)?;
    width.set(most as usize);
    Ok(())
}

/// Checks the arguments and has no other effect, because no other hardware writes to device memory.
pub(crate) fn flush_gpu_direct_rdma_writes(_: &Call, target: c_uint, scope: c_uint) -> Served {
    current()?.status()?;
    // The only target is `CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX`; the scopes are the owner and all
    // devices.
    match target == 0 && matches!(scope, 100 | 200) {
        true => Ok(()),
        false => Err(CuResult::INVALID_VALUE),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_pci;

    #[test]
    fn pci_places_in_all_their_forms() {
        assert_eq!(parse_pci("0000:a0:00.0"), Some([0, 0xa0, 0]));
        assert_eq!(parse_pci("a0:00.0"), Some([0, 0xa0, 0]));
        assert_eq!(parse_pci("1:A0:1f"), Some([1, 0xa0, 0x1f]));
        assert_eq!(parse_pci(""), None);
        assert_eq!(parse_pci("a0"), None);
        assert_eq!(parse_pci("1:2:3:4.0"), None);
        assert_eq!(parse_pci("x:y.z"), None);
    }
}
