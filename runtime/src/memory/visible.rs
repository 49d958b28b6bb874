//! What kernels may access: device memory, registered host memory, the windows of their own CTA.
//!
//! Device memory lies in one range of addresses, whose closed parts fault by themselves; generated code tests
//! addresses against that range ([`NativeContext::reach_base`]) and asks [`Visible::device`] about others. Nothing
//! else of the process is a kernel's: its stacks, its heap and its libraries are refused, as a GPU refuses
//! them.
//!
//! [`NativeContext::reach_base`]: margay_jit::abi::NativeContext::reach_base

use std::ops::Range;
use std::sync::Arc;

use super::AddressSpace;
use crate::fault::{AccessFault, AccessKind, TrapKind};

/// What kernels of one machine may access.
#[derive(Clone, Debug)]
pub struct Visible {
    space: Arc<AddressSpace>,
    windows: Range<u64>,
}

impl Visible {
    /// The memory of an address space, and the windows of CTAs in a range.
    pub fn new(space: Arc<AddressSpace>, windows: Range<u64>) -> Visible {
        Visible { space, windows }
    }

    /// First address and size of the range of device memory, and the size again if the range has closed margins
    /// of [`margay_jit::MARGIN`] bytes, else 0.
    pub fn range(&self) -> [u64; 3] {
        let range = self.space.range();
        let bytes = range.end - range.start;
        [
            range.start,
            bytes,
            if self.space.has_margins() { bytes } else { 0 },
        ]
    }

    /// Whether all bytes of an access lie in the range of device memory, in registered host memory, or in a text that the
    /// device runtime hands out.
    pub fn device(&self, address: u64, bytes: u64) -> bool {
        within(&self.space.range(), address, bytes)
            || self.space.is_registered(address, bytes)
            || crate::error_texts::holds(address, bytes)
    }

    /// The same for code of the host that acts for a thread whose CTA is not at hand: windows of other CTAs count,
    /// too.
    ///
    /// # Errors
    /// The fault of an access to other memory.
    pub fn check(&self, address: u64, bytes: u64, access: AccessKind) -> Result<(), AccessFault> {
        if within(&self.windows, address, bytes) || self.device(address, bytes) {
            return Ok(());
        }
        Err(outside(address, access))
    }
}

/// The fault of an access outside the memory of a kernel.
pub fn outside(address: u64, access: AccessKind) -> AccessFault {
    AccessFault {
        address,
        access,
        kind: TrapKind::Protected,
    }
}

/// Whether `bytes` bytes at an address lie in a range.
pub fn within(range: &Range<u64>, address: u64, bytes: u64) -> bool {
    let offset = address.wrapping_sub(range.start);
    let len = range.end - range.start;
    offset < len && bytes <= len - offset
}
