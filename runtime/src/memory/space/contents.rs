//! Writes to memory in the reserved range.

use super::{AddressSpace, DISCARD_FROM};
use crate::fault::{AccessFault, AccessKind, TrapKind, access};
use crate::memory::{MemoryError, limits};

impl AddressSpace {
    /// Writes to memory in the reserved range. (A read needs no check: see [`access::read`].)
    ///
    /// # Errors
    /// [`MemoryError::Access`] if part of the memory is inaccessible or outside the reserved range.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.check(address, bytes.len() as u64)?;
        // SAFETY: the range is inside our reservation, which contains no Rust object.
        Ok(unsafe { access::write(address, bytes) }?)
    }

    /// Copies to memory in the reserved range; the source can be any memory of the process.
    ///
    /// # Errors
    /// [`MemoryError::Access`] if the destination is outside the reserved range, or if an access to the source or the
    /// destination faults.
    pub fn copy(&self, dst: u64, src: u64, bytes: u64) -> Result<(), MemoryError> {
        self.check(dst, bytes)?;
        // SAFETY: the destination is inside our reservation, which contains no Rust object.
        Ok(unsafe { access::copy(dst, src, bytes as usize) }?)
    }

    /// Sets `count` bytes of memory in the reserved range to `value`.
    ///
    /// # Errors
    /// [`MemoryError::Access`] if part of the memory is inaccessible or outside the reserved range.
    pub fn fill8(&self, address: u64, value: u8, count: u64) -> Result<(), MemoryError> {
        self.check(address, count)?;
        // SAFETY: the range is inside our reservation, which contains no Rust object.
        Ok(unsafe { access::fill8(address, value, count as usize) }?)
    }

    /// Zeroes newly allocated memory. The pages of a large allocation are released to the system, which provides zeroed
    /// pages at the next access. An array that the program never accesses therefore uses no memory.
    ///
    /// # Errors
    /// Returns the same errors as [`AddressSpace::fill8`].
    pub(crate) fn zero(&self, address: u64, count: u64) -> Result<(), MemoryError> {
        let page = limits::page_size();
        let (start, end) = (
            address.next_multiple_of(page),
            (address + count) & !(page - 1),
        );
        if count < DISCARD_FROM || end <= start {
            return self.fill8(address, 0, count);
        }
        self.check(address, count)?;
        self.fill8(address, 0, start - address)?;
        self.books
            .lock()
            .pages
            .reservation()
            .discard(start, end - start)?;
        self.fill8(end, 0, address + count - end)
    }

    /// Sets `count` 2-byte elements of memory in the reserved range to `value`.
    ///
    /// # Errors
    /// Returns the same errors as [`AddressSpace::fill8`].
    pub fn fill16(&self, address: u64, value: u16, count: u64) -> Result<(), MemoryError> {
        self.check(address, count.saturating_mul(2))?;
        // SAFETY: the range is inside our reservation, which contains no Rust object.
        Ok(unsafe { access::fill16(address, value, count as usize) }?)
    }

    /// Sets `count` 4-byte elements of memory in the reserved range to `value`.
    ///
    /// # Errors
    /// Returns the same errors as [`AddressSpace::fill8`].
    pub fn fill32(&self, address: u64, value: u32, count: u64) -> Result<(), MemoryError> {
        self.check(address, count.saturating_mul(4))?;
        // SAFETY: the range is inside our reservation, which contains no Rust object.
        Ok(unsafe { access::fill32(address, value, count as usize) }?)
    }

    fn check(&self, address: u64, bytes: u64) -> Result<(), AccessFault> {
        if bytes == 0 || self.holds(address, bytes) {
            return Ok(());
        }
        Err(AccessFault {
            address,
            access: AccessKind::Write,
            kind: TrapKind::Unmapped,
        })
    }
}
