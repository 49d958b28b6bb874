//! One launch while it runs.
//!
//! Invariant: `completed + reserved + unclaimed = total` for runs that may park, and a run
//! finishes exactly once: when all units are complete, or when it is stopping and the last
//! worker has left it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Shared, Throttle};
use crate::engine::{ParkedUnit, PreparedLaunch};
use crate::error::{Fault, FaultKind};

/// Units that a timeout describes, at most.
const SHOWN: usize = 16;

/// Whom a run belongs to: asked about the kernel, told what the run does.
pub(crate) trait Launcher: Send + Sync {
    /// The kernel's name.
    fn kernel(&self) -> &str;
    /// Nanoseconds that a unit of the kernel took lately.
    fn pace(&self) -> &AtomicU64;
    /// How many workers the kernel is given.
    fn throttle(&self) -> &Throttle;
    /// 0, or less for launches whose new units go first.
    fn priority(&self) -> i32;
    /// Whether it belongs to the context with a number.
    fn is_of(&self, context: u64) -> bool;
    /// Units have run: what they asked for can be submitted.
    fn progressed(&self);
    /// The run is over; called once.
    fn finished(&self, fault: Option<Fault>);
}

/// What to run.
pub(crate) struct RunSpec {
    /// Whom it belongs to.
    pub(crate) launcher: Arc<dyn Launcher>,
    /// Unique in the process, never 0.
    pub(crate) id: u64,
    /// The launch, ready to run.
    pub(crate) prepared: Arc<dyn PreparedLaunch>,
    /// Units in the launch, at least one.
    pub(crate) units: u64,
    /// Units of it that may be resident at once, at least one.
    pub(crate) resident: u64,
    /// All units must be resident at once (a cooperative launch).
    pub(crate) gang: bool,
    /// Limit of its running time, if not the scheduler's.
    pub(crate) time_limit: Option<Duration>,
}

/// A launch that runs or waits to.
pub(crate) struct Run {
    pub(super) spec: RunSpec,
    pub(super) may_park: bool,
    contends: bool,
    /// First unit that nobody has claimed.
    pub(super) next: AtomicU64,
    completed: AtomicU64,
    /// Units that are claimed and not complete (runs that may park).
    pub(super) reserved: AtomicU64,
    pub(super) gang_reserved: AtomicBool,
    parked: Mutex<VecDeque<ParkedUnit>>,
    pub(super) parked_count: AtomicUsize,
    /// Claimed ranges that were left when one of their units parked.
    leftovers: Mutex<Vec<(u64, u64)>>,
    pub(super) leftover_count: AtomicUsize,
    /// Pieces taken: new and parked units take turns, across workers and their turns.
    pub(super) turns: AtomicUsize,
    /// Workers inside.
    users: AtomicUsize,
    pub(super) stopping: AtomicBool,
    finished: AtomicBool,
    outcome: Mutex<Option<Fault>>,
    /// Who was where when the run was stopped.
    places: Mutex<Vec<String>>,
    /// Running mean of a unit's time, for the size of chunks.
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
            parked: Mutex::new(VecDeque::new()),
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

    /// Whether it belongs to the context with a number.
    pub(crate) fn is_of(&self, context: u64) -> bool {
        self.spec.launcher.is_of(context)
    }

    /// 0, or less for launches whose new units go first.
    pub(super) fn priority(&self) -> i32 {
        self.spec.launcher.priority()
    }

    /// Units have run.
    pub(super) fn progressed(&self) {
        self.spec.launcher.progressed();
    }

