//! Giving a signal to the handler that was there before ours.
//!
//! Faithful means: what the previous handler sees and what becomes of the process are what they
//! would have been without us. The default action is restored and then meets the same fault
//! again (or the same signal, sent again, if it came from outside), so that core dumps and wait
//! statuses are right; an ignored fault kills, as the kernel rules; handlers run with the mask
//! that they asked for, and once only under SA_RESETHAND.
//!
//! Invariant: no state here needs releasing, since a previous handler may leave by `longjmp`.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use super::FaultError;

/// The signals that are ours in part.
pub(super) const SIGNALS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// How many entry points our handler has: how many different actions of the program are told apart.
pub(super) const ENTRIES: usize = 16;

/// An action of the program that ours replaced.
struct Replaced {
    action: libc::sigaction,
    /// SA_RESETHAND has struck.
    reset: AtomicBool,
}

/// What the program wants of one signal. Each action that ours replaced belongs to an entry point of ours, so that a program
/// which calls, or puts back, the handler that it found gets what stood behind that one.
struct Chain {
    replaced: [AtomicPtr<Replaced>; ENTRIES],
    /// The entry point that is installed.
    top: AtomicUsize,
    /// The entry point that gets the next action.
    next: AtomicUsize,
}

static CHAINS: [Chain; 4] = [const {
    Chain {
        replaced: [const { AtomicPtr::new(std::ptr::null_mut()) }; ENTRIES],
        top: AtomicUsize::new(0),
        next: AtomicUsize::new(0),
    }
}; 4];

fn chain(signal: i32) -> Option<&'static Chain> {
    let index = SIGNALS.iter().position(|&s| s == signal)?;
    CHAINS.get(index)
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

/// Whether two actions are the same to the program.
fn is_same(a: &libc::sigaction, b: &libc::sigaction) -> bool {
    // SAFETY: the masks are initialised, and only asked.
    let masks = (1..65).all(|s| unsafe {
        libc::sigismember(&raw const a.sa_mask, s) == libc::sigismember(&raw const b.sa_mask, s)
    });
    a.sa_sigaction == b.sa_sigaction && a.sa_flags == b.sa_flags && masks
}

/// Notes an action of the program that ours is about to replace, for one of [`SIGNALS`]; the entry point that stands for it.
/// Called under a lock.
pub(super) fn remember(signal: i32, action: &libc::sigaction) -> usize {
    let Some(chain) = chain(signal) else {
        return 0;
    };
    let known = chain.replaced.iter().position(|replaced| {
        // SAFETY: null, or a leaked box.
        let replaced = unsafe { replaced.load(Ordering::Acquire).as_ref() };
        replaced.is_some_and(|replaced| is_same(&replaced.action, action))
    });
    let entry = known.unwrap_or_else(|| chain.next.fetch_add(1, Ordering::Relaxed) % ENTRIES);
    let known = known.map(|entry| chain.replaced[entry].load(Ordering::Acquire));
    // SAFETY: null, or a leaked box.
    match known.and_then(|known| unsafe { known.as_ref() }) {
        Some(known) => known.reset.store(false, Ordering::Relaxed),
        None => {
            // Never freed: a handler on any thread may be reading it. There are as many as the program has different actions.
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

/// The entry point that is installed for a signal.
pub(super) fn top(signal: i32) -> usize {
    chain(signal).map_or(0, |chain| chain.top.load(Ordering::Acquire))
}

/// The program has put back the action that an entry point of ours stands for.
pub(super) fn put_back(signal: i32, entry: usize) {
    if let Some(chain) = chain(signal) {
        chain.top.store(entry, Ordering::Release);
    }
}

/// Delivers the signal as it would have been without our handler, which was entered by `entry`.
///
/// # Safety
/// Called from a signal handler with its own arguments.
pub(super) unsafe fn forward(
    entry: usize,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: `info` is the kernel's.
    let sent = unsafe { (*info).si_code } <= 0;
    let replaced = chain(signal).and_then(|chain| {
        let replaced = chain.replaced.get(entry)?.load(Ordering::Acquire);
        // SAFETY: null, or a leaked box.
        unsafe { replaced.as_ref() }
    });
    let Some(replaced) = replaced else {
        default_action(signal, sent, info);
        return;
    };
    let action = &replaced.action;
    let was_reset = replaced.reset.load(Ordering::Relaxed);
    match action.sa_sigaction {
        _ if was_reset => default_action(signal, sent, info),
        libc::SIG_DFL => default_action(signal, sent, info),
        // The kernel does not let a thread ignore its own fault.
        libc::SIG_IGN if !sent => default_action(signal, sent, info),
        libc::SIG_IGN => {}
        handler => {
            if action.sa_flags & libc::SA_RESETHAND != 0 {
                replaced.reset.store(true, Ordering::Relaxed);
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
