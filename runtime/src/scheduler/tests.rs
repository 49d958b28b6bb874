//! Tests of the scheduler with kernels written in Rust.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::testing::{Bench, Call, Step, kernel};
use crate::{Error, FaultKind, LaunchConfig, Runtime, Stream, StreamKind};

fn ctas(count: u32) -> LaunchConfig {
    LaunchConfig::new(count, 32)
}

/// A kernel that waits until the atomic variable at the address in parameter 0 is not zero.
fn poll(call: Call<'_>) -> Step {
    // SAFETY: parameter 0 is the address of an atomic that outlives the launch.
    let flag = unsafe { &*(call.param(0) as *const AtomicU64) };
    if flag.load(SeqCst) == 0 {
        Step::Wait(false)
    } else {
        Step::Done
    }
}

/// A kernel that sets the atomic variable at the address in parameter 0.
fn set(call: Call<'_>) -> Step {
    // SAFETY: parameter 0 is the address of an atomic that outlives the launch.
    unsafe { &*(call.param(0) as *const AtomicU64) }.store(1, SeqCst);
    Step::Done
}

fn address(flag: &AtomicU64) -> u64 {
    flag as *const AtomicU64 as u64
}

#[test]
fn every_unit_runs_once_for_any_number_of_workers() {
    for workers in [1, 2, 3, 8] {
        for may_park in [false, true] {
            let counts: Arc<Vec<AtomicU64>> =
                Arc::new((0..10_007).map(|_| AtomicU64::new(0)).collect());
            let seen = Arc::clone(&counts);
            let bench = Bench::new(
                workers,
                vec![kernel("k", 0, may_park, move |call| {
                    let times = seen[call.unit as usize].fetch_add(1, SeqCst);
                    // If units may wait, some of them wait several times.
                    if may_park && call.unit % 7 == 3 && times < 3 {
                        return Step::Wait(false);
                    }
                    Step::Done
                })],
            );
            let launch = bench.runtime.launch(&bench.kernel("k"), ctas(10_007), ());
            launch.expect("launched");
            bench.runtime.synchronize().expect("complete");
            for (unit, count) in counts.iter().enumerate() {
                let expected = if may_park && unit % 7 == 3 { 4 } else { 1 };
                assert_eq!(
                    count.load(SeqCst),
                    expected,
                    "unit {unit}, {workers} workers"
                );
            }
        }
    }
}

#[test]
fn units_start_in_grid_order_or_reversed() {
    for (reverse, may_park) in [(false, true), (true, true), (true, false)] {
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&order);
        let spec = kernel("k", 0, may_park, move |call| {
            if *call.memory == 0 {
                *call.memory = 1;
                seen.lock().push(call.unit);
                if may_park && call.unit % 5 == 0 {
                    return Step::Wait(true);
                }
            }
            Step::Done
        });
        let mut config = crate::device::DeviceConfig::from_env();
        config.sms = 4;
        let builder = Runtime::builder().workers(1).device(config);
        let builder = if reverse { builder.reverse() } else { builder };
        let bench = Bench::with(builder, vec![spec]);
        let launch = bench.runtime.launch(&bench.kernel("k"), ctas(150), ());
        launch.expect("launched");
        bench.runtime.synchronize().expect("complete");
        let expected: Vec<u64> = match (reverse, may_park) {
            (false, _) => (0..150).collect(),
            (true, false) => (0..150).rev().collect(),
            // The device has 4 SMs with 16 CTAs each.
            (true, true) => [0..64, 64..128, 128..150]
                .into_iter()
                .flat_map(|group: std::ops::Range<u64>| group.rev())
                .collect(),
        };
        assert_eq!(*order.lock(), expected);
    }
}

