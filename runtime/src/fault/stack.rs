//! A stack with an inaccessible guard below it, for generated code or for signal handlers.
//!
//! Invariant: the value owns its mapping, which ends with it.

use super::FaultError;

const PAGE: usize = 4096;

/// Memory of a stack; the lower part of the mapping is the guard.
#[derive(Debug)]
pub struct GuardedStack {
    base: usize,
    guard: usize,
    len: usize,
}

impl GuardedStack {
    /// Maps `size` usable bytes above `guard` bytes that fault. Both are rounded up to multiples of 64 KiB, which suits
    /// the page size of every host. Pages use memory when they are first touched.
    ///
    /// # Errors
    /// [`FaultError::System`] if the system has not enough addresses or memory.
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
        // SAFETY: the value owns the mapping, and by the owner's promise no thread runs on it any more.
        unsafe { libc::munmap(self.base as *mut _, self.len) };
    }
}
