//! A launch as its context knows it: the kernel, what device code may call, and what the kernel's threads have launched
//! and ordered themselves.
//!
//! Invariant: the launch's task is complete when all of this is; launches into the tail stream follow one after
//! the other behind everything else.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::context::Context;
use crate::error::{Fault, FaultKind};
use crate::kernel::Kernel;
use crate::scheduler::{Launcher, Run, Throttle};
use crate::syscalls::LaunchServices;
use crate::syscalls::device_runtime::{Child, Line, Wish};
use crate::task::{Task, Work};

/// A launch that waits for its turn or runs.
pub(crate) struct Launch {
    /// For the scheduler.
    pub(crate) run: Arc<Run>,
    /// What the run belongs to.
    pub(crate) launched: Arc<Launched>,
}

/// What a run belongs to.
pub(crate) struct Launched {
    /// It keeps code and variables while it runs.
    kernel: Kernel,
    services: Arc<LaunchServices>,
    /// Its priority, if not its task's.
    priority: Option<i32>,
    /// The task that completes with the run.
    task: OnceLock<Arc<Task>>,
    children: Mutex<LaunchedState>,
}

#[derive(Default)]
struct LaunchedState {
    /// The last task of each stream.
    tails: FxHashMap<Line, Arc<Task>>,
    loose: Vec<Arc<Task>>,
    last: Vec<Child>,
    /// The last record of each event.
    events: FxHashMap<u64, Arc<Task>>,
}

impl LaunchedState {
    /// A task for a wish, not released; none when nothing has to be done.
    fn submit(
        &mut self,
        context: &Context,
        launched: &Launched,
        line: Line,
        wish: Wish,
    ) -> Option<Arc<Task>> {
        let before = self.tails.get(&line).cloned();
        // Device code knows no priorities: what a launch asks for has its own.
        let priority = launched.priority();
        let work = match wish {
            Wish::Launch(child) if line == Line::Tail => {
                self.last.push(*child);
                return None;
            }
            Wish::Launch(child) => launch(context, *child)?,
            Wish::Memory(job) => {
                let kernel = launched.kernel.clone();
                let visible = context.machine().visible().ok().flatten();
                Work::Device {
                    job: Box::new(move || job.run(kernel.name(), visible.as_deref())),
                    short: false,
                }
            }
            Wish::Record(event) => {
                let task = Task::submit(context, priority, Work::Marker, before.iter());
                self.events.insert(event, Arc::clone(&task));
                self.tails.insert(line, Arc::clone(&task));
                return Some(task);
            }
            Wish::Wait(event) => {
                let recorded = self.events.get(&event)?.clone();
                let both = before.iter().chain([&recorded]);
                let task = Task::submit(context, priority, Work::Marker, both);
                self.tails.insert(line, Arc::clone(&task));
                return Some(task);
            }
        };
        let task = Task::submit(context, priority, work, before.iter());
        match line {
            Line::Loose => {
                self.loose.retain(|task| !task.is_done());
                self.loose.push(Arc::clone(&task));
            }
            line => {
                self.tails.insert(line, Arc::clone(&task));
            }
        }
        Some(task)
    }
}

/// The work of a launch; what cannot be launched fails the context, as there is nobody to tell.
fn launch(context: &Context, child: Child) -> Option<Work> {
    let name = child.kernel.name().to_owned();
    match child
        .kernel
        .start_nested(child.config, child.params, child.depth)
    {
        Ok(run) => Some(Work::Launch(run)),
        Err(error) => {
            let fault = Fault::new(FaultKind::LaunchFailed, &*name);
            context.fail(fault.with_detail(format!("launched by a kernel: {error}")));
            None
        }
    }
}

impl Launched {
    /// For a launch of a kernel, whose priority is its task's if none is given.
    pub(crate) fn new(
        kernel: Kernel,
        services: Arc<LaunchServices>,
        priority: Option<i32>,
    ) -> Arc<Launched> {
        Arc::new(Launched {
            kernel,
            services,
            priority,
            task: OnceLock::new(),
            children: Mutex::default(),
        })
    }

    /// The task that completes with it.
    pub(crate) fn begin(&self, task: Arc<Task>) {
        // A run is submitted once; a second task would never complete.
        assert!(self.task.set(task).is_ok(), "a run starts once");
    }

    pub(crate) fn services(&self) -> &LaunchServices {
        &self.services
    }

    fn context(&self) -> Option<Context> {
        self.task.get()?.context()
    }

    /// Completes the launch's task, at once or behind the children.
    fn complete_behind_children(&self, task: &Arc<Task>) {
        let LaunchedState {
            tails, loose, last, ..
        } = std::mem::take(&mut *self.children.lock());
        let mut before: Vec<Arc<Task>> = tails.into_values().chain(loose).collect();
        before.retain(|task| !task.is_done());
        let context = task.context();
        let Some(context) = context.filter(|_| !before.is_empty() || !last.is_empty()) else {
            task.complete();
            return;
        };
        let mut tasks = Vec::new();
        for child in last {
            let Some(work) = launch(&context, child) else {
                break;
            };
            let next = Task::submit(&context, task.priority(), work, before.iter());
            before = vec![Arc::clone(&next)];
            tasks.push(next);
        }
        let join = Work::Join(Arc::clone(task));
        tasks.push(Task::submit(&context, task.priority(), join, before.iter()));
        for task in tasks {
            task.release();
        }
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
        self.context().is_some_and(|own| own.id() == context)
    }

    fn progressed(&self) {
        let wishes = &self.services.device_runtime;
        if !wishes.has_wishes() {
            return;
        }
        let Some(context) = self.context() else {
            return;
        };
        let mut tasks = Vec::new();
        {
            let mut state = self.children.lock();
            for (line, wish) in wishes.take() {
                tasks.extend(state.submit(&context, self, line, wish));
            }
        }
        for task in tasks {
            task.release();
        }
    }

    fn finished(&self, fault: Option<Fault>) {
        let Some(task) = self.task.get() else {
            return;
        };
        if let Some(context) = task.context() {
            context.launch_finished(self, fault);
        }
        self.complete_behind_children(task);
    }
}
