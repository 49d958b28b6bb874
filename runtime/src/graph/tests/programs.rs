//! Random programs. Both the runtime and the model perform each call of a program.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::super::{ConditionalKind, Graph, GraphExec, InstantiateFlags, Node};
use super::model::{MOST_RUNS, Model, ModelGraph, ModelOp};
use crate::capture::CaptureMode;
use crate::testing::{Bench, Step, kernel};
use crate::{Event, EventFlags, LaunchConfig, Stream, StreamKind};

/// Number of steps of a program. The following constants are the maximum number of operations of a
/// program, of graphs of a program, and of launches of each graph.
const STEPS: usize = 40;
const OPERATIONS: usize = 120;
const GRAPHS: usize = 4;
const LAUNCHES: usize = 5;

/// A simple generator of random numbers. A seed always produces the same program, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }
}

/// Records the times at which runs began and ended, and how often each operation began and ended.
struct Notes {
    clock: AtomicU64,
    begins: Vec<AtomicU64>,
    ends: Vec<AtomicU64>,
    begun: Vec<AtomicU64>,
    ended: Vec<AtomicU64>,
}

impl Notes {
    fn new() -> Notes {
        let zeros = |len: usize| (0..len).map(|_| AtomicU64::new(0)).collect();
        Notes {
            clock: AtomicU64::new(1),
            begins: zeros(OPERATIONS * MOST_RUNS),
            ends: zeros(OPERATIONS * MOST_RUNS),
            begun: zeros(OPERATIONS),
            ended: zeros(OPERATIONS),
        }
    }

    /// Records the beginning of a run. Runs of one operation never overlap: an operation in a stream runs once, and
    /// launches of a graph run one after the other.
    fn begin(&self, operation: usize) {
        let run = self.begun[operation].fetch_add(1, SeqCst) as usize;
        let now = self.clock.fetch_add(1, SeqCst);
        self.begins[operation * MOST_RUNS + run.min(MOST_RUNS - 1)].store(now, SeqCst);
    }

    fn end(&self, operation: usize) {
        let run = self.ended[operation].fetch_add(1, SeqCst) as usize;
        let now = self.clock.fetch_add(1, SeqCst);
        self.ends[operation * MOST_RUNS + run.min(MOST_RUNS - 1)].store(now, SeqCst);
    }
}

struct Made {
    exec: GraphExec,
    number: usize,
    model: ModelGraph,
    launches: usize,
}

struct Program {
    bench: Bench,
    streams: Vec<Stream>,
    events: Vec<Event>,
    /// Events that are used only in captures, to connect the branches of a captured graph.
    joints: Vec<Event>,
    notes: Arc<Notes>,
    model: Model,
    operations: usize,
    graphs: Vec<Made>,
    random: Random,
}

fn note(notes: &Arc<Notes>) -> crate::testing::Spec {
    let notes = Arc::clone(notes);
    kernel("note", 2, true, move |call| {
        let operation = call.param(0) as usize;
        if *call.memory == 0 {
            notes.begin(operation);
        }
        *call.memory += 1;
        if *call.memory <= call.param(1) {
            return Step::Wait(false);
        }
        notes.end(operation);
        Step::Done
    })
}

/// Returns a kernel that sets a conditional value. Every `times`-th run sets the value to 0; all other runs set it to
/// 1.
fn decide(notes: &Arc<Notes>) -> crate::testing::Spec {
    let notes = Arc::clone(notes);
    kernel("decide", 3, false, move |call| {
        let (operation, handle, times) = (call.param(0) as usize, call.param(1), call.param(2));
        notes.begin(operation);
        notes.end(operation);
        let over = notes.ended[operation].load(SeqCst).is_multiple_of(times);
        assert!(crate::conditional::set(handle, u32::from(!over)));
        Step::Done
    })
}

impl Program {
    fn new(seed: u64, workers: usize) -> Program {
        let notes = Arc::new(Notes::new());
        let bench = Bench::new(workers, vec![note(&notes), decide(&notes)]);
        let context = &bench.context;
        let created = |kind, priority| context.create_stream(kind, priority).expect("made");
        let streams = vec![
            context.legacy_stream(),
            context.per_thread_stream(),
            created(StreamKind::Blocking, 0),
            created(StreamKind::NonBlocking, -3),
            created(StreamKind::NonBlocking, 0),
        ];
        let kinds: Vec<StreamKind> = streams.iter().map(Stream::kind).collect();
        let event = |_| context.create_event(EventFlags::default()).expect("made");
        Program {
            events: (0..3).map(event).collect(),
            joints: (0..8).map(event).collect(),
            model: Model::new(&kinds, 3, OPERATIONS),
            streams,
            notes,
            bench,
            operations: 0,
            graphs: Vec::new(),
            random: Random(seed),
        }
    }

    fn new_operation(&mut self) -> Option<usize> {
        (self.operations < OPERATIONS).then(|| {
            self.operations += 1;
            self.operations - 1
        })
    }

