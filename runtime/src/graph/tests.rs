//! Tests with random programs that use streams, events, graphs and captures. A sequential model
//! determines the permitted results of each program.
//!
//! A program creates graphs by calls or by capture, launches these graphs between other work, and
//! sometimes waits. Every operation takes time stamps from a common counter when it begins and when
//! it ends. The model processes the calls of the program in order, and implements only the rules in
//! CUDA's documentation. For each run of an operation, the model determines which other runs must
//! have ended before this run begins. It also determines how often each operation runs.

mod model;
mod programs;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::{ConditionalKind, EdgeData, Graph, InstantiateFlags, Node};
use crate::testing::{Bench, Step, assert_linear, kernel};
use crate::{Error, FaultKind, LaunchConfig, StreamKind};

/// Returns the seeds of the programs; `MARGAY_FULL=1` runs more programs.
fn seeds() -> std::ops::Range<u64> {
    match std::env::var_os("MARGAY_FULL") {
        Some(_) => 0..10_000,
        None => 0..1_000,
    }
}

#[test]
fn random_programs_of_graphs_keep_every_order() {
    for seed in seeds() {
        programs::run(seed, 1 + (seed % 3) as usize);
    }
}

/// Returns the resident memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    4096 * pages.expect("a number")
}

/// Destroyed graphs, executable graphs and completed launches must leave no memory allocated.
#[test]
fn cycles_of_graphs_do_not_grow() {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let spec = kernel("count", 1, false, move |call| {
        counted.fetch_add(call.param(0), SeqCst);
        Step::Done
    });
    let bench = Bench::new(2, vec![spec]);
    let kernel = bench.kernel("count");
    let stream = bench.context.create_stream(StreamKind::NonBlocking, 0);
    let stream = stream.expect("made");
    let memory = bench.context.alloc(64).expect("room");
    let (rounds, allowed) = match std::env::var_os("MARGAY_FULL") {
        Some(_) => (100_000, 16 << 20),
        None => (4_000, 16 << 20),
    };
    let cycle = |number: u64| {
        let graph = Graph::new();
        let config = LaunchConfig::new(1, 1);
        let first = graph
            .add_kernel(&[], &kernel, config, (1u64,))
            .expect("added");
        let child = Graph::new();
        let fill = crate::copy::Fill {
            dst: memory.address(),
            value: 1,
            width: 4,
            count: 16,
            rows: 1,
            pitch: 64,
        };
        child.add_fill(&[], &bench.context, fill).expect("added");
        let inner = graph.add_child(&[first], &child).expect("added");
        let (alloc, ptr) = graph
            .add_alloc(&[inner], &bench.context, 4096)
            .expect("room");
        graph.add_free(&[alloc], ptr).expect("added");
        let exec = graph
            .instantiate(InstantiateFlags::default())
            .expect("good");
        exec.launch(&stream).expect("launched");
        if number.is_multiple_of(64) {
            stream.synchronize().expect("no fault");
        }
    };
    for number in 0..1_000 {
        cycle(number);
    }
    stream.synchronize().expect("no fault");
    let before = resident();
    for number in 0..rounds {
        cycle(number);
    }
    stream.synchronize().expect("no fault");
    let grown = resident().saturating_sub(before);
    assert_eq!(count.load(SeqCst), 1_000 + rounds);
    assert!(grown < allowed, "{rounds} cycles left {grown} bytes");
    if std::env::var_os("MARGAY_FULL").is_some() {
        eprintln!("{rounds} cycles: {grown} bytes more");
    }
}

/// A call that frees memory of a destroyed graph must return an error. The address of this memory
/// must therefore not be reused immediately.
#[test]
fn memory_of_a_gone_graph_is_not_the_next_allocation() {
    let bench = Bench::new(1, Vec::new());
    let stream = bench.context.create_stream(StreamKind::NonBlocking, 0);
    let stream = stream.expect("made");
    for bytes in [100, 4_000_000] {
        let mode = crate::capture::CaptureMode::Relaxed;
        stream.begin_capture(mode).expect("begun");
        let old = stream.alloc_async(bytes).expect("captured");
        drop(stream.end_capture().expect("a graph"));
        let new = stream.alloc_async(bytes).expect("room");
        assert_ne!(new, old);
        assert!(stream.free_async(old).is_err());
        stream.free_async(new).expect("still there");
        stream.synchronize().expect("done");
    }
}

