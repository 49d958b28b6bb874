//! Measures what the producer costs: nanoseconds for each action, the median and the minimum of seven runs after one that is dropped.
//!
//! The environment decides what is measured: without XPTI's variables, the cost while tracing is off. Run it on one core
//! (`taskset -c 0`), in the release profile.

#![expect(
    clippy::print_stdout,
    reason = "the measurements are the program's output"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use margay_xpti::{
    AllocationKind, Arguments, Function, KernelInfo, Launch, Operation, Options, Producer,
};

const FUNCTION: Function<'_> = Function {
    number: 4,
    name: c"cuLaunchKernel",
};
const KERNEL: KernelInfo<'_> = KernelInfo {
    name: "vecadd",
    symbol: "vecadd",
    location: None,
};
const LAUNCH: Launch<'_> = Launch {
    grid: [1; 3],
    block: [32, 1, 1],
    shared_bytes: 0,
    stream: Some(1),
    device: 0,
    correlation: 0,
    arguments: &[],
    after: &[],
};

fn main() {
    match margay_xpti::start(Options::default()) {
        Ok(started) => println!(
            "tracing is {}",
            if started.is_some() { "on" } else { "off" }
        ),
        Err(warning) => return eprintln!("{warning}"),
    }
    measure("empty loop", 200_000, || ());
    measure("call pair", 200_000, || {
        if let Some(producer) = margay_xpti::active() {
            call(producer);
        }
    });
    measure("allocation pair", 100_000, || {
        if let Some(producer) = margay_xpti::active() {
            let allocation = producer.allocate_begin(FUNCTION, AllocationKind::Device, 64);
            producer.allocate_end(allocation, 0);
        }
    });
    measure("submitted kernel", 100_000, || {
        if let Some(producer) = margay_xpti::active() {
            let operation = producer.submit_kernel(&KERNEL, &LAUNCH);
            black_box(&operation);
        }
    });
    let operation = margay_xpti::active().map_or(Operation::NONE, |producer| {
        producer.submit_kernel(&KERNEL, &LAUNCH)
    });
    measure("task pair", 200_000, || {
        if let Some(producer) = margay_xpti::active() {
            drop(producer.begin(&operation));
            producer.end(&operation);
        }
    });
    measure("signal", 200_000, || {
        if let Some(producer) = margay_xpti::active() {
            producer.event_recorded(1, &operation);
        }
    });
    if let Some(producer) = margay_xpti::active() {
        producer.finish(Duration::from_secs(1));
    }
}

fn call(producer: &Producer) {
    let call = producer.call_enter(FUNCTION, Arguments::NONE);
    producer.call_exit(call, FUNCTION, Arguments::NONE, 0);
}

fn measure(what: &str, count: u32, action: impl Fn()) {
    let run = || {
        let start = Instant::now();
        for _ in 0..count {
            action();
            black_box(());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(count)
    };
    run();
    let mut times: Vec<f64> = (0..7).map(|_| run()).collect();
    times.sort_by(f64::total_cmp);
    println!("{what:20} {:8.2} ns, minimum {:8.2} ns", times[3], times[0]);
}