    fn host(&self, operation: usize) -> super::super::HostFunction {
        let notes = Arc::clone(&self.notes);
        Arc::new(move || {
            notes.begin(operation);
            std::thread::yield_now();
            notes.end(operation);
        })
    }

    /// Submits a kernel or a host function to a stream, which may be capturing.
    fn submit(&mut self, operation: usize, stream: usize) {
        let waits = self.random.below(3);
        if self.random.below(4) == 0 {
            let function = self.host(operation);
            let given = self.streams[stream].launch_host(function, None);
            return given.expect("submitted");
        }
        let config = LaunchConfig::new(1, 1);
        let kernel = self.bench.kernel("note");
        let launch = self.streams[stream].launch(&kernel, config, (operation as u64, waits));
        launch.expect("launched");
    }

    /// Adds a node of a random kind; `depth` is the number of graphs that contain `graph`.
    fn node(&mut self, graph: &Graph, before: &[Node], depth: u32) -> (Node, ModelOp) {
        let choice = self.random.below(if depth == 0 { 12 } else { 7 });
        let event = self.random.index(self.events.len());
        let Some(operation) = self.new_operation() else {
            return (graph.add_empty(before).expect("added"), ModelOp::Nothing);
        };
        match choice {
            0 => (graph.add_empty(before).expect("added"), ModelOp::Nothing),
            1 | 2 => {
                let node = graph.add_host(before, self.host(operation));
                (node.expect("added"), ModelOp::Note(operation))
            }
            7 => {
                let node = graph.add_event_record(before, &self.events[event]);
                (node.expect("added"), ModelOp::Record(event))
            }
            8 => {
                let node = graph.add_event_wait(before, &self.events[event]);
                (node.expect("added"), ModelOp::Wait(event))
            }
            9 | 10 => {
                let (child, model) = self.graph(1);
                let node = graph.add_child(before, &child);
                (node.expect("added"), ModelOp::Child(model))
            }
            11 => self.turn(graph, before, operation),
            _ => {
                let (kernel, waits) = (self.bench.kernel("note"), self.random.below(3));
                let config = LaunchConfig::new(1, 1);
                let node = graph.add_kernel(before, &kernel, config, (operation as u64, waits));
                (node.expect("added"), ModelOp::Note(operation))
            }
        }
    }

    /// Adds a conditional node that repeats a graph a few times.
    fn turn(&mut self, graph: &Graph, before: &[Node], operation: usize) -> (Node, ModelOp) {
        let times = 1 + self.random.below(3);
        let handle = graph.conditional_handle(&self.bench.context, 1, true);
        let before: Vec<_> = before
            .iter()
            .map(|n| (n.clone(), Default::default()))
            .collect();
        let kind = ConditionalKind::While;
        let made = graph.add_conditional(&before, &handle, kind, 1);
        let (node, conditional) = made.expect("added");
        let body = &conditional.bodies()[0];
        let mut model = ModelGraph::default();
        let mut last = Vec::new();
        if let Some(inner) = self.new_operation() {
            let kernel = self.bench.kernel("note");
            let config = LaunchConfig::new(1, 1);
            let node = body.add_kernel(&[], &kernel, config, (inner as u64, 1u64));
            last.push(node.expect("added"));
            model.nodes.push((ModelOp::Note(inner), vec![]));
        }
        let kernel = self.bench.kernel("decide");
        let arguments = (operation as u64, handle.id(), times);
        let added = body.add_kernel(&last, &kernel, LaunchConfig::new(1, 1), arguments);
        added.expect("added");
        let behind = (0..last.len()).collect();
        model.nodes.push((ModelOp::Note(operation), behind));
        (node, ModelOp::Loop(model, times as usize))
    }

    /// Builds a graph with calls that add nodes.
    fn graph(&mut self, depth: u32) -> (Graph, ModelGraph) {
        let graph = Graph::new();
        let (mut nodes, mut model) = (Vec::new(), ModelGraph::default());
        for _ in 0..1 + self.random.below(if depth == 0 { 7 } else { 3 }) {
            let count = self.random.below(3).min(nodes.len() as u64);
            let mut before: Vec<usize> = Vec::new();
            for _ in 0..count {
                let at = self.random.index(nodes.len());
                if !before.contains(&at) {
                    before.push(at);
                }
            }
            let given: Vec<Node> = before.iter().map(|&at| Node::clone(&nodes[at])).collect();
            let (node, op) = self.node(&graph, &given, depth);
            nodes.push(node);
            model.nodes.push((op, before));
        }
        (graph, model)
    }

