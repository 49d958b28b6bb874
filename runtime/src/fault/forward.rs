//! Giving a signal to the handler that was there before ours.
//!
//! Faithful means: what the previous handler sees and what becomes of the process are what they
//! would have been without us. The default action is restored and then meets the same fault
//! again (or the same signal, sent again, if it came from outside), so that core dumps and wait
//! statuses are right; an ignored fault kills, as the kernel rules; handlers run with the mask
//! that they asked for, and once only under SA_RESETHAND.
//!
//! Invariant: no state here needs releasing, since a previous handler may leave by `longjmp`.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use super::FaultError;

/// The signals that are ours in part.
pub(super) const SIGNALS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

struct Previous {
    action: UnsafeCell<MaybeUninit<libc::sigaction>>,
    known: AtomicBool,
    /// SA_RESETHAND has struck.
    reset: AtomicBool,
}

// SAFETY: `action` is written once, before `known` is set, and only read afterwards.
unsafe impl Sync for Previous {}

static PREVIOUS: [Previous; 4] = [const {
    Previous {
        action: UnsafeCell::new(MaybeUninit::uninit()),
        known: AtomicBool::new(false),
        reset: AtomicBool::new(false),
    }
}; 4];

fn previous(signal: i32) -> Option<&'static Previous> {
    let index = SIGNALS.iter().position(|&s| s == signal)?;
    let previous = &PREVIOUS[index];
    previous.known.load(Ordering::Acquire).then_some(previous)
}

/// The action in force for `signal`.
pub(super) fn current(signal: i32) -> Result<libc::sigaction, FaultError> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: a query; `action` is large enough.
    match unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } {
        // SAFETY: filled in on success.
        0 => Ok(unsafe { action.assume_init() }),
        _ => Err(FaultError::last_os("sigaction")),
    }
}

/// Notes the action in force for one of [`SIGNALS`], to forward to. Called once per signal.
pub(super) fn remember(signal: i32) -> Result<(), FaultError> {
    let action = current(signal)?;
    let Some(index) = SIGNALS.iter().position(|&s| s == signal) else {
        return Ok(());
    };
    // SAFETY: `install` runs once; nobody reads before `known` is set.
    unsafe { *PREVIOUS[index].action.get() = MaybeUninit::new(action) };
    PREVIOUS[index].known.store(true, Ordering::Release);
    Ok(())
}

/// Delivers the signal as it would have been without our handler.
///
/// # Safety
/// Called from a signal handler with its own arguments.
pub(super) unsafe fn forward(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: `info` is the kernel's.
    let sent = unsafe { (*info).si_code } <= 0;
    let Some(previous) = previous(signal) else {
        default_action(signal, sent, info);
        return;
    };
    // SAFETY: `known` says that it is initialised.
    let action = unsafe { (*previous.action.get()).assume_init_ref() };
    let was_reset = previous.reset.load(Ordering::Relaxed);
    match action.sa_sigaction {
        _ if was_reset => default_action(signal, sent, info),
        libc::SIG_DFL => default_action(signal, sent, info),
        // The kernel does not let a thread ignore its own fault.
        libc::SIG_IGN if !sent => default_action(signal, sent, info),
        libc::SIG_IGN => {}
        handler => {
            if action.sa_flags & libc::SA_RESETHAND != 0 {
                previous.reset.store(true, Ordering::Relaxed);
            }
            block_for(signal, action);
            // SAFETY: a handler that the program installed, called as it asked to be.
            unsafe { call(handler, action.sa_flags, signal, info, context) };
        }
    }
}

/// # Safety
/// `handler` was installed with `flags`, and the other arguments are a handler's own.
unsafe fn call(
    handler: libc::sighandler_t,
    flags: i32,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    type Plain = extern "C" fn(i32);
    type WithInfo = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);
    if flags & libc::SA_SIGINFO != 0 {
        // SAFETY: SA_SIGINFO says that the handler takes three arguments.
        let handler = unsafe { std::mem::transmute::<usize, WithInfo>(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: without it, one.
        let handler = unsafe { std::mem::transmute::<usize, Plain>(handler) };
        handler(signal);
    }
}

/// Blocks what the kernel would have blocked; the return from our handler puts the mask back.
fn block_for(signal: i32, action: &libc::sigaction) {
    let mut mask = action.sa_mask;
    if action.sa_flags & libc::SA_NODEFER == 0 {
        // SAFETY: `mask` is an initialised set.
        unsafe { libc::sigaddset(&mut mask, signal) };
    }
    // SAFETY: changes this thread's mask only.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &mask, std::ptr::null_mut()) };
}

/// Restores the default action and lets it happen: a fault repeats itself when the handler
/// returns, a signal that was sent is sent again.
fn default_action(signal: i32, sent: bool, info: *mut libc::siginfo_t) {
    // SAFETY: all zeroes is SIG_DFL with an empty mask and no flags.
    let action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: sets the default action.
    unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
    if sent {
        // SAFETY: sends this thread a copy of the signal that it received.
        unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                libc::getpid(),
                libc::syscall(libc::SYS_gettid),
                signal,
                info,
            )
        };
    }
}
