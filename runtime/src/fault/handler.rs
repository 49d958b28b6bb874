//! The two signal handlers: one for faults, one for the stop signal.
//!
//! Invariant: a handler calls only async-signal-safe functions. It takes no lock, allocates no memory and does not
//! panic. A handler accesses thread-local state only if the thread has accessed this state before, because the first
//! access could allocate memory. The fault handler concludes from the program counter or the stack pointer whether the
//! thread has accessed the state. The stop signal is sent only to workers, which always access the
//! state before they can receive the signal.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use parking_lot::Mutex;

use super::arch::{self, Context};
use super::thread::{self, SaveArea, ThreadState};
use super::{
    AccessKind, FaultError, Trap, TrapKind, code_ranges, crash_note, entry, forward, hold,
};

/// `si_code` of faults that Linux reports without an address.
const SI_KERNEL: i32 = 0x80;

static STOP_SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Installs the handlers. Only the first call in a process installs them; later calls return the result of the first
/// call.
///
/// Our handlers forward signals that do not come from device code to the handlers that the program
/// installed before. If the program installs a handler *later*, this handler replaces our handler
/// until [`keep`] reinstalls our handler. After that, our handler forwards signals to the program's
/// handler.
///
/// The stop signal is the highest real-time signal up to SIGRTMAX - 2 that has no handler at this time. Signals that
/// the calling thread blocks are used only if no other signal is free.
///
/// # Errors
/// [`FaultError::Unsupported`] on hosts without recovery or if no real-time signal is free; [`FaultError::System`] if
/// the system refuses a handler.
pub fn install() -> Result<(), &'static FaultError> {
    static OUTCOME: OnceLock<Result<(), FaultError>> = OnceLock::new();
    OUTCOME.get_or_init(install_now).as_ref().copied()
}

fn install_now() -> Result<(), FaultError> {
    if !arch::SUPPORTED {
        return Err(FaultError::Unsupported(std::env::consts::ARCH));
    }
    crash_note::enable();
    for signal in forward::SIGNALS {
        let action = forward::current(signal)?;
        let entry = forward::remember(signal, &action);
        set_action(signal, HANDLERS[entry], FAULT_FLAGS)?;
    }
    let stop = free_signal().ok_or(FaultError::Unsupported("no free real-time signal"))?;
    set_action(stop, on_stop, STOP_FLAGS)?;
    STOP_SIGNAL.store(stop, Ordering::Release);
    Ok(())
}

/// Reinstalls our handlers for all signals for which the program has installed its own handlers
/// since our handlers were last installed. Our handlers then forward signals that are not faults of
/// device code to the program's handlers. If the program has not installed new handlers, this
/// function makes one system call for each signal.
///
/// Threads that wait for a task call this function if the task does not end within about a microsecond, and again from
/// time to time. Service threads call this function before each job. Workers call [`keep_frequent`] before they run a
/// piece of a launch, unless they have called it in the last 100 microseconds and after the call that submitted the
/// launch began (`scheduler::handlers`). Our handler therefore receives SIGSEGV and SIGILL for each fault of device code,
/// except in one case: a thread of the program that does not wait for the launch installs a handler after the call that
/// submitted the launch began, and while the faulting piece of the launch runs or shortly before. It receives SIGBUS and
/// SIGFPE only if a thread has called this function since the program installed its handler.
pub(crate) fn keep() {
    keep_signals(&forward::SIGNALS);
}

/// Does the same as [`keep`] for SIGSEGV and SIGILL only. Generated code causes the other signals only in rare cases,
/// such as a truncated mapped file or a memory failure.
pub(crate) fn keep_frequent() {
    keep_signals(&[libc::SIGSEGV, libc::SIGILL]);
}

/// Does the same as [`keep`] for the signals that a memory copy can cause, and unblocks these
/// signals until the returned value is dropped. Threads call this function before they begin a
/// copy.
pub(crate) fn keep_for_copy() -> Unblocked {
    keep_signals(&OF_COPIES);
    unblock()
}

/// The signals that a memory copy can cause.
const OF_COPIES: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// While a value of this type exists, the calling thread does not block the signals that a memory
/// copy can cause. If a thread blocks the signal of a fault, the operating system calls no handler
/// for the fault and ends the process.
#[must_use]
pub(crate) struct Unblocked {
    /// For each signal, whether the thread blocked the signal before this value was created.
    blocked: [bool; OF_COPIES.len()],
    /// A value of this type must stay on its thread, because the signal mask belongs to one thread.
    _thread: PhantomData<*const ()>,
}

