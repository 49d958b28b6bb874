//! Entry points for device, pinned and managed memory, for pointers, and for sharing memory between processes.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

use super::cuda_api;
use crate::serve::*;
use crate::types::*;
use std::ffi::{c_uint, c_ulonglong, c_void};

cuda_api! {
    cuMemGetInfo_v2 3020: (free: *mut usize, total: *mut usize) => mem_get_info;
    cuMemAlloc_v2 3020: (dptr: *mut CUdeviceptr, bytesize: usize) => mem_alloc;
    cuMemAllocPitch_v2 3020:
        (dptr: *mut CUdeviceptr, pitch: *mut usize, width_in_bytes: usize, height: usize,
         element_size_bytes: c_uint) => mem_alloc_pitch;
    cuMemFree_v2 3020: (dptr: CUdeviceptr) => mem_free;
    cuMemGetAddressRange_v2 3020:
        (pbase: *mut CUdeviceptr, psize: *mut usize, dptr: CUdeviceptr) => mem_get_address_range;
    cuMemAllocHost_v2 3020: (pp: *mut *mut c_void, bytesize: usize) => mem_alloc_host_v2;
    cuMemFreeHost 2000: (p: *mut c_void) => mem_free_host;
    cuMemHostAlloc 2020: (pp: *mut *mut c_void, bytesize: usize, flags: c_uint) => mem_host_alloc;
    cuMemHostGetDevicePointer_v2 3020:
        (pdptr: *mut CUdeviceptr, p: *mut c_void, flags: c_uint) => mem_host_get_device_pointer;
    cuMemHostGetFlags 2030: (flags: *mut c_uint, p: *mut c_void) => mem_host_get_flags;
    cuMemAllocManaged 6000:
        (dptr: *mut CUdeviceptr, bytesize: usize, flags: c_uint) => mem_alloc_managed;
    cuIpcGetEventHandle 4010: (handle: *mut CUipcEventHandle, event: CUevent) => ipc_get_event_handle;
    cuIpcOpenEventHandle 4010: (ph_event: *mut CUevent, handle: CUipcEventHandle) => ipc_open_event_handle;
    cuIpcGetMemHandle 4010: (handle: *mut CUipcMemHandle, dptr: CUdeviceptr) => ipc_get_mem_handle;
    cuIpcOpenMemHandle 4010,
    cuIpcOpenMemHandle_v2 11000:
        (pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint) => ipc_open_mem_handle;
    cuIpcCloseMemHandle 4010: (dptr: CUdeviceptr) => ipc_close_mem_handle;
    cuMemHostRegister 4000,
    cuMemHostRegister_v2 6050:
        (p: *mut c_void, bytesize: usize, flags: c_uint) => mem_host_register;
    cuMemHostUnregister 4000: (p: *mut c_void) => mem_host_unregister;
    cuMemBatchDecompressAsync 12060,
    cuMemBatchDecompressAsync_ptsz 12060 ptsz:
        (params_array: *mut CUmemDecompressParams, count: usize, flags: c_uint,
         error_index: *mut usize, stream: CUstream) => no_such_value;
    cuPointerGetAttribute 4000:
        (data: *mut c_void, attribute: CUpointer_attribute,
         ptr: CUdeviceptr) => pointer_get_attribute;
    cuMemPrefetchAsync_v2 12020,
    cuMemPrefetchAsync_v2_ptsz 12020 ptsz:
        (dev_ptr: CUdeviceptr, count: usize, location: CUmemLocation, flags: c_uint,
         stream: CUstream) => mem_prefetch_async_v2;
    cuMemAdvise_v2 12020:
        (dev_ptr: CUdeviceptr, count: usize, advice: CUmem_advise,
         location: CUmemLocation) => mem_advise_v2;
    cuMemPrefetchBatchAsync 13000,
    cuMemPrefetchBatchAsync_ptsz 13000 ptsz:
        (dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
         prefetch_locs: *mut CUmemLocation, prefetch_loc_idxs: *mut usize,
         num_prefetch_locs: usize, flags: c_ulonglong, stream: CUstream) => mem_prefetch_batch_async;
    cuMemDiscardBatchAsync 13000,
    cuMemDiscardBatchAsync_ptsz 13000 ptsz:
        (dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, flags: c_ulonglong,
         stream: CUstream) => mem_discard_batch_async;
    cuMemDiscardAndPrefetchBatchAsync 13000,
    cuMemDiscardAndPrefetchBatchAsync_ptsz 13000 ptsz:
        (dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
         prefetch_locs: *mut CUmemLocation, prefetch_loc_idxs: *mut usize,
         num_prefetch_locs: usize, flags: c_ulonglong, stream: CUstream) => mem_prefetch_batch_async;
    cuMemGetLocationInfo 13040:
        (ptr: CUdeviceptr, size: usize, summary_granularity: usize, sampling_granularity: usize,
         location_out: *mut CUmemLocation) => mem_get_location_info;
    cuMemRangeGetAttribute 8000:
        (data: *mut c_void, data_size: usize, attribute: CUmem_range_attribute,
         dev_ptr: CUdeviceptr, count: usize) => mem_range_get_attribute;
    cuMemRangeGetAttributes 8000:
        (data: *mut *mut c_void, data_sizes: *mut usize, attributes: *mut CUmem_range_attribute,
         num_attributes: usize, dev_ptr: CUdeviceptr, count: usize) => mem_range_get_attributes;
    cuPointerSetAttribute 6000:
        (value: *const c_void, attribute: CUpointer_attribute,
         ptr: CUdeviceptr) => pointer_set_attribute;
    cuPointerGetAttributes 7000:
        (num_attributes: c_uint, attributes: *mut CUpointer_attribute, data: *mut *mut c_void,
         ptr: CUdeviceptr) => pointer_get_attributes;
    cuMemGetInfo 2000: (free: *mut c_uint, total: *mut c_uint) => mem_get_info_v1;
    cuMemAlloc 2000: (dptr: *mut CUdeviceptr_v1, bytesize: c_uint) => (refuses mem_alloc_v1);
    cuMemAllocPitch 2000:
        (dptr: *mut CUdeviceptr_v1, pitch: *mut c_uint, width_in_bytes: c_uint, height: c_uint,
         element_size_bytes: c_uint) => (refuses mem_alloc_pitch_v1);
    cuMemFree 2000: (dptr: CUdeviceptr_v1) => mem_free_v1;
    cuMemGetAddressRange 2000:
        (pbase: *mut CUdeviceptr_v1, psize: *mut c_uint, dptr: CUdeviceptr_v1) => mem_get_address_range_v1;
    cuMemAllocHost 2000: (pp: *mut *mut c_void, bytesize: c_uint) => mem_alloc_host_v1;
    cuMemHostGetDevicePointer 2020:
        (pdptr: *mut CUdeviceptr_v1, p: *mut c_void, flags: c_uint) => mem_host_get_device_pointer_v1;
    cuMemPrefetchAsync 8000,
    cuMemPrefetchAsync_ptsz 8000 ptsz:
        (dev_ptr: CUdeviceptr, count: usize, dst_device: CUdevice,
         stream: CUstream) => mem_prefetch_async_v1;
    cuMemAdvise 8000:
        (dev_ptr: CUdeviceptr, count: usize, advice: CUmem_advise,
         device: CUdevice) => mem_advise_v1;
}