#[test]
fn a_look_back_chain_finishes_with_one_worker() {
    // Each unit waits for the previous one; there are far more units than can be resident.
    let done = Arc::new(AtomicU64::new(0));
    let chain = Arc::clone(&done);
    for (workers, reverse) in [(1, false), (2, false), (4, false), (1, true), (3, true)] {
        done.store(0, SeqCst);
        let chain = Arc::clone(&chain);
        let builder = Runtime::builder().workers(workers);
        let builder = if reverse { builder.reverse() } else { builder };
        let bench = Bench::with(
            builder,
            vec![kernel("chain", 0, true, move |call| {
                if *call.memory < 2 {
                    *call.memory += 1;
                    return Step::Wait(true);
                }
                match chain.compare_exchange(call.unit, call.unit + 1, SeqCst, SeqCst) {
                    Ok(_) => Step::Done,
                    Err(_) => Step::Wait(false),
                }
            })],
        );
        let launch = bench.runtime.launch(&bench.kernel("chain"), ctas(3000), ());
        launch.expect("launched");
        bench.runtime.synchronize().expect("complete");
        assert_eq!(done.load(SeqCst), 3000);
    }
}

#[test]
fn residency_is_limited_and_a_cooperative_grid_is_resident_at_once() {
    // The device has 2 SMs with 16 CTAs each.
    const RESIDENT: usize = 32;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (inside, peak) = (Arc::clone(&now), Arc::clone(&most));
    let arrived = Arc::new(AtomicU64::new(0));
    let barrier = Arc::clone(&arrived);
    let mut config = crate::device::DeviceConfig::from_env();
    config.sms = 2;
    let builder = Runtime::builder().workers(3).device(config);
    let bench = Bench::with(
        builder,
        vec![
            // Each unit waits until the maximum number of units is resident. Then it waits for five more turns, in
            // which a unit beyond the maximum would have started.
            kernel("count", 0, true, move |call| {
                if *call.memory == 0 {
                    peak.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                    *call.memory = 1;
                }
                if peak.load(SeqCst) < RESIDENT {
                    return Step::Wait(false);
                }
                *call.memory += 1;
                if *call.memory < 6 {
                    return Step::Wait(false);
                }
                inside.fetch_sub(1, SeqCst);
                Step::Done
            }),
            kernel("grid", 0, true, move |call| {
                if *call.memory == 0 {
                    *call.memory = 1;
                    barrier.fetch_add(1, SeqCst);
                }
                if barrier.load(SeqCst) < call.shape.units() {
                    return Step::Wait(false);
                }
                Step::Done
            }),
        ],
    );
    let launch = bench.runtime.launch(&bench.kernel("count"), ctas(500), ());
    launch.expect("launched");
    bench.runtime.synchronize().expect("complete");
    assert_eq!(most.load(SeqCst), RESIDENT);
    let grid = bench.kernel("grid");
    let too_large = bench.runtime.launch(&grid, ctas(33).with_cooperative(), ());
    assert!(matches!(
        too_large,
        Err(Error::CooperativeLaunchTooLarge {
            ctas: 33,
            resident: 32
        })
    ));
    let fits = bench.runtime.launch(&grid, ctas(32).with_cooperative(), ());
    fits.expect("fits");
    bench.runtime.synchronize().expect("complete");
}

#[test]
fn two_cooperative_grids_do_not_starve_each_other() {
    let mut config = crate::device::DeviceConfig::from_env();
    config.sms = 2;
    let arrived = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let barriers = Arc::clone(&arrived);
    let spec = kernel("grid", 1, true, move |call| {
        let barrier = &barriers[call.param(0) as usize];
        if *call.memory == 0 {
            *call.memory = 1;
            barrier.fetch_add(1, SeqCst);
        }
        if !barrier.load(SeqCst).is_multiple_of(32) {
            return Step::Wait(false);
        }
        Step::Done
    });
    let builder = Runtime::builder().workers(2).device(config);
    let bench = Bench::with(builder, vec![spec]);
    let streams: Vec<_> = (0..2)
        .map(|_| bench.context.create_stream(StreamKind::NonBlocking, 0))
        .map(|stream| stream.expect("made"))
        .collect();
    for (index, stream) in streams.iter().enumerate() {
        let config = ctas(32).with_cooperative();
        let launch = stream.launch(&bench.kernel("grid"), config, (index as u64,));
        launch.expect("launched");
    }
    bench.runtime.synchronize().expect("complete");
}

