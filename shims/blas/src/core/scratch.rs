//! Memory for intermediate results: buffers of a thread, and buffers of a plan.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;

/// Memory of a thread. Large buffers are aligned to huge pages, so that the kernel needs few entries of the TLB for them.
pub(super) struct Memory {
    address: NonNull<u8>,
    layout: Layout,
}

/// The size of a huge page, on most machines.
const HUGE: usize = 2 << 20;

impl Memory {
    /// At least `bytes` bytes, uninitialised.
    fn new(bytes: usize) -> Memory {
        Memory::try_new(bytes).unwrap_or_else(|| handle_alloc_error(Layout::new::<u8>()))
    }

    /// At least `bytes` bytes, uninitialised, if there is memory.
    pub(super) fn try_new(bytes: usize) -> Option<Memory> {
        let huge = bytes >= HUGE / 4;
        let align = if huge { HUGE } else { 64 };
        let size = bytes.max(1).checked_next_multiple_of(align)?;
        let layout = Layout::from_size_align(size, align).ok()?;
        // SAFETY: the layout has a size.
        let address = NonNull::new(unsafe { alloc(layout) })?;
        #[cfg(target_os = "linux")]
        if huge {
            // SAFETY: the memory belongs to the buffer. The advice changes no content; whether it is taken does not matter.
            unsafe { libc::madvise(address.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        Some(Memory { address, layout })
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    pub(super) fn bytes(&self) -> usize {
        self.layout.size()
    }
}

// SAFETY: the memory belongs to the value alone.
unsafe impl Send for Memory {}
// SAFETY: the value gives its address only.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `new` has allocated the memory with this layout.
        unsafe { dealloc(self.address.as_ptr(), self.layout) };
    }
}

thread_local! {
    /// Buffers of this thread that are not in use. A thread keeps at most [`KEPT`].
    static FREE: Cell<Vec<Memory>> = const { Cell::new(Vec::new()) };
}

const KEPT: usize = 4;

/// Calls `body` with an uninitialised buffer for `count` elements, aligned to a cache line. Calls may nest.
pub(crate) fn with_scratch<T: Copy, R>(count: usize, body: impl FnOnce(*mut T) -> R) -> R {
    let bytes = count * size_of::<T>();
    let mut free = FREE.take();
    // The smallest buffer that is large enough, else the smallest is replaced.
    let choice = (0..free.len())
        .filter(|&i| free[i].layout.size() >= bytes)
        .min_by_key(|&i| free[i].layout.size());
    let buffer = match choice {
        Some(index) => free.swap_remove(index),
        None => {
            if free.len() >= KEPT
                && let Some(least) = (0..free.len()).min_by_key(|&i| free[i].layout.size())
            {
                free.swap_remove(least);
            }
            Memory::new(bytes)
        }
    };
    FREE.set(free);
    let result = body(buffer.address.as_ptr().cast());
    let mut free = FREE.take();
    if free.len() < KEPT {
        free.push(buffer);
    }
    FREE.set(free);
    result
}

/// A buffer that the tasks of a plan share. It starts with zeros.
pub(crate) struct Buffer<T>(Box<[UnsafeCell<T>]>);

// SAFETY: the tasks of a plan access disjoint elements within a stage, and stages are ordered by the caller.
unsafe impl<T: Send> Send for Buffer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Buffer<T> {}

impl<T: Copy> Buffer<T> {
    /// A buffer of `count` elements.
    pub(crate) fn new(count: usize, initial: T) -> Buffer<T> {
        Buffer((0..count).map(|_| UnsafeCell::new(initial)).collect())
    }

    /// The address of the first element, through which the elements may be read and written.
    pub(crate) fn pointer(&self) -> *mut T {
        UnsafeCell::raw_get(self.0.as_ptr())
    }
}

/// A value with addresses that tasks share.
pub(crate) struct Shared<T>(pub(crate) T);

// SAFETY: the caller of a routine vouches for the memory, and tasks write disjoint elements.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    pub(crate) fn get(&self) -> T {
        self.0
    }
}
