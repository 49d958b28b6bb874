//! Tests of faults in hand-assembled code, on this thread and on workers.
//!
//! The code under test is in its own mapping, which is readable and executable but not writable, and is registered like
//! generated code. `tests/abi/signals.c` in the repository tests how signals that do not come from device code are
//! forwarded.

#[cfg(target_arch = "aarch64")]
use super::test_code_aarch64 as asm;
#[cfg(target_arch = "x86_64")]
use super::test_code_x86_64 as asm;
use super::*;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A mapping that contains machine code, registered for `owner`.
struct Code {
    base: *mut u8,
    owner: u64,
}

const CODE_BYTES: usize = 65536;

impl Code {
    fn new(bytes: &[u8]) -> Code {
        static OWNER: AtomicU64 = AtomicU64::new(1000);
        install().expect("handlers");
        // SAFETY: a new private mapping.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                CODE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        let base = base.cast::<u8>();
        // SAFETY: within the mapping.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), base, bytes.len()) };
        // SAFETY: the range is the new mapping.
        let closed =
            unsafe { libc::mprotect(base.cast(), CODE_BYTES, libc::PROT_READ | libc::PROT_EXEC) };
        assert_eq!(closed, 0);
        asm::synchronise(base, bytes.len());
        let owner = OWNER.fetch_add(1, Ordering::Relaxed);
        register_code(base as u64, bytes.len(), owner);
        Code { base, owner }
    }

    fn call(&self, ctx: *mut u8, a: u64, b: u64) -> Result<u64, Trap> {
        // SAFETY: the code of every test follows the C convention or faults within its range.
        unsafe { enter(self.function(), ctx, a, b) }
    }

    fn function(&self) -> GeneratedFn {
        // SAFETY: the page holds machine code for this signature.
        unsafe { std::mem::transmute::<*mut u8, GeneratedFn>(self.base) }
    }

    fn trap(&self, ctx: *mut u8, a: u64, b: u64) -> Trap {
        let trap = self.call(ctx, a, b).expect_err("must trap");
        assert_eq!(trap.owner, self.owner);
        trap
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        assert!(unregister_code(self.base as u64));
        // SAFETY: this value owns the mapping, and no thread runs code in it.
        unsafe { libc::munmap(self.base.cast(), CODE_BYTES) };
    }
}

const NULL: *mut u8 = std::ptr::null_mut();

/// Returns the address of an inaccessible page that is never unmapped.
fn closed_page() -> u64 {
    let stack = GuardedStack::new(4096, 4096).expect("mapping");
    let address = stack.guard_start();
    std::mem::forget(stack);
    address
}

#[test]
fn normal_calls_return_their_value() {
    let code = Code::new(asm::ADD);
    assert_eq!(code.call(NULL, 40, 2), Ok(42));
}

#[test]
fn reads_and_writes_of_unmapped_memory_trap_again_and_again() {
    let (load, store) = (Code::new(asm::LOAD), Code::new(asm::STORE));
    for address in [0u64, 8, 0x1000] {
        for _ in 0..3 {
            let trap = load.trap(NULL, address, 0);
            assert_eq!(trap.kind, TrapKind::Unmapped);
            assert_eq!(trap.address, Some(address));
            assert_eq!(trap.access, Some(AccessKind::Read));
            assert_eq!(trap.pc, load.base as u64);
            assert_eq!((trap.signal, trap.code), (libc::SIGSEGV, 1));
            let trap = store.trap(NULL, address, 1);
            assert_eq!(trap.access, Some(AccessKind::Write));
            assert_eq!(trap.pc, store.base as u64 + asm::STORE_AT);
        }
    }
    let mut word = 7u64;
    let address = &raw mut word as u64;
    assert_eq!(load.call(NULL, address, 0), Ok(7));
    store
        .call(NULL, address, 9)
        .expect("a store to mapped memory");
    // SAFETY: `word` is alive.
    assert_eq!(unsafe { (&raw const word).read_volatile() }, 9);
}

#[test]
fn guard_pages_and_code_pages_are_protected() {
    let (load, store) = (Code::new(asm::LOAD), Code::new(asm::STORE));
    let page = closed_page();
    let trap = load.trap(NULL, page + 24, 0);
    assert_eq!(trap.kind, TrapKind::Protected);
    assert_eq!(trap.address, Some(page + 24));
    let trap = store.trap(NULL, load.base as u64, 0);
    assert_eq!(trap.kind, TrapKind::Protected);
    assert_eq!(trap.access, Some(AccessKind::Write));
}

