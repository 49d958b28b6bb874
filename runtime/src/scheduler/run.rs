//! A launch that the scheduler runs.
//!
//! Invariant: in a run whose units may park and which is not cooperative, each unit is complete,
//! has reserved residency, or is unclaimed. A run finishes exactly once: when all units are
//! complete, or when the run is stopping and the last worker has left the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::parked::Parked;
use super::{Shared, Throttle};
use crate::engine::{ParkedUnit, PreparedLaunch};
use crate::error::{Fault, FaultKind};
use crate::native_kernel::MemoryRange;

/// The error text of a timeout describes at most this number of parked units and this number of
/// running units.
const SHOWN: usize = 16;

/// The owner of a run. It returns properties of the kernel, and the scheduler tells it when units
/// have run and when the run is over.
pub(crate) trait Launcher: Send + Sync {
    /// Returns the kernel's name.
    fn kernel(&self) -> &str;
    /// Returns the longest running time of a recent unit of the kernel, in nanoseconds. The longer
    /// ago a unit ran, the less it influences this value. Returns 0 if no unit has run.
    fn pace(&self) -> &AtomicU64;
    /// Returns the contention throttling of the kernel, which limits the number of its workers.
    fn throttle(&self) -> &Throttle;
    /// Returns the launch's priority. New units of launches with lower numbers start first; the default is 0.
    fn priority(&self) -> i32;
    /// Returns whether the launch belongs to the context with the ID `context`.
    fn is_of(&self, context: u64) -> bool;
    /// Submits the work that device code of the launch has requested (launches, copies and fills).
    /// The scheduler calls this function after units have run.
    fn progressed(&self);
    /// Ends the launch. The scheduler calls this function once, when the run is over. If the run
    /// failed, `fault` is the reason.
    fn finished(&self, fault: Option<Fault>);
}

/// The properties of a launch that is submitted to the scheduler.
pub(crate) struct RunSpec {
    /// The owner of the run.
    pub(crate) launcher: Arc<dyn Launcher>,
    /// ID of the run: unique in the process, never 0.
    pub(crate) id: u64,
    /// The prepared launch.
    pub(crate) prepared: Arc<dyn PreparedLaunch>,
    /// Number of units of the launch, at least one.
    pub(crate) units: u64,
    /// Maximum number of units of the launch that may be resident at the same time, at least one.
    pub(crate) resident: u64,
    /// Whether all units of the launch must be resident at the same time (cooperative launch).
    pub(crate) gang: bool,
    /// Maximum running time of the launch; if it is `None`, the scheduler's limit applies.
    pub(crate) time_limit: Option<Duration>,
    /// Time by which the launch must be complete; set only for a launch by device code, because all
    /// grids that a launch by the host causes share one time limit.
    pub(crate) deadline: Option<Instant>,
}

