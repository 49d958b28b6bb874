//! What the kernels of a launch have launched and ordered themselves.
//!
//! Invariant: the launch's task is complete when all of this is; launches into the tail stream follow one after
//! the other behind everything else.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::run::Run;
use crate::context::Context;
use crate::error::{Fault, FaultKind};
use crate::syscalls::device_runtime::{Child, Line, Wish};
use crate::task::{Task, Work};

/// The children of a launch.
#[derive(Default)]
pub(super) struct Children {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last task of each stream.
    tails: FxHashMap<Line, Arc<Task>>,
    loose: Vec<Arc<Task>>,
    last: Vec<Child>,
    /// The last record of each event.
    events: FxHashMap<u64, Arc<Task>>,
}

impl State {
    /// A task for a wish, not released; none when nothing has to be done.
    fn submit(
        &mut self,
        context: &Context,
        run: &Run,
        line: Line,
        wish: Wish,
    ) -> Option<Arc<Task>> {
        let before = self.tails.get(&line).cloned();
        // Device code knows no priorities: what a launch asks for has its own.
        let priority = run.priority();
        let work = match wish {
            Wish::Launch(child) if line == Line::Tail => {
                self.last.push(*child);
                return None;
            }
            Wish::Launch(child) => launch(context, *child)?,
            Wish::Memory(job) => {
                let kernel = run.spec.kernel.clone();
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

impl Run {
    /// Submits what units have asked for so far.
    pub(super) fn submit_wishes(&self) {
        let wishes = &self.services().device_runtime;
        if !wishes.has_wishes() {
            return;
        }
        let Some(context) = self.task().and_then(|task| task.context()) else {
            return;
        };
        let mut tasks = Vec::new();
        {
            let mut state = self.children.state.lock();
            for (line, wish) in wishes.take() {
                tasks.extend(state.submit(&context, self, line, wish));
            }
        }
        for task in tasks {
            task.release();
        }
    }

    /// Completes the launch's task, at once or behind the children.
    pub(super) fn complete_behind_children(&self, task: &Arc<Task>) {
        let State {
            tails, loose, last, ..
        } = std::mem::take(&mut *self.children.state.lock());
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
