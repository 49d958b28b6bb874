//! The C types of the driver API that the entry points use.
//!
//! Handles are opaque numbers: a handle is looked up, never dereferenced. Enumerations are plain integers, because a C
//! caller can pass any value. Structures that no implemented entry point reads are opaque and occur only as pointer
//! targets.
//!
//! Invariant: every type in this module has the size and the calling convention of the C type with
//! the same name.

#![allow(
    non_camel_case_types,
    reason = "these are the names that the C interface gives its types"
)]

use std::ffi::{c_char, c_int, c_uint, c_void};

pub mod graph;

pub use graph::*;

mod textures;

pub use textures::*;

/// Declares handle types: integers as wide as a pointer.
macro_rules! handles {
    ($($name:ident),* $(,)?) => {$(
        #[doc = concat!("The opaque handle `", stringify!($name), "`.")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub usize);
    )*};
}

/// Declares enumerations as integers, because callers can pass any value.
macro_rules! enumerations {
    ($($name:ident),* $(,)?) => {$(
        #[doc = concat!("The enumeration `", stringify!($name), "` as its number.")]
        pub type $name = c_uint;
    )*};
}

/// Declares opaque structures, which are only passed by pointer.
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

/// A device, given by its ordinal.
pub type CUdevice = c_int;
/// An address in device memory.
pub type CUdeviceptr = u64;
/// A device address in the functions from before CUDA 3.2, whose addresses have 32 bits.
pub type CUdeviceptr_v1 = c_uint;
/// The handle that controls a conditional node of a graph.
pub type CUgraphConditionalHandle = u64;
/// The number of the next entry of the driver's log that the program will read.
pub type CUlogIterator = c_uint;
/// The number of a logical endpoint. No entry point with a parameter of this type is implemented.
pub type CUlogicalEndpointId = u32;
/// The handle of a physical allocation of the virtual memory interface.
pub type CUmemGenericAllocationHandle = u64;
/// A surface object, as kernels receive it.
pub type CUsurfObject = u64;
/// A texture object, as kernels receive it.
pub type CUtexObject = u64;

/// A callback that no implemented entry point calls.
pub type CUasyncCallback = *const c_void;
/// A callback that no implemented entry point calls.
pub type CUcoredumpStatusCallback = *const c_void;
/// A callback that no implemented entry point calls.
pub type CUgraphRecaptureCallback = *const c_void;
/// A function that no implemented entry point calls.
pub type VdpGetProcAddress = c_void;

/// A callback that receives each entry of the log.
pub type CUlogsCallback = Option<
    unsafe extern "C" fn(data: *mut c_void, level: c_uint, message: *mut c_char, length: usize),
>;

/// A host function that runs in stream order.
pub type CUhostFn = Option<unsafe extern "C" fn(user_data: *mut c_void)>;
/// A host function that runs in stream order and receives the stream's status.
pub type CUstreamCallback =
    Option<unsafe extern "C" fn(stream: CUstream, status: crate::CuResult, user_data: *mut c_void)>;
/// A function that returns the number of bytes of dynamic shared memory that a block of `block_size` threads needs.
pub type CUoccupancyB2DSize = Option<unsafe extern "C" fn(block_size: c_int) -> usize>;

/// A UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct CUuuid {
    /// The 16 bytes of the identifier, from the first to the last.
    pub bytes: [u8; 16],
}

/// A handle with which a process opens an event of another process.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUipcEventHandle {
    /// Opaque bytes.
    pub reserved: [c_char; 64],
}

/// A handle with which a process opens device memory of another process.
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
    /// For each plane of the frame, its CUDA array or its address.
    pub planes: [usize; 3],
    /// The remaining fields of the C structure: dimensions, pitch, counts and formats.
    pub words: [c_uint; 9],
}

/// A location of memory, such as a device or the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct CUmemLocation {
    /// The kind of location. 0: none, 1: a device, 2: the host, 3: a NUMA node of the host, 4: the
    /// NUMA node of the calling thread.
    pub kind: c_uint,
    /// The ordinal of the device or the number of the NUMA node.
    pub id: c_int,
}