#[test]
fn jumps_into_nothing_are_traps_of_the_caller() {
    let code = Code::new(asm::CALL);
    let page = closed_page();
    for target in [0u64, 0x1000, page + 64] {
        let trap = code.trap(NULL, target, 0);
        assert_eq!(trap.access, Some(AccessKind::Execute), "{trap:?}");
        assert_eq!(trap.address, Some(target));
        assert_eq!(trap.pc, code.base as u64 + asm::CALL_RETURNS_AT);
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn non_canonical_addresses_are_decoded() {
    let wild = 0xdead_beef_0000_1234u64;
    let trap = Code::new(asm::LOAD).trap(NULL, wild, 0);
    assert_eq!(trap.kind, TrapKind::NonCanonical);
    assert_eq!(trap.address, Some(wild));
    let trap = Code::new(asm::STORE).trap(NULL, 0x0000_8000_0000_0000, 0);
    assert_eq!(trap.address, Some(0x0000_8000_0000_0000));
    let trap = Code::new(asm::CALL).trap(NULL, wild, 0);
    assert_eq!(trap.address, Some(wild));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn misaligned_accesses_say_so() {
    let buffer = [0u128; 4];
    let address = buffer.as_ptr() as u64;
    let code = Code::new(asm::ALIGNED_LOAD);
    code.call(NULL, address, 0).expect("an aligned load");
    let trap = code.trap(NULL, address + 4, 0);
    assert_eq!(trap.kind, TrapKind::Misaligned);
    assert_eq!(trap.address, Some(address + 4));
}

#[test]
fn trap_instructions_and_divisions() {
    let trap = Code::new(asm::TRAP).trap(NULL, 0, 0);
    assert_eq!(trap.kind, TrapKind::IllegalInstruction);
    assert_eq!((trap.signal, trap.address), (libc::SIGILL, None));
    #[cfg(target_arch = "x86_64")]
    {
        let code = Code::new(asm::DIVIDE);
        let trap = code.trap(NULL, 0, 0);
        assert_eq!(trap.kind, TrapKind::Arithmetic);
        assert_eq!(trap.pc, code.base as u64 + 5);
    }
}

#[test]
fn callee_saved_registers_survive_a_trap() {
    let code = Code::new(asm::CLOBBER_LOAD);
    let mut sum = 0u64;
    for i in 0..100u64 {
        // The number of live values is so large that the compiler keeps some of them in callee-saved registers.
        let (a, b, c, d, e) = (i + 1, i + 2, i + 3, i + 4, i + 5);
        let (a, b, c, d, e) = std::hint::black_box((a, b, c, d, e));
        assert!(code.call(NULL, 0x10, 0).is_err());
        sum += a + b + c + d + e;
    }
    // 5 * (0 + ... + 99) + 100 * 15
    assert_eq!(sum, 5 * 4950 + 1500);
}

#[cfg(target_arch = "x86_64")]
fn mxcsr() -> u32 {
    let mut value = 0u32;
    // SAFETY: the instruction stores the control word to a local.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack)) };
    value
}

#[cfg(target_arch = "x86_64")]
fn set_mxcsr(value: u32) {
    // SAFETY: the instruction loads a valid control word; the test restores the old one.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack)) };
}

#[test]
#[cfg(target_arch = "x86_64")]
fn floating_point_control_is_ours_inside_and_the_hosts_outside() {
    let code = Code::new(asm::MXCSR);
    let host = mxcsr();
    // This control word has flush-to-zero, denormals-are-zero and round up, as after -ffast-math and fesetround.
    set_mxcsr(0xdfc0);
    let mut words = [0u32; 2];
    let ctx = words.as_mut_ptr().cast::<u8>();
    let good = 5u64;
    assert_eq!(code.call(ctx, &raw const good as u64, 0), Ok(5));
    let (inside, after_return) = (words[0], mxcsr());
    assert!(code.call(ctx, 0, 0).is_err());
    let after_trap = mxcsr();
    set_mxcsr(host);
    assert_eq!((inside, after_return, after_trap), (0x1f80, 0xdfc0, 0xdfc0));
}

/// The context (first argument) of test code that calls a helper.
#[repr(C)]
struct HelperContext {
    flag: *const AtomicU32,
    helper: extern "C" fn(),
    leave: u64,
}

fn with_helper(helper: extern "C" fn()) -> HelperContext {
    HelperContext {
        flag: pending_flag(),
        helper,
        leave: leave_address(),
    }
}

#[test]
fn helpers_raise_traps_and_access_faults() {
    extern "C" fn third_time() {
        static TIMES: AtomicU32 = AtomicU32::new(0);
        if TIMES.fetch_add(1, Ordering::Relaxed) == 2 {
            raise(Trap::raised(77));
            raise(Trap::raised(78)); // `enter` returns the first trap
        }
    }
    extern "C" fn load_null() {
        if let Err(fault) = access::load32(16) {
            raise(fault.into());
        }
    }
    let code = Code::new(asm::HELPER_LOOP);
    let mut ctx = with_helper(third_time);
    let trap = code.call((&raw mut ctx).cast(), 0, 0).expect_err("raised");
    assert_eq!(trap.kind, TrapKind::Raised(77));
    assert!(!pending());
    ctx.helper = load_null;
    let trap = code.call((&raw mut ctx).cast(), 0, 0).expect_err("raised");
    assert_eq!(trap.kind, TrapKind::Unmapped);
    assert_eq!(trap.address, Some(16));
    assert_eq!(Code::new(asm::ADD).call(NULL, 1, 2), Ok(3));
}

#[test]
fn calls_nest_and_each_trap_goes_to_its_own_call() {
    thread_local! {
        static INNER: std::cell::Cell<Option<Trap>> = const { std::cell::Cell::new(None) };
    }
    extern "C" fn nested() {
        let inner = Code::new(asm::LOAD);
        INNER.set(inner.call(NULL, 0x20, 0).err());
        raise(Trap::raised(5));
    }
    let _worker = WorkerGuard::new().expect("worker");
    let code = Code::new(asm::HELPER_LOOP);
    let mut ctx = with_helper(nested);
    let trap = code.call((&raw mut ctx).cast(), 0, 0).expect_err("raised");
    assert_eq!(trap.kind, TrapKind::Raised(5));
    assert_eq!(INNER.get().and_then(|t| t.address), Some(0x20));
}

#[test]
fn workers_run_on_guarded_stacks() {
    let worker = WorkerGuard::new().expect("worker");
    let sp = Code::new(asm::STACK_POINTER)
        .call(NULL, 0, 0)
        .expect("a stack pointer");
    assert!(sp > worker.stack_bottom() && sp <= worker.stack_bottom() + (8 << 20));
    let recurse = Code::new(asm::RECURSE);
    for _ in 0..2 {
        let trap = recurse.trap(NULL, 0, 0);
        assert_eq!(trap.kind, TrapKind::StackOverflow);
    }
    assert!(WorkerGuard::new().is_err(), "one guard per thread");
    drop(worker);
    let sp = Code::new(asm::STACK_POINTER)
        .call(NULL, 0, 0)
        .expect("a stack pointer");
    let here = 0u8;
    assert!(sp.abs_diff(&raw const here as u64) < 1 << 20);
}

#[test]
fn a_stop_that_arrives_in_a_helper_takes_effect_at_its_end() {
    thread_local! {
        static WORKER: std::cell::RefCell<Option<StopHandle>> = const { std::cell::RefCell::new(None) };
    }
    static FLAG: AtomicU32 = AtomicU32::new(0);
    static CALLS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn stopped_here() {
        if CALLS.fetch_add(1, Ordering::Relaxed) == 3 {
            WORKER.with_borrow(|handle| assert!(handle.as_ref().expect("set").stop(43)));
        }
        // Without the stop, the code ends after a thousand calls.
        FLAG.store(
            u32::from(CALLS.load(Ordering::Relaxed) > 1000),
            Ordering::Relaxed,
        );
        // SAFETY: the code under test has called this function, which owns nothing.
        unsafe { leave_if_stopped() };
    }
    let worker = WorkerGuard::new().expect("worker");
    WORKER.set(Some(worker.stop_handle()));
    set_stop_token(43);
    let code = Code::new(asm::HELPER_LOOP);
    let mut ctx = HelperContext {
        flag: &raw const FLAG,
        ..with_helper(stopped_here)
    };
    let trap = code.call((&raw mut ctx).cast(), 0, 0).expect_err("stopped");
    assert_eq!(trap.kind, TrapKind::Stopped);
    assert_eq!(CALLS.load(Ordering::Relaxed), 4);
    set_stop_token(0);
}

/// Runs `code` with token 41 on a worker, and stops the worker from this thread after `started` has returned true.
fn stop_worker(
    code: &'static [u8],
    ctx: impl FnOnce() -> (Box<dyn std::any::Any>, *mut u8) + Send + 'static,
    started: impl Fn() -> bool,
) -> Trap {
    let (send, receive) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        let guard = WorkerGuard::new().expect("worker");
        let code = Code::new(code);
        set_stop_token(41);
        send.send(guard.stop_handle()).expect("main listens");
        let (_keep, ctx) = ctx();
        let trap = code.call(ctx, 0, 0).expect_err("stopped");
        // The stop remains pending for this run, and is not pending for other runs.
        assert_eq!(
            Code::new(asm::ADD).call(NULL, 1, 1).map_err(|t| t.kind),
            Err(TrapKind::Stopped)
        );
        set_stop_token(42);
        assert_eq!(Code::new(asm::ADD).call(NULL, 1, 1), Ok(2));
        set_stop_token(41);
        assert!(pending(), "asked for before the run was declared");
        trap
    });
    let handle = receive.recv().expect("worker starts");
    let begin = Instant::now();
    while !started() {
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(handle.stop(40), "another run's token");
    std::thread::sleep(Duration::from_millis(5));
    assert!(!worker.is_finished());
    while !worker.is_finished() {
        assert!(begin.elapsed() < Duration::from_secs(20), "never stopped");
        handle.stop(41);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!handle.stop(41), "the worker is gone");
    worker.join().expect("worker")
}

#[test]
fn a_loop_in_generated_code_is_stopped_at_once() {
    static TURNS: AtomicU32 = AtomicU32::new(0);
    let ctx = || -> (Box<dyn std::any::Any>, *mut u8) { (Box::new(()), TURNS.as_ptr().cast()) };
    let trap = stop_worker(asm::LOOP, ctx, || TURNS.load(Ordering::Relaxed) > 1000);
    assert_eq!(trap.kind, TrapKind::Stopped);
    assert_ne!(trap.pc, 0);
    assert_ne!(trap.owner, 0);
}

#[test]
fn a_loop_through_a_helper_is_stopped_at_its_return() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn slow() {
        CALLS.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(300));
    }
    let ctx = || -> (Box<dyn std::any::Any>, *mut u8) {
        let mut ctx = Box::new(with_helper(slow));
        let pointer = (&raw mut *ctx).cast::<u8>();
        (ctx, pointer)
    };
    let trap = stop_worker(asm::HELPER_LOOP, ctx, || CALLS.load(Ordering::Relaxed) > 3);
    assert_eq!(trap.kind, TrapKind::Stopped);
}

