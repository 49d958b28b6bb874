//! Prepares the launch of a kernel for the scheduler, and submits the work that the threads of the
//! kernel request from the device runtime.
//!
//! Invariant: a launch's task completes after all work that the launch's threads have requested.
//! Launches into the tail launch stream (`cudaStreamTailLaunch`) run one after the other, after all
//! other requested work.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::call_stack::CallStack;
use crate::context::{Limit, Parameters, Pending};
use crate::engine::LaunchShape;
use crate::error::{Error, Fault, FaultKind, Result};
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::params::Params;
use crate::probe_run::{ProbedRun, Session};
use crate::probed::Role;
use crate::process::next_id;
use crate::scheduler::{Launcher, Run, RunSpec, Throttle};
use crate::syscalls::LaunchServices;
use crate::syscalls::device_runtime::{Child, DeviceRuntime, Line, Wish};
use crate::task::{Launch, Owner, Started, Task, Work};

/// A launch that is waiting or running.
struct Launched {
    /// A reference to the module, which keeps its code and variables loaded while the launch
    /// exists.
    kernel: Kernel,
    services: Arc<LaunchServices>,
    /// The value of `%gridid`.
    id: u64,
    /// The priority of the launch. `None` selects the priority of the launch's task.
    priority: Option<i32>,
    /// The stack of the call that submitted the launch, if a checking run examines the launch.
    call: Option<CallStack>,
    /// The launch's task. This field is set when the launch starts.
    task: OnceLock<Arc<Task>>,
    /// `None` if the threads of the launch have requested no work.
    children: Mutex<Option<Box<LaunchedState>>>,
    /// If device code has requested the launch, counts this request as pending until the threads of
    /// the launch have ended.
    pending: Mutex<Option<Pending>>,
    /// Counts the bytes of the launch's parameters while the launch exists.
    _parameters: Parameters,
}

/// Minimum number of tasks in [`LaunchedState`] for a search for completed tasks.
const FEW_TASKS: usize = 4096;

#[derive(Default)]
struct LaunchedState {
    /// The last task of each stream that the threads of the launch use.
    tails: FxHashMap<Line, Arc<Task>>,
    /// The tasks of requests in the stream `cudaStreamFireAndForget`. Only launches in
    /// `cudaStreamTailLaunch` and the end of the launch wait for them.
    loose: Loose<Arc<Task>>,
    last: Vec<Child>,
    /// The task of each event's last record.
    events: FxHashMap<u64, Arc<Task>>,
    /// Number of tasks that remained after completed tasks were last removed.
    left: usize,
}

/// A list of tasks from which completed tasks are removed. The list searches for completed tasks
/// when the number of tasks has doubled since the last search. The average cost of adding a task is
/// therefore constant.
struct Loose<T> {
    tasks: Vec<T>,
    /// Number of tasks that remained after completed tasks were last removed.
    left: usize,
}

impl<T> Default for Loose<T> {
    fn default() -> Loose<T> {
        Loose {
            tasks: Vec::new(),
            left: 0,
        }
    }
}

impl<T> Loose<T> {
    fn push(&mut self, task: T, is_done: impl Fn(&T) -> bool) {
        if self.tasks.len() > 2 * self.left + FEW_TASKS {
            self.tasks.retain(|task| !is_done(task));
            self.left = self.tasks.len();
        }
        self.tasks.push(task);
    }
}