    /// Notes that `units` units took `time`.
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
        // A kernel that was slow lately counts as slow: one worker too few costs more than one too many.
        let pace = self.spec.launcher.pace();
        let old = pace.load(Ordering::Relaxed);
        pace.store(nanos.max(old - old / 8), Ordering::Relaxed);
    }

    /// Notes the same for the choice of the number of workers; `users` were inside when it began.
    pub(super) fn note_contention(&self, time: Duration, units: u64, users: usize, workers: usize) {
        if self.contends && workers > 1 && units > 0 && users == self.users() {
            self.spec
                .launcher
                .throttle()
                .note(time, units, users, workers);
        }
    }

    /// Workers inside.
    pub(super) fn users(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    /// How many of the workers may be inside.
    pub(super) fn allowed(&self, workers: usize) -> usize {
        match self.contends {
            true => self.spec.launcher.throttle().allowed(workers),
            false => workers,
        }
    }

    /// Nanoseconds that the units which nobody has started should take, after what this run
    /// and, before its first unit is complete, earlier launches of the kernel took.
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
            // How long these take is not known.
            1.. => u64::MAX,
            0 => units.saturating_mul(pace),
        }
    }

    /// The unit that is claimed as number `claimed` when the order is reversed.
    ///
    /// A unit may wait for those before it, which must become resident: so units that may wait
    /// are reversed in groups of as many as may be resident, and the groups stay in order.
    pub(super) fn reversed(&self, claimed: u64) -> u64 {
        let group = if self.may_park {
            self.spec.resident.max(1)
        } else {
            self.spec.units
        };
        let first = claimed / group * group;
        let last = first.saturating_add(group).min(self.spec.units) - 1;
        last - (claimed - first)
    }

    pub(super) fn time_limit(&self) -> Option<Duration> {
        self.spec.time_limit
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }

    /// A worker comes in; false when there is nothing left to do for it.
    pub(super) fn enter(&self) -> bool {
        self.users.fetch_add(1, Ordering::SeqCst);
        !self.stopping.load(Ordering::SeqCst) && !self.is_finished()
    }

    /// A worker leaves.
    pub(super) fn leave(self: &Arc<Run>, shared: &Shared) {
        self.users.fetch_sub(1, Ordering::SeqCst);
        self.finish_if_over(shared);
    }

    /// Notes that the run is over, with the first fault that is given.
    pub(super) fn fail(&self, fault: Option<Fault>) {
        {
            let mut outcome = self.outcome.lock();
            if outcome.is_none() {
                *outcome = fault;
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

    /// Whether the run is complete once `units` more units are.
    pub(super) fn will_be_complete(&self, units: u64) -> bool {
        self.completed.load(Ordering::SeqCst) + units == self.spec.units
    }

    /// Finishes the run when it is over; whoever comes first does it.
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
                .map(|fault| self.with_places(fault))
        };
        self.abandon_parked(shared);
        self.spec.launcher.finished(fault);
    }

    /// Notes where a unit was when the run was stopped.
    pub(super) fn stopped_at(&self, place: String) {
        if !place.is_empty() {
            self.places.lock().push(place);
        }
    }

    /// A timeout tells who waits where and what was running.
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

    fn abandon_parked(&self, shared: &Shared) {
        let units: Vec<ParkedUnit> = self.parked.lock().drain(..).collect();
        shared.parked.fetch_sub(units.len(), Ordering::SeqCst);
        self.parked_count.store(0, Ordering::SeqCst);
        drop(units);
        let reserved = if self.gang_reserved.load(Ordering::SeqCst) {
            // A gang reserves all units at once and gives each back when it completes.
            self.spec.units - self.completed.load(Ordering::SeqCst)
        } else {
            self.reserved.swap(0, Ordering::SeqCst)
        };
        shared.free.fetch_add(reserved as i64, Ordering::SeqCst);
    }

    pub(super) fn park(&self, shared: &Shared, unit: ParkedUnit) {
        let mut parked = self.parked.lock();
        parked.push_back(unit);
        self.parked_count.store(parked.len(), Ordering::SeqCst);
        shared.parked.fetch_add(1, Ordering::SeqCst);
    }

    /// The unit that has been parked longest.
    pub(super) fn unpark(&self, shared: &Shared) -> Option<ParkedUnit> {
        if self.parked_count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut parked = self.parked.lock();
        let unit = parked.pop_front()?;
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

    /// The lowest range that was left over.
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

    /// A timeout's fault; who waits where is added when all workers have left.
    pub(super) fn timeout(&self, limit: Duration) -> Fault {
        Fault::new(FaultKind::Timeout, self.kernel())
            .with_detail(format!("not complete after {:.3} s", limit.as_secs_f64()))
    }
}