    /// Captures a graph from a stream and from other streams that join the capture.
    fn capture(&mut self) -> (Graph, ModelGraph) {
        let first = 1 + self.random.index(self.streams.len() - 1);
        let began = self.streams[first].begin_capture(CaptureMode::Relaxed);
        began.expect("not capturing");
        let mut model = ModelGraph::default();
        // For each stream in the capture, the nodes on which the stream's next node depends.
        let mut branches: Vec<(usize, Vec<usize>)> = vec![(first, vec![])];
        for joint in 0..self.joints.len() - 3 {
            let at = self.random.index(branches.len());
            let (stream, before) = branches[at].clone();
            match self.random.below(6) {
                0 => {
                    let other = 1 + self.random.index(self.streams.len() - 1);
                    let event = &self.joints[joint];
                    event.record(&self.streams[stream]).expect("captured");
                    self.streams[other].wait_event(event).expect("joins");
                    match branches.iter_mut().find(|(at, _)| *at == other) {
                        Some((_, own)) => own.extend(&before),
                        None => branches.push((other, before)),
                    }
                }
                1 => {
                    let event = self.random.index(self.events.len());
                    let recorded = self.events[event].record_external(&self.streams[stream]);
                    recorded.expect("captured");
                    branches[at].1 = vec![model.nodes.len()];
                    model.nodes.push((ModelOp::Record(event), before));
                }
                2 => {
                    let event = self.random.index(self.events.len());
                    let waited = self.streams[stream].wait_event_external(&self.events[event]);
                    waited.expect("captured");
                    branches[at].1 = vec![model.nodes.len()];
                    model.nodes.push((ModelOp::Wait(event), before));
                }
                _ => {
                    let Some(operation) = self.new_operation() else {
                        continue;
                    };
                    self.submit(operation, stream);
                    branches[at].1 = vec![model.nodes.len()];
                    model.nodes.push((ModelOp::Note(operation), before));
                }
            }
        }
        for (number, (stream, _)) in branches.iter().enumerate().skip(1) {
            let event = &self.joints[self.joints.len() - number.min(3)];
            event.record(&self.streams[*stream]).expect("captured");
            self.streams[first].wait_event(event).expect("joins");
        }
        let graph = self.streams[first].end_capture().expect("joined");
        (graph, model)
    }

    fn make(&mut self) {
        let (graph, model) = match self.random.below(2) {
            0 => self.graph(0),
            _ => self.capture(),
        };
        let copy = self.random.below(3) == 0;
        let graph = match graph.duplicate() {
            Ok(other) if copy => other,
            _ => graph,
        };
        let flags = InstantiateFlags {
            node_priority: copy,
            ..InstantiateFlags::default()
        };
        let exec = graph.instantiate(flags);
        let number = self.model.executable();
        self.graphs.push(Made {
            exec: exec.expect("good"),
            number,
            model,
            launches: 0,
        });
    }

    fn step(&mut self, seed: u64) {
        let stream = self.random.index(self.streams.len());
        let event = self.random.index(self.events.len());
        match self.random.below(12) {
            0 => {
                self.events[event]
                    .record(&self.streams[stream])
                    .expect("recorded");
                self.model.record(event, stream);
            }
            1 => {
                self.streams[stream]
                    .wait_event(&self.events[event])
                    .expect("submitted");
                self.model.wait(stream, event);
            }
            2 => {
                self.streams[stream].synchronize().expect("no fault");
                for run in self.model.idle(stream) {
                    assert!(self.notes.ends[run].load(SeqCst) > 0, "seed {seed}: {run}");
                }
            }
            3 | 4 if self.graphs.len() < GRAPHS => self.make(),
            3..=8 if !self.graphs.is_empty() => {
                let at = self.random.index(self.graphs.len());
                let made = &mut self.graphs[at];
                if made.launches < LAUNCHES {
                    made.launches += 1;
                    made.exec.launch(&self.streams[stream]).expect("launched");
                    self.model.launch(&made.model, made.number, stream);
                }
            }
            _ => {
                if let Some(operation) = self.new_operation() {
                    self.submit(operation, stream);
                    self.model.operation(operation, stream);
                }
            }
        }
    }

    fn check(&self, seed: u64) {
        let notes = &self.notes;
        for operation in 0..self.operations {
            let (begun, ended) = (&notes.begun[operation], &notes.ended[operation]);
            let want = self.model.count(operation) as u64;
            let ran = (begun.load(SeqCst), ended.load(SeqCst));
            assert_eq!(ran, (want, want), "seed {seed}: operation {operation}");
        }
        for (second, before) in &self.model.before {
            let begin = notes.begins[*second].load(SeqCst);
            assert!(begin > 0, "seed {seed}: run {second} is missing");
            for first in before {
                let end = notes.ends[*first].load(SeqCst);
                assert!(end < begin, "seed {seed}: {first} must end before {second}");
            }
        }
    }
}

/// Runs the program of a seed, and checks that its result is permitted by the model.
pub(super) fn run(seed: u64, workers: usize) {
    let mut program = Program::new(seed, workers);
    for _ in 0..STEPS {
        program.step(seed);
    }
    program.bench.runtime.synchronize().expect("complete");
    program.check(seed);
}
