//! Tasks: pieces of submitted work and the order between them.
//!
//! All work that is submitted to a stream becomes a [`Task`]. A task counts the earlier tasks that it waits for. When a
//! task completes, it releases its successors. The rules that order streams (in [`crate::queue`])
//! have no effect other than the choice of a task's predecessors. The graph of tasks therefore
//! expresses the whole order that CUDA specifies between pieces of work.
//!
//! Invariant: a task starts at most once, when its last predecessor is complete. Every task
//! completes; cancelled work completes without running. A task does not refer to its predecessors,
//! so completed work is freed even if the stream continues to exist.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;

use crate::error::{Error, Fault, Result};
use crate::host_threads;
use crate::observe::{Dependence, DependenceKind, HostEvent, Tools};
use crate::scheduler::Run;
use crate::spin;
use crate::timeline::Clock;

/// The owner of tasks, which is a context.
pub(crate) trait Owner: Send + Sync {
    /// Returns the context's ID, which is unique in the process.
    fn id(&self) -> u64;
    /// Increments the context's number of incomplete tasks.
    fn task_submitted(&self);
    /// Decrements the context's number of incomplete tasks.
    fn task_completed(&self);
    /// Tells the tools that observe the host that a piece of work is complete.
    fn work_ended(&self, work: u64);
    /// Returns whether the context's work that has not started must be cancelled.
    fn work_cancelled(&self) -> bool;
    /// Makes `fault` the context's sticky error.
    fn fail(&self, fault: Fault);
    /// Makes `error` the context's sticky error. `what` names the work that failed. No call waits
    /// for this work, so no call could return the error.
    fn fail_with(&self, error: Error, what: &str);
    /// Stores text that a kernel has printed, for later output.
    fn printed(&self, text: &[u8]);
    /// Starts the work of `task`: passes it to the thread that performs it. `submitting` states
    /// whether the calling thread is the thread that submitted the task. Returns true if the work
    /// is complete on return. Otherwise the thread that performs the work calls [`Task::complete`]
    /// later.
    fn start(self: Arc<Self>, task: &Arc<Task>, work: Work, submitting: bool) -> bool;
}

/// An object that receives the task of a launch.
pub(crate) trait Started: Send + Sync {
    /// Stores the task that completes when the launch is complete. The runtime calls this function once, before the
    /// launch begins.
    fn begin(&self, task: Arc<Task>);

    /// Reports that the launch never begins, because its owner drops work. The runtime calls this
    /// function instead of [`Started::begin`].
    fn skip(&self);
}

/// The work of a task that launches a kernel.
pub(crate) struct Launch {
    /// The run that the scheduler executes.
    pub(crate) run: Arc<Run>,
    /// The object that receives the task before the run begins.
    pub(crate) launched: Arc<dyn Started>,
}

/// The work that a task performs when it starts.
pub(crate) enum Work {
    /// No work; the task is a marker in a stream.
    Marker,
    /// A launch of a kernel, which the scheduler's workers run.
    Launch(Launch),
    /// A job that runs on a copy thread, or on the submitting thread if the job is `short` and
    /// can start at once.
    Device {
        /// The job.
        job: DeviceJob,
        /// Whether the job is so short that a handover to another thread would take longer than the job.
        short: bool,
    },
    /// A host function, which runs on the callback thread.
    Host(HostWork),
    /// No work of its own: when the task starts, it completes another task. This is the task of a
    /// launch whose child launches are then complete.
    Join(Arc<Task>),
    /// A wait for memory. The polling thread calls the job repeatedly until it returns true.
    Wait(WaitJob),
    /// A function that runs on a copy thread, even if the context's work is cancelled. It
    /// completes the task some time later.
    Decide(Decision),
    /// The submitting thread waits until the task may start, does the work itself and completes the task.
    Caller,
}

/// Pieces of work after which something runs, by the numbers that tools know, each with the rule that orders the two.
pub(crate) type Dependences = SmallVec<[Dependence; 2]>;

/// A function that copies, fills or frees memory.
pub(crate) type DeviceJob = Box<dyn FnOnce() -> Result<()> + Send>;

/// A function that polls memory once, and returns whether the wait has ended.
pub(crate) type WaitJob = Box<dyn FnMut() -> Result<bool> + Send>;

/// A function that creates further tasks and completes its own task after them.
pub(crate) type Decision = Box<dyn FnOnce(Arc<Task>) + Send>;

/// A host function.
pub(crate) struct HostWork {
    /// The function. Its argument is the context's status: `Ok`, or the context's sticky error.
    pub(crate) function: Box<dyn FnOnce(Result<()>) + Send>,
    /// Whether the function is called even if the context has a sticky error.
    pub(crate) always: bool,
}

