//! Implements the entry points for texture references and surface references.
//!
//! Queries return the settings of a reference as the program has set them. The runtime (crate
//! `margay`) receives the settings in another form: as a resource and a sampler.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use margay::texture::{Filter, Resource, Sampler, SurfaceReference, TextureReference};
use margay::{Context, Device};

use super::texture::{ALL_FLAGS, address_mode, filter, sampler_of};
use crate::convert::{In, OptOut, Out, Text};
use crate::guard::Call;
use crate::handles::{
    ArrayObject, Binding, Function, MipmappedObject, ModuleObject, SurfRefObject, TexRefObject,
    TexRefState, arrays, current, mipmapped_arrays, surfrefs, texrefs,
};
use crate::result::{CuResult, Served};
use crate::types::*;

/// `CU_TRSA_OVERRIDE_FORMAT`.
const OVERRIDE_FORMAT: c_uint = 1;
/// `CU_PARAM_TR_DEFAULT`.
const DEFAULT_UNIT: c_int = -1;
/// `CU_AD_FORMAT_FLOAT`.
const FLOAT: CUarray_format = 0x20;
/// `CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT`.
const ALIGNMENT: c_int = 14;

fn initial(sampler: &Sampler) -> TexRefState {
    use margay::texture::AddressMode as A;
    let mode = |mode: A| match mode {
        A::Wrap => 0,
        A::Clamp => 1,
        A::Mirror => 2,
        A::Border => 3,
    };
    TexRefState {
        binding: Binding::Nothing,
        format: FLOAT,
        channels: 1,
        desc: CUDA_TEXTURE_DESC {
            address_mode: sampler.address.map(mode),
            filter_mode: (sampler.filter == Filter::Linear).into(),
            flags: if sampler.normalized { 2 } else { 0 },
            max_anisotropy: 1,
            mipmap_filter_mode: 0,
            mipmap_level_bias: 0.0,
            min_mipmap_level_clamp: 0.0,
            max_mipmap_level_clamp: 0.0,
            border_color: [0.0; 4],
            reserved: [0; 12],
        },
    }
}

fn enter(reference: TextureReference, module: Option<u64>) -> Result<CUtexref, CuResult> {
    let sampler = reference.sampler();
    let object = TexRefObject {
        module,
        state: initial(&sampler).into(),
        reference,
    };
    let object = Arc::new(object);
    object.update(|_| Ok(()))?;
    let handle = texrefs().insert(object).ok_or(CuResult::OUT_OF_MEMORY)?;
    Ok(CUtexref(handle))
}

impl TexRefObject {
    /// Changes the settings of the reference with `change`, and passes the new sampler to the
    /// runtime. If `change` binds a new resource, `change` must pass the resource to the runtime,
    /// because this function does not.
    fn update(&self, change: impl FnOnce(&mut TexRefState) -> Served) -> Served {
        self.reference.check()?;
        let mut state = self.state.lock();
        let mut new = *state;
        change(&mut new)?;
        self.reference.set_sampler(sampler_of(&new.desc)?);
        *state = new;
        Ok(())
    }

    fn set(&self, change: impl FnOnce(&mut CUDA_TEXTURE_DESC)) -> Served {
        current()?;
        self.update(|state| {
            change(&mut state.desc);
            Ok(())
        })
    }

    /// Returns the settings of the reference for a query, or an error if no context is current.
    fn told(&self) -> Result<TexRefState, CuResult> {
        current()?;
        Ok(*self.state.lock())
    }
}

pub(crate) fn module_get_tex_ref(
    _: &Call,
    out: Out<CUtexref>,
    module: Arc<ModuleObject>,
    name: Text,
) -> Served {
    let reference = module.module.texture(&name.0)?;
    let handle = reference.handle();
    let known = texrefs().find(|object| object.reference.handle() == handle);
    out.set(match known {
        Some(known) => CUtexref(known),
        None => enter(reference, Some(module.module.id()))?,
    });
    Ok(())
}

