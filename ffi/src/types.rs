//! The C types of the driver interface, as far as entry points mention them.
//!
//! Handles are opaque numbers: a handle is looked up, never dereferenced. Enumerations are
//! plain integers, because a C caller may pass any value. Structures that no served entry point
//! reads are opaque and appear behind pointers only.
//!
//! Invariant: every type here has the size and the calling convention of its C counterpart.

#![allow(
    non_camel_case_types,
    reason = "these are the names that the C interface gives its types"
)]

use std::ffi::{c_char, c_int, c_uint, c_void};

pub mod graph;

pub use graph::*;

mod textures;

pub use textures::*;

/// Declares handle types: numbers as wide as a pointer.
macro_rules! handles {
    ($($name:ident),* $(,)?) => {$(
        #[doc = concat!("The opaque handle `", stringify!($name), "`.")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub usize);
    )*};
}

/// Declares enumerations: any value may come in.
macro_rules! enumerations {
    ($($name:ident),* $(,)?) => {$(
        #[doc = concat!("The enumeration `", stringify!($name), "` as its number.")]
        pub type $name = c_uint;
    )*};
}

/// Declares structures that are only passed along by pointer.
macro_rules! opaque {
    ($($name:ident),* $(,)?) => {$(
        #[doc = concat!("The structure `", stringify!($name), "`, never read here.")]
        #[derive(Debug)]
        #[repr(C)]
        pub struct $name {
            opaque: [u8; 0],
        }
    )*};
}

handles!(
    CUarray,
    CUasyncCallbackHandle,
    CUcheckpointOperationHandle,
    CUcontext,
    CUcoredumpCallbackHandle,
    CUdevResourceDesc,
    CUeglStreamConnection,
    CUevent,
    CUexternalMemory,
    CUexternalSemaphore,
    CUfunction,
    CUgraph,
    CUgraphExec,
    CUgraphNode,
    CUgraphicsResource,
    CUgreenCtx,
    CUkernel,
    CUlibrary,
    CUlinkState,
    CUlogsCallbackHandle,
    CUmemoryPool,
    CUmipmappedArray,
    CUmodule,
    CUstream,
    CUsurfref,
    CUtexref,
    CUuserObject,
);

enumerations!(
    CUGLDeviceList,
    CUaddress_mode,
    CUarray_format,
    CUatomicOperation,
    CUcoredumpSettings,
    CUdevResourceType,
    CUdevice_P2PAttribute,
    CUdevice_attribute,
    CUdriverProcAddressQueryResult,
    CUexecAffinityType,
    CUfilter_mode,
    CUflushGPUDirectRDMAWritesScope,
    CUflushGPUDirectRDMAWritesTarget,
    CUfunc_cache,
    CUfunctionLoadingState,
    CUfunction_attribute,
    CUgraphExecUpdateResult,
    CUgraphMem_attribute,
    CUgraphNodeType,
    CUjitInputType,
    CUjit_option,
    CUkernelNodeAttrID,
    CUlibraryOption,
    CUlimit,
    CUlogicalEndpointIpcHandleType,
    CUmemAccess_flags,
    CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType,
    CUmemAllocationType,
    CUmemPool_attribute,
    CUmemRangeHandleType,
    CUmem_advise,
    CUmem_range_attribute,
    CUmoduleLoadingMode,
    CUmulticastGranularity_flags,
    CUpointer_attribute,
    CUprocessState,
    CUsharedconfig,
    CUstreamAttrID,
    CUstreamCaptureMode,
    CUstreamCaptureStatus,
    CUtensorMapAllocClass,
    CUtensorMapDataType,
    CUtensorMapFloatOOBfill,
    CUtensorMapIm2ColWideMode,
    CUtensorMapInterleave,
    CUtensorMapL2promotion,
    CUtensorMapSwizzle,
);

opaque!(
    CUDA_ARRAY_SPARSE_PROPERTIES,
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC,
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC,
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC,
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS,
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS,
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS,
    CUDA_EXT_SEM_WAIT_NODE_PARAMS,
    CUDA_FABRIC_COPY_BATCH_OP,
    CUDA_LAUNCH_PARAMS,
    CUarrayMapInfo,
    CUcheckpointCheckpointArgs,
    CUcheckpointLockArgs,
    CUcheckpointRestoreArgs,
    CUcheckpointUnlockArgs,
    CUcliqueInfo,
    CUlogicalEndpointProp,
    CUmemDecompressParams,
    CUmulticastObjectProp,
    CUstreamCigCaptureParams,
    CUtensorMap,
);

