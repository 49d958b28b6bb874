//! Chooses the next piece of a run ([`Piece`]) that a worker executes: a range of new units, or a
//! parked unit to resume.

use std::sync::atomic::Ordering;

use super::{Run, Shared};
use crate::engine::ParkedUnit;

/// Work that a worker takes from a run.
pub(super) enum Piece {
    /// The units `first..end`, which have not started. The scheduler may reverse their order ([`Run::reordered`]).
    New(u64, u64),
    /// A parked unit to be resumed.
    Parked(ParkedUnit),
}

/// Approximate running time in nanoseconds of the range of units that a worker claims with one call
/// of [`Shared::take`]. The time is short so that workers can react to other launches and to stops.
const CHUNK_NANOS: u64 = 500_000;
/// Minimum running time in nanoseconds of such a range, unless fewer units remain. A shorter range would take less time
/// than the claim.
const SHORTEST_CHUNK_NANOS: u64 = 2_000;

impl Shared {
    /// Returns whether the run has a piece that a worker can take. The result is only a hint,
    /// because it may be outdated.
    pub(super) fn has_work(&self, run: &Run) -> bool {
        let work = run.parked_count.load(Ordering::SeqCst) > 0
            || run.leftover_count.load(Ordering::SeqCst) > 0
            || self.can_claim(run);
        work && run.users() < run.allowed(self.config.workers)
    }

    /// Returns whether the run has units that have not started and can start. The result is only a
    /// hint, because it may be outdated.
    pub(super) fn has_new_work(&self, run: &Run) -> bool {
        let work = run.leftover_count.load(Ordering::SeqCst) > 0 || self.can_claim(run);
        work && run.users() < run.allowed(self.config.workers)
    }

    fn can_claim(&self, run: &Run) -> bool {
        if run.next.load(Ordering::SeqCst) >= run.spec.units {
            return false;
        }
        if !run.may_park || run.gang_reserved.load(Ordering::SeqCst) {
            return true;
        }
        let free = self.free.load(Ordering::SeqCst);
        if run.spec.gang {
            return free >= run.spec.units as i64;
        }
        free > 0 && run.reserved.load(Ordering::SeqCst) < run.spec.resident
    }

    /// Removes the next piece from the work of the run and returns it. Parked and new units are
    /// taken alternately, so that each kind of unit is taken at some time.
    pub(super) fn take(&self, run: &Run) -> Option<Piece> {
        let parked_first = run.turns.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        if parked_first && let Some(unit) = run.unpark(self) {
            return Some(Piece::Parked(unit));
        }
        if let Some((first, end)) = run.take_leftover() {
            return Some(Piece::New(first, end));
        }
        if let Some((first, end)) = self.claim(run) {
            return Some(Piece::New(first, end));
        }
        run.unpark(self).map(Piece::Parked)
    }

    fn claim(&self, run: &Run) -> Option<(u64, u64)> {
        if run.next.load(Ordering::SeqCst) >= run.spec.units {
            return None;
        }
        let wanted = self.chunk(run);
        let granted = if run.may_park {
            self.reserve(run, wanted)
        } else {
            wanted
        };
        if granted == 0 {
            return None;
        }
        let claimed = run
            .next
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |next| {
                let end = next.saturating_add(granted).min(run.spec.units);
                (next < end).then_some(end)
            });
        let (first, end) = match claimed {
            Ok(first) => (first, first.saturating_add(granted).min(run.spec.units)),
            Err(next) => (next, next),
        };
        if run.may_park && !run.spec.gang {
            self.unreserve(run, granted - (end - first));
        }
        (first < end).then_some((first, end))
    }

    /// Returns the number of units to claim, at least 1. The number is the smaller of two numbers:
    /// a share of the remaining units, and the number of units that run for about [`CHUNK_NANOS`]
    /// in total. In runs whose units may park, the number is also at most a share of the units that
    /// may be resident.
    fn chunk(&self, run: &Run) -> u64 {
        let left = run
            .spec
            .units
            .saturating_sub(run.next.load(Ordering::SeqCst));
        let (in_time, least) = match run.unit_nanos.load(Ordering::Relaxed) {
            // No unit has been measured yet. The first range is small and provides a measurement.
            0 => (4, 1),
            nanos => (CHUNK_NANOS / nanos, SHORTEST_CHUNK_NANOS / nanos),
        };
        let share = match self.config.workers {
            1 => left,
            workers => (left / (4 * workers as u64)).max(least),
        };
        let resident = if run.may_park {
            run.spec.resident / (2 * self.config.workers as u64)
        } else {
            u64::MAX
        };
        share.min(in_time).min(resident).max(1)
    }

    /// Reserves residency for as many units of the run as possible, at most `wanted`. Returns the
    /// number of these units.
    fn reserve(&self, run: &Run, wanted: u64) -> u64 {
        if run.spec.gang {
            return if self.reserve_gang(run) { wanted } else { 0 };
        }
        let local = grab(&run.reserved, wanted, run.spec.resident);
        let global = self
            .free
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |free| {
                (free > 0).then(|| free - free.min(local as i64))
            })
            .map_or(0, |before| (before as u64).min(local));
        run.reserved.fetch_sub(local - global, Ordering::SeqCst);
        global
    }

    /// Reserves residency for all units of a cooperative launch if this is possible. Returns false
    /// if no residency is reserved.
    fn reserve_gang(&self, run: &Run) -> bool {
        if run.gang_reserved.load(Ordering::SeqCst) {
            return true;
        }
        let units = run.spec.units as i64;
        let reserved = self
            .free
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |free| {
                (free >= units).then(|| free - units)
            })
            .is_ok();
        if reserved && run.gang_reserved.swap(true, Ordering::SeqCst) {
            // Another worker has made the same reservation at the same time. That reservation remains, and this one is
            // undone.
            self.free.fetch_add(units, Ordering::SeqCst);
        }
        reserved || run.gang_reserved.load(Ordering::SeqCst)
    }

    /// Gives back the reserved residency of `units` units of the run.
    pub(super) fn unreserve(&self, run: &Run, units: u64) {
        if units == 0 {
            return;
        }
        if !run.spec.gang {
            run.reserved.fetch_sub(units, Ordering::SeqCst);
        }
        self.free.fetch_add(units as i64, Ordering::SeqCst);
    }
}

/// Adds `wanted`, or as much of it as `limit` permits, to `counter`. `counter` then does not exceed
/// `limit`. Returns the number that was added.
fn grab(counter: &std::sync::atomic::AtomicU64, wanted: u64, limit: u64) -> u64 {
    counter
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
            (now < limit).then(|| now + wanted.min(limit - now))
        })
        .map_or(0, |before| wanted.min(limit - before))
}
