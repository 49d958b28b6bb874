//! Adds the operations of capturing streams to graphs, as nodes.

use std::sync::Arc;

use super::{add, refuse};
use crate::copy::{Fill, Transfer};
use crate::error::{CaptureError, Result};
use crate::event::Event;
use crate::graph::{
    GraphAllocation, GraphExec, HostFunction, HostNode, KernelAttributes, KernelNode, MemOpsNode,
    MemcpyNode, MemsetNode, NodeOp, Origin, graph_allocation,
};
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::memop::MemOp;
use crate::params::Params;
use crate::pointer::{DevicePtr, PointerKind};
use crate::stream::Stream;

pub(crate) fn kernel(
    stream: &Stream,
    kernel: &Kernel,
    config: LaunchConfig,
    params: Params,
) -> Result<()> {
    // A kernel that is launched without a priority gets the priority of this stream. The priority has an effect only if
    // the graph is launched with the priorities of its nodes.
    let config = LaunchConfig {
        priority: config.priority.or(Some(stream.priority())),
        ..config
    };
    let node = KernelNode::new(kernel.clone(), config, params, None);
    let op = NodeOp::Kernel(Arc::new(node), KernelAttributes::of(&config));
    add(stream, op).map(|_| ())
}

pub(crate) fn copy(stream: &Stream, transfer: Transfer) -> Result<()> {
    if !transfer.check(stream.context())? {
        return Ok(());
    }
    let node = MemcpyNode {
        transfer,
        context: stream.context().clone(),
        origin: None,
    };
    add(stream, NodeOp::Memcpy(Arc::new(node))).map(|_| ())
}

pub(crate) fn fill(stream: &Stream, fill: Fill) -> Result<()> {
    if !fill.check(stream.context())? {
        return Ok(());
    }
    let node = MemsetNode {
        fill,
        context: stream.context().clone(),
    };
    add(stream, NodeOp::Memset(Arc::new(node))).map(|_| ())
}

pub(crate) fn host(stream: &Stream, function: HostFunction, origin: Origin) -> Result<()> {
    let node = HostNode { function, origin };
    add(stream, NodeOp::Host(Arc::new(node))).map(|_| ())
}

pub(crate) fn memory_ops(stream: &Stream, ops: &[MemOp], origin: Origin) -> Result<()> {
    if ops.is_empty() {
        return Ok(());
    }
    let node = MemOpsNode {
        ops: ops.to_vec(),
        context: stream.context().clone(),
        origin,
    };
    add(stream, NodeOp::MemOps(Arc::new(node))).map(|_| ())
}

pub(crate) fn alloc(
    stream: &Stream,
    bytes: u64,
    kind: PointerKind,
    label: u64,
) -> Result<DevicePtr> {
    let allocation = GraphAllocation::of(stream.context(), bytes, kind, label)?;
    let ptr = allocation.ptr();
    add(stream, NodeOp::MemAlloc(allocation))?;
    Ok(ptr)
}

/// Adds a node that frees memory which an allocation node of a graph allocated. Returns an error
/// for all other memory, because a capture cannot free it.
pub(crate) fn free(stream: &Stream, ptr: DevicePtr) -> Result<()> {
    match graph_allocation(ptr.address()) {
        Some(allocation) => add(stream, NodeOp::MemFree(allocation)).map(|_| ()),
        None => {
            refuse(stream, CaptureError::Unsupported)?;
            Ok(())
        }
    }
}

/// Adds a node that runs a copy of an executable graph as a nested graph.
pub(crate) fn graph(stream: &Stream, exec: &GraphExec) -> Result<()> {
    add(stream, NodeOp::Child(exec.to_graph()?)).map(|_| ())
}

/// Adds a node that records an event at each launch of the graph.
pub(crate) fn record_external(stream: &Stream, event: &Event) -> Result<()> {
    add(stream, NodeOp::EventRecord(event.clone())).map(|_| ())
}

/// Adds a node that waits for an event at each launch of the graph.
pub(crate) fn wait_external(stream: &Stream, event: &Event) -> Result<()> {
    add(stream, NodeOp::EventWait(event.clone())).map(|_| ())
}
