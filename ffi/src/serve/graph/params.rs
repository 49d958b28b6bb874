//! Converts the parameters of nodes, which are C structures, to operations of nodes ([`NodeOp`]),
//! and back.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use margay::graph::{
    HostNode, KernelAttributes, KernelNode, MemOpsNode, MemcpyNode, MemsetNode, NodeOp,
};
use margay::{Context, Direction, LaunchConfig, Transfer};

use crate::callback;
use crate::handles::{contexts, current, functions, handle_of, native_handle};
use crate::result::CuResult;
use crate::serve::copy::cuboid;
use crate::serve::launch::{check_extents, config, pack_arguments};
use crate::serve::memop::{BatchOrigin, read_ops};
use crate::types::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUarray, CUcontext,
    CUfunction, CUkernel,
};

/// Returns the context that a handle in a node's parameters denotes. Null denotes the current context.
pub(crate) fn context_of(handle: CUcontext) -> Result<Context, CuResult> {
    match handle.0 {
        0 => current(),
        handle => contexts()
            .get(handle)
            .map(|object| object.context)
            .ok_or(CuResult::INVALID_CONTEXT),
    }
}

/// The handles that the caller passed for the kernel of a node. Queries of the node's parameters
/// return these handles.
#[derive(Clone, Copy)]
pub(crate) struct KernelOrigin {
    func: CUfunction,
    kern: CUkernel,
    ctx: CUcontext,
}

/// Converts the parameters of a kernel node to the node's operation.
///
/// # Errors
/// Returns `INVALID_VALUE` for an invalid function and for arguments that do not match the kernel's parameters, and the
/// errors of [`context_of`] and [`check_extents`].
///
/// # Safety
/// The arguments must be valid, as for a launch.
pub(crate) unsafe fn kernel_op(params: &CUDA_KERNEL_NODE_PARAMS) -> Result<NodeOp, CuResult> {
    let base = &params.base;
    let (handle, ctx) = match base.func.0 {
        0 => (params.kern.0, params.ctx),
        func => (func, CUcontext(0)),
    };
    let function = functions().get(handle).ok_or(CuResult::INVALID_VALUE)?;
    let context = match ctx.0 {
        0 => function.here()?.module().context().clone(),
        _ => context_of(ctx)?,
    };
    let kernel = function.in_context(&context)?.into_owned();
    let config = config(base.grid_dim, base.block_dim, base.shared_mem_bytes);
    check_extents(&function, &context.device(), &config)?;
    // SAFETY: the caller guarantees that the arguments are valid.
    let packed = unsafe { pack_arguments(&kernel, base.kernel_params, base.extra) }?;
    let origin = KernelOrigin {
        func: base.func,
        kern: params.kern,
        ctx: params.ctx,
    };
    let node = KernelNode::new(kernel, config, packed, Some(Arc::new(origin)));
    let attributes = KernelAttributes::of(&LaunchConfig::default());
    Ok(NodeOp::Kernel(Arc::new(node), attributes))
}

/// Converts parameters of the version before CUDA 12 to the current version.
pub(crate) fn kernel_params_of_v1(base: CUDA_KERNEL_NODE_PARAMS_v1) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        base,
        kern: CUkernel(0),
        ctx: CUcontext(0),
    }
}

/// Returns the parameters of a kernel node. The argument pointers refer to memory of the node.
///
/// # Errors
/// Returns `INVALID_VALUE` if the node is not a kernel node.
pub(crate) fn kernel_params(op: &NodeOp) -> Result<CUDA_KERNEL_NODE_PARAMS, CuResult> {
    let NodeOp::Kernel(node, _) = op else {
        return Err(CuResult::INVALID_VALUE);
    };
    let origin = node.origin.as_ref();
    let origin = origin.and_then(|origin| origin.downcast_ref::<KernelOrigin>());
    let origin = origin.copied().unwrap_or_else(|| captured_origin(node));
    let addresses = node.argument_addresses();
    let pointers: *const usize = match addresses.is_empty() {
        true => std::ptr::null(),
        false => addresses.as_ptr(),
    };
    let base = CUDA_KERNEL_NODE_PARAMS_v1 {
        func: origin.func,
        grid_dim: node.grid.to_array(),
        block_dim: node.block.to_array(),
        shared_mem_bytes: node.shared,
        kernel_params: pointers.cast_mut().cast::<*mut c_void>(),
        extra: std::ptr::null_mut(),
    };
    Ok(CUDA_KERNEL_NODE_PARAMS {
        base,
        kern: origin.kern,
        ctx: origin.ctx,
    })
}