pub(crate) fn module_get_surf_ref(
    _: &Call,
    out: Out<CUsurfref>,
    module: Arc<ModuleObject>,
    name: Text,
) -> Served {
    let reference: SurfaceReference = module.module.surface(&name.0)?;
    let handle = reference.handle();
    let known = surfrefs().find(|object| object.reference.handle() == handle);
    let found = known.or_else(|| {
        surfrefs().insert(Arc::new(SurfRefObject {
            reference,
            module: module.module.id(),
            array: CUarray(0).into(),
        }))
    });
    out.set(CUsurfref(found.ok_or(CuResult::OUT_OF_MEMORY)?));
    Ok(())
}

pub(crate) fn param_set_tex_ref(
    _: &Call,
    _function: Function,
    unit: c_int,
    _reference: Arc<TexRefObject>,
) -> Served {
    // Kernels refer to texture references by name, so there is nothing to set.
    match unit {
        DEFAULT_UNIT => Ok(()),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

pub(crate) fn tex_ref_create(_: &Call, out: Out<CUtexref>) -> Served {
    let context = current()?;
    context.status()?;
    let reference = TextureReference::new(&context, Sampler::default());
    out.set(enter(reference, None)?);
    Ok(())
}

pub(crate) fn tex_ref_destroy(_: &Call, handle: CUtexref) -> Served {
    current()?;
    let object = texrefs().get(handle.0).ok_or(CuResult::INVALID_VALUE)?;
    if object.module.is_some() {
        // The program cannot destroy a module's reference: it is destroyed together with its module.
        return Err(CuResult::INVALID_VALUE);
    }
    texrefs().remove(handle.0).ok_or(CuResult::INVALID_VALUE)?;
    object.reference.destroy();
    Ok(())
}

pub(crate) fn tex_ref_set_array(
    _: &Call,
    reference: Arc<TexRefObject>,
    array: CUarray,
    flags: c_uint,
) -> Served {
    current()?;
    let object: Option<Arc<ArrayObject>> = arrays().get(array.0);
    let object = object.ok_or(CuResult::INVALID_VALUE)?;
    if flags != OVERRIDE_FORMAT {
        return Err(CuResult::INVALID_VALUE);
    }
    reference.update(|state| {
        let descriptor = object.array.descriptor();
        reference
            .reference
            .bind(&Resource::Array(object.array.clone()))?;
        (state.format, state.channels) = (descriptor.format, descriptor.channels);
        state.binding = Binding::Array(array);
        Ok(())
    })
}

pub(crate) fn tex_ref_set_mipmapped_array(
    _: &Call,
    reference: Arc<TexRefObject>,
    array: CUmipmappedArray,
    flags: c_uint,
) -> Served {
    current()?;
    let object: Option<Arc<MipmappedObject>> = mipmapped_arrays().get(array.0);
    let object = object.ok_or(CuResult::INVALID_VALUE)?;
    if flags != OVERRIDE_FORMAT {
        return Err(CuResult::INVALID_VALUE);
    }
    reference.update(|state| {
        let descriptor = object.array.descriptor();
        let resource = Resource::Mipmapped(object.array.clone());
        reference.reference.bind(&resource)?;
        (state.format, state.channels) = (descriptor.format, descriptor.channels);
        state.binding = Binding::Mipmapped(array);
        Ok(())
    })
}

fn alignment(context: &Context) -> u64 {
    let device: Device = context.device();
    device.attribute(ALIGNMENT).unwrap_or(1).max(1) as u64
}

pub(crate) fn tex_ref_set_address(
    _: &Call,
    offset: OptOut<usize>,
    reference: Arc<TexRefObject>,
    address: u64,
    bytes: usize,
) -> Served {
    let context = current()?;
    // Textures begin at aligned addresses. The caller adds the remaining offset to its coordinates.
    let rest = address % alignment(&context);
    if rest != 0 && !offset.is_wanted() {
        return Err(CuResult::INVALID_VALUE);
    }
    let (base, all) = (address - rest, (bytes as u64).checked_add(rest));
    let all = all.ok_or(CuResult::INVALID_VALUE)?;
    reference.update(|state| {
        reference.reference.bind(&Resource::Linear {
            address: base,
            format: state.format,
            channels: state.channels,
            bytes: all,
        })?;
        state.binding = Binding::Linear {
            asked: address,
            base,
            bytes: all,
        };
        Ok(())
    })?;
    offset.set(rest as usize);
    Ok(())
}

pub(crate) fn tex_ref_set_address_2d(
    _: &Call,
    reference: Arc<TexRefObject>,
    desc: In<CUDA_ARRAY_DESCRIPTOR>,
    address: u64,
    pitch: usize,
) -> Served {
    current()?;
    let desc = desc.0;
    reference.update(|state| {
        reference.reference.bind(&Resource::Pitch {
            address,
            format: desc.format,
            channels: desc.num_channels,
            width: desc.width as u64,
            height: desc.height as u64,
            pitch: pitch as u64,
        })?;
        (state.format, state.channels) = (desc.format, desc.num_channels);
        state.binding = Binding::Rows(address);
        Ok(())
    })
}

pub(crate) fn tex_ref_set_format(
    _: &Call,
    reference: Arc<TexRefObject>,
    format: CUarray_format,
    channels: c_int,
) -> Served {
    current()?;
    let channels = u32::try_from(channels).map_err(|_| CuResult::INVALID_VALUE)?;
    if margay::texture::format_of(format, channels).is_none() {
        return Err(CuResult::INVALID_VALUE);
    }
    reference.update(|state| {
        (state.format, state.channels) = (format, channels);
        if let Binding::Linear { base, bytes, .. } = state.binding {
            reference.reference.bind(&Resource::Linear {
                address: base,
                format,
                channels,
                bytes,
            })?;
        }
        Ok(())
    })
}

pub(crate) fn tex_ref_set_address_mode(
    _: &Call,
    reference: Arc<TexRefObject>,
    dimension: c_int,
    mode: CUaddress_mode,
) -> Served {
    address_mode(mode)?;
    if !(0..3).contains(&dimension) {
        return Err(CuResult::INVALID_VALUE);
    }
    reference.set(|desc| desc.address_mode[dimension as usize] = mode)
}

pub(crate) fn tex_ref_set_filter_mode(
    _: &Call,
    reference: Arc<TexRefObject>,
    mode: CUfilter_mode,
) -> Served {
    filter(mode)?;
    reference.set(|desc| desc.filter_mode = mode)
}

pub(crate) fn tex_ref_set_mipmap_filter_mode(
    _: &Call,
    reference: Arc<TexRefObject>,
    mode: CUfilter_mode,
) -> Served {
    filter(mode)?;
    reference.set(|desc| desc.mipmap_filter_mode = mode)
}

pub(crate) fn tex_ref_set_mipmap_level_bias(
    _: &Call,
    reference: Arc<TexRefObject>,
    bias: f32,
) -> Served {
    reference.set(|desc| desc.mipmap_level_bias = bias)
}

pub(crate) fn tex_ref_set_mipmap_level_clamp(
    _: &Call,
    reference: Arc<TexRefObject>,
    least: f32,
    greatest: f32,
) -> Served {
    reference.set(|desc| {
        desc.min_mipmap_level_clamp = least;
        desc.max_mipmap_level_clamp = greatest;
    })
}

pub(crate) fn tex_ref_set_max_anisotropy(
    _: &Call,
    reference: Arc<TexRefObject>,
    most: c_uint,
) -> Served {
    reference.set(|desc| desc.max_anisotropy = most)
}

pub(crate) fn tex_ref_set_border_color(
    _: &Call,
    reference: Arc<TexRefObject>,
    color: *mut f32,
) -> Served {
    if color.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the pointer is not null; the caller of the entry point guarantees four numbers.
    let color = unsafe { color.cast::<[f32; 4]>().read_unaligned() };
    reference.set(|desc| desc.border_color = color)
}

pub(crate) fn tex_ref_set_flags(_: &Call, reference: Arc<TexRefObject>, flags: c_uint) -> Served {
    if flags & !ALL_FLAGS != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    reference.set(|desc| desc.flags = flags)
}

pub(crate) fn tex_ref_get_address(_: &Call, out: Out<u64>, reference: Arc<TexRefObject>) -> Served {
    match reference.told()?.binding {
        Binding::Linear { asked, .. } => out.set(asked),
        Binding::Rows(address) => out.set(address),
        _ => return Err(CuResult::INVALID_VALUE),
    }
    Ok(())
}

pub(crate) fn tex_ref_get_array(
    _: &Call,
    out: Out<CUarray>,
    reference: Arc<TexRefObject>,
) -> Served {
    match reference.told()?.binding {
        Binding::Array(array) => out.set(array),
        _ => return Err(CuResult::INVALID_VALUE),
    }
    Ok(())
}

pub(crate) fn tex_ref_get_mipmapped_array(
    _: &Call,
    out: Out<CUmipmappedArray>,
    reference: Arc<TexRefObject>,
) -> Served {
    match reference.told()?.binding {
        Binding::Mipmapped(array) => out.set(array),
        _ => return Err(CuResult::INVALID_VALUE),
    }
    Ok(())
}

pub(crate) fn tex_ref_get_address_mode(
    _: &Call,
    out: Out<CUaddress_mode>,
    reference: Arc<TexRefObject>,
    dimension: c_int,
) -> Served {
    let modes = reference.told()?.desc.address_mode;
    let index = usize::try_from(dimension).map_err(|_| CuResult::INVALID_VALUE)?;
    out.set(*modes.get(index).ok_or(CuResult::INVALID_VALUE)?);
    Ok(())
}

pub(crate) fn tex_ref_get_filter_mode(
    _: &Call,
    out: Out<CUfilter_mode>,
    reference: Arc<TexRefObject>,
) -> Served {
    out.set(reference.told()?.desc.filter_mode);
    Ok(())
}

pub(crate) fn tex_ref_get_format(
    _: &Call,
    format: OptOut<CUarray_format>,
    channels: OptOut<c_int>,
    reference: Arc<TexRefObject>,
) -> Served {
    if !format.is_wanted() && !channels.is_wanted() {
        return Err(CuResult::INVALID_VALUE);
    }
    let told = reference.told()?;
    format.set(told.format);
    channels.set(told.channels as c_int);
    Ok(())
}

pub(crate) fn tex_ref_get_mipmap_filter_mode(
    _: &Call,
    out: Out<CUfilter_mode>,
    reference: Arc<TexRefObject>,
) -> Served {
    out.set(reference.told()?.desc.mipmap_filter_mode);
    Ok(())
}

pub(crate) fn tex_ref_get_mipmap_level_bias(
    _: &Call,
    out: Out<f32>,
    reference: Arc<TexRefObject>,
) -> Served {
    out.set(reference.told()?.desc.mipmap_level_bias);
    Ok(())
}

pub(crate) fn tex_ref_get_mipmap_level_clamp(
    _: &Call,
    least: Out<f32>,
    greatest: Out<f32>,
    reference: Arc<TexRefObject>,
) -> Served {
    let told = reference.told()?.desc;
    least.set(told.min_mipmap_level_clamp);
    greatest.set(told.max_mipmap_level_clamp);
    Ok(())
}

pub(crate) fn tex_ref_get_max_anisotropy(
    _: &Call,
    out: Out<c_int>,
    reference: Arc<TexRefObject>,
) -> Served {
    out.set(reference.told()?.desc.max_anisotropy as c_int);
    Ok(())
}

pub(crate) fn tex_ref_get_border_color(
    _: &Call,
    out: *mut f32,
    reference: Arc<TexRefObject>,
) -> Served {
    if out.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    let color = reference.told()?.desc.border_color;
    // SAFETY: the pointer is not null; the caller of the entry point guarantees memory for four numbers.
    unsafe { out.cast::<[f32; 4]>().write_unaligned(color) };
    Ok(())
}

pub(crate) fn tex_ref_get_flags(
    _: &Call,
    out: Out<c_uint>,
    reference: Arc<TexRefObject>,
) -> Served {
    out.set(reference.told()?.desc.flags);
    Ok(())
}

pub(crate) fn surf_ref_set_array(
    _: &Call,
    reference: Arc<SurfRefObject>,
    array: CUarray,
    flags: c_uint,
) -> Served {
    current()?;
    let object: Option<Arc<ArrayObject>> = arrays().get(array.0);
    let object = object.ok_or(CuResult::INVALID_VALUE)?;
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    reference.reference.bind(&object.array)?;
    *reference.array.lock() = array;
    Ok(())
}

pub(crate) fn surf_ref_get_array(
    _: &Call,
    out: Out<CUarray>,
    reference: Arc<SurfRefObject>,
) -> Served {
    current()?;
    let array = *reference.array.lock();
    if array.0 == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    out.set(array);
    Ok(())
}