/// A graph in which disabled kernels are empty nodes must have no edges that only kernels can have.
#[test]
fn a_disabled_kernel_has_ordinary_edges_in_a_captured_launch() {
    let bench = Bench::new(1, vec![kernel("nothing", 0, false, |_| Step::Done)]);
    let kernel = bench.kernel("nothing");
    let config = LaunchConfig::new(1, 1);
    let graph = Graph::new();
    let node = || graph.add_kernel(&[], &kernel, config, ()).expect("added");
    let nodes = [node(), node(), node()];
    let programmatic = EdgeData {
        from_port: 1,
        to_port: 0,
        kind: 1,
    };
    let edge = |from: usize| (nodes[from].clone(), nodes[from + 1].clone(), programmatic);
    graph.add_edges(&[edge(0), edge(1)]).expect("valid");
    let exec = graph
        .instantiate(InstantiateFlags::default())
        .expect("valid");
    let data = || -> Vec<EdgeData> {
        let copy = exec.to_graph().expect("a graph");
        copy.edges().into_iter().map(|(.., data)| data).collect()
    };
    let plain = EdgeData::default();
    assert_eq!(data(), [programmatic, programmatic]);
    exec.set_enabled(&nodes[0], false).expect("a kernel");
    assert_eq!(data(), [plain, programmatic]);
    exec.set_enabled(&nodes[0], true).expect("a kernel");
    exec.set_enabled(&nodes[1], false).expect("a kernel");
    assert_eq!(data(), [plain, plain]);
}

/// If graphs are nested too deeply, the call that adds a graph must return an error, so that no recursive operation
/// overflows the stack.
#[test]
fn graphs_are_nested_up_to_a_limit() {
    let bench = Bench::new(1, Vec::new());
    let outermost = Graph::new();
    let mut graph = outermost.clone();
    let mut levels = 0;
    let error = loop {
        let handle = graph.conditional_handle(&bench.context, 1, true);
        match graph.add_conditional(&[], &handle, ConditionalKind::If, 1) {
            Ok((_, node)) => graph = node.bodies()[0].clone(),
            Err(error) => break error,
        }
        levels += 1;
    };
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert_eq!(levels, 100);
    let mut inner = Graph::new();
    for _ in 0..100 {
        let outer = Graph::new();
        outer.add_child(&[], &inner).expect("added");
        inner = outer;
    }
    let outer = Graph::new();
    let error = outer.add_child(&[], &inner).expect_err("is too deep");
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[test]
fn an_endless_loop_ends_at_the_time_limit() {
    let bench = Bench::new(1, Vec::new());
    let limit = std::time::Duration::from_millis(20);
    bench.context.set_time_limit(Some(limit));
    let graph = Graph::new();
    let handle = graph.conditional_handle(&bench.context, 1, true);
    let made = graph.add_conditional(&[], &handle, ConditionalKind::While, 1);
    made.expect("added");
    let exec = graph.instantiate(InstantiateFlags::default());
    let stream = bench.context.create_stream(StreamKind::NonBlocking, 0);
    let stream = stream.expect("made");
    exec.expect("valid").launch(&stream).expect("launched");
    match stream.synchronize() {
        Err(Error::Fault(fault)) => assert_eq!(fault.kind, FaultKind::Timeout, "{fault}"),
        other => panic!("{other:?}"),
    }
}

/// A conditional node that already belongs to a graph cannot be added again: a graph would contain itself.
#[test]
fn a_conditional_node_is_added_only_once() {
    let bench = Bench::new(1, Vec::new());
    let graph = Graph::new();
    let handle = graph.conditional_handle(&bench.context, 1, true);
    let (added, node) = graph
        .add_conditional(&[], &handle, ConditionalKind::If, 1)
        .expect("added");
    let body = &node.bodies()[0];
    let op = added.op().expect("the node exists");
    assert!(body.add(op.clone(), &[]).is_err());
    assert!(graph.add(op, &[]).is_err());
}

/// A reset of the context must end a running loop of a graph, and the thread that waits for the
/// loop must get an error.
#[test]
fn an_endless_loop_ends_with_its_context() {
    let spec = kernel("pass", 1, false, |_| Step::Done);
    let bench = Bench::new(2, vec![spec]);
    let graph = Graph::new();
    let handle = graph.conditional_handle(&bench.context, 1, true);
    let (_, node) = graph
        .add_conditional(&[], &handle, ConditionalKind::While, 1)
        .expect("added");
    let pass = bench.kernel("pass");
    let body = &node.bodies()[0];
    let config = LaunchConfig::new(1, 1);
    body.add_kernel(&[], &pass, config, (0u64,)).expect("added");
    let exec = graph.instantiate(InstantiateFlags::default());
    let stream = bench.context.create_stream(StreamKind::NonBlocking, 0);
    let stream = stream.expect("made");
    exec.expect("valid").launch(&stream).expect("launched");
    let device = bench.context.device().clone();
    let resets = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        device.primary_reset()
    });
    let ended = stream.synchronize();
    assert!(matches!(ended, Err(Error::ContextDestroyed)), "{ended:?}");
    resets.join().expect("no panic").expect("reset");
}

