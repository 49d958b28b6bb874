//! The order of `fence.sc`, to which `__threadfence()` is compiled.
//!
//! PTX orders any two `fence.sc` whose scopes include each other, and the earlier one synchronises with the later one
//! (PTX ISA 8.9, "Synchronizes"). Suppose that a fence F happens before a strong write, a strong read obtains the value
//! of this write or of a later write to the location, and the read happens before a fence G. Then F precedes G:
//! otherwise, G would synchronise with F, the read would happen before the write, and could not have obtained its
//! value. All accesses before F therefore happen before all accesses after G. Neither the writing nor the reading
//! thread needs a fence of its own. For example, all threads of a CTA write, execute `__threadfence()` and pass a
//! barrier, and then one thread increments a counter.
//!
//! The detector records only fences whose scope includes the device. It passes their order on through warp and CTA
//! barriers, but not through `bar.arrive`, barriers of clusters, and acquire operations between F and the write or
//! between the read and G. In such programs it may report a race that there is not.

use super::clock::{self, Shared};
use super::cta::Known;

/// The clocks of the threads of a CTA that belong to `fence.sc`.
#[derive(Debug)]
pub(super) struct Sequenced {
    /// The accesses before fences that happen before the next access of a thread.
    fenced: Known,
    /// The accesses before fences that precede the next `fence.sc` of a thread.
    read: Known,
    /// Whether the schedule decides from which write a thread has read.
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

    /// Returns the clocks of both kinds, which synchronisation orders in the same way as the clocks of accesses.
    pub(super) fn all(&mut self) -> [&mut Known; 2] {
        [&mut self.fenced, &mut self.read]
    }

    /// Records a fence of a thread. `known` contains the accesses that happen before the fence.
    pub(super) fn fence(&mut self, thread: u32, known: &Shared) {
        clock::join(self.fenced.thread_mut(thread), known);
    }

    /// Returns the accesses that a strong write of a thread passes to later fences of threads that read its value.
    pub(super) fn written(&self, thread: u32) -> Shared {
        self.fenced.of(thread)
    }

    /// Records that a thread has read the value of a write with the clock `written`.
    pub(super) fn read(&mut self, thread: u32, written: &Shared, scheduled: bool) {
        clock::join(self.read.thread_mut(thread), written);
        self.scheduled |= scheduled;
    }

    /// Returns the accesses that precede the next `fence.sc` of a thread because of what has been read, and whether the
    /// schedule decides which accesses these are.
    pub(super) fn acquired(&self, thread: u32) -> (Shared, bool) {
        (self.read.of(thread), self.scheduled)
    }
}
