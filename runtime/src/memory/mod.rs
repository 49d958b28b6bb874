//! Device memory, and the windows of resident CTAs.
//!
//! Device memory is host memory in one address range of our own ([`AddressSpace`]), reserved
//! once without rights. An allocation opens part of it; what lies between allocations stays
//! closed, so that a wild access of device code faults (`crate::fault`) instead of hitting
//! somebody else. Freed ranges are closed again before the next launch runs and kept for reuse; nothing is unmapped before
//! the space itself goes.
//!
//! - `reservation` asks the system for address ranges and opens, closes and empties parts;
//!   `pages` hands out guarded pieces of one and keeps freed pieces warm.
//! - `extents` keeps book of free parts; `slab` cuts ranges for allocations up to 64 KiB when there are thousands of them.
//!   Until then each has pages of its own, so that a use after it was freed faults.
//! - `whose` says what is, or was, at an address, for reports of faults.
//! - `space` ties them together and answers "what is at this address?" in a lock's time.
//! - `shared` is memory that other mappings and processes may see; `arena` cuts pools from it, `sharing` makes an
//!   allocation such memory, `virtual_memory` maps it where the program says. `usage` counts.
//! - `windows` holds the shared and local memory of resident CTAs.
//!
//! Invariant: allocations, guards and free parts never overlap, and while a launch begins every open byte belongs
//! to an allocation (or to the slab it was cut from). No request, whatever its size, aborts the
//! process: what cannot be served is a [`MemoryError`].

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
pub(crate) use limits::{address_space_left, most_threads, stack_left};
pub use shared::{Address, Label, SharedKind, SharedMemory, SharedPage, start_of};
pub use sharing::Export;
pub(crate) use space::default_device_memory;
pub use space::{
    AddressSpace, Allocation, MemoryConfig, MemoryInfo, MemoryKind, Request, SMALL_LIMIT,
};
pub use virtual_memory::{Access, GRANULARITY, Physical};
pub use visible::{Visible, outside, within};
pub(crate) use whose::host_memory;
pub(crate) use windows::affordable_slots;
pub use windows::{CtaWindow, WindowGeometry, Windows};

use crate::error::Error;
use crate::fault::AccessFault;

/// Alignment of every allocation, in bytes. CUDA promises 256; programs count on 512.
pub const ALIGNMENT: u64 = 512;

/// Why a request for memory failed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// No bytes were asked for, or more than an address can count.
    #[error("invalid size {0}")]
    InvalidSize(u64),
    /// The limit is reached, or the system has no more.
    #[error("out of memory: {requested} bytes asked for, {free} free")]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes that were free.
        free: u64,
    },
    /// No allocation of the expected kind starts at this address: it was never one, or is
    /// freed, or the address points into one.
    #[error("{0:#x} is not the start of an allocation")]
    NotAllocated(u64),
    /// Part of the range is registered, or allocated by us.
    #[error("the host memory at {0:#x} is registered already")]
    AlreadyRegistered(u64),
    /// No registration starts here.
    #[error("the host memory at {0:#x} is not registered")]
    NotRegistered(u64),
    /// The range to register is not all mapped.
    #[error("the host memory at {0:#x} is not mapped")]
    NotMapped(u64),
    /// An access outside our memory, or to a closed part of it.
    #[error(transparent)]
    Access(#[from] AccessFault),
    /// A CTA wants more shared or local memory than a window holds.
    #[error("a window of {wanted} bytes is wanted, {available} are possible")]
    WindowTooLarge {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes there are.
        available: u64,
    },
    /// All windows are in use.
    #[error("all {0} windows are in use")]
    NoWindow(usize),
    /// A descriptor or a name stands for no shared memory of ours.
    #[error("not shared memory, or not to be had any more")]
    NotShared,
    /// The system refused.
    #[error("{what}: {source}")]
    System {
        /// The call that failed.
        what: &'static str,
        /// Its reason.
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

/// `value` rounded up to a multiple of `to`, a power of two; `None` on overflow.
fn round_up(value: u64, to: u64) -> Option<u64> {
    Some(value.checked_add(to - 1)? & !(to - 1))
}
