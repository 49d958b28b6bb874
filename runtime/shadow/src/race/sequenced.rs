//! Determines how executions of `fence.sc` order the accesses before and after them. The CUDA
//! compiler translates `__threadfence()` to `fence.sc`.
//!
//! PTX orders any two `fence.sc` operations whose scopes include each other, and the earlier fence
//! synchronises with the later fence (PTX ISA 8.9, "Synchronizes"). Suppose that a fence F happens
//! before a strong write, a strong read obtains the value of this write or of a later write to the
//! location, and the read happens before a fence G. It follows that F precedes G: if G preceded F,
//! G would synchronise with F, so the read would happen before the write and could not have
//! obtained the value of the write. All accesses before F therefore happen before all accesses
//! after G. The threads that execute the write and the read need not be the threads that execute
//! the fences. For example, all threads of a CTA write, execute `__threadfence()` and wait at a
//! barrier. After the barrier, one thread increments a counter without another fence.
//!
//! The detector records only fences whose scope includes the device. The order of the fences is
//! propagated through warp barriers and CTA barriers between F and the write or between the read
//! and G. The order is not propagated through `bar.arrive`, cluster barriers and acquire operations
//! at these places. In programs that rely on the latter operations, the detector may report a race
//! that does not exist.

use super::clock::{self, Shared};
use super::cta::Known;

/// The vector clocks with which the detector orders the `fence.sc` operations of the threads of a
/// CTA.
#[derive(Debug)]
pub(super) struct Sequenced {
    /// For each thread, all accesses that precede a fence which happens before the next access of
    /// the thread.
    fenced: Known,
    /// For each thread, all accesses that precede a fence which, in the order of fences, precedes
    /// the next `fence.sc` of the thread.
    read: Known,
    /// Whether a thread of the CTA has read a value that depends on the order in which the threads
    /// happened to run.
    scheduled: bool,
}

impl Sequenced {
    pub(super) fn new(warps: usize) -> Sequenced {
        Sequenced {
            fenced: Known::new(warps),
            read: Known::new(warps),
            scheduled: false,
        }
    }

    /// Returns the two groups of vector clocks, `fenced` and `read`. Barriers update these clocks
    /// in the same way as the clocks of accesses.
    pub(super) fn all(&mut self) -> [&mut Known; 2] {
        [&mut self.fenced, &mut self.read]
    }

    /// Records a fence of a thread. `known` contains the accesses that happen before the fence.
    pub(super) fn fence(&mut self, thread: u32, known: &Shared) {
        clock::join(self.fenced.thread_mut(thread), known);
    }

    /// Returns all accesses that precede a fence which happens before the next access of a thread.
    /// If this access is a strong write and another thread reads its value, the returned accesses
    /// precede later fences of the other thread.
    pub(super) fn written(&self, thread: u32) -> Shared {
        self.fenced.of(thread)
    }

    /// Records that a thread has read the value of a write with the clock `written`.
    pub(super) fn read(&mut self, thread: u32, written: &Shared, scheduled: bool) {
        clock::join(self.read.thread_mut(thread), written);
        self.scheduled |= scheduled;
    }

    /// Returns the accesses that precede the next `fence.sc` of a thread because of the values that
    /// the thread has read. Also returns whether any thread of the CTA has read a value that
    /// depends on the order in which the threads happened to run.
    pub(super) fn acquired(&self, thread: u32) -> (Shared, bool) {
        (self.read.of(thread), self.scheduled)
    }
}
