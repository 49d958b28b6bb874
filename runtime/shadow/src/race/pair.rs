//! Decides whether an access races with an earlier access. If so, the module also finds out what
//! would prevent the race ([`Missing`]): a missing operation, such as a barrier, or
//! a missing property, such as a sufficient scope.

use super::cell::Entry;
use super::clock::{CtaId, Thread, Time};
use super::copy::{Copy, End, Sequence};
use super::cta::{Basis, lanes};
use super::{Access, Detector, Group, Missing, Race, Scope};

impl Detector {
    /// Returns whether the accesses of `entry` belong to the current interval of the warp that
    /// contains the thread `by`. An interval lies between two synchronising operations of a warp.
    pub(super) fn is_current(&self, by: Thread, entry: &Entry) -> bool {
        let group = &self.groups[entry.group as usize - 1];
        (group.cta, group.warp) == (by.cta, by.warp())
            && group.time == self.ctas[by.cta as usize].time(by.index)
    }

    /// Returns the lanes whose recorded accesses in `entry` do not happen before the next access of
    /// the thread `by`.
    fn unknown_lanes(&self, by: Thread, entry: &Entry, basis: Basis) -> u32 {
        let group = &self.groups[entry.group as usize - 1];
        let cta = &self.ctas[by.cta as usize];
        let other = &self.ctas[group.cta as usize];
        if other.launch != cta.launch && !self.may_overlap(other.launch, cta.launch) {
            return 0;
        }
        if group.copy.is_none() {
            let accesses = ((group.cta, group.warp), group.time);
            return entry.lanes & !cta.known_lanes(by.cta, by.index, accesses, basis);
        }
        let unknown = |lane: &u32| {
            let thread = Thread {
                cta: group.cta,
                index: group.warp * 32 + lane,
            };
            match self.end_of(group, thread, entry.writes) {
                Some(end) => !cta.knows(by.cta, by.index, end, basis),
                None => true,
            }
        };
        lanes(entry.lanes)
            .filter(unknown)
            .fold(0, |mask, lane| mask | 1 << lane)
    }

    /// Returns the end of an access by `thread`: a time, and the thread to which this time belongs.
    /// The access happens before the next access of another thread if the vector clock of the other
    /// thread contains this end. An ordinary access ends at the time of the access. An access of an
    /// asynchronous copy ends at the wait for the copy's group, or at the copy's signal to its
    /// mbarrier. Returns `None` if this wait or signal has not happened yet.
    fn end_of(&self, group: &Group, thread: Thread, writes: bool) -> Option<(Thread, Time)> {
        match group.copy.map(|copy| copy.end) {
            None => Some((thread, group.time)),
            Some(End::Group(sequence, number)) => {
                let groups = self.ctas[group.cta as usize].groups(thread.index, sequence)?;
                Some((thread, groups.complete(number, writes)?))
            }
            Some(End::Object(copy)) => {
                let place = self.copies[copy as usize]?;
                Some((place.thread(), place.time()))
            }
        }
    }

    /// Returns whether all accesses of `entry` happen before the next access of the thread `by`.
    pub(super) fn is_over(&self, by: Thread, entry: &Entry) -> bool {
        self.unknown_lanes(by, entry, Basis::Guaranteed) == 0
    }

