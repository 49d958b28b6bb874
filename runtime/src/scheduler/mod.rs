//! Runs launches on the worker threads.
//!
//! Workers are the threads of a private rayon pool. Each worker runs the loop in [`worker`] until
//! the scheduler is dropped and no work is left. A launch whose predecessors are complete is a
//! [`Run`] in the list of active runs. A worker chooses the next run in the list. The worker then
//! claims the run's next units in grid order, or resumes one of its parked units. The worker
//! changes to the next run when its time slice is over or when all remaining units of the run wait.
//!
//! Invariants:
//! - While a listed launch ([`active`]) has units that can start, no worker begins a turn to start units of a launch
//!   with lower priority. Units that have already started continue, and a turn that has begun can start units until
//!   the turn ends.
//! - Units start in grid order, unless the settings reorder them ([`Run::reordered`]). If the units of a run may park,
//!   residency is reserved for a unit when the unit is claimed.
//!   Therefore a resident unit never waits for an earlier unit that cannot become resident.
//! - At each moment, at most one worker runs a certain unit. A lock protects a parked unit while it
//!   passes from one worker to another.
//! - No worker waits for another worker, for a host function or for a copy, except that a worker can wait until another
//!   worker has delivered records to tools (`observe::sink`).

mod active;
mod claim;
mod handlers;
mod hang;
mod keeper;
mod parked;
#[cfg(test)]
mod priority_tests;
mod retired;
mod run;
mod sleep;
#[cfg(test)]
mod tests;
mod throttle;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub(crate) use run::{Launcher, Run, RunSpec};
pub(crate) use throttle::Throttle;

use crate::error::{Error, Result};
use crate::fault::StopHandle;
use crate::memory::{WindowGeometry, Windows};
use crate::padded::Padded;
use active::Active;
use hang::Search;
use keeper::Keeper;
use retired::Retired;
use sleep::Sleep;

/// The settings of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchedulerConfig {
    /// Number of worker threads, at least one.
    pub(crate) workers: usize,
    /// Whether units start in the reverse of grid order.
    pub(crate) reverse: bool,
    /// The seed of a random order in which units start; `None` if the order is not random.
    pub(crate) shuffle: Option<u64>,
    /// Maximum number of units of all running launches that may be resident at the same time.
    pub(crate) resident: u64,
    /// Maximum running time of each launch.
    pub(crate) time_limit: Option<Duration>,
}

impl SchedulerConfig {
    /// Returns whether the units of a launch start in an order other than grid order.
    fn reorders(&self) -> bool {
        self.reverse || self.shuffle.is_some()
    }
}

/// The scheduler of a machine.
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
    /// Whether the workers have been started.
    started: Mutex<bool>,
}

/// State that all workers share.
struct Shared {
    config: SchedulerConfig,
    /// The launches whose predecessors are complete.
    active: Padded<Mutex<Active>>,
    active_count: Padded<AtomicUsize>,
    /// Number of parked units of all runs.
    parked: AtomicUsize,
    /// Number of units that can still become resident: [`SchedulerConfig::resident`] minus the
    /// number of units for which runs have reserved residency.
    free: AtomicI64,
    sleep: Padded<Sleep>,
    keeper: Keeper,
    retired: Padded<Retired>,
    stop_handles: Mutex<Vec<StopHandle>>,
    /// Whether the scheduler was dropped. If it is true, a worker ends when it finds no work.
    closed: AtomicBool,
    windows: OnceLock<Arc<Windows>>,
    hangs: Search,
    /// A function that returns true if the host cannot change device memory until a launch ends.
    host_waits: OnceLock<HostTest>,
}

/// A function that returns true if the host cannot change device memory until a launch ends.
type HostTest = Box<dyn Fn() -> bool + Send + Sync>;

impl Scheduler {
    pub(crate) fn new(config: SchedulerConfig) -> Scheduler {
        let free = config.resident as i64;
        Scheduler {
            shared: Arc::new(Shared {
                config,
                active: Padded::default(),
                active_count: Padded::default(),
                parked: AtomicUsize::new(0),
                free: AtomicI64::new(free),
                sleep: Padded::default(),
                keeper: Keeper::default(),
                retired: Padded::default(),
                stop_handles: Mutex::new(Vec::new()),
                closed: AtomicBool::new(false),
                windows: OnceLock::new(),
                hangs: Search::default(),
                host_waits: OnceLock::new(),
            }),
            started: Mutex::new(false),
        }
    }

    /// Sets the function that returns whether all threads of the host wait for work and no copy or host function runs.
    /// Without this function, the scheduler does not look for hangs.
    pub(crate) fn set_host_test(&self, waits: HostTest) {
        let _ = self.shared.host_waits.set(waits);
    }

