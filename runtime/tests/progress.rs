//! Tests, with PTX kernels, that waiting threads make progress as `docs/semantics.md` states, and
//! tests of faults and limits.
//!
//! Most tests run with one worker, so that a waiting kernel must release the worker; the work that
//! it waits for then runs on this worker. The tests must pass with native code and with the
//! interpreter. If `MARGAY_ENGINE=interpreter` is set, they run in the interpreter.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use margay::{
    DeviceBuffer, EngineChoice, Error, Fault, FaultKind, LaunchConfig, Limit, Module, Runtime,
    Stream, StreamKind, Transfer,
};

const HEADER: &str = ".version 7.0\n.target sm_80\n.address_size 64\n";

fn load(runtime: &Runtime, body: &str) -> Module {
    runtime.load_ptx(&format!("{HEADER}{body}")).expect("loads")
}

fn one_worker() -> Runtime {
    Runtime::builder().workers(1).build().expect("built")
}

/// Kernels that poll a flag in three ways: with volatile loads, with acquire loads, and with weak
/// loads and a fence. nvcc translates `while (f[0] == 0) __threadfence();` to the third way. A
/// fourth kernel sets the flag.
const POLL: &str = r"
.visible .entry poll_volatile(.param .u64 flag) {
    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [flag];
again:
    ld.volatile.global.u32 %r, [%rd];
    setp.eq.u32 %p, %r, 0;
    @%p bra again;
    ret;
}
.visible .entry poll_acquire(.param .u64 flag) {
    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [flag];
again:
    ld.acquire.gpu.global.u32 %r, [%rd];
    setp.eq.u32 %p, %r, 0;
    @%p bra again;
    ret;
}
.visible .entry poll_fence(.param .u64 flag) {
    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [flag];
    bra test;
again:
    membar.gl;
test:
    ld.global.u32 %r, [%rd];
    setp.eq.u32 %p, %r, 0;
    @%p bra again;
    ret;
}
.visible .entry set(.param .u64 flag) {
    .reg .b64 %rd;
    ld.param.u64 %rd, [flag];
    st.global.u32 [%rd], 1;
    ret;
}
";

struct Polling {
    runtime: Runtime,
    module: Module,
    first: Stream,
    second: Stream,
    flag: *mut u8,
}

impl Polling {
    fn new() -> Polling {
        let runtime = one_worker();
        let module = load(&runtime, POLL);
        let context = runtime.context().expect("alive");
        let stream = || {
            context
                .create_stream(StreamKind::NonBlocking, 0)
                .expect("made")
        };
        let flags = margay::HostFlags::default();
        Polling {
            first: stream(),
            second: stream(),
            flag: context.alloc_host(4, flags).expect("room"),
            runtime,
            module,
        }
    }

    fn flag(&self) -> &AtomicU32 {
        // SAFETY: pinned memory that lives as long as the context, aligned, only used as atomic.
        unsafe { &*self.flag.cast::<AtomicU32>() }
    }

    /// For each polling kernel: starts the kernel, calls `set`, which sets the flag, and waits
    /// until the kernel has ended.
    fn check(&self, set: impl Fn()) {
        for name in ["poll_volatile", "poll_acquire", "poll_fence"] {
            self.flag().store(0, Ordering::SeqCst);
            let kernel = self.module.kernel(name).expect("known");
            let config = LaunchConfig::new(40, 64);
            let launch = self.first.launch(&kernel, config, (self.flag as u64,));
            launch.expect("launched");
            std::thread::sleep(Duration::from_millis(2));
            assert!(!self.first.query().expect("no fault"), "{name} polls");
            set();
            self.first.synchronize().expect("complete");
        }
    }
}

#[test]
fn polling_a_flag_that_the_host_sets() {
    let polling = Polling::new();
    polling.check(|| polling.flag().store(1, Ordering::SeqCst));
}

#[test]
fn polling_a_flag_that_a_kernel_sets() {
    let polling = Polling::new();
    let set = polling.module.kernel("set").expect("known");
    polling.check(|| {
        let config = LaunchConfig::new(1, 1);
        let launch = polling.second.launch(&set, config, (polling.flag as u64,));
        launch.expect("launched");
    });
}

#[test]
fn polling_a_flag_that_a_copy_sets() {
    let polling = Polling::new();
    let one: DeviceBuffer<u32> = polling.runtime.upload(&[1]).expect("room");
    polling.check(|| {
        let transfer = Transfer::to_host(polling.flag, one.ptr(), 4);
        // SAFETY: pinned memory of the test.
        unsafe { polling.second.copy_async(transfer) }.expect("copied");
    });
}

