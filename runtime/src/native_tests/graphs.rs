//! Tests of native kernels in graphs.

use super::*;
use crate::capture::CaptureMode;
use crate::graph::{Graph, InstantiateFlags, NodeKind, NodeOp};

#[test]
fn a_captured_native_kernel_runs_at_each_launch() {
    let setup = Setup::new();
    let stream = setup.stream();
    stream.begin_capture(CaptureMode::Global).expect("begun");
    stream.launch_native(&setup.double()).expect("captured");
    setup.triple(&stream).expect("captured");
    let empty = NativeKernel::new("empty", 0, |_| panic!("there are no tasks"));
    stream.launch_native(&empty).expect("captured");
    let graph = stream.end_capture().expect("captured");
    stream.synchronize().expect("no fault");
    assert_eq!(setup.words.to_vec().expect("copied"), [1; WORDS]);
    let nodes = graph.nodes();
    let kinds: Vec<NodeKind> = nodes.iter().map(kind_of).collect();
    assert_eq!(kinds, [NodeKind::Kernel; 2]);
    let NodeOp::Kernel(node, _) = nodes[0].op().expect("a node") else {
        panic!("not a kernel");
    };
    let native = node.native().expect("native");
    assert_eq!((native.name(), native.tasks()), ("double", 8));
    assert_eq!(node.kernel.name(), "double");
    let exec = graph
        .instantiate(InstantiateFlags::default())
        .expect("valid");
    drop((graph, nodes, node));
    for _ in 0..3 {
        exec.launch(&stream).expect("launched");
    }
    stream.synchronize().expect("no fault");
    // 1 -> 3 * 2 + 1 = 7 -> 3 * 14 + 1 = 43 -> 3 * 86 + 1 = 259.
    assert_eq!(setup.words.to_vec().expect("copied"), [259; WORDS]);
}

fn kind_of(node: &crate::graph::Node) -> NodeKind {
    node.op().expect("a node").kind()
}

#[test]
fn nodes_that_are_added_run_in_the_order_of_their_edges() {
    let setup = Setup::new();
    let order = Arc::new(Mutex::new(String::new()));
    let named = |name: &'static str| {
        let order = Arc::clone(&order);
        NativeKernel::new(name, 1, move |_| {
            order.lock().push_str(name);
            Ok(())
        })
    };
    let graph = Graph::new();
    let context = &setup.context;
    let a = graph.add_native(&[], context, &named("a")).expect("added");
    let b = graph.add_native(&[a], context, &named("b")).expect("added");
    let none = NativeKernel::new("none", 0, |_| Ok(()));
    let none = graph.add_native(&[b], context, &none).expect("added");
    assert_eq!(kind_of(&none), NodeKind::Empty);
    graph
        .add_native(&[none], context, &named("c"))
        .expect("added");
    let exec = graph
        .instantiate(InstantiateFlags::default())
        .expect("valid");
    let stream = setup.stream();
    exec.launch(&stream).expect("launched");
    exec.launch(&stream).expect("launched");
    stream.synchronize().expect("no fault");
    assert_eq!(*order.lock(), "abcabc");
}

#[test]
fn the_function_is_dropped_with_the_last_graph() {
    let setup = Setup::new();
    let stream = setup.stream();
    let (kernel, dropped) = counted(Ok(()));
    let graph = Graph::new();
    graph
        .add_native(&[], &setup.context, &kernel)
        .expect("added");
    drop(kernel);
    let exec = graph
        .instantiate(InstantiateFlags::default())
        .expect("valid");
    let copy = graph.duplicate().expect("copied");
    drop(graph);
    exec.launch(&stream).expect("launched");
    stream.synchronize().expect("no fault");
    drop(copy);
    assert_eq!(dropped.load(SeqCst), 0);
    exec.launch(&stream).expect("launched");
    drop(exec);
    stream.synchronize().expect("no fault");
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn an_update_replaces_the_function() {
    let setup = Setup::new();
    let stream = setup.stream();
    let graph_of = |kernel: &NativeKernel| {
        let graph = Graph::new();
        graph
            .add_native(&[], &setup.context, kernel)
            .expect("added");
        graph
    };
    let (first, dropped) = counted(Ok(()));
    let graph = graph_of(&first);
    let exec = graph
        .instantiate(InstantiateFlags::default())
        .expect("valid");
    drop((first, graph));
    exec.update(&graph_of(&setup.double())).expect("updated");
    assert_eq!(dropped.load(SeqCst), 1);
    exec.launch(&stream).expect("launched");
    stream.synchronize().expect("no fault");
    assert_eq!(setup.words.to_vec().expect("copied"), [2; WORDS]);
}

#[test]
fn the_kernel_of_a_node_cannot_be_launched_without_its_function() {
    let setup = Setup::new();
    let stream = setup.stream();
    let graph = Graph::new();
    let node = graph
        .add_native(&[], &setup.context, &setup.double())
        .expect("added");
    let NodeOp::Kernel(node, _) = node.op().expect("a node") else {
        panic!("not a kernel");
    };
    let invalid = |result: Result<(), Error>| matches!(result, Err(Error::InvalidValue(_)));
    let config = LaunchConfig::new(8, 1);
    let params = node.kernel.empty_params();
    assert!(invalid(stream.launch_packed(&node.kernel, config, params)));
    let params = node.params.clone();
    stream
        .launch_packed(&node.kernel, config, params)
        .expect("launched");
    for other in [
        LaunchConfig::new(9, 1),
        LaunchConfig::new(8, 2),
        LaunchConfig::new(8, 1).with_cluster(2),
        LaunchConfig::new(8, 1).with_cooperative(),
        LaunchConfig::new(8, 1).with_shared(4),
    ] {
        let params = node.params.clone();
        assert!(invalid(stream.launch_packed(&node.kernel, other, params)));
    }
    let params = node.params.clone();
    assert!(invalid(stream.launch_packed(&setup.triple, config, params)));
    stream.synchronize().expect("no fault");
    assert_eq!(setup.words.to_vec().expect("copied"), [2; WORDS]);
}