impl LaunchedState {
    /// Creates the task for a request by device code. Returns `None` if the request needs no task.
    /// The task does not start before the caller calls [`Task::release`].
    fn submit(
        &mut self,
        owner: &Arc<dyn Owner>,
        launched: &Launched,
        line: Line,
        wish: Wish,
    ) -> Option<Arc<Task>> {
        let before = self.tails.get(&line).cloned();
        // Device code cannot set priorities: a request gets the priority of the launch that makes it.
        let priority = launched.priority();
        let work = match wish {
            Wish::Launch(child) if line == Line::Tail => {
                self.last.push(*child);
                return None;
            }
            Wish::Launch(child) => launch(&**owner, *child, launched.call.clone())?,
            Wish::Memory(job, pending) => {
                let kernel = launched.kernel.clone();
                let machine = kernel.module().context().machine();
                let visible = machine.visible().ok().flatten();
                Work::Device {
                    job: Box::new(move || {
                        let _pending = pending;
                        job.run(kernel.name(), visible.as_deref())
                    }),
                    short: false,
                }
            }
            Wish::Record(event, pending) => {
                let work = marker(pending);
                let task = Task::submit(Arc::clone(owner), priority, work, before.iter());
                self.events.insert(event, Arc::clone(&task));
                self.tails.insert(line, Arc::clone(&task));
                return Some(task);
            }
            Wish::Wait(event, pending) => {
                let recorded = self.events.get(&event)?.clone();
                let both = before.iter().chain([&recorded]);
                let task = Task::submit(Arc::clone(owner), priority, marker(pending), both);
                self.tails.insert(line, Arc::clone(&task));
                return Some(task);
            }
        };
        let task = Task::submit(Arc::clone(owner), priority, work, before.iter());
        match line {
            Line::Loose => self.loose.push(Arc::clone(&task), |task| task.is_done()),
            line => {
                self.tails.insert(line, Arc::clone(&task));
            }
        }
        Some(task)
    }

    /// Removes completed tasks if many tasks are stored. No request needs to wait for a completed task.
    fn forget_completed(&mut self) {
        if self.tails.len() + self.events.len() > 2 * self.left + FEW_TASKS {
            self.tails.retain(|_, task| !task.is_done());
            self.events.retain(|_, task| !task.is_done());
            self.left = self.tails.len() + self.events.len();
        }
    }
}

/// Creates work that does nothing. `pending` counts the request as pending until this work runs.
fn marker(pending: Pending) -> Work {
    let job = move || {
        drop(pending);
        Ok(())
    };
    Work::Device {
        job: Box::new(job),
        short: true,
    }
}

/// Creates the work of a child launch. `call` is the stack of the host call that submitted the parent launch. Returns
/// `None` if the context's work is cancelled, or if the kernel cannot be launched. If the kernel cannot be launched,
/// the error becomes the sticky error of the context, because no call of the host could return it.
fn launch(owner: &dyn Owner, child: Child, call: Option<CallStack>) -> Option<Work> {
    if owner.work_cancelled() {
        return None;
    }
    let name = child.kernel.name().to_owned();
    match start_nested(
        (&child.kernel, Role::Ordinary),
        child.config,
        child.params,
        child.depth,
        child.deadline,
        Some((child.pending, call)),
    ) {
        Ok(run) => Some(Work::Launch(run)),
        // The fault already contains the reason, such as the time limit.
        Err(Error::Fault(fault)) => {
            owner.fail((*fault).clone());
            None
        }
        Err(error) => {
            let fault = Fault::new(FaultKind::LaunchFailed, &*name);
            owner.fail(fault.with_detail(format!("launched by a kernel: {error}")));
            None
        }
    }
}

impl Kernel {
    /// Checks a launch and prepares it. The instantiation of a graph also calls this method, only to check its kernels;
    /// the launch is submitted when its task is ([`Task::submit`]).
    pub(crate) fn start(&self, config: LaunchConfig, params: Params) -> Result<Launch> {
        self.start_as(Role::Ordinary, config, params)
    }

    /// Checks and prepares a launch like [`Kernel::start`]. If the kernel has probes, `role` selects what the launch
    /// runs.
    pub(crate) fn start_as(
        &self,
        role: Role,
        config: LaunchConfig,
        params: Params,
    ) -> Result<Launch> {
        start_nested((self, role), config, params, 0, None, None)
    }
}

