//! Green contexts and device resources.
//!
//! One family of the table; see [`crate::api`].

use super::cuda_api;
use crate::types::*;
use std::ffi::{c_int, c_uint, c_ulonglong};

cuda_api! {
    cuGreenCtxCreate 12040:
        (ph_ctx: *mut CUgreenCtx, desc: CUdevResourceDesc, dev: CUdevice,
         flags: c_uint) => unsupported;
    cuGreenCtxDestroy 12040: (ctx: CUgreenCtx) => unsupported;
    cuCtxFromGreenCtx 12040: (context: *mut CUcontext, ctx: CUgreenCtx) => unsupported;
    cuDeviceGetDevResource 12040:
        (device: CUdevice, resource: *mut CUdevResource, type_: CUdevResourceType) => unsupported;
    cuCtxGetDevResource 12040:
        (ctx: CUcontext, resource: *mut CUdevResource, type_: CUdevResourceType) => unsupported;
    cuGreenCtxGetDevResource 12040:
        (ctx: CUgreenCtx, resource: *mut CUdevResource, type_: CUdevResourceType) => unsupported;
    cuDevSmResourceSplitByCount 12040:
        (result: *mut CUdevResource, nb_groups: *mut c_uint, input: *const CUdevResource,
         remainder: *mut CUdevResource, flags: c_uint, min_count: c_uint) => unsupported;
    cuDevSmResourceSplit 13010:
        (result: *mut CUdevResource, nb_groups: c_uint, input: *const CUdevResource,
         remainder: *mut CUdevResource, flags: c_uint,
         group_params: *mut CU_DEV_SM_RESOURCE_GROUP_PARAMS) => unsupported;
    cuDevResourceGenerateDesc 12040:
        (ph_desc: *mut CUdevResourceDesc, resources: *mut CUdevResource,
         nb_resources: c_uint) => unsupported;
    cuGreenCtxRecordEvent 12040: (ctx: CUgreenCtx, event: CUevent) => unsupported;
    cuGreenCtxWaitEvent 12040: (ctx: CUgreenCtx, event: CUevent) => unsupported;
    cuStreamGetGreenCtx 12040: (stream: CUstream, ph_ctx: *mut CUgreenCtx) => unsupported;
    cuGreenCtxStreamCreate 12050:
        (ph_stream: *mut CUstream, green_ctx: CUgreenCtx, flags: c_uint,
         priority: c_int) => unsupported;
    cuGreenCtxGetId 12090: (green_ctx: CUgreenCtx, green_ctx_id: *mut c_ulonglong) => unsupported;
    cuStreamGetDevResource 13010,
    cuStreamGetDevResource_ptsz 13010 ptsz:
        (stream: CUstream, resource: *mut CUdevResource, type_: CUdevResourceType) => unsupported;
}
