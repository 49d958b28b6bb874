//! Entry points for functions, launches and occupancy.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

use super::cuda_api;
use crate::serve::*;
use crate::types::*;
use std::ffi::{c_char, c_float, c_int, c_uint, c_void};

cuda_api! {
    cuFuncGetAttribute 2020:
        (pi: *mut c_int, attrib: CUfunction_attribute, hfunc: CUfunction) => func_get_attribute;
    cuFuncSetAttribute 9000:
        (hfunc: CUfunction, attrib: CUfunction_attribute, value: c_int) => func_set_attribute;
    cuFuncSetCacheConfig 3000: (hfunc: CUfunction, config: CUfunc_cache) => func_set_cache_config;
    cuFuncGetModule 11000: (hmod: *mut CUmodule, hfunc: CUfunction) => func_get_module;
    cuFuncGetName 12030: (name: *mut *const c_char, hfunc: CUfunction) => func_get_name;
    cuFuncGetParamInfo 12040:
        (func: CUfunction, param_index: usize, param_offset: *mut usize,
         param_size: *mut usize) => func_get_param_info;
    cuFuncGetParamCount 13020: (func: CUfunction, param_count: *mut usize) => func_get_param_count;
    cuFuncIsLoaded 12040:
        (state: *mut CUfunctionLoadingState, function: CUfunction) => func_is_loaded;
    cuFuncLoad 12040: (function: CUfunction) => func_load;
    cuLaunchKernel 4000,
    cuLaunchKernel_ptsz 7000 ptsz:
        (f: CUfunction, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint,
         block_dim_x: c_uint, block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint,
         stream: CUstream, kernel_params: *mut *mut c_void,
         extra: *mut *mut c_void) => launch_kernel;
    cuLaunchKernelEx 11060,
    cuLaunchKernelEx_ptsz 11060 ptsz:
        (config: *const CUlaunchConfig, f: CUfunction, kernel_params: *mut *mut c_void,
         extra: *mut *mut c_void) => launch_kernel_ex;
    cuLaunchCooperativeKernel 9000,
    cuLaunchCooperativeKernel_ptsz 9000 ptsz:
        (f: CUfunction, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint,
         block_dim_x: c_uint, block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint,
         stream: CUstream, kernel_params: *mut *mut c_void) => launch_cooperative_kernel;
    cuLaunchHostFunc 10000,
    cuLaunchHostFunc_ptsz 10000 ptsz:
        (stream: CUstream, fn_: CUhostFn, user_data: *mut c_void) => launch_host_func;
    cuLaunchHostFunc_v2 13010,
    cuLaunchHostFunc_v2_ptsz 13010 ptsz:
        (stream: CUstream, fn_: CUhostFn, user_data: *mut c_void,
         sync_mode: c_uint) => launch_host_func_v2;
    cuFuncSetBlockShape 2000:
        (hfunc: CUfunction, x: c_int, y: c_int, z: c_int) => func_set_block_shape;
    cuFuncSetSharedSize 2000: (hfunc: CUfunction, bytes: c_uint) => func_set_shared_size;
    cuParamSetSize 2000: (hfunc: CUfunction, numbytes: c_uint) => param_set_size;
    cuParamSeti 2000: (hfunc: CUfunction, offset: c_int, value: c_uint) => param_set_i32;
    cuParamSetf 2000: (hfunc: CUfunction, offset: c_int, value: c_float) => param_set_f32;
    cuParamSetv 2000:
        (hfunc: CUfunction, offset: c_int, ptr: *mut c_void, numbytes: c_uint) => param_set_bytes;
    cuLaunch 2000: (f: CUfunction) => launch;
    cuLaunchGrid 2000: (f: CUfunction, grid_width: c_int, grid_height: c_int) => launch_grid;
    cuLaunchGridAsync 2000:
        (f: CUfunction, grid_width: c_int, grid_height: c_int,
         stream: CUstream) => launch_grid_async;
    cuLaunchCooperativeKernelMultiDevice 9000:
        (launch_params_list: *mut CUDA_LAUNCH_PARAMS, num_devices: c_uint,
         flags: c_uint) => unsupported;
    cuParamSetTexRef 2000: (hfunc: CUfunction, texunit: c_int, tex_ref: CUtexref) => param_set_tex_ref;
    cuFuncSetSharedMemConfig 4020:
        (hfunc: CUfunction, config: CUsharedconfig) => func_set_shared_mem_config;
    cuOccupancyMaxActiveBlocksPerMultiprocessor 6050:
        (num_blocks: *mut c_int, func: CUfunction, block_size: c_int,
         dynamic_s_mem_size: usize) => occupancy_max_active_blocks_per_multiprocessor;
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags 7000:
        (num_blocks: *mut c_int, func: CUfunction, block_size: c_int, dynamic_s_mem_size: usize,
         flags: c_uint) => occupancy_max_active_blocks_per_multiprocessor_with_flags;
    cuOccupancyMaxPotentialBlockSize 6050:
        (min_grid_size: *mut c_int, block_size: *mut c_int, func: CUfunction,
         block_size_to_dynamic_s_mem_size: CUoccupancyB2DSize, dynamic_s_mem_size: usize,
         block_size_limit: c_int) => occupancy_max_potential_block_size;
    cuOccupancyMaxPotentialBlockSizeWithFlags 7000:
        (min_grid_size: *mut c_int, block_size: *mut c_int, func: CUfunction,
         block_size_to_dynamic_s_mem_size: CUoccupancyB2DSize, dynamic_s_mem_size: usize,
         block_size_limit: c_int, flags: c_uint) => occupancy_max_potential_block_size_with_flags;
    cuOccupancyAvailableDynamicSMemPerBlock 10020:
        (dynamic_smem_size: *mut usize, func: CUfunction, num_blocks: c_int,
         block_size: c_int) => occupancy_available_dynamic_smem_per_block;
    cuOccupancyMaxPotentialClusterSize 11070:
        (cluster_size: *mut c_int, func: CUfunction,
         config: *const CUlaunchConfig) => occupancy_max_potential_cluster_size;
    cuOccupancyMaxActiveClusters 11070:
        (num_clusters: *mut c_int, func: CUfunction,
         config: *const CUlaunchConfig) => occupancy_max_active_clusters;
}
