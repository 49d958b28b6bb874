//! Sends events from several threads at once, for tests of the invariants: `many_threads THREADS ROUNDS`.
//!
//! The threads share kernels and addresses of copies. While they send, the main thread ends tracing if the third argument
//! is `finish`.

use std::time::Duration;

use margay_xpti::{
    AllocationKind, Arguments, Copy, CopyKind, Dependence, Function, KernelInfo, Launch, Operation,
    Options, Producer, Reason, WaitKind,
};

const LAUNCH: Function<'_> = Function {
    number: 1,
    name: c"cuLaunchKernel",
};
const COPY: Function<'_> = Function {
    number: 2,
    name: c"cuMemcpyDtoDAsync_v2",
};
const ALLOCATE: Function<'_> = Function {
    number: 3,
    name: c"cuMemAlloc_v2",
};
const WAIT: Function<'_> = Function {
    number: 4,
    name: c"cuCtxSynchronize",
};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse().ok());
    let (threads, rounds) = (number(1).unwrap_or(4), number(2).unwrap_or(100));
    let producer = match margay_xpti::start(Options::default()) {
        Ok(Some(producer)) => producer,
        Ok(None) => return eprintln!("tracing is off"),
        Err(warning) => return eprintln!("{warning}"),
    };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || work(producer, thread, rounds));
        }
        if arguments
            .get(3)
            .is_some_and(|argument| argument == "finish")
        {
            std::thread::sleep(Duration::from_millis(20));
            eprintln!("{:?}", producer.finish(Duration::from_secs(10)));
        }
    });
    eprintln!("{:?}", producer.finish(Duration::from_secs(10)));
}

fn work(producer: &Producer, thread: u64, rounds: u64) {
    let mut last = Operation::NONE;
    producer.stream_created(thread);
    for round in 0..rounds {
        let operation = submit(producer, thread, round, &last);
        let attached = producer.begin(&operation);
        drop(attached);
        producer.event_recorded(round, &operation);
        producer.end(&operation);
        memory(producer, thread + 1, round);
        last = operation;
    }
    producer.stream_destroyed(thread);
}

fn submit(producer: &Producer, thread: u64, round: u64, last: &Operation) -> Operation {
    let function = if round.is_multiple_of(2) {
        LAUNCH
    } else {
        COPY
    };
    let call = producer.call_enter(function, Arguments::NONE);
    let after = [Dependence {
        on: last,
        reason: Reason::StreamOrder,
    }];
    let operation = if round.is_multiple_of(2) {
        let name = format!("kernel{}", round % 20);
        let kernel = KernelInfo {
            name: &name,
            symbol: &name,
            location: None,
        };
        producer.submit_kernel(&kernel, &launch(thread, call.id(), &after))
    } else {
        producer.submit_copy(&Copy {
            function,
            kind: CopyKind::DeviceToDevice,
            to: round % 32 * 4096,
            from: 0x10_0000,
            bytes: 4096,
            stream: Some(thread),
            location: None,
            correlation: call.id(),
            after: &after,
        })
    };
    producer.call_exit(call, function, Arguments::NONE, 0);
    operation
}

fn launch<'a>(stream: u64, correlation: u64, after: &'a [Dependence<'a>]) -> Launch<'a> {
    Launch {
        grid: [1; 3],
        block: [32, 1, 1],
        shared_bytes: 0,
        stream: Some(stream),
        device: 0,
        correlation,
        arguments: &[],
        after,
    }
}

fn memory(producer: &Producer, thread: u64, round: u64) {
    let address = thread << 32 | (round + 1) << 12;
    let allocation = producer.allocate_begin(ALLOCATE, AllocationKind::Managed, 64);
    producer.allocate_end(allocation, address);
    let wait = producer.wait_begin(WAIT, WaitKind::Context);
    producer.wait_end(wait);
    let release = producer.release_begin(ALLOCATE, address, 64);
    producer.release_end(release);
}
