//! The PCI location of a device, in the structures of all three versions of `nvmlDeviceGetPciInfo`, and its fictitious
//! link.
//!
//! NVIDIA extended the structure `nvmlPciInfo_t` twice without changing its name. A program that looks up the first
//! function name (as hashcat does) provides memory only for the first version of the structure. Each function therefore
//! writes exactly its own version. The device has no vendor, so its vendor ID and device ID are 0.

use std::ffi::{c_int, c_uint};

use crate::answer::{field, give};
use crate::device::{Device, about};
use crate::facts::Facts;

/// The first version of `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Debug)]
pub struct PciInfoV1 {
    bus_id: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
}

/// The second version of `nvmlPciInfo_t`, since NVML 2.285.
#[repr(C)]
#[derive(Debug)]
pub struct PciInfoV2 {
    first: PciInfoV1,
    subsystem_id: c_uint,
    reserved: [c_uint; 4],
}

/// The current version of `nvmlPciInfo_t`. The last field contains the location with a domain of eight digits.
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

/// Returns the device's PCI location as [`PciInfoV1`].
///
/// # Safety
/// `out` must be null or point to memory for the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo(device: Device, out: *mut PciInfoV1) -> c_int {
    about(device, |facts| {
        // SAFETY: the caller guarantees the memory.
        unsafe { give(out, first(&facts)) }
    })
}

/// Returns the device's PCI location as [`PciInfoV2`]. Reserved fields are 0.
///
/// # Safety
/// `out` must be null or point to memory for the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v2(device: Device, out: *mut PciInfoV2) -> c_int {
    about(device, |facts| {
        let answer = PciInfoV2 {
            first: first(&facts),
            subsystem_id: 0,
            reserved: [0; 4],
        };
        // SAFETY: the caller guarantees the memory.
        unsafe { give(out, answer) }
    })
}

/// Returns the device's PCI location as [`PciInfo`], the structure of the current header.
///
/// # Safety
/// `out` must be null or point to memory for the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: Device, out: *mut PciInfo) -> c_int {
    about(device, |facts| {
        let answer = PciInfo {
            first: first(&facts),
            subsystem_id: 0,
            bus_id: field(&facts.bus_id(8)),
        };
        // SAFETY: the caller guarantees the memory.
        unsafe { give(out, answer) }
    })
}

/// The generation and the number of lanes of the link. Both are fictitious: kernels access the memory of the host
/// directly. XLA estimates the time of copies from them.
const LINK_GENERATION: c_uint = 4;
const LINK_WIDTH: c_uint = 16;

macro_rules! link {
    ($($name:ident $value:ident $about:literal)*) => {
        $(
            #[doc = $about]
            ///
            /// # Safety
            /// `out` must be null or point to memory for a number.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the names are NVIDIA's")]
            pub unsafe extern "C" fn $name(device: Device, out: *mut c_uint) -> c_int {
                // SAFETY: the caller guarantees the memory.
                about(device, |_| unsafe { give(out, $value) })
            }
        )*
    };
}

link! {
    nvmlDeviceGetCurrPcieLinkGeneration LINK_GENERATION "Returns the generation of the device's link in use."
    nvmlDeviceGetCurrPcieLinkWidth LINK_WIDTH "Returns the number of lanes of the device's link in use."
    nvmlDeviceGetGpuMaxPcieLinkGeneration LINK_GENERATION "Returns the generation of links that the device supports."
    nvmlDeviceGetMaxPcieLinkGeneration LINK_GENERATION "Returns the generation that device and host support."
    nvmlDeviceGetMaxPcieLinkWidth LINK_WIDTH "Returns the number of lanes that device and host support."
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
