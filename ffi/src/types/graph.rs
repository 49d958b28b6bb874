//! The C structures for graphs, captures and stream memory operations.
//!
//! Invariant: every type in this module has the size of the C type with the same name, as in
//! [`crate::types`].

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
    /// The kernel that the node launches.
    pub func: CUfunction,
    /// The size of the grid in each dimension, in blocks.
    pub grid_dim: [c_uint; 3],
    /// The size of a block in each dimension, in threads.
    pub block_dim: [c_uint; 3],
    /// The size of a block's dynamic shared memory in bytes.
    pub shared_mem_bytes: c_uint,
    /// An array that contains a pointer to each argument of the kernel.
    pub kernel_params: *mut *mut c_void,
    /// A list that describes a buffer with all arguments of the kernel. It is used instead of
    /// `kernel_params`.
    pub extra: *mut *mut c_void,
}

/// The parameters of a kernel node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_KERNEL_NODE_PARAMS {
    /// The part of the parameters that has the layout of CUDA versions before 12.
    pub base: CUDA_KERNEL_NODE_PARAMS_v1,
    /// The kernel that the node launches if `base.func` is null; it belongs to a library
    /// (`CUlibrary`).
    pub kern: CUkernel,
    /// The context in which `kern` runs; null means the current context.
    pub ctx: CUcontext,
}

/// The parameters of a fill node, which is called memset node in CUDA.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMSET_NODE_PARAMS {
    /// The address of the first byte that the fill writes.
    pub dst: CUdeviceptr,
    /// The distance between the starts of two consecutive rows, in bytes.
    pub pitch: usize,
    /// The value that the fill writes to each element.
    pub value: c_uint,
    /// The size in bytes of each element that the fill writes.
    pub element_size: c_uint,
    /// The number of elements that the fill writes in each row.
    pub width: usize,
    /// The number of rows that the fill writes.
    pub height: usize,
}

/// The parameters of a fill node, with its context.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMSET_NODE_PARAMS_v2 {
    /// The part of the parameters that does not contain the context.
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
    /// The function of the program that the node calls.
    pub function: CUhostFn,
    /// The argument that the function receives.
    pub user_data: *mut c_void,
}

/// The parameters of a host function node, with hints for the driver.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_HOST_NODE_PARAMS_v2 {
    /// The function that the node calls, and its argument.
    pub base: CUDA_HOST_NODE_PARAMS,
    /// A number that states how the device waits until the function returns. This library does not
    /// use this field.
    pub sync_mode: c_uint,
    /// The context that the program suggests for the node. This library does not use this field.
    pub ctx: CUcontext,
}

/// The parameters of a child graph node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_CHILD_GRAPH_NODE_PARAMS {
    /// The child graph.
    pub graph: CUgraph,
    /// 0: the node contains a copy of the child graph; 1: the child graph is moved into the node.
    pub ownership: c_uint,
}

/// The parameters of an event record node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_EVENT_RECORD_NODE_PARAMS {
    /// The event that the node records.
    pub event: CUevent,
    /// The context that the program suggests for the node. This library does not use this field.
    pub ctx: CUcontext,
}

/// The parameters of an event wait node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_EVENT_WAIT_NODE_PARAMS {
    /// The event for which the node waits.
    pub event: CUevent,
}

/// The parameters of an allocation node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEM_ALLOC_NODE_PARAMS {
    /// The properties of the memory pool: the kind and the location of its memory.
    pub pool_props: CUmemPoolProps,
    /// An array of access rights: each element states how one location, such as a device, may
    /// access the memory.
    pub access_descs: *const CUmemAccessDesc,
    /// The number of elements in `access_descs`.
    pub access_desc_count: usize,
    /// The size of the allocation in bytes.
    pub bytesize: usize,
    /// The address of the allocation. The driver writes this field.
    pub dptr: CUdeviceptr,
}

/// The parameters of a free node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEM_FREE_NODE_PARAMS {
    /// The address of the allocation that the node frees.
    pub dptr: CUdeviceptr,
}

/// The parameters of a node of stream memory operations.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_BATCH_MEM_OP_NODE_PARAMS {
    /// The context in which the operations run.
    pub ctx: CUcontext,
    /// The number of stream memory operations.
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
    /// The handle of the node's condition: the node decides by the value that a kernel or the
    /// program sets for this handle.
    pub handle: CUgraphConditionalHandle,
    /// The kind of the conditional node: 0 is "if", 1 is "while", and 2 is "switch".
    pub kind: c_uint,
    /// The number of body graphs: the graphs of which the conditional node runs one or none at a
    /// time.
    pub size: c_uint,
    /// The array of the node's body graphs, each of which runs for certain values of the condition.
    /// The driver writes this field.
    pub graphs: *const CUgraph,
    /// The context in which the node's body graphs run.
    pub ctx: CUcontext,
}

/// A union (in the C header) that describes one stream memory operation. It has six words; the
/// first word is the kind of the operation and determines the meaning of the other words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct CUstreamBatchMemOpParams {
    /// The bytes of the union in the C structure, as 64-bit words.
    pub words: [u64; 6],
}

/// The properties of an edge of a graph, beside its two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct CUgraphEdgeData {
    /// The number of the event in the source node after which the target node may start; 0 is the
    /// end of the source node.
    pub from_port: u8,
    /// Always zero.
    pub to_port: u8,
    /// The kind of the edge: a value of the enum `CUgraphDependencyType`.
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
    /// The stream in which the driver prepares the executable graph for its first launch.
    pub upload_stream: CUstream,
    /// The node because of which the instantiation failed. The driver writes this field.
    pub error_node: CUgraphNode,
    /// The result of the instantiation: a value of the enum `CUgraphInstantiateResult`. The driver
    /// writes this field.
    pub result: c_uint,
}

/// The result of an attempt to update an executable graph.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUgraphExecUpdateResultInfo {
    /// The result of the update: a value of the enum `CUgraphExecUpdateResult`.
    pub result: c_uint,
    /// The node because of which the update failed.
    pub error_node: CUgraphNode,
    /// If the update failed because of an edge: the source node of the edge.
    pub error_from_node: CUgraphNode,
}

/// The parameters of a node of any kind.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUgraphNodeParams {
    /// The kind of the node: a value of the enum `CUgraphNodeType`.
    pub kind: c_uint,
    /// Always zero.
    pub reserved0: [c_int; 3],
    /// The bytes of the union in the C structure, as 64-bit words.
    pub words: [u64; 29],
    /// Always zero.
    pub reserved2: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes in this test are the sizes that a C compiler computes for the structures of cuda.h
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
