//! The C structures for graphs, captures and stream memory operations.
//!
//! Invariant: every type here has the size of its C counterpart, as in [`crate::types`].

#![allow(
    non_camel_case_types,
    reason = "these are the names that the C interface gives its types"
)]

use std::ffi::{c_int, c_uint, c_void};

use crate::types::{
    CUDA_MEMCPY3D, CUcontext, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphConditionalHandle,
    CUgraphNode, CUhostFn, CUkernel, CUmemAccessDesc, CUmemPoolProps, CUstream,
};

/// The parameters of a kernel node, in the layout that CUDA versions before 12 use.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_KERNEL_NODE_PARAMS_v1 {
    /// The function to launch.
    pub func: CUfunction,
    /// Grid dimensions in blocks.
    pub grid_dim: [c_uint; 3],
    /// Block dimensions in threads.
    pub block_dim: [c_uint; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_mem_bytes: c_uint,
    /// An array with a pointer to each argument.
    pub kernel_params: *mut *mut c_void,
    /// A list that describes a packed buffer of arguments, instead of `kernel_params`.
    pub extra: *mut *mut c_void,
}

/// The parameters of a kernel node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_KERNEL_NODE_PARAMS {
    /// The parameters in the layout from before CUDA 12.
    pub base: CUDA_KERNEL_NODE_PARAMS_v1,
    /// The kernel of a library. It is used if `base.func` is null.
    pub kern: CUkernel,
    /// The context in which the kernel of a library runs; null means the current context.
    pub ctx: CUcontext,
}

/// The parameters of a fill node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMSET_NODE_PARAMS {
    /// The address of the first byte.
    pub dst: CUdeviceptr,
    /// Row pitch in bytes.
    pub pitch: usize,
    /// The value of each element.
    pub value: c_uint,
    /// The size of an element in bytes.
    pub element_size: c_uint,
    /// The number of elements in a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
}

/// The parameters of a fill node, with its context.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMSET_NODE_PARAMS_v2 {
    /// The parameters of the fill.
    pub base: CUDA_MEMSET_NODE_PARAMS,
    /// The context in which the fill runs.
    pub ctx: CUcontext,
}

/// The parameters of a copy node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY_NODE_PARAMS {
    /// Always zero.
    pub flags: c_int,
    /// Always zero.
    pub reserved: c_int,
    /// The context in which the copy runs.
    pub copy_ctx: CUcontext,
    /// The parameters of the copy.
    pub copy_params: CUDA_MEMCPY3D,
}

/// The parameters of a host function node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_HOST_NODE_PARAMS {
    /// The function to call.
    pub function: CUhostFn,
    /// The argument of the function.
    pub user_data: *mut c_void,
}

/// The parameters of a host function node, with hints.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_HOST_NODE_PARAMS_v2 {
    /// The function and its argument.
    pub base: CUDA_HOST_NODE_PARAMS,
    /// How the device waits for the function. This field is a hint, which this library ignores.
    pub sync_mode: c_uint,
    /// The preferred context. This field is a hint, which this library ignores.
    pub ctx: CUcontext,
}

/// The parameters of a child graph node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_CHILD_GRAPH_NODE_PARAMS {
    /// The child graph.
    pub graph: CUgraph,
    /// 0: the graph is cloned, 1: the graph is moved into the node.
    pub ownership: c_uint,
}

/// The parameters of an event record node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_EVENT_RECORD_NODE_PARAMS {
    /// The event to record.
    pub event: CUevent,
    /// The preferred context. This field is a hint, which this library ignores.
    pub ctx: CUcontext,
}

/// The parameters of an event wait node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_EVENT_WAIT_NODE_PARAMS {
    /// The event to wait for.
    pub event: CUevent,
}

/// The parameters of an allocation node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEM_ALLOC_NODE_PARAMS {
    /// The kind and location of the memory.
    pub pool_props: CUmemPoolProps,
    /// The access rights of locations.
    pub access_descs: *const CUmemAccessDesc,
    /// The number of access rights.
    pub access_desc_count: usize,
    /// The size in bytes.
    pub bytesize: usize,
    /// The address. This field is an output: the call writes it.
    pub dptr: CUdeviceptr,
}

/// The parameters of a free node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEM_FREE_NODE_PARAMS {
    /// The address to free.
    pub dptr: CUdeviceptr,
}