#[test]
fn polling_a_flag_that_a_host_function_sets() {
    let polling = Polling::new();
    let address = polling.flag as usize;
    polling.check(|| {
        let set = move || {
            // SAFETY: as in `Polling::flag`.
            unsafe { &*(address as *const AtomicU32) }.store(1, Ordering::SeqCst);
        };
        polling.second.host_function(set).expect("submitted");
    });
}

#[test]
fn a_spin_lock_between_the_lanes_of_a_warp() {
    let runtime = one_worker();
    let module = load(
        &runtime,
        r"
.visible .entry count(.param .u64 data) {
    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd;
    ld.param.u64 %rd, [data];
again:
    atom.global.cas.b32 %r1, [%rd], 0, 1;
    setp.ne.u32 %p, %r1, 0;
    @%p bra again;
    membar.gl;
    ld.volatile.global.u32 %r2, [%rd+4];
    add.u32 %r2, %r2, 1;
    st.volatile.global.u32 [%rd+4], %r2;
    membar.gl;
    atom.global.exch.b32 %r3, [%rd], 0;
    ret;
}
",
    );
    let data = runtime.upload(&[0u32, 0]).expect("room");
    let count = module.kernel("count").expect("known");
    let config = LaunchConfig::new(5, 70);
    runtime.launch(&count, config, (&data,)).expect("launched");
    assert_eq!(data.to_vec().expect("complete"), [0, 350]);
}

#[test]
fn a_decoupled_look_back_scan() {
    // Block b waits for the inclusive sum of block b - 1 and then publishes its own inclusive sum.
    const BLOCKS: u32 = 3000;
    for runtime in [
        one_worker(),
        Runtime::builder().workers(3).build().expect("built"),
    ] {
        let module = load(
            &runtime,
            r"
.visible .entry scan(.param .u64 sums) {
    .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [sums];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra done;
    mov.u32 %r2, %ctaid.x;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    mov.u32 %r4, 0;
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra publish;
again:
    ld.acquire.gpu.global.u32 %r4, [%rd3+-4];
    setp.eq.u32 %p1, %r4, 0;
    @%p1 bra again;
publish:
    add.u32 %r5, %r4, 1;
    st.release.gpu.global.u32 [%rd3], %r5;
done:
    bar.sync 0;
    ret;
}
",
        );
        let sums: DeviceBuffer<u32> = runtime.alloc(BLOCKS as usize).expect("room");
        let scan = module.kernel("scan").expect("known");
        let config = LaunchConfig::new(BLOCKS, 64);
        runtime.launch(&scan, config, (&sums,)).expect("launched");
        let expected: Vec<u32> = (1..=BLOCKS).collect();
        assert_eq!(sums.to_vec().expect("complete"), expected);
    }
}

#[test]
fn a_grid_barrier_of_a_cooperative_launch() {
    let runtime = one_worker();
    let module = load(
        &runtime,
        r"
.visible .entry barrier(.param .u64 data) {
    .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %nctaid.x;
    mov.u32 %r7, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    add.u32 %r3, %r1, 1;
    st.global.u32 [%rd3+8], %r3;
    bar.sync 0;
    setp.ne.u32 %p1, %r7, 0;
    @%p1 bra joined;
    membar.gl;
    atom.global.add.u32 %r4, [%rd1], 1;
again:
    ld.volatile.global.u32 %r4, [%rd1];
    setp.lt.u32 %p2, %r4, %r2;
    @%p2 bra again;
joined:
    bar.sync 0;
    // What the neighbour wrote before the barrier.
    add.u32 %r5, %r1, 1;
    rem.u32 %r5, %r5, %r2;
    mul.wide.u32 %rd4, %r5, 4;
    add.s64 %rd5, %rd1, %rd4;
    ld.global.u32 %r6, [%rd5+8];
    atom.global.add.u32 %r6, [%rd1+4], %r6;
    ret;
}
",
    );
    let data: DeviceBuffer<u32> = runtime.alloc(130).expect("room");
    let kernel = module.kernel("barrier").expect("known");
    let config = LaunchConfig::new(100, 64).with_cooperative();
    runtime.launch(&kernel, config, (&data,)).expect("launched");
    let result = data.to_vec().expect("complete");
    // Each of the 64 threads of a block adds the number that the neighbouring block wrote: 64 * (1 + ... + 100).
    assert_eq!(result[..2], [100, 64 * 5050]);
}

fn fault(result: Result<(), Error>) -> Fault {
    match result {
        Err(Error::Fault(fault)) => (*fault).clone(),
        other => panic!("{other:?}"),
    }
}

