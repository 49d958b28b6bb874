//! Tests of the memory that native kernels name.

use super::*;
use crate::capture::CaptureMode;
use crate::checks::{Kind, Severity, Tool};
use crate::graph::InstantiateFlags;
use crate::{EventFlags, HostFlags};

fn reads(address: u64, bytes: u64) -> NativeKernel {
    NativeKernel::new("reads", 1, |_| Ok(())).reads(MemoryRange::of(address, bytes))
}

fn writes(address: u64, bytes: u64) -> NativeKernel {
    NativeKernel::new("writes", 1, |_| Ok(())).writes(MemoryRange::of(address, bytes))
}

#[test]
fn ranges_must_be_inside_memory_that_kernels_may_access() {
    let setup = Setup::new();
    let (stream, context) = (setup.stream(), &setup.context);
    let permits = |kernel: NativeKernel| match stream.launch_native(&kernel) {
        Ok(()) => true,
        Err(Error::InvalidValue(_)) => false,
        Err(error) => panic!("{error}"),
    };
    let both = |address, bytes| {
        let permitted = permits(reads(address, bytes));
        assert_eq!(permits(writes(address, bytes)), permitted);
        permitted
    };
    let MemoryRange { address, bytes } = setup.range();
    assert!(both(address, bytes) && both(address + bytes - 1, 1));
    assert!(!both(address, bytes + 1) && !both(address + bytes, 1));
    assert!(both(0, 0), "an empty range");
    let freed = context.alloc(100).expect("allocated");
    context.free(freed).expect("freed");
    assert!(!both(freed.address(), 4));
    let pinned = context.alloc_host(64, HostFlags::default());
    let pinned = pinned.expect("allocated");
    assert!(both(pinned as u64, 64) && !both(pinned as u64, 65));
    context.free_host(pinned).expect("freed");
    let mut own = vec![0u8; 64];
    let address = own.as_ptr() as u64;
    assert!(!both(address, 1), "host memory");
    let read_only = HostFlags {
        read_only: true,
        ..HostFlags::default()
    };
    context
        .register_host(own.as_mut_ptr(), 64, read_only)
        .expect("registered");
    assert!(permits(reads(address, 64)) && !permits(writes(address, 64)));
    context
        .unregister_host(own.as_mut_ptr())
        .expect("registered");
    context
        .register_host(own.as_mut_ptr(), 64, HostFlags::default())
        .expect("registered");
    assert!(both(address, 64) && !both(address, 65));
    stream.synchronize().expect("no fault");
    context
        .unregister_host(own.as_mut_ptr())
        .expect("registered");
    let text = ".version 7.0 .target sm_80 .address_size 64 .visible .const .u32 c[4];";
    let module = setup.runtime.load_ptx(text).expect("loads");
    let constant = module.global("c").expect("known").ptr.address();
    assert!(permits(reads(constant, 16)) && !permits(writes(constant, 16)));
}

#[test]
fn a_graph_that_uses_freed_memory_fails_as_with_a_kernel() {
    let setup = Setup::new();
    let (stream, context) = (setup.stream(), &setup.context);
    let memory = context.alloc(100).expect("allocated");
    let count = Arc::new(AtomicU32::new(0));
    let ran = Arc::clone(&count);
    let kernel = NativeKernel::new("late", 3, move |_| {
        ran.fetch_add(1, SeqCst);
        Ok(())
    });
    let kernel = kernel.writes(MemoryRange::of(memory.address(), 100));
    stream.begin_capture(CaptureMode::Relaxed).expect("begun");
    stream.launch_native(&kernel).expect("captured");
    let graph = stream.end_capture().expect("captured");
    let exec = graph
        .instantiate(InstantiateFlags::default())
        .expect("valid");
    exec.launch(&stream).expect("launched");
    stream.synchronize().expect("no fault");
    context.free(memory).expect("freed");
    exec.launch(&stream).expect("launched");
    let fault = fault_of(stream.synchronize());
    assert_eq!(fault.kind, FaultKind::IllegalAddress);
    let address = memory.address();
    assert_eq!((fault.address, fault.write), (Some(address), Some(true)));
    assert_eq!(count.load(SeqCst), 3, "the tasks of the first launch");
}

