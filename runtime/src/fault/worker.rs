//! Prepares a thread to run generated code. Sets up the stacks and the signal mask of the thread,
//! and creates a handle with which other threads can stop generated code on this thread.
//!
//! Invariant: a [`WorkerGuard`] is dropped on the thread that created it, at a time when no `enter`
//! runs on this thread.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::thread::{self, PENDING_NONE, Shared};
use super::{FaultError, GuardedStack, StopHandle, code_ranges, forward, install, stop_signal};

/// Sizes of a worker's stacks.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// Size of the stack for generated code and the helpers that it calls, in bytes.
    pub stack_size: usize,
    /// Size of the inaccessible guard below the stack for generated code, in bytes. The guard must be larger than any
    /// frame of generated code.
    pub guard_size: usize,
    /// Size in bytes of the stack for signal handlers: our handlers, and the program's handlers to which our handlers
    /// forward signals.
    pub signal_stack_size: usize,
}

impl Default for WorkerOptions {
    fn default() -> WorkerOptions {
        WorkerOptions {
            stack_size: 8 << 20,
            guard_size: 1 << 20,
            signal_stack_size: 128 << 10,
        }
    }
}

impl WorkerOptions {
    /// Returns small sizes, for processes whose address space is limited.
    pub fn small() -> WorkerOptions {
        WorkerOptions {
            stack_size: 1 << 20,
            guard_size: 256 << 10,
            signal_stack_size: 64 << 10,
        }
    }
}

/// While a `WorkerGuard` exists, the thread that created it is a worker.
///
/// On a worker, the four fault signals, the stop signal, SIGABRT, SIGTRAP and SIGSYS are unblocked. All other signals
/// that can be blocked are blocked, so that the program's own handlers run on the program's own threads. Dropping the
/// value restores the previous mask and the previous alternate stack.
#[derive(Debug)]
pub struct WorkerGuard {
    shared: Arc<Shared>,
    stack: GuardedStack,
    /// The alternate signal stack. It is unmapped after the previous alternate stack has been restored.
    _signal_stack: GuardedStack,
    previous_stack: libc::stack_t,
    previous_mask: libc::sigset_t,
    not_send: PhantomData<*const ()>,
}

impl WorkerGuard {
    /// Makes the calling thread a worker with the default stack sizes.
    ///
    /// # Errors
    /// Returns the same errors as [`WorkerGuard::with_options`].
    pub fn new() -> Result<WorkerGuard, FaultError> {
        WorkerGuard::with_options(WorkerOptions::default())
    }

    /// Makes the calling thread a worker.
    ///
    /// # Errors
    /// [`FaultError::Unsupported`] if fault recovery is not implemented for the host, no real-time signal is free or
    /// the thread is already a worker; [`FaultError::System`] if a system call fails, for example because memory for
    /// the stacks is missing.
    pub fn with_options(options: WorkerOptions) -> Result<WorkerGuard, FaultError> {
        install().map_err(copy_error)?;
        if thread::with(|state| !state.shared.load(Ordering::Relaxed).is_null()) {
            return Err(FaultError::Unsupported("this thread is a worker already"));
        }
        let stack = GuardedStack::new(options.stack_size, options.guard_size)?;
        let signal_stack = GuardedStack::new(signal_stack_size(&options), 64 << 10)?;
        let previous_stack = use_signal_stack(&signal_stack)?;
        let guard = WorkerGuard {
            shared: Arc::new(Shared {
                // SAFETY: gettid has no preconditions.
                thread: Mutex::new(unsafe { libc::syscall(libc::SYS_gettid) } as libc::pid_t),
                requested: AtomicU64::new(0),
            }),
            stack,
            _signal_stack: signal_stack,
            previous_stack,
            previous_mask: set_worker_mask(),
            not_send: PhantomData,
        };
        guard.publish();
        Ok(guard)
    }