fn reset(runtime: &Runtime) {
    let device = runtime.device(0).expect("one");
    device.primary_reset().expect("reset");
    runtime.synchronize().expect("usable again");
}

const FAULTY: &str = r"
.visible .entry endless() {
again:
    bra again;
}
.visible .entry counts(.param .u64 data) {
    .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [data];
again:
    add.u32 %r, %r, 1;
    st.global.u32 [%rd], %r;
    bra again;
}
.visible .entry stores(.param .u64 data) {
    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd;
    ld.param.u64 %rd, [data];
    mov.u32 %r1, %ctaid.y;
    setp.ne.u32 %p, %r1, 2;
    @%p bra done;
    st.global.u32 [%rd], 1;
done:
    ret;
}
.visible .entry stuck() {
    .reg .pred %p; .reg .b32 %r;
    mov.u32 %r, %tid.x;
    setp.lt.u32 %p, %r, 32;
    @%p bra other;
    bar.sync 1, 64;
    ret;
other:
    bar.sync 2, 64;
    ret;
}
.visible .entry lacks_a_lane() {
    .reg .pred %p; .reg .b32 %r;
    mov.u32 %r, %tid.x;
    setp.eq.u32 %p, %r, 3;
    @%p bra barrier;
    bar.warp.sync 0xffffffff;
barrier:
    bar.sync 0;
    ret;
}
.visible .entry traps() {
    trap;
}
";

#[test]
fn a_store_to_nowhere_names_kernel_block_and_address() {
    let runtime = one_worker();
    let data: DeviceBuffer<u32> = runtime.alloc(16).expect("room");
    let end = data.ptr().offset(1 << 20);
    for _ in 0..3 {
        let module = load(&runtime, FAULTY);
        let kernel = module.kernel("stores").expect("known");
        let config = LaunchConfig::new((2, 4), 1);
        runtime.launch(&kernel, config, (end,)).expect("launched");
        let fault = fault(runtime.synchronize());
        assert_eq!(fault.kind, FaultKind::IllegalAddress);
        assert_eq!(fault.kernel, "stores");
        assert_eq!(fault.cta.map(|[_, y, _]| y), Some(2), "{fault}");
        assert_eq!(fault.address, Some(end.address()), "{fault}");
        reset(&runtime);
    }
}

#[test]
fn an_endless_loop_ends_at_the_time_limit() {
    for (name, takes_data) in [("endless", false), ("counts", true)] {
        let runtime = one_worker();
        let module = load(&runtime, FAULTY);
        let context = runtime.context().expect("alive");
        context.set_time_limit(Some(Duration::from_millis(200)));
        let data: DeviceBuffer<u32> = runtime.alloc(1).expect("room");
        let kernel = module.kernel(name).expect("known");
        let config = LaunchConfig::new(3, 33);
        let begin = Instant::now();
        let launch = if takes_data {
            runtime.launch(&kernel, config, (&data,))
        } else {
            runtime.launch(&kernel, config, ())
        };
        launch.expect("launched");
        let fault = fault(runtime.synchronize());
        assert_eq!(fault.kind, FaultKind::Timeout, "{fault}");
        assert!(begin.elapsed() >= Duration::from_millis(200));
        reset(&runtime);
    }
}

#[test]
fn an_endless_loop_ends_with_a_reset_and_with_stop() {
    let runtime = Runtime::builder().workers(2).build().expect("built");
    for stop in [false, true] {
        let module = load(&runtime, FAULTY);
        let kernel = module.kernel("endless").expect("known");
        let config = LaunchConfig::new(10, 64);
        runtime.launch(&kernel, config, ()).expect("launched");
        std::thread::sleep(Duration::from_millis(20));
        if stop {
            runtime.stop_all();
            assert_eq!(fault(runtime.synchronize()).kind, FaultKind::LaunchFailed);
        }
        reset(&runtime);
    }
}

#[test]
fn an_impossible_barrier_tells_who_waits() {
    let runtime = one_worker();
    let module = load(&runtime, FAULTY);
    let kernel = module.kernel("stuck").expect("known");
    let config = LaunchConfig::new(2, 64);
    runtime.launch(&kernel, config, ()).expect("launched");
    let fault = fault(runtime.synchronize());
    assert_eq!(fault.kind, FaultKind::Deadlock, "{fault}");
    assert!(fault.detail.contains("barrier 1"), "{fault}");
    assert!(fault.detail.contains("barrier 2"), "{fault}");
    reset(&runtime);
}

