//! Calls generated code ([`enter`]), and contains functions with which helpers end such a call
//! ([`raise`], [`leave_address`]).
//!
//! Invariant: while generated code runs, the thread's field `current` refers to the save area of
//! the innermost `enter`, even if a helper has called `enter` recursively.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use margay_jit::Registers;

use super::thread::{self, PENDING_NONE, PENDING_RAISED, PENDING_STOP, SaveArea, ThreadState};
use super::{Trap, TrapKind, arch};

/// The signature of all functions that [`enter`] calls. The parameters are a context and two 64-bit arguments; the
/// result has 64 bits.
pub type GeneratedFn = unsafe extern "C" fn(ctx: *mut u8, a: u64, b: u64) -> u64;

/// Calls `f(ctx, a, b)` and returns the result of the call, or `Err` if `f` faults.
///
/// The call runs on the thread's guarded stack if the thread has a [`super::WorkerGuard`] and the call is not nested.
/// Floating-point code in `f` runs with all exceptions masked, rounds to nearest and keeps subnormals; `enter` restores
/// the host's control word afterwards. The overhead of a call is about 5 nanoseconds.
///
/// # Errors
/// Returns the trap that ended the call: a fault in registered code, a stop, or a trap that a
/// helper [`raise`]d. If a helper has raised a trap, `enter` returns this trap, even if `f`
/// returned without reading the pending flag.
///
/// # Safety
/// `f` must follow the platform's C calling convention and must not write memory that safe Rust
/// code relies on. If `f` can trap, all instructions at which it can fault, be stopped or call
/// [`leave_address`] must be in a range that was registered with [`super::register_code`]. Because
/// a trap can end `f` at any of these instructions, `f` must not own resources that must be
/// released.
pub unsafe fn enter(f: GeneratedFn, ctx: *mut u8, a: u64, b: u64) -> Result<u64, Trap> {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { call(f, (ctx, a, b), false) }
}

/// Calls `f(ctx, a, b)` like [`enter`], where `f` is ordinary code of the process instead of generated code, such as a
/// task of a native kernel. On a worker, each fault of `f` ends the call, in whatever library it happens.
///
/// A stop does not interrupt `f`, because `f` may own resources. It becomes pending, and the call returns it after `f`
/// has returned.
///
/// # Errors
/// Returns the fault that ended `f`, or the pending stop. After a fault, the resources of the functions that were running
/// are not released: their memory leaks, and locks that they held stay locked.
///
/// # Safety
/// `f` must follow the platform's C calling convention and must not unwind.
pub(crate) unsafe fn enter_host_code(
    f: GeneratedFn,
    ctx: *mut u8,
    a: u64,
    b: u64,
) -> Result<u64, Trap> {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { call(f, (ctx, a, b), true) }
}

/// # Safety
/// The requirements of [`enter_host_code`] apply if `is_host_code` is true, else those of [`enter`].
unsafe fn call(
    f: GeneratedFn,
    (ctx, a, b): (*mut u8, u64, u64),
    is_host_code: bool,
) -> Result<u64, Trap> {
    thread::with(|state| {
        let save = SaveArea {
            sp: Cell::new(0),
            result: Cell::new(0),
            host_fp_control: Cell::new(0),
            run_fp_control: arch::RUN_FP_CONTROL,
            pending: &raw const state.pending,
            trap: Cell::new(None),
            is_host_code,
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
        // SAFETY: the caller vouches for `f`; the save area outlives the call, and `stack_top` is the top of a stack
        // that only an outermost `enter` uses.
        let status =
            unsafe { arch::enter_raw(f as usize as u64, ctx, a, b, area.cast(), stack_top) };
        compiler_fence(Ordering::SeqCst);
        state.current.store(previous, Ordering::Relaxed);
        outcome(state, &save, status)
    })
}

/// Returns the result or the trap of a call that has ended.
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

/// Returns the pending trap. If it is a raised trap, the call clears it. If it is a stop, the stop
/// remains pending until the token changes.
fn take_pending(state: &ThreadState) -> Option<Trap> {
    match state.pending.load(Ordering::Relaxed) {
        PENDING_NONE => None,
        PENDING_STOP => Some(stopped(0, 0)),
        _ => {
            // A stop can arrive between the load and this exchange. The exchange then fails, so the stop is not lost.
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

/// Returns a trap which states that a stop interrupted generated code at `pc`.
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
    /// Creates a trap with a code that the caller chooses, for [`raise`].
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
    /// Returns the trap that generated code would have caused with the same access.
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

/// Ends the innermost [`enter`] with `trap`. Helpers that generated code calls use this function.
///
/// The trap takes effect after the helper has returned, when generated code reads the [`pending_flag`]. If generated
/// code does not read the flag, the trap takes effect when generated code returns. If several traps are raised, `enter`
/// returns the first one. A stop overrides all raised traps.
pub fn raise(trap: Trap) {
    thread::with(|state| {
        if state.pending.load(Ordering::Relaxed) == PENDING_NONE {
            state.raised.set(Some(trap));
            // The exchange fails only if a stop has arrived in the meantime; a stop takes precedence.
            let _ = state.pending.compare_exchange(
                PENDING_NONE,
                PENDING_RAISED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    });
}

/// Returns the address of this thread's pending flag. If the flag is not 0 after a call of a
/// helper, generated code must call [`leave_address`].
///
/// The address is constant during the life of the thread. Only this thread may use the address.
pub fn pending_flag() -> *const AtomicU32 {
    thread::with(|state| &raw const state.pending)
}

/// Returns the registers of the generated code that the last fault of this thread interrupted.
pub(crate) fn registers() -> Registers {
    thread::with(|state| state.registers.get())
}

/// Returns whether a stop or a raised trap is pending on this thread. Helpers that run for a long time should call this
/// function repeatedly.
pub fn pending() -> bool {
    thread::with(|state| state.pending.load(Ordering::Relaxed) != PENDING_NONE)
}

/// Declares that this thread executes the run with the number `token`. After this call, a stop
/// request for any other run has no effect on this thread. Token 0 declares that the thread
/// executes no run that can be stopped. Each run needs a new token.
///
/// If a stop for `token` was requested before this call, the stop becomes pending.
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

/// Returns the address of an `extern "C" fn() -> !`. Generated code calls this function to leave
/// the innermost [`enter`] with the pending trap.
pub fn leave_address() -> u64 {
    leave as extern "C" fn() -> ! as usize as u64
}

/// If a stop is pending, ends the innermost call of [`enter`] and does not return. Otherwise
/// returns.
///
/// # Safety
/// The caller must be a helper that generated code has called. The frame of this helper, and all frames between it and
/// the generated code, must not own resources that must be released.
pub unsafe fn leave_if_stopped() {
    if thread::with(|state| state.pending.load(Ordering::Relaxed) == PENDING_STOP) {
        leave();
    }
}

/// Leaves the innermost [`enter`] with `trap` or, if a stop is pending, with the stop.
///
/// # Safety
/// The requirements of [`leave_if_stopped`] apply.
pub unsafe fn leave_with(trap: Trap) -> ! {
    raise(trap);
    leave()
}

extern "C" fn leave() -> ! {
    let save = thread::with(|state| state.current.load(Ordering::Relaxed));
    if save.is_null() {
        // Only a bug in Margay causes a call outside `enter`. No save area exists, so a return is impossible.
        std::process::abort();
    }
    // SAFETY: `current` is the save area of a running `enter`. The dropped frames are those of generated code and of
    // this function, which own nothing.
    unsafe { arch::resume(save.cast()) }
}
