//! Tests that run random programs with streams and events, and check that operations run in an
//! order that CUDA's rules allow.
//!
//! When an operation begins, and again when it ends, it increments a shared counter and stores the
//! counter's value. An oracle computes which pairs of operations are ordered. The oracle uses only
//! CUDA's rules and does not use the runtime's tasks and queues. In each ordered pair, the first
//! operation must end before the second operation begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::testing::{Bench, Step, kernel};
use crate::{Event, EventFlags, LaunchConfig, Stream, StreamKind, Transfer};

/// A random number generator. It has a seed, so that a failing test can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

#[derive(Default)]
struct Span {
    begin: AtomicU64,
    end: AtomicU64,
}

/// Computes from CUDA's ordering rules which operations each operation must wait for.
struct Oracle {
    kinds: Vec<StreamKind>,
    /// The operations submitted to each stream.
    submitted: Vec<Vec<usize>>,
    /// For each event, the operations that must be complete before the event is complete, according
    /// to the last call that recorded the event.
    recorded: Vec<Vec<usize>>,
    /// For each stream, the operations that its later work waits for because the stream has waited
    /// for events.
    awaited: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
}

impl Oracle {
    fn new(kinds: &[StreamKind], events: usize) -> Oracle {
        Oracle {
            kinds: kinds.to_vec(),
            submitted: vec![Vec::new(); kinds.len()],
            recorded: vec![Vec::new(); events],
            awaited: vec![Vec::new(); kinds.len()],
            before: Vec::new(),
        }
    }

    /// Returns all operations that must be complete before work that is submitted to `stream` now
    /// can start.
    fn earlier(&self, stream: usize) -> Vec<usize> {
        let synchronising = |kind| kind != StreamKind::NonBlocking;
        let is_legacy = |other: usize| self.kinds[other] == StreamKind::Legacy;
        let ordered = |other: usize| {
            other == stream
                || (synchronising(self.kinds[other])
                    && synchronising(self.kinds[stream])
                    && (is_legacy(stream) || is_legacy(other)))
        };
        let mut all = Vec::new();
        for other in (0..self.kinds.len()).filter(|&other| ordered(other)) {
            all.extend(&self.submitted[other]);
            all.extend(&self.awaited[other]);
        }
        all
    }

    /// Returns all operations that must be complete when `stream` is idle.
    fn of(&self, stream: usize) -> Vec<usize> {
        if self.kinds[stream] == StreamKind::Legacy {
            return self.earlier(stream);
        }
        let own = self.submitted[stream].iter().chain(&self.awaited[stream]);
        own.copied().collect()
    }

    fn operation(&mut self, stream: usize) {
        let earlier = self.earlier(stream);
        self.submitted[stream].push(self.before.len());
        self.before.push(earlier);
    }

    fn record(&mut self, event: usize, stream: usize) {
        self.recorded[event] = self.earlier(stream);
    }

    fn wait(&mut self, stream: usize, event: usize) {
        let more = self.recorded[event].clone();
        self.awaited[stream].extend(more);
    }
}

struct Program {
    bench: Bench,
    streams: Vec<Stream>,
    events: Vec<Event>,
    spans: Arc<Vec<Span>>,
    clock: Arc<AtomicU64>,
}

const OPERATIONS: usize = 60;

impl Program {
    fn new(workers: usize) -> Program {
        let spans: Arc<Vec<Span>> = Arc::new((0..OPERATIONS).map(|_| Span::default()).collect());
        let clock = Arc::new(AtomicU64::new(1));
        let (noted, ticks) = (Arc::clone(&spans), Arc::clone(&clock));
        let spec = kernel("note", 2, true, move |call| {
            let span = &noted[call.param(0) as usize];
            if *call.memory == 0 && call.unit == 0 {
                span.begin.store(ticks.fetch_add(1, SeqCst), SeqCst);
            }
            *call.memory += 1;
            if *call.memory <= call.param(1) {
                return Step::Wait(false);
            }
            span.end.fetch_max(ticks.fetch_add(1, SeqCst), SeqCst);
            Step::Done
        });
        let bench = Bench::new(workers, vec![spec]);
        let context = &bench.context;
        let created = |kind, priority| context.create_stream(kind, priority).expect("made");
        let streams = vec![
            context.legacy_stream(),
            context.per_thread_stream(),
            created(StreamKind::Blocking, 0),
            created(StreamKind::Blocking, -2),
            created(StreamKind::NonBlocking, -5),
            created(StreamKind::NonBlocking, 0),
        ];
        let event = |_| context.create_event(EventFlags::default()).expect("made");
        Program {
            events: (0..3).map(event).collect(),
            streams,
            spans,
            clock,
            bench,
        }
    }