/// Tests a warp barrier that cannot complete: lane 3 has not exited, and waits at another barrier
/// that the other lanes cannot reach.
#[test]
fn a_warp_barrier_without_one_of_its_members() {
    let runtime = one_worker();
    let module = load(&runtime, FAULTY);
    let kernel = module.kernel("lacks_a_lane").expect("known");
    let launch = runtime.launch(&kernel, LaunchConfig::new(1, 64), ());
    launch.expect("launched");
    let fault = fault(runtime.synchronize());
    assert_eq!(fault.kind, FaultKind::Deadlock, "{fault}");
    let lanes = "warp 0, lanes 0xfffffff7: bar.warp.sync with mask 0xffffffff";
    assert!(fault.detail.contains(lanes), "{fault}");
    let lane = "warp 0, lanes 0x00000008: barrier 0";
    assert!(fault.detail.contains(lane), "{fault}");
    reset(&runtime);
}

#[test]
fn trap_is_a_fault() {
    let runtime = one_worker();
    let module = load(&runtime, FAULTY);
    let kernel = module.kernel("traps").expect("known");
    let launch = runtime.launch(&kernel, LaunchConfig::new(1, 1), ());
    launch.expect("launched");
    let fault = fault(runtime.synchronize());
    let trapped = matches!(
        fault.kind,
        FaultKind::IllegalInstruction | FaultKind::LaunchFailed
    );
    assert!(trapped, "{fault}");
    reset(&runtime);
}

#[test]
fn ten_thousand_launches_of_a_real_kernel() {
    let runtime = Runtime::builder().workers(2).build().expect("built");
    let module = load(
        &runtime,
        r"
.visible .entry add(.param .u64 data) {
    .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [data];
    ld.global.u32 %r, [%rd];
    add.u32 %r, %r, 1;
    st.global.u32 [%rd], %r;
    ret;
}
",
    );
    let data: DeviceBuffer<u32> = runtime.alloc(1).expect("room");
    let add = module.kernel("add").expect("known");
    let begin = Instant::now();
    for _ in 0..10_000 {
        let launch = runtime.launch(&add, LaunchConfig::new(1, 1), (&data,));
        launch.expect("launched");
    }
    assert_eq!(data.to_vec().expect("complete"), [10_000]);
    println!("{:?} per launch", begin.elapsed() / 10_000);
}

/// Runs all other tests of this program again, with the interpreter.
#[test]
fn the_interpreter_gives_way_too() {
    const VARIABLE: &str = "MARGAY_ENGINE";
    if std::env::var_os(VARIABLE).is_some() {
        return;
    }
    let program = std::env::current_exe().expect("own path");
    let mut command = std::process::Command::new(program);
    command
        .env(VARIABLE, "interpreter")
        .env("MARGAY_TIME_LIMIT", "60");
    let output = command.output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
}

#[test]
fn the_child_of_a_fork_is_told_so() {
    let runtime = one_worker();
    runtime.synchronize().expect("usable");
    let context = runtime.context().expect("alive");
    // SAFETY: the child calls only functions that return before they take a lock, and exits by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = |result: Result<(), Error>| matches!(result, Err(Error::NotInitialized));
        let all = refused(Runtime::global().map(|_| ()))
            && refused(runtime.synchronize())
            && refused(context.synchronize())
            && refused(context.alloc(16).map(|_| ()))
            && refused(context.legacy_stream().synchronize());
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(!all)) };
    }
    let mut status = -1;
    // SAFETY: waits for our own child.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    runtime.synchronize().expect("the parent goes on");
}

/// Kernels that launch other kernels: `serial` launches `n` kernels of 200 ms one after the other.
/// Each `tree` kernel launches two further `tree` kernels, so that the number of kernels grows
/// without limit.
const CHILDREN: &str = r"
.extern .func (.param .b64 buffer) __cudaCDP2GetParameterBufferV2
    (.param .b64 function, .param .align 4 .b8 grid[12], .param .align 4 .b8 block[12], .param .b32 shared);