    fn publish(&self) {
        let start = self.stack.guard_start();
        code_ranges::register_stack(start, (self.stack.top() - start) as usize);
        thread::with(|state| {
            let stack = &self.stack;
            state.stack_top.store(stack.top(), Ordering::Relaxed);
            state
                .guard_start
                .store(stack.guard_start(), Ordering::Relaxed);
            state.guard_end.store(stack.bottom(), Ordering::Relaxed);
            state.token.store(0, Ordering::Relaxed);
            state.pending.store(PENDING_NONE, Ordering::Relaxed);
            let shared = Arc::as_ptr(&self.shared).cast_mut();
            state.shared.store(shared, Ordering::Release);
        });
    }

    /// Returns a handle with which other threads stop the generated code that this worker runs.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Returns the lowest address of the stack for generated code and its helpers. Recursive device
    /// functions detect stack overflows: they compare their stack pointer with this address plus a
    /// margin for helpers.
    pub fn stack_bottom(&self) -> u64 {
        self.stack.bottom()
    }
}

impl Drop for WorkerGuard {
    fn drop(&mut self) {
        *self.shared.thread.lock() = 0;
        code_ranges::unregister_stack(self.stack.guard_start());
        thread::with(|state| {
            state.shared.store(std::ptr::null_mut(), Ordering::Release);
            state.token.store(0, Ordering::Relaxed);
            state.stack_top.store(0, Ordering::Relaxed);
            state.guard_start.store(0, Ordering::Relaxed);
            state.guard_end.store(0, Ordering::Relaxed);
            state.pending.store(PENDING_NONE, Ordering::Relaxed);
        });
        // SAFETY: the calls restore the stack and the mask that `with_options` saved; the system returned both values.
        unsafe {
            libc::sigaltstack(&self.previous_stack, std::ptr::null_mut());
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.previous_mask, std::ptr::null_mut());
        }
    }
}

fn copy_error(error: &FaultError) -> FaultError {
    match error {
        FaultError::Unsupported(what) => FaultError::Unsupported(what),
        FaultError::System { what, source } => FaultError::System {
            what,
            source: std::io::Error::from(source.kind()),
        },
    }
}

/// Returns the requested size plus the number of bytes that Linux needs to save the CPU's
/// registers.
fn signal_stack_size(options: &WorkerOptions) -> usize {
    // SAFETY: getauxval has no preconditions; it returns 0 if the kernel does not report the size.
    let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    options.signal_stack_size.saturating_add(frame)
}

fn use_signal_stack(stack: &GuardedStack) -> Result<libc::stack_t, FaultError> {
    let new = libc::stack_t {
        ss_sp: stack.bottom() as *mut _,
        ss_flags: 0,
        ss_size: stack.size(),
    };
    let mut old = MaybeUninit::uninit();
    // SAFETY: `new` describes memory that outlives its use (see `WorkerGuard::drop`).
    match unsafe { libc::sigaltstack(&new, old.as_mut_ptr()) } {
        // SAFETY: filled in on success.
        0 => Ok(unsafe { old.assume_init() }),
        _ => Err(FaultError::last_os("sigaltstack")),
    }
}

/// Sets the signal mask of a worker on the calling thread. Service threads, which copy memory or
/// run callbacks, call this function. The mask has two purposes: a fault in [`super::access`]
/// reaches our handler even if the thread was created with all signals blocked, and signals for the
/// program are delivered to the program's own threads.
pub fn prepare_service_thread() {
    set_worker_mask();
}

/// Blocks all signals that a worker does not need; returns the previous mask.
fn set_worker_mask() -> libc::sigset_t {
    // These signals end the process even if they are blocked. If they were blocked, the program's handlers could not
    // report why the process ends.
    let own = [libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];
    let stop = Some(stop_signal()).filter(|&signal| signal != 0);
    let open = forward::SIGNALS.into_iter().chain(own).chain(stop);
    let mut mask = MaybeUninit::uninit();
    let mut previous = MaybeUninit::uninit();
    // SAFETY: `sigfillset` initialises `mask`, and `pthread_sigmask` initialises `previous`. With valid arguments
    // neither call can fail.
    unsafe {
        libc::sigfillset(mask.as_mut_ptr());
        for signal in open {
            libc::sigdelset(mask.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, mask.as_ptr(), previous.as_mut_ptr());
        previous.assume_init()
    }
}
