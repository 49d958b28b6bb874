//! What the process has once: numbers of objects, and whether it is the child of a fork.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};

/// A number that no object of this process has had yet; never 0.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

static FORKED: AtomicBool = AtomicBool::new(false);

/// After a fork the child has one thread and locks in any state: everything answers an error
/// there and touches nothing.
pub(crate) fn check_fork() -> Result<()> {
    if FORKED.load(Ordering::Relaxed) {
        return Err(Error::NotInitialized);
    }
    Ok(())
}

/// Sees to it that [`check_fork`] knows.
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
