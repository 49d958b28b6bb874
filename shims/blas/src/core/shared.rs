//! Operands that are packed once for all tasks of a product.
//!
//! The tasks of a first stage pack both operands into a buffer, those of a second stage multiply. The buffer is taken
//! when a plan runs and given back when its last task has ended, so that plans that wait hold no memory. If there is no
//! memory for the buffer, the tasks of the second stage pack what they need.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::scratch::Memory;
use super::{Operands, Source, cache};
use crate::kernels::Accumulate;

/// Bytes of packed operands for which this is done, at most.
const MOST_BYTES: usize = 256 << 20;

/// Bytes of buffers that are kept for later plans, at most.
const KEPT_BYTES: usize = 96 << 20;

/// Buffers that are not in use.
static POOL: Mutex<Vec<Memory>> = Mutex::new(Vec::new());

/// A buffer that goes back to the pool.
pub(super) struct Pooled(Option<Memory>);

impl Pooled {
    /// A buffer of at least `bytes` bytes, if there is memory.
    fn take(bytes: usize) -> Option<Pooled> {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = (0..pool.len())
            .filter(|&i| pool[i].bytes() >= bytes)
            .min_by_key(|&i| pool[i].bytes());
        let memory = fitting.map(|index| pool.swap_remove(index));
        drop(pool);
        memory
            .or_else(|| Memory::try_new(bytes))
            .map(|memory| Pooled(Some(memory)))
    }

    fn address(&self) -> *mut u8 {
        self.0
            .as_ref()
            .map_or(std::ptr::null_mut(), Memory::address)
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        pool.extend(self.0.take());
        while pool.iter().map(Memory::bytes).sum::<usize>() > KEPT_BYTES {
            pool.remove(0);
        }
    }
}

/// The buffer of a plan while it runs.
#[derive(Default)]
struct Lease {
    state: Mutex<State>,
}

/// What the tasks of the first stage have found.
#[derive(Default)]
struct State {
    /// The buffer: `None` if no task has asked for it, `Some(None)` if there is no memory for it.
    buffer: Option<Option<Arc<Pooled>>>,
    /// Tasks of the second stage that have not ended.
    left: usize,
}

impl Lease {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The buffer, which is taken from the pool by the first task that asks for it.
    fn take(&self, bytes: usize, tasks: usize) -> Option<Arc<Pooled>> {
        let mut state = self.state();
        if state.buffer.is_none() {
            state.left = tasks;
            state.buffer = Some(Pooled::take(bytes).map(Arc::new));
        }
        state.buffer.clone().flatten()
    }

    /// The buffer, if there is one.
    fn get(&self) -> Option<Arc<Pooled>> {
        self.state().buffer.clone().flatten()
    }

    /// Ends a task of the second stage. The last one gives the buffer back.
    fn end(&self) {
        let mut state = self.state();
        state.left = state.left.saturating_sub(1);
        if state.left == 0 {
            state.buffer = None;
        }
    }
}

/// An operand in packed form: parts of the depth one after another; in each, the panels of all outer indices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready<P> {
    /// The first panel.
    pub(super) data: *const P,
    /// Outer indices, with those that fill the last panel.
    pub(super) padded: usize,
}

/// How the operands of a product are packed.
pub(super) struct Packing {
    lease: Lease,
    depth: usize,
    /// Values of k in a part.
    step: usize,
    /// Outer indices of both operands: their number, the width of panels, and those of a task.
    sides: [Side; 2],
    /// Tasks of the second stage.
    tasks: usize,
}

#[derive(Clone, Copy)]
struct Side {
    count: usize,
    width: usize,
    task: usize,
}

impl Side {
    fn padded(&self) -> usize {
        self.count.next_multiple_of(self.width)
    }

    fn tasks(&self) -> usize {
        self.count.div_ceil(self.task)
    }
}

impl Packing {
    /// The packing of an m by n product over k, unless it is too small or too large for that. `tasks`: of the second stage.
    pub(super) fn new<T: Accumulate>([m, n, k]: [usize; 3], tasks: usize) -> Option<Packing> {
        let kernel = T::kernel();
        let side = |count: usize, width: usize| {
            // A part of the cache.
            let rows = cache::bytes() / 8 / (kernel.depth * T::PARTS * size_of::<T::Part>());
            Side {
                count,
                width,
                task: rows.next_multiple_of(width).max(width),
            }
        };
        let sides = [side(m, kernel.rows), side(n, kernel.columns)];
        let packing = Packing {
            lease: Lease::default(),
            depth: k,
            step: kernel.step(k),
            sides,
            tasks,
        };
        let bytes = sides[0]
            .padded()
            .checked_add(sides[1].padded())?
            .checked_mul(k.checked_add(1)?)?
            .checked_mul(T::PARTS * size_of::<T::Part>())?;
        let products =
            m as f64 * n as f64 * k as f64 * (T::PARTS * T::PARTS) as f64 / T::STEP as f64;
        (tasks > 1 && products > 2e7 && m.min(n) >= 64 && k >= 64 && bytes <= MOST_BYTES)
            .then_some(packing)
    }

