//! Device memory, and the windows of resident CTAs.
//!
//! Device memory is host memory in one reserved address range ([`AddressSpace`]), which is inaccessible at first. An
//! allocation makes part of it accessible (opens it). The parts between allocations stay inaccessible (closed), so that
//! a wild access of device code faults (`crate::fault`) instead of hitting other data. Freed ranges are made
//! inaccessible again before the next launch runs and kept for reuse; nothing is unmapped before the space itself is
//! dropped.
//!
//! - `reservation` reserves address ranges from the system and makes parts of them accessible, inaccessible or empty;
//!   `pages` allocates guarded pieces of a range and keeps the pages of freed pieces for reuse.
//! - `extents` records free parts; `slab` divides pieces into slots for allocations of up to 64 KiB if there are
//!   thousands of them. Until then each allocation has pages of its own, so that an access after its free faults.
//! - `whose` describes what is, or was, at an address, for reports of faults.
//! - `space` combines these modules and looks up the allocation at an address.
//! - `shared` is memory that other mappings and processes may access; `arena` allocates pools from it, `sharing`
//!   converts an allocation to it, `virtual_memory` maps it at addresses that the program chooses. `usage` counts
//!   memory in use.
//! - `windows` contains the shared and local memory of resident CTAs.
//!
//! Invariant: allocations, guards and free parts never overlap. When a launch begins, every accessible byte belongs to
//! an allocation (or to the slab that contains it). No request, whatever its size, aborts the process: a request that
//! cannot be served returns a [`MemoryError`].

mod arena;
mod extents;
mod limits;
mod pages;
mod reservation;
mod shared;
mod sharing;
mod slab;
mod space;
mod usage;
mod virtual_memory;
mod visible;
mod whose;
mod windows;

pub use arena::Arena;
pub(crate) use limits::{
    address_space_left, most_threads, private_memory_left, resource_limit, stack_left,
};
pub use shared::{Address, Label, SharedKind, SharedMemory, SharedPage, start_of};
pub use sharing::Export;
pub(crate) use space::default_device_memory;
pub use space::{
    AddressSpace, Allocation, MemoryConfig, MemoryInfo, MemoryKind, Request, SMALL_LIMIT,
};
pub use virtual_memory::{Access, GRANULARITY, Physical};
pub use visible::{Visible, outside, within};
pub(crate) use whose::{host_memory, host_rights};
pub(crate) use windows::affordable_slots;
pub use windows::{CtaWindow, WindowGeometry, Windows};

use crate::error::Error;
use crate::fault::AccessFault;

/// Alignment of every allocation, in bytes. CUDA guarantees 256; programs rely on 512.
pub const ALIGNMENT: u64 = 512;

/// The reason why a request for memory failed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The size is 0 or exceeds the address range.
    #[error("invalid size {0}")]
    InvalidSize(u64),
    /// The limit is reached, or the system has no more memory.
    #[error("out of memory: {requested} bytes asked for, {free} free")]
    OutOfMemory {
        /// Number of bytes requested.
        requested: u64,
        /// Number of bytes that were free.
        free: u64,
    },
    /// No allocation of the expected kind starts at this address: there never was one, it was freed, or the address is
    /// inside an allocation.
    #[error("{0:#x} is not the start of an allocation")]
    NotAllocated(u64),
    /// Part of the range is registered, or was allocated by us.
    #[error("the host memory at {0:#x} is registered already")]
    AlreadyRegistered(u64),
    /// No registration starts at this address.
    #[error("the host memory at {0:#x} is not registered")]
    NotRegistered(u64),
    /// Part of the range to register is not mapped.
    #[error("the host memory at {0:#x} is not mapped")]
    NotMapped(u64),
    /// An access outside our memory, or to an inaccessible part of it.
    #[error(transparent)]
    Access(#[from] AccessFault),
    /// A CTA needs more shared or local memory than a window has.
    #[error("a window of {wanted} bytes is wanted, {available} are possible")]
    WindowTooLarge {
        /// Number of bytes requested.
        wanted: u64,
        /// Number of bytes that are available.
        available: u64,
    },
    /// All windows are in use.
    #[error("all {0} windows are in use")]
    NoWindow(usize),
    /// A descriptor or an address names no shared memory of ours.
    #[error("not shared memory, or not to be had any more")]
    NotShared,
    /// The system refused a call.
    #[error("{what}: {source}")]
    System {
        /// The call that failed.
        what: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl From<MemoryError> for Error {
    fn from(error: MemoryError) -> Error {
        match error {
            MemoryError::OutOfMemory { requested, free } => Error::OutOfMemory { requested, free },
            MemoryError::AlreadyRegistered(_) => Error::HostMemoryAlreadyRegistered,
            MemoryError::NotRegistered(_) => Error::HostMemoryNotRegistered,
            MemoryError::WindowTooLarge { .. } | MemoryError::NoWindow(_) => {
                Error::LaunchOutOfResources(error.to_string())
            }
            MemoryError::System { .. } => Error::OperatingSystem(error.to_string()),
            MemoryError::InvalidSize(_)
            | MemoryError::NotAllocated(_)
            | MemoryError::NotMapped(_)
            | MemoryError::NotShared
            | MemoryError::Access(_) => Error::InvalidValue(error.to_string()),
        }
    }
}

/// Returns `value` rounded up to a multiple of `to`, a power of two; `None` on overflow.
fn round_up(value: u64, to: u64) -> Option<u64> {
    Some(value.checked_add(to - 1)? & !(to - 1))
}