/// The parameters of a node of stream memory operations.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_BATCH_MEM_OP_NODE_PARAMS {
    /// The context in which the operations run.
    pub ctx: CUcontext,
    /// The number of operations.
    pub count: c_uint,
    /// The operations.
    pub param_array: *mut CUstreamBatchMemOpParams,
    /// Always zero.
    pub flags: c_uint,
}

/// The parameters of a conditional node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_CONDITIONAL_NODE_PARAMS {
    /// The handle whose value is the condition.
    pub handle: CUgraphConditionalHandle,
    /// 0: if, 1: while, 2: switch.
    pub kind: c_uint,
    /// The number of body graphs.
    pub size: c_uint,
    /// The body graphs. This field is an output: the call writes it.
    pub graphs: *const CUgraph,
    /// The context of the node.
    pub ctx: CUcontext,
}

/// One stream memory operation. It has six words, and the first word determines how the other words are interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct CUstreamBatchMemOpParams {
    /// The words of the union.
    pub words: [u64; 6],
}

/// The data of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct CUgraphEdgeData {
    /// The event in the source node that triggers the edge.
    pub from_port: u8,
    /// Always zero.
    pub to_port: u8,
    /// A value of `CUgraphDependencyType`.
    pub kind: u8,
    /// Always zero.
    pub reserved: [u8; 5],
}

/// The parameters and results of a graph's instantiation.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_GRAPH_INSTANTIATE_PARAMS {
    /// Bits of `CUgraphInstantiate_flags`.
    pub flags: u64,
    /// The stream in which the graph is uploaded.
    pub upload_stream: CUstream,
    /// The node that caused an error. This field is an output: the call writes it.
    pub error_node: CUgraphNode,
    /// A value of `CUgraphInstantiateResult`. This field is an output: the call writes it.
    pub result: c_uint,
}

/// The result of an executable graph's update.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUgraphExecUpdateResultInfo {
    /// A value of `CUgraphExecUpdateResult`.
    pub result: c_uint,
    /// The node that caused the error.
    pub error_node: CUgraphNode,
    /// The source node of the edge that caused the error.
    pub error_from_node: CUgraphNode,
}

/// The parameters of a node of any kind.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUgraphNodeParams {
    /// A value of `CUgraphNodeType`.
    pub kind: c_uint,
    /// Always zero.
    pub reserved0: [c_int; 3],
    /// The words of the union.
    pub words: [u64; 29],
    /// Always zero.
    pub reserved2: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected sizes are the sizes that a C compiler computes for the structures of cuda.h
    /// 13.5 on a 64-bit machine.
    #[test]
    fn layouts_are_those_of_c() {
        assert_eq!(size_of::<CUDA_KERNEL_NODE_PARAMS_v1>(), 56);
        assert_eq!(size_of::<CUDA_KERNEL_NODE_PARAMS>(), 72);
        assert_eq!(size_of::<CUDA_MEMSET_NODE_PARAMS>(), 40);
        assert_eq!(size_of::<CUDA_MEMSET_NODE_PARAMS_v2>(), 48);
        assert_eq!(size_of::<CUDA_MEMCPY_NODE_PARAMS>(), 216);
        assert_eq!(size_of::<CUDA_HOST_NODE_PARAMS>(), 16);
        assert_eq!(size_of::<CUDA_HOST_NODE_PARAMS_v2>(), 32);
        assert_eq!(size_of::<CUDA_CHILD_GRAPH_NODE_PARAMS>(), 16);
        assert_eq!(size_of::<CUDA_EVENT_RECORD_NODE_PARAMS>(), 16);
        assert_eq!(size_of::<CUDA_MEM_ALLOC_NODE_PARAMS>(), 120);
        assert_eq!(size_of::<CUDA_BATCH_MEM_OP_NODE_PARAMS>(), 32);
        assert_eq!(size_of::<CUDA_CONDITIONAL_NODE_PARAMS>(), 32);
        assert_eq!(size_of::<CUstreamBatchMemOpParams>(), 48);
        assert_eq!(size_of::<CUgraphEdgeData>(), 8);
        assert_eq!(size_of::<CUDA_GRAPH_INSTANTIATE_PARAMS>(), 32);
        assert_eq!(size_of::<CUgraphExecUpdateResultInfo>(), 24);
        assert_eq!(size_of::<CUgraphNodeParams>(), 256);
    }
}
