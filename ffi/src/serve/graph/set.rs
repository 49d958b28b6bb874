//! Entry points that change the parameters of nodes, in graphs and in executable graphs.

use margay::Event;
use margay::graph::{Graph, GraphExec, Node, NodeOp};

use super::params::{batch_op, copy_op, fill_op, host_op, kernel_op, kernel_params_of_v1};
use crate::convert::In;
use crate::guard::Call;
use crate::handles::handle_of;
use crate::result::{CuResult, Served};
use crate::types::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUcontext,
};

/// Replaces the operation of a kernel node by `op`. The node's attributes do not change.
pub(super) fn set_kernel(node: &Node, op: NodeOp) -> Served {
    match (node.op()?, op) {
        (NodeOp::Kernel(_, attributes), NodeOp::Kernel(new, _)) => {
            Ok(node.set_op(NodeOp::Kernel(new, attributes))?)
        }
        _ => Err(CuResult::INVALID_VALUE),
    }
}

pub(crate) fn graph_kernel_node_set_params(
    _: &Call,
    node: Node,
    params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Served {
    // SAFETY: the caller guarantees that the arguments are valid.
    set_kernel(&node, unsafe { kernel_op(&kernel_params_of_v1(params.0)) }?)
}

pub(crate) fn graph_kernel_node_set_params_v2(
    _: &Call,
    node: Node,
    params: In<CUDA_KERNEL_NODE_PARAMS>,
) -> Served {
    // SAFETY: the caller guarantees that the arguments are valid.
    set_kernel(&node, unsafe { kernel_op(&params.0) }?)
}

pub(crate) fn graph_exec_kernel_node_set_params(
    _: &Call,
    exec: GraphExec,
    node: Node,
    params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Served {
    // SAFETY: the caller guarantees that the arguments are valid.
    let op = unsafe { kernel_op(&kernel_params_of_v1(params.0)) }?;
    Ok(exec.set_op(&node, op)?)
}

pub(crate) fn graph_exec_kernel_node_set_params_v2(
    _: &Call,
    exec: GraphExec,
    node: Node,
    params: In<CUDA_KERNEL_NODE_PARAMS>,
) -> Served {
    // SAFETY: the caller guarantees that the arguments are valid.
    let op = unsafe { kernel_op(&params.0) }?;
    Ok(exec.set_op(&node, op)?)
}

/// Returns the handle of the context in which a copy or fill node runs.
pub(super) fn context_of_node(node: &Node) -> Result<CUcontext, CuResult> {
    match node.op()? {
        NodeOp::Memcpy(node) => handle_of(&node.context),
        NodeOp::Memset(node) => handle_of(&node.context),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

pub(crate) fn graph_memcpy_node_set_params(
    _: &Call,
    node: Node,
    params: In<CUDA_MEMCPY3D>,
) -> Served {
    let ctx = context_of_node(&node)?;
    Ok(node.set_op(copy_op(&params.0, ctx)?)?)
}

pub(crate) fn graph_exec_memcpy_node_set_params(
    _: &Call,
    exec: GraphExec,
    node: Node,
    params: In<CUDA_MEMCPY3D>,
    ctx: CUcontext,
) -> Served {
    Ok(exec.set_op(&node, copy_op(&params.0, ctx)?)?)
}

pub(crate) fn graph_memset_node_set_params(
    _: &Call,
    node: Node,
    params: In<CUDA_MEMSET_NODE_PARAMS>,
) -> Served {
    let ctx = context_of_node(&node)?;
    Ok(node.set_op(fill_op(&params.0, ctx)?)?)
}

pub(crate) fn graph_exec_memset_node_set_params(
    _: &Call,
    exec: GraphExec,
    node: Node,
    params: In<CUDA_MEMSET_NODE_PARAMS>,
    ctx: CUcontext,
) -> Served {
    Ok(exec.set_op(&node, fill_op(&params.0, ctx)?)?)
}

pub(crate) fn graph_host_node_set_params(
    _: &Call,
    node: Node,
    params: In<CUDA_HOST_NODE_PARAMS>,
) -> Served {
    Ok(node.set_op(host_op(params.0)?)?)
}

pub(crate) fn graph_exec_host_node_set_params(
    _: &Call,
    exec: GraphExec,
    node: Node,
    params: In<CUDA_HOST_NODE_PARAMS>,
) -> Served {
    Ok(exec.set_op(&node, host_op(params.0)?)?)
}

pub(crate) fn graph_exec_child_graph_node_set_params(
    _: &Call,
    exec: GraphExec,
    node: Node,
    child: Graph,
) -> Served {
    Ok(exec.set_child(&node, &child)?)
}

pub(crate) fn graph_event_record_node_set_event(_: &Call, node: Node, event: Event) -> Served {
    Ok(node.set_op(NodeOp::EventRecord(event))?)
}

pub(crate) fn graph_event_wait_node_set_event(_: &Call, node: Node, event: Event) -> Served {
    Ok(node.set_op(NodeOp::EventWait(event))?)
}

pub(crate) fn graph_exec_event_record_node_set_event(
    _: &Call,
    exec: GraphExec,
    node: Node,
    event: Event,
) -> Served {
    Ok(exec.set_op(&node, NodeOp::EventRecord(event))?)
}

pub(crate) fn graph_exec_event_wait_node_set_event(
    _: &Call,
    exec: GraphExec,
    node: Node,
    event: Event,
) -> Served {
    Ok(exec.set_op(&node, NodeOp::EventWait(event))?)
}

pub(crate) fn graph_batch_mem_op_node_set_params(
    _: &Call,
    node: Node,
    params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> Served {
    // SAFETY: the caller guarantees that the array is valid.
    Ok(node.set_op(unsafe { batch_op(&params.0) }?)?)
}

pub(crate) fn graph_exec_batch_mem_op_node_set_params(
    _: &Call,
    exec: GraphExec,
    node: Node,
    params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> Served {
    // SAFETY: the caller guarantees that the array is valid.
    Ok(exec.set_op(&node, unsafe { batch_op(&params.0) }?)?)
}