    /// Submits a kernel or a host function with a random running time.
    fn operation(&self, random: &mut Random, number: usize, stream: &Stream) {
        if random.below(4) == 0 {
            let (spans, clock) = (Arc::clone(&self.spans), Arc::clone(&self.clock));
            let function = move || {
                let tick = |at: &AtomicU64| at.store(clock.fetch_add(1, SeqCst), SeqCst);
                tick(&spans[number].begin);
                std::thread::yield_now();
                tick(&spans[number].end);
            };
            stream.host_function(function).expect("submitted");
            return;
        }
        let config = LaunchConfig::new(1 + random.below(3) as u32, 1);
        let waits = random.below(4);
        let kernel = self.bench.kernel("note");
        let launch = stream.launch(&kernel, config, (number as u64, waits));
        launch.expect("launched");
    }
}

fn run(seed: u64, workers: usize) {
    let mut random = Random(seed);
    let program = Program::new(workers);
    let kinds: Vec<StreamKind> = program.streams.iter().map(Stream::kind).collect();
    let mut oracle = Oracle::new(&kinds, program.events.len());
    let mut number = 0;
    while number < OPERATIONS {
        let at = random.below(program.streams.len() as u64) as usize;
        let event = random.below(program.events.len() as u64) as usize;
        let stream = &program.streams[at];
        match random.below(10) {
            0 | 1 => {
                program.events[event].record(stream).expect("recorded");
                oracle.record(event, at);
            }
            2 | 3 => {
                stream
                    .wait_event(&program.events[event])
                    .expect("submitted");
                oracle.wait(at, event);
            }
            4 => {
                // When this call returns, all work that the stream waited for is complete.
                stream.synchronize().expect("no fault");
                for before in oracle.of(at) {
                    assert!(program.spans[before].end.load(SeqCst) > 0, "seed {seed}");
                }
            }
            _ => {
                program.operation(&mut random, number, stream);
                oracle.operation(at);
                number += 1;
            }
        }
    }
    program.bench.runtime.synchronize().expect("complete");
    for (second, before) in oracle.before.iter().enumerate() {
        let begin = program.spans[second].begin.load(SeqCst);
        assert!(begin > 0, "seed {seed}: operation {second} never ran");
        for &first in before {
            let end = program.spans[first].end.load(SeqCst);
            assert!(end < begin, "seed {seed}: {first} must end before {second}");
        }
    }
}

#[test]
fn random_programs_keep_every_order() {
    let seeds = match std::env::var_os("MARGAY_FULL") {
        Some(_) => 0..10_000,
        None => 0..150,
    };
    for seed in seeds {
        run(seed, 1 + (seed % 3) as usize);
    }
}

#[test]
fn an_event_is_a_snapshot() {
    let bench = Bench::new(1, vec![]);
    let context = &bench.context;
    let made = |kind| context.create_stream(kind, 0).expect("made");
    let (first, second) = (made(StreamKind::NonBlocking), made(StreamKind::NonBlocking));
    let event = context.create_event(EventFlags::default()).expect("made");
    assert!(event.query().expect("never recorded counts as complete"));
    event.synchronize().expect("no wait");
    second.wait_event(&event).expect("no wait");

    let gate = Arc::new(AtomicU64::new(0));
    let wait_for = |value: u64| {
        let gate = Arc::clone(&gate);
        move || {
            while gate.load(SeqCst) < value {
                std::thread::yield_now();
            }
        }
    };
    first.host_function(wait_for(1)).expect("submitted");
    event.record(&first).expect("recorded");
    first.host_function(wait_for(2)).expect("submitted");
    assert!(!event.query().expect("recorded"));
    second.wait_event(&event).expect("submitted");
    assert!(!second.query().expect("waits"));
    gate.store(1, SeqCst);
    // The second host function, which still runs, was submitted after the record.
    event.synchronize().expect("complete");
    second.synchronize().expect("complete");
    assert!(!first.query().expect("still at work"));
    gate.store(2, SeqCst);
    first.synchronize().expect("complete");
}

#[test]
fn elapsed_times() {
    let bench = Bench::new(1, vec![]);
    let context = &bench.context;
    let stream = context.legacy_stream();
    let event = |flags| context.create_event(flags).expect("made");
    let (start, end) = (event(EventFlags::default()), event(EventFlags::default()));
    assert!(end.elapsed_ms_since(&start).is_err(), "never recorded");
    start.record(&stream).expect("recorded");
    let nap = || std::thread::sleep(std::time::Duration::from_millis(20));
    stream.host_function(nap).expect("submitted");
    end.record(&stream).expect("recorded");
    assert!(matches!(
        end.elapsed_ms_since(&start),
        Err(crate::Error::NotReady)
    ));
    end.synchronize().expect("complete");
    let elapsed = end.elapsed_ms_since(&start).expect("both complete");
    assert!((20.0..2000.0).contains(&elapsed), "{elapsed}");
    let untimed = event(EventFlags {
        disable_timing: true,
        ..EventFlags::default()
    });
    untimed.record(&stream).expect("recorded");
    assert!(untimed.elapsed_ms_since(&start).is_err());
}

