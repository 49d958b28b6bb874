//! Memory for intermediate results: buffers of a thread, and buffers of a plan.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;

/// The unit of buffers: a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([MaybeUninit<u8>; 64]);

thread_local! {
    /// Buffers of this thread that are not in use. A thread keeps at most [`KEPT`].
    static FREE: Cell<Vec<Vec<Line>>> = const { Cell::new(Vec::new()) };
}

const KEPT: usize = 4;

/// Calls `body` with an uninitialised buffer for `count` elements, aligned to a cache line. Calls may nest.
pub(crate) fn with_scratch<T: Copy, R>(count: usize, body: impl FnOnce(*mut T) -> R) -> R {
    let lines = (count * size_of::<T>()).div_ceil(64);
    let mut free = FREE.take();
    // The smallest buffer that is large enough, else the largest.
    let choice = (0..free.len()).min_by_key(|&i| {
        let size = free[i].capacity();
        if size >= lines {
            (0, size)
        } else {
            (1, usize::MAX - size)
        }
    });
    let mut buffer = choice.map(|i| free.swap_remove(i)).unwrap_or_default();
    FREE.set(free);
    buffer.clear();
    buffer.reserve(lines);
    let result = body(buffer.as_mut_ptr().cast());
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