/// Unblocks the signals that a memory copy can cause. If the thread blocks none of them, makes one system call, which
/// only queries the mask.
pub(crate) fn unblock() -> Unblocked {
    let mask = blocked_signals();
    // SAFETY: the mask is initialised and only read.
    let is_blocked = |signal| unsafe { libc::sigismember(&raw const mask, signal) == 1 };
    let blocked = OF_COPIES.map(is_blocked);
    if blocked.contains(&true) {
        change_mask(libc::SIG_UNBLOCK, blocked);
    }
    Unblocked {
        blocked,
        _thread: PhantomData,
    }
}

impl Drop for Unblocked {
    fn drop(&mut self) {
        if self.blocked.contains(&true) {
            change_mask(libc::SIG_BLOCK, self.blocked);
        }
    }
}

/// Blocks or unblocks the selected signals of [`OF_COPIES`].
#[cold]
fn change_mask(how: i32, selected: [bool; OF_COPIES.len()]) {
    let mut mask = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises `mask`. With valid arguments none of the calls can fail.
    unsafe {
        libc::sigemptyset(mask.as_mut_ptr());
        for (signal, _) in OF_COPIES.into_iter().zip(selected).filter(|(_, on)| *on) {
            libc::sigaddset(mask.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(how, mask.as_ptr(), std::ptr::null_mut());
    }
}

/// Returns the signals that the calling thread blocks.
fn blocked_signals() -> libc::sigset_t {
    let mut blocked = MaybeUninit::uninit();
    // SAFETY: a query, which initialises `blocked` and cannot fail.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), blocked.as_mut_ptr());
        blocked.assume_init()
    }
}

fn keep_signals(signals: &[i32]) {
    if stop_signal() == 0 {
        return;
    }
    for &signal in signals {
        let Ok(action) = forward::current(signal) else {
            continue;
        };
        let entry = HANDLERS[forward::top(signal)] as usize;
        if action.sa_sigaction != entry || action.sa_flags & FAULT_FLAGS != FAULT_FLAGS {
            put_in_front(signal);
        }
    }
}

/// Replaces the program's handler by our handler, which forwards signals to the program's handler.
#[cold]
fn put_in_front(signal: i32) {
    static ONE: Mutex<()> = Mutex::new(());
    // A preloaded library that interposes `sigaction` can keep its own handler in front of all others. The number of
    // failed attempts is therefore limited.
    static REFUSED: AtomicU32 = AtomicU32::new(0);
    const PATIENCE: u32 = 64;
    let _one = ONE.lock();
    if REFUSED.load(Ordering::Relaxed) >= PATIENCE {
        return;
    }
    let Ok(action) = forward::current(signal) else {
        return;
    };
    let ours = |handler: &Handler| *handler as usize == action.sa_sigaction;
    let entry = match HANDLERS.iter().position(ours) {
        // The program has reinstalled an entry point of our handler that `sigaction` had returned.
        Some(entry) => {
            forward::put_back(signal, entry);
            entry
        }
        None => forward::remember(signal, &action),
    };
    let done = set_action(signal, HANDLERS[entry], FAULT_FLAGS);
    let in_force = forward::current(signal).map(|action| action.sa_sigaction);
    if done.is_err() || in_force.is_ok_and(|handler| handler != HANDLERS[entry] as usize) {
        REFUSED.fetch_add(1, Ordering::Relaxed);
    }
}

const FAULT_FLAGS: i32 = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
const STOP_FLAGS: i32 = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;

/// The entry points of the fault handler. Each entry point forwards signals to a different action of the program
/// ([`forward::remember`]).
static HANDLERS: [Handler; forward::ENTRIES] = [
    on_fault::<0>,
    on_fault::<1>,
    on_fault::<2>,
    on_fault::<3>,
    on_fault::<4>,
    on_fault::<5>,
    on_fault::<6>,
    on_fault::<7>,
    on_fault::<8>,
    on_fault::<9>,
    on_fault::<10>,
    on_fault::<11>,
    on_fault::<12>,
    on_fault::<13>,
    on_fault::<14>,
    on_fault::<15>,
];

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

fn set_action(signal: i32, handler: Handler, flags: i32) -> Result<(), FaultError> {
    // SAFETY: all zeroes is a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = flags;
    // SAFETY: `sa_mask` is a field of a local.
    unsafe { libc::sigemptyset(&mut action.sa_mask) };
    // SAFETY: `action` is complete and `handler` has the signature of SA_SIGINFO.
    match unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(FaultError::last_os("sigaction")),
    }
}

