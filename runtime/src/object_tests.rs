//! Tests of kernels, modules, libraries and limits: the values that queries return, and the calls that return errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::engine::{KernelInfo, KernelSizes, VariableInfo};
use crate::testing::{Bench, Spec, Step, TestLoader, kernel};
use crate::{
    Dim3, Error, FunctionAttribute as A, Image, Kernel, LaunchConfig, Library, Limit, LoadOptions,
    Runtime,
};

fn done(name: &str, change: impl FnOnce(&mut KernelInfo)) -> Spec {
    let mut spec = kernel(name, 1, false, |_| Step::Done);
    change(&mut spec.info);
    spec
}

fn sized(mut spec: Spec, static_shared: u32, local_bytes: u32) -> Spec {
    spec.sizes = KernelSizes {
        static_shared,
        local_bytes,
    };
    spec
}

fn bench() -> Bench {
    Bench::new(
        1,
        vec![
            done("plain", |_| {}),
            sized(done("shared", |_| {}), 16 << 10, 0),
            done("bounded", |info| info.max_threads = Some(128)),
            done("required", |info| {
                info.required_block = Some(Dim3::new(8, 4, 1));
            }),
            sized(
                done("turing", |info| {
                    info.target = 75;
                    info.const_bytes = 100;
                    info.registers = 40;
                }),
                0,
                24,
            ),
        ],
    )
}

fn launch(bench: &Bench, name: &str, config: LaunchConfig) -> Result<(), Error> {
    bench.runtime.launch(&bench.kernel(name), config, (0u64,))
}

#[test]
fn attributes_come_from_the_kernel() {
    let bench = bench();
    let value = |kernel: &Kernel, attribute| kernel.attribute(attribute).expect("known");
    let turing = bench.kernel("turing");
    assert_eq!(value(&turing, A::PtxVersion), 75, "the PTX's own target");
    assert_eq!(value(&turing, A::BinaryVersion), 86);
    assert_eq!(value(&turing, A::LocalSizeBytes), 24);
    assert_eq!(value(&turing, A::ConstSizeBytes), 100);
    assert_eq!(value(&turing, A::NumRegs), 40);
    assert_eq!(value(&turing, A::MaxThreadsPerBlock), 1024);
    assert_eq!(value(&bench.kernel("bounded"), A::MaxThreadsPerBlock), 128);
    assert_eq!(value(&bench.kernel("required"), A::MaxThreadsPerBlock), 32);
    let shared = bench.kernel("shared");
    assert_eq!(value(&shared, A::SharedSizeBytes), 16 << 10);
    assert_eq!(value(&shared, A::MaxDynamicSharedSizeBytes), 32 << 10);
    assert!(shared.set_attribute(A::NumRegs, 8).is_err());
    // After opting in, a block may have 99 KiB, of which 16 KiB are static.
    let most = 83 << 10;
    assert!(
        shared
            .set_attribute(A::MaxDynamicSharedSizeBytes, most + 1)
            .is_err()
    );
    shared
        .set_attribute(A::MaxDynamicSharedSizeBytes, most)
        .expect("fits");
    assert_eq!(value(&shared, A::MaxDynamicSharedSizeBytes), most);
    assert_eq!(A::from_number(5), Some(A::PtxVersion));
    assert_eq!(A::from_number(16), None);
    assert_eq!(A::from_number(-1), None);
}

#[test]
fn shapes_are_checked() {
    let bench = bench();
    let refused = |name: &str, config| launch(&bench, name, config).expect_err("refused");
    for (grid, block) in [
        (Dim3::new(0, 1, 1), Dim3::new(1, 1, 1)),
        (Dim3::new(1, 1, 1), Dim3::new(0, 1, 1)),
        (Dim3::new(1, 65_536, 1), Dim3::new(1, 1, 1)),
        (Dim3::new(1 << 31, 1, 1), Dim3::new(1, 1, 1)),
        (Dim3::new(1, 1, 1), Dim3::new(1025, 1, 1)),
        (Dim3::new(1, 1, 1), Dim3::new(1, 1, 65)),
    ] {
        let error = refused("plain", LaunchConfig::new(grid, block));
        assert!(matches!(error, Error::InvalidValue(_)), "{error}");
    }
    let error = refused("bounded", LaunchConfig::new(1, 129));
    assert!(matches!(error, Error::InvalidValue(_)), "{error}");
    let error = refused("required", LaunchConfig::new(1, 32));
    assert!(matches!(error, Error::InvalidValue(_)), "{error}");
    let error = refused("plain", LaunchConfig::new(1, 1).with_shared((48 << 10) + 1));
    assert!(matches!(error, Error::InvalidValue(_)), "{error}");
    let error = refused("plain", LaunchConfig::new(3, 1).with_cluster(2));
    assert!(matches!(error, Error::InvalidValue(_)), "{error}");
    let error = refused("plain", LaunchConfig::new(32, 1).with_cluster(16));
    assert!(matches!(error, Error::InvalidClusterSize(_)), "{error}");
    for (name, config) in [
        ("plain", LaunchConfig::new(1, 1024).with_shared(48 << 10)),
        ("bounded", LaunchConfig::new(2, 128)),
        ("required", LaunchConfig::new(2, (8, 4))),
        ("plain", LaunchConfig::new(16, 1).with_cluster(8)),
    ] {
        launch(&bench, name, config).expect("allowed");
    }
    bench.runtime.synchronize().expect("complete");
    let wrong = bench.runtime.launch(
        &bench.kernel("plain"),
        LaunchConfig::new(1, 1),
        (1u32, 2u32),
    );
    assert!(matches!(wrong, Err(Error::InvalidValue(_))));
}

