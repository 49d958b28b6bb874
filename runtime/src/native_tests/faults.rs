//! Tests of tasks that fail.

use super::*;

/// Launches a native kernel of one task, and returns the fault of the context. Then resets the context, and checks that
/// native kernels run in it.
fn fault(task: impl Fn() + Send + Sync + 'static) -> Arc<crate::Fault> {
    let runtime = Runtime::builder().workers(1).build().expect("built");
    let context = runtime.context().expect("alive");
    let kernel = NativeKernel::new("fails", 1, move |_| {
        task();
        Ok(())
    });
    let stream = context.legacy_stream();
    stream.launch_native(&kernel).expect("launched");
    let fault = fault_of(stream.synchronize());
    assert_eq!(&*fault.kernel, "fails");
    assert_eq!(fault.cta, Some([0, 0, 0]));
    fault_of(stream.launch_native(&kernel));
    fault_of(context.alloc(4).map(|_| ()));
    let device = runtime.device(0).expect("known");
    device.primary_reset().expect("reset");
    let ran = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&ran);
    let works = NativeKernel::new("fails", 2, move |_| {
        count.fetch_add(1, SeqCst);
        Ok(())
    });
    let context = runtime.context().expect("alive");
    let stream = context.legacy_stream();
    stream.launch_native(&works).expect("launched");
    stream.synchronize().expect("a new life");
    assert_eq!(ran.load(SeqCst), 2);
    fault
}

#[test]
fn the_error_of_a_task_is_sticky_and_ends_the_launch() {
    let setup = Setup::with(Runtime::builder().workers(1));
    let count = Arc::new(AtomicU32::new(0));
    let ran = Arc::clone(&count);
    let kernel = NativeKernel::new("stops at 3", 1000, move |task| {
        ran.fetch_add(1, SeqCst);
        match task {
            3 => Err(TaskError::new(FaultKind::Assert, "three")),
            _ => Ok(()),
        }
    });
    let stream = setup.stream();
    stream.launch_native(&kernel).expect("launched");
    let fault = fault_of(stream.synchronize());
    assert_eq!(fault.kind, FaultKind::Assert);
    let text = "assertion failed in kernel stops at 3, block (3,0,0): three";
    assert_eq!(fault.to_string(), text);
    assert_eq!(
        count.load(SeqCst),
        4,
        "one worker runs tasks in their order"
    );
    assert_eq!(fault_of(setup.triple(&stream)).kind, FaultKind::Assert);
}

#[test]
fn a_panic_is_a_failed_launch() {
    for (task, text) in [
        ((|| panic!("of text")) as fn(), "a task panicked: of text"),
        (|| panic!("of {}", 7), "a task panicked: of 7"),
        (
            || std::panic::panic_any(7),
            "a task panicked: a panic without text",
        ),
    ] {
        let fault = fault(task);
        assert_eq!(fault.kind, FaultKind::LaunchFailed);
        assert_eq!(fault.detail, text);
    }
}

fn read(address: usize) -> u64 {
    // SAFETY: none; the read faults, and the test checks that the fault is recovered.
    unsafe { (address as *const u64).read_volatile() }
}

fn write(address: usize) {
    // SAFETY: none; the write faults, and the test checks that the fault is recovered.
    unsafe { (address as *mut u64).write_volatile(1) };
}

#[test]
fn accesses_to_no_memory_are_illegal_addresses() {
    let fault_at = fault(|| {
        read(0x18);
    });
    assert_eq!(fault_at.kind, FaultKind::IllegalAddress);
    assert_eq!(
        (fault_at.address, fault_at.write),
        (Some(0x18), Some(false))
    );
    let fault_at = fault(|| write(0x1008));
    assert_eq!(fault_at.kind, FaultKind::IllegalAddress);
    assert_eq!(
        (fault_at.address, fault_at.write),
        (Some(0x1008), Some(true))
    );
    // No memory is mapped at an address that is not canonical. Linux does not report such an address.
    let fault_at = fault(|| {
        read(0x00ff_0000_0000_0008);
    });
    assert_eq!(fault_at.kind, FaultKind::IllegalAddress);
}

/// A fault in a function of another library, here the C library.
#[test]
fn a_fault_in_a_function_that_the_task_calls_is_recovered() {
    let fault = fault(|| {
        let mut to = vec![0u8; 4096];
        let from = std::hint::black_box(0x2000 as *const u8);
        // SAFETY: none; the copy faults, and the test checks that the fault is recovered.
        unsafe { libc::memcpy(to.as_mut_ptr().cast(), from.cast(), to.len()) };
        std::hint::black_box(&to);
    });
    assert_eq!(fault.kind, FaultKind::IllegalAddress);
    let address = fault.address.expect("reported");
    assert!((0x2000..0x3000).contains(&address), "{address:#x}");
}

#[test]
fn a_call_of_no_function_is_an_illegal_address() {
    let fault = fault(|| {
        let address = std::hint::black_box(64usize);
        // SAFETY: none; the call faults, and the test checks that the fault is recovered.
        let function = unsafe { std::mem::transmute::<usize, extern "C" fn()>(address) };
        function();
    });
    assert_eq!(fault.kind, FaultKind::IllegalAddress);
    assert_eq!(fault.address, Some(64));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_division_by_zero_is_a_failed_launch() {
    let fault = fault(|| {
        // SAFETY: none; the division traps, and the test checks that the trap is recovered.
        unsafe {
            std::arch::asm!("xor edx, edx", "div ecx", in("ecx") 0, inout("eax") 1 => _, out("edx") _);
        }
    });
    assert_eq!(fault.kind, FaultKind::LaunchFailed);
    assert!(fault.detail.contains("SIGFPE"), "{}", fault.detail);
}

#[test]
fn an_illegal_instruction_is_reported_as_such() {
    let fault = fault(|| {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: none; the instruction traps, and the test checks that the trap is recovered.
        unsafe {
            std::arch::asm!("ud2");
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("udf #0");
        }
    });
    assert_eq!(fault.kind, FaultKind::IllegalInstruction);
}

/// Calls itself until the stack is exhausted.
fn endless(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    match std::hint::black_box(depth) {
        u64::MAX => 0,
        depth => endless(depth + 1).wrapping_add(frame[(depth % 64) as usize]),
    }
}

#[test]
fn endless_recursion_exhausts_the_stack() {
    let fault = fault(|| {
        endless(0);
    });
    assert_eq!(fault.kind, FaultKind::Stack);
}

/// A fault of one task must not disturb tasks of other launches that run at the same time.
#[test]
fn other_contexts_go_on_after_a_fault() {
    let setup = Setup::new();
    let device = setup.runtime.device(0).expect("known");
    let other = device.create_context(0).expect("created");
    for round in 0..20 {
        let sick = device.create_context(0).expect("created");
        let bad = NativeKernel::new("bad", 4, |_| {
            read(8);
            Ok(())
        });
        let count = Arc::new(AtomicU32::new(0));
        let ran = Arc::clone(&count);
        let good = NativeKernel::new("good", 500, move |_| {
            ran.fetch_add(1, SeqCst);
            Ok(())
        });
        other
            .legacy_stream()
            .launch_native(&good)
            .expect("launched");
        sick.legacy_stream().launch_native(&bad).expect("launched");
        assert_eq!(fault_of(sick.synchronize()).address, Some(8));
        other.synchronize().expect("not its fault");
        assert_eq!(count.load(SeqCst), 500, "round {round}");
        sick.destroy().expect("destroyed");
    }
}
