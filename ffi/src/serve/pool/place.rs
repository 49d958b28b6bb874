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
/// A node of the host's memory, and that of the calling thread.
const HOST_NUMA: c_uint = 3;
const HOST_NUMA_CURRENT: c_uint = 4;

/// A kind of memory and where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Place {
    managed: bool,
    /// Of `CUmemLocationType`.
    location: c_uint,
    /// Ordinal of the device; 0 elsewhere.
    id: i32,
}

impl Place {
    /// Pinned memory of a device.
    pub(super) fn device(ordinal: i32) -> Place {
        Place {
            managed: false,
            location: DEVICE,
            id: ordinal,
        }
    }

    /// What a location and a `CUmemAllocationType` say.
    ///
    /// # Errors
    /// `INVALID_VALUE`, `INVALID_DEVICE`; `NOT_SUPPORTED` for nodes of the host's memory, of which no device tells the
    /// number.
    pub(super) fn of(location: &CUmemLocation, kind: c_uint) -> Result<Place, CuResult> {
        let managed = match kind {
            PINNED => false,
            MANAGED => true,
            _ => return Err(CuResult::INVALID_VALUE),
        };
        let id = match location.kind {
            DEVICE => Runtime::global()?.device(location.id)?.ordinal(),
            HOST => 0,
            NONE if managed => 0,
            HOST_NUMA | HOST_NUMA_CURRENT => return Err(CuResult::NOT_SUPPORTED),
            _ => return Err(CuResult::INVALID_VALUE),
        };
        Ok(Place {
            managed,
            location: location.kind,
            id,
        })
    }

    /// The device whose pinned memory it is.
    pub(super) fn pinned_device(self) -> Option<i32> {
        (!self.managed && self.location == DEVICE).then_some(self.id)
    }

    /// The device whose memory is counted: the one that is named, else that of `context`.
    pub(super) fn counted(self, context: &Context) -> i32 {
        match self.location {
            DEVICE => self.id,
            _ => context.device().ordinal(),
        }
    }

    /// What pointers to its memory are.
    pub(super) fn pointers(self) -> PointerKind {
        match (self.managed, self.location) {
            (true, _) => PointerKind::Managed,
            (false, DEVICE) => PointerKind::Device,
            (false, _) => PointerKind::Pinned,
        }
    }

    /// What a place may do before anybody grants or takes a right. Managed memory is everybody's.
    pub(super) fn first_access(self, of: Place) -> Access {
        match of.managed || (self.location, self.id) == (of.location, of.id) {
            true => Access::ReadWrite,
            false => Access::None,
        }
    }

    /// `CUmemAllocationType`, `CUmemLocationType` and the ordinal, as a pool's attributes tell them.
    pub(super) fn told(self) -> (i32, i32, i32) {
        let kind = if self.managed { MANAGED } else { PINNED };
        (kind as i32, self.location as i32, self.id)
    }
}
