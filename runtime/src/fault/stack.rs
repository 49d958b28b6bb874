//! A stack with an inaccessible guard below it, for generated code or for signal handlers.
//!
//! Invariant: a [`GuardedStack`] owns its mapping. Dropping the [`GuardedStack`] unmaps the
//! mapping.

use super::FaultError;

const PAGE: usize = 4096;

/// The mapping of a stack and its guard. The guard is the lower part of the mapping.
#[derive(Debug)]
pub struct GuardedStack {
    base: usize,
    guard: usize,
    len: usize,
}

impl GuardedStack {
    /// Maps `size` usable bytes above `guard` inaccessible bytes. Both sizes are rounded up to multiples of 64 KiB,
    /// which is a multiple of the page size of every supported host. A page uses memory only after it is first
    /// accessed.
    ///
    /// # Errors
    /// [`FaultError::System`] if the operating system does not provide enough addresses or memory,
    /// or if a size overflows.
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
        // SAFETY: the range is the upper part of the new mapping.
        match unsafe { libc::mprotect((stack.base + guard) as *mut _, size, rights) } {
            0 => Ok(stack),
            _ => Err(FaultError::last_os("mprotect")),
        }
    }

    /// Returns the address one past the highest byte, which is aligned to a page.
    pub fn top(&self) -> u64 {
        (self.base + self.len) as u64
    }

    /// Returns the lowest usable address, which is the end of the guard.
    pub fn bottom(&self) -> u64 {
        (self.base + self.guard) as u64
    }

    /// Returns the first address of the guard.
    pub fn guard_start(&self) -> u64 {
        self.base as u64
    }

    /// Returns the number of usable bytes.
    pub fn size(&self) -> usize {
        self.len - self.guard
    }
}

impl Drop for GuardedStack {
    fn drop(&mut self) {
        // SAFETY: the `GuardedStack` owns the mapping, and its owner ensures that no thread still runs on the stack.
        unsafe { libc::munmap(self.base as *mut _, self.len) };
    }
}