/// A piece of submitted work.
pub(crate) struct Task {
    /// Number of predecessors that are not complete, plus one until the task is released
    /// ([`Task::release`]).
    waiting_for: AtomicUsize,
    done: AtomicBool,
    /// Whether the task is a marker. CUDA events query the time at which a marker was complete.
    timed: bool,
    /// The number of the work for tools that observe the host; 0 if the task is no work that tools see.
    number: u64,
    /// The work after which the task runs, if tools observe the host and the task is no work that tools see.
    after: OnceLock<Box<Dependences>>,
    /// The priority of the task's stream. Of the tasks that may start, the task with the lowest number starts first.
    priority: i32,
    /// The time of completion in nanoseconds on the process's clock.
    time: AtomicU64,
    state: Mutex<TaskState>,
    changed: Condvar,
    /// The set of work that is complete when this task is complete. It is set only if the order of
    /// work is recorded for the race detector, and only for tasks for which other streams or the
    /// host can wait.
    past: OnceLock<Box<Clock>>,
}

struct TaskState {
    /// The owner of the task. It is `None` after the task is complete, because a context must be
    /// freed even if a stream still refers to its last task.
    owner: Option<Arc<dyn Owner>>,
    work: Option<Work>,
    successors: SmallVec<[Arc<Task>; 2]>,
    /// For a [`Work::Caller`] task: whether the submitting thread may do the work.
    ready: bool,
    done: bool,
}

/// Time for which a waiting thread polls before it sleeps. It is longer than the time to wake a worker.
const LOOK: Duration = Duration::from_micros(50);

/// A thread that waits for a task sleeps repeatedly, and checks after each sleep that Margay's
/// signal handlers are installed. The values are the duration of the first sleep and the maximum
/// duration of a sleep.
const KEEP_HANDLERS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(32));

impl Tools {
    /// Tells the tools that observe the host after which work a task runs. If the task is no work that tools see, stores
    /// this work in the task instead, for the tasks that wait for it.
    pub(crate) fn tell_dependences(&self, task: &Task, before: Dependences) {
        if task.number == 0 {
            task.set_dependences(before);
            return;
        }
        let (work, after) = (task.number, &before[..]);
        self.tell(|| HostEvent::Submit { work, after });
    }
}