.extern .func (.param .b32 result) __cudaCDP2LaunchDeviceV2(.param .b64 buffer, .param .b64 stream);
.func launch(.param .b64 kernel, .param .b32 value) {
    .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p;
    ld.param.u64 %rd1, [kernel]; ld.param.u32 %r1, [value];
    {
        .param .b64 f; .param .align 4 .b8 g[12]; .param .align 4 .b8 b[12]; .param .b32 s; .param .b64 r;
        st.param.b64 [f], %rd1; st.param.b32 [s], 0;
        st.param.b32 [g], 1; st.param.b32 [g+4], 1; st.param.b32 [g+8], 1;
        st.param.b32 [b], 1; st.param.b32 [b+4], 1; st.param.b32 [b+8], 1;
        call.uni (r), __cudaCDP2GetParameterBufferV2, (f, g, b, s);
        ld.param.b64 %rd2, [r];
    }
    setp.eq.u64 %p, %rd2, 0;
    @%p ret;
    st.u32 [%rd2], %r1;
    {
        .param .b64 f; .param .b64 s; .param .b32 r;
        st.param.b64 [f], %rd2; st.param.b64 [s], 0;
        call.uni (r), __cudaCDP2LaunchDeviceV2, (f, s);
    }
    ret;
}
.visible .entry wait(.param .u32 milliseconds) {
    .reg .b64 %rd<4>; .reg .b32 %r; .reg .pred %p;
    ld.param.u32 %r, [milliseconds]; mul.wide.u32 %rd1, %r, 1000000;
    mov.u64 %rd2, %globaltimer; add.u64 %rd1, %rd1, %rd2;
again:
    mov.u64 %rd2, %globaltimer; setp.lt.u64 %p, %rd2, %rd1;
    @%p bra again;
    ret;
}
.visible .entry serial(.param .u32 n) {
    .reg .b64 %rd; .reg .b32 %n; .reg .pred %p;
    ld.param.u32 %n, [n]; mov.u64 %rd, wait;
again:
    { .param .b64 f; .param .b32 v; st.param.b64 [f], %rd; st.param.b32 [v], 200; call.uni launch, (f, v); }
    sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0;
    @%p bra again;
    ret;
}
.visible .entry tree(.param .u32 n) {
    .reg .b64 %rd; .reg .b32 %n; .reg .pred %p;
    ld.param.u32 %n, [n]; mov.u64 %rd, tree;
    { .param .b64 f; .param .b32 v; st.param.b64 [f], %rd; st.param.b32 [v], %n; call.uni launch, (f, v); }
    { .param .b64 f; .param .b32 v; st.param.b64 [f], %rd; st.param.b32 [v], %n; call.uni launch, (f, v); }
    ret;
}
";

/// Tests that all grids that a launch causes directly or indirectly share the launch's time limit.
#[test]
fn grids_of_device_code_share_the_time_limit() {
    for name in ["serial", "tree"] {
        let runtime = Runtime::builder()
            .workers(1)
            .time_limit(Duration::from_millis(500));
        let runtime = runtime.build().expect("built");
        let module = load(&runtime, CHILDREN);
        let kernel = module.kernel(name).expect("known");
        let begin = Instant::now();
        let config = LaunchConfig::new(1, 1);
        runtime
            .launch(&kernel, config, (100u32,))
            .expect("launched");
        let fault = fault(runtime.synchronize());
        assert_eq!(fault.kind, FaultKind::Timeout, "{name}: {fault}");
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(8), "{name}: {took:?}");
    }
}

/// Kernels that launch many grids. `many` stores the number of launches that succeed and the error
/// code of the launches that fail.
const BOMBS: &str = r"
.extern .func (.param .b64 buffer) cudaGetParameterBufferV2
    (.param .b64 function, .param .align 4 .b8 grid[12], .param .align 4 .b8 block[12], .param .b32 shared);
