//! Entry points for graphics and external memory. None of these entry points is implemented.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

use super::cuda_api;
use crate::types::*;
use std::ffi::{c_int, c_uint, c_void};

cuda_api! {
    cuImportExternalMemory 10000:
        (ext_mem_out: *mut CUexternalMemory,
         mem_handle_desc: *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC) => no_system_support;
    cuExternalMemoryGetMappedBuffer 10000:
        (dev_ptr: *mut CUdeviceptr, ext_mem: CUexternalMemory,
         buffer_desc: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC) => no_such_handle;
    cuExternalMemoryGetMappedMipmappedArray 10000:
        (mipmap: *mut CUmipmappedArray, ext_mem: CUexternalMemory,
         mipmap_desc: *const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC) => no_such_handle;
    cuDestroyExternalMemory 10000: (ext_mem: CUexternalMemory) => no_such_handle;
    cuImportExternalSemaphore 10000:
        (ext_sem_out: *mut CUexternalSemaphore,
         sem_handle_desc: *const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC) => unsupported;
    cuSignalExternalSemaphoresAsync 10000,
    cuSignalExternalSemaphoresAsync_ptsz 10000 ptsz:
        (ext_sem_array: *const CUexternalSemaphore,
         params_array: *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, num_ext_sems: c_uint,
         stream: CUstream) => unsupported;
    cuWaitExternalSemaphoresAsync 10000,
    cuWaitExternalSemaphoresAsync_ptsz 10000 ptsz:
        (ext_sem_array: *const CUexternalSemaphore,
         params_array: *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, num_ext_sems: c_uint,
         stream: CUstream) => unsupported;
    cuDestroyExternalSemaphore 10000: (ext_sem: CUexternalSemaphore) => no_such_handle;
    cuGraphicsUnregisterResource 3000: (resource: CUgraphicsResource) => no_such_handle;
    cuGraphicsSubResourceGetMappedArray 3000:
        (array: *mut CUarray, resource: CUgraphicsResource, array_index: c_uint,
         mip_level: c_uint) => no_such_handle;
    cuGraphicsResourceGetMappedMipmappedArray 5000:
        (mipmapped_array: *mut CUmipmappedArray, resource: CUgraphicsResource) => no_such_handle;
    cuGraphicsResourceGetMappedPointer_v2 3020:
        (dev_ptr: *mut CUdeviceptr, size: *mut usize, resource: CUgraphicsResource) => no_such_handle;
    cuGraphicsResourceSetMapFlags 3000,
    cuGraphicsResourceSetMapFlags_v2 6050:
        (resource: CUgraphicsResource, flags: c_uint) => no_such_handle;
    cuGraphicsMapResources 3000,
    cuGraphicsMapResources_ptsz 7000 ptsz:
        (count: c_uint, resources: *mut CUgraphicsResource, stream: CUstream) => no_such_handle;
    cuGraphicsUnmapResources 3000,
    cuGraphicsUnmapResources_ptsz 7000 ptsz:
        (count: c_uint, resources: *mut CUgraphicsResource, stream: CUstream) => no_such_handle;
    cuGraphicsResourceGetMappedPointer 3000:
        (dev_ptr: *mut CUdeviceptr_v1, size: *mut c_uint,
         resource: CUgraphicsResource) => no_such_handle;
    cuEGLStreamConsumerAcquireFrame 7000:
        (conn: *mut CUeglStreamConnection, cuda_resource: *mut CUgraphicsResource,
         stream: *mut CUstream, timeout: c_uint) => unsupported;
    cuEGLStreamConsumerConnect 7000:
        (conn: *mut CUeglStreamConnection, stream: *mut c_void) => unsupported;
    cuEGLStreamConsumerConnectWithFlags 8000:
        (conn: *mut CUeglStreamConnection, stream: *mut c_void, flags: c_uint) => unsupported;
    cuEGLStreamConsumerDisconnect 7000: (conn: *mut CUeglStreamConnection) => unsupported;
    cuEGLStreamConsumerReleaseFrame 7000:
        (conn: *mut CUeglStreamConnection, cuda_resource: CUgraphicsResource,
         stream: *mut CUstream) => unsupported;
    cuEGLStreamProducerConnect 7000:
        (conn: *mut CUeglStreamConnection, stream: *mut c_void, width: c_int,
         height: c_int) => unsupported;
    cuEGLStreamProducerDisconnect 7000: (conn: *mut CUeglStreamConnection) => unsupported;
    cuEGLStreamProducerPresentFrame 7000:
        (conn: *mut CUeglStreamConnection, eglframe: CUeglFrame,
         stream: *mut CUstream) => unsupported;
    cuEGLStreamProducerReturnFrame 7000:
        (conn: *mut CUeglStreamConnection, eglframe: *mut CUeglFrame,
         stream: *mut CUstream) => unsupported;
    cuEventCreateFromEGLSync 9000:
        (ph_event: *mut CUevent, egl_sync: *mut c_void, flags: c_uint) => unsupported;
    cuGLCtxCreate 2000,
    cuGLCtxCreate_v2 3020: (ctx: *mut CUcontext, flags: c_uint, device: CUdevice) => no_graphics;
    cuGLGetDevices 4010,
    cuGLGetDevices_v2 6050:
        (found: *mut c_uint, cuda_devices: *mut CUdevice, cuda_device_count: c_uint,
         device_list: CUGLDeviceList) => no_graphics;
    cuGLInit 2000: () => no_graphics;
    cuGLMapBufferObject 2000,
    cuGLMapBufferObject_v2 3020,
    cuGLMapBufferObject_v2_ptds 7000 ptds:
        (dptr: *mut CUdeviceptr, size: *mut usize, buffer: c_uint) => no_graphics;
    cuGLMapBufferObjectAsync 2030,
    cuGLMapBufferObjectAsync_v2 3020,
    cuGLMapBufferObjectAsync_v2_ptsz 7000 ptsz:
        (dptr: *mut CUdeviceptr, size: *mut usize, buffer: c_uint, stream: CUstream) => no_graphics;
    cuGLRegisterBufferObject 2000: (buffer: c_uint) => no_graphics;
    cuGLSetBufferObjectMapFlags 2030: (buffer: c_uint, flags: c_uint) => no_graphics;
    cuGLUnmapBufferObject 2000: (buffer: c_uint) => no_graphics;
    cuGLUnmapBufferObjectAsync 2030: (buffer: c_uint, stream: CUstream) => no_graphics;
    cuGLUnregisterBufferObject 2000: (buffer: c_uint) => no_graphics;
    cuGraphicsEGLRegisterImage 7000:
        (cuda_resource: *mut CUgraphicsResource, image: *mut c_void, flags: c_uint) => unsupported;
    cuGraphicsGLRegisterBuffer 3000:
        (cuda_resource: *mut CUgraphicsResource, buffer: c_uint, flags: c_uint) => no_graphics;
    cuGraphicsGLRegisterImage 3000:
        (cuda_resource: *mut CUgraphicsResource, image: c_uint, target: c_uint,
         flags: c_uint) => no_graphics;
    cuGraphicsResourceGetMappedEglFrame 7000:
        (egl_frame: *mut CUeglFrame, resource: CUgraphicsResource, index: c_uint,
         mip_level: c_uint) => unsupported;
    cuVDPAUGetDevice 3010:
        (device: *mut CUdevice, vdp_device: u32,
         vdp_get_proc_address: *mut VdpGetProcAddress) => unsupported;
    cuVDPAUCtxCreate 3010,
    cuVDPAUCtxCreate_v2 3020:
        (ctx: *mut CUcontext, flags: c_uint, device: CUdevice, vdp_device: u32,
         vdp_get_proc_address: *mut VdpGetProcAddress) => unsupported;
    cuGraphicsVDPAURegisterVideoSurface 3010:
        (cuda_resource: *mut CUgraphicsResource, vdp_surface: u32, flags: c_uint) => unsupported;
    cuGraphicsVDPAURegisterOutputSurface 3010:
        (cuda_resource: *mut CUgraphicsResource, vdp_surface: u32, flags: c_uint) => unsupported;
}
