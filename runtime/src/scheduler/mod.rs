//! Runs launches over the worker threads (execution-model section 4).
//!
//! Workers are the threads of a private rayon pool, each in our own loop to the process's end.
//! A launch that may run is a [`Run`] in the list of active runs. A worker picks a run in turn,
//! claims the next units in grid order or resumes the unit that has been parked longest, and
//! goes on to the next run when its slice of time is over or nothing but waiting is left.
//!
//! Invariants:
//! - While units of a launch could start, none of a launch of lower priority do; those that run already go on.
//! - Units start in grid order; one that is claimed has its residency reserved, so a unit never
//!   waits for one that cannot start.
//! - A unit is run by one worker at a time; it is handed over under a lock.
//! - No worker ever waits for another one, for a host function or for a copy.

mod claim;
mod keeper;
#[cfg(test)]
mod priority_tests;
mod run;
mod sleep;
#[cfg(test)]
mod tests;
mod throttle;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

pub(crate) use run::{Launcher, Run, RunSpec};
pub(crate) use throttle::Throttle;

use crate::error::Result;
use crate::fault::StopHandle;
use crate::memory::{WindowGeometry, Windows};
use keeper::Keeper;
use sleep::Sleep;

/// How the scheduler runs launches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchedulerConfig {
    /// Worker threads, at least one.
    pub(crate) workers: usize,
    /// Units in the opposite order.
    pub(crate) reverse: bool,
    /// Units of all running launches that may be resident at once.
    pub(crate) resident: u64,
    /// Limit of a launch's running time.
    pub(crate) time_limit: Option<Duration>,
}

/// The scheduler of one machine.
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
    /// Whether the workers run.
    started: Mutex<bool>,
}

/// What workers share.
struct Shared {
    config: SchedulerConfig,
    /// Launches that are running, in the order of the next turn.
    active: Mutex<Vec<Arc<Run>>>,
    active_count: AtomicUsize,
    /// Units parked in all runs together.
    parked: AtomicUsize,
    /// Residency that no run has reserved.
    free: AtomicI64,
    sleep: Sleep,
    keeper: Keeper,
    stop_handles: Mutex<Vec<StopHandle>>,
    /// No more work will come: workers leave when they find none.
    closed: AtomicBool,
    windows: OnceLock<Arc<Windows>>,
}

impl Scheduler {
    pub(crate) fn new(config: SchedulerConfig) -> Scheduler {
        let free = config.resident as i64;
        Scheduler {
            shared: Arc::new(Shared {
                config,
                active: Mutex::new(Vec::new()),
                active_count: AtomicUsize::new(0),
                parked: AtomicUsize::new(0),
                free: AtomicI64::new(free),
                sleep: Sleep::default(),
                keeper: Keeper::default(),
                stop_handles: Mutex::new(Vec::new()),
                closed: AtomicBool::new(false),
                windows: OnceLock::new(),
            }),
            started: Mutex::new(false),
        }
    }

