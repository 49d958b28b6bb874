//! Runs the parsing of each image, and the compilation for the first launch of each kernel, on a thread of its own.
//! (Code that a running launch needs later, such as vector code, is compiled when a worker needs it. The worker starts
//! a thread for the compilation and waits for it: [`on_large_stack`].)
//!
//! Programs can launch kernels from threads with small stacks, but parsing and compiling deeply nested input needs
//! large stacks. This work therefore runs on a thread with a stack of at most [`STACK`] bytes; only pages
//! of the stack that have been accessed use memory. The thread that needs the result waits for it
//! without a limit ([`run`]) or until a deadline ([`Slot`]). After the deadline, the work
//! continues, and the next call that needs the result gets it. If no thread can be started, the
//! work runs on the calling thread, provided that the stack of that thread is large enough.
//!
//! Invariant: the process can end without waiting for the threads that compile. These threads hold
//! no lock while they start.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, scope};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::memory::private_memory_left;
use crate::small_stack::stack_left;

/// Preferred stack size in bytes.
const STACK: usize = 64 << 20;
/// Stack size in bytes if the preferred size is not available.
const SMALL_STACK: usize = 8 << 20;

/// Minimum stack size in bytes.
const LEAST_STACK: usize = 2 << 20;

/// A compilation needs no new thread if at least this number of bytes of stack are unused. The stacks of workers are
/// smaller.
const LARGE_ENOUGH: u64 = 4 << 20;

/// Returns the stack sizes to try, largest first. Each size is at most an eighth of the memory that the limits of the
/// process still permit. The limits of the process apply to the whole stack, including pages that
/// are not used.
fn stacks() -> impl Iterator<Item = usize> {
    let most = private_memory_left().map_or(u64::MAX, |left| left / 8);
    [STACK, SMALL_STACK, LEAST_STACK]
        .into_iter()
        .filter(move |&stack| stack as u64 <= most)
}

fn builder(stack: usize) -> Builder {
    Builder::new()
        .name("margay-compile".into())
        .stack_size(stack)
}

/// Runs `work` on a new thread and waits for it.
pub(super) fn run<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let work = Mutex::new(Some(work));
    let body = || {
        crate::fault::prepare_service_thread();
        take_and_run(&work)
    };
    for stack in stacks() {
        let done = scope(|scope| {
            let thread = builder(stack).spawn_scoped(scope, body).ok()?;
            Some(thread.join().unwrap_or_else(|_| Err(panicked())))
        });
        if let Some(done) = done {
            return done;
        }
    }
    run_here(&work)
}

/// Runs `work` on the calling thread if at least [`LARGE_ENOUGH`] bytes of its stack are unused, and otherwise on a new
/// thread. If no thread can be started, runs `work` on the calling thread in any case.
pub(super) fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let is_small = || stack_left().is_some_and(|left| left < LARGE_ENOUGH);
    let work = Mutex::new(Some(work));
    let take_and_run = || {
        let work = work.lock().take().expect("the work runs once");
        work()
    };
    let body = || {
        crate::fault::prepare_service_thread();
        take_and_run()
    };
    let mut sizes = is_small().then(stacks).into_iter().flatten();
    let done = scope(|scope| {
        let thread = sizes.find_map(|stack| builder(stack).spawn_scoped(scope, body).ok());
        thread.map(|thread| thread.join())
    });
    match done {
        Some(Ok(done)) => done,
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => take_and_run(),
    }
}

/// Runs `work` on the calling thread if the stack of that thread is large enough; otherwise returns an error.
fn run_here<T>(work: &Mutex<Option<impl FnOnce() -> Result<T>>>) -> Result<T> {
    let left = stack_left().unwrap_or(0);
    if left < LEAST_STACK as u64 {
        return Err(Error::OperatingSystem(format!(
            "cannot start a thread to compile on, and this thread has {left} bytes of stack left; {LEAST_STACK} are needed"
        )));
    }
    take_and_run(work)
}

/// Runs `work` on the calling thread. If `work` panics, returns an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked()))
}

fn take_and_run<T>(work: &Mutex<Option<impl FnOnce() -> Result<T>>>) -> Result<T> {
    let Some(work) = work.lock().take() else {
        return Err(Error::Internal("the work was done already".into()));
    };
    guarded(work)
}

fn panicked() -> Error {
    Error::Internal("the compiler panicked".into())
}

