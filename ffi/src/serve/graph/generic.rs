//! Implements `cuGraphAddNode` and related entry points, each of which accepts nodes of all kinds.

use std::ffi::c_uint;
use std::sync::Arc;

use margay::graph::{
    ConditionalHandle, ConditionalKind, EdgeData, Graph, GraphExec, Node, NodeKind, NodeOp,
};

use super::dependencies;
use super::memory::{alloc_op, alloc_params, freed_address};
use super::node::event_handle;
use super::params::{
    batch_op, batch_params, context_of, copy_op, copy_params, fill_op, fill_params, host_op,
    host_params, kernel_op, kernel_params,
};
use super::set::{context_of_node, set_kernel};
use crate::convert::{FromAbi, Out};
use crate::guard::{Call, warn};
use crate::handles::{disown_graph, events, graph, graph_handle, handle_of, node_handle};
use crate::result::{CuResult, Served};
use crate::types::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_CONDITIONAL_NODE_PARAMS,
    CUDA_EVENT_RECORD_NODE_PARAMS, CUDA_EVENT_WAIT_NODE_PARAMS, CUDA_HOST_NODE_PARAMS,
    CUDA_HOST_NODE_PARAMS_v2, CUDA_KERNEL_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS,
    CUDA_MEM_FREE_NODE_PARAMS, CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS_v2, CUcontext,
    CUevent, CUgraph, CUgraphEdgeData, CUgraphNode, CUgraphNodeParams,
};

/// The kinds of external semaphore nodes, which are not supported.
const EXTERNAL_SEMAPHORES: std::ops::RangeInclusive<c_uint> = 8..=9;
const LAST_KIND: c_uint = 18;

/// A structure that is a member of the union `CUgraphNodeParams`.
///
/// # Safety
/// Any bytes must be a valid value of the type.
unsafe trait Member: Copy {}

macro_rules! members {
    ($($t:ty)*) => {$(
        // SAFETY: the fields are numbers and pointers; function pointers are optional, and null means none.
        unsafe impl Member for $t {}
    )*};
}

members! {
    CUDA_KERNEL_NODE_PARAMS CUDA_MEMCPY_NODE_PARAMS CUDA_MEMSET_NODE_PARAMS_v2
    CUDA_HOST_NODE_PARAMS_v2 CUDA_CHILD_GRAPH_NODE_PARAMS CUDA_EVENT_RECORD_NODE_PARAMS
    CUDA_EVENT_WAIT_NODE_PARAMS CUDA_MEM_ALLOC_NODE_PARAMS CUDA_MEM_FREE_NODE_PARAMS
    CUDA_BATCH_MEM_OP_NODE_PARAMS CUDA_CONDITIONAL_NODE_PARAMS
}

impl CUgraphNodeParams {
    fn empty(kind: NodeKind) -> CUgraphNodeParams {
        CUgraphNodeParams {
            kind: kind as c_uint,
            reserved0: [0; 3],
            words: [0; 29],
            reserved2: 0,
        }
    }

    fn read<T: Member>(&self) -> T {
        const { assert!(size_of::<T>() <= 29 * 8 && align_of::<T>() <= 8) };
        // SAFETY: the union is large enough, and any bytes are a valid value of `T`.
        unsafe { self.words.as_ptr().cast::<T>().read() }
    }

    fn write<T: Member>(&mut self, value: T) {
        const { assert!(size_of::<T>() <= 29 * 8 && align_of::<T>() <= 8) };
        // SAFETY: the union is large enough.
        unsafe { self.words.as_mut_ptr().cast::<T>().write(value) };
    }

    fn check_reserved(&self) -> Served {
        match self.reserved0 == [0; 3] && self.reserved2 == 0 {
            true => Ok(()),
            false => Err(CuResult::INVALID_VALUE),
        }
    }
}

