//! The memory that kernels may access. This is device memory, registered host memory, the windows
//! of a thread's own CTA and, only for reads, the error texts of the device runtime.
//!
//! Device memory is in one address range; accesses to parts of the range that are not allocated
//! fault. Generated code tests whether an address is in this range ([`NativeContext::reach_base`]).
//! For other addresses, generated code calls the host, which uses [`Visible::device`]. A kernel
//! must not access any other memory of the process: accesses to the stacks, the heap and the
//! libraries of the process are refused, as on a GPU.
//!
//! [`NativeContext::reach_base`]: margay_jit::abi::NativeContext::reach_base

use std::ops::Range;
use std::sync::Arc;

use super::space::refused;
use super::{AddressSpace, CONSTANT, MemoryKind};
use crate::fault::{AccessFault, AccessKind, TrapKind};

/// The memory that kernels of one address space may access, apart from the windows of their own CTAs.
#[derive(Clone, Debug)]
pub struct Visible {
    space: Arc<AddressSpace>,
    windows: Range<u64>,
}

impl Visible {
    /// Combines the memory of an address space with the address range of CTA windows.
    pub fn new(space: Arc<AddressSpace>, windows: Range<u64>) -> Visible {
        Visible { space, windows }
    }

    /// Returns the start of the range of device memory, its size in bytes, and a third value. The third value repeats
    /// the size if inaccessible margins of [`margay_jit::MARGIN`] bytes surround the range; otherwise it is 0.
    pub fn range(&self) -> [u64; 3] {
        let range = self.space.range();
        let bytes = range.end - range.start;
        [
            range.start,
            bytes,
            if self.space.has_margins() { bytes } else { 0 },
        ]
    }

    /// Returns the kind of the memory that contains an address.
    pub fn kind(&self, address: u64) -> Option<MemoryKind> {
        self.space.find(address).map(|found| found.kind)
    }

    /// Returns whether the program has ever tried to export device memory to other processes.
    pub fn is_exported(&self) -> bool {
        self.space.is_exported()
    }

    /// Returns whether `is_known` returns true for the kinds of all allocations and registrations.
    pub fn holds_only(&self, is_known: impl Fn(MemoryKind) -> bool) -> bool {
        self.space.kinds().into_iter().all(is_known)
    }

    /// Returns whether an address is in the address range of the windows of all CTAs.
    pub fn is_in_windows(&self, address: u64) -> bool {
        self.windows.contains(&address)
    }

    /// Returns whether a kernel may access all `bytes` bytes at `address`. The bytes must be in the range of device
    /// memory, in registered host memory or, unless `writes` is true, in an error text that the device runtime returns.
    pub fn device(&self, address: u64, bytes: u64, writes: bool) -> bool {
        within(&self.space.range(), address, bytes)
            || self.space.is_registered(address, bytes, writes)
            || !writes && crate::error_texts::holds(address, bytes)
    }

    /// Returns the start and size of the allocation or registration that contains all `bytes` bytes at `address`, if
    /// a kernel may read them or, if `writes` is true, write them.
    pub fn allocation(&self, address: u64, bytes: u64, writes: bool) -> Option<(u64, u64)> {
        let found = self.space.find(address)?;
        let permitted = found.holds(address, bytes) && found.flags & refused(writes) == 0;
        permitted.then_some((found.base, found.size))
    }

    /// Returns whether all `bytes` bytes at `address` are in allocations or registrations that a kernel may read or, if
    /// `writes` is true, write.
    pub fn permits(&self, address: u64, bytes: u64, writes: bool) -> bool {
        self.space.permits(address, bytes, writes)
    }

    /// Returns the start and size of the variable in constant memory that contains all `bytes` bytes at `address`.
    pub fn constant(&self, address: u64, bytes: u64) -> Option<(u64, u64)> {
        let found = self.space.find(address)?;
        let inside = found.holds(address, bytes) && found.flags & CONSTANT != 0;
        inside.then_some((found.base, found.size))
    }

    /// Returns whether an address is in a variable in constant memory.
    pub fn is_constant(&self, address: u64) -> bool {
        self.constant(address, 1).is_some()
    }

    /// Returns whether an address is in a recently freed allocation and in no current allocation, or in memory of a
    /// graph that no node has allocated.
    pub fn was_freed(&self, address: u64) -> bool {
        self.space.was_freed(address)
    }

    /// Returns whether an address is in the range of device memory, or in registered host memory.
    pub fn is_managed(&self, address: u64) -> bool {
        self.space.contains(address) || self.space.is_registered(address, 1, false)
    }

    /// Describes the memory at an address, as [`AddressSpace::describe`] does.
    pub fn describe(&self, address: u64) -> Option<String> {
        self.space.describe(address)
    }

    /// Checks an access that the host performs for a thread whose CTA is unknown. Permits the memory of
    /// [`Visible::device`] and the windows of all CTAs.
    ///
    /// # Errors
    /// Returns an access fault for all other memory.
    pub fn check(&self, address: u64, bytes: u64, access: AccessKind) -> Result<(), AccessFault> {
        if within(&self.windows, address, bytes)
            || self.device(address, bytes, access == AccessKind::Write)
        {
            return Ok(());
        }
        Err(outside(address, access))
    }
}

/// Returns the fault of an access to memory that a kernel must not access.
pub fn outside(address: u64, access: AccessKind) -> AccessFault {
    AccessFault {
        address,
        access,
        kind: TrapKind::Protected,
    }
}

/// Returns whether `bytes` bytes at an address are inside a range.
pub fn within(range: &Range<u64>, address: u64, bytes: u64) -> bool {
    let offset = address.wrapping_sub(range.start);
    let len = range.end - range.start;
    offset < len && bytes <= len - offset
}
