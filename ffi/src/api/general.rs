//! Entry points for initialisation, versions, errors, symbol lookup, logs, core dumps, checkpoints and the profiler.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

use super::cuda_api;
use super::procaddress::{get_proc_address_v1, get_proc_address_v2};
use crate::export_tables::get_export_table;
use crate::result::CuResult as CUresult;
use crate::serve::*;
use crate::types::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

cuda_api! {
    cuGetErrorString 6000: (error: CUresult, str: *mut *const c_char) => get_error_string;
    cuGetErrorName 6000: (error: CUresult, str: *mut *const c_char) => get_error_name;
    cuInit 2000: (flags: c_uint) => init;
    cuDriverGetVersion 2020: (driver_version: *mut c_int) => driver_get_version;
    cuModuleGetLoadingMode 11070: (mode: *mut CUmoduleLoadingMode) => module_get_loading_mode;
    cuGetProcAddress_v2 12000:
        (symbol: *const c_char, pfn: *mut *mut c_void, cuda_version: c_int, flags: u64,
         symbol_status: *mut CUdriverProcAddressQueryResult) => get_proc_address_v2;
    cuCoredumpGetAttribute 12010:
        (attrib: CUcoredumpSettings, value: *mut c_void, size: *mut usize) => coredump_get_attribute;
    cuCoredumpGetAttributeGlobal 12010:
        (attrib: CUcoredumpSettings, value: *mut c_void, size: *mut usize) => coredump_get_attribute_global;
    cuCoredumpSetAttribute 12010:
        (attrib: CUcoredumpSettings, value: *mut c_void, size: *mut usize) => coredump_set_attribute;
    cuCoredumpSetAttributeGlobal 12010:
        (attrib: CUcoredumpSettings, value: *mut c_void, size: *mut usize) => coredump_set_attribute_global;
    cuCoredumpRegisterStartCallback 13020:
        (callback: CUcoredumpStatusCallback, user_data: *mut c_void,
         callback_out: *mut CUcoredumpCallbackHandle) => (refuses coredump_register_callback);
    cuCoredumpRegisterCompleteCallback 13020:
        (callback: CUcoredumpStatusCallback, user_data: *mut c_void,
         callback_out: *mut CUcoredumpCallbackHandle) => (refuses coredump_register_callback);
    cuCoredumpDeregisterStartCallback 13020: (callback: CUcoredumpCallbackHandle) => no_such_value;
    cuCoredumpDeregisterCompleteCallback 13020: (callback: CUcoredumpCallbackHandle) => no_such_value;
    cuGetExportTable 3000:
        (pp_export_table: *mut *const c_void, export_table_id: *const CUuuid) => get_export_table;
    cuLogsRegisterCallback 12090:
        (callback_func: CUlogsCallback, user_data: *mut c_void,
         callback_out: *mut CUlogsCallbackHandle) => logs_register_callback;
    cuLogsUnregisterCallback 12090: (callback: CUlogsCallbackHandle) => logs_unregister_callback;
    cuLogsCurrent 12090: (iterator_out: *mut CUlogIterator, flags: c_uint) => logs_current;
    cuLogsDumpToFile 12090:
        (iterator: *mut CUlogIterator, path_to_file: *const c_char, flags: c_uint) => logs_dump_to_file;
    cuLogsDumpToMemory 12090:
        (iterator: *mut CUlogIterator, buffer: *mut c_char, size: *mut usize,
         flags: c_uint) => logs_dump_to_memory;
    cuGetProcAddress 11030:
        (symbol: *const c_char, pfn: *mut *mut c_void, cuda_version: c_int,
         flags: u64) => get_proc_address_v1;
    cuCheckpointProcessGetRestoreThreadId 12080: (pid: c_int, tid: *mut c_int) => unsupported;
    cuCheckpointProcessGetState 12080: (pid: c_int, state: *mut CUprocessState) => unsupported;
    cuCheckpointProcessLock 12080: (pid: c_int, args: *mut CUcheckpointLockArgs) => unsupported;
    cuCheckpointProcessCheckpoint 12080:
        (pid: c_int, args: *mut CUcheckpointCheckpointArgs) => unsupported;
    cuCheckpointProcessRestore 12080:
        (pid: c_int, args: *mut CUcheckpointRestoreArgs) => unsupported;
    cuCheckpointOperationComplete 13040: (handle: CUcheckpointOperationHandle) => unsupported;
    cuCheckpointProcessUnlock 12080: (pid: c_int, args: *mut CUcheckpointUnlockArgs) => unsupported;
    cuProfilerInitialize 4000:
        (config_file: *const c_char, output_file: *const c_char,
         output_mode: c_uint) => profiler_initialize;
    cuProfilerStart 4000: () => profiler_start;
    cuProfilerStop 4000: () => profiler_stop;
}