impl Task {
    /// Creates a task with `work` and makes it the successor of `predecessors`. The task does not start before
    /// [`Task::release`].
    pub(crate) fn submit<'a>(
        owner: Arc<dyn Owner>,
        priority: i32,
        work: Work,
        predecessors: impl Iterator<Item = &'a Arc<Task>>,
    ) -> Arc<Task> {
        Task::submit_numbered(0, owner, priority, work, predecessors)
    }

    /// Does the same as [`Task::submit`], for work that tools know by a number.
    pub(crate) fn submit_numbered<'a>(
        number: u64,
        owner: Arc<dyn Owner>,
        priority: i32,
        work: Work,
        predecessors: impl Iterator<Item = &'a Arc<Task>>,
    ) -> Arc<Task> {
        owner.task_submitted();
        let task = Arc::new(Task {
            waiting_for: AtomicUsize::new(1),
            done: AtomicBool::new(false),
            timed: matches!(work, Work::Marker),
            number,
            after: OnceLock::new(),
            priority,
            time: AtomicU64::new(0),
            state: Mutex::new(TaskState {
                owner: Some(owner),
                work: Some(work),
                successors: SmallVec::new(),
                ready: false,
                done: false,
            }),
            changed: Condvar::new(),
            past: OnceLock::new(),
        });
        for predecessor in predecessors {
            task.also_after(predecessor);
        }
        task
    }

    /// Returns the number of the work for tools that observe the host; 0 if the task is no work that tools see.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Stores the work after which the task runs. The task is no work that tools see.
    fn set_dependences(&self, after: Dependences) {
        let _ = self.after.set(Box::new(after));
    }

    /// Returns the work after whose end the task is complete, as dependences of the next task of a graph: the work of the
    /// task itself or, if the task is no work that tools see, the work before it with its rules.
    pub(crate) fn known_dependences(&self) -> Dependences {
        match (self.number, self.after.get()) {
            (0, after) => after.map_or_else(Dependences::new, |after| (**after).clone()),
            (work, _) => {
                let kind = DependenceKind::Graph;
                Dependences::from_iter([Dependence { work, kind }])
            }
        }
    }

    /// Returns the same work as [`Task::known_dependences`], as dependences of a task that runs after this one by the rule
    /// `kind`.
    pub(crate) fn dependences(&self, kind: DependenceKind) -> Dependences {
        let mut known = self.known_dependences();
        known.iter_mut().for_each(|known| known.kind = kind);
        known
    }

    /// Returns the set of work that is complete when this task is complete; `None` if this set was
    /// not recorded.
    pub(crate) fn past(&self) -> Option<&Clock> {
        self.past.get().map(Box::as_ref)
    }

    /// Stores `past`, the set of work that is complete when this task is complete.
    pub(crate) fn set_past(&self, past: Clock) {
        let _ = self.past.set(Box::new(past));
    }

    /// Adds `predecessor` to the tasks that this task waits for. This task must not have been
    /// released yet.
    pub(crate) fn also_after(self: &Arc<Task>, predecessor: &Arc<Task>) {
        let mut state = predecessor.state.lock();
        if !state.done {
            self.waiting_for.fetch_add(1, Ordering::Relaxed);
            state.successors.push(Arc::clone(self));
        }
    }

    /// Allows the task to start when its predecessors are complete. The caller must call this
    /// function once after [`Task::submit`] and must hold no lock during the call.
    pub(crate) fn release(self: &Arc<Task>) {
        if self.waiting_for.fetch_sub(1, Ordering::AcqRel) == 1 && self.start(true) {
            self.complete();
        }
    }

    /// Returns whether the task is complete.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Returns the priority of the task's stream: 0, or a negative number for a higher priority.
    pub(crate) fn priority(&self) -> i32 {
        self.priority
    }

    /// Returns the time at which a marker completed, in nanoseconds on the process's clock; `None` if the marker is not
    /// complete.
    pub(crate) fn completed_at(&self) -> Option<u64> {
        debug_assert!(self.timed, "only markers are asked");
        self.is_done().then(|| self.time.load(Ordering::Relaxed))
    }

    /// Waits until the task is complete.
    pub(crate) fn wait(&self) {
        // Short work usually ends before the signal handlers could be checked.
        if self.is_done() || spin::briefly(|| self.is_done()) {
            return;
        }
        // The program may have installed signal handlers since the launch.
        crate::fault::keep();
        if spin::until(LOOK, || self.is_done()) {
            return;
        }
        let _wait = host_threads::Wait::begin();
        let mut pause = KEEP_HANDLERS.0;
        let mut state = self.state.lock();
        while !state.done {
            if self.changed.wait_for(&mut state, pause).timed_out() {
                crate::fault::keep();
                pause = (pause * 2).min(KEEP_HANDLERS.1);
            }
        }
    }

    /// Waits until the calling thread may do the work of this [`Work::Caller`] task.
    pub(crate) fn wait_turn(&self) {
        // The predecessors usually complete soon. `ready` is set immediately after the last of them has completed.
        spin::until(LOOK, || self.waiting_for.load(Ordering::Acquire) == 0);
        let _wait = host_threads::Wait::begin();
        let mut state = self.state.lock();
        while !state.ready {
            self.changed.wait(&mut state);
        }
    }

    /// Marks the task as complete, and starts the successors that wait for no other task.
    pub(crate) fn complete(self: &Arc<Task>) {
        let mut todo: SmallVec<[Arc<Task>; 4]> = SmallVec::new();
        self.finish(&mut todo);
        // This loop uses a list instead of recursion, because a chain of markers may be arbitrarily long.
        while let Some(task) = todo.pop() {
            task.finish(&mut todo);
        }
    }

    fn finish(self: &Arc<Task>, todo: &mut SmallVec<[Arc<Task>; 4]>) {
        if self.timed {
            self.time.store(now(), Ordering::Relaxed);
        }
        // Tools learn of the end before a thread that waits for the task can go on.
        if self.number != 0
            && let Some(owner) = self.owner()
        {
            owner.work_ended(self.number);
        }
        let (successors, owner) = {
            let mut state = self.state.lock();
            debug_assert!(!state.done, "a task completes once");
            state.done = true;
            self.done.store(true, Ordering::Release);
            (std::mem::take(&mut state.successors), state.owner.take())
        };
        self.changed.notify_all();
        for successor in successors {
            successor.predecessor_done(todo);
        }
        if let Some(owner) = owner {
            owner.task_completed();
        }
    }

    /// Decrements the number of incomplete predecessors. If all predecessors are complete, starts
    /// the task. If no work of the task is left after the start, adds the task to `todo`, so that
    /// the caller completes it.
    fn predecessor_done(self: &Arc<Task>, todo: &mut SmallVec<[Arc<Task>; 4]>) {
        if self.waiting_for.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        if self.start(false) {
            todo.push(Arc::clone(self));
        }
    }

    /// Passes the task's work to the thread that performs it. Returns true if no work is left to
    /// do; the caller must then mark the task as complete.
    fn start(self: &Arc<Task>, submitting: bool) -> bool {
        let (work, owner) = {
            let mut state = self.state.lock();
            if let Some(Work::Caller) = state.work {
                state.ready = true;
                drop(state);
                self.changed.notify_all();
                return false;
            }
            (state.work.take(), state.owner.clone())
        };
        let (Some(work), Some(owner)) = (work, owner) else {
            return true;
        };
        let cancelled = owner.work_cancelled();
        match work {
            Work::Launch(launch) if cancelled => {
                launch.launched.skip();
                true
            }
            Work::Device { .. } | Work::Wait(_) if cancelled => true,
            Work::Host(host) if cancelled && !host.always => true,
            work => owner.start(self, work, submitting),
        }
    }

    /// Returns the owner of the task; `None` if the task is complete.
    pub(crate) fn owner(&self) -> Option<Arc<dyn Owner>> {
        self.state.lock().owner.clone()
    }
}

/// Returns the number of nanoseconds since the process's clock started.
pub(crate) fn now() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
