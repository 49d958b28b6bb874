//! Tasks: pieces of submitted work and the order between them.
//!
//! Everything a stream is given becomes a [`Task`]. A task counts the earlier tasks that it
//! waits for; completing a task releases its successors. The stream rules (in [`crate::stream`])
//! only choose the predecessors, so all of CUDA's ordering is this one graph.
//!
//! Invariant: a task starts at most once, when its last predecessor is complete, and always
//! completes: cancelled work completes without running. Links point forward only, so completed
//! work is freed however long the stream lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;

use crate::context::Context;
use crate::error::Result;
use crate::launched::Launch;
use crate::spin;

/// What a task does once it may start.
pub(crate) enum Work {
    /// Nothing: a point in a stream.
    Marker,
    /// Runs on the scheduler's workers.
    Launch(Launch),
    /// Runs on the copy thread, or when it is `short` and ready on the submitting thread.
    Device {
        /// What to do.
        job: DeviceJob,
        /// Takes no longer than handing it to another thread.
        short: bool,
    },
    /// Runs on the callback thread.
    Host(HostWork),
    /// Completes another task, which is a launch whose children are complete.
    Join(Arc<Task>),
    /// Asked again and again by the polling thread until it says that it is done.
    Wait(WaitJob),
    /// Runs on the copy thread, also when the work is cancelled, and completes the task some time later.
    Decide(Decision),
    /// The submitting thread waits for its turn, does the work itself and completes the task.
    Caller,
}

/// A copy, fill or release of memory.
pub(crate) type DeviceJob = Box<dyn FnOnce() -> Result<()> + Send>;

/// Whether a wait for memory is over.
pub(crate) type WaitJob = Box<dyn FnMut() -> Result<bool> + Send>;

/// Work that makes more tasks and completes its own behind them.
pub(crate) type Decision = Box<dyn FnOnce(Arc<Task>) + Send>;

/// A host function.
pub(crate) struct HostWork {
    /// The function, told the context's status.
    pub(crate) function: Box<dyn FnOnce(Result<()>) + Send>,
    /// Run it even when the context has failed.
    pub(crate) always: bool,
}

/// A piece of submitted work.
pub(crate) struct Task {
    /// Predecessors that are not complete, plus one while the task is being submitted.
    waiting_for: AtomicUsize,
    done: AtomicBool,
    /// A marker: events ask when those completed.
    timed: bool,
    /// That of its stream: of tasks that may start, those with lower numbers go first.
    priority: i32,
    /// Nanoseconds on the process's clock at which it completed.
    time: AtomicU64,
    state: Mutex<TaskState>,
    changed: Condvar,
}

struct TaskState {
    /// Gone when the task is complete: the tail of a stream must not keep its context alive.
    context: Option<Context>,
    work: Option<Work>,
    successors: SmallVec<[Arc<Task>; 2]>,
    /// For [`Work::Caller`]: the caller may go.
    ready: bool,
    done: bool,
}

/// How long a waiting thread looks before it sleeps: longer than it takes to wake a worker.
const LOOK: Duration = Duration::from_micros(50);

/// How long a waiting thread sleeps before it sees to our signal handlers again: at first, and at most.
const KEEP_HANDLERS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(32));

