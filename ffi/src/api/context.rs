//! Entry points for contexts, their limits and the thread's context stack.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

use super::cuda_api;
use crate::serve::*;
use crate::types::*;
use std::ffi::{c_int, c_uint, c_ulonglong};

cuda_api! {
    cuCtxCreate_v4 12050:
        (pctx: *mut CUcontext, ctx_create_params: *mut CUctxCreateParams, flags: c_uint,
         dev: CUdevice) => ctx_create_v4;
    cuCtxDestroy 2000,
    cuCtxDestroy_v2 4000: (ctx: CUcontext) => ctx_destroy;
    cuCtxPushCurrent 2000,
    cuCtxPushCurrent_v2 4000: (ctx: CUcontext) => ctx_push_current;
    cuCtxPopCurrent 2000,
    cuCtxPopCurrent_v2 4000: (pctx: *mut CUcontext) => ctx_pop_current;
    cuCtxSetCurrent 4000: (ctx: CUcontext) => ctx_set_current;
    cuCtxGetCurrent 4000: (pctx: *mut CUcontext) => ctx_get_current;
    cuCtxGetDevice 2000: (device: *mut CUdevice) => ctx_get_device_v1;
    cuCtxGetDevice_v2 13000: (device: *mut CUdevice, ctx: CUcontext) => ctx_get_device_v2;
    cuCtxGetFlags 7000: (flags: *mut c_uint) => ctx_get_flags;
    cuCtxSetFlags 12010: (flags: c_uint) => ctx_set_flags;
    cuCtxGetId 12000: (ctx: CUcontext, ctx_id: *mut c_ulonglong) => ctx_get_id;
    cuCtxSynchronize 2000: () => ctx_synchronize_v1;
    cuCtxSynchronize_v2 13000: (ctx: CUcontext) => ctx_synchronize_v2;
    cuCtxSetLimit 3010: (limit: CUlimit, value: usize) => ctx_set_limit;
    cuCtxGetLimit 3010: (pvalue: *mut usize, limit: CUlimit) => ctx_get_limit;
    cuCtxGetCacheConfig 3020: (pconfig: *mut CUfunc_cache) => ctx_get_cache_config;
    cuCtxSetCacheConfig 3020: (config: CUfunc_cache) => ctx_set_cache_config;
    cuCtxGetApiVersion 3020: (ctx: CUcontext, version: *mut c_uint) => ctx_get_api_version;
    cuCtxGetStreamPriorityRange 5050:
        (least_priority: *mut c_int,
         greatest_priority: *mut c_int) => ctx_get_stream_priority_range;
    cuCtxResetPersistingL2Cache 11000: () => ctx_reset_persisting_l2_cache;
    cuCtxGetExecAffinity 11040:
        (exec_affinity: *mut CUexecAffinityParam, type_: CUexecAffinityType) => (refuses ctx_get_exec_affinity);
    cuCtxRecordEvent 12050: (ctx: CUcontext, event: CUevent) => ctx_record_event;
    cuCtxWaitEvent 12050: (ctx: CUcontext, event: CUevent) => ctx_wait_event;
    cuCtxAttach 2000: (pctx: *mut CUcontext, flags: c_uint) => ctx_attach;
    cuCtxDetach 2000: (ctx: CUcontext) => ctx_detach;
    cuCtxGetSharedMemConfig 4020: (config: *mut CUsharedconfig) => ctx_get_shared_mem_config;
    cuCtxSetSharedMemConfig 4020: (config: CUsharedconfig) => ctx_set_shared_mem_config;
    cuCtxEnablePeerAccess 4000: (peer_context: CUcontext, flags: c_uint) => ctx_enable_peer_access;
    cuCtxDisablePeerAccess 4000: (peer_context: CUcontext) => ctx_disable_peer_access;
    cuCtxCreate 2000,
    cuCtxCreate_v2 3020: (pctx: *mut CUcontext, flags: c_uint, dev: CUdevice) => ctx_create_v2;
    cuCtxCreate_v3 11040:
        (pctx: *mut CUcontext, params_array: *mut CUexecAffinityParam, num_params: c_int,
         flags: c_uint, dev: CUdevice) => ctx_create_v3;
}
