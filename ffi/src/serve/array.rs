//! Implements the entry points for arrays and mipmapped arrays.

use std::ffi::c_uint;
use std::sync::Arc;

use margay::Device;
use margay::texture::ArrayDescriptor;

use crate::convert::{In, Out};
use crate::guard::Call;
use crate::handles::{
    ArrayObject, MipmappedObject, arrays, current, current_alive, mipmapped_arrays,
};
use crate::result::{CuResult, Served};
use crate::types::*;

/// Returns the descriptor of an array without depth and flags. Only `cuArray3DCreate` and `cuMipmappedArrayCreate` can
/// set `CUDA_ARRAY3D_*` flags.
fn plain(width: usize, height: usize, format: c_uint, channels: c_uint) -> ArrayDescriptor {
    ArrayDescriptor {
        width: width as u64,
        height: height as u64,
        depth: 0,
        format,
        channels,
        flags: 0,
    }
}

fn create(out: &Out<CUarray>, descriptor: &ArrayDescriptor) -> Served {
    let array = current()?.create_array(descriptor)?;
    let object = Arc::new(ArrayObject {
        array,
        is_level: false,
    });
    let handle = arrays().insert(object).ok_or(CuResult::OUT_OF_MEMORY)?;
    out.set(CUarray(handle));
    Ok(())
}

pub(crate) fn array_create_v1(
    _: &Call,
    out: Out<CUarray>,
    desc: In<CUDA_ARRAY_DESCRIPTOR_v1>,
) -> Served {
    let desc = desc.0;
    let (width, height) = (desc.width as usize, desc.height as usize);
    create(&out, &plain(width, height, desc.format, desc.num_channels))
}

pub(crate) fn array_create_v2(
    _: &Call,
    out: Out<CUarray>,
    desc: In<CUDA_ARRAY_DESCRIPTOR>,
) -> Served {
    let desc = desc.0;
    let descriptor = plain(desc.width, desc.height, desc.format, desc.num_channels);
    create(&out, &descriptor)
}

fn wide(desc: &CUDA_ARRAY3D_DESCRIPTOR_v1) -> ArrayDescriptor {
    ArrayDescriptor {
        width: desc.width.into(),
        height: desc.height.into(),
        depth: desc.depth.into(),
        format: desc.format,
        channels: desc.num_channels,
        flags: desc.flags,
    }
}

fn descriptor(desc: &CUDA_ARRAY3D_DESCRIPTOR) -> ArrayDescriptor {
    ArrayDescriptor {
        width: desc.width as u64,
        height: desc.height as u64,
        depth: desc.depth as u64,
        format: desc.format,
        channels: desc.num_channels,
        flags: desc.flags,
    }
}

pub(crate) fn array_3d_create_v1(
    _: &Call,
    out: Out<CUarray>,
    desc: In<CUDA_ARRAY3D_DESCRIPTOR_v1>,
) -> Served {
    create(&out, &wide(&desc.0))
}

pub(crate) fn array_3d_create_v2(
    _: &Call,
    out: Out<CUarray>,
    desc: In<CUDA_ARRAY3D_DESCRIPTOR>,
) -> Served {
    create(&out, &descriptor(&desc.0))
}

/// Returns the array's descriptor, or an error if no context is current or the array does not exist
/// any more.
fn known(object: &ArrayObject) -> Result<ArrayDescriptor, CuResult> {
    current()?;
    object.array.check()?;
    Ok(*object.array.descriptor())
}

pub(crate) fn array_get_descriptor_v1(
    _: &Call,
    out: Out<CUDA_ARRAY_DESCRIPTOR_v1>,
    array: Arc<ArrayObject>,
) -> Served {
    let known = known(&array)?;
    out.set(CUDA_ARRAY_DESCRIPTOR_v1 {
        width: known.width as c_uint,
        height: known.height as c_uint,
        format: known.format,
        num_channels: known.channels,
    });
    Ok(())
}

pub(crate) fn array_get_descriptor_v2(
    _: &Call,
    out: Out<CUDA_ARRAY_DESCRIPTOR>,
    array: Arc<ArrayObject>,
) -> Served {
    let known = known(&array)?;
    out.set(CUDA_ARRAY_DESCRIPTOR {
        width: known.width as usize,
        height: known.height as usize,
        format: known.format,
        num_channels: known.channels,
    });
    Ok(())
}

pub(crate) fn array_3d_get_descriptor_v1(
    _: &Call,
    out: Out<CUDA_ARRAY3D_DESCRIPTOR_v1>,
    array: Arc<ArrayObject>,
) -> Served {
    let known = known(&array)?;
    out.set(CUDA_ARRAY3D_DESCRIPTOR_v1 {
        width: known.width as c_uint,
        height: known.height as c_uint,
        depth: known.depth as c_uint,
        format: known.format,
        num_channels: known.channels,
        flags: known.flags,
    });
    Ok(())
}

