//! Tests of signals that Margay must pass to the program's signal handlers, and of processes with a
//! small address space.
//!
//! Each case runs in a child process. The child runs this test program with one selected test, and
//! the environment variable `MARGAY_CHILD` names the case. The parent checks how the child ended.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use margay::fault::{self, access};
use margay::memory::{AddressSpace, MemoryConfig, MemoryKind, Request, Windows};

/// A test case: its name, and the function that the child process runs.
type Case = (&'static str, fn());

const CASES: &[Case] = &[
    ("null", null),
    ("null_without_us", null_without_us),
    ("illegal", illegal),
    ("stack_overflow", stack_overflow),
    ("raised", raised),
    ("ignored_fault", ignored_fault),
    ("ignored_sent", ignored_sent),
    ("handler_with_info", handler_with_info),
    ("handler_plain_once", handler_plain_once),
    ("handler_repairs", handler_repairs),
    ("code_without_enter", code_without_enter),
    ("sent_to_generated_code", sent_to_generated_code),
    ("few_addresses", few_addresses),
];

/// Runs the case that the environment variable of this child process names. The process exits with
/// code 0 if the case returns.
#[test]
fn child() {
    let Ok(name) = std::env::var("MARGAY_CHILD") else {
        return;
    };
    let (_, case) = CASES
        .iter()
        .find(|(case, _)| *case == name)
        .expect("a known case");
    no_core_dump();
    case();
}

fn command(case: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env("MARGAY_CHILD", case);
    command
}

fn run(case: &str) -> Output {
    command(case).output().expect("child runs")
}

fn signal_of(case: &str) -> Option<i32> {
    run(case).status.signal()
}

fn succeeds(case: &str) {
    let output = run(case);
    assert!(output.status.success(), "{case}: {output:?}");
}

fn no_core_dump() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: changes a limit of this child.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
}

/// Reads from a null pointer in ordinary Rust code. Margay must not treat this fault as a fault of
/// a kernel.
fn read_null() {
    let null = std::hint::black_box(std::ptr::null::<u64>());
    // SAFETY: none; the access must fault, and the process ends by the fault or in a handler.
    std::hint::black_box(unsafe { null.read_volatile() });
}

fn install() {
    fault::install().expect("handlers");
    // Margay's handlers recover a fault before and after each case.
    assert!(access::load8(1).is_err());
}

fn null() {
    install();
    read_null();
}

fn null_without_us() {
    read_null();
}

#[test]
fn default_actions_end_the_process_as_they_would_without_us() {
    assert_eq!(signal_of("null_without_us"), Some(libc::SIGSEGV));
    assert_eq!(signal_of("null"), Some(libc::SIGSEGV));
    assert_eq!(signal_of("illegal"), Some(libc::SIGILL));
    assert_eq!(signal_of("raised"), Some(libc::SIGFPE));
}

fn illegal() {
    install();
    // SAFETY: none; the process ends here.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("ud2")
    };
    // SAFETY: none; the process ends here.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("udf #0")
    };
}

/// Tests a signal that the program sends with a call of `raise`. After the handler returns, such a
/// signal does not occur again, but a fault does.
fn raised() {
    install();
    // SAFETY: sends this thread a signal.
    unsafe { libc::raise(libc::SIGFPE) };
}

fn stack_overflow() {
    fn deeper(n: u64) -> u64 {
        let frame = std::hint::black_box([n; 128]);
        if n == u64::MAX {
            return 0;
        }
        deeper(n + 1) + frame[5]
    }
    install();
    std::hint::black_box(deeper(0));
}

#[test]
fn rust_reports_its_own_stack_overflow() {
    let output = run("stack_overflow");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("has overflowed its stack"), "{text}");
}

fn set_handler(signal: i32, handler: usize, flags: i32, blocked: &[i32]) {
    // SAFETY: the handlers of this file are safe to call; the action is complete.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        for &other in blocked {
            libc::sigaddset(&mut action.sa_mask, other);
        }
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

fn ignored_fault() {
    set_handler(libc::SIGSEGV, libc::SIG_IGN, 0, &[]);
    install();
    read_null();
}

fn ignored_sent() {
    set_handler(libc::SIGSEGV, libc::SIG_IGN, 0, &[]);
    install();
    for _ in 0..3 {
        // SAFETY: sends this thread a signal that it ignores.
        unsafe { libc::raise(libc::SIGSEGV) };
    }
    assert!(access::load8(1).is_err());
}

#[test]
fn ignored_signals_are_ignored_unless_they_are_faults() {
    assert_eq!(signal_of("ignored_fault"), Some(libc::SIGSEGV));
    succeeds("ignored_sent");
}

fn is_blocked(signal: i32) -> bool {
    // SAFETY: a query into a local.
    unsafe {
        let mut mask = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut mask);
        libc::sigismember(&mask, signal) == 1
    }
}

