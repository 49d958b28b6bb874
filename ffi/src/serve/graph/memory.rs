//! Implements the entry points for allocation nodes and free nodes of graphs.

use std::ffi::{c_uint, c_void};

use margay::graph::{Graph, GraphAllocation, GraphMemory, Node, NodeOp};
use margay::{Context, Device, DevicePtr, Runtime};

use super::dependencies;
use crate::convert::{Out, read_array};
use crate::guard::Call;
use crate::handles::{PoolLocation, current, node_handle};
use crate::result::{CuResult, Served};
use crate::types::{CUDA_MEM_ALLOC_NODE_PARAMS, CUgraphNode, CUmemLocation, CUmemPoolProps};

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const LOCATION_DEVICE: c_uint = 1;

/// Returns the context for an allocation on the device `ordinal`: the current context if it belongs
/// to this device, otherwise the device's primary context.
fn context_on(ordinal: i32) -> Result<Context, CuResult> {
    let device = Runtime::global()?
        .device(ordinal)
        .map_err(|_| CuResult::INVALID_VALUE)?;
    match current() {
        Ok(context) if context.device().ordinal() == ordinal => Ok(context),
        _ => Ok(device.primary_context()?),
    }
}

/// Allocates the memory of an allocation node, returns the node's operation, and writes the address to `params`.
///
/// # Errors
/// Returns `INVALID_VALUE` for invalid properties, and `NOT_SUPPORTED` if the memory is to be shared with other
/// processes.
///
/// # Safety
/// The array of access descriptors must contain as many elements as its count states.
pub(super) unsafe fn alloc_op(params: &mut CUDA_MEM_ALLOC_NODE_PARAMS) -> Result<NodeOp, CuResult> {
    let props = &params.pool_props;
    let place = PoolLocation::of(&props.location, props.alloc_type).map_err(|code| match code {
        CuResult::INVALID_DEVICE => CuResult::INVALID_VALUE,
        other => other,
    })?;
    if props.handle_types != 0 {
        return Err(CuResult::NOT_SUPPORTED);
    }
    // SAFETY: the caller guarantees that the array is valid.
    for access in unsafe { read_array(params.access_descs, params.access_desc_count) }? {
        let known = Runtime::global()?.device(access.location.id).is_ok();
        if access.location.kind != LOCATION_DEVICE || !known {
            return Err(CuResult::INVALID_VALUE);
        }
    }
    let context = match (props.location.kind, current()) {
        (LOCATION_DEVICE, _) => context_on(props.location.id)?,
        (_, Ok(context)) => context,
        _ => context_on(0)?,
    };
    let bytes = params.bytesize as u64;
    let allocation = GraphAllocation::of(&context, bytes, place.pointers(), place.pack())?;
    params.dptr = allocation.ptr().address();
    Ok(NodeOp::MemAlloc(allocation))
}

/// Returns the parameters of an allocation node, whose operation is `op`.
///
/// # Errors
/// Returns `INVALID_VALUE` if the node is not an allocation node.
pub(super) fn alloc_params(op: &NodeOp) -> Result<CUDA_MEM_ALLOC_NODE_PARAMS, CuResult> {
    let NodeOp::MemAlloc(allocation) = op else {
        return Err(CuResult::INVALID_VALUE);
    };
    let ordinal = allocation.context().device().ordinal();
    let (kind, location, id) = PoolLocation::unpack(allocation.label(), ordinal).told();
    let pool_props = CUmemPoolProps {
        alloc_type: kind as c_uint,
        handle_types: 0,
        location: CUmemLocation {
            kind: location as c_uint,
            id,
        },
        win32_security_attributes: std::ptr::null_mut(),
        max_size: 0,
        usage: 0,
        gpu_direct_rdma_capable: 0,
        reserved: [0; 53],
    };
    Ok(CUDA_MEM_ALLOC_NODE_PARAMS {
        pool_props,
        access_descs: std::ptr::null(),
        access_desc_count: 0,
        bytesize: allocation.bytes() as usize,
        dptr: allocation.ptr().address(),
    })
}

pub(crate) fn graph_add_mem_alloc_node(
    _: &Call,
    out: Out<CUgraphNode>,
    graph: Graph,
    before: *const CUgraphNode,
    count: usize,
    params: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
) -> Served {
    if params.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller guarantees `count` elements.
    let before = unsafe { dependencies(before, std::ptr::null(), count) }?;
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let mut given = unsafe { params.read_unaligned() };
    // SAFETY: the caller guarantees that the array is valid.
    let op = unsafe { alloc_op(&mut given) }?;
    let node = graph.add(op, &before)?;
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    unsafe { params.write_unaligned(given) };
    out.set(node_handle(&node));
    Ok(())
}

pub(crate) fn graph_mem_alloc_node_get_params(
    _: &Call,
    node: Node,
    out: Out<CUDA_MEM_ALLOC_NODE_PARAMS>,
) -> Served {
    out.set(alloc_params(&node.op()?)?);
    Ok(())
}

pub(crate) fn graph_add_mem_free_node(
    _: &Call,
    out: Out<CUgraphNode>,
    graph: Graph,
    before: *const CUgraphNode,
    count: usize,
    address: u64,
) -> Served {
    // SAFETY: the caller guarantees `count` elements.
    let before = unsafe { dependencies(before, std::ptr::null(), count) }?;
    let node = graph.add_free_behind(&before, DevicePtr::new(address))?;
    out.set(node_handle(&node));
    Ok(())
}

/// Returns the address that a free node frees.
///
/// # Errors
/// Returns `INVALID_VALUE` if the node is not a free node.
pub(super) fn freed_address(op: &NodeOp) -> Result<u64, CuResult> {
    match op {
        NodeOp::MemFree(allocation) => Ok(allocation.ptr().address()),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

pub(crate) fn graph_mem_free_node_get_params(_: &Call, node: Node, out: Out<u64>) -> Served {
    out.set(freed_address(&node.op()?)?);
    Ok(())
}

pub(crate) fn device_graph_mem_trim(_: &Call, device: Device) -> Served {
    GraphMemory::trim(device.ordinal());
    Ok(())
}

/// Values of `CUgraphMem_attribute`.
const USED_CURRENT: c_uint = 0;
const USED_HIGH: c_uint = 1;
const RESERVED_CURRENT: c_uint = 2;
const RESERVED_HIGH: c_uint = 3;

pub(crate) fn device_get_graph_mem_attribute(
    _: &Call,
    device: Device,
    attribute: c_uint,
    out: Out<c_void>,
) -> Served {
    let memory = GraphMemory::now(device.ordinal());
    let value = match attribute {
        USED_CURRENT => memory.used,
        USED_HIGH => memory.used_high,
        RESERVED_CURRENT => memory.reserved,
        RESERVED_HIGH => memory.reserved_high,
        _ => return Err(CuResult::INVALID_VALUE),
    };
    out.set_as::<u64>(value);
    Ok(())
}

pub(crate) fn device_set_graph_mem_attribute(
    _: &Call,
    device: Device,
    attribute: c_uint,
    value: *mut c_void,
) -> Served {
    if value.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the pointer is not null; all attributes have 64 bits.
    let given = unsafe { value.cast::<u64>().read_unaligned() };
    match (attribute, given) {
        (USED_HIGH, 0) => GraphMemory::reset_used_high(device.ordinal()),
        (RESERVED_HIGH, 0) => GraphMemory::reset_reserved_high(device.ordinal()),
        _ => return Err(CuResult::INVALID_VALUE),
    }
    Ok(())
}