/// A graph allocates the memory that its native kernel writes.
#[test]
fn memory_of_a_graph_is_accessible_in_the_graph() {
    let setup = Setup::new();
    let stream = setup.stream();
    stream.begin_capture(CaptureMode::Global).expect("begun");
    let memory = stream.alloc_async(64).expect("captured");
    let kernel = writes(memory.address(), 64);
    stream.launch_native(&kernel).expect("captured");
    stream.free_async(memory).expect("captured");
    let graph = stream.end_capture().expect("captured");
    let exec = graph
        .instantiate(InstantiateFlags::default())
        .expect("valid");
    for _ in 0..2 {
        exec.launch(&stream).expect("launched");
        stream.synchronize().expect("no fault");
    }
}

fn checked(tool: Tool) -> Setup {
    Setup::with(Runtime::builder().workers(2).check(tool))
}

/// Returns the kind, the kernel and the severity of each finding.
fn findings(setup: &Setup) -> Vec<(Kind, String, Severity)> {
    let (found, _) = setup.runtime.take_findings();
    let found = found.into_iter();
    found
        .map(|f| (f.kind, f.kernel.unwrap_or_default(), f.severity))
        .collect()
}

#[test]
fn initcheck_knows_what_native_kernels_read_and_write() {
    let setup = checked(Tool::Initialisation);
    let (stream, context) = (setup.stream(), &setup.context);
    let memory = context.alloc(4 * WORDS as u64).expect("allocated");
    let bytes = 4 * WORDS as u64;
    let address = memory.address();
    stream
        .launch_native(&reads(address, bytes))
        .expect("launched");
    stream.synchronize().expect("no fault");
    let expected = (Kind::Uninitialized, "reads".to_owned(), Severity::Error);
    assert_eq!(findings(&setup), [expected]);
    stream.launch_native(&writes(address, 4)).expect("launched");
    stream
        .launch_native(&reads(address, bytes))
        .expect("launched");
    stream.synchronize().expect("no fault");
    assert_eq!(findings(&setup), [], "some bytes are written");
    stream
        .launch_native(&writes(address, bytes))
        .expect("launched");
    let config = LaunchConfig::new((WORDS / EACH) as u32, EACH as u32);
    stream
        .launch(&setup.triple, config, (address,))
        .expect("launched");
    stream.synchronize().expect("no fault");
    assert_eq!(findings(&setup), [], "all bytes are written");
}

#[test]
fn memcheck_reports_ranges_outside_of_allocations() {
    let setup = checked(Tool::Memory);
    let (stream, context) = (setup.stream(), &setup.context);
    let MemoryRange { address, bytes } = setup.range();
    let refused = |kernel| stream.launch_native(&kernel).expect_err("refused");
    refused(reads(address, bytes + 1));
    let expected = (Kind::OutOfBounds, "reads".to_owned(), Severity::Error);
    assert_eq!(findings(&setup), [expected]);
    let freed = context.alloc(100).expect("allocated");
    context.free(freed).expect("freed");
    refused(writes(freed.address(), 100));
    let expected = (Kind::UseAfterFree, "writes".to_owned(), Severity::Error);
    assert_eq!(findings(&setup), [expected]);
    stream
        .launch_native(&reads(address, bytes))
        .expect("launched");
    stream.synchronize().expect("no fault");
    assert_eq!(findings(&setup), []);
}

#[test]
fn racecheck_compares_native_kernels_with_work_of_other_streams() {
    let setup = checked(Tool::Race);
    let (a, b) = (setup.stream(), setup.stream());
    let MemoryRange { address, bytes } = setup.range();
    let both = |first: &NativeKernel, second: &NativeKernel, ordered: bool| {
        a.launch_native(first).expect("launched");
        if ordered {
            let event = setup
                .context
                .create_event(EventFlags::default())
                .expect("created");
            event.record(&a).expect("recorded");
            b.wait_event(&event).expect("submitted");
        }
        b.launch_native(second).expect("launched");
        setup.context.synchronize().expect("no fault");
        findings(&setup)
    };
    let race = |kernel: &str| [(Kind::Race, kernel.to_owned(), Severity::Error)];
    let (all, half) = (writes(address, bytes), reads(address, bytes / 2));
    let rest = writes(address + bytes / 2, bytes / 2);
    assert_eq!(both(&all, &half, false), race("writes"));
    assert_eq!(both(&all, &half, true), []);
    assert_eq!(both(&half, &half, false), [], "two reads");
    assert_eq!(both(&half, &rest, false), [], "other bytes");
    // A kernel and a native kernel.
    setup.triple(&a).expect("launched");
    b.launch_native(&half).expect("launched");
    setup.context.synchronize().expect("no fault");
    let found = findings(&setup);
    assert!(!found.is_empty(), "the kernel writes what the other reads");
    assert!(
        found.iter().all(|(kind, _, _)| *kind == Kind::Race),
        "{found:?}"
    );
}