/// Tests that, even with only one worker, a kernel that polls a flag ends when the host, another
/// kernel, a host function or a copy sets the flag.
#[test]
fn a_polling_kernel_lets_everything_else_go_on() {
    let bench = Bench::new(
        1,
        vec![kernel("poll", 1, true, poll), kernel("set", 1, false, set)],
    );
    let stream = |_| {
        let stream = bench.context.create_stream(StreamKind::NonBlocking, 0);
        stream.expect("made")
    };
    let [first, second] = [0, 1].map(stream);
    let flag = Arc::new(AtomicU64::new(0));
    let polling = || {
        flag.store(0, SeqCst);
        let launch = first.launch(&bench.kernel("poll"), ctas(2000), (address(&flag),));
        launch.expect("launched");
        std::thread::sleep(Duration::from_millis(5));
        assert!(!first.query().expect("no fault"));
    };

    polling();
    flag.store(1, SeqCst);
    first.synchronize().expect("set by the host");

    polling();
    let setter = second.launch(&bench.kernel("set"), ctas(1), (address(&flag),));
    setter.expect("launched");
    first.synchronize().expect("set by a kernel");

    polling();
    let by_callback = Arc::clone(&flag);
    let function = second.host_function(move || by_callback.store(1, SeqCst));
    function.expect("submitted");
    first.synchronize().expect("set by a host function");

    polling();
    let memory = bench.context.alloc(8).expect("room");
    second.fill(memory, 1, 4, 1, 1, 4).expect("filled");
    let transfer = crate::Transfer::to_host(address(&flag) as *mut u8, memory, 4);
    // SAFETY: the flag lives until the copy is complete.
    unsafe { second.copy_async(transfer) }.expect("copied");
    first.synchronize().expect("set by a copy");
}

#[test]
fn kernels_of_different_streams_overlap() {
    // Each of two kernels waits for the other kernel, so they end only if both run at the same time.
    let flags = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let shared = Arc::clone(&flags);
    let spec = kernel("meet", 1, true, move |call| {
        let me = call.param(0) as usize;
        shared[me].store(1, SeqCst);
        if shared[1 - me].load(SeqCst) == 0 {
            return Step::Wait(false);
        }
        Step::Done
    });
    for workers in [1, 2] {
        flags.iter().for_each(|flag| flag.store(0, SeqCst));
        let bench = Bench::new(workers, vec![spec.clone()]);
        for me in 0..2u64 {
            let stream = bench.context.create_stream(StreamKind::Blocking, 0);
            let stream = stream.expect("made");
            let launch = stream.launch(&bench.kernel("meet"), ctas(1), (me,));
            launch.expect("launched");
        }
        bench.runtime.synchronize().expect("complete");
    }
}

#[test]
fn a_fault_is_sticky_until_the_reset() {
    let ran = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&ran);
    let bench = Bench::new(
        2,
        vec![
            kernel("bad", 0, true, |call| match call.unit {
                5 => Step::Fault(FaultKind::IllegalAddress),
                _ => Step::Wait(false),
            }),
            kernel("good", 0, false, move |_| {
                count.fetch_add(1, SeqCst);
                Step::Done
            }),
        ],
    );
    let memory = bench.context.alloc(64).expect("room");
    let launch = bench.runtime.launch(&bench.kernel("bad"), ctas(100), ());
    launch.expect("launched");
    let _ = bench.runtime.launch(&bench.kernel("good"), ctas(1), ());
    let expected = |error: Error| match error {
        Error::Fault(fault) => {
            assert_eq!(fault.kind, FaultKind::IllegalAddress);
            assert_eq!(fault.kernel, "bad");
            assert_eq!(fault.cta, Some([5, 0, 0]));
        }
        other => panic!("{other}"),
    };
    expected(bench.runtime.synchronize().expect_err("a fault"));
    expected(bench.context.alloc(8).expect_err("sticky"));
    expected(
        bench
            .runtime
            .launch(&bench.kernel("good"), ctas(1), ())
            .expect_err("sticky"),
    );
    assert_eq!(ran.load(SeqCst), 0, "work behind the fault is dropped");

    let device = bench.runtime.device(0).expect("one");
    device.primary_reset().expect("reset");
    bench.runtime.synchronize().expect("fresh");
    assert!(bench.context.free(memory).is_err(), "freed by the reset");
    let module = bench.runtime.load_ptx("").expect("loads");
    let good = module.kernel("good").expect("known");
    bench.runtime.launch(&good, ctas(3), ()).expect("launched");
    bench.runtime.synchronize().expect("complete");
    assert_eq!(ran.load(SeqCst), 3);
}