#[test]
fn graphs_grow_linearly_with_their_nodes_and_edges() {
    let bench = Bench::new(1, Vec::new());
    assert_linear("allocations", 5_000, |size| {
        let graph = Graph::new();
        for _ in 0..size {
            let made = graph.add_alloc(&[], &bench.context, 256);
            let (node, ptr) = made.expect("added");
            graph.add_free(&[node], ptr).expect("added");
        }
    });
    assert_linear("dependencies of a node", 25_000, |size| {
        let graph = Graph::new();
        let nodes: Vec<_> = (0..size)
            .map(|_| graph.add_empty(&[]).expect("added"))
            .collect();
        let last = graph.add_empty(&nodes).expect("added");
        assert!(graph.add_empty(&[last.clone(), last]).is_err());
    });
    assert_linear("edges", 25_000, |size| {
        let graph = Graph::new();
        let nodes: Vec<_> = (0..size)
            .map(|_| graph.add_empty(&[]).expect("added"))
            .collect();
        let last = graph.add_empty(&[]).expect("added");
        let edge = |node: &Node| (node.clone(), last.clone(), EdgeData::default());
        let edges: Vec<_> = nodes.iter().map(edge).collect();
        graph.add_edges(&edges).expect("added");
        assert!(graph.add_edges(&edges[..1]).is_err(), "exists already");
        let reversed: Vec<_> = edges.into_iter().rev().collect();
        graph.remove_edges(&reversed).expect("removed");
        assert!(graph.remove_edges(&reversed[..1]).is_err(), "is removed");
    });
    assert_linear("single edges of a node", 10_000, |size| {
        let graph = Graph::new();
        let nodes: Vec<_> = (0..size)
            .map(|_| graph.add_empty(&[]).expect("added"))
            .collect();
        let [first, last] = [(); 2].map(|()| graph.add_empty(&[]).expect("added"));
        let edges = |node: &Node| {
            let edge = |from: &Node, to: &Node| (from.clone(), to.clone(), EdgeData::default());
            [edge(&first, node), edge(node, &last)]
        };
        for node in &nodes {
            graph.add_edges(&edges(node)).expect("added");
        }
        assert_eq!(first.dependents().expect("exists").len(), size);
        for node in nodes.iter().rev().skip(size / 2) {
            graph.remove_edges(&edges(node)).expect("removed");
        }
        assert_eq!(last.dependencies().expect("exists").len(), size / 2);
        for node in &nodes {
            node.remove().expect("removed");
        }
        assert_eq!(last.dependencies().expect("exists").len(), 0);
    });
}
