//! Entry points for green contexts and device resources.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

use super::cuda_api;
use crate::serve::*;
use crate::types::*;
use std::ffi::{c_int, c_uint, c_ulonglong};

cuda_api! {
    cuGreenCtxCreate 12040:
        (ph_ctx: *mut CUgreenCtx, desc: CUdevResourceDesc, dev: CUdevice,
         flags: c_uint) => green_ctx_create;
    cuGreenCtxDestroy 12040: (ctx: CUgreenCtx) => green_ctx_destroy;
    cuCtxFromGreenCtx 12040: (context: *mut CUcontext, ctx: CUgreenCtx) => ctx_from_green_ctx;
    cuDeviceGetDevResource 12040:
        (device: CUdevice, resource: *mut CUdevResource, type_: CUdevResourceType) => device_get_dev_resource;
    cuCtxGetDevResource 12040:
        (ctx: CUcontext, resource: *mut CUdevResource, type_: CUdevResourceType) => ctx_get_dev_resource;
    cuGreenCtxGetDevResource 12040:
        (ctx: CUgreenCtx, resource: *mut CUdevResource, type_: CUdevResourceType) => green_ctx_get_dev_resource;
    cuDevSmResourceSplitByCount 12040:
        (result: *mut CUdevResource, nb_groups: *mut c_uint, input: *const CUdevResource,
         remainder: *mut CUdevResource, flags: c_uint, min_count: c_uint) => dev_sm_resource_split_by_count;
    cuDevSmResourceSplit 13010:
        (result: *mut CUdevResource, nb_groups: c_uint, input: *const CUdevResource,
         remainder: *mut CUdevResource, flags: c_uint,
         group_params: *mut CU_DEV_SM_RESOURCE_GROUP_PARAMS) => dev_sm_resource_split;
    cuDevResourceGenerateDesc 12040:
        (ph_desc: *mut CUdevResourceDesc, resources: *mut CUdevResource,
         nb_resources: c_uint) => dev_resource_generate_desc;
    cuGreenCtxRecordEvent 12040: (ctx: CUgreenCtx, event: CUevent) => green_ctx_record_event;
    cuGreenCtxWaitEvent 12040: (ctx: CUgreenCtx, event: CUevent) => green_ctx_wait_event;
    cuStreamGetGreenCtx 12040: (stream: CUstream, ph_ctx: *mut CUgreenCtx) => stream_get_green_ctx;
    cuGreenCtxStreamCreate 12050:
        (ph_stream: *mut CUstream, green_ctx: CUgreenCtx, flags: c_uint,
         priority: c_int) => green_ctx_stream_create;
    cuGreenCtxGetId 12090: (green_ctx: CUgreenCtx, green_ctx_id: *mut c_ulonglong) => green_ctx_get_id;
    cuStreamGetDevResource 13010,
    cuStreamGetDevResource_ptsz 13010 ptsz:
        (stream: CUstream, resource: *mut CUdevResource, type_: CUdevResourceType) => stream_get_dev_resource;
}