#[test]
fn copies_and_fills_keep_the_order_and_pageable_memory_is_staged() {
    let bench = Bench::new(1, vec![]);
    let context = &bench.context;
    let stream = context
        .create_stream(StreamKind::NonBlocking, 0)
        .expect("made");
    let gate = Arc::new(AtomicU64::new(0));
    let closed = Arc::clone(&gate);
    let wait = move || {
        while closed.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
    };
    let memory = context.alloc(1 << 20).expect("room");
    stream.host_function(wait).expect("submitted");
    // The copy must wait for the host function, which waits until `gate` is 1.
    let mut source = vec![7u8; 1 << 20];
    let copy = crate::Transfer::to_device(memory, source.as_ptr(), 1 << 20);
    // SAFETY: the source is staged before the call returns.
    unsafe { stream.copy_async(copy) }.expect("submitted");
    source.fill(9);
    stream
        .fill(memory, 0x0403_0201, 4, 2, 2, 16)
        .expect("filled");
    gate.store(1, SeqCst);
    let mut back = vec![0u8; 32];
    let copy = crate::Transfer::to_host(back.as_mut_ptr(), memory, 32);
    // SAFETY: pageable memory is written before the call returns.
    unsafe { stream.copy_async(copy) }.expect("copied");
    let mut expected = vec![7u8; 32];
    expected[..8].copy_from_slice(&[1, 2, 3, 4, 1, 2, 3, 4]);
    expected[16..24].copy_from_slice(&[1, 2, 3, 4, 1, 2, 3, 4]);
    assert_eq!(back, expected);
    context.free(memory).expect("freed");
}

#[test]
fn copies_that_wait_keep_a_limited_number_of_bytes() {
    const BYTES: usize = 16 << 20;
    let bench = Bench::new(1, vec![]);
    let context = &bench.context;
    let stream = context
        .create_stream(StreamKind::NonBlocking, 0)
        .expect("made");
    let is_open = Arc::new(AtomicU64::new(0));
    let opens = Arc::clone(&is_open);
    // No copy can run before this function returns.
    let wait = move || {
        std::thread::sleep(std::time::Duration::from_secs(2));
        opens.store(1, SeqCst);
    };
    stream.host_function(wait).expect("submitted");
    let memory = context.alloc(BYTES as u64).expect("room");
    let source = vec![7u8; BYTES];
    for _ in 0..20 {
        let copy = crate::Transfer::to_device(memory, source.as_ptr(), BYTES as u64);
        // SAFETY: the source is read before the call returns.
        unsafe { stream.copy_async(copy) }.expect("submitted");
    }
    // The 20 copies read 320 MiB in total, of which at most 256 MiB are staged.
    assert_eq!(is_open.load(SeqCst), 1);
    stream.synchronize().expect("complete");
    context.free(memory).expect("freed");
}

