//! What a thread knows about its calls of generated code, and what others may ask of it.
//!
//! [`ThreadState`] is thread-local, constant-initialised and without a destructor, so that a
//! signal handler may read it. It is touched by its own thread and by handlers on that thread
//! alone; atomics with relaxed order and compiler fences are enough. [`Shared`] is the part that
//! other threads may write.
//!
//! Invariant: `current` is null or points to the save area of the innermost running `enter`,
//! which lives in that call's frame.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Trap;

/// Nothing is pending.
pub(super) const PENDING_NONE: u32 = 0;
/// The thread was asked to stop; stays until the token changes.
pub(super) const PENDING_STOP: u32 = 1;
/// A helper raised a trap; it is in [`ThreadState::raised`].
pub(super) const PENDING_RAISED: u32 = 2;

/// The way back from generated code. The trampoline knows the offsets of the first fields.
#[repr(C)]
pub(super) struct SaveArea {
    /// Stack pointer of the trampoline.
    pub(super) sp: Cell<u64>,
    /// What the generated function returned.
    pub(super) result: Cell<u64>,
    /// Floating-point control word of the host.
    pub(super) host_fp_control: Cell<u64>,
    /// Floating-point control word for generated code.
    pub(super) run_fp_control: u64,
    /// [`ThreadState::pending`] of the thread.
    pub(super) pending: *const AtomicU32,
    /// Set by the handler that cut the call short.
    pub(super) trap: Cell<Option<Trap>>,
}

/// Per-thread state.
pub(super) struct ThreadState {
    pub(super) current: AtomicPtr<SaveArea>,
    pub(super) pending: AtomicU32,
    pub(super) raised: Cell<Option<Trap>>,
    /// What the thread is running, in the caller's numbering; 0 cannot be stopped.
    pub(super) token: AtomicU64,
    /// Null unless the thread has a `WorkerGuard`.
    pub(super) shared: AtomicPtr<Shared>,
    /// Top of the stack for generated code; 0: the thread's own stack.
    pub(super) stack_top: AtomicU64,
    /// The guard below that stack.
    pub(super) guard_start: AtomicU64,
    pub(super) guard_end: AtomicU64,
}

thread_local! {
    static STATE: ThreadState = const {
        ThreadState {
            current: AtomicPtr::new(std::ptr::null_mut()),
            pending: AtomicU32::new(PENDING_NONE),
            raised: Cell::new(None),
            token: AtomicU64::new(0),
            shared: AtomicPtr::new(std::ptr::null_mut()),
            stack_top: AtomicU64::new(0),
            guard_start: AtomicU64::new(0),
            guard_end: AtomicU64::new(0),
        }
    };
}

/// Runs `f` on this thread's state. It has no destructor, so this works to the thread's end.
pub(super) fn with<R>(f: impl FnOnce(&ThreadState) -> R) -> R {
    STATE.with(f)
}

impl ThreadState {
    /// Whether the stop that was asked for is for what the thread runs now.
    pub(super) fn stop_requested(&self) -> bool {
        let token = self.token.load(Ordering::Relaxed);
        // SAFETY: null, or set by `WorkerGuard`, which keeps the `Shared` alive as long.
        let shared = unsafe { self.shared.load(Ordering::Relaxed).as_ref() };
        token != 0 && shared.is_some_and(|s| s.requested.load(Ordering::SeqCst) == token)
    }

    /// Notes a stop; a raised trap that nobody has seen yet gives way.
    pub(super) fn note_stop(&self) {
        self.pending.store(PENDING_STOP, Ordering::Relaxed);
    }
}

/// What other threads see of a worker.
#[derive(Debug)]
pub(super) struct Shared {
    /// Kernel id of the thread; 0 once the worker's guard is gone.
    pub(super) thread: Mutex<libc::pid_t>,
    /// Token whose run is to stop.
    pub(super) requested: AtomicU64,
}

/// Stops what a worker thread runs, from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle {
    pub(super) shared: Arc<Shared>,
}

impl StopHandle {
    /// Asks the worker to stop the run that it declared with this token
    /// ([`super::set_stop_token`]); any other run is left alone, now and later.
    ///
    /// Generated code is unwound at once. If the worker is in a helper, its pending flag is set,
    /// which generated code asks after helper calls; code that has no such question in a loop is
    /// caught by a later call, so repeat it (every millisecond, say) until the worker reports.
    /// Returns false when the worker is gone or `token` is 0.
    pub fn stop(&self, token: u64) -> bool {
        if token == 0 {
            return false;
        }
        let thread = self.shared.thread.lock();
        if *thread == 0 {
            return false;
        }
        self.shared.requested.store(token, Ordering::SeqCst);
        super::handler::signal_thread(*thread)
    }
}