    /// Returns the number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.shared.config.workers
    }

    /// Returns the maximum running time of a launch, unless the launch specifies another limit
    /// ([`RunSpec`]).
    pub(crate) fn time_limit(&self) -> Option<Duration> {
        self.shared.config.time_limit
    }

    /// Returns the maximum number of units that may be resident at the same time.
    pub(crate) fn resident(&self) -> u64 {
        self.shared.config.resident
    }

    /// Starts the workers, unless they have been started before. If the operating system cannot
    /// create all threads, fewer workers start.
    ///
    /// # Errors
    /// [`crate::Error::OperatingSystem`] if the operating system cannot create any thread. A later
    /// call tries again.
    pub(crate) fn start(&self) -> Result<()> {
        let mut started = self.started.lock();
        if !*started {
            worker::start(&self.shared)?;
            *started = true;
        }
        Ok(())
    }

    /// Returns a text that describes an address in the shared or local memory of a CTA. Returns
    /// `None` for any other address.
    pub(crate) fn describe_window(&self, address: u64) -> Option<String> {
        self.shared.windows.get()?.describe(address)
    }

    /// Adds a launch whose predecessors are complete to the active runs. Callers call this function once for each run,
    /// after [`Scheduler::start`].
    pub(crate) fn submit(&self, run: Arc<Run>) {
        let limit = run.time_limit().or(self.shared.config.time_limit);
        let rest = run.spec.deadline;
        let rest = rest.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let limit = limit.into_iter().chain(rest).min();
        if let Some(limit) = limit {
            self.shared.keeper.watch(&self.shared, &run, limit);
        }
        self.shared.hangs.note_progress();
        self.shared.active.lock().add(run);
        self.shared.active_count.fetch_add(1, Ordering::SeqCst);
        // A worker that submits a launch then searches for work itself, and wakes another worker if there is more work.
        if !worker::on_worker() {
            self.shared.sleep.wake_one();
        }
    }

    /// Frees a few finished launches. Threads that prepare launches call this function.
    pub(crate) fn free_some_finished(&self) {
        self.shared.retired.free_some();
    }

    /// Frees all finished launches. Threads that have waited for work call this function.
    pub(crate) fn free_all_finished(&self) {
        self.shared.retired.free_all();
    }

    /// Stops a run; `fault` becomes the reason for its failure. If `fault` is `None`, the run ends
    /// without an error.
    pub(crate) fn stop(&self, run: &Arc<Run>, fault: Option<crate::error::Fault>) {
        self.shared.stop(run, fault);
    }

    /// Returns the sizes of the windows of CTAs.
    pub(crate) fn window_geometry(&self) -> Result<WindowGeometry> {
        Ok(self.shared.windows()?.geometry())
    }

    /// Returns an error if the windows are too small for a launch with `units` units. Each unit
    /// needs `shared` bytes of shared memory and `local` bytes of local memory.
    ///
    /// # Errors
    /// [`Error::LaunchOutOfResources`] if a unit needs more memory than a window has, or if the
    /// operating system's limits for the process do not permit one window for each worker that can
    /// run a unit.
    pub(crate) fn check_windows(&self, units: u64, (shared, local): (u64, u64)) -> Result<()> {
        let count = units.min(self.shared.config.workers as u64);
        let checked = self.shared.windows()?.check(count, shared, local);
        checked.map_err(|error| {
            Error::LaunchOutOfResources(format!(
                "no memory for the shared and local memory of a block: {error}"
            ))
        })
    }

    /// Returns the address range that contains the windows of all CTAs.
    pub(crate) fn window_range(&self) -> Result<std::ops::Range<u64>> {
        Ok(self.shared.windows()?.range())
    }

    /// Returns every run that is active now.
    pub(crate) fn active_runs(&self) -> Vec<Arc<Run>> {
        self.shared.active.lock().all()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // Workers finish the remaining work and end; no thread waits for them.
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.sleep.wake_all();
        self.shared.keeper.wake();
    }
}

impl Shared {
    /// Removes the run from the list of active runs. The thread that finishes the run calls this function.
    fn retire(&self, run: &Arc<Run>) {
        if self.active.lock().remove(run) {
            self.active_count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Returns the run that a worker executes next, and moves this run to the end of the list of
    /// active runs. Only runs of the highest priority may start units. A run that has only parked
    /// units is returned even if its priority is lower, because units of other runs may wait for
    /// its parked units.
    fn next_run(&self) -> Option<Arc<Run>> {
        let mut active = self.active.lock();
        let mut highest = self.highest(active.listed());
        while highest.is_none()
            && let Some(run) = active.list_next()
        {
            highest = self.has_new_work(run).then(|| run.priority());
        }
        let first = active.listed().iter().position(|run| {
            self.has_work(run)
                && (Some(run.priority()) == highest || !self.has_new_work(run) || highest.is_none())
        })?;
        Some(active.take_turn(first))
    }

    /// Returns the highest priority (lowest number) of all runs that have units that can start.
    fn highest(&self, active: &[Arc<Run>]) -> Option<i32> {
        let starting = active.iter().filter(|run| self.has_new_work(run));
        starting.map(|run| run.priority()).min()
    }

    /// Wakes another worker if a run other than `run` has a piece that a worker can take.
    fn tell_of_others(&self, run: &Arc<Run>) {
        if self.active_count.load(Ordering::SeqCst) <= 1 {
            return;
        }
        let others = |other: &Arc<Run>| !Arc::ptr_eq(other, run) && self.has_work(other);
        let active = self.active.lock();
        let any = active.has_queued() || active.listed().iter().any(others);
        drop(active);
        if any {
            self.sleep.wake_if_resting();
        }
    }

    /// Returns the windows of CTAs. The first call reserves the addresses of one window for each
    /// resident unit and of two windows for each worker.
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

    /// Sends a request to stop the run `run` to all workers. The request affects only workers that
    /// execute this run.
    fn signal_workers(&self, run: &Run) {
        for handle in self.stop_handles.lock().iter() {
            handle.stop(run.id());
        }
    }
}