    /// Parts of an operand before it in the buffer.
    fn offset<T: Accumulate>(&self, side: usize) -> usize {
        if side == 0 {
            0
        } else {
            self.sides[0].padded() * self.depth.next_multiple_of(T::STEP) * T::PARTS
        }
    }

    fn parts_of_depth(&self) -> usize {
        self.depth.div_ceil(self.step)
    }

    /// Tasks of the first stage.
    pub(super) fn pack_tasks(&self) -> usize {
        self.parts_of_depth() * (self.sides[0].tasks() + self.sides[1].tasks())
    }

    /// Nanoseconds of a task of the first stage, about.
    pub(super) fn pack_cost(&self) -> f64 {
        self.step as f64 * self.sides[0].task.min(self.sides[1].task) as f64 * 0.5
    }

    /// Runs a task of the first stage.
    ///
    /// # Safety
    /// The plan may run now.
    pub(super) unsafe fn pack<T: Accumulate>(&self, task: usize, operands: &Operands<'_, T>) {
        if operands.zero {
            return;
        }
        let bytes = (self.offset::<T>(1)
            + self.sides[1].padded() * self.depth.next_multiple_of(T::STEP) * T::PARTS)
            * size_of::<T::Part>();
        let Some(buffer) = self.lease.take(bytes, self.tasks) else {
            return;
        };
        let (part, index) = (task % self.parts_of_depth(), task / self.parts_of_depth());
        let first = self.sides[0].tasks();
        let (number, index, source): (usize, usize, &dyn Source<T>) = if index < first {
            (0, index, operands.a)
        } else {
            (1, index - first, operands.b)
        };
        let side = self.sides[number];
        let outer = index * side.task..side.count.min((index + 1) * side.task);
        let terms = part * self.step..self.depth.min((part + 1) * self.step);
        let ready = Ready {
            data: buffer
                .address()
                .cast::<T::Part>()
                .wrapping_add(self.offset::<T>(number)),
            padded: side.padded(),
        };
        // SAFETY: the buffer has room for both operands; tasks have disjoint panels.
        unsafe {
            source.pack(
                outer.clone(),
                terms.clone(),
                side.width,
                ready.panels::<T>(&outer, &terms).cast_mut(),
            )
        };
    }

    /// Runs a task of the second stage. `body` gets the packed operands, if there are any.
    pub(super) fn multiply<T: Accumulate>(&self, body: impl FnOnce(Option<[Ready<T::Part>; 2]>)) {
        let buffer = self.lease.get();
        body(buffer.as_ref().map(|buffer| {
            [0, 1].map(|side| Ready {
                data: buffer
                    .address()
                    .cast::<T::Part>()
                    .wrapping_add(self.offset::<T>(side))
                    .cast_const(),
                padded: self.sides[side].padded(),
            })
        }));
        drop(buffer);
        self.lease.end();
    }
}

impl<P> Ready<P> {
    /// The panels of some outer indices, from the beginning of a panel on, and of a part of the depth.
    pub(super) fn panels<T: Accumulate<Part = P>>(
        &self,
        outer: &Range<usize>,
        terms: &Range<usize>,
    ) -> *const P {
        let before =
            terms.start * self.padded + outer.start * terms.len().next_multiple_of(T::STEP);
        self.data.wrapping_add(before * T::PARTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_memory_tasks_pack_themselves() {
        let lease = Lease::default();
        for _ in 0..2 {
            assert!(lease.take(usize::MAX / 4, 2).is_none());
            // The answer stays: no other task of the stage may pack into a buffer of which a part is missing.
            assert!(lease.take(64, 2).is_none());
            assert!(lease.get().is_none());
            lease.end();
            assert!(lease.take(64, 2).is_none());
            lease.end();
        }
        assert!(lease.take(64, 1).is_some());
        lease.end();
        assert!(lease.get().is_none());
    }
}
