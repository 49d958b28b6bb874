//! The loop of a worker, and the implementation of the trait [`Worker`]. Through this trait,
//! engines ask whether they must stop, and borrow CTA windows (address ranges for shared and local
//! memory).
//!
//! Invariant: a worker holds no lock between two pieces of work. The stop token of a worker is the
//! token of its current run, so a stop never affects another run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::claim::Piece;
use super::handlers::HandlerCheck;
use super::{Run, Shared};
use crate::engine::{RunOutcome, Worker};
use crate::error::{Error, Fault, FaultKind, Result};
use crate::fault::{self, FloatMode, WorkerGuard, WorkerOptions};
use crate::memory::{CtaWindow, most_threads};

/// The state of a worker. The engine accesses this state through [`Worker`] while the worker runs units.
pub(super) struct WorkerState {
    run: Option<Arc<Run>>,
    shared: Arc<Shared>,
    /// The window of the last unit. The window is kept for the next unit because the window's pages are in memory and
    /// in the processor's caches.
    window: Option<CtaWindow>,
    /// Whether this worker is the watcher (see [`super::sleep`]).
    watches: bool,
    handlers: HandlerCheck,
}

impl WorkerState {
    pub(super) fn new(shared: &Arc<Shared>) -> WorkerState {
        WorkerState {
            shared: Arc::clone(shared),
            run: None,
            window: None,
            watches: false,
            handlers: HandlerCheck::default(),
        }
    }

    /// Makes this worker the watcher if no worker is the watcher. The worker must search for work
    /// next.
    fn begin_watch(&mut self) {
        self.watches = self.watches || self.shared.sleep.begin_watch();
    }

    fn end_watch(&mut self) {
        if std::mem::take(&mut self.watches) {
            self.shared.sleep.end_watch();
        }
    }

    /// Waits until the epoch differs from `epoch`. If this worker can be the watcher, it spins first; then it sleeps.
    fn rest(&mut self, epoch: u64) {
        self.begin_watch();
        let handlers = &mut self.handlers;
        if self.watches && self.shared.sleep.watch(epoch, || handlers.while_polling()) {
            return;
        }
        self.end_watch();
        let shared = &self.shared;
        shared.retired.free_while(|| shared.sleep.epoch() == epoch);
        shared.sleep.sleep(epoch, None);
    }
}

impl Worker for WorkerState {
    fn stop_requested(&self) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| run.stopping.load(Ordering::Relaxed))
    }

    fn take_window(&mut self, shared: u64, local: u64) -> Result<CtaWindow> {
        if let Some(window) = self.window.take() {
            window.open(shared, local)?;
            return Ok(window);
        }
        Ok(self.shared.windows()?.claim(shared, local)?)
    }

    fn return_window(&mut self, window: CtaWindow) {
        self.window = Some(window);
    }
}

/// Maximum duration of a sleep while units wait for memory to change.
const LONGEST_NAP: Duration = Duration::from_micros(100);
/// Maximum duration of a worker's turn in a run while other runs are active.
const SLICE: Duration = Duration::from_millis(1);
/// A worker wakes another worker for the unclaimed units of a run only if one worker would need
/// more than this number of nanoseconds for these units. This time must also exceed [`WAKINGS`]
/// times the time to wake a worker. Waking takes 50 microseconds or more if the processor is in a
/// deep sleep state.
const WORTH_WAKING: u64 = 20_000;
const WAKINGS: u64 = 3;

/// Maximum number of further attempts if not even one thread can be started. The time between
/// attempts is one millisecond.
const PATIENCE: u32 = 100;

/// Number of bytes of memory that a worker needs for its stacks and its part of the heap.
const WORKER_MEMORY: u64 = 12 << 20;
/// Number of bytes of memory that a worker with [`WorkerOptions::small`] needs.
const SMALL_WORKER_MEMORY: u64 = 4 << 20;

