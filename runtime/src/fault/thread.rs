//! Per-thread state of calls of generated code, and requests of other threads to stop them.
//!
//! [`ThreadState`] is thread-local, constant-initialised and without a destructor, so that a signal handler may read
//! it. Only its own thread and handlers on that thread access it; atomics with relaxed order and compiler fences are
//! enough. [`Shared`] is the part that other threads may write.
//!
//! Invariant: `current` is null or points to the save area of the innermost running `enter`, which is in that call's
//! frame.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Trap;

/// Nothing is pending.
pub(super) const PENDING_NONE: u32 = 0;
/// The thread was requested to stop; stays until the token changes.
pub(super) const PENDING_STOP: u32 = 1;
/// A helper raised a trap; it is in [`ThreadState::raised`].
pub(super) const PENDING_RAISED: u32 = 2;

/// The state needed to return from generated code. The trampoline uses the offsets of the first fields.
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
    /// The trap that ended the call, set by the signal handler.
    pub(super) trap: Cell<Option<Trap>>,
}

/// State of one thread for calls of generated code.
pub(super) struct ThreadState {
    pub(super) current: AtomicPtr<SaveArea>,
    pub(super) pending: AtomicU32,
    pub(super) raised: Cell<Option<Trap>>,
    /// Token of the run that the thread executes, chosen by the caller; a run with token 0 cannot be stopped.
    pub(super) token: AtomicU64,
    /// Null unless the thread has a `WorkerGuard`.
    pub(super) shared: AtomicPtr<Shared>,
    /// Top of the stack for generated code; 0 if it runs on the thread's own stack.
    pub(super) stack_top: AtomicU64,
    /// Start of the guard below that stack; its end is in the next field.
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

/// Calls `f` with this thread's state. The state has no destructor, so this works until the thread's end.
pub(super) fn with<R>(f: impl FnOnce(&ThreadState) -> R) -> R {
    STATE.with(f)
}

impl ThreadState {
    /// Whether the thread runs launches.
    pub(super) fn is_worker(&self) -> bool {
        !self.shared.load(Ordering::Relaxed).is_null()
    }

    /// Whether a stop was requested for the run that the thread executes now.
    pub(super) fn stop_requested(&self) -> bool {
        let token = self.token.load(Ordering::Relaxed);
        // SAFETY: null, or set by `WorkerGuard`, which keeps the `Shared` alive until it resets the pointer.
        let shared = unsafe { self.shared.load(Ordering::Relaxed).as_ref() };
        token != 0 && shared.is_some_and(|s| s.requested.load(Ordering::SeqCst) == token)
    }

    /// Records a stop; it replaces a raised trap that has not been read yet.
    pub(super) fn note_stop(&self) {
        self.pending.store(PENDING_STOP, Ordering::Relaxed);
    }
}

/// The state of a worker that other threads access.
#[derive(Debug)]
pub(super) struct Shared {
    /// Kernel id of the thread; 0 after the worker's guard was dropped.
    pub(super) thread: Mutex<libc::pid_t>,
    /// Token of the run to be stopped.
    pub(super) requested: AtomicU64,
}

/// Stops the run of a worker thread; usable from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle {
    pub(super) shared: Arc<Shared>,
}

impl StopHandle {
    /// Requests the worker to stop the run that it declared with this token ([`super::set_stop_token`]). Any other run
    /// is not affected, now and later.
    ///
    /// Generated code is unwound at once. If the worker is in a helper, its pending flag is set, which generated code
    /// reads after helper calls. A loop in generated code that does not read the flag is stopped only by a later call
    /// of this function, so callers must repeat it (for example every millisecond) until the worker reports the stop.
    /// Returns false if the worker has ended or `token` is 0.
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