/// Checks and prepares a launch like [`Kernel::start_as`]. `depth` is the nesting depth of the launch:
/// 0 for a launch by the host, and 1 more than the depth of the parent launch for a launch by
/// device code. For a launch by device code, `by` is the time at which the launch must be complete.
/// `parent` then contains the object that counts the launch as pending, and the stack of the host
/// call that submitted the parent launch.
fn start_nested(
    (kernel, role): (&Kernel, Role),
    config: LaunchConfig,
    mut params: Params,
    depth: u32,
    by: Option<Instant>,
    parent: Option<(Pending, Option<CallStack>)>,
) -> Result<Launch> {
    // A worker that polls for launches checks the signal handlers when it sees that the ID is allocated.
    let grid_id = next_id();
    let (pending, call) = parent.unzip();
    let context = kernel.module().context();
    let machine = context.machine();
    machine.scheduler().free_some_finished();
    let limit = context.time_limit();
    let limit = limit.or(machine.scheduler().time_limit());
    let began = Instant::now();
    let deadline = limit.and_then(|limit| began.checked_add(limit));
    let deadline = deadline.into_iter().chain(by).min();
    let (cluster, resident) = kernel.check_launch(&config, &params, deadline)?;
    let probed = kernel.probed()?;
    let session = match probed.and_then(|probed| probed.added(role)) {
        Some(added) => Session::begin(added, kernel, &config, &mut params, role)?,
        None => None,
    };
    let engine = match probed.filter(|_| session.is_some()) {
        Some(probed) => probed.engine(role),
        None => kernel.engine(),
    };
    let visible = machine.visible()?;
    let services = Arc::new(LaunchServices::new(
        kernel.shared_name(),
        visible.clone(),
        context.limit_value(Limit::PrintfFifoSize),
        (context.heap(), context.limit_value(Limit::MallocHeapSize)),
        DeviceRuntime::new(Some(kernel.module().clone()), depth, limit, by),
    ));
    // A launch without workers would never run. If the workers cannot start, the launch fails here.
    machine.scheduler().start()?;
    let findings = machine.findings.as_ref();
    let findings = findings.filter(|findings| findings.selects(kernel.name(), &config));
    let shape = LaunchShape {
        deadline,
        grid: config.grid,
        block: config.block,
        cluster,
        dynamic_shared: config.shared,
        params,
        cooperative: config.cooperative,
        grid_id,
        sms: machine.config.sms,
        sm_warps: machine.config.capability.limits().threads / 32,
        stack_bytes: context.limit_value(Limit::StackSize),
        reverse: machine.reverse,
        windows: machine.scheduler().window_geometry()?,
        visible,
        services: Arc::clone(&services) as _,
        textures: machine.textures.now(),
        call: findings.map(|_| call.flatten().unwrap_or_else(CallStack::capture)),
        findings: findings.cloned(),
    };
    let parameters = shape.params.bytes().len();
    let (id, units, call) = (shape.grid_id, shape.units(), shape.call.clone());
    let (least, greatest) = context.stream_priority_range();
    let prepared = ProbedRun::around(engine.prepare(shape)?, session);
    let scheduler = machine.scheduler();
    let has_room = scheduler.check_windows(units, prepared.window_bytes());
    has_room.inspect_err(|_| {
        if let Some(findings) = findings {
            findings.end_launch(id);
        }
    })?;
    let priority = config.priority.map(|asked| asked.clamp(greatest, least));
    let parameters = context.count_parameters(parameters);
    let launched = Launched::new(
        kernel.clone(),
        services,
        (id, priority),
        call,
        pending,
        parameters,
    );
    let run = Run::new(RunSpec {
        launcher: Arc::clone(&launched) as _,
        id,
        prepared,
        units,
        resident,
        gang: config.cooperative,
        time_limit: limit.map(|limit| limit.saturating_sub(began.elapsed())),
        deadline: by,
    });
    Ok(Launch { run, launched })
}

impl Launched {
    /// Creates the record of a launch. If `priority` is `None`, the launch has the priority of its task.
    fn new(
        kernel: Kernel,
        services: Arc<LaunchServices>,
        (id, priority): (u64, Option<i32>),
        call: Option<CallStack>,
        pending: Option<Pending>,
        parameters: Parameters,
    ) -> Arc<Launched> {
        Arc::new(Launched {
            kernel,
            services,
            id,
            priority,
            call,
            task: OnceLock::new(),
            children: Mutex::default(),
            pending: Mutex::new(pending),
            _parameters: parameters,
        })
    }

    fn owner(&self) -> Option<Arc<dyn Owner>> {
        self.task.get()?.owner()
    }

