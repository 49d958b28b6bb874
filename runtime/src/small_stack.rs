//! Runs work that needs a large stack even if the calling thread has a small stack.
//!
//! The stack of the main thread can be limited (`ulimit -s 16`), and programs can create threads
//! with small stacks.

use std::thread::{Builder, scope};

use parking_lot::Mutex;

/// Number of bytes of stack that are sufficient for the work of each caller of [`run`].
const NEEDED: u64 = 128 << 10;
/// Size in bytes of the stack of the thread that runs the work if the calling thread has too little
/// stack.
const STACK: usize = 1 << 20;

/// Runs `work` on the calling thread, or on another thread if the calling thread has little stack left. If no other
/// thread can be started, runs `work` on the calling thread in any case.
pub(crate) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if stack_left().is_none_or(|left| left >= NEEDED) {
        return work();
    }
    let work = Mutex::new(Some(work));
    let take_and_run = || {
        let work = work.lock().take().expect("the work runs once");
        work()
    };
    let done = scope(|scope| {
        let builder = Builder::new().name("margay-start".into());
        let thread = builder.stack_size(STACK).spawn_scoped(scope, take_and_run);
        Some(thread.ok()?.join())
    });
    match done {
        Some(Ok(done)) => done,
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => take_and_run(),
    }
}

/// Returns the number of unused bytes on the stack of the calling thread; `None` if the system does not report the
/// stack.
pub(crate) fn stack_left() -> Option<u64> {
    // SAFETY: the first call initialises `attributes`, the second call reads the stack's location from them, and the
    // last call destroys them.
    unsafe {
        let mut attributes = std::mem::zeroed::<libc::pthread_attr_t>();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
        let failed = libc::pthread_attr_getstack(&attributes, &mut lowest, &mut size) != 0;
        libc::pthread_attr_destroy(&mut attributes);
        let here = (&raw const attributes).addr();
        (!failed).then(|| here.saturating_sub(lowest.addr()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Regression test: `cuInit` overflowed a stack of 16 KiB.
    #[test]
    fn work_of_a_thread_with_a_small_stack_gets_a_larger_one() {
        let here = || {
            let left = stack_left().expect("the system reports the stack");
            (std::thread::current().id(), left)
        };
        let left_on = |bytes: usize| {
            let thread = Builder::new().stack_size(bytes);
            let thread = thread.spawn(move || (std::thread::current().id(), run(here)));
            thread.expect("started").join().expect("no panic")
        };
        let (caller, (ran_on, left)) = left_on(64 << 10);
        assert!(caller != ran_on && left >= NEEDED, "{left}");
        let (caller, (ran_on, left)) = left_on(2 << 20);
        assert!(caller == ran_on && left >= NEEDED, "{left}");
    }

    #[test]
    fn panics_reach_the_caller() {
        let thread = Builder::new().stack_size(64 << 10);
        let thread = thread.spawn(|| run(|| panic!("a panic of the work")));
        let panic = thread.expect("started").join().expect_err("a panic");
        assert_eq!(panic.downcast_ref(), Some(&"a panic of the work"));
    }
}
