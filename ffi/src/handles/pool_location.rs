//! Where the memory of a pool is, and of which kind it is: pinned memory of a device or of the host, or managed memory.

use std::ffi::c_uint;

use margay::memory::Access;
use margay::{Context, PointerKind, Runtime};

use crate::result::CuResult;
use crate::types::CUmemLocation;

/// `CU_MEM_ALLOCATION_TYPE_PINNED` and `MANAGED`.
const PINNED: c_uint = 1;
const MANAGED: c_uint = 2;

/// `CU_MEM_LOCATION_TYPE_NONE`: managed memory that would be nowhere rather than elsewhere.
const NONE: c_uint = 0;
const DEVICE: c_uint = 1;
const HOST: c_uint = 2;
/// A node of the host's memory. Programs see one, node 0.
const HOST_NUMA: c_uint = 3;
/// What files of shared memory call the host.
const HOST_LABEL: i32 = -1;

/// A kind of memory and where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PoolLocation {
    managed: bool,
    /// Of `CUmemLocationType`.
    location: c_uint,
    /// Ordinal of the device, number of the host's node; 0 elsewhere.
    id: i32,
}

impl PoolLocation {
    /// Pinned memory of a device.
    pub(crate) fn device(ordinal: i32) -> PoolLocation {
        PoolLocation {
            managed: false,
            location: DEVICE,
            id: ordinal,
        }
    }

    /// What a location and a `CUmemAllocationType` say.
    ///
    /// # Errors
    /// `INVALID_VALUE`, also for the node of the calling thread, which no pool can have; `INVALID_DEVICE`.
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

    /// The device whose pinned memory it is.
    pub(crate) fn pinned_device(self) -> Option<i32> {
        (!self.managed && self.location == DEVICE).then_some(self.id)
    }

    /// Whether it is managed memory.
    pub(crate) fn is_managed(self) -> bool {
        self.managed
    }

    /// What the file of a pool that other processes use says of its place. Only pinned memory of a device or of one of
    /// the host's nodes can be shared (`cuMemPoolCreate`).
    pub(crate) fn label(self) -> Option<i32> {
        match self.location {
            _ if self.managed => None,
            DEVICE => Some(self.id),
            HOST_NUMA => Some(HOST_LABEL),
            _ => None,
        }
    }

    /// The place that such a file tells; a device that this process does not have is the first one.
    ///
    /// # Errors
    /// Those of the runtime's start.
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

    /// Whether it is the host's memory.
    fn is_host(self) -> bool {
        matches!(self.location, HOST | HOST_NUMA)
    }

    /// The device whose memory is counted: the one that is named, else that of `context`.
    pub(crate) fn counted(self, context: &Context) -> i32 {
        match self.location {
            DEVICE => self.id,
            _ => context.device().ordinal(),
        }
    }

    /// What pointers to its memory are.
    pub(crate) fn pointers(self) -> PointerKind {
        match (self.managed, self.location) {
            (true, _) => PointerKind::Managed,
            (false, DEVICE) => PointerKind::Device,
            (false, _) => PointerKind::Pinned,
        }
    }

    /// What a place may do before anybody grants or takes a right. Managed memory is everybody's.
    pub(crate) fn first_access(self, of: PoolLocation) -> Access {
        let host = self.is_host() && of.is_host();
        match of.managed || host || (self.location, self.id) == (of.location, of.id) {
            true => Access::ReadWrite,
            false => Access::None,
        }
    }

    /// As a number; 0 for pinned memory of the device that the other side knows anyway.
    pub(crate) fn pack(self) -> u64 {
        let (kind, location, id) = self.told();
        match self.pinned_device() {
            Some(_) => 0,
            None => kind as u64 | (location as u64) << 8 | u64::from(id as u32) << 32,
        }
    }

    /// What [`PoolLocation::pack`] made; `ordinal` is that of the device that goes without saying.
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

    /// `CUmemAllocationType`, `CUmemLocationType` and the ordinal, as a pool's attributes tell them.
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
