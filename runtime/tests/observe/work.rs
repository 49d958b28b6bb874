//! Tests of the events that describe pieces of work and the order between them.

use std::sync::Arc;

use margay::capture::CaptureMode;
use margay::observe::{Event, Events, HostEvent, Launch, Request, Tool};
use margay::{Direction, KernelInfo, LaunchConfig, Runtime, StreamKind, Transfer};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::kernels::module;

/// What a tool has received: the names of pieces of work, the order between them, and the beginnings and ends.
#[derive(Default)]
struct Received {
    /// For each number of work, a name with the number of earlier work of the same kind.
    names: FxHashMap<u64, String>,
    counts: FxHashMap<&'static str, u32>,
    launches: FxHashMap<u64, u64>,
    log: Vec<String>,
}

impl Received {
    fn name(&mut self, work: u64, kind: &'static str) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        self.names.insert(work, format!("{kind} {count}"));
    }

    fn log(&mut self, what: &str, work: u64) {
        let line = format!("{what} {}", self.names[&work]);
        self.log.push(line);
    }
}

#[derive(Default)]
struct Recorder(Mutex<Received>);

impl Tool for Recorder {
    fn name(&self) -> &str {
        "work"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        Request::none().launches()
    }

    fn events(&self, launch: &Launch, events: Events<'_>) {
        let mut received = self.0.lock();
        let work = received.launches[&launch.id()];
        for event in events {
            match event {
                Event::KernelBegin => received.log("begin", work),
                Event::KernelEnd { .. } => received.log("kernel end", work),
                _ => {}
            }
        }
    }

    fn observes_host(&self) -> bool {
        true
    }

    fn host(&self, event: &HostEvent<'_>) {
        let mut received = self.0.lock();
        match *event {
            HostEvent::Launch { launch, work, .. } => {
                received.launches.insert(launch, work);
                received.name(work, "kernel");
            }
            HostEvent::Copy { work, .. } => received.name(work, "copy"),
            HostEvent::Fill { work, .. } => received.name(work, "fill"),
            HostEvent::HostFunction { work, .. } => received.name(work, "function"),
            HostEvent::Submit { work, after } => {
                for dependence in after {
                    let [before, after] =
                        [dependence.work, work].map(|work| &received.names[&work]);
                    let line = format!("{before} -> {after}: {}", dependence.kind.name());
                    received.log.push(line);
                }
            }
            HostEvent::BeginWork { work } => received.log("begin", work),
            HostEvent::EndWork { work } => received.log("end", work),
            HostEvent::RecordEvent { after, .. } => {
                let after =
                    after.map_or("nothing".to_owned(), |work| received.names[&work].clone());
                received.log.push(format!("record after {after}"));
            }
            HostEvent::CreateStream { is_blocking, .. } => {
                received.log.push(format!("create {is_blocking}"));
            }
            HostEvent::DestroyStream { .. } => received.log.push("destroy".to_owned()),
            _ => {}
        }
    }
}

/// Calls `program`, and returns what the tool has logged: first the lines about order and streams, then the beginnings
/// and ends of work, sorted, because these depend on the schedule.
fn logged(program: impl FnOnce(&Runtime)) -> (Vec<String>, Vec<String>) {
    let tool = Arc::new(Recorder::default());
    let runtime = Runtime::builder().tool(tool.clone()).build();
    let runtime = runtime.expect("built");
    program(&runtime);
    runtime.synchronize().expect("no fault");
    let log = std::mem::take(&mut tool.0.lock().log);
    let is_run = |line: &String| {
        ["begin", "end", "kernel end"]
            .iter()
            .any(|word| line.starts_with(word))
    };
    let (mut runs, order): (Vec<String>, Vec<String>) = log.into_iter().partition(is_run);
    runs.sort();
    (order, runs)
}

#[test]
fn the_rules_of_streams_order_work() {
    let (order, runs) = logged(|runtime| {
        let module = runtime.load_ptx(&module("    st.global.u32 [%own], %i;"));
        let module = module.expect("loads");
        let kernel = module.kernel("kernel").expect("known");
        let context = runtime.context().expect("known");
        let mut buffer = runtime.alloc::<u32>(64).expect("room");
        let address = buffer.ptr().address().to_le_bytes();
        let one = LaunchConfig::new(1, 64);
        let a = context
            .create_stream(StreamKind::Blocking, 0)
            .expect("known");
        let b = context
            .create_stream(StreamKind::NonBlocking, 0)
            .expect("known");
        a.launch(&kernel, one, &address[..]).expect("launched");
        a.launch(&kernel, one, &address[..]).expect("launched");
        // All earlier work is complete, which changes nothing.
        a.synchronize().expect("no fault");
        let event = context.create_event(Default::default()).expect("room");
        event.record(&a).expect("recorded");
        a.launch(&kernel, one, &address[..]).expect("launched");
        b.wait_event(&event).expect("known");
        b.launch(&kernel, one, &address[..]).expect("launched");
        b.launch(&kernel, one, &address[..]).expect("launched");
        let legacy = context.legacy_stream();
        legacy.launch(&kernel, one, &address[..]).expect("launched");
        a.host_function(|| {}).expect("known");
        a.launch(&kernel, one, &address[..]).expect("launched");
        a.destroy().expect("created");
        b.destroy().expect("created");
        runtime.synchronize().expect("no fault");
        let mut back = [0u32; 64];
        buffer.read(&mut back).expect("no fault");
        buffer.write(&back).expect("no fault");
    });
    let expected = [
        "create true",
        "create false",
        "fill 1 -> kernel 1: null_stream",
        "kernel 1 -> kernel 2: stream_order",
        "record after kernel 2",
        "kernel 2 -> kernel 3: stream_order",
        "kernel 2 -> kernel 4: event",
        "kernel 4 -> kernel 5: stream_order",
        "fill 1 -> kernel 6: stream_order",
        "kernel 3 -> kernel 6: null_stream",
        "kernel 3 -> function 1: stream_order",
        "kernel 6 -> function 1: null_stream",
        "function 1 -> kernel 7: stream_order",
        "destroy",
        "destroy",
        "kernel 6 -> copy 1: stream_order",
        "kernel 7 -> copy 1: null_stream",
        "copy 1 -> copy 2: stream_order",
    ];
    assert_eq!(order, expected);
    let mut all: Vec<String> = Vec::new();
    let works = (1..=7).map(|number| format!("kernel {number}"));
    for work in works.chain(["copy 1", "copy 2", "function 1", "fill 1"].map(str::to_owned)) {
        all.extend(["begin", "end"].map(|what| format!("{what} {work}")));
    }
    all.extend((1..=7).map(|number| format!("kernel end kernel {number}")));
    all.sort();
    assert_eq!(runs, all);
}