fn unknown_kind(kind: c_uint) -> CuResult {
    if EXTERNAL_SEMAPHORES.contains(&kind) {
        warn(format_args!(
            "graph nodes of external semaphores are not supported"
        ));
        return CuResult::NOT_SUPPORTED;
    }
    if kind > LAST_KIND {
        return CuResult::INVALID_VALUE;
    }
    warn(format_args!("graph nodes of type {kind} are not supported"));
    CuResult::NOT_SUPPORTED
}

const KERNEL: c_uint = NodeKind::Kernel as c_uint;
const MEMCPY: c_uint = NodeKind::Memcpy as c_uint;
const MEMSET: c_uint = NodeKind::Memset as c_uint;
const HOST: c_uint = NodeKind::Host as c_uint;
const CHILD: c_uint = NodeKind::Child as c_uint;
const EMPTY: c_uint = NodeKind::Empty as c_uint;
const EVENT_WAIT: c_uint = NodeKind::EventWait as c_uint;
const EVENT_RECORD: c_uint = NodeKind::EventRecord as c_uint;
const MEM_ALLOC: c_uint = NodeKind::MemAlloc as c_uint;
const MEM_FREE: c_uint = NodeKind::MemFree as c_uint;
const MEM_OPS: c_uint = NodeKind::MemOps as c_uint;
const CONDITIONAL: c_uint = NodeKind::Conditional as c_uint;

fn event(handle: CUevent) -> Result<margay::Event, CuResult> {
    events().get(handle.0).ok_or(CuResult::INVALID_VALUE)
}

/// Converts the parameters of a node of any kind except child graph, conditional, allocation and free. `ctx` is the
/// context for a copy or fill whose parameters name no context.
///
/// # Safety
/// The pointers in the parameters must be valid.
unsafe fn op_of(params: &CUgraphNodeParams, ctx: CUcontext) -> Result<NodeOp, CuResult> {
    let context = |given: CUcontext| if given.0 == 0 { ctx } else { given };
    Ok(match params.kind {
        // SAFETY: the caller guarantees that the pointers are valid.
        KERNEL => unsafe { kernel_op(&params.read()) }?,
        MEMCPY => {
            let copy: CUDA_MEMCPY_NODE_PARAMS = params.read();
            if copy.flags != 0 || copy.reserved != 0 {
                return Err(CuResult::INVALID_VALUE);
            }
            copy_op(&copy.copy_params, context(copy.copy_ctx))?
        }
        MEMSET => {
            let fill: CUDA_MEMSET_NODE_PARAMS_v2 = params.read();
            fill_op(&fill.base, context(fill.ctx))?
        }
        HOST => host_op(params.read::<CUDA_HOST_NODE_PARAMS_v2>().base)?,
        EMPTY => NodeOp::Empty,
        EVENT_WAIT => NodeOp::EventWait(event(params.read::<CUDA_EVENT_WAIT_NODE_PARAMS>().event)?),
        EVENT_RECORD => {
            NodeOp::EventRecord(event(params.read::<CUDA_EVENT_RECORD_NODE_PARAMS>().event)?)
        }
        // SAFETY: the caller guarantees that the pointers are valid.
        MEM_OPS => unsafe { batch_op(&params.read()) }?,
        kind => return Err(unknown_kind(kind)),
    })
}

fn add_child(
    params: &CUgraphNodeParams,
    to: &Graph,
    before: &[(Node, EdgeData)],
) -> Result<Node, CuResult> {
    /// `CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE`.
    const MOVE: c_uint = 1;
    let child: CUDA_CHILD_GRAPH_NODE_PARAMS = params.read();
    let inner = graph(child.graph)?;
    match child.ownership {
        0 => Ok(to.add(NodeOp::Child(inner), before)?),
        MOVE => {
            let node = to.add_moved(&inner, before)?;
            // The node owns the graph now. The call fails only if the program did not own the graph, because a capture
            // in progress had created it.
            let _ = disown_graph(child.graph);
            Ok(node)
        }
        _ => Err(CuResult::INVALID_VALUE),
    }
}