impl Task {
    /// A task with `work` after `predecessors`, and makes it the successor of each. It does not
    /// start before [`Task::release`].
    pub(crate) fn submit<'a>(
        context: &Context,
        priority: i32,
        work: Work,
        predecessors: impl Iterator<Item = &'a Arc<Task>>,
    ) -> Arc<Task> {
        let task = Arc::new(Task {
            waiting_for: AtomicUsize::new(1),
            done: AtomicBool::new(false),
            timed: matches!(work, Work::Marker),
            priority,
            time: AtomicU64::new(0),
            state: Mutex::new(TaskState {
                context: Some(context.clone()),
                work: Some(work),
                successors: SmallVec::new(),
                ready: false,
                done: false,
            }),
            changed: Condvar::new(),
        });
        context.task_submitted();
        for predecessor in predecessors {
            task.also_after(predecessor);
        }
        task
    }

    /// Makes a task that is not released yet wait for another one too.
    pub(crate) fn also_after(self: &Arc<Task>, predecessor: &Arc<Task>) {
        let mut state = predecessor.state.lock();
        if !state.done {
            self.waiting_for.fetch_add(1, Ordering::Relaxed);
            state.successors.push(Arc::clone(self));
        }
    }

    /// Lets the task start when its predecessors are complete; called once after
    /// [`Task::submit`], outside of all locks.
    pub(crate) fn release(self: &Arc<Task>) {
        if self.waiting_for.fetch_sub(1, Ordering::AcqRel) == 1 && self.start(true) {
            self.complete();
        }
    }

    /// Whether it is complete.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// 0, or less for what goes first.
    pub(crate) fn priority(&self) -> i32 {
        self.priority
    }

    /// When a marker completed, in nanoseconds on the process's clock.
    pub(crate) fn completed_at(&self) -> Option<u64> {
        debug_assert!(self.timed, "only markers are asked");
        self.is_done().then(|| self.time.load(Ordering::Relaxed))
    }

    /// Blocks until the task is complete.
    pub(crate) fn wait(&self) {
        if self.is_done() {
            return;
        }
        // The caller may have installed signal handlers since the launch.
        crate::fault::keep();
        if spin::until(LOOK, || self.is_done()) {
            return;
        }
        let mut pause = KEEP_HANDLERS.0;
        let mut state = self.state.lock();
        while !state.done {
            if self.changed.wait_for(&mut state, pause).timed_out() {
                crate::fault::keep();
                pause = (pause * 2).min(KEEP_HANDLERS.1);
            }
        }
    }

    /// For [`Work::Caller`]: blocks until it is the caller's turn.
    pub(crate) fn wait_turn(&self) {
        // Most often the turn comes soon; `ready` is set right after.
        spin::until(LOOK, || self.waiting_for.load(Ordering::Acquire) == 0);
        let mut state = self.state.lock();
        while !state.ready {
            self.changed.wait(&mut state);
        }
    }

    /// Marks the task complete and starts what waited for it.
    pub(crate) fn complete(self: &Arc<Task>) {
        let mut todo: SmallVec<[Arc<Task>; 4]> = SmallVec::new();
        self.finish(&mut todo);
        // A list, not recursion: a chain of markers may be as long as the program likes.
        while let Some(task) = todo.pop() {
            task.finish(&mut todo);
        }
    }

    fn finish(self: &Arc<Task>, todo: &mut SmallVec<[Arc<Task>; 4]>) {
        if self.timed {
            self.time.store(now(), Ordering::Relaxed);
        }
        let (successors, context) = {
            let mut state = self.state.lock();
            debug_assert!(!state.done, "a task completes once");
            state.done = true;
            self.done.store(true, Ordering::Release);
            (std::mem::take(&mut state.successors), state.context.take())
        };
        self.changed.notify_all();
        for successor in successors {
            successor.predecessor_done(todo);
        }
        if let Some(context) = context {
            context.task_completed();
        }
    }

    /// One predecessor fewer; starts the task when it was the last. What is complete at once
    /// goes on `todo`.
    fn predecessor_done(self: &Arc<Task>, todo: &mut SmallVec<[Arc<Task>; 4]>) {
        if self.waiting_for.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        if self.start(false) {
            todo.push(Arc::clone(self));
        }
    }

    /// Hands the work to whoever does it; true when nothing is left to do.
    fn start(self: &Arc<Task>, submitting: bool) -> bool {
        let (work, context) = {
            let mut state = self.state.lock();
            if let Some(Work::Caller) = state.work {
                state.ready = true;
                drop(state);
                self.changed.notify_all();
                return false;
            }
            (state.work.take(), state.context.clone())
        };
        let (Some(work), Some(context)) = (work, context) else {
            return true;
        };
        let cancelled = context.work_cancelled();
        match work {
            Work::Marker | Work::Caller => return true,
            Work::Join(launch) => {
                launch.complete();
                return true;
            }
            Work::Launch(_) | Work::Device { .. } | Work::Wait(_) if cancelled => return true,
            Work::Host(host) if cancelled && !host.always => return true,
            Work::Launch(Launch { run, launched }) => {
                let machine = context.machine();
                machine.memory.space().close_freed();
                launched.begin(Arc::clone(self));
                machine.scheduler().submit(run);
            }
            Work::Device { job, short: true } if submitting => {
                run_device(&context, job);
                return true;
            }
            Work::Device { job, .. } => {
                let (task, machine) = (Arc::clone(self), Arc::clone(context.machine()));
                let job = Box::new(move || {
                    run_device(&context, job);
                    task.complete();
                });
                machine.copies().send(self.priority, job);
            }
            Work::Host(host) => self.start_host(host, context),
            Work::Wait(job) => context.machine().waits().add(job, self, context.clone()),
            Work::Decide(decide) => {
                let task = Arc::clone(self);
                let job = Box::new(move || decide(task));
                context.machine().copies().send(self.priority, job);
            }
        }
        false
    }

    fn start_host(self: &Arc<Task>, host: HostWork, context: Context) {
        let (task, machine) = (Arc::clone(self), Arc::clone(context.machine()));
        let job = Box::new(move || {
            context.flush_output();
            // The task completes even if the program's function panics.
            let call = || (host.function)(context.fault_status());
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
            task.complete();
        });
        machine.callbacks().send(self.priority, job);
    }

    /// The context, while the task is not complete.
    pub(crate) fn context(&self) -> Option<Context> {
        self.state.lock().context.clone()
    }
}

fn run_device(context: &Context, job: DeviceJob) {
    if let Err(error) = job() {
        context.report_async(error);
    }
}

/// Nanoseconds since the process's clock started.
pub(crate) fn now() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