/// cuBLAS asks for the active clusters of 3, 4, 5 ... blocks until the size is invalid.
#[test]
fn clusters_that_are_too_large_have_an_error_of_their_own() {
    let bench = Bench::new(
        1,
        vec![
            done("plain", |_| {}),
            done("ranked", |info| info.max_cluster_rank = Some(4)),
            done("shaped", |info| {
                info.required_cluster = Some(Dim3::new(2, 3, 1))
            }),
        ],
    );
    let kernel = bench.kernel("plain");
    let largest = |kernel: &Kernel| {
        let of_size = |size: u32| {
            let config = LaunchConfig::new(size, 128).with_cluster(size);
            kernel.max_active_clusters(&config)
        };
        let valid = (1..100).take_while(|&size| of_size(size).is_ok()).last();
        let size = valid.expect("one block");
        let error = of_size(size + 1).expect_err("too large");
        assert!(matches!(error, Error::InvalidClusterSize(_)), "{error}");
        size
    };
    let potential = |name: &str| {
        let config = LaunchConfig::new(1, 128).with_cluster(3);
        let size = bench.kernel(name).max_potential_cluster_size(&config);
        size.expect("fits")
    };
    assert_eq!((largest(&kernel), potential("plain")), (8, 8));
    kernel
        .set_attribute(A::NonPortableClusterSizeAllowed, 1)
        .expect("settable");
    assert_eq!((largest(&kernel), potential("plain")), (16, 16));
    assert_eq!(
        (largest(&bench.kernel("ranked")), potential("ranked")),
        (4, 4)
    );
    assert_eq!(potential("shaped"), 6);
    kernel
        .set_attribute(A::RequiredClusterWidth, 5)
        .expect("settable");
    assert_eq!(potential("plain"), 5);
}

#[test]
fn occupancy_and_the_best_block() {
    let mut config = crate::device::DeviceConfig::from_env();
    config.sms = 10;
    let spec = done("k", |info| info.registers = 64);
    let bench = Bench::with(Runtime::builder().device(config), vec![spec]);
    let kernel = bench.kernel("k");
    // If each thread has 64 registers, an SM holds 32 warps.
    assert_eq!(kernel.max_active_blocks(256, 0).expect("known"), 4);
    assert_eq!(kernel.max_active_blocks(1024, 0).expect("known"), 1);
    assert!(kernel.max_active_blocks(0, 0).is_err());
    let best = kernel.max_potential_block_size(&mut |_| 0, 0);
    assert_eq!(best.expect("known"), (10, 1024));
    let best = kernel.max_potential_block_size(&mut |_| 0, 300);
    // 288 threads are 9 warps, and 3 blocks are resident on an SM; 256 threads are 8 warps, and 4 blocks are.
    assert_eq!(best.expect("known"), (40, 256));
    let shared = kernel.available_dynamic_shared(4, 256).expect("resident");
    assert_eq!(shared, (25 << 10) - 1024);
    // The SM has more shared memory, but a kernel that does not opt in gets at most 48 KiB.
    let shared = kernel.available_dynamic_shared(1, 256).expect("resident");
    assert_eq!(shared, 48 << 10);
    assert!(kernel.available_dynamic_shared(5, 256).is_err());
}