// Regression test: 16,384 launches with 32 KiB of parameters each could be pending.
#[test]
fn launches_that_wait_have_a_limited_number_of_bytes_of_parameters() {
    const BYTES: usize = 32 << 10;
    const LIMIT: usize = 64 << 20;
    const MORE: usize = 3000;
    let (started, is_open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (starts, opens) = (Arc::clone(&started), Arc::clone(&is_open));
    let runs = kernel("runs", BYTES as u32 / 8, true, move |_| {
        starts.fetch_add(1, SeqCst);
        Step::Done
    });
    let waits = kernel("waits", 0, true, move |_| match opens.load(SeqCst) {
        0 => Step::Wait(false),
        _ => Step::Done,
    });
    let bench = Bench::new(1, vec![runs, waits]);
    let context = &bench.context;
    let stream = |_| context.create_stream(StreamKind::NonBlocking, 0);
    let [slow, other] = [0, 1].map(stream).map(|stream| stream.expect("made"));
    let launch = |stream: &Stream, name| {
        let kernel = bench.kernel(name);
        stream
            .launch_packed(&kernel, LaunchConfig::default(), kernel.empty_params())
            .expect("submitted");
    };
    // The launches that fill the queue wait for this thread, so later calls must not wait for them forever.
    launch(&slow, "waits");
    for _ in 0..LIMIT / BYTES + 10 {
        launch(&slow, "runs");
    }
    assert_eq!(started.load(SeqCst), 0);
    assert!(context.counted_parameters() >= LIMIT);
    launch(&other, "runs");
    other.synchronize().expect("complete");
    is_open.store(1, SeqCst);
    // Now tasks complete. Calls wait again, even though a call has stopped waiting before.
    let sleeps = || std::thread::sleep(std::time::Duration::from_micros(300));
    for _ in 0..MORE {
        slow.host_function(sleeps).expect("submitted");
        launch(&slow, "runs");
    }
    let pending = context.counted_parameters();
    assert!(pending <= LIMIT + 100 * BYTES, "{pending}");
    slow.synchronize().expect("complete");
    assert_eq!(started.load(SeqCst) as usize, LIMIT / BYTES + 11 + MORE);
    // The worker may still hold its last launch.
    assert!(context.counted_parameters() <= 2 * BYTES);
}

#[test]
fn misuse_is_an_error() {
    let bench = Bench::new(1, vec![]);
    let context = &bench.context;
    let stream = context.legacy_stream();
    let memory = context.alloc(16).expect("room");
    let mut host = [0u8; 32];
    let copy = crate::Transfer::to_host(host.as_mut_ptr(), memory, 17);
    // SAFETY: the call returns an error before it accesses memory.
    assert!(unsafe { stream.copy(copy) }.is_err(), "past the end");
    assert!(stream.fill(memory.offset(1), 0, 4, 1, 1, 0).is_err());
    assert!(stream.fill(memory, 0, 1, 17, 1, 0).is_err());
    assert!(
        stream
            .fill(memory, 0, 1, u64::MAX, u64::MAX, u64::MAX)
            .is_err()
    );
    assert!(context.free(memory.offset(8)).is_err(), "no start");
    context.free(memory).expect("once");
    assert!(context.free(memory).is_err(), "twice");
    assert!(context.alloc(0).is_err());
    assert!(context.alloc(u64::MAX).is_err());
    assert!(stream.destroy().is_err());

    let created = context
        .create_stream(StreamKind::Blocking, -99)
        .expect("made");
    assert_eq!(created.priority(), -5);
    created.destroy().expect("once");
    assert!(created.destroy().is_err());
    assert!(created.query().is_err());

    let blocked = Arc::new(parking_lot::Mutex::new(None));
    let (seen, waits_for_itself) = (Arc::clone(&blocked), stream.clone());
    let function = move || *seen.lock() = Some(waits_for_itself.synchronize());
    stream.host_function(function).expect("submitted");
    stream.synchronize().expect("complete");
    assert!(matches!(
        *blocked.lock(),
        Some(Err(crate::Error::NotPermitted(_)))
    ));
}

// Regression test: the copy waited for the host function that called it.
#[test]
fn host_functions_cannot_copy_to_pageable_memory() {
    let bench = Bench::new(1, vec![]);
    let context = bench.runtime.context().expect("alive");
    let (own, other) = (
        context.legacy_stream(),
        context.create_stream(StreamKind::NonBlocking, 0),
    );
    let memory = context.alloc(64).expect("room");
    for stream in [other.expect("made"), own.clone()] {
        let seen = Arc::new(parking_lot::Mutex::new(None));
        let outcome = Arc::clone(&seen);
        let function = move || {
            let mut bytes = [0u8; 64];
            let transfer = Transfer::to_host(bytes.as_mut_ptr(), memory, 64);
            // SAFETY: the memory is valid during the call, and the copy does not outlive the call.
            *outcome.lock() = Some(unsafe { stream.copy_async(transfer) });
        };
        own.host_function(function).expect("submitted");
        own.synchronize().expect("complete");
        let copied = seen.lock().take();
        assert!(
            matches!(copied, Some(Err(crate::Error::NotPermitted(_)))),
            "{copied:?}"
        );
    }
}

#[test]
fn created_contexts_end_with_all_they_own() {
    let bench = Bench::new(1, vec![]);
    let device = bench.runtime.device(0).expect("one");
    let context = device.create_context(0).expect("made");
    let stream = context
        .create_stream(StreamKind::Blocking, 0)
        .expect("made");
    let memory = context.alloc(64).expect("room");
    assert!(bench.runtime.pointer_info(memory.address() + 63).is_some());
    context.destroy().expect("once");
    assert!(context.destroy().is_err());
    assert!(matches!(
        stream.query(),
        Err(crate::Error::ContextDestroyed)
    ));
    assert!(bench.runtime.pointer_info(memory.address()).is_none());
    bench.runtime.synchronize().expect("another context");

    let primary = device.primary_context().expect("alive");
    let before = primary.alloc(8).expect("room");
    device.primary_release().expect("retained once");
    assert!(primary.status().is_err());
    assert!(device.primary_release().is_err());
    assert_eq!(device.primary_retain().expect("alive"), primary);
    assert!(primary.free(before).is_err(), "went with the first life");
    primary.synchronize().expect("alive again");
}