/// Starts the workers as the threads of a rayon pool, which executes nothing else.
///
/// If the operating system cannot create all threads, this function tries half as many threads, and
/// so on down to one thread.
///
/// # Errors
/// [`Error::OperatingSystem`] if the operating system cannot create even one thread.
pub(super) fn start(shared: &Arc<Shared>) -> Result<()> {
    let (options, most) = match most_threads(WORKER_MEMORY) {
        most if most >= shared.config.workers => (WorkerOptions::default(), most),
        _ => (WorkerOptions::small(), most_threads(SMALL_WORKER_MEMORY)),
    };
    let mut workers = shared.config.workers.min(most);
    if workers < shared.config.workers {
        let wanted = shared.config.workers;
        let text = format!(
            "the memory limits of the process leave no room for {wanted} threads; {workers} run kernels"
        );
        crate::error::tell(&text);
    }
    let mut patience = PATIENCE;
    loop {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(workers)
            .thread_name(|index| format!("margay-worker-{index}"))
            .build();
        match pool {
            Ok(pool) => {
                let shared = Arc::clone(shared);
                pool.spawn_broadcast(move |_| work(&shared, options));
                // When the pool is dropped, its threads end as soon as they are idle. So the pool can be dropped here:
                // the threads are not idle before `work` returns.
                return Ok(());
            }
            // The threads of a larger pool, which could not be started completely, may not have ended yet.
            Err(_) if workers == 1 && workers < shared.config.workers && patience > 0 => {
                patience -= 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) if workers == 1 => {
                let text = format!("no thread that runs kernels can be started: {error}");
                crate::error::tell(&text);
                return Err(Error::OperatingSystem(text));
            }
            Err(error) => {
                let fewer = workers / 2;
                let text = format!("{workers} threads cannot be started ({error}); trying {fewer}");
                crate::error::tell(&text);
                workers = fewer;
            }
        }
    }
}

/// Runs the loop of a worker. If stacks of the sizes in `options` cannot be allocated, uses smaller stacks.
fn work(shared: &Arc<Shared>, options: WorkerOptions) {
    ON_WORKER.set(true);
    // A new thread inherits the floating-point mode of the thread that started it.
    let _mode = FloatMode::of_device();
    let guard = WorkerGuard::with_options(options)
        .or_else(|_| WorkerGuard::with_options(WorkerOptions::small()));
    match &guard {
        Ok(guard) => shared.stop_handles.lock().push(guard.stop_handle()),
        Err(error) => tracing::error!(%error, "cannot recover from faults of device code"),
    }
    let mut state = WorkerState::new(shared);
    let mut waits = Waits::default();
    loop {
        let epoch = shared.sleep.epoch();
        match shared.next_run() {
            Some(run) => {
                state.end_watch();
                shared.tell_of_others(&run);
                let progress = serve(shared, &mut state, &run);
                if run.is_finished() {
                    shared.retired.add(run);
                }
                waits.after_turn(shared, epoch, progress);
            }
            None if shared.closed.load(Ordering::SeqCst) && shared.is_idle() => break,
            None => {
                waits = Waits::default();
                state.rest(epoch);
            }
        }
    }
}

/// Two numbers that are 0 after a unit has made progress.
#[derive(Default)]
struct Waits {
    /// How often a resumed unit still had to wait, since the worker last yielded the processor or slept.
    turns: usize,
    /// How often the worker has yielded the processor or slept.
    naps: u32,
}

impl Waits {
    /// If all parked units have been resumed and still had to wait, yields the processor to other
    /// threads. When this happens for the third time, and each time after that, sleeps instead, and
    /// longer each time, up to [`LONGEST_NAP`].
    fn after_turn(&mut self, shared: &Arc<Shared>, epoch: u64, progress: Progress) {
        match progress {
            Progress::Made => {
                *self = Waits::default();
                shared.hangs.note_progress();
            }
            Progress::None(turns) => self.turns += turns,
        }
        if self.turns <= shared.parked.load(Ordering::SeqCst) {
            return;
        }
        self.turns = 0;
        self.naps += 1;
        if self.naps <= 2 {
            std::thread::yield_now();
            return;
        }
        shared.look_for_hang();
        let nap = Duration::from_micros(1 << (self.naps - 3).min(7));
        shared.sleep.sleep(epoch, Some(nap.min(LONGEST_NAP)));
    }
}

/// The result of a worker's turn in a run.
enum Progress {
    Made,
    /// No unit made progress. The field is the number of resumed units that still had to wait.
    None(usize),
}

/// Executes pieces of `run` until the worker's turn in this run is over.
fn serve(shared: &Arc<Shared>, state: &mut WorkerState, run: &Arc<Run>) -> Progress {
    let mut turn = Turn {
        waits: 0,
        progress: false,
        now: Instant::now(),
    };
    if run.enter() {
        state.run = Some(Arc::clone(run));
        fault::set_stop_token(run.id());
        turn.take_pieces(shared, state, run);
        fault::set_stop_token(0);
        state.run = None;
    }
    run.leave(shared);
    if turn.progress {
        Progress::Made
    } else {
        Progress::None(turn.waits)
    }
}

struct Turn {
    waits: usize,
    progress: bool,
    /// Time when the last piece of work ended or, before the first piece, when the turn began.
    now: Instant,
}