    /// Number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.shared.config.workers
    }

    /// The time that a launch may take, where its context says nothing else.
    pub(crate) fn time_limit(&self) -> Option<Duration> {
        self.shared.config.time_limit
    }

    /// Units that may be resident at once.
    pub(crate) fn resident(&self) -> u64 {
        self.shared.config.resident
    }

    /// Starts the workers, unless they run; as many as the system grants.
    ///
    /// # Errors
    /// [`crate::Error::OperatingSystem`] when it grants none. A later call tries again.
    pub(crate) fn start(&self) -> Result<()> {
        let mut started = self.started.lock();
        if !*started {
            worker::start(&self.shared)?;
            *started = true;
        }
        Ok(())
    }

    /// What is at an address in the shared and local memory of blocks, in words.
    pub(crate) fn describe_window(&self, address: u64) -> Option<String> {
        self.shared.windows.get()?.describe(address)
    }

    /// Starts a launch whose predecessors are complete, once. The workers run ([`Scheduler::start`]).
    pub(crate) fn submit(&self, run: Arc<Run>) {
        let limit = run.time_limit().or(self.shared.config.time_limit);
        if let Some(limit) = limit {
            self.shared.keeper.watch(&self.shared, &run, limit);
        }
        self.shared.active.lock().push(run);
        self.shared.active_count.fetch_add(1, Ordering::SeqCst);
        // A worker that submits looks for work next, and wakes others if there is more.
        if !worker::on_worker() {
            self.shared.sleep.wake_one();
        }
    }

    /// Stops a run as if it had failed with `fault` (`None`: it is simply abandoned).
    pub(crate) fn stop(&self, run: &Arc<Run>, fault: Option<crate::error::Fault>) {
        self.shared.stop(run, fault);
    }

    /// The widths of CTA windows.
    pub(crate) fn window_geometry(&self) -> Result<WindowGeometry> {
        Ok(self.shared.windows()?.geometry())
    }

    /// Where CTA windows lie.
    pub(crate) fn window_range(&self) -> Result<std::ops::Range<u64>> {
        Ok(self.shared.windows()?.range())
    }

    /// Every run that is active now.
    pub(crate) fn active_runs(&self) -> Vec<Arc<Run>> {
        self.shared.active.lock().clone()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // Workers finish what is left and go; nobody waits for them.
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.sleep.wake_all();
        self.shared.keeper.wake();
    }
}

impl Shared {
    /// Takes the run out of the list; called by whoever finishes it.
    fn retire(&self, run: &Arc<Run>) {
        let mut active = self.active.lock();
        if let Some(at) = active.iter().position(|other| Arc::ptr_eq(other, run)) {
            active.remove(at);
            self.active_count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// The next run in turn, which goes to the end of the list: of those whose units could start, one of the highest
    /// priority. Units that wait get their turn whatever their priority is: others may be waiting for them.
    fn next_run(&self) -> Option<Arc<Run>> {
        let mut active = self.active.lock();
        let highest = self.highest(&active);
        let first = active.iter().position(|run| {
            self.has_work(run)
                && (Some(run.priority()) == highest || !self.has_new_work(run) || highest.is_none())
        })?;
        let run = active.remove(first);
        active.push(Arc::clone(&run));
        Some(run)
    }

    /// The highest priority (least number) of runs whose units could start.
    fn highest(&self, active: &[Arc<Run>]) -> Option<i32> {
        let starting = active.iter().filter(|run| self.has_new_work(run));
        starting.map(|run| run.priority()).min()
    }

    /// Tells another worker when there is work beside `run`.
    fn tell_of_others(&self, run: &Arc<Run>) {
        if self.active_count.load(Ordering::SeqCst) <= 1 {
            return;
        }
        let others = |other: &Arc<Run>| !Arc::ptr_eq(other, run) && self.has_work(other);
        if self.active.lock().iter().any(others) {
            self.sleep.wake_if_resting();
        }
    }

    /// The windows, reserved when they are first needed: one for each resident unit, and one
    /// that each worker keeps.
    fn windows(&self) -> Result<&Arc<Windows>> {
        if let Some(windows) = self.windows.get() {
            return Ok(windows);
        }
        let slots = self.config.resident + 2 * self.config.workers as u64;
        let windows = Windows::new(usize::try_from(slots).unwrap_or(usize::MAX));
        let windows = windows.inspect_err(|error| {
            let text = format!("no addresses for the memory of {slots} thread blocks: {error}");
            crate::error::tell(&text);
        })?;
        Ok(self.windows.get_or_init(|| windows))
    }

    fn is_idle(&self) -> bool {
        self.active_count.load(Ordering::SeqCst) == 0
    }

    fn stop(self: &Arc<Shared>, run: &Arc<Run>, fault: Option<crate::error::Fault>) {
        run.fail(fault);
        self.keeper.stop(self, run);
        run.finish_if_over(self);
    }

    /// Signals every worker that is in this run.
    fn signal_workers(&self, run: &Run) {
        for handle in self.stop_handles.lock().iter() {
            handle.stop(run.id());
        }
    }
}