#[test]
fn a_storm_of_stops_loses_none_and_hits_no_other_run() {
    let (send, receive) = std::sync::mpsc::channel();
    let done = std::sync::Arc::new(AtomicU64::new(0));
    let seen = std::sync::Arc::clone(&done);
    let worker = std::thread::spawn(move || {
        let guard = WorkerGuard::new().expect("worker");
        let (short, long) = (Code::new(asm::ADD), Code::new(asm::LOOP));
        send.send(guard.stop_handle()).expect("main listens");
        let mut turns = 0u32;
        for token in 1..=400u64 {
            set_stop_token(token);
            if token % 2 == 1 {
                // Odd tokens are never stopped: the main thread requests stops for even tokens only.
                for i in 0..50 {
                    assert_eq!(short.call(NULL, i, 1), Ok(i + 1));
                }
            } else {
                let trap = long.trap_any((&raw mut turns).cast());
                assert_eq!(trap.kind, TrapKind::Stopped);
            }
            seen.store(token, Ordering::Release);
        }
    });
    let handle = receive.recv().expect("worker starts");
    let begin = Instant::now();
    while !worker.is_finished() {
        let next = done.load(Ordering::Acquire) + 1;
        handle.stop(next + next % 2);
        assert!(begin.elapsed() < Duration::from_secs(60));
        // Without this pause, the worker makes no progress if this thread has its own processor, because each signal
        // arrives before the worker has executed an instruction.
        std::thread::sleep(Duration::from_micros(10));
    }
    worker.join().expect("worker");
}