    /// Submits the launches into the tail launch stream (`cudaStreamTailLaunch`). Completes the
    /// launch's task when all work that the launch's threads have requested is complete, or at once
    /// if the threads have requested no work.
    fn complete_behind_children(&self, task: &Arc<Task>) {
        let state = self.children.lock().take();
        let Some(state) = state else {
            task.complete();
            return;
        };
        let LaunchedState {
            tails, loose, last, ..
        } = *state;
        let mut before: Vec<Arc<Task>> = tails.into_values().chain(loose.tasks).collect();
        before.retain(|task| !task.is_done());
        let owner = task.owner();
        let Some(owner) = owner.filter(|_| !before.is_empty() || !last.is_empty()) else {
            task.complete();
            return;
        };
        let mut tasks = Vec::new();
        for child in last {
            let Some(work) = launch(&*owner, child, self.call.clone()) else {
                break;
            };
            let next = Task::submit(Arc::clone(&owner), task.priority(), work, before.iter());
            before = vec![Arc::clone(&next)];
            tasks.push(next);
        }
        let join = Work::Join(Arc::clone(task));
        tasks.push(Task::submit(
            Arc::clone(&owner),
            task.priority(),
            join,
            before.iter(),
        ));
        for task in tasks {
            task.release();
        }
    }
}

impl Started for Launched {
    fn begin(&self, task: Arc<Task>) {
        // A run is submitted only once. If it were submitted twice, its second task would never complete.
        assert!(self.task.set(task).is_ok(), "a run starts once");
    }

    fn skip(&self) {
        self.kernel.module().context().note_skipped_kernel();
    }
}

impl Launcher for Launched {
    fn kernel(&self) -> &str {
        self.kernel.name()
    }

    fn pace(&self) -> &AtomicU64 {
        self.kernel.pace()
    }

    fn throttle(&self) -> &Throttle {
        self.kernel.throttle()
    }

    fn priority(&self) -> i32 {
        let task = || self.task.get().map(|task| task.priority());
        self.priority.or_else(task).unwrap_or_default()
    }

    fn is_of(&self, context: u64) -> bool {
        self.owner().is_some_and(|own| own.id() == context)
    }

    fn progressed(&self) {
        let wishes = &self.services.device_runtime;
        if !wishes.has_wishes() {
            return;
        }
        let Some(owner) = self.owner() else {
            return;
        };
        let mut tasks = Vec::new();
        {
            let mut state = self.children.lock();
            let state = state.get_or_insert_default();
            for (line, wish) in wishes.take() {
                tasks.extend(state.submit(&owner, self, line, wish));
            }
            state.forget_completed();
        }
        for task in tasks {
            task.release();
        }
    }

    fn finished(&self, fault: Option<Fault>) {
        *self.pending.lock() = None;
        let Some(task) = self.task.get() else {
            return;
        };
        let findings = self.kernel.module().context().machine().findings.as_ref();
        let has_results = fault.is_some() || findings.is_some() || self.services.has_printed();
        if has_results && let Some(owner) = task.owner() {
            let mut fault = fault;
            if let Some(findings) = findings {
                findings.end_launch(self.id);
                if let Some(fault) = &fault {
                    findings.add_fault(self.id, fault, self.call.as_ref());
                }
                if findings.spares_context(self.id) {
                    fault = None;
                }
                let suppressed = findings.take_suppressed(self.id);
                fault = fault.or(suppressed);
            }
            owner.printed(&self.services.take_printed());
            if let Some(fault) = fault {
                owner.fail(fault);
            }
        }
        self.complete_behind_children(task);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    // Regression test: each request examined all earlier tasks, so 40,000 launches into the fire-and-forget stream took
    // seconds.
    #[test]
    fn tasks_are_examined_a_few_times_each() {
        const TASKS: usize = 20 * FEW_TASKS;
        for completed in [0, 1, 2] {
            let (mut loose, examined) = (Loose::default(), Cell::new(0));
            for number in 0..TASKS {
                loose.push(number, |&number| {
                    examined.set(examined.get() + 1);
                    number % 2 < completed
                });
            }
            let kept = TASKS - TASKS * completed / 2;
            assert!((kept..=2 * kept + FEW_TASKS + 1).contains(&loose.tasks.len()));
            assert!(examined.get() <= 3 * TASKS, "{}", examined.get());
        }
    }
}
