//! Forwards a signal from Margay's signal handler ("our handler") to the signal action of the
//! program that our handler has replaced.
//!
//! The program observes the same behaviour as without our handler. If the program's action is the
//! default action, this module restores the default action and causes the signal to occur a second
//! time. For this purpose, a faulting instruction is repeated and faults a second time, and a
//! signal that a thread or a process sent is sent a second time. Core dumps and the exit status
//! that the parent process receives are therefore the same as without our handler. If the program
//! ignores the signal of a fault, the fault ends the process, as it would without our handler. The
//! program's handlers run with the signal mask that their actions specify. A handler with
//! SA_RESETHAND runs only once.
//!
//! Invariant: this module owns nothing that must be released, because the program's handler may leave by `longjmp`.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use super::{FaultError, crash_note};

/// The signals of faults. Our fault handler is installed for each of them.
pub(super) const SIGNALS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// Number of entry points of our handler. For each signal, this is the maximum number of replaced
/// actions that our handler can distinguish.
pub(super) const ENTRIES: usize = 16;

/// An action of the program that our handler replaced.
struct Replaced {
    action: libc::sigaction,
    /// Whether the action has the flag SA_RESETHAND and has run once, so that the default action
    /// applies now.
    reset: AtomicBool,
}

/// The program's actions for one signal. Each action that our handler replaced belongs to one entry point of our
/// handler. A program that queries its current action receives an entry point. If the program then calls or reinstalls
/// this entry point, our handler forwards signals to the action that belongs to it.
struct Chain {
    replaced: [AtomicPtr<Replaced>; ENTRIES],
    /// The entry point that was installed last.
    top: AtomicUsize,
    /// The entry point to which the next new action will belong.
    next: AtomicUsize,
}

static CHAINS: [Chain; SIGNALS.len() + 1] = [const {
    Chain {
        replaced: [const { AtomicPtr::new(std::ptr::null_mut()) }; ENTRIES],
        top: AtomicUsize::new(0),
        next: AtomicUsize::new(0),
    }
}; SIGNALS.len() + 1];

/// Returns the stored actions for `signal`, which is one of [`SIGNALS`] or the signal that stops
/// workers.
fn chain(signal: i32) -> &'static Chain {
    let index = SIGNALS.iter().position(|&s| s == signal);
    &CHAINS[index.unwrap_or(SIGNALS.len())]
}

/// Returns the action that is installed for `signal`.
pub(super) fn current(signal: i32) -> Result<libc::sigaction, FaultError> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: this call only queries the action; `action` is large enough.
    match unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } {
        // SAFETY: the successful call has initialised `action`.
        0 => Ok(unsafe { action.assume_init() }),
        _ => Err(FaultError::last_os("sigaction")),
    }
}

/// Returns whether two actions have the same handler, flags and mask.
fn is_same(a: &libc::sigaction, b: &libc::sigaction) -> bool {
    // SAFETY: the masks are initialised and only read.
    let masks = (1..65).all(|s| unsafe {
        libc::sigismember(&raw const a.sa_mask, s) == libc::sigismember(&raw const b.sa_mask, s)
    });
    a.sa_sigaction == b.sa_sigaction && a.sa_flags == b.sa_flags && masks
}

/// Stores an action of the program that our handler is about to replace. Returns the entry point of
/// our handler to which the action now belongs. Callers hold a lock, or install the handlers for
/// the first time.
pub(super) fn remember(signal: i32, action: &libc::sigaction) -> usize {
    let chain = chain(signal);
    let known = chain.replaced.iter().position(|replaced| {
        // SAFETY: the pointer is null or from a leaked box.
        let replaced = unsafe { replaced.load(Ordering::Acquire).as_ref() };
        replaced.is_some_and(|replaced| is_same(&replaced.action, action))
    });
    let entry = known.unwrap_or_else(|| chain.next.fetch_add(1, Ordering::Relaxed) % ENTRIES);
    let known = known.map(|entry| chain.replaced[entry].load(Ordering::Acquire));
    // SAFETY: the pointer is null or from a leaked box.
    match known.and_then(|known| unsafe { known.as_ref() }) {
        Some(known) => known.reset.store(false, Ordering::Relaxed),
        None => {
            // The box is never freed, because a handler on another thread may be reading it. If the program installs at
            // most `ENTRIES` different actions, the number of boxes is at most the number of these actions.
            let replaced = Box::leak(Box::new(Replaced {
                action: *action,
                reset: AtomicBool::new(false),
            }));
            chain.replaced[entry].store(replaced, Ordering::Release);
        }
    }
    chain.top.store(entry, Ordering::Release);
    entry
}

