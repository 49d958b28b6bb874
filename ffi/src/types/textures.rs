//! The C structures for arrays, textures and surfaces.

use super::{CUaddress_mode, CUarray_format, CUfilter_mode};
use std::ffi::{c_float, c_int, c_uint};

/// The descriptor of a one- or two-dimensional array.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_ARRAY_DESCRIPTOR {
    /// The number of texels in a row.
    pub width: usize,
    /// The number of rows; 0 means that the array has one dimension.
    pub height: usize,
    /// The format of each component of a texel, such as an 8-bit integer.
    pub format: CUarray_format,
    /// The number of components of a texel.
    pub num_channels: c_uint,
}

/// The descriptor of a one- or two-dimensional array, in the layout that CUDA versions before 3.2
/// use.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_ARRAY_DESCRIPTOR_v1 {
    /// The number of texels in a row.
    pub width: c_uint,
    /// The number of rows; 0 means that the array has one dimension.
    pub height: c_uint,
    /// The format of each component of a texel, such as an 8-bit integer.
    pub format: CUarray_format,
    /// The number of components of a texel.
    pub num_channels: c_uint,
}

/// The descriptor of a CUDA array of any kind: with up to three dimensions, layered, or a cube map.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_ARRAY3D_DESCRIPTOR {
    /// The number of texels in a row.
    pub width: usize,
    /// The number of rows; 0 means that the array has one dimension.
    pub height: usize,
    /// The number of slices of a three-dimensional array, layers of a layered array, or faces of a
    /// cube map.
    pub depth: usize,
    /// The format of each component of a texel, such as an 8-bit integer.
    pub format: CUarray_format,
    /// The number of components of a texel.
    pub num_channels: c_uint,
    /// `CUDA_ARRAY3D_*` flags.
    pub flags: c_uint,
}

/// The descriptor of a CUDA array of any kind, in the layout that CUDA versions before 3.2 use.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_ARRAY3D_DESCRIPTOR_v1 {
    /// The number of texels in a row.
    pub width: c_uint,
    /// The number of rows; 0 means that the array has one dimension.
    pub height: c_uint,
    /// The number of slices of a three-dimensional array, layers of a layered array, or faces of a
    /// cube map.
    pub depth: c_uint,
    /// The format of each component of a texel, such as an 8-bit integer.
    pub format: CUarray_format,
    /// The number of components of a texel.
    pub num_channels: c_uint,
    /// `CUDA_ARRAY3D_*` flags.
    pub flags: c_uint,
}

/// The size and the alignment of the memory that an array needs.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_ARRAY_MEMORY_REQUIREMENTS {
    /// The size of the memory in bytes.
    pub size: usize,
    /// The number of which the memory's address must be a multiple, in bytes.
    pub alignment: usize,
    /// Always zero.
    pub reserved: [c_uint; 4],
}

/// The resource that a texture or surface accesses.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_RESOURCE_DESC {
    /// The kind of the resource. 0: array; 1: mipmapped array; 2: linear memory; 3: linear memory
    /// with rows at a fixed distance (pitch).
    pub res_type: c_uint,
    /// The words of the C union: the handle of an array, or an address with the format, the number
    /// of components and the sizes.
    pub res: [u64; 16],
    /// Always zero.
    pub flags: c_uint,
}

/// The sampling parameters of a texture.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_TEXTURE_DESC {
    /// The address mode of each dimension.
    pub address_mode: [CUaddress_mode; 3],
    /// The filter that combines neighbouring texels.
    pub filter_mode: CUfilter_mode,
    /// `CU_TRSF_*` flags.
    pub flags: c_uint,
    /// The maximum anisotropy ratio.
    pub max_anisotropy: c_uint,
    /// The filter that combines neighbouring mipmap levels.
    pub mipmap_filter_mode: CUfilter_mode,
    /// The offset that is added to the mipmap level.
    pub mipmap_level_bias: c_float,
    /// The lower bound of the mipmap level: smaller levels are replaced by this level.
    pub min_mipmap_level_clamp: c_float,
    /// The upper bound of the mipmap level: larger levels are replaced by this level.
    pub max_mipmap_level_clamp: c_float,
    /// The colour that reads outside the texture return if the address mode is "border".
    pub border_color: [c_float; 4],
    /// Always zero.
    pub reserved: [c_int; 12],
}

/// A view of a part of a resource.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CUDA_RESOURCE_VIEW_DESC {
    /// The format of the view: a value of the enum `CUresourceViewFormat`.
    pub format: c_uint,
    /// The number of texels in a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
    /// The number of slices.
    pub depth: usize,
    /// First mipmap level.
    pub first_mipmap_level: c_uint,
    /// Last mipmap level.
    pub last_mipmap_level: c_uint,
    /// First layer.
    pub first_layer: c_uint,
    /// Last layer.
    pub last_layer: c_uint,
    /// Always zero.
    pub reserved: [c_uint; 16],
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// The sizes in this test are the sizes that a C compiler computes for the structures of cuda.h
    /// 13.5 on a 64-bit machine.
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