/// The access rights of one location.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUmemAccessDesc {
    /// The location to which the access rights belong.
    pub location: CUmemLocation,
    /// The access rights. 0: none, 1: read, 3: read and write.
    pub flags: CUmemAccess_flags,
}

/// Properties of a physical allocation.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUmemAllocationProp {
    /// 1: pinned memory.
    pub kind: CUmemAllocationType,
    /// The kinds of handles for sharing the memory; 0 means none.
    pub requested_handle_types: CUmemAllocationHandleType,
    /// The location of the memory.
    pub location: CUmemLocation,
    /// Used on Windows only.
    pub win32_handle_meta_data: *mut c_void,
    /// 1 requests compressible memory. This library accepts 0 and 1 and does not compress memory.
    pub compression_type: u8,
    /// Whether the memory can be accessed by RDMA.
    pub gpu_direct_rdma_capable: u8,
    /// Usage flags.
    pub usage: u16,
    /// Always zero.
    pub reserved: [u8; 4],
}

/// The data with which another process imports an allocation of a pool.
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
    /// The kind of memory. 1: pinned, 2: managed.
    pub alloc_type: CUmemAllocationType,
    /// The kinds of handles for sharing the pool; 0 means none.
    pub handle_types: CUmemAllocationHandleType,
    /// The location of the memory.
    pub location: CUmemLocation,
    /// Used on Windows only.
    pub win32_security_attributes: *mut c_void,
    /// The maximum size in bytes; 0 means the limit of the system.
    pub max_size: usize,
    /// Usage flags.
    pub usage: u16,
    /// Whether the memory can be accessed by RDMA.
    pub gpu_direct_rdma_capable: u8,
    /// Always zero.
    pub reserved: [u8; 53],
}

/// The execution affinity of a new context.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUexecAffinityParam {
    /// The kind of affinity. 0 means that `value` is a number of multiprocessors.
    pub kind: CUexecAffinityType,
    /// The number of multiprocessors.
    pub value: c_uint,
}

/// Parameters of a new context, for `cuCtxCreate_v4` (since CUDA 12.5).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUctxCreateParams {
    /// The execution affinities.
    pub exec_affinity_params: *mut CUexecAffinityParam,
    /// The number of elements in the array of execution affinities.
    pub num_exec_affinity_params: c_int,
    /// Parameters for sharing with a graphics client.
    pub cig_params: *mut c_void,
}

/// The device properties of CUDA 2.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct CUdevprop {
    /// The maximum number of threads in a block.
    pub max_threads_per_block: c_int,
    /// The maximum block dimensions.
    pub max_threads_dim: [c_int; 3],
    /// The maximum grid dimensions.
    pub max_grid_size: [c_int; 3],
    /// The maximum size of a block's shared memory in bytes.
    pub shared_mem_per_block: c_int,
    /// The size of constant memory in bytes.
    pub total_constant_memory: c_int,
    /// The warp size.
    pub simd_width: c_int,
    /// The maximum row pitch of a copy in bytes.
    pub mem_pitch: c_int,
    /// The maximum number of registers that a block can use.
    pub regs_per_block: c_int,
    /// The clock rate in kHz.
    pub clock_rate: c_int,
    /// The alignment of textures in bytes.
    pub texture_align: c_int,
}

