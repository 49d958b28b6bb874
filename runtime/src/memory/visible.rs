//! The memory that kernels may access: device memory, registered host memory, and the windows of their own CTA.
//!
//! Device memory is in one address range, whose inaccessible parts fault. Generated code tests addresses against that
//! range ([`NativeContext::reach_base`]) and calls [`Visible::device`] for others. A kernel may access no other memory
//! of the process: accesses to its stacks, its heap and its libraries are refused, as on a GPU.
//!
//! [`NativeContext::reach_base`]: margay_jit::abi::NativeContext::reach_base

use std::ops::Range;
use std::sync::Arc;

use super::AddressSpace;
use crate::fault::{AccessFault, AccessKind, TrapKind};

/// The memory that kernels of one machine may access.
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

    /// Returns the start and the size of the range of device memory, and the size again if the range has inaccessible
    /// margins of [`margay_jit::MARGIN`] bytes, else 0.
    pub fn range(&self) -> [u64; 3] {
        let range = self.space.range();
        let bytes = range.end - range.start;
        [
            range.start,
            bytes,
            if self.space.has_margins() { bytes } else { 0 },
        ]
    }

    /// Whether all bytes of an access are in the range of device memory, in registered host memory, or in a text that
    /// the device runtime returns.
    pub fn device(&self, address: u64, bytes: u64) -> bool {
        within(&self.space.range(), address, bytes)
            || self.space.is_registered(address, bytes)
            || crate::error_texts::holds(address, bytes)
    }

    /// Checks an access that the host makes for a thread whose CTA is unknown. Permits the memory of
    /// [`Visible::device`] and the windows of all CTAs.
    ///
    /// # Errors
    /// Returns the fault of an access to other memory.
    /// The fault of an access to other memory.
    pub fn check(&self, address: u64, bytes: u64, access: AccessKind) -> Result<(), AccessFault> {
        if within(&self.windows, address, bytes) || self.device(address, bytes) {
            return Ok(());
        }
        Err(outside(address, access))
    }
}

/// Returns the fault of an access outside the memory of a kernel.
pub fn outside(address: u64, access: AccessKind) -> AccessFault {
    AccessFault {
        address,
        access,
        kind: TrapKind::Protected,
    }
}

/// Whether `bytes` bytes at an address are inside a range.
pub fn within(range: &Range<u64>, address: u64, bytes: u64) -> bool {
    let offset = address.wrapping_sub(range.start);
    let len = range.end - range.start;
    offset < len && bytes <= len - offset
}