/// Returns the element at `index` of a permutation of `0..count` that `seed` determines.
fn shuffled(index: u64, count: u64, seed: u64) -> u64 {
    let divides = |a: u64, b: u64| {
        let (mut a, mut b) = (a, b);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    // If `step` and `count` have no common factor, the multiples of `step` modulo `count` are a permutation of
    // `0..count`.
    let first = seed % count + count / 2;
    let step = (first.max(1)..).find(|&step| divides(step, count) == 1);
    let product = u128::from(index) * u128::from(step.unwrap_or(1)) + u128::from(seed);
    (product % u128::from(count)) as u64
}

/// A launch that is running or waits to run.
pub(crate) struct Run {
    pub(super) spec: RunSpec,
    pub(super) may_park: bool,
    contends: bool,
    /// Lowest index of a unit that has not been claimed.
    pub(super) next: AtomicU64,
    completed: AtomicU64,
    /// Number of units that are claimed and not complete. It is counted only if the units of the
    /// run may park and the launch is not cooperative.
    pub(super) reserved: AtomicU64,
    pub(super) gang_reserved: AtomicBool,
    parked: Mutex<Parked>,
    pub(super) parked_count: AtomicUsize,
    /// Ranges of units that a worker has claimed but not started, because an earlier unit of the
    /// claimed range has parked.
    leftovers: Mutex<Vec<(u64, u64)>>,
    pub(super) leftover_count: AtomicUsize,
    /// How often workers have tried to take a piece of the run ([`Piece`](super::claim::Piece)). If
    /// the number is odd, the next attempt tries parked units first. If the number is even, it
    /// tries new units first.
    pub(super) turns: AtomicUsize,
    /// Number of workers that are executing the run.
    users: AtomicUsize,
    pub(super) stopping: AtomicBool,
    finished: AtomicBool,
    outcome: Mutex<Option<Box<Fault>>>,
    /// Descriptions of the positions at which workers were executing units when the run was stopped.
    places: Mutex<Vec<String>>,
    /// Moving average of the running time of a unit in nanoseconds. The number of units that a
    /// worker claims at once depends on it.
    pub(super) unit_nanos: AtomicU64,
}

impl Run {
    pub(crate) fn new(spec: RunSpec) -> Arc<Run> {
        Arc::new(Run {
            may_park: spec.gang || spec.prepared.may_park(),
            contends: spec.prepared.contends(),
            spec,
            next: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            gang_reserved: AtomicBool::new(false),
            parked: Mutex::default(),
            parked_count: AtomicUsize::new(0),
            leftovers: Mutex::new(Vec::new()),
            leftover_count: AtomicUsize::new(0),
            turns: AtomicUsize::new(0),
            users: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            outcome: Mutex::new(None),
            places: Mutex::new(Vec::new()),
            unit_nanos: AtomicU64::new(0),
        })
    }

    pub(crate) fn id(&self) -> u64 {
        self.spec.id
    }

    pub(crate) fn kernel(&self) -> &str {
        self.spec.launcher.kernel()
    }

    /// Returns the ranges of memory that the launch accesses ([`PreparedLaunch::accesses`]).
    pub(crate) fn accesses(&self) -> Option<Vec<(MemoryRange, bool)>> {
        self.spec.prepared.accesses()
    }

    /// Returns whether the launch belongs to the context with the ID `context`.
    pub(crate) fn is_of(&self, context: u64) -> bool {
        self.spec.launcher.is_of(context)
    }

    /// Returns the launch's priority: new units of launches with lower numbers start first.
    pub(super) fn priority(&self) -> i32 {
        self.spec.launcher.priority()
    }

    /// Tells the owner of the run that units have run ([`Launcher::progressed`]).
    pub(super) fn progressed(&self) {
        self.spec.launcher.progressed();
    }

    /// Records that one worker needed the time `time` for `units` units.
    pub(super) fn note_time(&self, time: Duration, units: u64) {
        if units == 0 {
            return;
        }
        let nanos = (time.as_nanos() as u64 / units).max(1);
        let old = self.unit_nanos.load(Ordering::Relaxed);
        let mean = if old == 0 {
            nanos
        } else {
            (3 * old + nanos) / 4
        };
        self.unit_nanos.store(mean.max(1), Ordering::Relaxed);
        // After a slow launch, `pace` decreases slowly, because one worker too few costs more than one worker too many.
        let pace = self.spec.launcher.pace();
        let old = pace.load(Ordering::Relaxed);
        pace.store(nanos.max(old - old / 8), Ordering::Relaxed);
    }

    /// Records for the kernel's [`Throttle`] that `units` units took `time` while `users` workers executed the run.
    /// Does nothing if the number of workers has changed in the meantime.
    pub(super) fn note_contention(&self, time: Duration, units: u64, users: usize, workers: usize) {
        if self.contends && workers > 1 && units > 0 && users == self.users() {
            self.spec
                .launcher
                .throttle()
                .note(time, units, users, workers);
        }
    }

    /// Returns the number of workers that are executing the run.
    pub(super) fn users(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    /// Returns the maximum number of workers that may execute the run at the same time.
    pub(super) fn allowed(&self, workers: usize) -> usize {
        match self.contends {
            true => self.spec.launcher.throttle().allowed(workers),
            false => workers,
        }
    }

    /// Estimates the number of nanoseconds that one worker needs for the units that have not been claimed; returns
    /// `u64::MAX` if this number cannot be estimated. The estimate uses the times of this run.
    /// Before the first unit of the run is complete, it uses the times of earlier launches of the
    /// kernel.
    pub(super) fn time_left(&self) -> u64 {
        let pace = match self.unit_nanos.load(Ordering::Relaxed) {
            0 => self.spec.launcher.pace().load(Ordering::Relaxed),
            nanos => nanos,
        };
        if pace == 0 {
            return u64::MAX;
        }
        let next = self.next.load(Ordering::SeqCst);
        let waiting = self.parked_count.load(Ordering::SeqCst) as u64
            + self.leftover_count.load(Ordering::SeqCst) as u64;
        let units = self.spec.units.saturating_sub(next);
        match waiting {
            // The time that parked or left-over units will take cannot be estimated.
            1.. => u64::MAX,
            0 => units.saturating_mul(pace),
        }
    }

    /// Returns the index of the unit that a worker runs if it has claimed the unit `claimed`. This
    /// reverses the order of units or, if `shuffle` is set, makes it random.
    ///
    /// A unit may wait for units with lower indices, which must therefore be able to become
    /// resident. For this reason, the order of a run whose units may park changes only within
    /// groups of units. A group has as many units as may be resident, and the groups run in grid
    /// order.
    pub(super) fn reordered(&self, claimed: u64, shuffle: Option<u64>) -> u64 {
        let group = if self.may_park {
            self.spec.resident.max(1)
        } else {
            self.spec.units
        };
        let first = claimed / group * group;
        let last = first.saturating_add(group).min(self.spec.units) - 1;
        match shuffle {
            None => last - (claimed - first),
            Some(seed) => first + shuffled(claimed - first, last - first + 1, seed),
        }
    }

    pub(super) fn time_limit(&self) -> Option<Duration> {
        self.spec.time_limit
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }

    /// Adds the calling worker to the workers that execute the run. Returns false if the run is
    /// stopping or has finished; the worker must then not execute it.
    pub(super) fn enter(&self) -> bool {
        self.users.fetch_add(1, Ordering::SeqCst);
        !self.stopping.load(Ordering::SeqCst) && !self.is_finished()
    }

    /// Removes the calling worker from the workers that execute the run.
    pub(super) fn leave(self: &Arc<Run>, shared: &Shared) {
        self.users.fetch_sub(1, Ordering::SeqCst);
        self.finish_if_over(shared);
    }

    /// Stops the run. If several calls pass a fault, the run fails with the first of these faults.
    pub(super) fn fail(&self, fault: Option<Fault>) {
        {
            let mut outcome = self.outcome.lock();
            if outcome.is_none() {
                *outcome = fault.map(Box::new);
            }
        }
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(super) fn completed(&self, shared: &Shared, units: u64) {
        if units == 0 {
            return;
        }
        if self.may_park {
            shared.unreserve(self, units);
        }
        self.completed.fetch_add(units, Ordering::SeqCst);
    }

    /// Returns whether the run will be complete when `units` more units are complete.
    pub(super) fn will_be_complete(&self, units: u64) -> bool {
        self.completed.load(Ordering::SeqCst) + units == self.spec.units
    }

    /// If the run is over and this function has not yet finished it, tells the owner of the run
    /// that it is over ([`Launcher::finished`]).
    pub(super) fn finish_if_over(self: &Arc<Run>, shared: &Shared) {
        let complete = self.completed.load(Ordering::SeqCst) == self.spec.units;
        let stopped =
            self.stopping.load(Ordering::SeqCst) && self.users.load(Ordering::SeqCst) == 0;
        if !(complete || stopped) || self.finished.swap(true, Ordering::SeqCst) {
            return;
        }
        shared.retire(self);
        let fault = if complete {
            None
        } else {
            self.outcome
                .lock()
                .take()
                .map(|fault| self.with_places(*fault))
        };
        self.abandon_parked(shared);
        self.spec.prepared.finish(complete);
        self.spec.launcher.finished(fault);
    }

    /// Records `place`, a text that describes the position at which a unit was executing when the
    /// run was stopped.
    pub(super) fn stopped_at(&self, place: String) {
        if !place.is_empty() {
            self.places.lock().push(place);
        }
    }

    /// If `fault` is a timeout, returns it with the positions of parked and running units added to
    /// its text. Returns any other fault unchanged.
    fn with_places(&self, mut fault: Fault) -> Fault {
        if fault.kind != FaultKind::Timeout {
            return fault;
        }
        let (parked, running) = (self.parked.lock(), self.places.lock());
        let mut lines = vec![format!(
            "{}: {} of {} blocks or clusters complete, {} waiting",
            fault.detail,
            self.completed.load(Ordering::SeqCst),
            self.spec.units,
            parked.len()
        )];
        let waits = parked.iter().take(SHOWN);
        lines.extend(waits.map(|unit| self.spec.prepared.describe(unit)));
        if parked.len() > SHOWN {
            lines.push(format!("and {} more", parked.len() - SHOWN));
        }
        lines.extend(running.iter().take(SHOWN).cloned());
        fault.detail = lines.join("\n  ");
        fault
    }

    /// Returns texts that describe where parked units wait, for at most `most` units.
    pub(super) fn waiting_units(&self, most: usize) -> Vec<String> {
        let parked = self.parked.lock();
        let units = parked.iter().take(most);
        let mut lines: Vec<String> = units
            .map(|unit| self.spec.prepared.describe(unit))
            .collect();
        if parked.len() > most {
            lines.push(format!("and {} more", parked.len() - most));
        }
        lines
    }

    /// Returns the number of times that workers have tried to take a piece of the run
    /// ([`Piece`](super::claim::Piece)).
    pub(super) fn taken(&self) -> usize {
        self.turns.load(Ordering::Relaxed)
    }

    /// Returns whether every parked unit has certainly been resumed since an earlier time. This is
    /// so if workers have since then tried to take a piece of the run at least four times as often
    /// as the number of parked units. `before` contains the ID of each run and the value of
    /// [`Run::taken`] at the earlier time.
    pub(super) fn has_polled(&self, before: &[(u64, usize)]) -> bool {
        let before = before.iter().find(|(id, _)| *id == self.id());
        let parked = self.parked_count.load(Ordering::SeqCst);
        before.is_some_and(|(_, before)| self.taken() >= before + 4 * parked)
    }

    /// Drops the parked units, and gives back the residency of all units that are not complete.
    fn abandon_parked(&self, shared: &Shared) {
        if !self.may_park && self.parked_count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let units: Vec<ParkedUnit> = self.parked.lock().take_all();
        shared.parked.fetch_sub(units.len(), Ordering::SeqCst);
        self.parked_count.store(0, Ordering::SeqCst);
        drop(units);
        let reserved = if self.gang_reserved.load(Ordering::SeqCst) {
            // A cooperative launch reserves residency for all units together and releases the residency of each unit
            // when the unit completes.
            self.spec.units - self.completed.load(Ordering::SeqCst)
        } else {
            self.reserved.swap(0, Ordering::SeqCst)
        };
        shared.free.fetch_add(reserved as i64, Ordering::SeqCst);
    }

    pub(super) fn park(&self, shared: &Shared, unit: ParkedUnit) {
        let mut parked = self.parked.lock();
        parked.push(unit);
        self.parked_count.store(parked.len(), Ordering::SeqCst);
        shared.parked.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes and returns the parked unit to resume next ([`Parked::pop`]).
    pub(super) fn unpark(&self, shared: &Shared) -> Option<ParkedUnit> {
        if self.parked_count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut parked = self.parked.lock();
        let unit = parked.pop()?;
        self.parked_count.store(parked.len(), Ordering::SeqCst);
        shared.parked.fetch_sub(1, Ordering::SeqCst);
        Some(unit)
    }

    pub(super) fn leave_over(&self, first: u64, end: u64) {
        if first < end {
            let mut leftovers = self.leftovers.lock();
            leftovers.push((first, end));
            self.leftover_count.store(leftovers.len(), Ordering::SeqCst);
        }
    }

    /// Removes and returns the range of left-over units ([`Run::leftovers`]) with the lowest
    /// indices.
    pub(super) fn take_leftover(&self) -> Option<(u64, u64)> {
        if self.leftover_count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut leftovers = self.leftovers.lock();
        let lowest = (0..leftovers.len()).min_by_key(|&at| leftovers[at].0)?;
        let range = leftovers.swap_remove(lowest);
        self.leftover_count.store(leftovers.len(), Ordering::SeqCst);
        Some(range)
    }

    /// Creates the fault of a run that has exceeded the time limit `limit`. The text of the fault
    /// does not yet contain the positions of units; they are added after all workers have left the
    /// run.
    pub(super) fn timeout(&self, limit: Duration) -> Fault {
        Fault::new(FaultKind::Timeout, self.kernel())
            .with_detail(format!("not complete after {:.3} s", limit.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffled_orders_contain_each_unit_once() {
        for count in 1..40 {
            for seed in [0, 1, 7, 12_345] {
                let mut all: Vec<u64> = (0..count).map(|i| shuffled(i, count, seed)).collect();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..count), "{count} units, seed {seed}");
            }
        }
    }
}
