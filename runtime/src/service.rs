//! Service threads: threads of the runtime that are not workers, such as the threads that run
//! copies and host functions.
//!
//! A [`ServiceThreads`] is a group of threads with a common queue of jobs. Invariant: a thread starts when a job finds no
//! idle thread, and is never joined. Of the waiting jobs, those with the highest priority start first. Jobs of equal
//! priority start in the order in which they were sent.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::memory::resource_limit;
use crate::spin;

/// A job for a service thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Service threads with their queue of jobs. The threads start when jobs are sent to them.
pub(crate) struct ServiceThreads {
    name: &'static str,
    /// Maximum number of threads, at least one.
    most: usize,
    /// The queue of jobs; `None` if the first thread could not be started.
    queue: OnceLock<Option<Arc<Queue>>>,
}

/// Time for which a thread without jobs polls before it sleeps. Waking a sleeping thread takes as long as copying some
/// hundred KiB.
const LOOK: Duration = Duration::from_micros(50);

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// Number of jobs that were sent, for the thread that polls.
    sent: AtomicU64,
}

/// The jobs that wait, sorted by priority (0, or a negative number for a higher priority) and then
/// by the order in which they were sent.
#[derive(Default)]
struct Waiting {
    jobs: BTreeMap<(i32, u64), Job>,
    sent: u64,
    /// Number of jobs that wait or run.
    open: usize,
    /// Number of threads, including those that are about to start.
    threads: usize,
    /// Number of threads that run no job.
    idle: usize,
    /// Whether a thread polls for jobs. The other threads sleep at once.
    is_polled: bool,
    /// Whether no further jobs will be sent.
    closed: bool,
}

impl Waiting {
    /// Records that a thread is about to start.
    fn add_thread(&mut self) {
        self.threads += 1;
        self.idle += 1;
    }

    /// Records that a thread could not be started.
    fn remove_thread(&mut self) {
        self.threads -= 1;
        self.idle -= 1;
    }

    /// Records that a thread has ended a job.
    fn end_job(&mut self) {
        self.open -= 1;
        self.idle += 1;
    }
}

impl ServiceThreads {
    /// Returns a group of at most `most` service threads, none of which is started yet.
    pub(crate) const fn new(name: &'static str, most: usize) -> ServiceThreads {
        ServiceThreads {
            name,
            most,
            queue: OnceLock::new(),
        }
    }

    /// Returns the maximum number of threads.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Sends `job` to the threads. It starts after all waiting jobs of the same or a higher priority. If no thread can
    /// be started, this function runs the job itself.
    pub(crate) fn send(&self, priority: i32, job: Job) {
        let Some(queue) = self.queue.get_or_init(|| self.start()) else {
            return job();
        };
        let mut waiting = queue.waiting.lock();
        let number = waiting.sent;
        waiting.sent += 1;
        waiting.open += 1;
        waiting.jobs.insert((priority, number), job);
        queue.sent.fetch_add(1, Ordering::Release);
        let is_short_of_threads = waiting.threads < self.most && waiting.idle < waiting.jobs.len();
        if is_short_of_threads {
            waiting.add_thread();
        }
        // The thread that polls takes a job that is alone.
        let is_seen = waiting.is_polled && waiting.jobs.len() == 1;
        drop(waiting);
        if !is_seen {
            queue.changed.notify_one();
        }
        if is_short_of_threads && self.start_thread(queue).is_err() {
            // The threads that have been started run the job.
            queue.waiting.lock().remove_thread();
        }
    }

    /// Returns whether no job waits or runs.
    pub(crate) fn is_idle(&self) -> bool {
        match self.queue.get() {
            Some(Some(queue)) => queue.waiting.lock().open == 0,
            _ => true,
        }
    }

    fn start(&self) -> Option<Arc<Queue>> {
        let queue = Arc::new(Queue::default());
        queue.waiting.lock().add_thread();
        self.start_thread(&queue).ok().map(|()| queue)
    }

    fn start_thread(&self, queue: &Arc<Queue>) -> Result<(), Rest> {
        let rest = Rest {
            completions: Vec::new(),
            service: Some((self.name, Arc::clone(queue))),
        };
        rest.start()
    }
}