/// A signal handler that ends the process with exit code 42 if its arguments are the arguments that
/// the operating system passes to a handler.
fn handler_with_info() {
    extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the handler's own arguments.
        let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
        let good = signal == libc::SIGSEGV
            && (code, address) == (1, 0)
            && !context.is_null()
            && is_blocked(libc::SIGUSR1)
            && is_blocked(libc::SIGSEGV)
            && !is_blocked(libc::SIGUSR2);
        // SAFETY: ends the child.
        unsafe { libc::_exit(if good { 42 } else { 43 }) };
    }
    let handler = handler as *const () as usize;
    set_handler(libc::SIGSEGV, handler, libc::SA_SIGINFO, &[libc::SIGUSR1]);
    install();
    read_null();
}

/// Tests a handler without SA_SIGINFO and with SA_RESETHAND. The first signal calls the handler, and the second signal
/// has the default action.
fn handler_plain_once() {
    static CALLS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    extern "C" fn handler(signal: i32) {
        assert_eq!(signal, libc::SIGBUS);
        CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    set_handler(
        libc::SIGBUS,
        handler as *const () as usize,
        libc::SA_RESETHAND,
        &[],
    );
    install();
    for turn in 1..=2 {
        // SAFETY: sends this thread a signal.
        unsafe { libc::raise(libc::SIGBUS) };
        assert_eq!(CALLS.load(std::sync::atomic::Ordering::Relaxed), turn);
    }
}

/// Tests a handler that makes the page accessible and returns, as garbage collectors do.
fn handler_repairs() {
    static PAGE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    extern "C" fn handler(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        let page = PAGE.load(std::sync::atomic::Ordering::Relaxed);
        // SAFETY: the handler's own arguments, and a page of this test.
        unsafe {
            assert_eq!((*info).si_addr() as usize & !4095, page);
            libc::mprotect(page as *mut _, 4096, libc::PROT_READ | libc::PROT_WRITE);
        }
    }
    set_handler(
        libc::SIGSEGV,
        handler as *const () as usize,
        libc::SA_SIGINFO,
        &[],
    );
    install();
    let stack = fault::GuardedStack::new(4096, 4096).expect("mapping");
    let page = stack.guard_start() as usize;
    PAGE.store(page, std::sync::atomic::Ordering::Relaxed);
    for _ in 0..3 {
        // SAFETY: the guard page of a stack that no thread uses; the first store makes it accessible.
        unsafe {
            (page as *mut u32).write_volatile(7);
            assert_eq!((page as *const u32).read_volatile(), 7);
            libc::mprotect(page as *mut _, 4096, libc::PROT_NONE);
        }
    }
    assert!(!is_blocked(libc::SIGSEGV));
}

#[test]
fn handlers_are_called_as_they_asked_to_be() {
    assert_eq!(run("handler_with_info").status.code(), Some(42));
    assert_eq!(signal_of("handler_plain_once"), Some(libc::SIGBUS));
    succeeds("handler_repairs");
}

/// Returns an executable page that contains `code` and is registered as generated code.
#[cfg(target_arch = "x86_64")]
fn generated(code: &[u8]) -> fault::GeneratedFn {
    // SAFETY: a new mapping, filled and made executable before it is called.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(page, libc::MAP_FAILED);
        std::ptr::copy_nonoverlapping(code.as_ptr(), page.cast(), code.len());
        libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_EXEC);
        fault::register_code(page as u64, code.len(), 1);
        std::mem::transmute::<*mut libc::c_void, fault::GeneratedFn>(page)
    }
}

/// Tests a fault in generated code that was not called through `enter`. Margay cannot recover from
/// this fault and must pass the signal to the program's handler.
#[cfg(target_arch = "x86_64")]
fn code_without_enter() {
    install();
    let load = generated(&[0x48, 0x8b, 0x06, 0xc3]);
    // SAFETY: the code loads through its second argument; the process ends here.
    unsafe { load(std::ptr::null_mut(), 8, 0) };
}

/// Tests that a SIGSEGV that another thread sends while generated code runs does not count as a
/// fault of that code.
#[cfg(target_arch = "x86_64")]
fn sent_to_generated_code() {
    // Rust's own handler would take the signal for a fault and wait for it to recur.
    set_handler(libc::SIGSEGV, libc::SIG_DFL, 0, &[]);
    install();
    // The code is `lock inc dword [rdi]`, then a jump back to it.
    let spin = generated(&[0xf0, 0xff, 0x07, 0xeb, 0xfb]);
    let thread = std::thread::spawn(move || {
        let mut turns = 0u32;
        // SAFETY: the code increments `turns` forever.
        let _ = unsafe { fault::enter(spin, (&raw mut turns).cast(), 0, 0) };
    });
    std::thread::sleep(std::time::Duration::from_millis(50));
    use std::os::unix::thread::JoinHandleExt;
    // SAFETY: the thread runs until the process ends by this signal.
    unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGSEGV) };
    let _ = thread.join();
}