.extern .func (.param .b32 result) cudaLaunchDeviceV2(.param .b64 buffer, .param .b64 stream);
.extern .func (.param .b32 result) cudaMemsetAsync(.param .b64 to, .param .b32 value, .param .b64 bytes, .param .b64 stream);
.func (.reg .b32 %result) launch(.reg .b64 %function, .reg .b32 %blocks, .reg .b32 %threads, .reg .b64 %stream) {
    .reg .b64 %buffer; .reg .pred %p;
    {
        .param .b64 f; .param .align 4 .b8 g[12]; .param .align 4 .b8 b[12]; .param .b32 s; .param .b64 r;
        st.param.b64 [f], %function; st.param.b32 [s], 0;
        st.param.b32 [g], %blocks; st.param.b32 [g+4], 1; st.param.b32 [g+8], 1;
        st.param.b32 [b], %threads; st.param.b32 [b+4], 1; st.param.b32 [b+8], 1;
        call.uni (r), cudaGetParameterBufferV2, (f, g, b, s);
        ld.param.b64 %buffer, [r];
    }
    mov.u32 %result, 1000;
    setp.eq.u64 %p, %buffer, 0;
    @%p ret;
    {
        .param .b64 f; .param .b64 s; .param .b32 r;
        st.param.b64 [f], %buffer; st.param.b64 [s], %stream;
        call.uni (r), cudaLaunchDeviceV2, (f, s);
        ld.param.b32 %result, [r];
    }
    ret;
}
.visible .entry nothing() { ret; }
.visible .entry many(.param .u32 n, .param .u64 stream, .param .u64 out) {
    .reg .b64 %f, %s, %o; .reg .b32 %n, %r, %done, %error; .reg .pred %p;
    ld.param.u32 %n, [n]; ld.param.u64 %s, [stream]; ld.param.u64 %o, [out]; mov.u64 %f, nothing;
    mov.u32 %done, 0; mov.u32 %error, 0;
again:
    call.uni (%r), launch, (%f, 1, 1, %s);
    setp.eq.u32 %p, %r, 0;
    @%p add.u32 %done, %done, 1;
    @!%p mov.u32 %error, %r;
    sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0;
    @%p bra again;
    st.global.u32 [%o], %done; st.global.u32 [%o+4], %error;
    ret;
}
.visible .entry fills(.param .u32 n, .param .u64 out) {
    .reg .b64 %o, %at; .reg .b32 %n, %r, %done, %error; .reg .pred %p;
    ld.param.u32 %n, [n]; ld.param.u64 %o, [out]; add.u64 %at, %o, 8;
    mov.u32 %done, 0; mov.u32 %error, 0;
again:
    {
        .param .b64 t; .param .b32 v; .param .b64 b; .param .b64 s; .param .b32 r;
        st.param.b64 [t], %at; st.param.b32 [v], 1; st.param.b64 [b], 4; st.param.b64 [s], 0;
        call.uni (r), cudaMemsetAsync, (t, v, b, s);
        ld.param.b32 %r, [r];
    }
    setp.eq.u32 %p, %r, 0;
    @%p add.u32 %done, %done, 1;
    @!%p mov.u32 %error, %r;
    sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0;
    @%p bra again;
    st.global.u32 [%o], %done; st.global.u32 [%o+4], %error;
    ret;
}
.visible .entry endless() {
    .reg .b64 %f; .reg .b32 %r;
    mov.u64 %f, nothing;
again:
    call.uni (%r), launch, (%f, 1, 1, 0);
    bra.uni again;
}
.visible .entry bomb() {
    .reg .b64 %f; .reg .b32 %r;
    mov.u64 %f, bomb;
    call.uni (%r), launch, (%f, 100, 256, 0);
    ret;
}
";

/// Tests that a launch by device code fails with `cudaErrorLaunchPendingCountExceeded` if it would
/// exceed the limit of pending launches. A fill, which is a launch on a GPU, fails in the same way.
/// A launch is pending until its threads have ended.
#[test]
fn device_code_has_a_limit_of_pending_launches() {
    let runtime = one_worker();
    let module = load(&runtime, BOMBS);
    let [many, fills] = ["many", "fills"].map(|name| module.kernel(name).expect("known"));
    let context = runtime.context().expect("a context");
    let out: DeviceBuffer<u32> = runtime.alloc(3).expect("memory");
    let one = LaunchConfig::new(1, 1);
    let run = |launch: &dyn Fn() -> Result<(), Error>| {
        launch().expect("launched");
        runtime.synchronize().expect("no fault");
        out.to_vec().expect("read")[..2].to_vec()
    };
    // The default stream, cudaStreamTailLaunch and cudaStreamFireAndForget.
    for stream in [0_u64, 3, 4] {
        let launch = |n: u32| move || (n, stream);
        let [few, more] = [launch(2048), launch(2100)];
        assert_eq!(
            run(&|| runtime.launch(&many, one, (few().0, few().1, &out))),
            [2048, 0]
        );
        assert_eq!(
            run(&|| runtime.launch(&many, one, (more().0, more().1, &out))),
            [2048, 69]
        );
    }
    assert_eq!(
        run(&|| runtime.launch(&fills, one, (2100_u32, &out))),
        [2048, 69]
    );
    let set = |limit| {
        context
            .set_limit(Limit::DevRuntimePendingLaunchCount, limit)
            .expect("set")
    };
    set(16);
    assert_eq!(
        run(&|| runtime.launch(&many, one, (100_u32, 0_u64, &out))),
        [16, 69]
    );
    set(4096);
    assert_eq!(
        run(&|| runtime.launch(&many, one, (4000_u32, 0_u64, &out))),
        [4000, 0]
    );
}

/// Tests two kernels that exceed their time limit: a kernel that launches grids without end, and a
/// kernel whose child grids launch further grids without end.
#[test]
fn launching_without_end_exceeds_the_time_limit() {
    for (name, blocks, threads) in [("endless", 1, 1), ("bomb", 100, 256)] {
        let runtime = Runtime::builder()
            .workers(2)
            .time_limit(Duration::from_millis(500));
        let runtime = runtime.build().expect("built");
        let module = load(&runtime, BOMBS);
        let kernel = module.kernel(name).expect("known");
        let begin = Instant::now();
        runtime
            .launch(&kernel, LaunchConfig::new(blocks, threads), ())
            .expect("launched");
        let fault = fault(runtime.synchronize());
        assert_eq!(fault.kind, FaultKind::Timeout, "{name}: {fault}");
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(3), "{name}: {took:?}");
    }
}

