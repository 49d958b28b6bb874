//! Implements the entry points for texture objects and surface objects.

use std::ffi::c_uint;

use margay::texture::{AddressMode, Filter, ReadMode, Resource, Sampler, View};

use crate::checking;
use crate::convert::{FromAbi, In, Out};
use crate::guard::Call;
use crate::handles::{
    SurfObject, TexObject, arrays, current, mipmapped_arrays, surf_objects, tex_objects,
};
use crate::result::{CuResult, Served};
use crate::types::*;

/// Values of `CUresourcetype`.
const ARRAY: c_uint = 0;
const MIPMAPPED: c_uint = 1;
const LINEAR: c_uint = 2;
const PITCH: c_uint = 3;

/// `CU_TRSF_*` flags.
const READ_AS_INTEGER: c_uint = 0x01;
const NORMALIZED: c_uint = 0x02;
const SRGB: c_uint = 0x10;
const NO_TRILINEAR_OPTIMIZATION: c_uint = 0x20;
const SEAMLESS: c_uint = 0x40;
pub(super) const ALL_FLAGS: c_uint =
    READ_AS_INTEGER | NORMALIZED | SRGB | NO_TRILINEAR_OPTIMIZATION | SEAMLESS;

/// Converts a `CUaddress_mode`.
pub(super) fn address_mode(number: CUaddress_mode) -> Result<AddressMode, CuResult> {
    Ok(match number {
        0 => AddressMode::Wrap,
        1 => AddressMode::Clamp,
        2 => AddressMode::Mirror,
        3 => AddressMode::Border,
        _ => return Err(CuResult::INVALID_VALUE),
    })
}

/// Converts a `CUfilter_mode`.
pub(super) fn filter(number: CUfilter_mode) -> Result<Filter, CuResult> {
    match number {
        0 => Ok(Filter::Point),
        1 => Ok(Filter::Linear),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

/// Converts a texture descriptor to a sampler.
pub(super) fn sampler_of(desc: &CUDA_TEXTURE_DESC) -> Result<Sampler, CuResult> {
    if desc.flags & !ALL_FLAGS != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let has = |flag| desc.flags & flag != 0;
    let [x, y, z] = desc.address_mode.map(address_mode);
    Ok(Sampler {
        address: [x?, y?, z?],
        filter: filter(desc.filter_mode)?,
        mipmap_filter: filter(desc.mipmap_filter_mode)?,
        read: match has(READ_AS_INTEGER) {
            true => ReadMode::Element,
            false => ReadMode::Normalized,
        },
        normalized: has(NORMALIZED),
        force_unnormalized: false,
        srgb: has(SRGB),
        seamless: has(SEAMLESS),
        max_anisotropy: desc.max_anisotropy,
        level_bias: desc.mipmap_level_bias,
        min_level: desc.min_mipmap_level_clamp,
        max_level: desc.max_mipmap_level_clamp,
        border: desc.border_color.map(f32::to_bits),
    })
}

fn resource_of(desc: &CUDA_RESOURCE_DESC) -> Result<Resource, CuResult> {
    if desc.flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let [first, format, third, fourth, fifth, ..] = desc.res;
    let (format, channels) = (format as u32, (format >> 32) as u32);
    Ok(match desc.res_type {
        ARRAY => {
            let found = arrays().get(first as usize);
            Resource::Array(found.ok_or(CuResult::INVALID_VALUE)?.array.clone())
        }
        MIPMAPPED => {
            let found = mipmapped_arrays().get(first as usize);
            Resource::Mipmapped(found.ok_or(CuResult::INVALID_VALUE)?.array.clone())
        }
        LINEAR => Resource::Linear {
            address: first,
            format,
            channels,
            bytes: third,
        },
        PITCH => Resource::Pitch {
            address: first,
            format,
            channels,
            width: third,
            height: fourth,
            pitch: fifth,
        },
        _ => return Err(CuResult::INVALID_VALUE),
    })
}

fn view_of(desc: &CUDA_RESOURCE_VIEW_DESC) -> View {
    View {
        format: desc.format,
        size: [desc.width, desc.height, desc.depth].map(|size| size as u64),
        levels: [desc.first_mipmap_level, desc.last_mipmap_level],
        layers: [desc.first_layer, desc.last_layer],
    }
}

pub(crate) fn tex_object_create(
    call: &Call,
    out: Out<u64>,
    resource: In<CUDA_RESOURCE_DESC>,
    texture: In<CUDA_TEXTURE_DESC>,
    view: *const CUDA_RESOURCE_VIEW_DESC,
) -> Served {
    let context = current()?;
    let view = match view.is_null() {
        true => None,
        // SAFETY: the pointer is not null; the caller of the entry point guarantees that it is valid.
        false => Some(unsafe { In::from_abi(view, call) }?.0),
    };
    let sampler = sampler_of(&texture.0)?;
    let of_view = view.as_ref().map(view_of);
    let object = context.create_texture(&resource_of(&resource.0)?, sampler, of_view.as_ref())?;
    let handle = object.handle();
    let known = TexObject {
        object,
        resource: resource.0,
        texture: texture.0,
        view,
        call: checking::creation(),
    };
    tex_objects().write().insert(handle, known);
    out.set(handle);
    Ok(())
}

pub(crate) fn tex_object_destroy(_: &Call, handle: u64) -> Served {
    current()?;
    let known = tex_objects().write().remove(&handle);
    Ok(known.ok_or(CuResult::INVALID_VALUE)?.object.destroy()?)
}

fn tex_object(handle: u64) -> Result<TexObject, CuResult> {
    current()?;
    let known = tex_objects().read().get(&handle).cloned();
    known.ok_or(CuResult::INVALID_VALUE)
}

pub(crate) fn tex_object_get_resource_desc(
    _: &Call,
    out: Out<CUDA_RESOURCE_DESC>,
    handle: u64,
) -> Served {
    out.set(tex_object(handle)?.resource);
    Ok(())
}

pub(crate) fn tex_object_get_texture_desc(
    _: &Call,
    out: Out<CUDA_TEXTURE_DESC>,
    handle: u64,
) -> Served {
    out.set(tex_object(handle)?.texture);
    Ok(())
}

pub(crate) fn tex_object_get_resource_view_desc(
    _: &Call,
    out: Out<CUDA_RESOURCE_VIEW_DESC>,
    handle: u64,
) -> Served {
    out.set(tex_object(handle)?.view.ok_or(CuResult::INVALID_VALUE)?);
    Ok(())
}

pub(crate) fn surf_object_create(
    _: &Call,
    out: Out<u64>,
    resource: In<CUDA_RESOURCE_DESC>,
) -> Served {
    let context = current()?;
    let Resource::Array(array) = resource_of(&resource.0)? else {
        return Err(CuResult::INVALID_VALUE);
    };
    let object = context.create_surface(&array)?;
    let handle = object.handle();
    let known = SurfObject {
        object,
        resource: resource.0,
        call: checking::creation(),
    };
    surf_objects().write().insert(handle, known);
    out.set(handle);
    Ok(())
}

pub(crate) fn surf_object_destroy(_: &Call, handle: u64) -> Served {
    current()?;
    let known = surf_objects().write().remove(&handle);
    Ok(known.ok_or(CuResult::INVALID_VALUE)?.object.destroy()?)
}

pub(crate) fn surf_object_get_resource_desc(
    _: &Call,
    out: Out<CUDA_RESOURCE_DESC>,
    handle: u64,
) -> Served {
    current()?;
    let known = surf_objects().read().get(&handle).cloned();
    out.set(known.ok_or(CuResult::INVALID_VALUE)?.resource);
    Ok(())
}
