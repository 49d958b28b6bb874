//! The sequential model, which computes for each run of an operation the runs that must precede it.

use std::collections::BTreeSet;

use crate::StreamKind;

/// A set of IDs of runs. A run is one execution of an operation. The ID of a run is `operation * MOST_RUNS + index of
/// the run`.
pub(super) type Runs = BTreeSet<usize>;

/// Maximum number of runs of an operation.
pub(super) const MOST_RUNS: usize = 64;

/// A graph of the model.
#[derive(Clone, Default)]
pub(super) struct ModelGraph {
    pub(super) nodes: Vec<(ModelOp, Vec<usize>)>,
}

/// The operation of a node.
#[derive(Clone)]
pub(super) enum ModelOp {
    /// An operation that records the beginning and the end of each of its runs.
    Note(usize),
    Nothing,
    Record(usize),
    Wait(usize),
    Child(ModelGraph),
    /// A loop: runs the graph the given number of times, one run after the other.
    Loop(ModelGraph, usize),
}

/// The state of the model: streams, events and graphs after the calls so far.
pub(super) struct Model {
    kinds: Vec<StreamKind>,
    /// For each stream, the runs that were submitted to the stream. The next field contains, for
    /// each stream, the runs for which the stream must wait.
    submitted: Vec<Runs>,
    awaited: Vec<Runs>,
    /// For each event, the runs that precede its last record.
    recorded: Vec<Runs>,
    /// For each executable graph, the runs of its launches.
    launched: Vec<Runs>,
    /// The number of runs of each operation.
    counts: Vec<usize>,
    /// For each run, the runs that must have ended before it begins.
    pub(super) before: Vec<(usize, Runs)>,
}

impl Model {
    pub(super) fn new(kinds: &[StreamKind], events: usize, operations: usize) -> Model {
        Model {
            kinds: kinds.to_vec(),
            submitted: vec![Runs::new(); kinds.len()],
            awaited: vec![Runs::new(); kinds.len()],
            recorded: vec![Runs::new(); events],
            launched: Vec::new(),
            counts: vec![0; operations],
            before: Vec::new(),
        }
    }

    /// Returns all runs that must end before new work of `stream` can begin.
    fn earlier(&self, stream: usize) -> Runs {
        let synchronising = |at: usize| self.kinds[at] != StreamKind::NonBlocking;
        let legacy = |at: usize| self.kinds[at] == StreamKind::Legacy;
        let ordered = |other: usize| {
            let by_legacy = legacy(stream) || legacy(other);
            other == stream || (by_legacy && synchronising(stream) && synchronising(other))
        };
        let mut all = Runs::new();
        for other in (0..self.kinds.len()).filter(|&other| ordered(other)) {
            all.extend(&self.submitted[other]);
            all.extend(&self.awaited[other]);
        }
        all
    }

    /// Returns the runs that are known to be complete when a stream is idle.
    pub(super) fn idle(&self, stream: usize) -> Runs {
        match self.kinds[stream] {
            StreamKind::Legacy => self.earlier(stream),
            _ => &self.submitted[stream] | &self.awaited[stream],
        }
    }

    /// Returns the number of runs of an operation so far.
    pub(super) fn count(&self, operation: usize) -> usize {
        self.counts[operation]
    }

    fn run(&mut self, operation: usize, before: &Runs) -> usize {
        let run = operation * MOST_RUNS + self.counts[operation];
        self.counts[operation] += 1;
        assert!(self.counts[operation] <= MOST_RUNS, "more room is needed");
        self.before.push((run, before.clone()));
        run
    }

    pub(super) fn operation(&mut self, operation: usize, stream: usize) {
        let before = self.earlier(stream);
        let run = self.run(operation, &before);
        self.submitted[stream].insert(run);
    }

    pub(super) fn record(&mut self, event: usize, stream: usize) {
        self.recorded[event] = self.earlier(stream);
    }

    pub(super) fn wait(&mut self, stream: usize, event: usize) {
        let more = self.recorded[event].clone();
        self.awaited[stream].extend(more);
    }

    /// Adds an executable graph and returns its index.
    pub(super) fn executable(&mut self) -> usize {
        self.launched.push(Runs::new());
        self.launched.len() - 1
    }

    pub(super) fn launch(&mut self, graph: &ModelGraph, number: usize, stream: usize) {
        let mut before = self.earlier(stream);
        before.extend(&self.launched[number]);
        let after = self.graph(graph, &before);
        // `after` also contains the runs of the earlier launches of the graph, because this launch waits for them.
        self.submitted[stream].extend(&after);
        self.launched[number].extend(&after);
    }

    /// Executes a graph that waits for the runs in `before`. Returns the runs that must be complete when this execution
    /// ends: those in `before`, those of the graph, and those for which the graph's event waits wait.
    fn graph(&mut self, graph: &ModelGraph, before: &Runs) -> Runs {
        let mut done: Vec<Runs> = Vec::new();
        let mut all = before.clone();
        for (op, dependencies) in &graph.nodes {
            let mut own = before.clone();
            for &dependency in dependencies {
                own.extend(&done[dependency]);
            }
            match op {
                ModelOp::Note(operation) => {
                    let run = self.run(*operation, &own);
                    own.insert(run);
                }
                ModelOp::Nothing => {}
                ModelOp::Record(event) => self.recorded[*event] = own.clone(),
                ModelOp::Wait(event) => own.extend(&self.recorded[*event].clone()),
                ModelOp::Child(child) => own = self.graph(child, &own),
                ModelOp::Loop(body, times) => {
                    for _ in 0..*times {
                        own = self.graph(body, &own);
                    }
                }
            }
            all.extend(&own);
            done.push(own);
        }
        all
    }
}