/// Returns the PTX of a kernel whose threads call a recursive function `depth` times. `registers` registers are live
/// across each call. The innermost call executes `inside`.
fn recursive(registers: usize, inside: &str) -> String {
    let lines = |line: &dyn Fn(usize) -> String| (0..registers).map(line).collect::<String>();
    let set = lines(&|i| format!("    mad.lo.u32 %q{i}, %n, {i}, 1;\n"));
    let sum = lines(&|i| format!("    add.u32 %r, %r, %q{i};\n"));
    format!(
        r"
.func (.reg .b32 %r) descend(.reg .b32 %n) {{
    .reg .b32 %m; .reg .b32 %q<{registers}>; .reg .pred %p;
    mov.u32 %r, 0;
    setp.eq.u32 %p, %n, 0;
    @%p bra LAST;
{set}    sub.u32 %m, %n, 1;
    call (%r), descend, (%m);
{sum}    ret;
LAST:
    {inside}
    ret;
}}
.visible .entry k(.param .u32 depth, .param .u64 out) {{
    .reg .b64 %o; .reg .b32 %n, %t; .reg .pred %p;
    ld.param.u32 %n, [depth]; ld.param.u64 %o, [out];
    call (%n), descend, (%n);
    mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o;
    st.global.u32 [%o], %n;
    ret;
}}
"
    )
}

/// For each call, the interpreter stores the registers of 32 lanes, and the number of registers
/// depends on the function. A limit on the number of nested calls therefore does not limit the
/// memory that the stacks of a CTA need.
#[test]
fn calls_in_the_interpreter_have_a_limit_of_memory() {
    const REGISTERS: usize = 600;
    let run = |inside: &str, threads: usize, depth: u32| {
        let runtime = Runtime::builder().engine(EngineChoice::Interpreter);
        let runtime = runtime.build().expect("built");
        let module = load(&runtime, &recursive(REGISTERS, inside));
        let kernel = module.kernel("k").expect("known");
        let out: DeviceBuffer<u32> = runtime.alloc(threads).expect("memory");
        let config = LaunchConfig::new(1, threads as u32);
        runtime
            .launch(&kernel, config, (depth, &out))
            .expect("launched");
        let done = runtime.synchronize();
        done.map(|()| out.to_vec().expect("read"))
    };
    // Each of `depth` calls adds the sum of `n * i + 1`, where `i` is the register's number.
    let result = |depth: u32| {
        let one = |n: u32| n * (600 * 599 / 2) + 600;
        (1..=depth).map(one).fold(0, u32::wrapping_add)
    };
    // 600 registers have 75 KiB in a warp: 3000 calls need less than the limit of 256 MiB, and 4000 calls more.
    assert_eq!(run("", 1, 3000).expect("no fault"), [result(3000)]);
    assert_eq!(fault(run("", 1, 4000).map(drop)).kind, FaultKind::Stack);
    // The warps run one after the other, and each warp reuses the memory of the previous warp.
    assert_eq!(run("", 1024, 150).expect("no fault"), [result(150); 1024]);
    // At the barrier, all 32 warps have 150 active calls each.
    let fault = fault(run("bar.sync 0;", 1024, 150).map(drop));
    assert_eq!(fault.kind, FaultKind::Stack);
}

/// Names and bodies of loops in which all blocks except the last block wait for the flag that the last
/// block sets. Each loop contains a barrier of the block; some loops also contain other operations at
/// which threads wait.
const POLL_AT_BARRIERS: [(&str, &str); 4] = [
    (
        "barrier and atomic",
        "bar.sync 0; atom.global.add.u32 %r, [%rd], 0; setp.ne.u32 %p, %r, 0;",
    ),
    (
        "barrier and volatile",
        "bar.sync 0; ld.volatile.global.u32 %r, [%rd]; setp.ne.u32 %p, %r, 0;",
    ),
    (
        "barrier and nanosleep",
        "bar.sync 0; nanosleep.u32 100; atom.global.add.u32 %r, [%rd], 0; setp.ne.u32 %p, %r, 0;",
    ),
    (
        "reduction",
        "atom.global.add.u32 %r, [%rd], 0; setp.ne.u32 %q, %r, 0; bar.red.or.pred %p, 0, %q;",
    ),
];

