//! The per-thread state of calls of generated code, and the requests with which other threads stop such calls.
//!
//! [`ThreadState`] is thread-local, has a constant initialiser and has no destructor, so that a signal handler can read
//! it. Only the thread itself and signal handlers on this thread access its `ThreadState`, so relaxed atomics and
//! compiler fences are sufficient. [`Shared`] is the part of a worker's state that other threads also access.
//!
//! Invariant: `current` is null or points to the save area of the innermost running `enter`, which is in that call's
//! frame.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use margay_jit::Registers;
use parking_lot::Mutex;

use super::Trap;

/// No stop and no trap is pending.
pub(super) const PENDING_NONE: u32 = 0;
/// A stop was requested; it remains pending until the token changes.
pub(super) const PENDING_STOP: u32 = 1;
/// A helper raised a trap, which is in [`ThreadState::raised`].
pub(super) const PENDING_RAISED: u32 = 2;

/// The state that is needed to return from generated code at any instruction. The trampoline accesses all fields except
/// `trap` by their offsets.
#[repr(C)]
pub(super) struct SaveArea {
    /// Stack pointer of the trampoline.
    pub(super) sp: Cell<u64>,
    /// Result of the generated function.
    pub(super) result: Cell<u64>,
    /// Floating-point control word of the host.
    pub(super) host_fp_control: Cell<u64>,
    /// Floating-point control word for generated code.
    pub(super) run_fp_control: u64,
    /// Pointer to [`ThreadState::pending`] of the thread.
    pub(super) pending: *const AtomicU32,
    /// The trap that ended the call, set by the signal handler.
    pub(super) trap: Cell<Option<Trap>>,
    /// Whether the called function is code of the host ([`super::enter_host_code`]).
    pub(super) is_host_code: bool,
}

/// State of one thread for calls of generated code.
pub(super) struct ThreadState {
    pub(super) current: AtomicPtr<SaveArea>,
    pub(super) pending: AtomicU32,
    pub(super) raised: Cell<Option<Trap>>,
    /// The registers of the code that the last fault interrupted.
    pub(super) registers: Cell<Registers>,
    /// Token of the run that the thread executes, from [`super::set_stop_token`]. Token 0 means
    /// that the thread executes no run that can be stopped.
    pub(super) token: AtomicU64,
    /// Null unless the thread has a `WorkerGuard`.
    pub(super) shared: AtomicPtr<Shared>,
    /// Top of the stack for generated code; 0 if generated code runs on the thread's own stack.
    pub(super) stack_top: AtomicU64,
    /// Start of the guard below the stack for generated code. The next field is the end of this
    /// guard.
    pub(super) guard_start: AtomicU64,
    pub(super) guard_end: AtomicU64,
}

thread_local! {
    static STATE: ThreadState = const {
        ThreadState {
            current: AtomicPtr::new(std::ptr::null_mut()),
            pending: AtomicU32::new(PENDING_NONE),
            raised: Cell::new(None),
            registers: Cell::new(Registers {
                general: [0; 16],
                masks: [0; 8],
            }),
            token: AtomicU64::new(0),
            shared: AtomicPtr::new(std::ptr::null_mut()),
            stack_top: AtomicU64::new(0),
            guard_start: AtomicU64::new(0),
            guard_end: AtomicU64::new(0),
        }
    };
}

/// Calls `f` with this thread's state. The state has no destructor, so this function works until the thread ends.
pub(super) fn with<R>(f: impl FnOnce(&ThreadState) -> R) -> R {
    STATE.with(f)
}

impl ThreadState {
    /// Returns whether the thread has a `WorkerGuard`.
    pub(super) fn is_worker(&self) -> bool {
        !self.shared.load(Ordering::Relaxed).is_null()
    }

    /// Returns whether a stop was requested for the run that the thread executes now.
    pub(super) fn stop_requested(&self) -> bool {
        let token = self.token.load(Ordering::Relaxed);
        // SAFETY: null, or set by `WorkerGuard`, which keeps the `Shared` alive until it resets the pointer.
        let shared = unsafe { self.shared.load(Ordering::Relaxed).as_ref() };
        token != 0 && shared.is_some_and(|s| s.requested.load(Ordering::SeqCst) == token)
    }

    /// Returns whether the innermost running `enter` has called code of the host.
    pub(super) fn is_in_host_code(&self) -> bool {
        let current = self.current.load(Ordering::Relaxed);
        // SAFETY: null, or the save area of an `enter` that is running on this thread.
        unsafe { current.as_ref() }.is_some_and(|area| area.is_host_code)
    }

    /// Marks a stop as pending. The stop replaces a raised trap that is still pending.
    pub(super) fn note_stop(&self) {
        self.pending.store(PENDING_STOP, Ordering::Relaxed);
    }
}

/// The part of a worker's state that other threads also access.
#[derive(Debug)]
pub(super) struct Shared {
    /// The thread ID in Linux (`gettid`); 0 after the worker's guard was dropped.
    pub(super) thread: Mutex<libc::pid_t>,
    /// Token of the run that the last call of [`StopHandle::stop`] requested to stop.
    pub(super) requested: AtomicU64,
}

/// A handle with which any thread can stop the run that a worker executes.
#[derive(Clone, Debug)]
pub struct StopHandle {
    pub(super) shared: Arc<Shared>,
}

impl StopHandle {
    /// Requests the worker to stop the run that it declared with this token ([`super::set_stop_token`]). A run with
    /// another token continues.
    ///
    /// If the worker runs generated code, the signal handler ends the call of this code at once. If
    /// the worker runs a helper, the handler only marks the stop as pending. Some helpers test this
    /// mark, and [`super::enter`] tests it when the generated code returns. After the helper has
    /// returned, the generated code can run a loop that calls no such helper. Only a later call of
    /// this function stops such a loop. Callers must therefore repeat the call (for example every
    /// millisecond) until the call of [`super::enter`] on the worker has returned. Returns false if
    /// the worker has ended, `token` is 0 or the system cannot send the signal.
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