/// Returns the entry point that was installed last for a signal.
pub(super) fn top(signal: i32) -> usize {
    chain(signal).top.load(Ordering::Acquire)
}

/// Records that the program has reinstalled the entry point `entry` of our handler.
pub(super) fn put_back(signal: i32, entry: usize) {
    chain(signal).top.store(entry, Ordering::Release);
}

/// Forwards the stop signal to the handler that the program had installed for this signal. Does nothing if the program
/// had installed no handler.
///
/// # Safety
/// The requirements of [`forward`] apply.
pub(super) unsafe fn forward_stop(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let entry = top(signal);
    let replaced = chain(signal).replaced[entry].load(Ordering::Acquire);
    // SAFETY: the pointer is null or from a leaked box.
    let replaced = unsafe { replaced.as_ref() };
    let handler = replaced.map_or(libc::SIG_DFL, |replaced| replaced.action.sa_sigaction);
    if handler != libc::SIG_DFL {
        // SAFETY: the caller upholds the contract of `forward`, which gets the same arguments.
        unsafe { forward(entry, signal, info, context) };
    }
}

/// Delivers the signal in the way in which Linux would deliver it without our handler. `entry` is
/// the entry point that received the signal.
///
/// # Safety
/// Must be called from a signal handler with that handler's arguments.
pub(super) unsafe fn forward(
    entry: usize,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: `info` comes from the kernel.
    let sent = unsafe { (*info).si_code } <= 0;
    let replaced = chain(signal).replaced.get(entry).and_then(|replaced| {
        // SAFETY: the pointer is null or from a leaked box.
        unsafe { replaced.load(Ordering::Acquire).as_ref() }
    });
    let Some(replaced) = replaced else {
        default_action(signal, sent, info, context);
        return;
    };
    let action = &replaced.action;
    let was_reset = replaced.reset.load(Ordering::Relaxed);
    match action.sa_sigaction {
        _ if was_reset => default_action(signal, sent, info, context),
        libc::SIG_DFL => default_action(signal, sent, info, context),
        // The kernel does not let a thread ignore a fault that the thread itself caused.
        libc::SIG_IGN if !sent => default_action(signal, sent, info, context),
        libc::SIG_IGN => {}
        handler => {
            if action.sa_flags & libc::SA_RESETHAND != 0 {
                replaced.reset.store(true, Ordering::Relaxed);
            }
            block_for(signal, action);
            // SAFETY: the program installed this handler with these flags.
            unsafe { call(handler, action.sa_flags, signal, info, context) };
            // A handler that leaves a fault to the default action, as that of Rust's standard library, restores this
            // action. The faulting instruction is then repeated and ends the process.
            if !sent && current(signal).is_ok_and(|now| now.sa_sigaction == libc::SIG_DFL) {
                // SAFETY: the arguments are those of the running handler, and the signal is that of a fault.
                unsafe { crash_note::write(signal, context) };
            }
        }
    }
}

/// # Safety
/// `handler` must have been installed with `flags`, and the other arguments must be the arguments
/// of the running signal handler.
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
        // SAFETY: with SA_SIGINFO the handler takes three arguments.
        let handler = unsafe { std::mem::transmute::<usize, WithInfo>(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: without SA_SIGINFO the handler takes one argument.
        let handler = unsafe { std::mem::transmute::<usize, Plain>(handler) };
        handler(signal);
    }
}

/// Blocks the signals that Linux would have blocked during the program's handler. The operating
/// system restores the mask when our handler returns.
fn block_for(signal: i32, action: &libc::sigaction) {
    let mut mask = action.sa_mask;
    if action.sa_flags & libc::SA_NODEFER == 0 {
        // SAFETY: `mask` is an initialised set.
        unsafe { libc::sigaddset(&mut mask, signal) };
    }
    // SAFETY: the call changes only the mask of this thread.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &mask, std::ptr::null_mut()) };
}

/// Restores the default action and causes the signal to occur a second time. A faulting instruction
/// is repeated when our handler returns. A signal that a thread or a process sent is sent a second
/// time.
fn default_action(signal: i32, sent: bool, info: *mut libc::siginfo_t, context: *mut c_void) {
    if !sent {
        // SAFETY: the arguments are those of the running handler, and the signal is that of a fault.
        unsafe { crash_note::write(signal, context) };
    }
    // SAFETY: all zeroes is SIG_DFL with an empty mask and no flags.
    let action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `action` is a valid action, the default one.
    unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
    if sent {
        // SAFETY: the call sends this thread a copy of the signal that it received.
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