/// Returns the stack size of threads that run host functions. It is the size that the C library gives the program's own
/// threads (`ulimit -s`), but at least 2 MiB and at most 64 MiB. It is 8 MiB if there is no limit.
fn stack_size() -> usize {
    const RANGE: (u64, u64) = (2 << 20, 64 << 20);
    const UNLIMITED: u64 = 8 << 20;
    let bytes = resource_limit(libc::RLIMIT_STACK).unwrap_or(UNLIMITED);
    bytes.clamp(RANGE.0, RANGE.1) as usize
}

/// The work that a thread that runs host functions still has to perform. If a host function ends
/// its thread (`pthread_exit`), another thread does this work.
struct Rest {
    /// One job for each host function that is running on this thread. The job runs after the host function has ended,
    /// and marks the function's task as complete. More than one host function can run on a thread
    /// only if the callback thread could not be started. If a host function then submits another
    /// host function, the submitting thread runs the new function at once.
    completions: Vec<Job>,
    /// If this thread is a service thread, its name and its queue of jobs.
    service: Option<(&'static str, Arc<Queue>)>,
}

/// The remaining work of a thread. If the thread ends before the work is done, the destructor of
/// this value starts another thread for the work.
struct OnExit(Rest);

thread_local! {
    static REST: RefCell<OnExit> = const {
        RefCell::new(OnExit(Rest { completions: Vec::new(), service: None }))
    };
}

impl Rest {
    /// Starts a new thread that does the remaining work.
    ///
    /// # Errors
    /// Returns the remaining work if no thread can be started.
    fn start(self) -> Result<(), Rest> {
        let name = self
            .service
            .as_ref()
            .map_or("margay-callback", |(name, _)| name);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(stack_size());
        let shared = Arc::new(Mutex::new(Some(self)));
        let mine = Arc::clone(&shared);
        let started = thread.spawn(move || {
            let rest = mine.lock().take();
            rest.into_iter().for_each(Rest::run);
        });
        match started {
            Ok(_) => Ok(()),
            Err(_) => shared.lock().take().map_or(Ok(()), Err),
        }
    }

    fn run(self) {
        crate::fault::prepare_service_thread();
        ON_SERVICE_THREAD.set(true);
        for completion in self.completions.into_iter().rev() {
            completion();
        }
        let Some((name, queue)) = self.service else {
            return;
        };
        let service = Some((name, Arc::clone(&queue)));
        let _ = REST.try_with(|rest| rest.borrow_mut().0.service = service);
        while let Some(job) = queue.next() {
            // A copy may fault, so our signal handlers must still be installed.
            crate::fault::keep();
            // A panic in a host function must not prevent later work.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            queue.waiting.lock().end_job();
        }
        let _ = REST.try_with(|rest| rest.borrow_mut().0.service = None);
    }
}

impl Drop for OnExit {
    fn drop(&mut self) {
        let mut rest = Rest {
            completions: std::mem::take(&mut self.0.completions),
            service: self.0.service.take(),
        };
        if let Some((_, queue)) = &rest.service {
            // The thread ended during a job, which has therefore not been subtracted from the open jobs. This job is
            // complete after the other completions.
            let queue = Arc::clone(queue);
            let end = move || queue.waiting.lock().end_job();
            rest.completions.insert(0, Box::new(end));
        }
        if rest.completions.is_empty() && rest.service.is_none() {
            return;
        }
        // If no other thread can be started, this thread does the work before it ends.
        if let Err(rest) = rest.start() {
            rest.run();
        }
    }
}

/// Calls a host function, and then `completion`. `completion` is called even if the function panics or ends its thread.
pub(crate) fn run_host_function(
    function: impl FnOnce(),
    completion: impl FnOnce() + Send + 'static,
) {
    let mut completion: Option<Job> = Some(Box::new(completion));
    let kept = REST.try_with(|rest| rest.borrow_mut().0.completions.extend(completion.take()));
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(function));
    if kept.is_ok() {
        completion = REST.with_borrow_mut(|rest| rest.0.completions.pop());
    }
    if let Some(completion) = completion {
        completion();
    }
}