fn add_conditional(
    params: &mut CUgraphNodeParams,
    to: &Graph,
    before: &[(Node, EdgeData)],
) -> Result<Node, CuResult> {
    let mut given: CUDA_CONDITIONAL_NODE_PARAMS = params.read();
    let kind = match given.kind {
        0 => ConditionalKind::If,
        1 => ConditionalKind::While,
        2 => ConditionalKind::Switch,
        _ => return Err(CuResult::INVALID_VALUE),
    };
    let handle = ConditionalHandle::by_id(given.handle).ok_or(CuResult::INVALID_VALUE)?;
    if context_of(given.ctx)? != *handle.context() {
        return Err(CuResult::INVALID_VALUE);
    }
    let (node, conditional) = to.add_conditional(before, &handle, kind, given.size)?;
    let bodies = conditional.bodies().iter().map(graph_handle);
    let bodies: Arc<Vec<CUgraph>> = Arc::new(bodies.collect());
    given.graphs = bodies.as_ptr();
    // The array lives as long as the node.
    let _ = conditional.attached().set(bodies);
    params.write(given);
    Ok(node)
}

pub(crate) fn graph_add_node_v2(
    _: &Call,
    out: Out<CUgraphNode>,
    to: Graph,
    before: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    count: usize,
    params: *mut CUgraphNodeParams,
) -> Served {
    if params.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller guarantees `count` elements.
    let before = unsafe { dependencies(before, data, count) }?;
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let mut given = unsafe { params.read_unaligned() };
    given.check_reserved()?;
    let node = match given.kind {
        CHILD => add_child(&given, &to, &before)?,
        CONDITIONAL => add_conditional(&mut given, &to, &before)?,
        MEM_ALLOC => {
            let mut alloc: CUDA_MEM_ALLOC_NODE_PARAMS = given.read();
            // SAFETY: the caller guarantees that the array is valid.
            let op = unsafe { alloc_op(&mut alloc) }?;
            let node = to.add(op, &before)?;
            given.write(alloc);
            node
        }
        MEM_FREE => {
            let ptr = given.read::<CUDA_MEM_FREE_NODE_PARAMS>().dptr;
            to.add_free_behind(&before, margay::DevicePtr::new(ptr))?
        }
        // SAFETY: the caller guarantees that the parameters are valid.
        _ => to.add(unsafe { op_of(&given, CUcontext(0)) }?, &before)?,
    };
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    unsafe { params.write_unaligned(given) };
    out.set(node_handle(&node));
    Ok(())
}

pub(crate) fn graph_add_node(
    call: &Call,
    out: Out<CUgraphNode>,
    to: Graph,
    before: *const CUgraphNode,
    count: usize,
    params: *mut CUgraphNodeParams,
) -> Served {
    graph_add_node_v2(call, out, to, before, std::ptr::null(), count, params)
}

/// Reads and checks `params`, the new parameters of the existing node `node`.
///
/// # Safety
/// `params` must be null or valid, and the pointers in the parameters must be valid.
unsafe fn new_op(
    node: &Node,
    params: *mut CUgraphNodeParams,
) -> Result<(CUgraphNodeParams, NodeOp), CuResult> {
    if params.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let given = unsafe { params.read_unaligned() };
    given.check_reserved()?;
    if node.op()?.kind() as c_uint != given.kind {
        return Err(CuResult::INVALID_VALUE);
    }
    if matches!(given.kind, MEM_ALLOC | MEM_FREE | CONDITIONAL | EMPTY) {
        return Err(CuResult::NOT_SUPPORTED);
    }
    let op = match given.kind {
        CHILD => NodeOp::Child(graph(given.read::<CUDA_CHILD_GRAPH_NODE_PARAMS>().graph)?),
        MEMCPY | MEMSET => {
            let ctx = context_of_node(node)?;
            // SAFETY: the caller guarantees that the pointers are valid.
            unsafe { op_of(&given, ctx) }?
        }
        // SAFETY: the caller guarantees that the pointers are valid.
        _ => unsafe { op_of(&given, CUcontext(0)) }?,
    };
    Ok((given, op))
}