/// A device: its ordinal.
pub type CUdevice = c_int;
/// An address in device memory.
pub type CUdeviceptr = u64;
/// A device address of the 32-bit interface of before CUDA 3.2.
pub type CUdeviceptr_v1 = c_uint;
/// A graph's conditional handle.
pub type CUgraphConditionalHandle = u64;
/// A position in the driver's log.
pub type CUlogIterator = c_uint;
/// The number of a logical endpoint.
pub type CUlogicalEndpointId = u32;
/// A physical allocation of the virtual memory interface.
pub type CUmemGenericAllocationHandle = u64;
/// A surface object, as kernels get it.
pub type CUsurfObject = u64;
/// A texture object, as kernels get it.
pub type CUtexObject = u64;

/// A callback that no served entry point calls.
pub type CUasyncCallback = *const c_void;
/// A callback that no served entry point calls.
pub type CUcoredumpStatusCallback = *const c_void;
/// A callback that no served entry point calls.
pub type CUgraphRecaptureCallback = *const c_void;
/// A function that no served entry point calls.
pub type VdpGetProcAddress = c_void;

/// Is told each entry of the log.
pub type CUlogsCallback = Option<
    unsafe extern "C" fn(data: *mut c_void, level: c_uint, message: *mut c_char, length: usize),
>;

/// A host function run in stream order.
pub type CUhostFn = Option<unsafe extern "C" fn(user_data: *mut c_void)>;
/// A host function run in stream order that is told the stream's status.
pub type CUstreamCallback =
    Option<unsafe extern "C" fn(stream: CUstream, status: crate::CuResult, user_data: *mut c_void)>;
/// Gives the dynamic shared memory of a block size.
pub type CUoccupancyB2DSize = Option<unsafe extern "C" fn(block_size: c_int) -> usize>;

/// A UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct CUuuid {
    /// Its bytes in order.
    pub bytes: [u8; 16],
}

/// A handle for another process's event.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUipcEventHandle {
    /// Opaque bytes.
    pub reserved: [c_char; 64],
}

/// A handle for another process's memory.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUipcMemHandle {
    /// Opaque bytes.
    pub reserved: [c_char; 64],
}

/// An EGL frame, passed by value.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUeglFrame {
    /// Arrays or pointers of the planes.
    pub planes: [usize; 3],
    /// Extents, pitch, counts and formats.
    pub words: [c_uint; 9],
}

/// Where memory lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct CUmemLocation {
    /// 1: a device, 2: the host, 3: a host NUMA node, 4: the current one.
    pub kind: c_uint,
    /// Ordinal or node.
    pub id: c_int,
}

/// Who may access memory.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUmemAccessDesc {
    /// Who.
    pub location: CUmemLocation,
    /// 0: not, 1: read, 3: read and write.
    pub flags: CUmemAccess_flags,
}

/// Properties of a physical allocation.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUmemAllocationProp {
    /// 1: pinned.
    pub kind: CUmemAllocationType,
    /// Handle types for sharing; 0: none.
    pub requested_handle_types: CUmemAllocationHandleType,
    /// Where the memory is.
    pub location: CUmemLocation,
    /// Windows only.
    pub win32_handle_meta_data: *mut c_void,
    /// 1: compressible, a hint.
    pub compression_type: u8,
    /// Whether it can be reached by RDMA.
    pub gpu_direct_rdma_capable: u8,
    /// Usage flags.
    pub usage: u16,
    /// Zero.
    pub reserved: [u8; 4],
}

/// Names an allocation of a pool for another process.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUmemPoolPtrExportData {
    /// Opaque bytes.
    pub reserved: [u8; 64],
}

