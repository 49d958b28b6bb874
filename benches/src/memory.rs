//! Allocates host memory for contenders whose kernels access host memory directly. Like Margay's
//! memory, this memory is aligned, and large allocations use huge pages.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

const HUGE: usize = 2 << 20;
const LINE: usize = 64;

/// An allocation of host memory, which never moves.
pub(crate) struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Memory {}

impl Memory {
    /// Allocates memory and copies `bytes` into it.
    pub(crate) fn of(bytes: &[u8]) -> Memory {
        let align = if bytes.len() >= HUGE { HUGE } else { LINE };
        let size = bytes.len().max(1).next_multiple_of(align);
        let layout = Layout::from_size_align(size, align).expect("sizes are small");
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc::alloc(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| alloc::handle_alloc_error(layout));
        if align == HUGE {
            // SAFETY: the range was just allocated. If the call fails, the memory has small pages.
            unsafe { libc::madvise(start.as_ptr().cast(), size, libc::MADV_HUGEPAGE) };
        }
        // SAFETY: `bytes` fits, and fresh memory overlaps nothing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), bytes.len()) };
        Memory { start, layout }
    }

    /// Returns the start address of the memory.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns a copy of the first `len` bytes of the memory. No thread may write to the memory
    /// during the call.
    pub(crate) fn read(&self, len: usize) -> Vec<u8> {
        assert!(len <= self.layout.size());
        // SAFETY: `Memory::of` initialised the bytes that callers read, and the range is inside the allocation.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), len) }.to_vec()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_it_was_given() {
        for len in [0, 3, 64, HUGE + 5] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let memory = Memory::of(&bytes);
            assert_eq!(memory.start().align_offset(LINE), 0);
            assert_eq!(memory.read(len), bytes);
        }
    }
}
