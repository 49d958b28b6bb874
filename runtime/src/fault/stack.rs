//! A stack with a guard below it, for generated code or for signal handlers.
//!
//! Invariant: the mapping is private to the value and ends with it.

use super::FaultError;

const PAGE: usize = 4096;

/// Memory for a stack; the guard is the lower part of the mapping.
#[derive(Debug)]
pub struct GuardedStack {
    base: usize,
    guard: usize,
    len: usize,
}

impl GuardedStack {
    /// Maps `size` usable bytes above `guard` bytes that fault; both are rounded up to pages of
    /// 64 KiB, which suits every host. Pages cost memory when first touched.
    ///
    /// # Errors
    /// [`FaultError::System`] if the system has no room.
    pub fn new(size: usize, guard: usize) -> Result<GuardedStack, FaultError> {
        const ROUND: usize = 16 * PAGE;
        let too_large = || FaultError::System {
            what: "stack size",
            source: std::io::ErrorKind::InvalidInput.into(),
        };
        let size = size.checked_next_multiple_of(ROUND).ok_or_else(too_large)?;
        let guard = guard
            .checked_next_multiple_of(ROUND)
            .ok_or_else(too_large)?;
        let len = size.checked_add(guard).ok_or_else(too_large)?;
        // SAFETY: a new private mapping; nothing is replaced.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(FaultError::last_os("mmap"));
        }
        let stack = GuardedStack {
            base: base as usize,
            guard,
            len,
        };
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the upper part of the mapping just made.
        match unsafe { libc::mprotect((stack.base + guard) as *mut _, size, rights) } {
            0 => Ok(stack),
            _ => Err(FaultError::last_os("mprotect")),
        }
    }

    /// One past the highest byte; 64 KiB aligned in size, page aligned in place.
    pub fn top(&self) -> u64 {
        (self.base + self.len) as u64
    }

    /// Lowest usable byte, which is one past the guard.
    pub fn bottom(&self) -> u64 {
        (self.base + self.guard) as u64
    }

    /// First byte of the guard.
    pub fn guard_start(&self) -> u64 {
        self.base as u64
    }

    /// Usable bytes.
    pub fn size(&self) -> usize {
        self.len - self.guard
    }
}

impl Drop for GuardedStack {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever ran on it has left (the owner's promise).
        unsafe { libc::munmap(self.base as *mut _, self.len) };
    }
}
