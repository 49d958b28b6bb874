//! Entry points for arrays, textures, surfaces and tensor maps.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

use super::cuda_api;
use crate::serve::*;
use crate::types::*;
use std::ffi::{c_float, c_int, c_uint, c_void};

cuda_api! {
    cuArrayCreate_v2 3020:
        (handle: *mut CUarray, allocate_array: *const CUDA_ARRAY_DESCRIPTOR) => array_create_v2;
    cuArrayGetDescriptor_v2 3020:
        (array_descriptor: *mut CUDA_ARRAY_DESCRIPTOR, array: CUarray) => array_get_descriptor_v2;
    cuArrayGetSparseProperties 11010:
        (sparse_properties: *mut CUDA_ARRAY_SPARSE_PROPERTIES, array: CUarray) => (refuses array_get_sparse_properties);
    cuMipmappedArrayGetSparseProperties 11010:
        (sparse_properties: *mut CUDA_ARRAY_SPARSE_PROPERTIES,
         mipmap: CUmipmappedArray) => (refuses mipmapped_array_get_sparse_properties);
    cuArrayGetMemoryRequirements 11060:
        (memory_requirements: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS, array: CUarray,
         device: CUdevice) => array_get_memory_requirements;
    cuMipmappedArrayGetMemoryRequirements 11060:
        (memory_requirements: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS, mipmap: CUmipmappedArray,
         device: CUdevice) => mipmapped_array_get_memory_requirements;
    cuArrayGetPlane 11020:
        (plane_array: *mut CUarray, array: CUarray, plane_idx: c_uint) => (refuses array_get_plane);
    cuArrayDestroy 2000: (array: CUarray) => array_destroy;
    cuArray3DCreate_v2 3020:
        (handle: *mut CUarray, allocate_array: *const CUDA_ARRAY3D_DESCRIPTOR) => array_3d_create_v2;
    cuArray3DGetDescriptor_v2 3020:
        (array_descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, array: CUarray) => array_3d_get_descriptor_v2;
    cuMipmappedArrayCreate 5000:
        (handle: *mut CUmipmappedArray, mipmapped_array_desc: *const CUDA_ARRAY3D_DESCRIPTOR,
         num_mipmap_levels: c_uint) => mipmapped_array_create;
    cuMipmappedArrayGetLevel 5000:
        (level_array: *mut CUarray, mipmapped_array: CUmipmappedArray,
         level: c_uint) => mipmapped_array_get_level;
    cuMipmappedArrayDestroy 5000: (mipmapped_array: CUmipmappedArray) => mipmapped_array_destroy;
    cuTexRefSetArray 2000: (tex_ref: CUtexref, array: CUarray, flags: c_uint) => tex_ref_set_array;
    cuTexRefSetMipmappedArray 5000:
        (tex_ref: CUtexref, mipmapped_array: CUmipmappedArray, flags: c_uint) => tex_ref_set_mipmapped_array;
    cuTexRefSetAddress_v2 3020:
        (byte_offset: *mut usize, tex_ref: CUtexref, dptr: CUdeviceptr,
         bytes: usize) => tex_ref_set_address;
    cuTexRefSetAddress2D_v2 3020,
    cuTexRefSetAddress2D_v3 4010:
        (tex_ref: CUtexref, desc: *const CUDA_ARRAY_DESCRIPTOR, dptr: CUdeviceptr,
         pitch: usize) => tex_ref_set_address_2d;
    cuTexRefSetFormat 2000:
        (tex_ref: CUtexref, fmt: CUarray_format, num_packed_components: c_int) => tex_ref_set_format;
    cuTexRefSetAddressMode 2000: (tex_ref: CUtexref, dim: c_int, am: CUaddress_mode) => tex_ref_set_address_mode;
    cuTexRefSetFilterMode 2000: (tex_ref: CUtexref, fm: CUfilter_mode) => tex_ref_set_filter_mode;
    cuTexRefSetMipmapFilterMode 5000: (tex_ref: CUtexref, fm: CUfilter_mode) => tex_ref_set_mipmap_filter_mode;
    cuTexRefSetMipmapLevelBias 5000: (tex_ref: CUtexref, bias: c_float) => tex_ref_set_mipmap_level_bias;
    cuTexRefSetMipmapLevelClamp 5000:
        (tex_ref: CUtexref, min_mipmap_level_clamp: c_float,
         max_mipmap_level_clamp: c_float) => tex_ref_set_mipmap_level_clamp;
    cuTexRefSetMaxAnisotropy 5000: (tex_ref: CUtexref, max_aniso: c_uint) => tex_ref_set_max_anisotropy;
    cuTexRefSetBorderColor 8000: (tex_ref: CUtexref, border_color: *mut c_float) => tex_ref_set_border_color;
    cuTexRefSetFlags 2000: (tex_ref: CUtexref, flags: c_uint) => tex_ref_set_flags;
    cuTexRefGetAddress_v2 3020: (pdptr: *mut CUdeviceptr, tex_ref: CUtexref) => tex_ref_get_address;
    cuTexRefGetArray 2000: (ph_array: *mut CUarray, tex_ref: CUtexref) => tex_ref_get_array;
    cuTexRefGetMipmappedArray 5000:
        (ph_mipmapped_array: *mut CUmipmappedArray, tex_ref: CUtexref) => tex_ref_get_mipmapped_array;
    cuTexRefGetAddressMode 2000:
        (pam: *mut CUaddress_mode, tex_ref: CUtexref, dim: c_int) => tex_ref_get_address_mode;
    cuTexRefGetFilterMode 2000: (pfm: *mut CUfilter_mode, tex_ref: CUtexref) => tex_ref_get_filter_mode;
    cuTexRefGetFormat 2000:
        (format: *mut CUarray_format, num_channels: *mut c_int, tex_ref: CUtexref) => tex_ref_get_format;
    cuTexRefGetMipmapFilterMode 5000: (pfm: *mut CUfilter_mode, tex_ref: CUtexref) => tex_ref_get_mipmap_filter_mode;
    cuTexRefGetMipmapLevelBias 5000: (pbias: *mut c_float, tex_ref: CUtexref) => tex_ref_get_mipmap_level_bias;
    cuTexRefGetMipmapLevelClamp 5000:
        (pmin_mipmap_level_clamp: *mut c_float, pmax_mipmap_level_clamp: *mut c_float,
         tex_ref: CUtexref) => tex_ref_get_mipmap_level_clamp;
    cuTexRefGetMaxAnisotropy 5000: (pmax_aniso: *mut c_int, tex_ref: CUtexref) => tex_ref_get_max_anisotropy;
    cuTexRefGetBorderColor 8000: (border_color: *mut c_float, tex_ref: CUtexref) => tex_ref_get_border_color;
    cuTexRefGetFlags 2000: (flags: *mut c_uint, tex_ref: CUtexref) => tex_ref_get_flags;
    cuTexRefCreate 2000: (tex_ref: *mut CUtexref) => tex_ref_create;
    cuTexRefDestroy 2000: (tex_ref: CUtexref) => tex_ref_destroy;
    cuSurfRefSetArray 3000: (surf_ref: CUsurfref, array: CUarray, flags: c_uint) => surf_ref_set_array;
    cuSurfRefGetArray 3000: (ph_array: *mut CUarray, surf_ref: CUsurfref) => surf_ref_get_array;
    cuTexObjectCreate 5000:
        (tex_object: *mut CUtexObject, res_desc: *const CUDA_RESOURCE_DESC,
         tex_desc: *const CUDA_TEXTURE_DESC,
         res_view_desc: *const CUDA_RESOURCE_VIEW_DESC) => tex_object_create;
    cuTexObjectDestroy 5000: (tex_object: CUtexObject) => tex_object_destroy;
    cuTexObjectGetResourceDesc 5000:
        (res_desc: *mut CUDA_RESOURCE_DESC, tex_object: CUtexObject) => tex_object_get_resource_desc;
    cuTexObjectGetTextureDesc 5000:
        (tex_desc: *mut CUDA_TEXTURE_DESC, tex_object: CUtexObject) => tex_object_get_texture_desc;
    cuTexObjectGetResourceViewDesc 5000:
        (res_view_desc: *mut CUDA_RESOURCE_VIEW_DESC, tex_object: CUtexObject) => tex_object_get_resource_view_desc;
    cuSurfObjectCreate 5000:
        (surf_object: *mut CUsurfObject, res_desc: *const CUDA_RESOURCE_DESC) => surf_object_create;
    cuSurfObjectDestroy 5000: (surf_object: CUsurfObject) => surf_object_destroy;
    cuSurfObjectGetResourceDesc 5000:
        (res_desc: *mut CUDA_RESOURCE_DESC, surf_object: CUsurfObject) => surf_object_get_resource_desc;
    cuTensorMapEncodeTiled 12000:
        (tensor_map: *mut CUtensorMap, tensor_data_type: CUtensorMapDataType, tensor_rank: u32,
         global_address: *mut c_void, global_dim: *const u64, global_strides: *const u64,
         box_dim: *const u32, element_strides: *const u32, interleave: CUtensorMapInterleave,
         swizzle: CUtensorMapSwizzle, l2_promotion: CUtensorMapL2promotion,
         oob_fill: CUtensorMapFloatOOBfill) => unsupported;
    cuTensorMapEncodeIm2col 12000:
        (tensor_map: *mut CUtensorMap, tensor_data_type: CUtensorMapDataType, tensor_rank: u32,
         global_address: *mut c_void, global_dim: *const u64, global_strides: *const u64,
         pixel_box_lower_corner: *const c_int, pixel_box_upper_corner: *const c_int,
         channels_per_pixel: u32, pixels_per_column: u32, element_strides: *const u32,
         interleave: CUtensorMapInterleave, swizzle: CUtensorMapSwizzle,
         l2_promotion: CUtensorMapL2promotion, oob_fill: CUtensorMapFloatOOBfill) => unsupported;
    cuTensorMapEncodeIm2colWide 12080:
        (tensor_map: *mut CUtensorMap, tensor_data_type: CUtensorMapDataType, tensor_rank: u32,
         global_address: *mut c_void, global_dim: *const u64, global_strides: *const u64,
         pixel_box_lower_corner_width: c_int, pixel_box_upper_corner_width: c_int,
         channels_per_pixel: u32, pixels_per_column: u32, element_strides: *const u32,
         interleave: CUtensorMapInterleave, mode: CUtensorMapIm2ColWideMode,
         swizzle: CUtensorMapSwizzle, l2_promotion: CUtensorMapL2promotion,
         oob_fill: CUtensorMapFloatOOBfill) => unsupported;
    cuTensorMapReplaceAddress 12000:
        (tensor_map: *mut CUtensorMap, global_address: *mut c_void) => unsupported;
    cuTensorMapSetAllocationClass 13050:
        (tensor_map: *mut CUtensorMap, alloc_class: CUtensorMapAllocClass,
         out_alloc_class: *mut CUtensorMapAllocClass) => unsupported;
    cuArrayCreate 2000:
        (handle: *mut CUarray, allocate_array: *const CUDA_ARRAY_DESCRIPTOR_v1) => array_create_v1;
    cuArrayGetDescriptor 2000:
        (array_descriptor: *mut CUDA_ARRAY_DESCRIPTOR_v1, array: CUarray) => array_get_descriptor_v1;
    cuArray3DCreate 2000:
        (handle: *mut CUarray, allocate_array: *const CUDA_ARRAY3D_DESCRIPTOR_v1) => array_3d_create_v1;
    cuArray3DGetDescriptor 2000:
        (array_descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR_v1, array: CUarray) => array_3d_get_descriptor_v1;
    cuTexRefSetAddress 2000:
        (byte_offset: *mut c_uint, tex_ref: CUtexref, dptr: CUdeviceptr_v1,
         bytes: c_uint) => unsupported;
    cuTexRefSetAddress2D 2020:
        (tex_ref: CUtexref, desc: *const CUDA_ARRAY_DESCRIPTOR_v1, dptr: CUdeviceptr_v1,
         pitch: c_uint) => unsupported;
    cuTexRefGetAddress 2000: (pdptr: *mut CUdeviceptr_v1, tex_ref: CUtexref) => unsupported;
}
