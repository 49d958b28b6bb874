//! Implements the entry points for graphs, and those that return or change their nodes and edges.

use std::ffi::{c_uint, c_ulonglong};

use margay::files::without_write_signals;
use margay::graph::{DotOptions, Edge, EdgeData, Graph, Node};

use super::{answer_list, dependencies, edge_data_out, write_list};
use crate::convert::{Out, Text, read_array};
use crate::guard::Call;
use crate::handles::{disown_graph, graph_handle, node, node_handle, own_graph};
use crate::result::{CuResult, Served};
use crate::types::{CUgraph, CUgraphEdgeData, CUgraphNode};

pub(crate) fn graph_create(_: &Call, out: Out<CUgraph>, flags: c_uint) -> Served {
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    out.set(own_graph(Graph::new()));
    Ok(())
}

pub(crate) fn graph_destroy(_: &Call, handle: CUgraph) -> Served {
    disown_graph(handle).map(|_| ())
}

pub(crate) fn graph_clone(_: &Call, out: Out<CUgraph>, original: Graph) -> Served {
    out.set(own_graph(original.duplicate()?));
    Ok(())
}

pub(crate) fn graph_node_find_in_clone(
    _: &Call,
    out: Out<CUgraphNode>,
    original: Node,
    clone: Graph,
) -> Served {
    out.set(node_handle(&clone.find_copy(&original)?));
    Ok(())
}

pub(crate) fn graph_get_id(_: &Call, graph: Graph, out: Out<c_uint>) -> Served {
    out.set(graph.id() as c_uint);
    Ok(())
}

pub(crate) fn graph_node_get_type(_: &Call, node: Node, out: Out<c_uint>) -> Served {
    out.set(node.op()?.kind() as c_uint);
    Ok(())
}

pub(crate) fn graph_node_get_containing_graph(_: &Call, node: Node, out: Out<CUgraph>) -> Served {
    out.set(graph_handle(&node.graph()?));
    Ok(())
}

pub(crate) fn graph_node_get_local_id(_: &Call, node: Node, out: Out<c_uint>) -> Served {
    out.set(node.local_id()?);
    Ok(())
}

pub(crate) fn graph_node_get_tools_id(_: &Call, node: Node, out: Out<c_ulonglong>) -> Served {
    out.set(node.id());
    Ok(())
}

fn handles(nodes: &[Node]) -> Vec<CUgraphNode> {
    nodes.iter().map(node_handle).collect()
}

pub(crate) fn graph_get_nodes(
    _: &Call,
    graph: Graph,
    nodes: *mut CUgraphNode,
    count: *mut usize,
) -> Served {
    // SAFETY: the caller guarantees memory for `*count` elements.
    unsafe { answer_list(nodes, count, &handles(&graph.nodes()), CUgraphNode(0)) }
}

pub(crate) fn graph_get_root_nodes(
    _: &Call,
    graph: Graph,
    nodes: *mut CUgraphNode,
    count: *mut usize,
) -> Served {
    // SAFETY: the caller guarantees memory for `*count` elements.
    unsafe { answer_list(nodes, count, &handles(&graph.roots()), CUgraphNode(0)) }
}

/// Returns `LOSSY_QUERY` if an edge has data that is not the default and the caller passed no array for the data.
fn check_lossless(out: *mut CUgraphEdgeData, data: impl Iterator<Item = EdgeData>) -> Served {
    let mut data = data;
    match out.is_null() && data.any(|data| !data.is_plain()) {
        true => Err(CuResult::LOSSY_QUERY),
        false => Ok(()),
    }
}

pub(crate) fn graph_get_edges_v2(
    _: &Call,
    graph: Graph,
    from: *mut CUgraphNode,
    to: *mut CUgraphNode,
    data: *mut CUgraphEdgeData,
    count: *mut usize,
) -> Served {
    let edges = graph.edges();
    let (half, only_data) = (
        from.is_null() != to.is_null(),
        from.is_null() && !data.is_null(),
    );
    if count.is_null() || half || only_data {
        return Err(CuResult::INVALID_VALUE);
    }
    if !from.is_null() {
        check_lossless(data, edges.iter().map(|(_, _, data)| *data))?;
    }
    let sources: Vec<_> = edges.iter().map(|(from, ..)| node_handle(from)).collect();
    let targets: Vec<_> = edges.iter().map(|(_, to, _)| node_handle(to)).collect();
    let said: Vec<_> = edges
        .iter()
        .map(|(.., data)| edge_data_out(*data))
        .collect();
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let room = unsafe { count.read_unaligned() };
    // SAFETY: the caller guarantees memory for `room` elements in each array.
    unsafe {
        write_list(to, room, &targets, CUgraphNode(0));
        write_list(data, room, &said, CUgraphEdgeData::default());
        answer_list(from, count, &sources, CUgraphNode(0))
    }
}

pub(crate) fn graph_get_edges(
    call: &Call,
    graph: Graph,
    from: *mut CUgraphNode,
    to: *mut CUgraphNode,
    count: *mut usize,
) -> Served {
    graph_get_edges_v2(call, graph, from, to, std::ptr::null_mut(), count)
}

