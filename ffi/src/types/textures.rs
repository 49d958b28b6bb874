//! Structures of arrays, textures and surfaces.

use super::{CUaddress_mode, CUarray_format, CUfilter_mode};
use std::ffi::{c_float, c_int, c_uint};

/// An array of one or two dimensions.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_ARRAY_DESCRIPTOR {
    /// Texels in a row.
    pub width: usize,
    /// Rows; 0: one dimension.
    pub height: usize,
    /// What a component is.
    pub format: CUarray_format,
    /// Components.
    pub num_channels: c_uint,
}

/// The same before CUDA 3.2.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_ARRAY_DESCRIPTOR_v1 {
    /// Texels in a row.
    pub width: c_uint,
    /// Rows; 0: one dimension.
    pub height: c_uint,
    /// What a component is.
    pub format: CUarray_format,
    /// Components.
    pub num_channels: c_uint,
}

/// An array of any kind.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_ARRAY3D_DESCRIPTOR {
    /// Texels in a row.
    pub width: usize,
    /// Rows; 0: one dimension.
    pub height: usize,
    /// Slices, layers or faces.
    pub depth: usize,
    /// What a component is.
    pub format: CUarray_format,
    /// Components.
    pub num_channels: c_uint,
    /// `CUDA_ARRAY3D_*`.
    pub flags: c_uint,
}

/// The same before CUDA 3.2.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_ARRAY3D_DESCRIPTOR_v1 {
    /// Texels in a row.
    pub width: c_uint,
    /// Rows; 0: one dimension.
    pub height: c_uint,
    /// Slices, layers or faces.
    pub depth: c_uint,
    /// What a component is.
    pub format: CUarray_format,
    /// Components.
    pub num_channels: c_uint,
    /// `CUDA_ARRAY3D_*`.
    pub flags: c_uint,
}

/// Memory that an array takes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_ARRAY_MEMORY_REQUIREMENTS {
    /// Bytes.
    pub size: usize,
    /// Alignment of the first.
    pub alignment: usize,
    /// Zero.
    pub reserved: [c_uint; 4],
}

/// What a texture or surface looks at.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_RESOURCE_DESC {
    /// 0: array, 1: mipmapped array, 2: linear, 3: rows.
    pub res_type: c_uint,
    /// The union's bytes: a handle; or an address, format and channels, and sizes.
    pub res: [u64; 16],
    /// Zero.
    pub flags: c_uint,
}

/// How a texture is looked up.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_TEXTURE_DESC {
    /// Of each dimension.
    pub address_mode: [CUaddress_mode; 3],
    /// Between texels.
    pub filter_mode: CUfilter_mode,
    /// `CU_TRSF_*`.
    pub flags: c_uint,
    /// Longest ratio of a footprint.
    pub max_anisotropy: c_uint,
    /// Between levels.
    pub mipmap_filter_mode: CUfilter_mode,
    /// Added to levels.
    pub mipmap_level_bias: c_float,
    /// Least level.
    pub min_mipmap_level_clamp: c_float,
    /// Greatest level.
    pub max_mipmap_level_clamp: c_float,
    /// Beyond the edge.
    pub border_color: [c_float; 4],
    /// Zero.
    pub reserved: [c_int; 12],
}

/// A part of a resource.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_RESOURCE_VIEW_DESC {
    /// `CUresourceViewFormat`.
    pub format: c_uint,
    /// Texels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
    /// First mipmap level.
    pub first_mipmap_level: c_uint,
    /// Last mipmap level.
    pub last_mipmap_level: c_uint,
    /// First layer.
    pub first_layer: c_uint,
    /// Last layer.
    pub last_layer: c_uint,
    /// Zero.
    pub reserved: [c_uint; 16],
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// Sizes that a C compiler gives for the structures of cuda.h 13.5 on a 64-bit machine.
    #[test]
    fn layouts_are_those_of_c() {
        assert_eq!(size_of::<CUDA_ARRAY_DESCRIPTOR>(), 24);
        assert_eq!(size_of::<CUDA_ARRAY_DESCRIPTOR_v1>(), 16);
        assert_eq!(size_of::<CUDA_ARRAY3D_DESCRIPTOR>(), 40);
        assert_eq!(size_of::<CUDA_ARRAY3D_DESCRIPTOR_v1>(), 24);
        assert_eq!(size_of::<CUDA_ARRAY_MEMORY_REQUIREMENTS>(), 32);
        assert_eq!(size_of::<CUDA_RESOURCE_DESC>(), 144);
        assert_eq!(offset_of!(CUDA_RESOURCE_DESC, flags), 136);
        assert_eq!(size_of::<CUDA_TEXTURE_DESC>(), 104);
        assert_eq!(size_of::<CUDA_RESOURCE_VIEW_DESC>(), 112);
    }
}