#[test]
fn the_edges_of_graphs_order_work() {
    let (order, _) = logged(|runtime| {
        let module = runtime.load_ptx(&module("    st.global.u32 [%own], %i;"));
        let module = module.expect("loads");
        let kernel = module.kernel("kernel").expect("known");
        let context = runtime.context().expect("known");
        let buffer = runtime.alloc::<u32>(64).expect("room");
        let target = buffer.ptr().address();
        let address = target.to_le_bytes();
        let one = || LaunchConfig::new(1, 64);
        let [a, b] = [0, 1].map(|_| {
            let stream = context.create_stream(StreamKind::NonBlocking, 0);
            stream.expect("known")
        });
        let [fork, join] = [0, 1].map(|_| context.create_event(Default::default()).expect("room"));
        a.launch(&kernel, one(), &address[..]).expect("launched");
        a.begin_capture(CaptureMode::Global).expect("not capturing");
        a.launch(&kernel, one(), &address[..]).expect("captured");
        fork.record(&a).expect("captured");
        b.wait_event(&fork).expect("captured");
        let to = target + 128;
        let transfer = Transfer::linear(to, target, 64, Direction::DeviceToDevice);
        // SAFETY: the copy accesses only device memory.
        unsafe { b.copy_async(transfer) }.expect("captured");
        a.launch(&kernel, one(), &address[..]).expect("captured");
        join.record(&b).expect("captured");
        a.wait_event(&join).expect("captured");
        a.launch(&kernel, one(), &address[..]).expect("captured");
        let graph = a.end_capture().expect("capturing");
        let graph = graph
            .instantiate(Default::default())
            .expect("a graph without cycles");
        graph.launch(&a).expect("launched");
        a.launch(&kernel, one(), &address[..]).expect("launched");
        a.synchronize().expect("no fault");
        drop(buffer);
    });
    let mut edges: Vec<&String> = order.iter().filter(|line| line.contains("->")).collect();
    edges.sort();
    let expected = [
        "copy 1 -> kernel 4: graph",
        "kernel 1 -> kernel 2: stream_order",
        "kernel 2 -> copy 1: graph",
        "kernel 2 -> kernel 3: graph",
        "kernel 3 -> kernel 4: graph",
        "kernel 4 -> kernel 5: stream_order",
    ];
    assert_eq!(edges, expected);
}

/// Threads that use the legacy stream and blocking streams at the same time record the order of their work without
/// waiting for each other forever.
#[test]
fn threads_can_use_ordered_streams_at_the_same_time() {
    let tool = Arc::new(Recorder::default());
    let runtime = Runtime::builder().tool(tool.clone()).build();
    let runtime = runtime.expect("built");
    let module = runtime.load_ptx(&module("    st.global.u32 [%own], %i;"));
    let module = module.expect("loads");
    let kernel = module.kernel("kernel").expect("known");
    let buffer = runtime.alloc::<u32>(64).expect("room");
    let address = buffer.ptr().address().to_le_bytes();
    let context = runtime.context().expect("known");
    std::thread::scope(|threads| {
        for number in 0..4 {
            let (context, kernel) = (&context, &kernel);
            threads.spawn(move || {
                let stream = match number % 2 {
                    0 => context.legacy_stream(),
                    _ => context
                        .create_stream(StreamKind::Blocking, 0)
                        .expect("known"),
                };
                for _ in 0..100 {
                    stream
                        .launch(kernel, LaunchConfig::new(1, 32), &address[..])
                        .expect("launched");
                }
            });
        }
    });
    runtime.synchronize().expect("no fault");
    let received = tool.0.lock();
    assert_eq!(received.counts["kernel"], 400);
    let ends = received
        .log
        .iter()
        .filter(|line| line.starts_with("end kernel"));
    assert_eq!(ends.count(), 400);
}