/// Writes `ends` to the caller's arrays: the nodes to which a node has edges in one direction, and the data of these
/// edges.
///
/// # Safety
/// Both arrays must meet the safety conditions of [`answer_list`].
unsafe fn answer_ends(
    ends: &[(Node, EdgeData)],
    nodes: *mut CUgraphNode,
    data: *mut CUgraphEdgeData,
    count: *mut usize,
) -> Served {
    if count.is_null() || (nodes.is_null() && !data.is_null()) {
        return Err(CuResult::INVALID_VALUE);
    }
    if !nodes.is_null() {
        check_lossless(data, ends.iter().map(|(_, data)| *data))?;
    }
    let others: Vec<_> = ends.iter().map(|(node, _)| node_handle(node)).collect();
    let said: Vec<_> = ends.iter().map(|(_, data)| edge_data_out(*data)).collect();
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let room = unsafe { count.read_unaligned() };
    // SAFETY: the caller guarantees memory for `room` elements in each array.
    unsafe {
        write_list(data, room, &said, CUgraphEdgeData::default());
        answer_list(nodes, count, &others, CUgraphNode(0))
    }
}

pub(crate) fn graph_node_get_dependencies_v2(
    _: &Call,
    node: Node,
    nodes: *mut CUgraphNode,
    data: *mut CUgraphEdgeData,
    count: *mut usize,
) -> Served {
    // SAFETY: the caller guarantees memory for `*count` elements.
    unsafe { answer_ends(&node.dependencies()?, nodes, data, count) }
}

pub(crate) fn graph_node_get_dependencies(
    call: &Call,
    node: Node,
    nodes: *mut CUgraphNode,
    count: *mut usize,
) -> Served {
    graph_node_get_dependencies_v2(call, node, nodes, std::ptr::null_mut(), count)
}

pub(crate) fn graph_node_get_dependent_nodes_v2(
    _: &Call,
    node: Node,
    nodes: *mut CUgraphNode,
    data: *mut CUgraphEdgeData,
    count: *mut usize,
) -> Served {
    // SAFETY: the caller guarantees memory for `*count` elements.
    unsafe { answer_ends(&node.dependents()?, nodes, data, count) }
}

pub(crate) fn graph_node_get_dependent_nodes(
    call: &Call,
    node: Node,
    nodes: *mut CUgraphNode,
    count: *mut usize,
) -> Served {
    graph_node_get_dependent_nodes_v2(call, node, nodes, std::ptr::null_mut(), count)
}

/// Reads the arrays `from`, `to` and `data`, with which the caller lists edges.
///
/// # Safety
/// Each array must be null or contain `count` elements.
unsafe fn edges(
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    count: usize,
) -> Result<Vec<Edge>, CuResult> {
    // SAFETY: the caller guarantees `count` elements.
    let (from, to) = unsafe { (dependencies(from, data, count)?, read_array(to, count)?) };
    let pairs = from.into_iter().zip(to);
    pairs
        .map(|((from, data), to)| Ok((from, node(to)?, data)))
        .collect()
}

pub(crate) fn graph_add_dependencies_v2(
    _: &Call,
    graph: Graph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    count: usize,
) -> Served {
    // SAFETY: the caller guarantees `count` elements.
    let edges = unsafe { edges(from, to, data, count) }?;
    Ok(graph.add_edges(&edges)?)
}

pub(crate) fn graph_add_dependencies(
    call: &Call,
    graph: Graph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    count: usize,
) -> Served {
    graph_add_dependencies_v2(call, graph, from, to, std::ptr::null(), count)
}

pub(crate) fn graph_remove_dependencies_v2(
    _: &Call,
    graph: Graph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    count: usize,
) -> Served {
    // SAFETY: the caller guarantees `count` elements.
    let edges = unsafe { edges(from, to, data, count) }?;
    Ok(graph.remove_edges(&edges)?)
}

pub(crate) fn graph_remove_dependencies(
    call: &Call,
    graph: Graph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    count: usize,
) -> Served {
    graph_remove_dependencies_v2(call, graph, from, to, std::ptr::null(), count)
}

pub(crate) fn graph_destroy_node(_: &Call, node: Node) -> Served {
    Ok(node.remove()?)
}

/// All defined bits of `CUgraphDebugDot_flags`.
const ALL_DOT_FLAGS: c_uint = (1 << 18) - 1;

fn dot_options(flags: c_uint) -> DotOptions {
    let set = |bit: u32| flags & 1 << bit != 0;
    if set(0) {
        return DotOptions::all();
    }
    DotOptions {
        kernels: set(2),
        copies: set(3),
        fills: set(4),
        events: set(6),
        attributes: set(9),
        numbers: set(10),
        memory: set(11) || set(12),
        memory_ops: set(13),
        edges: set(14),
        conditionals: set(15),
    }
}

pub(crate) fn graph_debug_dot_print(_: &Call, graph: Graph, path: Text, flags: c_uint) -> Served {
    if flags & !ALL_DOT_FLAGS != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let text = graph.to_dot(dot_options(flags));
    without_write_signals(|| std::fs::write(path.0, text)).map_err(|_| CuResult::OPERATING_SYSTEM)
}
