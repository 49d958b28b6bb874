//! Entry points for streams, events and stream memory operations.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

use super::cuda_api;
use crate::serve::*;
use crate::types::*;
use std::ffi::{c_float, c_int, c_uint, c_ulonglong, c_void};

cuda_api! {
    cuStreamCreate 2000: (ph_stream: *mut CUstream, flags: c_uint) => stream_create;
    cuStreamCreateWithPriority 5050:
        (ph_stream: *mut CUstream, flags: c_uint, priority: c_int) => stream_create_with_priority;
    cuStreamGetPriority 5050,
    cuStreamGetPriority_ptsz 7000 ptsz:
        (stream: CUstream, priority: *mut c_int) => stream_get_priority;
    cuStreamGetDevice 12080,
    cuStreamGetDevice_ptsz 12080 ptsz:
        (stream: CUstream, device: *mut CUdevice) => stream_get_device;
    cuStreamGetFlags 5050,
    cuStreamGetFlags_ptsz 7000 ptsz: (stream: CUstream, flags: *mut c_uint) => stream_get_flags;
    cuStreamGetId 12000,
    cuStreamGetId_ptsz 12000 ptsz: (stream: CUstream, stream_id: *mut c_ulonglong) => stream_get_id;
    cuStreamGetCtx 9020,
    cuStreamGetCtx_ptsz 9020 ptsz: (stream: CUstream, pctx: *mut CUcontext) => stream_get_ctx_v1;
    cuStreamGetCtx_v2 12050,
    cuStreamGetCtx_v2_ptsz 12050 ptsz:
        (stream: CUstream, ctx: *mut CUcontext, green_ctx: *mut CUgreenCtx) => stream_get_ctx_v2;
    cuStreamWaitEvent 3020,
    cuStreamWaitEvent_ptsz 7000 ptsz:
        (stream: CUstream, event: CUevent, flags: c_uint) => stream_wait_event;
    cuStreamAddCallback 5000,
    cuStreamAddCallback_ptsz 7000 ptsz:
        (stream: CUstream, callback: CUstreamCallback, user_data: *mut c_void,
         flags: c_uint) => stream_add_callback;
    cuStreamAttachMemAsync 6000,
    cuStreamAttachMemAsync_ptsz 7000 ptsz:
        (stream: CUstream, dptr: CUdeviceptr, length: usize,
         flags: c_uint) => stream_attach_mem_async;
    cuStreamQuery 2000,
    cuStreamQuery_ptsz 7000 ptsz: (stream: CUstream) => stream_query;
    cuStreamSynchronize 2000,
    cuStreamSynchronize_ptsz 7000 ptsz: (stream: CUstream) => stream_synchronize;
    cuStreamDestroy 2000,
    cuStreamDestroy_v2 4000: (stream: CUstream) => stream_destroy;
    cuStreamCopyAttributes 11000,
    cuStreamCopyAttributes_ptsz 11000 ptsz:
        (dst: CUstream, src: CUstream) => stream_copy_attributes;
    cuStreamGetAttribute 11000,
    cuStreamGetAttribute_ptsz 11000 ptsz:
        (stream: CUstream, attr: CUstreamAttrID,
         value_out: *mut CUstreamAttrValue) => stream_get_attribute;
    cuStreamSetAttribute 11000,
    cuStreamSetAttribute_ptsz 11000 ptsz:
        (stream: CUstream, attr: CUstreamAttrID,
         value: *const CUstreamAttrValue) => stream_set_attribute;
    cuEventCreate 2000: (ph_event: *mut CUevent, flags: c_uint) => event_create;
    cuEventRecord 2000,
    cuEventRecord_ptsz 7000 ptsz: (event: CUevent, stream: CUstream) => event_record;
    cuEventRecordWithFlags 11010,
    cuEventRecordWithFlags_ptsz 11010 ptsz:
        (event: CUevent, stream: CUstream, flags: c_uint) => event_record_with_flags;
    cuEventQuery 2000: (event: CUevent) => event_query;
    cuEventSynchronize 2000: (event: CUevent) => event_synchronize;
    cuEventDestroy 2000,
    cuEventDestroy_v2 4000: (event: CUevent) => event_destroy;
    cuEventElapsedTime 2000,
    cuEventElapsedTime_v2 12080:
        (milliseconds: *mut c_float, start: CUevent, end: CUevent) => event_elapsed_time;
    cuStreamWaitValue32 8000,
    cuStreamWaitValue32_ptsz 8000 ptsz,
    cuStreamWaitValue32_v2 11070,
    cuStreamWaitValue32_v2_ptsz 11070 ptsz:
        (stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint) => stream_wait_value_32;
    cuStreamWaitValue64 9000,
    cuStreamWaitValue64_ptsz 9000 ptsz,
    cuStreamWaitValue64_v2 11070,
    cuStreamWaitValue64_v2_ptsz 11070 ptsz:
        (stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint) => stream_wait_value_64;
    cuStreamWriteValue32 8000,
    cuStreamWriteValue32_ptsz 8000 ptsz,
    cuStreamWriteValue32_v2 11070,
    cuStreamWriteValue32_v2_ptsz 11070 ptsz:
        (stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint) => stream_write_value_32;
    cuStreamWriteValue64 9000,
    cuStreamWriteValue64_ptsz 9000 ptsz,
    cuStreamWriteValue64_v2 11070,
    cuStreamWriteValue64_v2_ptsz 11070 ptsz:
        (stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint) => stream_write_value_64;
    cuStreamBatchMemOp 8000,
    cuStreamBatchMemOp_ptsz 8000 ptsz,
    cuStreamBatchMemOp_v2 11070,
    cuStreamBatchMemOp_v2_ptsz 11070 ptsz:
        (stream: CUstream, count: c_uint, param_array: *mut CUstreamBatchMemOpParams,
         flags: c_uint) => stream_batch_mem_op;
}
