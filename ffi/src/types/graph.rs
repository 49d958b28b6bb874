//! The C structures of graphs, captures and stream memory operations.
//!
//! Invariant: as in [`crate::types`], sizes are those of the C counterparts.

#![allow(
    non_camel_case_types,
    reason = "these are the names that the C interface gives its types"
)]

use std::ffi::{c_int, c_uint, c_void};

use crate::types::{
    CUDA_MEMCPY3D, CUcontext, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphConditionalHandle,
    CUgraphNode, CUhostFn, CUkernel, CUmemAccessDesc, CUmemPoolProps, CUstream,
};

/// A kernel node, as before CUDA 12.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_KERNEL_NODE_PARAMS_v1 {
    /// The kernel.
    pub func: CUfunction,
    /// Extents of the grid.
    pub grid_dim: [c_uint; 3],
    /// Extents of a block.
    pub block_dim: [c_uint; 3],
    /// Dynamic shared memory of a block.
    pub shared_mem_bytes: c_uint,
    /// A pointer for each parameter.
    pub kernel_params: *mut *mut c_void,
    /// Or a packed buffer.
    pub extra: *mut *mut c_void,
}

/// A kernel node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_KERNEL_NODE_PARAMS {
    /// What CUDA 10 knew.
    pub base: CUDA_KERNEL_NODE_PARAMS_v1,
    /// The kernel of a library, where there is no function.
    pub kern: CUkernel,
    /// Its context; null: the current one.
    pub ctx: CUcontext,
}

/// A fill node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMSET_NODE_PARAMS {
    /// First byte.
    pub dst: CUdeviceptr,
    /// Bytes from row to row.
    pub pitch: usize,
    /// The element.
    pub value: c_uint,
    /// Its size.
    pub element_size: c_uint,
    /// Elements in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// A fill node with its context.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMSET_NODE_PARAMS_v2 {
    /// The fill.
    pub base: CUDA_MEMSET_NODE_PARAMS,
    /// Where it runs.
    pub ctx: CUcontext,
}

/// A copy node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY_NODE_PARAMS {
    /// Zero.
    pub flags: c_int,
    /// Zero.
    pub reserved: c_int,
    /// Where it runs.
    pub copy_ctx: CUcontext,
    /// The copy.
    pub copy_params: CUDA_MEMCPY3D,
}

/// A host function node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_HOST_NODE_PARAMS {
    /// The function.
    pub function: CUhostFn,
    /// Its argument.
    pub user_data: *mut c_void,
}

/// A host function node with hints.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_HOST_NODE_PARAMS_v2 {
    /// The function.
    pub base: CUDA_HOST_NODE_PARAMS,
    /// How the device waits: a hint.
    pub sync_mode: c_uint,
    /// The preferred context: a hint.
    pub ctx: CUcontext,
}

/// A graph inside.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_CHILD_GRAPH_NODE_PARAMS {
    /// The graph.
    pub graph: CUgraph,
    /// 0: it is copied, 1: it is moved into the node.
    pub ownership: c_uint,
}

/// A record of an event.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_EVENT_RECORD_NODE_PARAMS {
    /// The event.
    pub event: CUevent,
    /// The preferred context: a hint.
    pub ctx: CUcontext,
}

/// A wait for an event.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_EVENT_WAIT_NODE_PARAMS {
    /// The event.
    pub event: CUevent,
}

/// An allocation.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEM_ALLOC_NODE_PARAMS {
    /// Where.
    pub pool_props: CUmemPoolProps,
    /// Who may access it.
    pub access_descs: *const CUmemAccessDesc,
    /// Their number.
    pub access_desc_count: usize,
    /// How much.
    pub bytesize: usize,
    /// The address, given back.
    pub dptr: CUdeviceptr,
}

/// The end of an allocation.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEM_FREE_NODE_PARAMS {
    /// The address.
    pub dptr: CUdeviceptr,
}

/// Stream memory operations.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_BATCH_MEM_OP_NODE_PARAMS {
    /// Where they run.
    pub ctx: CUcontext,
    /// Their number.
    pub count: c_uint,
    /// The operations.
    pub param_array: *mut CUstreamBatchMemOpParams,
    /// Zero.
    pub flags: c_uint,
}

/// A choice or a loop.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_CONDITIONAL_NODE_PARAMS {
    /// What decides.
    pub handle: CUgraphConditionalHandle,
    /// 0: if, 1: while, 2: switch.
    pub kind: c_uint,
    /// Graphs to choose from.
    pub size: c_uint,
    /// Those graphs, given back.
    pub graphs: *const CUgraph,
    /// Where it runs.
    pub ctx: CUcontext,
}

/// One stream memory operation: six words, the first of which tells what the others are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct CUstreamBatchMemOpParams {
    /// The union's words.
    pub words: [u64; 6],
}

/// What an edge says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct CUgraphEdgeData {
    /// When it is triggered.
    pub from_port: u8,
    /// Zero.
    pub to_port: u8,
    /// `CUgraphDependencyType`.
    pub kind: u8,
    /// Zero.
    pub reserved: [u8; 5],
}

/// How a graph is made executable, and why not.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_GRAPH_INSTANTIATE_PARAMS {
    /// `CUgraphInstantiate_flags`.
    pub flags: u64,
    /// Where it is made ready.
    pub upload_stream: CUstream,
    /// The node at fault, given back.
    pub error_node: CUgraphNode,
    /// `CUgraphInstantiateResult`, given back.
    pub result: c_uint,
}

/// Why an update was refused.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUgraphExecUpdateResultInfo {
    /// `CUgraphExecUpdateResult`.
    pub result: c_uint,
    /// The node.
    pub error_node: CUgraphNode,
    /// Where the edge begins.
    pub error_from_node: CUgraphNode,
}

/// The parameters of any node.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUgraphNodeParams {
    /// `CUgraphNodeType`.
    pub kind: c_uint,
    /// Zero.
    pub reserved0: [c_int; 3],
    /// The union's words.
    pub words: [u64; 29],
    /// Zero.
    pub reserved2: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes that a C compiler gives for the structures of cuda.h 13.5 on a 64-bit machine.
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
