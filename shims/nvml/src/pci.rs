//! Where a device is on the bus, in the structure that each version of the question knows.
//!
//! The structure grew twice under one name. A program that looks the first name up has room for the first form only
//! (hashcat does), so each version writes its own form and nothing behind it. The device is of no vendor: its ids are 0.

use std::ffi::{c_int, c_uint};

use crate::answer::{field, give};
use crate::device::{Device, about};
use crate::facts::Facts;

/// `nvmlPciInfo_t` as it was first.
#[repr(C)]
#[derive(Debug)]
pub struct PciInfoV1 {
    bus_id: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
}

/// As it was from NVML 2.285 on.
#[repr(C)]
#[derive(Debug)]
pub struct PciInfoV2 {
    first: PciInfoV1,
    subsystem_id: c_uint,
    reserved: [c_uint; 4],
}

/// As it is: the last field holds the domain in eight digits.
#[repr(C)]
#[derive(Debug)]
pub struct PciInfo {
    first: PciInfoV1,
    subsystem_id: c_uint,
    bus_id: [u8; 32],
}

fn first(facts: &Facts) -> PciInfoV1 {
    let (domain, bus, device) = facts.pci();
    PciInfoV1 {
        bus_id: field(&facts.bus_id(4)),
        domain,
        bus,
        device,
        device_id: 0,
    }
}

/// The first form.
///
/// # Safety
/// `out` is a place for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo(device: Device, out: *mut PciInfoV1) -> c_int {
    about(device, |facts| {
        // SAFETY: the caller's place.
        unsafe { give(out, first(&facts)) }
    })
}

/// The second form; what NVIDIA reserved is 0.
///
/// # Safety
/// `out` is a place for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v2(device: Device, out: *mut PciInfoV2) -> c_int {
    about(device, |facts| {
        let answer = PciInfoV2 {
            first: first(&facts),
            subsystem_id: 0,
            reserved: [0; 4],
        };
        // SAFETY: the caller's place.
        unsafe { give(out, answer) }
    })
}

/// The form of today's header.
///
/// # Safety
/// `out` is a place for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: Device, out: *mut PciInfo) -> c_int {
    about(device, |facts| {
        let answer = PciInfo {
            first: first(&facts),
            subsystem_id: 0,
            bus_id: field(&facts.bus_id(8)),
        };
        // SAFETY: the caller's place.
        unsafe { give(out, answer) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_c() {
        assert_eq!(size_of::<PciInfoV1>(), 32);
        assert_eq!(size_of::<PciInfoV2>(), 52);
        assert_eq!(size_of::<PciInfo>(), 68);
    }
}
