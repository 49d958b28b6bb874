//! Stream operations that wait for memory (`cuStreamWaitValue`): tasks that complete when memory
//! has an expected value.
//!
//! One thread polls all open waits one after the other, so a wait occupies no worker and delays no
//! other work. A wait is open until its task is complete. The thread starts with the first wait and
//! is never joined, so an open wait does not prevent the process from exiting. Invariant: if the
//! work of a context is cancelled, the context's waits end when the thread polls them next.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use crate::error::{Fault, FaultKind};
use crate::task::{Owner, Task, WaitJob};

/// The open waits of a machine.
#[derive(Default)]
pub(crate) struct Waits {
    sender: OnceLock<Sender<Wait>>,
}

struct Wait {
    job: WaitJob,
    task: Arc<Task>,
    owner: Arc<dyn Owner>,
}

/// If no wait completes in this number of rounds, the polling thread sleeps between rounds. The
/// next constant is the maximum duration of such a sleep.
const EAGER: u32 = 200;
const LONGEST: Duration = Duration::from_micros(500);

impl Waits {
    /// Makes the polling thread call `job` repeatedly, and completes `task` when `job` returns true.
    pub(crate) fn add(&self, job: WaitJob, task: &Arc<Task>, owner: Arc<dyn Owner>) {
        let wait = Wait {
            job,
            task: Arc::clone(task),
            owner,
        };
        let sender = self.sender.get_or_init(start);
        if let Err(unsent) = sender.send(wait) {
            // There is no thread that could poll the wait.
            let wait = unsent.into_inner();
            let fault = Fault::of_operation(FaultKind::LaunchFailed, "a wait for memory");
            wait.owner.fail(fault.with_detail("no thread"));
            wait.task.complete();
        }
    }
}

fn start() -> Sender<Wait> {
    let (sender, receiver) = unbounded();
    let body = move || {
        crate::fault::prepare_service_thread();
        run(&receiver);
    };
    // If the thread cannot be started, the closure is dropped together with its receiver, and `add` reports the error.
    let _ = std::thread::Builder::new()
        .name("margay-wait".to_owned())
        .spawn(body);
    sender
}

fn run(receiver: &Receiver<Wait>) {
    let mut open: Vec<Wait> = Vec::new();
    let mut rounds = 0u32;
    loop {
        let next = match open.is_empty() {
            true => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => receiver.recv_timeout(pause(rounds)),
        };
        match next {
            Ok(wait) => {
                open.push(wait);
                rounds = 0;
            }
            Err(RecvTimeoutError::Timeout) => rounds = rounds.saturating_add(1),
            Err(RecvTimeoutError::Disconnected) if open.is_empty() => return,
            // The machine no longer exists, but waits are open. The channel no longer blocks the thread, so the thread
            // sleeps instead.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LONGEST),
        }
        let before = open.len();
        open.retain_mut(|wait| !wait.is_over());
        if open.len() != before {
            rounds = 0;
        }
    }
}

fn pause(rounds: u32) -> Duration {
    match rounds.checked_sub(EAGER) {
        None => Duration::ZERO,
        Some(late) => Duration::from_micros(20 + u64::from(late)).min(LONGEST),
    }
}

impl Wait {
    /// Polls the memory of the wait once. If the wait has ended, completes its task. Returns
    /// whether the wait has ended.
    fn is_over(&mut self) -> bool {
        let over = self.owner.work_cancelled()
            || match (self.job)() {
                Ok(over) => over,
                Err(error) => {
                    self.owner.fail_with(error, "a wait for memory");
                    true
                }
            };
        if over {
            self.task.complete();
        }
        over
    }
}
