//! Tests of the order in which launches and copies start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::capture::CaptureMode;
use crate::copy::{Direction, Transfer};
use crate::graph::InstantiateFlags;
use crate::task::Work;
use crate::testing::{Bench, Step, kernel};
use crate::{EventFlags, LaunchConfig, Stream, StreamKind};

/// Number of units of each launch. The running time of a unit is [`WORK`].
const UNITS: u32 = 400;
const WORK: Duration = Duration::from_micros(20);
/// Maximum number of units of the launch with lower priority that may start before the last unit
/// with higher priority. A worker claims ranges of units with a running time of half a millisecond;
/// two such ranges contain 50 units.
const FEW: usize = 120;

/// Returns a [`Bench`] (a test runtime) with one worker and one kernel, and a list. At the start of each unit, the
/// kernel appends its parameter 0 to the list. This parameter identifies the launch.
fn noting() -> (Bench, Arc<Mutex<Vec<u64>>>) {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let spec = kernel("k", 1, false, move |call| {
        seen.lock().push(call.param(0));
        let begin = Instant::now();
        while begin.elapsed() < WORK {
            std::hint::spin_loop();
        }
        Step::Done
    });
    (Bench::new(1, vec![spec]), order)
}

fn stream(bench: &Bench, priority: i32) -> Stream {
    let made = bench
        .context
        .create_stream(StreamKind::NonBlocking, priority);
    made.expect("made")
}

/// Makes the work of the streams wait until `submit` has returned. After that, the work of the
/// streams starts in the order of `streams`, but the work of one stream may start long before the
/// work of the next stream.
fn together(streams: &[&Stream], submit: impl FnOnce()) {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock();
    for stream in streams {
        let gate = Arc::clone(&gate);
        let wait = move || drop(gate.lock());
        stream.host_function(wait).expect("submitted");
    }
    submit();
    drop(closed);
    for stream in streams {
        stream.synchronize().expect("complete");
    }
}

/// Returns the number of units of launch 0 that started before the last unit of launch 1.
fn before_the_last(order: &[u64]) -> usize {
    assert_eq!(order.len(), 2 * UNITS as usize);
    let last = order.iter().rposition(|&launch| launch == 1);
    let before = &order[..last.expect("it ran")];
    before.iter().filter(|&&launch| launch == 0).count()
}

#[test]
fn units_of_a_stream_of_higher_priority_start_first() {
    for (priority, asked) in [(-5, None), (0, Some(-1)), (0, Some(-99))] {
        let (bench, order) = noting();
        let (low, high) = (stream(&bench, 0), stream(&bench, priority));
        let kernel = bench.kernel("k");
        let config = LaunchConfig::new(UNITS, 32);
        together(&[&high, &low], || {
            low.launch(&kernel, config, (0u64,)).expect("launched");
            let config = LaunchConfig {
                priority: asked,
                ..config
            };
            high.launch(&kernel, config, (1u64,)).expect("launched");
        });
        let few = before_the_last(&order.lock());
        assert!(few < FEW, "{few} units went before: {priority} {asked:?}");
    }
}

#[test]
fn equal_streams_take_turns() {
    let (bench, order) = noting();
    let (one, other) = (stream(&bench, -2), stream(&bench, -2));
    let kernel = bench.kernel("k");
    let config = LaunchConfig::new(UNITS, 32);
    together(&[&one, &other], || {
        one.launch(&kernel, config, (0u64,)).expect("launched");
        other.launch(&kernel, config, (1u64,)).expect("launched");
    });
    let before = before_the_last(&order.lock());
    assert!(
        before > UNITS as usize / 2,
        "only {before} units went before"
    );
}

#[test]
fn units_that_wait_let_those_of_lower_priority_go_on() {
    let flag = Arc::new(AtomicU64::new(0));
    let (set, seen) = (Arc::clone(&flag), Arc::clone(&flag));
    let waits = kernel("waits", 0, true, move |_| match seen.load(SeqCst) {
        0 => Step::Wait(false),
        _ => Step::Done,
    });
    let sets = kernel("sets", 0, false, move |call| {
        set.store(u64::from(call.unit == 99), SeqCst);
        Step::Done
    });
    let bench = Bench::new(1, vec![waits, sets]);
    let (low, high) = (stream(&bench, 0), stream(&bench, -5));
    // The launch has more units than may be resident at the same time.
    let many = LaunchConfig::new(100_000, 32);
    together(&[&low, &high], || {
        high.launch(&bench.kernel("waits"), many, ())
            .expect("launched");
        let config = LaunchConfig::new(100, 32);
        low.launch(&bench.kernel("sets"), config, ())
            .expect("launched");
    });
    assert_eq!(flag.load(SeqCst), 1);
}

#[test]
fn copies_in_a_stream_of_higher_priority_go_first() {
    const BYTES: u64 = 1 << 20;
    let bench = Bench::new(1, Vec::new());
    let (low, high) = (stream(&bench, 0), stream(&bench, -1));
    let memory = bench.context.alloc(4 * BYTES).expect("allocated").address();
    let event = || {
        bench
            .context
            .create_event(EventFlags::default())
            .expect("made")
    };
    let [begin, low_end, high_end] = std::array::from_fn(|_| event());
    begin.record(&low).expect("recorded");
    low.synchronize().expect("complete");
    // The copy thread is busy until both streams have submitted work for it.
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock();
    let opens = Arc::clone(&gate);
    let job = Box::new(move || {
        drop(opens.lock());
        Ok(())
    });
    stream(&bench, -5).submit(Work::Device { job, short: false });
    for _ in 0..8 {
        for (stream, at) in [(&low, memory), (&high, memory + 2 * BYTES)] {
            let copy = Transfer::linear(at, at + BYTES, BYTES, Direction::DeviceToDevice);
            // SAFETY: the copy accesses no host memory.
            unsafe { stream.copy_async(copy) }.expect("submitted");
        }
    }
    low_end.record(&low).expect("recorded");
    high_end.record(&high).expect("recorded");
    drop(closed);
    for stream in [&low, &high] {
        stream.synchronize().expect("complete");
    }
    let time = |end: &crate::Event| end.elapsed_ms_since(&begin).expect("complete");
    assert!(time(&high_end) < time(&low_end));
}

#[test]
fn nodes_have_the_priority_of_their_stream_or_the_graphs() {
    for (node_priority, first) in [(true, true), (false, false)] {
        let (bench, order) = noting();
        let (low, other, captured) = (stream(&bench, 0), stream(&bench, 0), stream(&bench, -5));
        let kernel = bench.kernel("k");
        let config = LaunchConfig::new(UNITS, 32);
        captured.begin_capture(CaptureMode::Relaxed).expect("begun");
        captured.launch(&kernel, config, (1u64,)).expect("captured");
        let graph = captured.end_capture().expect("ended");
        let flags = InstantiateFlags {
            node_priority,
            ..InstantiateFlags::default()
        };
        let exec = graph.instantiate(flags).expect("instantiated");
        let starting = if first {
            [&other, &low]
        } else {
            [&low, &other]
        };
        together(&starting, || {
            low.launch(&kernel, config, (0u64,)).expect("launched");
            exec.launch(&other).expect("launched");
        });
        let before = before_the_last(&order.lock());
        assert_eq!(before < FEW, first, "{before} units went before");
    }
}