pub(crate) fn array_3d_get_descriptor_v2(
    _: &Call,
    out: Out<CUDA_ARRAY3D_DESCRIPTOR>,
    array: Arc<ArrayObject>,
) -> Served {
    let known = known(&array)?;
    out.set(CUDA_ARRAY3D_DESCRIPTOR {
        width: known.width as usize,
        height: known.height as usize,
        depth: known.depth as usize,
        format: known.format,
        num_channels: known.channels,
        flags: known.flags,
    });
    Ok(())
}

/// Always fails, because no array is sparse.
pub(crate) fn array_get_sparse_properties(
    _: &Call,
    _out: Out<CUDA_ARRAY_SPARSE_PROPERTIES>,
    _array: Arc<ArrayObject>,
) -> Served {
    Err(CuResult::INVALID_VALUE)
}

pub(crate) fn mipmapped_array_get_sparse_properties(
    _: &Call,
    _out: Out<CUDA_ARRAY_SPARSE_PROPERTIES>,
    _array: Arc<MipmappedObject>,
) -> Served {
    Err(CuResult::INVALID_VALUE)
}

/// Returns the size and alignment of an array's memory. CUDA documents the call only for arrays
/// with deferred mapping; this implementation succeeds for every array.
pub(crate) fn array_get_memory_requirements(
    _: &Call,
    out: Out<CUDA_ARRAY_MEMORY_REQUIREMENTS>,
    array: Arc<ArrayObject>,
    _device: Device,
) -> Served {
    array.array.check()?;
    tell(&out, array.array.memory());
    Ok(())
}

pub(crate) fn mipmapped_array_get_memory_requirements(
    _: &Call,
    out: Out<CUDA_ARRAY_MEMORY_REQUIREMENTS>,
    array: Arc<MipmappedObject>,
    _device: Device,
) -> Served {
    array.array.check()?;
    tell(&out, array.array.memory());
    Ok(())
}

fn tell(out: &Out<CUDA_ARRAY_MEMORY_REQUIREMENTS>, (size, alignment): (u64, u64)) {
    out.set(CUDA_ARRAY_MEMORY_REQUIREMENTS {
        size: size as usize,
        alignment: alignment as usize,
        reserved: [0; 4],
    });
}

/// Always fails, because formats with several planes are not supported.
pub(crate) fn array_get_plane(
    _: &Call,
    _plane: Out<CUarray>,
    _array: Arc<ArrayObject>,
    _index: c_uint,
) -> Served {
    Err(CuResult::INVALID_VALUE)
}

pub(crate) fn array_destroy(call: &Call, handle: CUarray) -> Served {
    current_alive()?;
    let object = arrays().get(handle.0).ok_or_else(|| call.bad_handle())?;
    if object.is_level {
        // A level cannot be destroyed alone: it is destroyed together with its mipmapped array.
        return Err(CuResult::INVALID_HANDLE);
    }
    object.array.wait();
    match arrays().remove(handle.0) {
        Some(_) => Ok(()),
        None => Err(CuResult::INVALID_HANDLE),
    }
}

pub(crate) fn mipmapped_array_create(
    _: &Call,
    out: Out<CUmipmappedArray>,
    desc: In<CUDA_ARRAY3D_DESCRIPTOR>,
    levels: c_uint,
) -> Served {
    if levels == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let array = current()?.create_mipmapped_array(&descriptor(&desc.0), levels)?;
    let object = Arc::new(MipmappedObject::new(array));
    let handle = mipmapped_arrays().insert(object);
    out.set(CUmipmappedArray(handle.ok_or(CuResult::OUT_OF_MEMORY)?));
    Ok(())
}

pub(crate) fn mipmapped_array_get_level(
    _: &Call,
    out: Out<CUarray>,
    array: Arc<MipmappedObject>,
    level: c_uint,
) -> Served {
    current()?;
    array.array.check()?;
    out.set(array.level(level)?);
    Ok(())
}

pub(crate) fn mipmapped_array_destroy(call: &Call, handle: CUmipmappedArray) -> Served {
    current_alive()?;
    let found = mipmapped_arrays().get(handle.0);
    let object = found.ok_or_else(|| call.bad_handle())?;
    object.array.wait();
    match mipmapped_arrays().remove(handle.0) {
        Some(object) => {
            object.forget_levels();
            Ok(())
        }
        None => Err(CuResult::INVALID_HANDLE),
    }
}
