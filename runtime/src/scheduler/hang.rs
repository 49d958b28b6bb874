//! Finds launches that can never end: all their threads poll memory that nothing will change.
//!
//! The active launches *hang* if all of these conditions are true:
//! - No unit of any launch has made progress for the time [`PATIENCE`], and no unit can start.
//! - All threads of the program that have used the driver wait, and no copy or host function runs
//!   ([`super::Scheduler::set_host_test`]).
//! - After the further time [`OBSERVATION`], the engine finds for each launch that the threads
//!   change no memory and read no clock, and that they poll only memory that neither the host nor
//!   another process can write without the driver
//!   ([`PreparedLaunch::hang`](crate::engine::PreparedLaunch::hang)). In runs that check races, the
//!   engine observes the accesses for this time. In all other runs, it examines the kernel's loops.
//!
//! If the program runs with the checking tool synccheck, the runtime ends such launches. Otherwise,
//! the runtime prints a warning.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Run, Shared};
use crate::engine::Hang;
use crate::error::{Fault, FaultKind};

/// Time without progress after which the engines begin to observe which memory the threads poll.
const PATIENCE: Duration = Duration::from_millis(1000);
/// Time for which the engines observe which memory the threads poll.
const OBSERVATION: Duration = Duration::from_millis(200);
/// Maximum number of waiting units that the report of a hang describes.
const SHOWN: usize = 8;

/// State of the search for launches that hang.
#[derive(Default)]
pub(super) struct Search {
    /// Number of calls of `note_progress`.
    progress: AtomicU64,
    suspicion: Mutex<Option<Suspicion>>,
}

/// A period in which no unit has made progress.
struct Suspicion {
    /// The value of [`Search::progress`], which does not change during the period.
    progress: u64,
    since: Instant,
    /// The time at which the observation began, and, for each run, its ID and the value of
    /// [`Run::taken`] at that time.
    observed: Option<(Instant, Vec<(u64, usize)>)>,
    /// Whether the search in this period is complete.
    is_decided: bool,
}

impl Search {
    /// Records that a unit has made progress, or that work was submitted.
    pub(super) fn note_progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Searches for launches that hang. If all parked units wait, a worker calls this function
    /// before it sleeps.
    pub(super) fn look_for_hang(self: &Arc<Shared>) {
        let Some(mut state) = self.hangs.suspicion.try_lock() else {
            return;
        };
        let progress = self.hangs.progress.load(Ordering::Relaxed);
        let suspicion = match &mut *state {
            Some(suspicion) if suspicion.progress == progress => suspicion,
            other => {
                *other = Some(Suspicion {
                    progress,
                    since: Instant::now(),
                    observed: None,
                    is_decided: false,
                });
                return;
            }
        };
        if suspicion.is_decided || suspicion.since.elapsed() < PATIENCE {
            return;
        }
        let Some(runs) = self.stuck_runs() else {
            return;
        };
        let Some((began, turns)) = &suspicion.observed else {
            for run in &runs {
                run.spec.prepared.observe_waits();
            }
            let turns = runs.iter().map(|run| (run.id(), run.taken()));
            suspicion.observed = Some((Instant::now(), turns.collect()));
            return;
        };
        if began.elapsed() < OBSERVATION || !runs.iter().all(|run| run.has_polled(turns)) {
            return;
        }
        suspicion.is_decided = true;
        drop(state);
        let hangs: Option<Vec<Hang>> = runs.iter().map(|run| run.spec.prepared.hang()).collect();
        for (run, hang) in runs.iter().zip(hangs.into_iter().flatten()) {
            self.report_hang(run, &hang);
        }
    }

    /// Returns the active runs if no run can continue until memory changes, and if the host cannot
    /// change memory until a launch ends. Otherwise, returns `None`.
    fn stuck_runs(&self) -> Option<Vec<Arc<Run>>> {
        if !self.host_waits.get().is_some_and(|waits| waits()) {
            return None;
        }
        let runs = self.active.lock().all();
        let is_stuck = |run: &Arc<Run>| {
            !self.has_new_work(run) && run.users() == 0 && !run.stopping.load(Ordering::SeqCst)
        };
        (!runs.is_empty() && runs.iter().all(is_stuck)).then_some(runs)
    }

    fn report_hang(self: &Arc<Shared>, run: &Arc<Run>, hang: &Hang) {
        let mut fault = Fault::new(FaultKind::Hang, run.kernel());
        if let Some(first) = &hang.first {
            fault.cta = Some(first.cta);
            fault.thread = Some(first.thread);
            fault.address = Some(first.address);
            fault.ptx_line = first.ptx_line;
            fault.source.clone_from(&first.source);
        }
        let mut lines = run.waiting_units(SHOWN);
        lines.extend(hang.polled.iter().cloned());
        let fault = fault.with_detail(lines.join("\n  "));
        match hang.ends {
            true => self.stop(run, Some(fault)),
            false => crate::error::tell(&format!("warning: {fault}")),
        }
    }
}
