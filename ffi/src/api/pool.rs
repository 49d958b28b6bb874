//! Entry points for memory pools and stream-ordered allocation.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

use super::cuda_api;
use crate::serve::*;
use crate::types::*;
use std::ffi::{c_ulonglong, c_void};

cuda_api! {
    cuMemFreeAsync 11020,
    cuMemFreeAsync_ptsz 11020 ptsz: (dptr: CUdeviceptr, stream: CUstream) => mem_free_async;
    cuMemAllocAsync 11020,
    cuMemAllocAsync_ptsz 11020 ptsz:
        (dptr: *mut CUdeviceptr, bytesize: usize, stream: CUstream) => mem_alloc_async;
    cuMemPoolTrimTo 11020: (pool: CUmemoryPool, min_bytes_to_keep: usize) => mem_pool_trim_to;
    cuMemPoolSetAttribute 11020:
        (pool: CUmemoryPool, attr: CUmemPool_attribute,
         value: *mut c_void) => mem_pool_set_attribute;
    cuMemPoolGetAttribute 11020:
        (pool: CUmemoryPool, attr: CUmemPool_attribute,
         value: *mut c_void) => mem_pool_get_attribute;
    cuMemPoolSetAccess 11020:
        (pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize) => mem_pool_set_access;
    cuMemPoolGetAccess 11020:
        (flags: *mut CUmemAccess_flags, mem_pool: CUmemoryPool,
         location: *mut CUmemLocation) => mem_pool_get_access;
    cuMemPoolCreate 11020:
        (pool: *mut CUmemoryPool, pool_props: *const CUmemPoolProps) => mem_pool_create;
    cuMemPoolDestroy 11020: (pool: CUmemoryPool) => mem_pool_destroy;
    cuMemGetDefaultMemPool 13000:
        (pool_out: *mut CUmemoryPool, location: *mut CUmemLocation,
         type_: CUmemAllocationType) => mem_get_default_mem_pool;
    cuMemGetMemPool 13000:
        (pool: *mut CUmemoryPool, location: *mut CUmemLocation,
         type_: CUmemAllocationType) => mem_get_mem_pool;
    cuMemSetMemPool 13000:
        (location: *mut CUmemLocation, type_: CUmemAllocationType,
         pool: CUmemoryPool) => mem_set_mem_pool;
    cuMemAllocFromPoolAsync 11020,
    cuMemAllocFromPoolAsync_ptsz 11020 ptsz:
        (dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool,
         stream: CUstream) => mem_alloc_from_pool_async;
    cuMemPoolExportToShareableHandle 11020:
        (handle_out: *mut c_void, pool: CUmemoryPool, handle_type: CUmemAllocationHandleType,
         flags: c_ulonglong) => mem_pool_export_to_shareable_handle;
    cuMemPoolImportFromShareableHandle 11020:
        (pool_out: *mut CUmemoryPool, handle: *mut c_void, handle_type: CUmemAllocationHandleType,
         flags: c_ulonglong) => mem_pool_import_from_shareable_handle;
    cuMemPoolExportPointer 11020:
        (share_data_out: *mut CUmemPoolPtrExportData, ptr: CUdeviceptr) => mem_pool_export_pointer;
    cuMemPoolImportPointer 11020:
        (ptr_out: *mut CUdeviceptr, pool: CUmemoryPool,
         share_data: *mut CUmemPoolPtrExportData) => mem_pool_import_pointer;
}
