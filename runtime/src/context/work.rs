//! Implements [`Owner`] for contexts: passes the work of tasks to workers and service threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Context, Inner};
use crate::error::{Error, Fault, FaultKind};
use crate::observe::{HostEvent, Tools, WaitKind};
use crate::service::run_host_function;
use crate::task::{DeviceJob, HostWork, Launch, Owner, Task, Work};

impl Owner for Inner {
    fn id(&self) -> u64 {
        self.id
    }

    fn task_submitted(&self) {
        self.pending.fetch_add(1, Ordering::SeqCst);
    }

    fn task_completed(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
        if self.pending.fetch_sub(1, Ordering::SeqCst) == 1 && !self.is_alive() {
            let _guard = self.idle.lock();
            self.became_idle.notify_all();
        }
    }

    fn work_ended(&self, work: u64) {
        self.machine.tools.tell(|| HostEvent::EndWork { work });
    }

    fn work_cancelled(&self) -> bool {
        self.failed.load(Ordering::Acquire) || !self.is_alive()
    }

    fn fail(&self, fault: Fault) {
        self.make_sticky(fault);
    }

    fn fail_with(&self, error: Error, what: &str) {
        match error {
            Error::Fault(fault) => self.make_sticky((*fault).clone()),
            other => {
                let fault = Fault::of_operation(FaultKind::IllegalAddress, what);
                self.make_sticky(fault.with_detail(other.to_string()));
            }
        }
    }

    fn printed(&self, text: &[u8]) {
        self.output.append(text);
    }

    fn start(self: Arc<Inner>, task: &Arc<Task>, work: Work, submitting: bool) -> bool {
        match work {
            Work::Marker | Work::Caller => return true,
            Work::Join(launch) => {
                launch.complete();
                return true;
            }
            Work::Launch(Launch { run, launched }) => {
                self.machine.memory.space().close_freed();
                launched.begin(Arc::clone(task));
                self.machine.scheduler().submit(run);
                if self.work_cancelled() {
                    // The context failed after the caller tested this, and its launches may be stopped already.
                    self.stop_launches();
                }
            }
            Work::Device { job, short: true } if submitting => {
                self.begin_work(task);
                run_device(&self, job);
                return true;
            }
            Work::Device { job, .. } => {
                let (task, owner, priority) =
                    (Arc::clone(task), Arc::clone(&self), task.priority());
                let job = Box::new(move || {
                    owner.begin_work(&task);
                    run_device(&owner, job);
                    task.complete();
                });
                self.machine.copies().send(priority, job);
            }
            Work::Host(host) => start_host(&self, task, host),
            Work::Wait(job) => {
                let machine = Arc::clone(&self.machine);
                machine.waits().add(job, task, self);
            }
            Work::Decide(decide) => {
                let (task, priority) = (Arc::clone(task), task.priority());
                let job = Box::new(move || decide(task));
                self.machine.copies().send(priority, job);
            }
        }
        false
    }
}

impl Inner {
    /// Tells the tools that observe the host that the calling thread begins the work of a task.
    pub(crate) fn begin_work(&self, task: &Task) {
        if task.number() != 0 {
            let work = task.number();
            self.machine.tools.tell(|| HostEvent::BeginWork { work });
        }
    }
}

/// A wait that the tools know. When the value is dropped, the tools receive its end.
pub(crate) struct ToldWait(Option<Arc<Tools>>);

impl Drop for ToldWait {
    fn drop(&mut self) {
        if let Some(tools) = &self.0 {
            tools.tell(|| HostEvent::EndWait);
        }
    }
}

impl Context {
    /// Tells the tools that observe the host that a wait begins. It ends when the returned value is dropped.
    pub(crate) fn told_wait(
        &self,
        kind: WaitKind,
        stream: Option<u64>,
        event: Option<u64>,
    ) -> ToldWait {
        let tools = &self.machine().tools;
        let observed = tools.observe_host();
        tools.tell(|| HostEvent::BeginWait {
            kind,
            context: self.id(),
            stream,
            event,
        });
        ToldWait(observed.then(|| Arc::clone(tools)))
    }
}

fn start_host(context: &Arc<Inner>, task: &Arc<Task>, host: HostWork) {
    let (task, priority) = (Arc::clone(task), task.priority());
    let owner = Context::from(Arc::clone(context));
    let job = Box::new(move || {
        owner.flush_output();
        owner.inner().begin_work(&task);
        owner.inner().queues.host_waited_for(&task);
        let call = || (host.function)(owner.fault_status());
        run_host_function(call, move || task.complete());
    });
    context.machine.callbacks().send(priority, job);
}

/// Performs a copy, a fill or a release of memory. The work can fail after the call that submitted it has returned, so
/// the error becomes sticky, as on a GPU.
fn run_device(context: &Inner, job: DeviceJob) {
    if let Err(error) = job() {
        context.fail_with(error, "a copy or fill");
    }
}