    /// Returns the race between an access and an earlier access, or `None` if the two accesses do
    /// not race.
    pub(super) fn race(
        &self,
        by: Thread,
        (access, copy): (Access, Option<Copy>),
        entry: &Entry,
    ) -> Option<Race> {
        let group = &self.groups[entry.group as usize - 1];
        let both_strong = group.strong.zip(access.strong);
        // Atomic accesses are naturally aligned, so two overlapping accesses of equal size cover the same bytes.
        let alike = u32::from(group.element) == access.element;
        let included = both_strong.is_some_and(|(a, b)| self.includes(a.min(b), by.cta, group.cta));
        let sufficient = included && alike;
        let volatile = group.volatile || access.volatile;
        if sufficient && !volatile {
            return None;
        }
        let unknown = self.unknown_lanes(by, entry, Basis::Guaranteed);
        if unknown == 0 {
            return None;
        }
        // A thread executes its volatile accesses in program order, so it needs no fence between the read of a flag and
        // a volatile access.
        let assumed = self.unknown_lanes(by, entry, Basis::Assumed) & unknown == 0;
        if sufficient && assumed {
            return None;
        }
        let suspected = self.unknown_lanes(by, entry, Basis::Suspected) & unknown;
        let (cta, other) = (&self.ctas[by.cta as usize], &self.ctas[group.cta as usize]);
        let same_warp = (group.cta, group.warp) == (by.cta, by.warp());
        let thread = group.warp * 32 + unknown.trailing_zeros();
        let first = Thread {
            cta: group.cta,
            index: thread,
        };
        // A wait for the copy is missing only if the thread knows that the copy was issued. Otherwise the accesses can
        // also occur in the opposite order, and then the wait would not order them.
        let is_copy = group.copy.is_some() || copy.is_some();
        let incomplete = self.end_of(group, first, entry.writes).is_none();
        let issued = (first, group.time);
        let unwaited = incomplete && cta.knows(by.cta, by.index, issued, Basis::Guaranteed);
        let missing = if let Some(end) = group.copy.map(|copy| copy.end)
            && (unwaited || matches!(end, End::Object(_)))
        {
            match end {
                End::Group(Sequence::Thread, _) => Missing::CopyWait,
                End::Group(Sequence::Bulk, _) => Missing::BulkWait,
                End::Object(_) => Missing::ObjectWait,
            }
        } else if both_strong.is_some() && !included {
            Missing::Scope
        } else if both_strong.is_some() && !alike {
            Missing::Size
        } else if suspected != unknown
            && !(sufficient && group.cta == by.cta)
            && (!same_warp || is_copy)
            && self.passes_flag(by, entry, access, unknown & !suspected)
        {
            match cta.is_narrow(by.index) {
                true => Missing::Scope,
                false => Missing::Fence,
            }
        } else if group.cta != by.cta && other.launch != cta.launch {
            Missing::StreamOrder
        } else if same_warp {
            Missing::WarpBarrier
        } else if group.cta == by.cta {
            Missing::Barrier
        } else if other.cluster == cta.cluster && other.launch == cta.launch {
            Missing::ClusterBarrier
        } else {
            Missing::GridOrder
        };
        Some(Race {
            earlier: (group.site, group.cta, thread),
            earlier_writes: entry.writes,
            thread: by.index,
            address: 0,
            missing,
            same_warp: same_warp && !is_copy,
            both_write: false,
            volatile: included && volatile,
            reader_lacks_fence: assumed,
            threads: 1,
        })
    }

    /// Returns whether a flag other than the accessed memory itself tells the thread `by` of the earlier accesses of
    /// the lanes `mask`, so that fences on both sides of the flag would order the accesses. If only the earlier access is
    /// atomic, the thread can know the atomic access only because it has itself accessed the same memory atomically.
    /// A fence does not order the two accesses then: in another schedule, the atomic access is the later one. The
    /// function therefore requires that the thread also knows a later strong write of the same lane.
    fn passes_flag(&self, by: Thread, entry: &Entry, access: Access, mask: u32) -> bool {
        let group = &self.groups[entry.group as usize - 1];
        if group.strong.is_none() || access.strong.is_some() {
            return true;
        }
        let later = Time {
            interval: group.time.interval + 1,
            ..group.time
        };
        let cta = &self.ctas[by.cta as usize];
        lanes(mask).any(|lane| {
            let thread = Thread {
                cta: group.cta,
                index: group.warp * 32 + lane,
            };
            cta.knows(by.cta, by.index, (thread, later), Basis::Suspected)
        })
    }