pub(crate) fn graph_node_set_params(
    _: &Call,
    node: Node,
    params: *mut CUgraphNodeParams,
) -> Served {
    // SAFETY: the caller guarantees that the parameters are valid.
    let (_, op) = unsafe { new_op(&node, params) }?;
    match op {
        NodeOp::Kernel(..) => set_kernel(&node, op),
        op => Ok(node.set_op(op)?),
    }
}

pub(crate) fn graph_exec_node_set_params(
    _: &Call,
    exec: GraphExec,
    node: Node,
    params: *mut CUgraphNodeParams,
) -> Served {
    // SAFETY: the caller guarantees that the parameters are valid.
    let (_, op) = unsafe { new_op(&node, params) }?;
    match op {
        NodeOp::Child(child) => Ok(exec.set_child(&node, &child)?),
        op => Ok(exec.set_op(&node, op)?),
    }
}

pub(crate) fn graph_node_get_params(_: &Call, node: Node, out: Out<CUgraphNodeParams>) -> Served {
    let op = node.op()?;
    let mut params = CUgraphNodeParams::empty(op.kind());
    match &op {
        NodeOp::Kernel(..) => params.write(kernel_params(&op)?),
        NodeOp::Memcpy(node) => params.write(CUDA_MEMCPY_NODE_PARAMS {
            flags: 0,
            reserved: 0,
            copy_ctx: handle_of(&node.context)?,
            copy_params: copy_params(&op)?,
        }),
        NodeOp::Memset(node) => params.write(CUDA_MEMSET_NODE_PARAMS_v2 {
            base: fill_params(&op)?,
            ctx: handle_of(&node.context)?,
        }),
        NodeOp::Host(_) => {
            let base: CUDA_HOST_NODE_PARAMS = host_params(&op)?;
            params.write(CUDA_HOST_NODE_PARAMS_v2 {
                base,
                sync_mode: 0,
                ctx: CUcontext(0),
            });
        }
        NodeOp::Child(child) => params.write(CUDA_CHILD_GRAPH_NODE_PARAMS {
            graph: graph_handle(child),
            ownership: 0,
        }),
        NodeOp::Empty => {}
        NodeOp::EventWait(event) => params.write(CUDA_EVENT_WAIT_NODE_PARAMS {
            event: event_handle(event),
        }),
        NodeOp::EventRecord(event) => params.write(CUDA_EVENT_RECORD_NODE_PARAMS {
            event: event_handle(event),
            ctx: CUcontext(0),
        }),
        NodeOp::MemAlloc(_) => params.write(alloc_params(&op)?),
        NodeOp::MemFree(_) => params.write(CUDA_MEM_FREE_NODE_PARAMS {
            dptr: freed_address(&op)?,
        }),
        NodeOp::MemOps(_) => params.write(batch_params(&op)?),
        NodeOp::Conditional(node) => {
            let bodies = node.attached().get();
            let bodies = bodies.and_then(|bodies| bodies.downcast_ref::<Vec<CUgraph>>());
            params.write(CUDA_CONDITIONAL_NODE_PARAMS {
                handle: node.handle().id(),
                kind: node.kind() as c_uint,
                size: node.bodies().len() as c_uint,
                graphs: bodies.map_or(std::ptr::null(), |bodies| bodies.as_ptr()),
                ctx: handle_of(node.handle().context())?,
            });
        }
    }
    out.set(params);
    Ok(())
}

pub(crate) fn graph_conditional_handle_create(
    call: &Call,
    out: Out<u64>,
    graph: Graph,
    ctx: CUcontext,
    default: c_uint,
    flags: c_uint,
) -> Served {
    /// `CU_GRAPH_COND_ASSIGN_DEFAULT`.
    const ASSIGN_DEFAULT: c_uint = 1;
    if flags & !ASSIGN_DEFAULT != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the handle is looked up and never dereferenced.
    let context: crate::handles::ContextOrCurrent =
        unsafe { FromAbi::from_abi(ctx, call) }.map_err(|_| CuResult::INVALID_VALUE)?;
    let handle = graph.conditional_handle(&context.0, default, flags == ASSIGN_DEFAULT);
    out.set(handle.id());
    Ok(())
}