/// Properties of a new memory pool.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUmemPoolProps {
    /// 1: pinned; 2: managed.
    pub alloc_type: CUmemAllocationType,
    /// Handle types for sharing; 0: none.
    pub handle_types: CUmemAllocationHandleType,
    /// Where the memory is.
    pub location: CUmemLocation,
    /// Windows only.
    pub win32_security_attributes: *mut c_void,
    /// Limit in bytes; 0: the system's.
    pub max_size: usize,
    /// Usage flags.
    pub usage: u16,
    /// Whether it can be reached by RDMA.
    pub gpu_direct_rdma_capable: u8,
    /// Zero.
    pub reserved: [u8; 53],
}

/// Affinity of a new context.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUexecAffinityParam {
    /// 0: number of multiprocessors.
    pub kind: CUexecAffinityType,
    /// The number.
    pub value: c_uint,
}

/// Parameters of a new context since 12.5.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUctxCreateParams {
    /// Affinities.
    pub exec_affinity_params: *mut CUexecAffinityParam,
    /// Their number.
    pub num_exec_affinity_params: c_int,
    /// Sharing with graphics.
    pub cig_params: *mut c_void,
}

/// The properties that CUDA 2 knew of a device.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct CUdevprop {
    /// Threads in a block, at most.
    pub max_threads_per_block: c_int,
    /// Extents of a block, at most.
    pub max_threads_dim: [c_int; 3],
    /// Extents of a grid, at most.
    pub max_grid_size: [c_int; 3],
    /// Shared memory of a block.
    pub shared_mem_per_block: c_int,
    /// Constant memory.
    pub total_constant_memory: c_int,
    /// Warp size.
    pub simd_width: c_int,
    /// Largest pitch.
    pub mem_pitch: c_int,
    /// Registers of a block.
    pub regs_per_block: c_int,
    /// Clock rate in kHz.
    pub clock_rate: c_int,
    /// Alignment of textures.
    pub texture_align: c_int,
}

/// A copy of a rectangle.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY2D {
    /// Offset in the source's rows.
    pub src_x_in_bytes: usize,
    /// First row of the source.
    pub src_y: usize,
    /// Kind of the source.
    pub src_memory_type: c_uint,
    /// Source, of kind host.
    pub src_host: *const c_void,
    /// Source, of kind device or unified.
    pub src_device: CUdeviceptr,
    /// Source, of kind array.
    pub src_array: CUarray,
    /// Bytes from row to row.
    pub src_pitch: usize,
    /// Offset in the destination's rows.
    pub dst_x_in_bytes: usize,
    /// First row of the destination.
    pub dst_y: usize,
    /// Kind of the destination.
    pub dst_memory_type: c_uint,
    /// Destination, of kind host.
    pub dst_host: *mut c_void,
    /// Destination, of kind device or unified.
    pub dst_device: CUdeviceptr,
    /// Destination, of kind array.
    pub dst_array: CUarray,
    /// Bytes from row to row.
    pub dst_pitch: usize,
    /// Bytes of a row that are copied.
    pub width_in_bytes: usize,
    /// Rows.
    pub height: usize,
}

/// A copy of a box.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY3D {
    /// Offset in the source's rows.
    pub src_x_in_bytes: usize,
    /// First row of the source.
    pub src_y: usize,
    /// First slice of the source.
    pub src_z: usize,
    /// Mipmap level of the source.
    pub src_lod: usize,
    /// Kind of the source.
    pub src_memory_type: c_uint,
    /// Source, of kind host.
    pub src_host: *const c_void,
    /// Source, of kind device or unified.
    pub src_device: CUdeviceptr,
    /// Source, of kind array.
    pub src_array: CUarray,
    /// Zero.
    pub reserved0: *mut c_void,
    /// Bytes from row to row.
    pub src_pitch: usize,
    /// Rows in a slice.
    pub src_height: usize,
    /// Offset in the destination's rows.
    pub dst_x_in_bytes: usize,
    /// First row of the destination.
    pub dst_y: usize,
    /// First slice of the destination.
    pub dst_z: usize,
    /// Mipmap level of the destination.
    pub dst_lod: usize,
    /// Kind of the destination.
    pub dst_memory_type: c_uint,
    /// Destination, of kind host.
    pub dst_host: *mut c_void,
    /// Destination, of kind device or unified.
    pub dst_device: CUdeviceptr,
    /// Destination, of kind array.
    pub dst_array: CUarray,
    /// Zero.
    pub reserved1: *mut c_void,
    /// Bytes from row to row.
    pub dst_pitch: usize,
    /// Rows in a slice.
    pub dst_height: usize,
    /// Bytes of a row that are copied.
    pub width_in_bytes: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