impl Turn {
    fn take_pieces(&mut self, shared: &Arc<Shared>, state: &mut WorkerState, run: &Arc<Run>) {
        let begin = self.now;
        while let Some(piece) = shared.take(run) {
            let worth_waking = WORTH_WAKING.max(WAKINGS * shared.sleep.waking());
            if shared.has_work(run) && run.time_left() > worth_waking {
                shared.sleep.wake_if_resting();
            }
            state.handlers.before_piece(run.id(), self.now);
            self.execute(shared, state, run, piece);
            if run.stopping.load(Ordering::SeqCst) || run.is_finished() {
                return;
            }
            if run.users() > run.allowed(shared.config.workers) {
                return;
            }
            let others = shared.active_count.load(Ordering::SeqCst) > 1;
            let waiting = self.waits > 0;
            if others && (waiting || self.now.duration_since(begin) > SLICE) {
                return;
            }
            if self.waits > run.parked_count.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    fn execute(
        &mut self,
        shared: &Arc<Shared>,
        state: &mut WorkerState,
        run: &Arc<Run>,
        piece: Piece,
    ) {
        let begin = self.now;
        match piece {
            Piece::New(first, end) if shared.config.reorders() => {
                self.execute_reordered(shared, state, run, first, end);
                self.now = Instant::now();
            }
            Piece::New(first, end) => {
                let users = run.users();
                let outcome = guarded(run, || run.spec.prepared.run(state, first, end - first));
                self.now = Instant::now();
                let (time, done) = (self.now - begin, units_done(&outcome, first, end));
                run.note_time(time, done);
                run.note_contention(time, done, users, shared.config.workers);
                if run.will_be_complete(units_done(&outcome, first, end)) {
                    state.begin_watch();
                }
                self.settle(shared, run, outcome, first, end);
            }
            Piece::Parked(unit) => {
                let number = unit.unit;
                let outcome = guarded(run, || run.spec.prepared.resume(state, unit));
                self.now = Instant::now();
                self.settle(shared, run, outcome, number, number + 1);
            }
        }
    }

    /// Runs the units `first..end` one after the other, in the order that [`Run::reordered`]
    /// determines.
    fn execute_reordered(
        &mut self,
        shared: &Arc<Shared>,
        state: &mut WorkerState,
        run: &Arc<Run>,
        first: u64,
        end: u64,
    ) {
        for claimed in first..end {
            let unit = run.reordered(claimed, shared.config.shuffle);
            let outcome = guarded(run, || run.spec.prepared.run(state, unit, 1));
            self.settle(shared, run, outcome, unit, unit + 1);
            if run.stopping.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Updates the run after the engine has run the units `first..end` with the outcome `outcome`.
    fn settle(
        &mut self,
        shared: &Arc<Shared>,
        run: &Arc<Run>,
        outcome: RunOutcome,
        first: u64,
        end: u64,
    ) {
        let done = units_done(&outcome, first, end);
        run.progressed();
        match outcome {
            RunOutcome::Done => {
                self.moved();
                run.completed(shared, done);
                run.finish_if_over(shared);
            }
            RunOutcome::Parked(unit) if (first..end).contains(&unit.unit) => {
                if unit.progressed || done > 0 {
                    self.moved();
                } else {
                    self.waits += 1;
                }
                run.leave_over(unit.unit + 1, end);
                run.completed(shared, done);
                run.park(shared, unit);
            }
            RunOutcome::Parked(unit) => {
                let text = format!("parked unit {} is outside of {first}..{end}", unit.unit);
                shared.stop(run, Some(internal(run, &text)));
            }
            RunOutcome::Fault(fault) => shared.stop(run, Some(fault)),
            RunOutcome::Stopped { place } => {
                run.stopped_at(place);
                if !run.stopping.load(Ordering::SeqCst) {
                    shared.stop(run, Some(internal(run, "stopped without a request")));
                }
            }
        }
    }

    fn moved(&mut self) {
        self.progress = true;
        self.waits = 0;
    }
}

/// Calls the engine through `call` and returns its result. If the engine panics, returns a fault of
/// the launch.
fn guarded(run: &Run, call: impl FnOnce() -> RunOutcome) -> RunOutcome {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        RunOutcome::Fault(internal(run, &format!("the engine panicked: {text}")))
    })
}

fn internal(run: &Run, text: &str) -> Fault {
    Fault::new(FaultKind::LaunchFailed, run.kernel()).with_detail(format!("internal error: {text}"))
}

/// Returns how many of the units `first..end` are complete.
fn units_done(outcome: &RunOutcome, first: u64, end: u64) -> u64 {
    match outcome {
        RunOutcome::Done => end - first,
        RunOutcome::Parked(unit) if (first..end).contains(&unit.unit) => unit.unit - first,
        _ => 0,
    }
}

thread_local! {
    static ON_WORKER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Returns whether the calling thread is a worker.
pub(super) fn on_worker() -> bool {
    ON_WORKER.get()
}