/// The parameters of a 2D copy.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY2D {
    /// The offset in bytes at which the copied part of each source row begins.
    pub src_x_in_bytes: usize,
    /// The first row of the source that is copied.
    pub src_y: usize,
    /// The type of the source's memory, a value of `CUmemorytype`.
    pub src_memory_type: c_uint,
    /// The address of the source if `src_memory_type` is host memory.
    pub src_host: *const c_void,
    /// The address of the source if `src_memory_type` is device memory or unified.
    pub src_device: CUdeviceptr,
    /// The array that is the source if `src_memory_type` is an array.
    pub src_array: CUarray,
    /// The distance in bytes between the starts of two consecutive rows of the source.
    pub src_pitch: usize,
    /// The offset in bytes at which the copied part of each destination row begins.
    pub dst_x_in_bytes: usize,
    /// The first row of the destination to which the copy writes.
    pub dst_y: usize,
    /// The type of the destination's memory, a value of `CUmemorytype`.
    pub dst_memory_type: c_uint,
    /// The address of the destination if `dst_memory_type` is host memory.
    pub dst_host: *mut c_void,
    /// The address of the destination if `dst_memory_type` is device memory or unified.
    pub dst_device: CUdeviceptr,
    /// The array that is the destination if `dst_memory_type` is an array.
    pub dst_array: CUarray,
    /// The distance in bytes between the starts of two consecutive rows of the destination.
    pub dst_pitch: usize,
    /// Number of bytes to copy in each row.
    pub width_in_bytes: usize,
    /// Number of rows to copy.
    pub height: usize,
}

/// The parameters of a 3D copy.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY3D {
    /// The offset in bytes at which the copied part of each source row begins.
    pub src_x_in_bytes: usize,
    /// The first row of the source that is copied.
    pub src_y: usize,
    /// The first slice of the source that is copied.
    pub src_z: usize,
    /// Mipmap level of the source.
    pub src_lod: usize,
    /// The type of the source's memory, a value of `CUmemorytype`.
    pub src_memory_type: c_uint,
    /// The address of the source if `src_memory_type` is host memory.
    pub src_host: *const c_void,
    /// The address of the source if `src_memory_type` is device memory or unified.
    pub src_device: CUdeviceptr,
    /// The array that is the source if `src_memory_type` is an array.
    pub src_array: CUarray,
    /// Always zero.
    pub reserved0: *mut c_void,
    /// The distance in bytes between the starts of two consecutive rows of the source.
    pub src_pitch: usize,
    /// Number of rows in a slice of the source.
    pub src_height: usize,
    /// The offset in bytes at which the copied part of each destination row begins.
    pub dst_x_in_bytes: usize,
    /// The first row of the destination to which the copy writes.
    pub dst_y: usize,
    /// The first slice of the destination to which the copy writes.
    pub dst_z: usize,
    /// Mipmap level of the destination.
    pub dst_lod: usize,
    /// The type of the destination's memory, a value of `CUmemorytype`.
    pub dst_memory_type: c_uint,
    /// The address of the destination if `dst_memory_type` is host memory.
    pub dst_host: *mut c_void,
    /// The address of the destination if `dst_memory_type` is device memory or unified.
    pub dst_device: CUdeviceptr,
    /// The array that is the destination if `dst_memory_type` is an array.
    pub dst_array: CUarray,
    /// Always zero.
    pub reserved1: *mut c_void,
    /// The distance in bytes between the starts of two consecutive rows of the destination.
    pub dst_pitch: usize,
    /// Number of rows in a slice of the destination.
    pub dst_height: usize,
    /// Number of bytes to copy in each row.
    pub width_in_bytes: usize,
    /// Number of rows to copy in each slice.
    pub height: usize,
    /// Number of slices to copy.
    pub depth: usize,
}

/// The parameters of a 2D copy before CUDA 3.2.
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

/// The parameters of a 3D copy before CUDA 3.2.
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

/// The parameters of a 3D copy between contexts.
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

/// The attributes of copies in a batch.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUmemcpyAttributes {
    /// When the source is read. 1: in stream order, 2: during the call, 3: at any time.
    pub src_access_order: c_uint,
    /// The location of the source of the copies. This library does not use this field.
    pub src_loc_hint: CUmemLocation,
    /// The location of the destination of the copies. This library does not use this field.
    pub dst_loc_hint: CUmemLocation,
    /// 1 requests that the copy overlaps with kernels if possible. This library does not use this
    /// field.
    pub flags: c_uint,
}

