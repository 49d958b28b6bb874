//! What a worker does next in a run: chunks of new units, or a parked one.

use std::sync::atomic::Ordering;

use super::{Run, Shared};
use crate::engine::ParkedUnit;

/// A piece of a run.
pub(super) enum Piece {
    /// Units that nobody has started, `first..end`, in claiming order.
    New(u64, u64),
    /// A unit that goes on.
    Parked(ParkedUnit),
}

/// A chunk should take about this long, so that other launches and stops get their turn.
const CHUNK_NANOS: u64 = 500_000;

impl Shared {
    /// Whether a worker would find something to do in the run. A hint.
    pub(super) fn has_work(&self, run: &Run) -> bool {
        let work = run.parked_count.load(Ordering::SeqCst) > 0
            || run.leftover_count.load(Ordering::SeqCst) > 0
            || self.can_claim(run);
        work && run.users() < run.allowed(self.config.workers)
    }

    /// Whether units of the run could start for the first time. A hint.
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

    /// The next piece. Parked and new units take turns, so that neither starves the other.
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

    /// How many units to claim: a share of what is left, less than a slice of time.
    fn chunk(&self, run: &Run) -> u64 {
        let left = run
            .spec
            .units
            .saturating_sub(run.next.load(Ordering::SeqCst));
        let share = left / (4 * self.config.workers as u64);
        let in_time = match run.unit_nanos.load(Ordering::Relaxed) {
            // Nothing is known yet: a small first chunk tells.
            0 => 4,
            nanos => CHUNK_NANOS / nanos,
        };
        let resident = if run.may_park {
            run.spec.resident / (2 * self.config.workers as u64)
        } else {
            u64::MAX
        };
        share.min(in_time).min(resident).max(1)
    }

    /// Reserves residency for up to `wanted` units of the run.
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

    /// All units of a cooperative launch at once, or none.
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
            // Another worker was as quick; its reservation stands.
            self.free.fetch_add(units, Ordering::SeqCst);
        }
        reserved || run.gang_reserved.load(Ordering::SeqCst)
    }

    /// Gives back the residency of `units` units.
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

/// Adds up to `wanted` to `counter` without passing `limit`; how much was added.
fn grab(counter: &std::sync::atomic::AtomicU64, wanted: u64, limit: u64) -> u64 {
    counter
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
            (now < limit).then(|| now + wanted.min(limit - now))
        })
        .map_or(0, |before| wanted.min(limit - before))
}
