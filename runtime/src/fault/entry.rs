//! Calling generated code and coming back: [`enter`], and what helpers say to it.
//!
//! Invariant: while generated code runs, the thread's `current` save area is that of the
//! innermost `enter`, also when a helper calls `enter` again.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use super::thread::{self, PENDING_NONE, PENDING_RAISED, PENDING_STOP, SaveArea, ThreadState};
use super::{Trap, TrapKind, arch};

/// The signature of everything that [`enter`] calls: a context and two words in, a word out.
pub type GeneratedFn = unsafe extern "C" fn(ctx: *mut u8, a: u64, b: u64) -> u64;

/// Calls `f(ctx, a, b)` so that faults in it come back as `Err`.
///
/// Runs on the thread's guarded stack if it has a [`super::WorkerGuard`] and this is not a
/// nested call. Floating point runs with all exceptions masked, round to nearest, subnormals
/// kept; the host's control word is put back afterwards. About 5 nanoseconds.
///
/// # Errors
/// The trap that cut the call short: a fault at a pc inside registered code, a stop, or what a
/// helper [`raise`]d (also when `f` returned without asking the pending flag).
///
/// # Safety
/// `f` must be code that follows the platform's C convention, or whose every fault, stop point
/// and call to [`leave_address`] lies in a range given to [`super::register_code`] while it owns
/// nothing that must be released. It may be left at any instruction. Memory that it writes must
/// not be memory that safe Rust code relies on.
pub unsafe fn enter(f: GeneratedFn, ctx: *mut u8, a: u64, b: u64) -> Result<u64, Trap> {
    thread::with(|state| {
        let save = SaveArea {
            sp: Cell::new(0),
            result: Cell::new(0),
            host_fp_control: Cell::new(0),
            run_fp_control: arch::RUN_FP_CONTROL,
            pending: &raw const state.pending,
            trap: Cell::new(None),
        };
        let previous = state.current.load(Ordering::Relaxed);
        let stack_top = if previous.is_null() {
            state.stack_top.load(Ordering::Relaxed)
        } else {
            0
        };
        let area = (&raw const save).cast_mut();
        state.current.store(area, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `f` is the caller's promise; the save area outlives the call, and
        // `stack_top` is the top of a stack that only an outermost `enter` uses.
        let status =
            unsafe { arch::enter_raw(f as usize as u64, ctx, a, b, area.cast(), stack_top) };
        compiler_fence(Ordering::SeqCst);
        state.current.store(previous, Ordering::Relaxed);
        outcome(state, &save, status)
    })
}

/// What the call came to.
fn outcome(state: &ThreadState, save: &SaveArea, status: u64) -> Result<u64, Trap> {
    if status != 0
        && let Some(trap) = save.trap.take()
    {
        return Err(trap);
    }
    match take_pending(state) {
        Some(trap) => Err(trap),
        None => Ok(save.result.get()),
    }
}

/// The pending trap; a raised one is taken, a stop stays until the token changes.
fn take_pending(state: &ThreadState) -> Option<Trap> {
    match state.pending.load(Ordering::Relaxed) {
        PENDING_NONE => None,
        PENDING_STOP => Some(stopped(0, 0)),
        _ => {
            // A stop may come between the two; it must not be lost.
            let _ = state.pending.compare_exchange(
                PENDING_RAISED,
                PENDING_NONE,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            Some(state.raised.take().unwrap_or(stopped(0, 0)))
        }
    }
}

/// The trap of a stop at `pc`.
pub(super) fn stopped(pc: u64, owner: u64) -> Trap {
    Trap {
        kind: TrapKind::Stopped,
        signal: super::stop_signal(),
        code: 0,
        address: None,
        access: None,
        pc,
        owner,
    }
}

impl Trap {
    /// A trap with a code of the caller's own numbering, for [`raise`].
    pub fn raised(code: u32) -> Trap {
        Trap {
            kind: TrapKind::Raised(code),
            signal: 0,
            code: 0,
            address: None,
            access: None,
            pc: 0,
            owner: 0,
        }
    }
}

impl From<super::AccessFault> for Trap {
    /// The trap that the same access in generated code would have been.
    fn from(fault: super::AccessFault) -> Trap {
        Trap {
            kind: fault.kind,
            signal: libc::SIGSEGV,
            code: 0,
            address: Some(fault.address),
            access: Some(fault.access),
            pc: 0,
            owner: 0,
        }
    }
}

/// Called by a helper that generated code called: ends the innermost [`enter`] with `trap`.
///
/// Takes effect when the helper has returned and generated code asks the [`pending_flag`], at
/// the latest when it returns. The first trap raised wins, and a stop wins over all.
pub fn raise(trap: Trap) {
    thread::with(|state| {
        if state.pending.load(Ordering::Relaxed) == PENDING_NONE {
            state.raised.set(Some(trap));
            // Fails only when a stop arrived meanwhile, which wins.
            let _ = state.pending.compare_exchange(
                PENDING_NONE,
                PENDING_RAISED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    });
}

/// This thread's pending flag: generated code that finds it non-zero after a helper call should
/// call [`leave_address`].
///
/// The address stays the same for the life of the thread and is meaningful on it alone.
pub fn pending_flag() -> *const AtomicU32 {
    thread::with(|state| &raw const state.pending)
}

/// Whether a stop or a raised trap is waiting on this thread; long helpers should ask.
pub fn pending() -> bool {
    thread::with(|state| state.pending.load(Ordering::Relaxed) != PENDING_NONE)
}

/// Declares what this thread is about to run, so that a stop for it can be told from a late
/// stop for something else. 0: nothing that can be stopped. Tokens must not be reused.
///
/// A stop that was asked for before the run was declared counts.
pub fn set_stop_token(token: u64) {
    thread::with(|state| {
        state.token.store(token, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        state.pending.store(PENDING_NONE, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if state.stop_requested() {
            state.note_stop();
        }
    });
}

/// Address of `extern "C" fn() -> !`, through which generated code leaves the innermost
/// [`enter`] with the pending trap.
pub fn leave_address() -> u64 {
    leave as extern "C" fn() -> ! as usize as u64
}

extern "C" fn leave() -> ! {
    let save = thread::with(|state| state.current.load(Ordering::Relaxed));
    if save.is_null() {
        // Only a bug in the compiler calls this outside `enter`; there is nowhere to go.
        std::process::abort();
    }
    // SAFETY: `current` is the save area of a running `enter`; the frames dropped are this
    // one, which owns nothing, and generated code's.
    unsafe { arch::resume(save.cast()) }
}