/// Returns a real-time signal that the program does not use. The signal has no handler, and the calling thread does not
/// block it. (A program that waits for a signal with `sigwait` blocks that signal.) If the thread blocks all signals
/// without a handler, returns the highest signal without a handler.
fn free_signal() -> Option<i32> {
    let blocked = blocked_signals();
    let unused = |signal: &i32| {
        forward::current(*signal).is_ok_and(|action| action.sa_sigaction == libc::SIG_DFL)
    };
    // SAFETY: the mask is initialised and only read.
    let open = |signal: &i32| unsafe { libc::sigismember(&raw const blocked, *signal) == 0 };
    let signals = (libc::SIGRTMIN() + 2..=libc::SIGRTMAX() - 2).rev();
    // If the thread blocks all unused signals, its mask does not show for which signals the program waits.
    signals
        .clone()
        .find(|signal| unused(signal) && open(signal))
        .or_else(|| { signals }.find(unused))
}

/// Returns the signal that stops workers; 0 before [`install`] has succeeded.
pub fn stop_signal() -> i32 {
    STOP_SIGNAL.load(Ordering::Acquire)
}

/// Sends the stop signal to one thread of this process; returns whether the system sent it. If the
/// program has installed its own handler for this signal, first replaces this handler, because the
/// program's handler could end the program or ignore the stop. If the signal arrives on a thread
/// that is not a worker, our handler forwards the signal to the replaced handler.
pub(super) fn signal_thread(thread: libc::pid_t) -> bool {
    let stop = stop_signal();
    if let Ok(action) = forward::current(stop)
        && action.sa_sigaction != on_stop as *const () as usize
    {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock();
        forward::remember(stop, &action);
        // If this call fails, the program's handler remains installed, and the next stop request tries again.
        let _ = set_action(stop, on_stop, STOP_FLAGS);
    }
    // SAFETY: tgkill only sends a signal. On a thread that is not a worker, its handler only forwards the signal.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, stop_signal()) == 0 }
}

extern "C" fn on_fault<const ENTRY: usize>(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: errno belongs to this thread; it is saved because the interrupted code may be about to read it.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes a valid context to a handler with SA_SIGINFO.
    let mut view = unsafe { Context::new(context) };
    // SAFETY: the kernel passes a valid `siginfo_t` as well.
    let fault = unsafe { Fault::read(signal, &*info) };
    let again = fault.is_synchronous() && fault.is_memory() && hold::wait_out(fault.address);
    if !again && !recover(&fault, &mut view) {
        // SAFETY: the arguments come from the kernel.
        unsafe { forward::forward(ENTRY, signal, info, context) };
    }
    // SAFETY: errno belongs to this thread.
    unsafe { *libc::__errno_location() = errno };
}

/// The information about a signal that Linux passes to a signal handler.
struct Fault {
    signal: i32,
    code: i32,
    address: u64,
}

impl Fault {
    /// # Safety
    /// `info` must describe a signal of a fault ([`forward::SIGNALS`]).
    unsafe fn read(signal: i32, info: &libc::siginfo_t) -> Fault {
        Fault {
            signal,
            code: info.si_code,
            // SAFETY: the union field can be read for every signal; its value is used only for faults.
            address: unsafe { info.si_addr() } as u64,
        }
    }

    /// Returns whether the interrupted instruction caused the signal. Otherwise a thread or a process sent the signal.
    fn is_synchronous(&self) -> bool {
        self.code > 0
    }

    fn is_memory(&self) -> bool {
        self.signal == libc::SIGSEGV || self.signal == libc::SIGBUS
    }

    fn kind(&self) -> TrapKind {
        const SEGV_MAPERR: i32 = 1;
        match self.signal {
            libc::SIGSEGV if self.code == SEGV_MAPERR => TrapKind::Unmapped,
            libc::SIGSEGV => TrapKind::Protected,
            libc::SIGBUS if self.code == libc::BUS_ADRALN => TrapKind::Misaligned,
            libc::SIGBUS => TrapKind::Bus,
            libc::SIGFPE => TrapKind::Arithmetic,
            _ => TrapKind::IllegalInstruction,
        }
    }

    /// Returns the kind and the address of the fault. If Linux reports no address, decodes the
    /// instruction to find the address.
    fn explain(&self, context: &Context, code_end: u64) -> (TrapKind, Option<u64>) {
        match (self.is_memory(), self.code) {
            (true, SI_KERNEL) => context.explain(code_end),
            (true, _) => (self.kind(), Some(self.address)),
            (false, _) => (self.kind(), None),
        }
    }
}

