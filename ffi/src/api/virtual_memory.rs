//! Entry points for virtual memory, multicast and fabric.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

use super::cuda_api;
use crate::serve::*;
use crate::types::*;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

cuda_api! {
    cuMemGetHandleForAddressRange 11070:
        (handle: *mut c_void, dptr: CUdeviceptr, size: usize, handle_type: CUmemRangeHandleType,
         flags: c_ulonglong) => (refuses mem_get_handle_for_address_range);
    cuMemAddressReserve 10020:
        (ptr: *mut CUdeviceptr, size: usize, alignment: usize, addr: CUdeviceptr,
         flags: c_ulonglong) => mem_address_reserve;
    cuMemAddressFree 10020: (ptr: CUdeviceptr, size: usize) => mem_address_free;
    cuMemCreate 10020:
        (handle: *mut CUmemGenericAllocationHandle, size: usize, prop: *const CUmemAllocationProp,
         flags: c_ulonglong) => mem_create;
    cuMemRelease 10020: (handle: CUmemGenericAllocationHandle) => mem_release;
    cuMemMap 10020:
        (ptr: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle,
         flags: c_ulonglong) => mem_map;
    cuMemMapArrayAsync 11010,
    cuMemMapArrayAsync_ptsz 11010 ptsz:
        (map_info_list: *mut CUarrayMapInfo, count: c_uint, stream: CUstream) => (refuses mem_map_array_async);
    cuMemUnmap 10020: (ptr: CUdeviceptr, size: usize) => mem_unmap;
    cuMemSetAccess 10020:
        (ptr: CUdeviceptr, size: usize, desc: *const CUmemAccessDesc, count: usize) => mem_set_access;
    cuMemGetAccess 10020:
        (flags: *mut c_ulonglong, location: *const CUmemLocation, ptr: CUdeviceptr) => mem_get_access;
    cuMemExportToShareableHandle 10020:
        (shareable_handle: *mut c_void, handle: CUmemGenericAllocationHandle,
         handle_type: CUmemAllocationHandleType, flags: c_ulonglong) => mem_export_to_shareable_handle;
    cuMemImportFromShareableHandle 10020:
        (handle: *mut CUmemGenericAllocationHandle, os_handle: *mut c_void,
         sh_handle_type: CUmemAllocationHandleType) => mem_import_from_shareable_handle;
    cuMemGetAllocationGranularity 10020:
        (granularity: *mut usize, prop: *const CUmemAllocationProp,
         option: CUmemAllocationGranularity_flags) => mem_get_allocation_granularity;
    cuMemGetAllocationPropertiesFromHandle 10020:
        (prop: *mut CUmemAllocationProp, handle: CUmemGenericAllocationHandle) => mem_get_allocation_properties_from_handle;
    cuMemRetainAllocationHandle 11000:
        (handle: *mut CUmemGenericAllocationHandle, addr: *mut c_void) => mem_retain_allocation_handle;
    cuMulticastCreate 12010:
        (mc_handle: *mut CUmemGenericAllocationHandle,
         prop: *const CUmulticastObjectProp) => unsupported;
    cuMulticastAddDevice 12010:
        (mc_handle: CUmemGenericAllocationHandle, dev: CUdevice) => unsupported;
    cuMulticastBindMem 12010:
        (mc_handle: CUmemGenericAllocationHandle, mc_offset: usize,
         mem_handle: CUmemGenericAllocationHandle, mem_offset: usize, size: usize,
         flags: c_ulonglong) => unsupported;
    cuMulticastBindMem_v2 13010:
        (mc_handle: CUmemGenericAllocationHandle, dev: CUdevice, mc_offset: usize,
         mem_handle: CUmemGenericAllocationHandle, mem_offset: usize, size: usize,
         flags: c_ulonglong) => unsupported;
    cuMulticastBindAddr 12010:
        (mc_handle: CUmemGenericAllocationHandle, mc_offset: usize, memptr: CUdeviceptr,
         size: usize, flags: c_ulonglong) => unsupported;
    cuMulticastBindAddr_v2 13010:
        (mc_handle: CUmemGenericAllocationHandle, dev: CUdevice, mc_offset: usize,
         memptr: CUdeviceptr, size: usize, flags: c_ulonglong) => unsupported;
    cuMulticastUnbind 12010:
        (mc_handle: CUmemGenericAllocationHandle, dev: CUdevice, mc_offset: usize,
         size: usize) => unsupported;
    cuMulticastGetGranularity 12010:
        (granularity: *mut usize, prop: *const CUmulticastObjectProp,
         option: CUmulticastGranularity_flags) => unsupported;
    cuDeviceGetFabricClusterUuid 13040: (uuid: *mut CUuuid, dev: CUdevice) => unsupported;
    cuDeviceGetCliqueCount 13040: (count: *mut usize, dev: CUdevice) => unsupported;
    cuDeviceGetCliqueInfo 13040:
        (clique_info: *mut CUcliqueInfo, count: *mut usize, dev: CUdevice) => unsupported;
    cuLogicalEndpointIdReserve 13030:
        (base_le_id: *mut CUlogicalEndpointId, count: u32) => unsupported;
    cuLogicalEndpointIdRelease 13030: (base_le_id: CUlogicalEndpointId, count: u32) => unsupported;
    cuLogicalEndpointCreate 13030:
        (le_id: CUlogicalEndpointId, prop: *const CUlogicalEndpointProp) => unsupported;
    cuLogicalEndpointAddDevice 13030: (le_id: CUlogicalEndpointId, dev: CUdevice) => unsupported;
    cuLogicalEndpointDestroy 13030: (le_id: CUlogicalEndpointId) => unsupported;
    cuLogicalEndpointBindAddr 13030:
        (le_id: CUlogicalEndpointId, dev: CUdevice, offset: u64, ptr: *mut c_void, size: u64,
         flags: c_ulonglong) => unsupported;
    cuLogicalEndpointBindMem 13030:
        (le_id: CUlogicalEndpointId, dev: CUdevice, offset: u64,
         mem_handle: CUmemGenericAllocationHandle, mem_offset: u64, size: u64,
         flags: c_ulonglong) => unsupported;
    cuLogicalEndpointUnbind 13030:
        (le_id: CUlogicalEndpointId, dev: CUdevice, offset: u64, size: u64) => unsupported;
    cuLogicalEndpointExport 13030:
        (handle: *mut c_void, le_id: CUlogicalEndpointId,
         handle_type: CUlogicalEndpointIpcHandleType) => unsupported;
    cuLogicalEndpointImport 13030:
        (le_id: CUlogicalEndpointId, handle: *const c_void,
         handle_type: CUlogicalEndpointIpcHandleType) => unsupported;
    cuLogicalEndpointGetLimits 13030:
        (bind_alignment: *mut u64, max_size: *mut u64,
         prop: *const CUlogicalEndpointProp) => unsupported;
    cuLogicalEndpointQuery 13030:
        (le_id: CUlogicalEndpointId, count: u32, query_status: *mut c_int) => unsupported;
}