/// A copy of a rectangle, as before CUDA 3.2.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[allow(missing_docs, reason = "each field is that of `CUDA_MEMCPY2D`")]
pub struct CUDA_MEMCPY2D_v1 {
    pub src_x_in_bytes: c_uint,
    pub src_y: c_uint,
    pub src_memory_type: c_uint,
    pub src_host: *const c_void,
    pub src_device: CUdeviceptr_v1,
    pub src_array: CUarray,
    pub src_pitch: c_uint,
    pub dst_x_in_bytes: c_uint,
    pub dst_y: c_uint,
    pub dst_memory_type: c_uint,
    pub dst_host: *mut c_void,
    pub dst_device: CUdeviceptr_v1,
    pub dst_array: CUarray,
    pub dst_pitch: c_uint,
    pub width_in_bytes: c_uint,
    pub height: c_uint,
}

/// A copy of a box, as before CUDA 3.2.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[allow(missing_docs, reason = "each field is that of `CUDA_MEMCPY3D`")]
pub struct CUDA_MEMCPY3D_v1 {
    pub src_x_in_bytes: c_uint,
    pub src_y: c_uint,
    pub src_z: c_uint,
    pub src_lod: c_uint,
    pub src_memory_type: c_uint,
    pub src_host: *const c_void,
    pub src_device: CUdeviceptr_v1,
    pub src_array: CUarray,
    pub reserved0: *mut c_void,
    pub src_pitch: c_uint,
    pub src_height: c_uint,
    pub dst_x_in_bytes: c_uint,
    pub dst_y: c_uint,
    pub dst_z: c_uint,
    pub dst_lod: c_uint,
    pub dst_memory_type: c_uint,
    pub dst_host: *mut c_void,
    pub dst_device: CUdeviceptr_v1,
    pub dst_array: CUarray,
    pub reserved1: *mut c_void,
    pub dst_pitch: c_uint,
    pub dst_height: c_uint,
    pub width_in_bytes: c_uint,
    pub height: c_uint,
    pub depth: c_uint,
}

/// A copy of a box between contexts.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[allow(missing_docs, reason = "each field is that of `CUDA_MEMCPY3D`")]
pub struct CUDA_MEMCPY3D_PEER {
    pub src_x_in_bytes: usize,
    pub src_y: usize,
    pub src_z: usize,
    pub src_lod: usize,
    pub src_memory_type: c_uint,
    pub src_host: *const c_void,
    pub src_device: CUdeviceptr,
    pub src_array: CUarray,
    pub src_context: CUcontext,
    pub src_pitch: usize,
    pub src_height: usize,
    pub dst_x_in_bytes: usize,
    pub dst_y: usize,
    pub dst_z: usize,
    pub dst_lod: usize,
    pub dst_memory_type: c_uint,
    pub dst_host: *mut c_void,
    pub dst_device: CUdeviceptr,
    pub dst_array: CUarray,
    pub dst_context: CUcontext,
    pub dst_pitch: usize,
    pub dst_height: usize,
    pub width_in_bytes: usize,
    pub height: usize,
    pub depth: usize,
}

/// How copies of a batch are done.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUmemcpyAttributes {
    /// 1: in stream order, 2: during the call, 3: any time.
    pub src_access_order: c_uint,
    /// A hint.
    pub src_loc_hint: CUmemLocation,
    /// A hint.
    pub dst_loc_hint: CUmemLocation,
    /// 1: beside kernels, a hint.
    pub flags: c_uint,
}

/// One side of a box of a batch.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUmemcpy3DOperand {
    /// 1: a pointer, 2: an array.
    pub kind: c_uint,
    /// The union: pointer, length of rows, height of layers, hint; or array and offset.
    pub words: [u64; 4],
}