    /// Returns the race between an access of a bulk copy and an earlier write that is not visible
    /// to the asynchronous proxy, because no proxy fence follows the write. Other pairs of accesses
    /// need no proxy fence: a bulk copy is allowed to overwrite data that threads have read, and
    /// the wait for a bulk copy includes a proxy fence.
    pub(super) fn race_of_proxies(
        &self,
        by: Thread,
        (access, copy): (Access, Option<Copy>),
        entry: &Entry,
    ) -> Option<Race> {
        let group = &self.groups[entry.group as usize - 1];
        if !copy?.proxy || !entry.writes || group.copy.is_some() {
            return None;
        }
        let cta = &self.ctas[by.cta as usize];
        if self.ctas[group.cta as usize].launch != cta.launch {
            // The end of a kernel is a fence between the proxies.
            return None;
        }
        let thread = |lane: u32| Thread {
            cta: group.cta,
            index: group.warp * 32 + lane,
        };
        let lane = lanes(entry.lanes)
            .find(|&lane| !cta.has_fenced(by.index, (thread(lane), group.time), access.window))?;
        Some(Race {
            earlier: (group.site, group.cta, thread(lane).index),
            earlier_writes: true,
            thread: by.index,
            address: 0,
            missing: Missing::ProxyFence,
            same_warp: false,
            both_write: false,
            volatile: false,
            reader_lacks_fence: false,
            threads: 1,
        })
    }

    /// Returns the race between an access and an earlier access if both threads held the same lock,
    /// but the thread of the earlier access took the lock without an acquire operation. The lock
    /// orders the two accesses only by chance: if the threads had taken the lock in the opposite
    /// order, their accesses would not be ordered.
    pub(super) fn race_of_lock(&self, by: Thread, access: Access, entry: &Entry) -> Option<Race> {
        let group = &self.groups[entry.group as usize - 1];
        let (cta, other) = (&self.ctas[by.cta as usize], &self.ctas[group.cta as usize]);
        let own = cta.lock(by.index)?;
        let theirs = self.locks.get_index(group.lock?.get() as usize - 1)?;
        // A barrier orders the two accesses in every schedule.
        let in_order = match group.cta == by.cta {
            true => cta.lanes_before_barriers(by.index, group.warp, group.time),
            false => 0,
        };
        let unordered = entry.lanes & !in_order;
        if unordered == 0 {
            return None;
        }
        let thread = group.warp * 32 + unordered.trailing_zeros();
        let holder = Thread {
            cta: group.cta,
            index: thread,
        };
        if own.address != theirs.address || holder == by || other.launch != cta.launch {
            return None;
        }
        // The set contains no pair if the earlier thread has not released the location with a write other than a
        // compare-and-swap (the location is then not a lock), or if the thread had acquired the lock with device scope
        // before each access (the lock then orders the accesses).
        if !self.released.contains(&(holder, own.address)) {
            return None;
        }
        if (theirs.acquired).is_some_and(|scope| self.includes(scope, by.cta, group.cta)) {
            return None;
        }
        let atomic = |strong: Option<Scope>, volatile: bool| strong.is_some() && !volatile;
        if atomic(group.strong, group.volatile) && atomic(access.strong, access.volatile) {
            return None;
        }
        Some(Race {
            earlier: (group.site, group.cta, thread),
            earlier_writes: entry.writes,
            thread: by.index,
            address: 0,
            missing: match theirs.acquired {
                Some(_) => Missing::Scope,
                None => Missing::Fence,
            },
            same_warp: false,
            both_write: false,
            volatile: false,
            reader_lacks_fence: false,
            threads: 1,
        })
    }

    /// Returns whether the accesses of `group` are strong and their scope includes the thread `by`.
    pub(super) fn scope_includes(&self, group: &Group, by: Thread) -> bool {
        let scope = group.strong;
        scope.is_some_and(|scope| self.includes(scope, by.cta, group.cta))
    }

    /// Returns whether `scope`, used by a thread of one CTA, includes the threads of another CTA.
    fn includes(&self, scope: Scope, a: CtaId, b: CtaId) -> bool {
        match scope {
            Scope::Device => true,
            Scope::Cluster => {
                let (a, b) = (&self.ctas[a as usize], &self.ctas[b as usize]);
                (a.launch, a.cluster) == (b.launch, b.cluster)
            }
            Scope::Cta => a == b,
        }
    }
}
