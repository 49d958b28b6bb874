//! Threads of our own that are not workers: the copy thread and the callback thread.
//!
//! Invariant: such a thread is started with its first job and never joined; of the jobs that wait, those of the highest
//! priority run first, in the order they were sent.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

/// A job for a service thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A lazily started thread with a queue.
pub(crate) struct ServiceThread {
    name: &'static str,
    /// `None` if the thread could not be started.
    queue: OnceLock<Option<Arc<Queue>>>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

/// Jobs by priority (0, or less for what goes first) and number.
#[derive(Default)]
struct Waiting {
    jobs: BTreeMap<(i32, u64), Job>,
    sent: u64,
    /// No more jobs will come.
    closed: bool,
}

impl ServiceThread {
    /// A thread that is not started yet.
    pub(crate) const fn new(name: &'static str) -> ServiceThread {
        ServiceThread {
            name,
            queue: OnceLock::new(),
        }
    }

    /// Runs `job` after the jobs of at least its priority that were sent before. A thread that cannot be started leaves it
    /// to the caller.
    pub(crate) fn send(&self, priority: i32, job: Job) {
        let Some(queue) = self.queue.get_or_init(|| self.start()) else {
            return job();
        };
        let mut waiting = queue.waiting.lock();
        let number = waiting.sent;
        waiting.sent += 1;
        waiting.jobs.insert((priority, number), job);
        drop(waiting);
        queue.changed.notify_one();
    }

    fn start(&self) -> Option<Arc<Queue>> {
        let queue = Arc::new(Queue::default());
        let mine = Arc::clone(&queue);
        let body = move || {
            crate::fault::prepare_service_thread();
            ON_SERVICE_THREAD.set(true);
            while let Some(job) = mine.next() {
                // A copy may meet a fault, which is ours to report.
                crate::fault::keep();
                // A panic in a host function is the program's; later work must go on.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            }
        };
        let thread = std::thread::Builder::new().name(self.name.to_owned());
        thread.spawn(body).ok().map(|_| queue)
    }
}

impl Drop for ServiceThread {
    fn drop(&mut self) {
        // The thread runs what is left and goes; nobody waits for it.
        if let Some(Some(queue)) = self.queue.get() {
            queue.waiting.lock().closed = true;
            queue.changed.notify_one();
        }
    }
}

impl Queue {
    /// The next job, when there is one; none when no more will come.
    fn next(&self) -> Option<Job> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some((_, job)) = waiting.jobs.pop_first() {
                return Some(job);
            }
            if waiting.closed {
                return None;
            }
            self.changed.wait(&mut waiting);
        }
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