/// A box of a batch.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY3D_BATCH_OP {
    /// Source.
    pub src: CUmemcpy3DOperand,
    /// Destination.
    pub dst: CUmemcpy3DOperand,
    /// Width, height, depth.
    pub extent: [usize; 3],
    /// As in [`CUmemcpyAttributes`].
    pub src_access_order: c_uint,
    /// As in [`CUmemcpyAttributes`].
    pub flags: c_uint,
}

/// A resource of a device.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUdevResource {
    /// 1: multiprocessors, 1000: configuration of queues, 10000: queues.
    pub kind: CUdevResourceType,
    /// The library's own.
    pub filler: [u32; 23],
    /// The union; of multiprocessors: number, fewest of a part, multiple of a part's, flags, domain.
    pub words: [u32; 10],
    /// Another resource.
    pub next: *mut c_void,
}

/// What a part of a split shall be.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CU_DEV_SM_RESOURCE_GROUP_PARAMS {
    /// Multiprocessors; 0: as many as there are.
    pub sm_count: c_uint,
    /// Multiprocessors that go together.
    pub coscheduled_sm_count: c_uint,
    /// More of them, where possible.
    pub preferred_coscheduled_sm_count: c_uint,
    /// 1: others may fill it up.
    pub flags: c_uint,
    /// A domain.
    pub locality_domain_id: c_uint,
    /// Zero.
    pub reserved: [c_uint; 11],
}

/// The value of a launch, stream or kernel node attribute.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct CUlaunchAttributeValue {
    /// The union's bytes.
    pub bytes: [u8; 64],
}

/// The value of a stream attribute.
pub type CUstreamAttrValue = CUlaunchAttributeValue;
/// The value of a kernel node's attribute.
pub type CUkernelNodeAttrValue = CUlaunchAttributeValue;

/// An attribute of a launch.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUlaunchAttribute {
    /// Which.
    pub id: c_uint,
    /// Filler.
    pub pad: [u8; 4],
    /// Its value.
    pub value: CUlaunchAttributeValue,
}

/// A launch's configuration.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUlaunchConfig {
    /// Extents of the grid.
    pub grid_dim: [c_uint; 3],
    /// Extents of a block.
    pub block_dim: [c_uint; 3],
    /// Dynamic shared memory of a block.
    pub shared_mem_bytes: c_uint,
    /// Where to run.
    pub stream: CUstream,
    /// Attributes.
    pub attrs: *mut CUlaunchAttribute,
    /// Their number.
    pub num_attrs: c_uint,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes that a C compiler gives for the structures of cuda.h 13.5 on a 64-bit machine.
    #[test]
    fn layouts_are_those_of_c() {
        assert_eq!(size_of::<CUDA_MEMCPY2D>(), 128);
        assert_eq!(size_of::<CUDA_MEMCPY3D>(), 200);
        assert_eq!(size_of::<CUlaunchConfig>(), 56);
        assert_eq!(size_of::<CUlaunchAttribute>(), 72);
        assert_eq!(size_of::<CUmemPoolProps>(), 88);
        assert_eq!(size_of::<CUDA_MEMCPY2D_v1>(), 96);
        assert_eq!(size_of::<CUDA_MEMCPY3D_v1>(), 144);
        assert_eq!(size_of::<CUDA_MEMCPY3D_PEER>(), 200);
        assert_eq!(size_of::<CUmemcpyAttributes>(), 24);
        assert_eq!(size_of::<CUmemcpy3DOperand>(), 40);
        assert_eq!(size_of::<CUDA_MEMCPY3D_BATCH_OP>(), 112);
        assert_eq!(size_of::<CUdevResource>(), 144);
        assert_eq!(size_of::<CU_DEV_SM_RESOURCE_GROUP_PARAMS>(), 64);
        assert_eq!(size_of::<CUmemAllocationProp>(), 32);
        assert_eq!(size_of::<CUmemPoolPtrExportData>(), 64);
        assert_eq!(size_of::<CUmemLocation>(), 8);
        assert_eq!(size_of::<CUmemAccessDesc>(), 12);
        assert_eq!(size_of::<CUctxCreateParams>(), 24);
        assert_eq!(size_of::<CUdevprop>(), 56);
        assert_eq!(size_of::<CUuuid>(), 16);
        assert_eq!(size_of::<CUstream>(), 8);
        assert_eq!(size_of::<CUhostFn>(), 8);
    }
}
