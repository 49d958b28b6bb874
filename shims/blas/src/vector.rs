//! Vectors with increments, and loops over them.

use std::any::TypeId;

use crate::Stage;
use crate::core::{Shared, stage_of};
use crate::storage::Load;

/// A vector: element i is `increment * i` elements after `data`.
#[derive(Debug)]
pub(crate) struct Strided<S> {
    pub(crate) data: *mut S,
    pub(crate) increment: isize,
}

impl<S> Clone for Strided<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Strided<S> {}

// SAFETY: the caller of a routine vouches for the memory, and tasks write disjoint elements.
unsafe impl<S> Send for Strided<S> {}
// SAFETY: as above.
unsafe impl<S> Sync for Strided<S> {}

impl<S> Strided<S> {
    /// A vector of `n` elements as BLAS passes it: with a negative increment, element 0 is the last in memory.
    pub(crate) fn new(data: *const S, n: usize, increment: i64) -> Strided<S> {
        let increment = increment as isize;
        let back = if increment < 0 {
            (n as isize - 1)
                .max(0)
                .wrapping_mul(increment.wrapping_neg())
        } else {
            0
        };
        Strided {
            data: data.cast_mut().wrapping_offset(back),
            increment,
        }
    }

    /// The address of an element.
    #[inline(always)]
    pub(crate) fn at(&self, index: usize) -> *mut S {
        self.data
            .wrapping_offset((index as isize).wrapping_mul(self.increment))
    }

    /// The vector from an element on.
    #[inline(always)]
    pub(crate) fn from(self, index: usize) -> Strided<S> {
        Strided {
            data: self.at(index),
            ..self
        }
    }
}

impl<S: 'static> Strided<S> {
    /// Elements as contiguous values of type `T`: in the vector itself if they are, else copied to `buffer`.
    ///
    /// # Safety
    /// The vector has these elements, and the buffer room for them.
    #[inline(always)]
    pub(crate) unsafe fn fetch<T: Copy + 'static>(
        self,
        start: usize,
        count: usize,
        buffer: *mut T,
    ) -> *const T
    where
        S: Load<T>,
    {
        if self.increment == 1 && TypeId::of::<S>() == TypeId::of::<T>() {
            return self.at(start).cast();
        }
        for index in 0..count {
            // SAFETY: the caller's conditions.
            unsafe {
                buffer
                    .add(index)
                    .write(self.at(start + index).read().load())
            };
        }
        buffer
    }
}

/// Elements of a task of an element-wise routine.
const PART: usize = 1 << 14;

/// A stage that runs `body(start, count)` for parts of `n` elements. `nanoseconds`: about for an element. `ordered`: all elements in one task, because
/// an increment is 0.
pub(crate) fn parts(
    n: usize,
    nanoseconds: f64,
    ordered: bool,
    body: impl Fn(usize, usize) + Send + Sync + 'static,
) -> Vec<Stage> {
    if n == 0 {
        return Vec::new();
    }
    let part = if ordered { n } else { PART };
    let run = move |index: usize| body(index * part, part.min(n - index * part));
    vec![stage_of(
        n.div_ceil(part),
        nanoseconds * part.min(n) as f64,
        run,
    )]
}

/// A stage of a single task.
pub(crate) fn single(body: impl Fn() + Send + Sync + 'static) -> Stage {
    Stage {
        tasks: 1,
        run: Box::new(move |_| body()),
    }
}

/// A stage of a single task that uses an address.
pub(crate) fn single_with<T: Copy + 'static>(
    value: T,
    body: impl Fn(T) + Send + Sync + 'static,
) -> Stage {
    let value = Shared(value);
    single(move || body(value.get()))
}
