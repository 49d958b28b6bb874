//! Threads of our own that are not workers: the copy thread and the callback thread.
//!
//! Invariant: such a thread is started with its first job and never joined; jobs run in the
//! order they were sent.

use std::cell::Cell;
use std::sync::OnceLock;

use crossbeam_channel::{Sender, unbounded};

/// A job for a service thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A lazily started thread with a queue.
pub(crate) struct ServiceThread {
    name: &'static str,
    sender: OnceLock<Sender<Job>>,
}

impl ServiceThread {
    /// A thread that is not started yet.
    pub(crate) const fn new(name: &'static str) -> ServiceThread {
        ServiceThread {
            name,
            sender: OnceLock::new(),
        }
    }

    /// Runs `job` after the jobs sent before. A thread that cannot be started leaves it to the
    /// caller.
    pub(crate) fn send(&self, job: Job) {
        let sender = self.sender.get_or_init(|| self.start());
        if let Err(unsent) = sender.send(job) {
            (unsent.into_inner())();
        }
    }

    fn start(&self) -> Sender<Job> {
        let (sender, receiver) = unbounded::<Job>();
        let body = move || {
            crate::fault::prepare_service_thread();
            ON_SERVICE_THREAD.set(true);
            while let Ok(job) = receiver.recv() {
                // A panic in a host function is the program's; later work must go on.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            }
        };
        // When this fails the receiver is dropped with the closure and `send` runs the jobs.
        let _ = std::thread::Builder::new()
            .name(self.name.to_owned())
            .spawn(body);
        sender
    }
}

thread_local! {
    static ON_SERVICE_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread runs a host function. Calls that wait for work are not allowed
/// there: they would wait for themselves.
pub fn in_host_function() -> bool {
    ON_SERVICE_THREAD.get()
}