impl Drop for ServiceThreads {
    fn drop(&mut self) {
        // The threads run the remaining jobs and end. No thread waits for them.
        if let Some(Some(queue)) = self.queue.get() {
            queue.waiting.lock().closed = true;
            queue.changed.notify_all();
        }
    }
}

impl Queue {
    /// Waits for the next job; returns `None` if no further jobs will be sent.
    fn next(&self) -> Option<Job> {
        let mut waiting = self.waiting.lock();
        let mut has_polled = waiting.is_polled;
        loop {
            if let Some((_, job)) = waiting.jobs.pop_first() {
                waiting.idle -= 1;
                return Some(job);
            }
            if waiting.closed {
                return None;
            }
            if has_polled {
                self.changed.wait(&mut waiting);
                continue;
            }
            has_polled = true;
            waiting.is_polled = true;
            let sent = self.sent.load(Ordering::Acquire);
            MutexGuard::unlocked(&mut waiting, || {
                spin::until(LOOK, || self.sent.load(Ordering::Acquire) != sent);
            });
            waiting.is_polled = false;
        }
    }
}

thread_local! {
    static ON_SERVICE_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the calling thread is a service thread, or runs a task of a native kernel. Host functions usually run
/// on a service thread. On such a thread, calls that wait for work are not permitted, because the work may be waiting for
/// this thread.
pub fn in_host_function() -> bool {
    ON_SERVICE_THREAD.get()
}

/// While a value of this type exists, [`in_host_function`] returns true on the thread that created it.
pub(crate) struct HostFunctionGuard {
    before: bool,
    /// The value must stay on its thread.
    _thread: PhantomData<*const ()>,
}

impl HostFunctionGuard {
    pub(crate) fn begin() -> HostFunctionGuard {
        HostFunctionGuard {
            before: ON_SERVICE_THREAD.replace(true),
            _thread: PhantomData,
        }
    }
}

impl Drop for HostFunctionGuard {
    fn drop(&mut self) {
        ON_SERVICE_THREAD.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Two jobs that wait for each other end only if they run at the same time.
    #[test]
    fn several_threads_run_jobs_at_the_same_time() {
        let threads = ServiceThreads::new("margay-test", 2);
        let barrier = Arc::new(std::sync::Barrier::new(3));
        for _ in 0..2 {
            let barrier = Arc::clone(&barrier);
            let job = move || {
                barrier.wait();
            };
            threads.send(0, Box::new(job));
        }
        barrier.wait();
        let queue = threads.queue.get().cloned().flatten().expect("started");
        assert_eq!(queue.waiting.lock().threads, 2);
    }

    #[test]
    fn no_more_threads_start_than_permitted_or_needed() {
        let most = |most: usize, jobs: usize| {
            let threads = ServiceThreads::new("margay-test", most);
            let open = Arc::new(Mutex::new(()));
            let held = open.lock();
            for _ in 0..jobs {
                let open = Arc::clone(&open);
                threads.send(0, Box::new(move || drop(open.lock())));
            }
            drop(held);
            let queue = threads.queue.get().cloned().flatten().expect("started");
            queue.waiting.lock().threads
        };
        assert_eq!(most(1, 5), 1);
        assert_eq!(most(3, 1), 1);
        assert_eq!(most(3, 2), 2);
        assert_eq!(most(3, 10), 3);
    }

    /// If a host function ends its thread, the thread cannot count the job of this function as done.
    #[test]
    fn a_job_that_ends_its_thread_does_not_stay_open() {
        let queue = Arc::new(Queue::default());
        queue.waiting.lock().open = 1;
        let service = Some(("margay-test", Arc::clone(&queue)));
        let thread = std::thread::spawn(|| REST.with_borrow_mut(|rest| rest.0.service = service));
        thread.join().expect("ended");
        let begin = Instant::now();
        while queue.waiting.lock().open != 0 {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
        queue.waiting.lock().closed = true;
        queue.changed.notify_one();
    }
}
