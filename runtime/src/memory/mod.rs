//! Device memory, and the windows of resident CTAs.
//!
//! Device memory is host memory in one reserved address range ([`AddressSpace`]), which is inaccessible at first. An
//! allocation *opens* a part of the range, that is, makes it accessible. The pages between allocations remain
//! inaccessible (closed). If device code accesses such a page, the access faults (`crate::fault`) and does not reach
//! other data. Some unallocated memory is nevertheless accessible: the rest of an allocation's last page, all unused
//! bytes of slabs, and red zones. Freed pieces (ranges of whole pages) are made inaccessible before the next launch
//! runs, and are kept for reuse. The range is unmapped only when the address space is dropped.
//!
//! - `reservation` reserves address ranges from the system. It also changes the access rights of parts of a range and
//!   discards their contents. `pages` allocates guarded pieces of a range and keeps the pages of freed pieces for
//!   reuse.
//! - `extents` records the free parts of a range. Up to 1,024 small allocations (of at most 64 KiB)
//!   have their own pages, so that accesses to them fault after they are freed. If more small
//!   allocations exist, or if addresses are scarce, `slab` divides pieces into slots for them.
//! - `red_zones` finds writes outside of allocations, in checking runs with red zones.
//! - `whose` describes the memory that is, or was, at an address, for reports of faults.
//! - `space` combines these modules and looks up the allocation at an address.
//! - `shared` provides memory files, which several mappings and processes can access. `arena` allocates the memory of
//!   pools from a memory file. `sharing` moves an allocation to a memory file. `virtual_memory` maps memory files at
//!   addresses that the program chooses. `usage` counts the memory in use.
//! - `windows` contains the shared and local memory of resident CTAs.
//!
//! Invariant: allocations, guards and free parts never overlap. When a launch begins, every accessible page belongs to
//! an allocation or to a slab. A request of any size either succeeds or returns a [`MemoryError`]; it never aborts the
//! process.

mod arena;
mod extents;
mod limits;
mod mappings;
mod pages;
mod red_zones;
mod reservation;
mod rights;
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
pub(crate) use limits::{address_space_left, most_threads, private_memory_left, resource_limit};
pub use red_zones::{Overwritten, RedZones, ZoneSide};
pub(crate) use rights::host_rights;
pub use shared::{Address, Label, SharedKind, SharedMemory, SharedPage, start_of};
pub use sharing::Export;
pub(crate) use space::default_device_memory;
pub use space::{
    AddressSpace, Allocation, MemoryConfig, MemoryInfo, MemoryKind, Request, SMALL_LIMIT,
};
pub(crate) use space::{CONSTANT, READ_ONLY, UNALLOCATED};
pub use virtual_memory::{Access, GRANULARITY, Physical};
pub use visible::{Visible, outside, within};
pub use whose::grouped_bytes;
pub(crate) use whose::host_memory;
pub(crate) use windows::affordable_slots;
pub use windows::{CtaWindow, WindowGeometry, Windows};

use crate::error::Error;
use crate::fault::AccessFault;

/// Alignment in bytes of every allocation except registered and imported memory. CUDA guarantees an alignment of 256
/// bytes, but programs rely on 512.
pub const ALIGNMENT: u64 = 512;

/// The reason why a request for memory failed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The size, the address or the alignment is invalid, or [`AddressSpace::alloc`] does not allocate this kind of
    /// memory.
    #[error("invalid size {0}")]
    InvalidSize(u64),
    /// The request exceeds a limit, or the process has no more addresses or mappings.
    #[error("out of memory: {requested} bytes requested, {free} free")]
    OutOfMemory {
        /// Number of bytes requested.
        requested: u64,
        /// Number of bytes that were available.
        free: u64,
    },
    /// No allocation of the expected kind starts at this address. Either no such allocation existed, or it was freed,
    /// or the address is inside an allocation. Calls of the virtual memory interface also return
    /// this error if a reserved range or a mapping does not have the required state.
    #[error("{0:#x} is not the start of an allocation")]
    NotAllocated(u64),
    /// Part of the range is registered already, or is pinned memory that this library allocated.
    #[error("the host memory at {0:#x} is registered already")]
    AlreadyRegistered(u64),
    /// No registration starts at this address.
    #[error("the host memory at {0:#x} is not registered")]
    NotRegistered(u64),
    /// Part of the range to register is not mapped, or is memory of this library other than pinned memory.
    #[error("the host memory at {0:#x} is not mapped")]
    NotMapped(u64),
    /// An access faulted, or the bytes to access are not in the reserved range of the address
    /// space.
    #[error(transparent)]
    Access(#[from] AccessFault),
    /// A CTA needs more shared or local memory than the size of a window.
    #[error("a window of {wanted} bytes exceeds the limit of {available}")]
    WindowTooLarge {
        /// Number of bytes that the CTA needs.
        wanted: u64,
        /// Size of the window in bytes.
        available: u64,
    },
    /// The windows of all slots are in use. The field is the number of slots.
    #[error("all {0} windows are in use")]
    NoWindow(usize),
    /// A descriptor or an [`Address`] does not refer to a memory file that this library created, or the file has
    /// another kind or size than the caller requires.
    #[error("not shared memory, or no longer available")]
    NotShared,
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// Name of the system call, or of the command of `fcntl`.
        what: &'static str,
        /// The error that the system returned.
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