#[cfg(not(target_arch = "x86_64"))]
fn code_without_enter() {
    null();
}

#[cfg(not(target_arch = "x86_64"))]
fn sent_to_generated_code() {
    null();
}

#[test]
fn only_faults_of_entered_code_are_ours() {
    assert_eq!(signal_of("code_without_enter"), Some(libc::SIGSEGV));
    assert_eq!(signal_of("sent_to_generated_code"), Some(libc::SIGSEGV));
}

/// Tests that, under `ulimit -v`, the runtime reserves a smaller address range for device memory
/// and smaller CTA windows. If a reservation fails, the call returns an error and does not abort
/// the process.
fn few_addresses() {
    install();
    let space = AddressSpace::new(&MemoryConfig::default()).expect("some addresses");
    assert!(space.info().reserved < 4 << 40);
    let windows = Windows::new(64).expect("some windows");
    assert!(windows.geometry().narrow);
    let window = windows.claim(48 << 10, 64 << 10).expect("slot");
    let last = windows.geometry().shared_span - 1;
    assert!(access::load8(window.shared()).is_ok());
    assert!(access::load128(window.shared() + last).is_err());
    let request = |bytes| Request {
        bytes,
        kind: MemoryKind::Device,
        device: 0,
        owner: 1,
        flags: 0,
    };
    let mut held = Vec::new();
    while let Ok(a) = space.alloc(&request(16 << 20)) {
        held.push(a.base);
        assert!(held.len() < 10_000);
    }
    assert!(!held.is_empty());
    assert!(access::load8(held[0] - 1).is_err(), "guarded all the same");
    // Freed addresses are contiguous again: one large allocation fits where many allocations were.
    assert_eq!(space.free_owned(1), held.len());
    let half = held.len() as u64 / 2 * (16 << 20);
    space.alloc(&request(half)).expect("room");
}

#[test]
fn processes_with_few_addresses_get_less_and_live() {
    let exe = std::env::current_exe().expect("own path");
    for kib in [2u64 << 20, 8 << 20, 64 << 20] {
        let script = format!(
            "ulimit -v {kib}; exec '{}' --exact child --nocapture --test-threads=1",
            exe.display()
        );
        let output = Command::new("sh")
            .args(["-c", &script])
            .env("MARGAY_CHILD", "few_addresses")
            .output()
            .expect("child runs");
        assert!(output.status.success(), "{kib} KiB: {output:?}");
    }
}

/// Returns the path of the example `fault_probe`. If the example is missing, builds it, because
/// `cargo test --test faults` alone does not build it.
fn probe_library() -> std::path::PathBuf {
    let exe = std::env::current_exe().expect("own path");
    let profile = exe
        .parent()
        .and_then(|deps| deps.parent())
        .expect("tests lie in <target>/<profile>/deps");
    let library = profile.join("examples/libfault_probe.so");
    if !library.exists() {
        let name = match profile.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        let status = Command::new(env!("CARGO"))
            .args(["build", "-q", "-p", "margay", "--example", "fault_probe"])
            .args(["--profile", name])
            .status();
        assert!(status.is_ok_and(|s| s.success()), "the example builds");
    }
    library
}

/// Runs a Python script with the library loaded as `lib`. Returns `None` if Python is missing.
fn python(script: &str) -> Option<Output> {
    let library = probe_library();
    let preamble = "import ctypes, faulthandler, resource, sys\n\
         resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n\
         lib = ctypes.CDLL(sys.argv[1])\n\
         lib.probe_load.argtypes = [ctypes.c_uint64]\n";
    let output = Command::new("python3")
        .args(["-c", &format!("{preamble}{script}")])
        .arg(library)
        .output();
    match output {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("no python3 here ({error}); not tested");
            None
        }
    }
}

const PROBE: &str = "assert lib.probe_install() == 0\n\
    for address in (0, 8, 1 << 63, 0xdeadbeef00000000):\n\
    \x20   assert lib.probe_load(address) == 1\n\
    assert lib.probe_worker(100) == 100\n";

#[test]
fn python_recovers_ours_and_reports_its_own() {
    let Some(output) = python(PROBE) else { return };
    assert!(output.status.success(), "{output:?}");

    let plain = format!("{PROBE}ctypes.string_at(16)\n");
    let output = python(&plain).expect("python3 was there");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");

    let reported = format!("faulthandler.enable()\n{PROBE}ctypes.string_at(16)\n");
    let output = python(&reported).expect("python3 was there");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("Fatal Python error: Segmentation fault"),
        "{text}"
    );
    assert_eq!(text.matches("Fatal Python error").count(), 1, "{text}");

    let aborted = format!("faulthandler.enable()\n{PROBE}faulthandler._sigfpe()\n");
    let output = python(&aborted).expect("python3 was there");
    assert_eq!(output.status.signal(), Some(libc::SIGFPE), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("Floating-point exception") || text.contains("Floating point exception"),
        "{text}"
    );
}
