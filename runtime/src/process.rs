//! State of the whole process: the IDs of its objects and threads, and whether it is the child of a
//! fork.

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::padded::Padded;

/// Returns a new ID, which differs from all IDs that this function has returned in this process. It
/// is never 0.
pub(crate) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::AcqRel)
}

/// Returns the ID that the next call of [`next_id`] returns. Everything that a thread did before a call that returned a
/// smaller ID has happened before this function returns.
pub(crate) fn unused_id() -> u64 {
    NEXT_ID.load(Ordering::Acquire)
}

static NEXT_ID: Padded<AtomicU64> = Padded(AtomicU64::new(1));

/// Returns the calling thread's ID, which is unique in the process and never reused. This ID is
/// available until the thread has ended. The standard library's thread ID is not available for so
/// long: `std::thread::current` panics after the standard library's own destructor (of a `pthread`
/// key) has run.
pub(crate) fn thread_id() -> u64 {
    thread_local! {
        static ID: Cell<u64> = const { Cell::new(0) };
    }
    if ID.get() == 0 {
        ID.set(next_id());
    }
    ID.get()
}

/// Writes the buffered output of the C library's streams and ends the process with exit code 1.
pub(crate) fn end_with_failure() -> ! {
    // SAFETY: a null pointer stands for all streams of the C library.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    // SAFETY: the call has no preconditions.
    unsafe { libc::_exit(1) }
}

static FORKED: AtomicBool = AtomicBool::new(false);

/// Returns an error in the child of a fork. The child has only one thread, and its locks may be in any state. Calls of
/// the API must therefore return before they take a lock.
pub(crate) fn check_fork() -> Result<()> {
    if FORKED.load(Ordering::Relaxed) {
        return Err(Error::NotInitialized);
    }
    Ok(())
}

/// Installs the fork handler through which [`check_fork`] recognises the child of a fork.
pub(crate) fn watch_forks() {
    static ONCE: Once = Once::new();
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    ONCE.call_once(|| {
        // SAFETY: the handler only stores to an atomic.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
}