#[test]
fn a_panic_in_the_engine_fails_the_launch_only() {
    let bench = Bench::new(1, vec![kernel("panics", 0, false, |_| panic!("oops"))]);
    let launch = bench.runtime.launch(&bench.kernel("panics"), ctas(4), ());
    launch.expect("launched");
    match bench.runtime.synchronize() {
        Err(Error::Fault(fault)) => assert!(fault.detail.contains("oops"), "{fault}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_time_limit_tells_who_waits() {
    let flag = AtomicU64::new(0);
    let builder = Runtime::builder()
        .workers(2)
        .time_limit(Duration::from_millis(50));
    let bench = Bench::with(builder, vec![kernel("poll", 1, true, poll)]);
    let begin = Instant::now();
    let launch = bench
        .runtime
        .launch(&bench.kernel("poll"), ctas(3), (address(&flag),));
    launch.expect("launched");
    match bench.runtime.synchronize() {
        Err(Error::Fault(fault)) => {
            assert_eq!(fault.kind, FaultKind::Timeout);
            assert!(fault.detail.contains("wait"), "{fault}");
        }
        other => panic!("{other:?}"),
    }
    assert!(begin.elapsed() >= Duration::from_millis(50));
}

/// Launches a kernel once in each of `count` streams.
fn in_streams(bench: &Bench, name: &str, count: usize, argument: u64) -> Vec<Stream> {
    let streams = (0..count).map(|_| {
        let made = bench.context.create_stream(StreamKind::NonBlocking, 0);
        let stream = made.expect("made");
        let launch = stream.launch(&bench.kernel(name), ctas(1), (argument,));
        launch.expect("launched");
        stream
    });
    streams.collect()
}

#[test]
fn launches_that_wait_for_one_behind_hundreds_go_on() {
    let flag = AtomicU64::new(0);
    let bench = Bench::new(
        1,
        vec![kernel("poll", 1, true, poll), kernel("set", 1, false, set)],
    );
    let _polls = in_streams(&bench, "poll", 300, address(&flag));
    let _set = in_streams(&bench, "set", 1, address(&flag));
    bench.runtime.synchronize().expect("complete");
}

#[test]
fn an_urgent_launch_starts_before_hundreds_that_are_queued() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let bench = Bench::new(
        1,
        vec![kernel("note", 1, false, move |call| {
            while !gate.load(SeqCst) {
                std::thread::yield_now();
            }
            seen.lock().push(call.param(0));
            Step::Done
        })],
    );
    let _many = in_streams(&bench, "note", 400, 0);
    let urgent = bench.context.create_stream(StreamKind::NonBlocking, -1);
    let urgent = urgent.expect("made");
    let launch = urgent.launch(&bench.kernel("note"), ctas(1), (1u64,));
    launch.expect("launched");
    go.store(true, SeqCst);
    bench.runtime.synchronize().expect("complete");
    let order = order.lock();
    assert_eq!(order.len(), 401);
    let before = order.iter().position(|&argument| argument == 1);
    assert!(before.is_some_and(|before| before <= 2), "{before:?}");
}

#[test]
fn a_reset_ends_queued_launches() {
    let bench = Bench::new(1, vec![kernel("poll", 1, true, poll)]);
    let flag = AtomicU64::new(0);
    let streams = in_streams(&bench, "poll", 300, address(&flag));
    let device = bench.runtime.device(0).expect("one");
    device.primary_reset().expect("reset");
    drop(streams);
    bench.runtime.synchronize().expect("fresh");
}

#[test]
fn a_reset_ends_a_running_launch() {
    let started = Arc::new(AtomicBool::new(false));
    let running = Arc::clone(&started);
    let spec = kernel("endless", 0, false, move |call| {
        running.store(true, SeqCst);
        while !call.worker.stop_requested() {
            std::thread::yield_now();
        }
        Step::Wait(true)
    });
    let bench = Bench::new(2, vec![spec]);
    let launch = bench.runtime.launch(&bench.kernel("endless"), ctas(4), ());
    launch.expect("launched");
    while !started.load(SeqCst) {
        std::thread::yield_now();
    }
    let device = bench.runtime.device(0).expect("one");
    device.primary_reset().expect("reset");
    bench.runtime.synchronize().expect("fresh");
}

/// Tests two launches, of which the first never parks and runs until the second has run. The worker
/// that was the watcher runs the first launch. It must therefore wake another worker for the second
/// launch.
#[test]
fn a_launch_beside_a_busy_one_finds_a_worker() {
    let turn = Arc::new(AtomicU64::new(0));
    let (busy, other) = (Arc::clone(&turn), Arc::clone(&turn));
    let bench = Bench::new(
        2,
        vec![
            kernel("busy", 1, false, move |call| {
                while busy.load(SeqCst) < call.param(0) && !call.worker.stop_requested() {
                    std::thread::yield_now();
                }
                Step::Done
            }),
            kernel("next", 1, false, move |call| {
                other.store(call.param(0), SeqCst);
                Step::Done
            }),
        ],
    );
    let stream = || {
        let made = bench.context.create_stream(StreamKind::NonBlocking, 0);
        made.expect("made")
    };
    let (first, second) = (stream(), stream());
    for round in 1..=2000u64 {
        // In some rounds the launches begin at once, in others while the workers are about to sleep.
        for _ in 0..round % 300 {
            std::hint::spin_loop();
        }
        let (busy, next) = (bench.kernel("busy"), bench.kernel("next"));
        first.launch(&busy, ctas(1), (round,)).expect("launched");
        second.launch(&next, ctas(1), (round,)).expect("launched");
        bench.runtime.synchronize().expect("complete");
        assert_eq!(turn.load(SeqCst), round);
    }
}

#[test]
fn what_was_slow_counts_as_slow_for_a_while() {
    let bench = Bench::new(
        1,
        vec![kernel("sleepy", 1, false, |call| {
            std::thread::sleep(Duration::from_millis(call.param(0)));
            Step::Done
        })],
    );
    let sleepy = bench.kernel("sleepy");
    let pace_behind = |milliseconds: u64| {
        let launched = bench.runtime.launch(&sleepy, ctas(1), (milliseconds,));
        launched.expect("launched");
        bench.runtime.synchronize().expect("complete");
        sleepy.pace().load(SeqCst)
    };
    assert!(pace_behind(2) >= 2_000_000);
    assert!(pace_behind(0) >= 1_000_000);
}

#[test]
fn many_tiny_launches() {
    let ran = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&ran);
    let bench = Bench::new(
        2,
        vec![kernel("tiny", 0, false, move |_| {
            count.fetch_add(1, SeqCst);
            Step::Done
        })],
    );
    let tiny = bench.kernel("tiny");
    let begin = Instant::now();
    for _ in 0..10_000 {
        bench.runtime.launch(&tiny, ctas(1), ()).expect("launched");
    }
    bench.runtime.synchronize().expect("complete");
    assert_eq!(ran.load(SeqCst), 10_000);
    println!("{:?} per launch", begin.elapsed() / 10_000);
    let begin = Instant::now();
    for _ in 0..1000 {
        bench.runtime.launch(&tiny, ctas(1), ()).expect("launched");
        bench.runtime.synchronize().expect("complete");
    }
    println!("{:?} per launch and wait", begin.elapsed() / 1000);
}
