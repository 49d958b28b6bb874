//! The location and kind of a pool's memory: pinned memory of a device or of the host, or managed memory.

use std::ffi::c_uint;

use margay::memory::Access;
use margay::{Context, PointerKind, Runtime};

use crate::result::CuResult;
use crate::types::CUmemLocation;

/// `CU_MEM_ALLOCATION_TYPE_PINNED` and `CU_MEM_ALLOCATION_TYPE_MANAGED`.
const PINNED: c_uint = 1;
const MANAGED: c_uint = 2;

/// `CU_MEM_LOCATION_TYPE_NONE`: managed memory without a preferred location.
const NONE: c_uint = 0;
const DEVICE: c_uint = 1;
const HOST: c_uint = 2;
/// `CU_MEM_LOCATION_TYPE_HOST_NUMA`: a NUMA node of the host. Programs see only node 0.
const HOST_NUMA: c_uint = 3;
/// The value that denotes the host in the memory file of a shared pool.
const HOST_LABEL: i32 = -1;

/// A kind of memory and its location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PoolLocation {
    managed: bool,
    /// The type of the location, a value of `CUmemLocationType`.
    location: c_uint,
    /// The ordinal of the device or the number of the host's NUMA node; 0 for other locations.
    id: i32,
}

impl PoolLocation {
    /// Returns the location of pinned memory of a device.
    pub(crate) fn device(ordinal: i32) -> PoolLocation {
        PoolLocation {
            managed: false,
            location: DEVICE,
            id: ordinal,
        }
    }

    /// Combines a `CUmemLocation` and a `CUmemAllocationType` to a [`PoolLocation`].
    ///
    /// # Errors
    /// Returns `INVALID_VALUE` for invalid combinations and for the NUMA node of the calling thread, and
    /// `INVALID_DEVICE` for an invalid device.
    pub(crate) fn of(location: &CUmemLocation, kind: c_uint) -> Result<PoolLocation, CuResult> {
        let managed = match kind {
            PINNED => false,
            MANAGED => true,
            _ => return Err(CuResult::INVALID_VALUE),
        };
        let id = match location.kind {
            DEVICE => Runtime::global()?.device(location.id)?.ordinal(),
            HOST => 0,
            NONE if managed => 0,
            HOST_NUMA if location.id == 0 => 0,
            _ => return Err(CuResult::INVALID_VALUE),
        };
        Ok(PoolLocation {
            managed,
            location: location.kind,
            id,
        })
    }

    /// If this is the location of pinned memory of a device, returns the device's ordinal;
    /// otherwise returns `None`.
    pub(crate) fn pinned_device(self) -> Option<i32> {
        (!self.managed && self.location == DEVICE).then_some(self.id)
    }

    /// Returns whether the memory at this location is managed memory.
    pub(crate) fn is_managed(self) -> bool {
        self.managed
    }

    /// Returns the location as stored in the memory file of a shared pool. Only pinned memory of a device or of a NUMA
    /// node of the host can be shared (`cuMemPoolCreate`); for other locations, returns `None`.
    pub(crate) fn label(self) -> Option<i32> {
        match self.location {
            _ if self.managed => None,
            DEVICE => Some(self.id),
            HOST_NUMA => Some(HOST_LABEL),
            _ => None,
        }
    }

    /// Converts the location that the memory file of a shared pool stores ([`PoolLocation::label`]). A device that this
    /// process does not have becomes device 0.
    ///
    /// # Errors
    /// Returns an error if the runtime cannot be initialised.
    pub(crate) fn of_label(label: i32) -> Result<PoolLocation, CuResult> {
        if label == HOST_LABEL {
            return Ok(PoolLocation {
                managed: false,
                location: HOST_NUMA,
                id: 0,
            });
        }
        let known = Runtime::global()?.device(label).is_ok();
        Ok(PoolLocation::device(if known { label } else { 0 }))
    }

    /// Returns whether the location is the host or a NUMA node of the host.
    fn is_host(self) -> bool {
        matches!(self.location, HOST | HOST_NUMA)
    }

    /// Returns the ordinal of the device whose memory usage includes the memory at this location:
    /// the device of the location or, if the location is not a device, the device of `context`.
    pub(crate) fn counted(self, context: &Context) -> i32 {
        match self.location {
            DEVICE => self.id,
            _ => context.device().ordinal(),
        }
    }

    /// Returns the kind that pointers to memory at this location have.
    pub(crate) fn pointers(self) -> PointerKind {
        match (self.managed, self.location) {
            (true, _) => PointerKind::Managed,
            (false, DEVICE) => PointerKind::Device,
            (false, _) => PointerKind::Pinned,
        }
    }

    /// Returns the access rights that location `self` initially has to memory at location `of`. All locations can
    /// access managed memory.
    pub(crate) fn first_access(self, of: PoolLocation) -> Access {
        let host = self.is_host() && of.is_host();
        match of.managed || host || (self.location, self.id) == (of.location, of.id) {
            true => Access::ReadWrite,
            false => Access::None,
        }
    }

    /// Packs the location into a number. For pinned device memory, returns 0, because
    /// [`PoolLocation::unpack`] receives the device separately.
    pub(crate) fn pack(self) -> u64 {
        let (kind, location, id) = self.told();
        match self.pinned_device() {
            Some(_) => 0,
            None => kind as u64 | (location as u64) << 8 | u64::from(id as u32) << 32,
        }
    }

    /// Unpacks a number from [`PoolLocation::pack`]. If `packed` is 0, returns pinned memory of the device `ordinal`.
    pub(crate) fn unpack(packed: u64, ordinal: i32) -> PoolLocation {
        match packed {
            0 => PoolLocation::device(ordinal),
            _ => PoolLocation {
                managed: packed & 0xff == u64::from(MANAGED),
                location: (packed >> 8 & 0xff) as c_uint,
                id: (packed >> 32) as i32,
            },
        }
    }

    /// Returns the values that the attributes of a pool at this location have: the allocation type
    /// (`CUmemAllocationType`), the location type (`CUmemLocationType`) and the ordinal.
    pub(crate) fn told(self) -> (i32, i32, i32) {
        let kind = if self.managed { MANAGED } else { PINNED };
        (kind as i32, self.location as i32, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_survive_packing() {
        for (managed, location, id) in [
            (false, HOST, 0),
            (false, HOST_NUMA, 0),
            (true, NONE, 0),
            (true, HOST, 0),
            (true, DEVICE, 0),
            (true, DEVICE, 3),
        ] {
            let place = PoolLocation {
                managed,
                location,
                id,
            };
            assert_eq!(PoolLocation::unpack(place.pack(), 9), place);
        }
        assert_eq!(PoolLocation::device(2).pack(), 0);
        assert_eq!(PoolLocation::unpack(0, 2), PoolLocation::device(2));
    }
}
