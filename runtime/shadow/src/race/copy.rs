//! Asynchronous copies. This module determines when the accesses that a copy performs are complete.
//!
//! The thread that issues a copy does not perform the accesses of the copy. These accesses begin when the copy is
//! issued, and they are complete when a thread has waited for the copy. Depending on the kind of copy, either the
//! thread that has issued the copy waits for the copy's group, or any thread waits for the mbarrier that the copy
//! signals.

use super::clock::{CtaId, Thread, Time};

/// The way in which threads wait for the end of an asynchronous operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Completion {
    /// A wait for the bulk group, in the thread that has issued the operation.
    BulkGroup,
    /// A wait for the mbarrier that the operation signals.
    Object,
}

/// The two sequences of copy groups of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Sequence {
    /// The sequence of the groups of `cp.async` copies.
    Thread,
    /// The sequence of the groups of bulk copies.
    Bulk,
}

/// The wait after which the accesses of a copy are complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// A wait for the group with this number in this sequence.
    Group(Sequence, u32),
    /// A wait for the mbarrier that the copy signals. The field is the index of the copy in
    /// [`Detector::copies`](super::Detector).
    Object(u32),
}

/// The copy that performs an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Copy {
    pub(super) end: End,
    /// Whether the copy accesses memory through the asynchronous proxy.
    pub(super) proxy: bool,
}

/// An asynchronous operation that a thread is issuing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issue {
    pub(super) completion: Completion,
    pub(super) copy: Copy,
}

/// The lowest CTA index that represents a sequence of copies in clocks. The indices of real CTAs are lower.
const FIRST: CtaId = 1 << 31;

/// The position of a copy in a sequence. A sequence consists of the copies that one thread issues for one mbarrier.
/// These copies complete in order, so clocks treat a sequence as a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) sequence: u32,
    pub(super) number: u32,
}

impl Place {
    /// Returns the thread that represents the sequence in clocks.
    pub(super) fn thread(self) -> Thread {
        Thread {
            cta: FIRST + self.sequence,
            index: 0,
        }
    }

    /// Returns the time of the copy in the sequence.
    pub(super) fn time(self) -> Time {
        Time {
            epoch: u32::MAX,
            interval: self.number,
        }
    }
}

/// Maximum number of waits that the detector stores in a list of waits of a thread.
const WAITS: usize = 256;

/// The waits of a thread, oldest first. For each wait, the number of groups that are complete after the wait, and the
/// time of the wait.
#[derive(Debug, Default)]
struct Waits(Vec<(u32, Time)>);

impl Waits {
    /// Records that a wait at `time` completed the first `complete` groups of copies of the thread.
    /// Returns false if these groups were complete before.
    fn add(&mut self, complete: u32, time: Time) -> bool {
        if self.0.last().is_some_and(|&(before, _)| before >= complete) {
            return false;
        }
        if self.0.len() == WAITS {
            self.0.remove(0);
        }
        self.0.push((complete, time));
        true
    }

    fn of(&self, group: u32) -> Option<Time> {
        let wait = self.0.partition_point(|&(complete, _)| complete <= group);
        self.0.get(wait).map(|&(_, time)| time)
    }
}

/// The groups of one sequence of a thread.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Number of groups that the thread has ended with a commit or with a wait for all copies.
    ended: u32,
    waits: Waits,
    /// Waits after which the copies have read their sources but have possibly not yet written their destinations.
    reads: Waits,
}

impl Groups {
    /// Returns the number of the group to which the next copy belongs.
    pub(super) fn open(&self) -> u32 {
        self.ended
    }

    /// Records that the thread commits the open group; later copies belong to the next group.
    pub(super) fn commit(&mut self) {
        self.ended += 1;
    }

    /// Records a wait until at most `open` groups are incomplete or, if `open` is `None`, until all copies are
    /// complete. Returns whether the wait completes groups that were not complete before.
    pub(super) fn wait(&mut self, open: Option<u32>, only_reads: bool, time: Time) -> bool {
        let complete = match open {
            Some(open) => self.ended.saturating_sub(open),
            None => {
                self.ended += 1;
                self.ended
            }
        };
        match only_reads {
            true => self.reads.add(complete, time),
            false => self.waits.add(complete, time),
        }
    }

    /// Returns the time at which the thread has waited for an access of a group; `None` if the thread has not waited
    /// for it. `writes` states whether the access writes.
    pub(super) fn complete(&self, group: u32, writes: bool) -> Option<Time> {
        let end = self.waits.of(group);
        let read = self.reads.of(group).filter(|_| !writes);
        match (end, read) {
            (Some(a), Some(b)) => Some(if b.interval < a.interval { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}