/// A result that one thread computes. Other threads that need the result wait until it is
/// available.
pub(super) struct Slot<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<SlotState<T>>,
    changed: Condvar,
}

enum SlotState<T> {
    Empty,
    Making,
    Made(Result<T>),
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot(Arc::new(Shared {
            state: Mutex::new(SlotState::Empty),
            changed: Condvar::new(),
        }))
    }
}

impl<T: Clone + Send + 'static> Slot<T> {
    /// Returns the result; `None` if the result is not available at the deadline. The first call starts `make`, which
    /// computes the result.
    pub(super) fn get(
        &self,
        deadline: Option<Instant>,
        make: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Option<Result<T>> {
        let mut state = self.0.state.lock();
        if let SlotState::Empty = *state {
            *state = SlotState::Making;
            drop(state);
            self.start(make);
            state = self.0.state.lock();
        }
        loop {
            if let SlotState::Made(result) = &*state {
                return Some(result.clone());
            }
            match deadline {
                Some(deadline) => {
                    let late = self.0.changed.wait_until(&mut state, deadline).timed_out();
                    if late && !matches!(*state, SlotState::Made(_)) {
                        return None;
                    }
                }
                None => self.0.changed.wait(&mut state),
            }
        }
    }

    fn start(&self, make: impl FnOnce() -> Result<T> + Send + 'static) {
        let work = Arc::new(Mutex::new(Some(make)));
        for stack in stacks() {
            let (shared, work) = (Arc::clone(&self.0), Arc::clone(&work));
            let body = move || {
                crate::fault::prepare_service_thread();
                shared.set(take_and_run(&work));
            };
            if builder(stack).spawn(body).is_ok() {
                return;
            }
        }
        self.0.set(run_here(&work));
    }
}

impl<T> Shared<T> {
    fn set(&self, result: Result<T>) {
        *self.state.lock() = SlotState::Made(result);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn work_may_recurse_deeply() {
        fn depth(n: u64) -> u64 {
            let frame = std::hint::black_box([n; 64]);
            if n == 0 { 0 } else { 1 + depth(frame[17] - 1) }
        }
        let deep = std::thread::Builder::new().stack_size(64 << 10);
        let thread = deep.spawn(|| run(|| Ok(depth(100_000))).unwrap());
        assert_eq!(thread.unwrap().join().unwrap(), 100_000);
    }

    #[test]
    fn a_thread_with_a_small_stack_gets_a_large_one() {
        let on_a_stack = |bytes: usize| {
            let body = || {
                let here = std::thread::current().id();
                on_large_stack(|| (std::thread::current().id() == here, stack_left()))
            };
            let thread = Builder::new().stack_size(bytes).spawn(body);
            thread.unwrap().join().unwrap()
        };
        let (same, left) = on_a_stack(2 << 20);
        assert!(!same);
        assert!(left > Some(LARGE_ENOUGH), "{left:?}");
        assert!(on_a_stack(16 << 20).0);
    }

    #[test]
    fn what_a_small_stack_would_not_hold_is_refused() {
        let on_a_stack = |bytes: usize| {
            let thread = Builder::new().stack_size(bytes);
            let body = || {
                let left = stack_left().expect("the system tells");
                (left, run_here(&Mutex::new(Some(|| Ok(1)))).is_ok())
            };
            thread.spawn(body).unwrap().join().unwrap()
        };
        let (left, ran) = on_a_stack(256 << 10);
        assert!(left > 128 << 10 && left <= 256 << 10, "{left}");
        assert!(!ran);
        assert!(on_a_stack(4 << 20).1);
    }

    #[test]
    fn a_panic_is_an_error() {
        assert!(run::<()>(|| panic!("for the test")).is_err());
        let slot: Slot<u32> = Slot::default();
        assert!(slot.get(None, || panic!("for the test")).unwrap().is_err());
        assert!(slot.get(None, || Ok(1)).unwrap().is_err(), "made once");
    }

    #[test]
    fn who_is_late_gets_the_result_the_next_time() {
        let slot: Slot<u32> = Slot::default();
        let (send, wait) = std::sync::mpsc::channel();
        let make = move || {
            let _ = wait.recv();
            Ok(7)
        };
        let soon = Instant::now() + Duration::from_millis(1);
        assert!(slot.get(Some(soon), make).is_none());
        send.send(()).unwrap();
        assert_eq!(slot.get(None, || Ok(8)).unwrap().unwrap(), 7);
    }
}
