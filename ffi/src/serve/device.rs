//! Devices: what they report.

use std::ffi::{c_char, c_int, c_uint};

use margay::{Device, Runtime};

use crate::convert::{FromAbi, Out, Text};
use crate::guard::Call;
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

/// Writes a text with its NUL, cut to the caller's room.
fn write_text(out: *mut c_char, room: c_int, text: &str) -> Served {
    let room = usize::try_from(room).unwrap_or(0);
    if out.is_null() || room == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let len = text.len().min(room - 1);
    // SAFETY: the caller gave room for `room` bytes, of which `len + 1` are written.
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

/// Before CUDA 3.2 a size was 32 bits wide.
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

/// `domain:bus:device.function`, where domain and function may be missing.
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

/// A device has no access to itself as a peer.
pub(crate) fn device_can_access_peer(
    _: &Call,
    can: Out<c_int>,
    _device: Device,
    _peer: Device,
) -> Served {
    can.set(0);
    Ok(())
}

pub(crate) fn device_get_p2p_attribute(
    _: &Call,
    value: Out<c_int>,
    attribute: c_uint,
    source: Device,
    destination: Device,
) -> Served {
    if !(1..=4).contains(&attribute) {
        return Err(CuResult::INVALID_VALUE);
    }
    if source.ordinal() == destination.ordinal() {
        return Err(CuResult::INVALID_DEVICE);
    }
    value.set(0);
    Ok(())
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