/// The source or the destination of a 3D copy in a batch.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUmemcpy3DOperand {
    /// The kind of memory that this side describes. 1: memory at an address, 2: an array.
    pub kind: c_uint,
    /// The union of the C structure. If `kind` is 1: address, row length, layer height, location
    /// hint. If `kind` is 2: handle of the array, and offset in it.
    pub words: [u64; 4],
}

/// A 3D copy of a batch.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY3D_BATCH_OP {
    /// The source.
    pub src: CUmemcpy3DOperand,
    /// The destination.
    pub dst: CUmemcpy3DOperand,
    /// Width, height and depth of the copied box: in texels if a side is an array, otherwise the
    /// width is in bytes.
    pub extent: [usize; 3],
    /// When the source is read, as in [`CUmemcpyAttributes`].
    pub src_access_order: c_uint,
    /// Flags as in [`CUmemcpyAttributes`].
    pub flags: c_uint,
}

/// A resource of a device.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUdevResource {
    /// The kind of resource. 1: multiprocessors, 1000: work queue configuration, 10000: work
    /// queues.
    pub kind: CUdevResourceType,
    /// Private data of the driver: programs copy but do not read it.
    pub filler: [u32; 23],
    /// The union of the C structure. If `kind` is 1: the number of multiprocessors, the minimum
    /// number in a part of a split, a divisor of the number in each part, flags, locality domain.
    pub words: [u32; 10],
    /// The next resource in a list of resources.
    pub next: *mut c_void,
}

/// The properties that a program requests for one group when it divides the multiprocessors of a
/// device into groups (`cuDevSmResourceSplit`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CU_DEV_SM_RESOURCE_GROUP_PARAMS {
    /// The number of multiprocessors in the part; 0 means the largest permitted number of the remaining
    /// multiprocessors.
    pub sm_count: c_uint,
    /// The size of the groups of multiprocessors that are scheduled together, for clusters. The
    /// number of multiprocessors must be a multiple of this size.
    pub coscheduled_sm_count: c_uint,
    /// The preferred size of the groups of multiprocessors that are scheduled together, for
    /// clusters.
    pub preferred_coscheduled_sm_count: c_uint,
    /// 1 (`CU_DEV_SM_RESOURCE_GROUP_BACKFILL`): the number of multiprocessors need not be a
    /// multiple of `coscheduled_sm_count`.
    pub flags: c_uint,
    /// The id of the locality domain to which the multiprocessors must belong.
    pub locality_domain_id: c_uint,
    /// Always zero.
    pub reserved: [c_uint; 11],
}

/// The value of a launch, stream or kernel node attribute.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct CUlaunchAttributeValue {
    /// The bytes of the C union.
    pub bytes: [u8; 64],
}

/// The value of a stream attribute.
pub type CUstreamAttrValue = CUlaunchAttributeValue;
/// The value of a kernel node's attribute.
pub type CUkernelNodeAttrValue = CUlaunchAttributeValue;

/// A launch attribute.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUlaunchAttribute {
    /// The number of the attribute.
    pub id: c_uint,
    /// Padding.
    pub pad: [u8; 4],
    /// The value of the attribute.
    pub value: CUlaunchAttributeValue,
}

/// The configuration of a launch.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUlaunchConfig {
    /// The size of the grid in each dimension, in blocks.
    pub grid_dim: [c_uint; 3],
    /// The size of a block in each dimension, in threads.
    pub block_dim: [c_uint; 3],
    /// The size of a block's dynamic shared memory in bytes.
    pub shared_mem_bytes: c_uint,
    /// The stream in which the kernel runs.
    pub stream: CUstream,
    /// The launch attributes.
    pub attrs: *mut CUlaunchAttribute,
    /// The number of launch attributes.
    pub num_attrs: c_uint,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes are those that a C compiler gives for the structures of cuda.h 13.5 on a 64-bit machine.
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