/// Returns the handles for the kernel of a captured launch: a function handle of this kernel, or null if no such handle
/// exists. For a native kernel, the function creates the handle.
fn captured_origin(node: &KernelNode) -> KernelOrigin {
    let context = node.kernel.module().context();
    let name = node.kernel.name();
    let same = |function: &crate::handles::Function| {
        function.name().to_bytes() == name.as_bytes()
            && function
                .in_context(context)
                .is_ok_and(|kernel| *kernel == node.kernel)
    };
    let func = match node.native() {
        Some(_) => native_handle(&node.kernel),
        None => functions().find(same).map(CUfunction),
    };
    KernelOrigin {
        func: func.unwrap_or(CUfunction(0)),
        kern: CUkernel(0),
        ctx: CUcontext(0),
    }
}

/// The parameters of a copy node, as the caller passed them.
struct CopyOrigin(CUDA_MEMCPY3D);

// SAFETY: the pointers are only returned to the caller, never dereferenced here.
unsafe impl Send for CopyOrigin {}
// SAFETY: the pointers are only returned to the caller, never dereferenced here.
unsafe impl Sync for CopyOrigin {}

/// Converts the parameters of a copy node to the node's operation.
///
/// # Errors
/// Returns `INVALID_VALUE` for an invalid copy, and `INVALID_CONTEXT` for an invalid context.
pub(crate) fn copy_op(params: &CUDA_MEMCPY3D, ctx: CUcontext) -> Result<NodeOp, CuResult> {
    let node = MemcpyNode {
        transfer: cuboid(params)?,
        context: context_of(ctx)?,
        origin: Some(Arc::new(CopyOrigin(*params))),
    };
    Ok(NodeOp::Memcpy(Arc::new(node)))
}

/// Returns the parameters of a copy node.
///
/// # Errors
/// Returns `INVALID_VALUE` if the node is not a copy node.
pub(crate) fn copy_params(op: &NodeOp) -> Result<CUDA_MEMCPY3D, CuResult> {
    let NodeOp::Memcpy(node) = op else {
        return Err(CuResult::INVALID_VALUE);
    };
    let origin = node.origin.as_ref();
    let origin = origin.and_then(|origin| origin.downcast_ref::<CopyOrigin>());
    Ok(origin.map_or_else(|| copy_of(&node.transfer), |origin| origin.0))
}

/// Returns 3D copy parameters that describe a captured copy.
fn copy_of(transfer: &Transfer) -> CUDA_MEMCPY3D {
    const HOST: c_uint = 1;
    const DEVICE: c_uint = 2;
    const UNIFIED: c_uint = 4;
    let (src, dst) = match transfer.direction {
        Direction::HostToDevice => (HOST, DEVICE),
        Direction::DeviceToHost => (DEVICE, HOST),
        Direction::DeviceToDevice => (DEVICE, DEVICE),
        Direction::HostToHost => (HOST, HOST),
        Direction::Unified => (UNIFIED, UNIFIED),
    };
    let on = |kind: c_uint, address: u64| match kind {
        HOST => (address as usize, 0),
        _ => (0, address),
    };
    let ((src_host, src_device), (dst_host, dst_device)) =
        (on(src, transfer.src), on(dst, transfer.dst));
    let rows = |slice: u64, pitch: u64| slice.checked_div(pitch).unwrap_or(0) as usize;
    CUDA_MEMCPY3D {
        src_x_in_bytes: 0,
        src_y: 0,
        src_z: 0,
        src_lod: 0,
        src_memory_type: src,
        src_host: src_host as *const c_void,
        src_device,
        src_array: CUarray(0),
        reserved0: std::ptr::null_mut(),
        src_pitch: transfer.src_pitch as usize,
        src_height: rows(transfer.src_slice, transfer.src_pitch),
        dst_x_in_bytes: 0,
        dst_y: 0,
        dst_z: 0,
        dst_lod: 0,
        dst_memory_type: dst,
        dst_host: dst_host as *mut c_void,
        dst_device,
        dst_array: CUarray(0),
        reserved1: std::ptr::null_mut(),
        dst_pitch: transfer.dst_pitch as usize,
        dst_height: rows(transfer.dst_slice, transfer.dst_pitch),
        width_in_bytes: transfer.width as usize,
        height: transfer.height as usize,
        depth: transfer.depth as usize,
    }
}

/// Converts the parameters of a fill node to the node's operation.
///
/// # Errors
/// Returns `INVALID_CONTEXT` for an invalid context, and `INVALID_VALUE` if the size of a row overflows. The functions
/// that add or change the node detect other invalid parameters.
pub(crate) fn fill_op(
    params: &CUDA_MEMSET_NODE_PARAMS,
    ctx: CUcontext,
) -> Result<NodeOp, CuResult> {
    let row = params.width.checked_mul(params.element_size as usize);
    let row = row.ok_or(CuResult::INVALID_VALUE)?;
    let pitch = match params.height {
        0 | 1 => row,
        _ => params.pitch,
    };
    let fill = margay::copy::Fill {
        dst: params.dst,
        value: params.value,
        width: params.element_size,
        count: params.width as u64,
        rows: params.height as u64,
        pitch: pitch as u64,
    };
    let context = context_of(ctx)?;
    Ok(NodeOp::Memset(Arc::new(MemsetNode { fill, context })))
}