/// Recovers from a fault in generated code, an access routine or code of the host that `enter_host_code` has called, and
/// from a failed call by generated code; returns false for any other fault.
fn recover(fault: &Fault, context: &mut Context) -> bool {
    if !fault.is_synchronous() {
        return false;
    }
    let pc = context.pc();
    if let Some((landing, end)) = arch::routines::access_landing(pc) {
        if !fault.is_memory() {
            return false;
        }
        land(fault, context, landing, end);
        return true;
    }
    if let Some(range) = code_ranges::lookup_code(pc) {
        let (kind, address) = fault.explain(context, range.end);
        let access = context.access_kind().filter(|_| address.is_some());
        thread::with(|state| state.registers.set(context.registers()));
        return unwind(fault, context, kind, address, access, (pc, range.owner));
    }
    recover_fetch(fault, context, pc) || recover_host_code(fault, context, pc)
}

/// Recovers from a fault of code of the host that a worker has called with [`super::enter_host_code`]. Returns false for
/// any other fault.
fn recover_host_code(fault: &Fault, context: &mut Context, pc: u64) -> bool {
    if !code_ranges::is_on_stack(context.sp()) || !thread::with(ThreadState::is_in_host_code) {
        return false;
    }
    // The instruction at `pc` has at most 16 bytes.
    let (kind, address) = fault.explain(context, pc.saturating_add(16));
    let access = context.access_kind().filter(|_| address.is_some());
    unwind(fault, context, kind, address, access, (pc, 0))
}

/// Recovers from a failed instruction fetch at `pc`, if generated code has called `pc`, that is, if the return address
/// is in generated code. Returns false for any other fault.
fn recover_fetch(fault: &Fault, context: &mut Context, pc: u64) -> bool {
    // Some emulators do not report the kind of the access, so an instruction fetch is assumed.
    let kind = context.access_kind().unwrap_or(AccessKind::Execute);
    if !fault.is_memory() || kind != AccessKind::Execute || fault.address != pc {
        return false;
    }
    let caller = context.return_address().unwrap_or(0);
    // One is subtracted because the call can be the last instruction of the code. The return address is then one past
    // the end of the code.
    let Some(range) = code_ranges::lookup_code(caller.wrapping_sub(1)) else {
        return false;
    };
    let place = (caller, range.owner);
    let access = Some(AccessKind::Execute);
    unwind(fault, context, fault.kind(), Some(pc), access, place)
}

/// Makes the innermost running `enter` of this thread return a trap; returns false if no `enter` runs on this thread.
fn unwind(
    fault: &Fault,
    context: &mut Context,
    kind: TrapKind,
    address: Option<u64>,
    access: Option<AccessKind>,
    (pc, owner): (u64, u64),
) -> bool {
    thread::with(|state| {
        let trap = Trap {
            kind: if in_stack_guard(state, address) {
                TrapKind::StackOverflow
            } else {
                kind
            },
            signal: fault.signal,
            code: fault.code,
            address,
            access,
            pc,
            owner,
        };
        cut_short(state, context, trap)
    })
}

fn in_stack_guard(state: &ThreadState, address: Option<u64>) -> bool {
    let start = state.guard_start.load(Ordering::Relaxed);
    let end = state.guard_end.load(Ordering::Relaxed);
    address.is_some_and(|a| start <= a && a < end)
}

fn cut_short(state: &ThreadState, context: &mut Context, trap: Trap) -> bool {
    let save: *mut SaveArea = state.current.load(Ordering::Relaxed);
    // SAFETY: null, or the save area of an `enter` that is running on this thread.
    let Some(area) = (unsafe { save.as_ref() }) else {
        return false;
    };
    area.trap.set(Some(trap));
    context.recover(save);
    true
}

/// Makes the interrupted access routine return the fault to its caller.
fn land(fault: &Fault, context: &mut Context, landing: u64, end: u64) {
    let (kind, address) = fault.explain(context, end);
    let access = context.access_kind();
    let status = super::access::pack_status(kind, access);
    context.land(landing, status, address.unwrap_or(0));
}

extern "C" fn on_stop(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    if !thread::with(|state| state.is_worker()) {
        // SAFETY: the arguments come from the kernel.
        unsafe { forward::forward_stop(signal, info, context) };
        return;
    }
    // SAFETY: the kernel passes a valid context to a handler with SA_SIGINFO.
    let mut view = unsafe { Context::new(context) };
    thread::with(|state| {
        if !state.stop_requested() {
            return;
        }
        state.note_stop();
        let pc = view.pc();
        let range = code_ranges::lookup_code(pc);
        if range.is_some() || arch::in_armed_window(pc) {
            let trap = entry::stopped(pc, range.map_or(0, |r| r.owner));
            cut_short(state, &mut view, trap);
        }
    });
}
