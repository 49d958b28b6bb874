//! Entry points for modules, the linker, libraries and kernels.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

use super::cuda_api;
use crate::serve::*;
use crate::types::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

cuda_api! {
    cuModuleLoad 2000: (module: *mut CUmodule, fname: *const c_char) => module_load;
    cuModuleLoadData 2000: (module: *mut CUmodule, image: *const c_void) => module_load_data;
    cuModuleLoadDataEx 2010:
        (module: *mut CUmodule, image: *const c_void, num_options: c_uint,
         options: *mut CUjit_option, option_values: *mut *mut c_void) => module_load_data_ex;
    cuModuleLoadFatBinary 2000:
        (module: *mut CUmodule, fat_cubin: *const c_void) => module_load_fat_binary;
    cuModuleUnload 2000: (hmod: CUmodule) => module_unload;
    cuModuleGetFunction 2000:
        (hfunc: *mut CUfunction, hmod: CUmodule, name: *const c_char) => module_get_function;
    cuModuleGetFunctionCount 12040:
        (count: *mut c_uint, mod_: CUmodule) => module_get_function_count;
    cuModuleEnumerateFunctions 12040:
        (functions: *mut CUfunction, num_functions: c_uint,
         mod_: CUmodule) => module_enumerate_functions;
    cuModuleGetGlobal_v2 3020:
        (dptr: *mut CUdeviceptr, bytes: *mut usize, hmod: CUmodule,
         name: *const c_char) => module_get_global;
    cuLinkCreate 5050,
    cuLinkCreate_v2 6050:
        (num_options: c_uint, options: *mut CUjit_option, option_values: *mut *mut c_void,
         state_out: *mut CUlinkState) => link_create;
    cuLinkAddData 5050,
    cuLinkAddData_v2 6050:
        (state: CUlinkState, type_: CUjitInputType, data: *mut c_void, size: usize,
         name: *const c_char, num_options: c_uint, options: *mut CUjit_option,
         option_values: *mut *mut c_void) => link_add_data;
    cuLinkAddFile 5050,
    cuLinkAddFile_v2 6050:
        (state: CUlinkState, type_: CUjitInputType, path: *const c_char, num_options: c_uint,
         options: *mut CUjit_option, option_values: *mut *mut c_void) => link_add_file;
    cuLinkComplete 5050:
        (state: CUlinkState, cubin_out: *mut *mut c_void, size_out: *mut usize) => link_complete;
    cuLinkDestroy 5050: (state: CUlinkState) => link_destroy;
    cuModuleGetTexRef 2000:
        (tex_ref: *mut CUtexref, hmod: CUmodule, name: *const c_char) => module_get_tex_ref;
    cuModuleGetSurfRef 3000:
        (surf_ref: *mut CUsurfref, hmod: CUmodule, name: *const c_char) => module_get_surf_ref;
    cuLibraryLoadData 12000:
        (library: *mut CUlibrary, code: *const c_void, jit_options: *mut CUjit_option,
         jit_options_values: *mut *mut c_void, num_jit_options: c_uint,
         library_options: *mut CUlibraryOption, library_option_values: *mut *mut c_void,
         num_library_options: c_uint) => library_load_data;
    cuLibraryLoadFromFile 12000:
        (library: *mut CUlibrary, file_name: *const c_char, jit_options: *mut CUjit_option,
         jit_options_values: *mut *mut c_void, num_jit_options: c_uint,
         library_options: *mut CUlibraryOption, library_option_values: *mut *mut c_void,
         num_library_options: c_uint) => library_load_from_file;
    cuLibraryUnload 12000: (library: CUlibrary) => library_unload;
    cuLibraryGetKernel 12000:
        (kernel: *mut CUkernel, library: CUlibrary, name: *const c_char) => library_get_kernel;
    cuLibraryGetKernelCount 12040: (count: *mut c_uint, lib: CUlibrary) => library_get_kernel_count;
    cuLibraryEnumerateKernels 12040:
        (kernels: *mut CUkernel, num_kernels: c_uint, lib: CUlibrary) => library_enumerate_kernels;
    cuLibraryGetModule 12000: (mod_: *mut CUmodule, library: CUlibrary) => library_get_module;
    cuKernelGetFunction 12000: (func: *mut CUfunction, kernel: CUkernel) => kernel_get_function;
    cuKernelGetLibrary 12050: (lib: *mut CUlibrary, kernel: CUkernel) => kernel_get_library;
    cuLibraryGetGlobal 12000:
        (dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary,
         name: *const c_char) => library_get_global;
    cuLibraryGetManaged 12000:
        (dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary,
         name: *const c_char) => library_get_managed;
    cuLibraryGetUnifiedFunction 12000:
        (fptr: *mut *mut c_void, library: CUlibrary, symbol: *const c_char) => unsupported;
    cuKernelGetAttribute 12000:
        (pi: *mut c_int, attrib: CUfunction_attribute, kernel: CUkernel,
         dev: CUdevice) => kernel_get_attribute;
    cuKernelSetAttribute 12000:
        (attrib: CUfunction_attribute, val: c_int, kernel: CUkernel,
         dev: CUdevice) => kernel_set_attribute;
    cuKernelSetCacheConfig 12000:
        (kernel: CUkernel, config: CUfunc_cache, dev: CUdevice) => kernel_set_cache_config;
    cuKernelGetName 12030: (name: *mut *const c_char, hfunc: CUkernel) => kernel_get_name;
    cuKernelGetParamInfo 12040:
        (kernel: CUkernel, param_index: usize, param_offset: *mut usize,
         param_size: *mut usize) => kernel_get_param_info;
    cuKernelGetParamCount 13020:
        (kernel: CUkernel, param_count: *mut usize) => kernel_get_param_count;
    cuModuleGetGlobal 2000:
        (dptr: *mut CUdeviceptr_v1, bytes: *mut c_uint, hmod: CUmodule,
         name: *const c_char) => unsupported;
}
