//! Entry points that add nodes, one for each kind of node, and entry points that return the parameters of nodes.

use margay::Event;
use margay::graph::{Graph, Node, NodeOp};

use super::dependencies;
use super::params::{
    batch_op, batch_params, copy_op, copy_params, fill_op, fill_params, host_op, host_params,
    kernel_op, kernel_params, kernel_params_of_v1,
};
use crate::convert::{In, Out};
use crate::guard::Call;
use crate::handles::{events, graph_handle, node_handle};
use crate::result::{CuResult, Served};
use crate::types::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUcontext, CUevent,
    CUgraph, CUgraphNode,
};

/// Adds a node with the operation `op` to `graph`, and writes the node's handle to `out`. The node
/// depends on the nodes `before`.
fn add(
    out: &Out<CUgraphNode>,
    graph: &Graph,
    before: *const CUgraphNode,
    count: usize,
    op: NodeOp,
) -> Served {
    // SAFETY: the caller of the entry point guarantees `count` elements.
    let before = unsafe { dependencies(before, std::ptr::null(), count) }?;
    out.set(node_handle(&graph.add(op, &before)?));
    Ok(())
}

pub(crate) fn graph_add_kernel_node(
    _: &Call,
    out: Out<CUgraphNode>,
    graph: Graph,
    before: *const CUgraphNode,
    count: usize,
    params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Served {
    // SAFETY: the caller guarantees that the arguments are valid.
    let op = unsafe { kernel_op(&kernel_params_of_v1(params.0)) }?;
    add(&out, &graph, before, count, op)
}

pub(crate) fn graph_add_kernel_node_v2(
    _: &Call,
    out: Out<CUgraphNode>,
    graph: Graph,
    before: *const CUgraphNode,
    count: usize,
    params: In<CUDA_KERNEL_NODE_PARAMS>,
) -> Served {
    // SAFETY: the caller guarantees that the arguments are valid.
    let op = unsafe { kernel_op(&params.0) }?;
    add(&out, &graph, before, count, op)
}

pub(crate) fn graph_kernel_node_get_params(
    _: &Call,
    node: Node,
    out: Out<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Served {
    out.set(kernel_params(&node.op()?)?.base);
    Ok(())
}

pub(crate) fn graph_kernel_node_get_params_v2(
    _: &Call,
    node: Node,
    out: Out<CUDA_KERNEL_NODE_PARAMS>,
) -> Served {
    out.set(kernel_params(&node.op()?)?);
    Ok(())
}

pub(crate) fn graph_add_memcpy_node(
    _: &Call,
    out: Out<CUgraphNode>,
    graph: Graph,
    before: *const CUgraphNode,
    count: usize,
    params: In<CUDA_MEMCPY3D>,
    ctx: CUcontext,
) -> Served {
    add(&out, &graph, before, count, copy_op(&params.0, ctx)?)
}

pub(crate) fn graph_memcpy_node_get_params(
    _: &Call,
    node: Node,
    out: Out<CUDA_MEMCPY3D>,
) -> Served {
    out.set(copy_params(&node.op()?)?);
    Ok(())
}

pub(crate) fn graph_add_memset_node(
    _: &Call,
    out: Out<CUgraphNode>,
    graph: Graph,
    before: *const CUgraphNode,
    count: usize,
    params: In<CUDA_MEMSET_NODE_PARAMS>,
    ctx: CUcontext,
) -> Served {
    add(&out, &graph, before, count, fill_op(&params.0, ctx)?)
}

pub(crate) fn graph_memset_node_get_params(
    _: &Call,
    node: Node,
    out: Out<CUDA_MEMSET_NODE_PARAMS>,
) -> Served {
    out.set(fill_params(&node.op()?)?);
    Ok(())
}

pub(crate) fn graph_add_host_node(
    _: &Call,
    out: Out<CUgraphNode>,
    graph: Graph,
    before: *const CUgraphNode,
    count: usize,
    params: In<CUDA_HOST_NODE_PARAMS>,
) -> Served {
    add(&out, &graph, before, count, host_op(params.0)?)
}

pub(crate) fn graph_host_node_get_params(
    _: &Call,
    node: Node,
    out: Out<CUDA_HOST_NODE_PARAMS>,
) -> Served {
    out.set(host_params(&node.op()?)?);
    Ok(())
}

pub(crate) fn graph_add_child_graph_node(
    _: &Call,
    out: Out<CUgraphNode>,
    graph: Graph,
    before: *const CUgraphNode,
    count: usize,
    child: Graph,
) -> Served {
    add(&out, &graph, before, count, NodeOp::Child(child))
}

pub(crate) fn graph_child_graph_node_get_graph(_: &Call, node: Node, out: Out<CUgraph>) -> Served {
    let NodeOp::Child(child) = node.op()? else {
        return Err(CuResult::INVALID_VALUE);
    };
    out.set(graph_handle(&child));
    Ok(())
}

pub(crate) fn graph_add_empty_node(
    _: &Call,
    out: Out<CUgraphNode>,
    graph: Graph,
    before: *const CUgraphNode,
    count: usize,
) -> Served {
    add(&out, &graph, before, count, NodeOp::Empty)
}

pub(crate) fn graph_add_event_record_node(
    _: &Call,
    out: Out<CUgraphNode>,
    graph: Graph,
    before: *const CUgraphNode,
    count: usize,
    event: Event,
) -> Served {
    add(&out, &graph, before, count, NodeOp::EventRecord(event))
}

pub(crate) fn graph_add_event_wait_node(
    _: &Call,
    out: Out<CUgraphNode>,
    graph: Graph,
    before: *const CUgraphNode,
    count: usize,
    event: Event,
) -> Served {
    add(&out, &graph, before, count, NodeOp::EventWait(event))
}

/// Returns the handle of an event, or null if the event is destroyed.
pub(super) fn event_handle(event: &Event) -> CUevent {
    CUevent(events().find(|held| held.id() == event.id()).unwrap_or(0))
}

pub(crate) fn graph_event_record_node_get_event(_: &Call, node: Node, out: Out<CUevent>) -> Served {
    let NodeOp::EventRecord(event) = node.op()? else {
        return Err(CuResult::INVALID_VALUE);
    };
    out.set(event_handle(&event));
    Ok(())
}

pub(crate) fn graph_event_wait_node_get_event(_: &Call, node: Node, out: Out<CUevent>) -> Served {
    let NodeOp::EventWait(event) = node.op()? else {
        return Err(CuResult::INVALID_VALUE);
    };
    out.set(event_handle(&event));
    Ok(())
}

pub(crate) fn graph_add_batch_mem_op_node(
    _: &Call,
    out: Out<CUgraphNode>,
    graph: Graph,
    before: *const CUgraphNode,
    count: usize,
    params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> Served {
    // SAFETY: the caller guarantees that the array is valid.
    let op = unsafe { batch_op(&params.0) }?;
    add(&out, &graph, before, count, op)
}

pub(crate) fn graph_batch_mem_op_node_get_params(
    _: &Call,
    node: Node,
    out: Out<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> Served {
    out.set(batch_params(&node.op()?)?);
    Ok(())
}
