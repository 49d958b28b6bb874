//! Plays a small CUDA program for an XPTI subscriber: a copy and two launches in one stream.
//!
//! `one_stream [--sycl] [--high]`: `--sycl` also sends the events on the SYCL streams, `--high` sends barriers and
//! transfers. The environment variables of XPTI name the framework and the subscriber.

use std::ffi::CStr;
use std::time::Duration;

use margay_xpti::{
    AllocationKind, Arguments, BarrierSite, Call, Copy, CopyKind, Dependence, Detail, Device, Fill,
    Function, KernelInfo, Launch, Location, Operation, Options, Producer, Reason, WaitKind,
};

const VECADD: KernelInfo<'_> = KernelInfo {
    name: "vecadd",
    symbol: "_Z6vecaddPf",
    location: Some(Location {
        file: "k.cu",
        line: 10,
        column: 3,
    }),
};
const ADDRESS: u64 = 0x7f00_0000_1000;
const STREAM: u64 = 1;

fn main() {
    let set = |option| std::env::args().any(|argument| argument == option);
    let options = Options {
        sycl_names: set("--sycl"),
        detail: if set("--high") {
            Detail::High
        } else {
            Detail::Normal
        },
        devices: vec![Device {
            name: "Margay".to_owned(),
            kind: "cpu".to_owned(),
        }],
        ..Options::default()
    };
    match margay_xpti::start(options) {
        Ok(Some(producer)) => {
            play(producer);
            eprintln!("{:?}", producer.finish(Duration::from_secs(10)));
            play_on();
        }
        Ok(None) => eprintln!("tracing is off"),
        Err(warning) => eprintln!("{warning}"),
    }
}

fn play(producer: &Producer) {
    let module = call(producer, 1, c"cuModuleLoadData", |_, _| {
        producer.module_loaded();
        "k.cu"
    });
    producer.stream_created(STREAM);
    call(producer, 2, c"cuMemAlloc_v2", |function, _| {
        let allocation = producer.allocate_begin(function, AllocationKind::Device, 4096);
        producer.allocate_end(allocation, ADDRESS);
    });
    let copied = call(producer, 3, c"cuMemcpyHtoDAsync_v2", |function, call| {
        producer.submit_copy(&copy(function, call))
    });
    run(producer, &copied);
    let first = call(producer, 4, c"cuLaunchKernel", |_, call| {
        let after = [Dependence {
            on: &copied,
            reason: Reason::StreamOrder,
        }];
        producer.submit_kernel(&VECADD, &launch(call, &after))
    });
    run(producer, &first);
    call(producer, 4, c"cuLaunchKernel", |_, call| {
        let second = producer.submit_kernel(&VECADD, &launch(call, &[]));
        run(producer, &second);
    });
    call(producer, 5, c"cuStreamWaitEvent", |_, _| {
        let on = Dependence {
            on: &first,
            reason: Reason::Event,
        };
        producer.depend(&copied, on);
    });
    call(producer, 6, c"cuStreamSynchronize", |function, _| {
        let wait = producer.wait_begin(function, WaitKind::Stream);
        producer.wait_end(wait);
    });
    if std::env::args().any(|argument| argument == "--high") {
        play_details(producer, module);
    }
    call(producer, 7, c"cuMemFree_v2", |function, _| {
        let release = producer.release_begin(function, ADDRESS, 4096);
        producer.release_end(release);
    });
}

/// What the small program lacks: a fill, a copy to the host, an event, a barrier, an error.
fn play_details(producer: &Producer, file: &str) {
    let filled = call(producer, 8, c"cuMemsetD8Async", |function, call| {
        producer.submit_fill(&Fill {
            function,
            value: 7,
            to: ADDRESS,
            bytes: 64,
            stream: None,
            location: None,
            correlation: call.id(),
            after: &[],
        })
    });
    run(producer, &filled);
    producer.event_recorded(9, &filled);
    let back = call(producer, 9, c"cuMemcpyDtoHAsync_v2", |function, call| {
        producer.submit_copy(&Copy {
            kind: CopyKind::DeviceToHost,
            to: 0x1000,
            from: ADDRESS,
            ..copy(function, call)
        })
    });
    run(producer, &back);
    let location = Some(Location {
        file,
        line: 12,
        column: 1,
    });
    let barrier = producer.barrier_begin(&BarrierSite {
        kernel: VECADD.name,
        location,
        instruction: 3,
        cta: 2,
    });
    producer.barrier_end(barrier);
    producer.diagnostic("vecadd: an illegal address");
    producer.stream_created(2);
    producer.stream_destroyed(2);
}

/// What a program does after the end causes no notification.
fn play_on() {
    assert!(margay_xpti::active().is_none());
}

fn call<T>(
    producer: &Producer,
    number: u32,
    name: &CStr,
    body: impl FnOnce(Function<'_>, &Call) -> T,
) -> T {
    let function = Function { number, name };
    let parameters = [u64::from(number)];
    let arguments = Arguments::from(&parameters);
    let call = producer.call_enter(function, arguments);
    let result = body(function, &call);
    producer.call_exit(call, function, arguments, 0);
    result
}

fn copy<'a>(function: Function<'a>, call: &Call) -> Copy<'a> {
    Copy {
        function,
        kind: CopyKind::HostToDevice,
        to: ADDRESS,
        from: 0x5000,
        bytes: 4096,
        stream: Some(STREAM),
        location: None,
        correlation: call.id(),
        after: &[],
    }
}

fn launch<'a>(call: &Call, after: &'a [Dependence<'a>]) -> Launch<'a> {
    Launch {
        grid: [4, 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
        stream: Some(STREAM),
        device: 0,
        correlation: call.id(),
        arguments: &[&[0x00, 0x10, 0x00, 0x00, 0x00, 0x7f, 0x00, 0x00], &[1, 2]],
        after,
    }
}

/// Runs an operation on two threads, as workers do: one begins it, the other ends it.
fn run(producer: &Producer, operation: &Operation) {
    std::thread::scope(|scope| {
        let begin = || drop(producer.begin(operation));
        let _ = scope.spawn(begin).join();
        let _ = scope.spawn(|| producer.end(operation)).join();
    });
}
