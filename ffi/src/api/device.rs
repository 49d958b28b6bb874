//! Entry points for devices and their primary contexts.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

use super::cuda_api;
use crate::serve::*;
use crate::types::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

cuda_api! {
    cuDeviceGet 2000: (device: *mut CUdevice, ordinal: c_int) => device_get;
    cuDeviceGetCount 2000: (count: *mut c_int) => device_get_count;
    cuDeviceGetName 2000: (name: *mut c_char, len: c_int, dev: CUdevice) => device_get_name;
    cuDeviceGetUuid 9020,
    cuDeviceGetUuid_v2 11040: (uuid: *mut CUuuid, dev: CUdevice) => device_get_uuid;
    cuDeviceGetLuid 10000:
        (luid: *mut c_char, device_node_mask: *mut c_uint, dev: CUdevice) => device_get_luid;
    cuDeviceTotalMem_v2 3020: (bytes: *mut usize, dev: CUdevice) => device_total_mem_v2;
    cuDeviceGetTexture1DLinearMaxWidth 11010:
        (max_width_in_elements: *mut usize, format: CUarray_format, num_channels: c_uint,
         dev: CUdevice) => device_get_texture_1d_linear_max_width;
    cuDeviceGetAttribute 2000:
        (pi: *mut c_int, attrib: CUdevice_attribute, dev: CUdevice) => device_get_attribute;
    cuDeviceGetHostAtomicCapabilities 13000:
        (capabilities: *mut c_uint, operations: *const CUatomicOperation, count: c_uint,
         dev: CUdevice) => device_get_host_atomic_capabilities;
    cuDeviceGetNvSciSyncAttributes 10020:
        (nv_sci_sync_attr_list: *mut c_void, dev: CUdevice, flags: c_int) => unsupported;
    cuDeviceSetMemPool 11020: (dev: CUdevice, pool: CUmemoryPool) => device_set_mem_pool;
    cuDeviceGetMemPool 11020: (pool: *mut CUmemoryPool, dev: CUdevice) => device_get_mem_pool;
    cuDeviceGetDefaultMemPool 11020:
        (pool_out: *mut CUmemoryPool, dev: CUdevice) => device_get_default_mem_pool;
    cuDeviceGetExecAffinitySupport 11040:
        (pi: *mut c_int, type_: CUexecAffinityType,
         dev: CUdevice) => device_get_exec_affinity_support;
    cuFlushGPUDirectRDMAWrites 11030:
        (target: CUflushGPUDirectRDMAWritesTarget,
         scope: CUflushGPUDirectRDMAWritesScope) => flush_gpu_direct_rdma_writes;
    cuDeviceGetProperties 2000: (prop: *mut CUdevprop, dev: CUdevice) => device_get_properties;
    cuDeviceComputeCapability 2000:
        (major: *mut c_int, minor: *mut c_int, dev: CUdevice) => device_compute_capability;
    cuDevicePrimaryCtxRetain 7000:
        (pctx: *mut CUcontext, dev: CUdevice) => device_primary_ctx_retain;
    cuDevicePrimaryCtxRelease 7000,
    cuDevicePrimaryCtxRelease_v2 11000: (dev: CUdevice) => device_primary_ctx_release;
    cuDevicePrimaryCtxSetFlags 7000,
    cuDevicePrimaryCtxSetFlags_v2 11000:
        (dev: CUdevice, flags: c_uint) => device_primary_ctx_set_flags;
    cuDevicePrimaryCtxGetState 7000:
        (dev: CUdevice, flags: *mut c_uint, active: *mut c_int) => device_primary_ctx_get_state;
    cuDevicePrimaryCtxReset 7000,
    cuDevicePrimaryCtxReset_v2 11000: (dev: CUdevice) => device_primary_ctx_reset;
    cuDeviceRegisterAsyncNotification 12040:
        (device: CUdevice, callback_func: CUasyncCallback, user_data: *mut c_void,
         callback: *mut CUasyncCallbackHandle) => unsupported;
    cuDeviceUnregisterAsyncNotification 12040:
        (device: CUdevice, callback: CUasyncCallbackHandle) => unsupported;
    cuDeviceGetByPCIBusId 4010:
        (dev: *mut CUdevice, pci_bus_id: *const c_char) => device_get_by_pci_bus_id;
    cuDeviceGetPCIBusId 4010:
        (pci_bus_id: *mut c_char, len: c_int, dev: CUdevice) => device_get_pci_bus_id;
    cuDeviceCanAccessPeer 4000:
        (can_access_peer: *mut c_int, dev: CUdevice, peer_dev: CUdevice) => device_can_access_peer;
    cuDeviceGetP2PAttribute 8000:
        (value: *mut c_int, attrib: CUdevice_P2PAttribute, src_device: CUdevice,
         dst_device: CUdevice) => device_get_p2p_attribute;
    cuDeviceGetP2PAtomicCapabilities 13000:
        (capabilities: *mut c_uint, operations: *const CUatomicOperation, count: c_uint,
         src_device: CUdevice, dst_device: CUdevice) => device_get_p2p_atomic_capabilities;
    cuDeviceTotalMem 2000: (bytes: *mut c_uint, dev: CUdevice) => device_total_mem_v1;
}