#[test]
fn variables_hold_their_initial_bytes() {
    let variable = |name: &str, size, managed, visible| VariableInfo {
        reference: None,
        name: name.into(),
        size,
        align: 4,
        constant: false,
        managed,
        visible,
    };
    let loader = TestLoader {
        specs: vec![done("k", |_| {})],
        variables: vec![
            variable("a", 8, false, true),
            variable("hidden", 4, false, false),
            variable("m", 4, true, true),
        ],
        initial: vec![vec![1, 2, 3], Vec::new(), vec![9]],
    };
    let runtime = Runtime::builder()
        .workers(1)
        .loader(Arc::new(loader))
        .build()
        .expect("built");
    let module = runtime.load_ptx("").expect("loads");
    let symbol = module.global("a").expect("visible");
    assert_eq!(symbol.size, 8);
    let mut bytes = [0xffu8; 8];
    let copy = crate::Transfer::to_host(bytes.as_mut_ptr(), symbol.ptr, 8);
    let stream = runtime.context().expect("alive").legacy_stream();
    // SAFETY: the array outlives the copy.
    unsafe { stream.copy(copy) }.expect("copied");
    assert_eq!(bytes, [1, 2, 3, 0, 0, 0, 0, 0]);
    assert!(module.global("hidden").is_err());
    assert!(matches!(module.global("b"), Err(Error::NotFound(_))));
    assert!(matches!(module.kernel("b"), Err(Error::NotFound(_))));
    let context = runtime.context().expect("alive");
    assert!(context.free(symbol.ptr).is_err(), "not the program's");
    let stale = module.kernel("k").expect("known");
    module.unload().expect("once");
    assert!(module.unload().is_err());
    let config = LaunchConfig::new(1, 1);
    assert!(runtime.launch(&stale, config, (0u64,)).is_err());
    assert!(runtime.pointer_info(symbol.ptr.address()).is_none());

    let options = LoadOptions::default();
    let library = Library::load(&runtime, Image::Ptx(""), &options).expect("loads");
    let managed = library.managed("m").expect("managed");
    assert!(library.managed("a").is_err());
    let module = library.module(&context).expect("made");
    assert_eq!(library.module(&context).expect("the same"), module);
    assert_eq!(module.global("m").expect("shared").ptr, managed.ptr);
    // SAFETY: the host may access managed memory.
    assert_eq!(unsafe { *(managed.ptr.address() as *const u32) }, 9);
    library.unload().expect("once");
    assert!(library.module(&context).is_err());
}

#[test]
fn limits_are_rounded_and_remembered() {
    let bench = bench();
    let context = &bench.context;
    assert_eq!(
        context.limit(Limit::MallocHeapSize).expect("known"),
        8 << 20
    );
    assert_eq!(
        context.limit(Limit::PrintfFifoSize).expect("known"),
        1 << 20
    );
    context.set_limit(Limit::StackSize, 1025).expect("settable");
    assert_eq!(context.limit(Limit::StackSize).expect("known"), 1040);
    context
        .set_limit(Limit::DevRuntimePendingLaunchCount, 16)
        .expect("settable");
    let pending = context.limit(Limit::DevRuntimePendingLaunchCount);
    assert_eq!(pending.expect("known"), 16);
    assert!(context.set_limit(Limit::DevRuntimeSyncDepth, 25).is_err());
    // The limits of CUDA 12.5 and 13 concern contexts created for graphics, and memory of blocks.
    let of = |number| Limit::from_number(number).expect("a limit of cuda.h");
    assert!(context.limit(of(7)).expect("known") >= 48 << 10);
    assert_eq!(context.limit(of(8)).expect("known"), 0);
    assert_eq!(context.limit(of(9)).expect("known"), 0);
    assert_eq!(context.limit(of(10)).expect("known"), 0);
    assert!(context.set_limit(of(7), 1).is_err());
    assert!(context.set_limit(of(8), 1).is_err());
    context.set_limit(of(9), 1).expect("settable");
    assert_eq!(context.limit(of(9)).expect("known"), 1);
    assert!(Limit::from_number(11).is_err());
    assert!(context.set_cache_config(4).is_err());
    context.set_cache_config(2).expect("known");
    assert_eq!(context.cache_config(), 2);
}

#[test]
fn device_memory_for_malloc_comes_from_the_heap_of_the_context() {
    let seen = Arc::new(AtomicU64::new(0));
    let got = Arc::clone(&seen);
    let bench = Bench::new(
        1,
        vec![kernel("heap", 0, false, move |call| {
            let services = &call.shape.services;
            let at = crate::syscalls::Coordinates::default();
            let small = services.malloc(100);
            got.store(small, SeqCst);
            let too_large = services.malloc(9 << 20);
            let freed = services.free(&at, small).is_ok() && services.free(&at, small).is_err();
            match freed && too_large == 0 && small % 16 == 0 {
                true => Step::Done,
                false => Step::Fault(crate::FaultKind::Assert),
            }
        })],
    );
    let launch = bench
        .runtime
        .launch(&bench.kernel("heap"), LaunchConfig::new(1, 1), ());
    launch.expect("launched");
    bench.runtime.synchronize().expect("as expected");
    let address = seen.load(SeqCst);
    let info = bench.runtime.pointer_info(address).expect("ours");
    assert_eq!(info.size, 8 << 20);
    let heap = crate::DevicePtr::new(info.base);
    assert!(bench.context.free(heap).is_err(), "not the program's");
}