impl Code {
    fn trap_any(&self, ctx: *mut u8) -> Trap {
        self.call(ctx, 0, 0).expect_err("must trap")
    }
}

#[test]
fn worker_guards_put_mask_and_signal_stack_back() {
    fn state() -> (Vec<i32>, usize) {
        // SAFETY: the calls only copy this thread's own state into zeroed locals.
        unsafe {
            let mut mask = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut mask);
            let mut stack: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(std::ptr::null(), &mut stack);
            let blocked = (1..=64).filter(|&s| libc::sigismember(&mask, s) == 1);
            (blocked.collect(), stack.ss_sp as usize)
        }
    }
    let before = state();
    let worker = WorkerGuard::new().expect("worker");
    let inside = state();
    assert!(inside.0.contains(&libc::SIGINT) && inside.0.contains(&libc::SIGALRM));
    for signal in [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        stop_signal(),
    ] {
        assert!(!inside.0.contains(&signal));
    }
    drop(worker);
    assert_eq!(state(), before);
}

#[test]
fn service_threads_survive_faults_whatever_mask_they_inherit() {
    let service = std::thread::spawn(|| {
        install().expect("handlers");
        // SAFETY: the calls only block all signals on this thread.
        unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        }
        prepare_service_thread();
        access::load8(3)
    });
    let fault = service.join().expect("alive").expect_err("unmapped");
    assert_eq!(fault.address, 3);
}