/// Returns the parameters of a fill node.
///
/// # Errors
/// Returns `INVALID_VALUE` if the node is not a fill node.
pub(crate) fn fill_params(op: &NodeOp) -> Result<CUDA_MEMSET_NODE_PARAMS, CuResult> {
    let NodeOp::Memset(node) = op else {
        return Err(CuResult::INVALID_VALUE);
    };
    let fill = &node.fill;
    Ok(CUDA_MEMSET_NODE_PARAMS {
        dst: fill.dst,
        pitch: fill.pitch as usize,
        value: fill.value,
        element_size: fill.width,
        width: fill.count as usize,
        height: fill.rows as usize,
    })
}

/// A host function of the caller with its argument.
#[derive(Clone, Copy)]
pub(crate) struct HostOrigin(CUDA_HOST_NODE_PARAMS);

// SAFETY: the driver API passes the pointer to the thread that calls the function; the caller is responsible for the
// memory that it points to.
unsafe impl Send for HostOrigin {}
// SAFETY: the pointer is passed on and never dereferenced here.
unsafe impl Sync for HostOrigin {}

impl HostOrigin {
    /// Stores `params`, or returns `INVALID_VALUE` if the function in `params` is null.
    pub(crate) fn new(params: CUDA_HOST_NODE_PARAMS) -> Result<HostOrigin, CuResult> {
        match params.function {
            Some(_) => Ok(HostOrigin(params)),
            None => Err(CuResult::INVALID_VALUE),
        }
    }

    /// Calls the function.
    pub(crate) fn call(&self) {
        if let Some(function) = self.0.function {
            // SAFETY: the caller passed a function of this type together with its data.
            unsafe { callback::with_pointer(function, self.0.user_data) };
        }
    }
}

/// Converts the parameters of a host function node to the node's operation.
///
/// # Errors
/// Returns `INVALID_VALUE` if the function is null.
pub(crate) fn host_op(params: CUDA_HOST_NODE_PARAMS) -> Result<NodeOp, CuResult> {
    let origin = HostOrigin::new(params)?;
    let node = HostNode {
        function: Arc::new(move || origin.call()),
        origin: Some(Arc::new(origin)),
    };
    Ok(NodeOp::Host(Arc::new(node)))
}

/// Returns the parameters of a host function node.
///
/// # Errors
/// Returns `INVALID_VALUE` if the node is of another kind, or if no call of the driver API created
/// it.
pub(crate) fn host_params(op: &NodeOp) -> Result<CUDA_HOST_NODE_PARAMS, CuResult> {
    let NodeOp::Host(node) = op else {
        return Err(CuResult::INVALID_VALUE);
    };
    let origin = node.origin.as_ref();
    let origin = origin.and_then(|origin| origin.downcast_ref::<HostOrigin>());
    origin.map(|origin| origin.0).ok_or(CuResult::INVALID_VALUE)
}

/// Converts the parameters of a node of stream memory operations to the node's operation.
///
/// # Errors
/// Returns `INVALID_VALUE` for invalid flags and operations, and `INVALID_CONTEXT` for an invalid context.
///
/// # Safety
/// The array `param_array` must contain at least `count` operations.
pub(crate) unsafe fn batch_op(params: &CUDA_BATCH_MEM_OP_NODE_PARAMS) -> Result<NodeOp, CuResult> {
    // SAFETY: the caller guarantees that the array is valid.
    let (ops, given) = unsafe { read_ops(params.param_array, params.count, params.flags) }?;
    let node = MemOpsNode {
        ops,
        context: context_of(params.ctx)?,
        origin: Some(Arc::new(BatchOrigin(given))),
    };
    Ok(NodeOp::MemOps(Arc::new(node)))
}

/// Returns the parameters of a node of stream memory operations. The array pointer refers to memory of the node.
///
/// # Errors
/// Returns `INVALID_VALUE` if the node is of another kind, or if no call of the driver API created
/// it.
pub(crate) fn batch_params(op: &NodeOp) -> Result<CUDA_BATCH_MEM_OP_NODE_PARAMS, CuResult> {
    let NodeOp::MemOps(node) = op else {
        return Err(CuResult::INVALID_VALUE);
    };
    let origin = node.origin.as_ref();
    let origin = origin.and_then(|origin| origin.downcast_ref::<BatchOrigin>());
    let given = &origin.ok_or(CuResult::INVALID_VALUE)?.0;
    Ok(CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: handle_of(&node.context)?,
        count: given.len() as c_uint,
        param_array: given.as_ptr().cast_mut(),
        flags: 0,
    })
}