#[test]
fn a_block_that_waits_at_barriers_lets_a_later_block_run() {
    for (name, loop_body) in POLL_AT_BARRIERS {
        for (threads, blocks) in [(1, 2), (64, 2), (96, 40)] {
            let builder = Runtime::builder().workers(1);
            let runtime = builder.time_limit(Duration::from_secs(60)).build();
            let runtime = runtime.expect("built");
            let text = format!(
                ".visible .entry wait(.param .u64 flag) {{
                    .reg .pred %p, %q, %last; .reg .b32 %r, %b, %n; .reg .b64 %rd;
                    ld.param.u64 %rd, [flag];
                    mov.u32 %b, %ctaid.x;
                    mov.u32 %n, %nctaid.x;
                    add.u32 %b, %b, 1;
                    setp.eq.u32 %last, %b, %n;
                    @%last bra set;
                again:
                    {loop_body}
                    @!%p bra again;
                    ret;
                set:
                    atom.global.exch.b32 %r, [%rd], 1;
                    ret;
                }}"
            );
            let module = load(&runtime, &text);
            let mut flag = runtime.upload(&[0u32]).expect("room");
            let kernel = module.kernel("wait").expect("there");
            for cooperative in [false, true] {
                if cooperative && blocks > 2 {
                    continue;
                }
                flag.write(&[0u32]).expect("copied");
                let mut config = LaunchConfig::linear(blocks, threads);
                config.cooperative = cooperative;
                let done = runtime.launch(&kernel, config, (&flag,));
                let done = done.and_then(|_| runtime.synchronize());
                assert!(done.is_ok(), "{name}, {blocks} blocks: {done:?}");
            }
        }
    }
}

/// Kernels in which lanes of one warp wait for each other with volatile accesses. In the first kernel, lane 0 writes
/// 500 times before it sets the flag for which the other lanes wait. In the second kernel, the
/// lanes run one after the other, and each lane waits for its predecessor in its own loop.
const LANES_WAIT: [(&str, &str, u32); 2] = [
    (
        "writes first",
        "setp.ne.u32 %p, %t, 0;
        @%p bra poll;
        mov.u32 %i, 0;
    write:
        st.volatile.global.u32 [%rd+64], %i;
        add.u32 %i, %i, 1;
        setp.lt.u32 %p, %i, 500;
        @%p bra write;
        membar.gl;
        st.volatile.global.u32 [%rd], 1;
        bra done;
    poll:
        ld.volatile.global.u32 %r, [%rd];
        setp.eq.u32 %p, %r, 0;
        @%p bra poll;
        ld.volatile.global.u32 %r, [%rd+64];
    done:",
        32,
    ),
    (
        "take turns",
        "setp.eq.u32 %p, %t, 0; @%p bra first;
        setp.eq.u32 %p, %t, 1; @%p bra second;
    third:
        ld.volatile.global.u32 %r, [%rd];
        setp.ne.u32 %p, %r, 2; @%p bra third;
        st.volatile.global.u32 [%rd], 3;
        bra done;
    second:
        ld.volatile.global.u32 %r, [%rd];
        setp.ne.u32 %p, %r, 1; @%p bra second;
        st.volatile.global.u32 [%rd], 2;
        bra done;
    first:
        st.volatile.global.u32 [%rd], 1;
    again:
        ld.volatile.global.u32 %r, [%rd];
        setp.ne.u32 %p, %r, 3; @%p bra again;
    done:",
        3,
    ),
];

#[test]
fn lanes_of_a_warp_wait_for_each_other_at_several_places() {
    for (name, body, threads) in LANES_WAIT {
        for engine in [EngineChoice::Native, EngineChoice::Interpreter] {
            let builder = Runtime::builder().workers(1).engine(engine);
            let runtime = builder.time_limit(Duration::from_secs(20)).build();
            let runtime = runtime.expect("built");
            let text = format!(
                ".visible .entry wait(.param .u64 flag) {{
                    .reg .pred %p; .reg .b32 %r, %t, %i; .reg .b64 %rd;
                    ld.param.u64 %rd, [flag];
                    mov.u32 %t, %tid.x;
                    {body}
                    ret;
                }}"
            );
            let module = load(&runtime, &text);
            let flag = runtime.upload(&[0u32; 32]).expect("room");
            let kernel = module.kernel("wait").expect("there");
            let done = runtime.launch(&kernel, LaunchConfig::linear(1, threads), (&flag,));
            let done = done.and_then(|_| runtime.synchronize());
            assert!(done.is_ok(), "{name}, {engine:?}: {done:?}");
        }
    }
}
