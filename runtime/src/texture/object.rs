//! Texture and surface objects.

use std::ops::Range;
use std::sync::Arc;

use margay_ops::texture::{Filter, Format, Image, Layout, Level, Sampler};

use super::array::{Array, MipmappedArray, array_flags};
use super::format::{format_of, view_format_of};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::pointer::PointerKind;
use crate::texture_table::{Bound, Texels};

/// IDs of the attributes `CU_DEVICE_ATTRIBUTE_*` that limit textures in device memory.
const TEXTURE_ALIGNMENT: i32 = 14;
const PITCH_ALIGNMENT: i32 = 51;
const LINEAR_WIDTH: i32 = 69;
const PITCH_WIDTH: i32 = 70;
const PITCH_HEIGHT: i32 = 71;
const PITCH_PITCH: i32 = 72;

/// The memory that contains the texels of a texture (`CUDA_RESOURCE_DESC`).
///
/// ```
/// use margay::texture::Resource;
///
/// let rt = margay::Runtime::new()?;
/// let texels = rt.upload(&[0.0f32, 1.0])?;
/// let address = texels.ptr().address();
/// let resource = Resource::Linear { address, format: 0x20, channels: 1, bytes: 8 };
/// assert!(matches!(resource, Resource::Linear { bytes: 8, .. }));
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone)]
pub enum Resource {
    /// An array.
    Array(Array),
    /// All levels of a mipmapped array.
    Mipmapped(MipmappedArray),
    /// A single row of texels in device memory, without an array.
    Linear {
        /// Address of the first texel.
        address: u64,
        /// Format of the components (`CUarray_format`).
        format: u32,
        /// Number of components of a texel.
        channels: u32,
        /// Size in bytes of all texels.
        bytes: u64,
    },
    /// Several rows of texels in device memory.
    Pitch {
        /// Address of the first texel.
        address: u64,
        /// Format of the components (`CUarray_format`).
        format: u32,
        /// Number of components of a texel.
        channels: u32,
        /// Number of texels in a row.
        width: u64,
        /// Number of rows.
        height: u64,
        /// Distance in bytes from one row to the next.
        pitch: u64,
    },
}

/// A view of an array: it selects mipmap levels and layers, and can give the texels another format
/// (`CUDA_RESOURCE_VIEW_DESC`).
///
/// ```
/// use margay::texture::View;
///
/// // The first level of an array as it is.
/// let view = View { format: 0, size: [64, 32, 0], levels: [0, 0], layers: [0, 0] };
/// assert_eq!(view.levels, [0, 0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Format of the view (`CUresourceViewFormat`). The value 0 stands for the format of the array.
    pub format: u32,
    /// Width, height and depth of the first mipmap level of the view.
    pub size: [u64; 3],
    /// Indices of the first and the last mipmap level of the view.
    pub levels: [u32; 2],
    /// Indices of the first and the last layer of the view.
    pub layers: [u32; 2],
}

fn known_format(number: u32, channels: u32) -> Result<Format> {
    format_of(number, channels)
        .ok_or_else(|| Error::invalid(format!("texel format {number:#x} with {channels} channels")))
}

impl Resource {
    /// Returns the texels.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if a texture cannot use the resource.
    pub(super) fn texels(&self, context: &Context) -> Result<Arc<Texels>> {
        match *self {
            Resource::Array(ref array) => {
                array.check()?;
                Ok(Arc::clone(array.texels()))
            }
            Resource::Mipmapped(ref array) => {
                array.check()?;
                Ok(Arc::clone(array.texels()))
            }
            Resource::Linear {
                address,
                format,
                channels,
                bytes,
            } => {
                let texel = known_format(format, channels)?;
                let width = bytes / texel.bytes() as u64;
                let limits = [(width, LINEAR_WIDTH)];
                aligned(context, address, TEXTURE_ALIGNMENT)?;
                let registered = buffer(context, (address, bytes), &limits)?;
                let size = (width, 1, bytes);
                let place = (address, registered);
                texels_at(place, Layout::Linear, (texel, format), size)
            }
            Resource::Pitch {
                address,
                format,
                channels,
                width,
                height,
                pitch,
            } => {
                let texel = known_format(format, channels)?;
                aligned(context, address, TEXTURE_ALIGNMENT)?;
                aligned(context, pitch, PITCH_ALIGNMENT)?;
                let row = width.checked_mul(texel.bytes() as u64);
                let row = row.filter(|&row| row <= pitch && height > 0);
                let span = pitch.checked_mul(height.saturating_sub(1));
                let span = row.zip(span).and_then(|(row, rows)| row.checked_add(rows));
                let span = span.ok_or_else(|| Error::invalid("the rows overlap"))?;
                let limits = [
                    (width, PITCH_WIDTH),
                    (height, PITCH_HEIGHT),
                    (pitch, PITCH_PITCH),
                ];
                let registered = buffer(context, (address, span), &limits)?;
                let size = (width, height, pitch);
                let place = (address, registered);
                texels_at(place, Layout::Pitch, (texel, format), size)
            }
        }
    }
}

fn aligned(context: &Context, number: u64, attribute: i32) -> Result<()> {
    let alignment = context.device().attribute(attribute).unwrap_or(1);
    if !number.is_multiple_of(alignment as u64) {
        return Err(Error::invalid(format!(
            "{number:#x} is not aligned to {alignment}"
        )));
    }
    Ok(())
}

/// Returns an error if a single allocation does not contain all bytes of `range`, or if one of
/// `sizes` is 0 or larger than the value of the device attribute that is given with it. If the
/// texels are in registered host memory, returns their address range, otherwise `None`.
fn buffer(
    context: &Context,
    range: (u64, u64),
    sizes: &[(u64, i32)],
) -> Result<Option<Range<u64>>> {
    let (address, bytes) = range;
    for &(size, attribute) in sizes {
        let limit = context.device().attribute(attribute).unwrap_or(0) as u64;
        if size == 0 || size > limit {
            return Err(Error::invalid(format!("{size} is not from 1 to {limit}")));
        }
    }
    let found = context.machine().memory.lookup(address);
    let found = found.filter(|found| {
        let before = address - found.base;
        before <= found.size && bytes <= found.size - before
    });
    let found = found.ok_or_else(|| {
        Error::invalid(format!(
            "{bytes} bytes at {address:#x} are not inside an allocation"
        ))
    })?;
    let is_registered = found.kind == PointerKind::Registered;
    Ok(is_registered.then_some(address..address + bytes))
}

fn texels_at(
    (address, registered): (u64, Option<Range<u64>>),
    layout: Layout,
    (format, format_number): (Format, u32),
    (width, height, pitch): (u64, u64, u64),
) -> Result<Arc<Texels>> {
    let narrow = |size: u64| u32::try_from(size).map_err(|_| Error::invalid("too many texels"));
    let level = Level {
        address,
        width: narrow(width)?,
        height: narrow(height)?,
        depth: 1,
        pitch,
        slice: 0,
    };
    let image = Image {
        layout,
        format,
        dimensions: if layout == Layout::Linear { 1 } else { 2 },
        layered: false,
        cube: false,
        levels: vec![level],
        format_number,
    };
    Ok(Arc::new(Texels {
        image,
        _storage: None,
        registered,
    }))
}

impl View {
    /// Returns the levels and layers of an array that this view selects, in the view's format.
    fn of(&self, texels: &Arc<Texels>) -> Result<Arc<Texels>> {
        let image = &texels.image;
        let wrong = |what: &str| Error::invalid(format!("resource view: {what}"));
        let (format, format_number) = match self.format {
            0 => (image.format, image.format_number),
            0x19..=0x22 => {
                return Err(Error::Unsupported {
                    what: "block-compressed resource views".into(),
                });
            }
            number => view_format_of(number).ok_or_else(|| wrong("no such format"))?,
        };
        if format.bytes() != image.format.bytes() {
            return Err(wrong("texels of a different size"));
        }
        let [first, last] = self.levels.map(|level| level as usize);
        let levels = image.levels.get(first..=last.max(first));
        let levels = levels
            .filter(|_| first <= last)
            .ok_or_else(|| wrong("no such levels"))?;
        let base = levels.first().ok_or_else(|| wrong("no such levels"))?;
        let whole = image.levels.first().ok_or_else(|| wrong("no texels"))?;
        let [width, height, depth] = self.size;
        let volume = image.dimensions == 3;
        let fits = |size: u64, level: u32, first: u32| {
            size == 0 || size == u64::from(level) || size == u64::from(first)
        };
        if !fits(width, base.width, whole.width)
            || !fits(height, base.height, whole.height)
            || volume && !fits(depth, base.depth, whole.depth)
        {
            return Err(wrong("a size different from the array's"));
        }
        let [low, high] = self.layers;
        let layered = image.layered || image.cube;
        let count = if layered { base.depth } else { 1 };
        if low > high || high >= count {
            return Err(wrong("no such layers"));
        }
        let cut = |level: &Level| match layered {
            true => Level {
                address: level.address + u64::from(low) * level.slice,
                depth: high - low + 1,
                ..*level
            },
            false => *level,
        };
        if image.cube && (high - low + 1) % 6 != 0 {
            return Err(wrong("not all faces of a cube"));
        }
        let image = Image {
            format,
            format_number,
            levels: levels.iter().map(cut).collect(),
            ..image.clone()
        };
        Ok(Arc::new(Texels {
            image,
            _storage: texels._storage.clone(),
            registered: texels.registered.clone(),
        }))
    }
}

/// A texture object. Clones refer to the same object.
///
/// ```
/// use margay::texture::{Resource, Sampler};
///
/// let rt = margay::Runtime::new()?;
/// let texels = rt.upload(&[0.0f32, 1.0, 2.0, 3.0])?;
/// let address = texels.ptr().address();
/// let resource = Resource::Linear { address, format: 0x20, channels: 1, bytes: 16 };
/// let texture = rt.context()?.create_texture(&resource, Sampler::default(), None)?;
/// assert_ne!(texture.handle(), 0);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TextureObject {
    context: Context,
    handle: u64,
}

/// A surface object. Clones refer to the same object.
///
/// ```
/// use margay::texture::{ArrayDescriptor, array_flags};
///
/// let rt = margay::Runtime::new()?;
/// let flags = array_flags::SURFACE_LDST;
/// let descriptor = ArrayDescriptor { width: 8, height: 8, depth: 0, format: 0x20, channels: 1, flags };
/// let context = rt.context()?;
/// let surface = context.create_surface(&context.create_array(&descriptor)?)?;
/// assert_ne!(surface.handle(), 0);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SurfaceObject {
    context: Context,
    handle: u64,
}

impl Context {
    /// Creates a texture object.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for an invalid resource or view; [`Error::Unsupported`] for formats that Margay does not
    /// support.
    pub fn create_texture(
        &self,
        resource: &Resource,
        sampler: Sampler,
        view: Option<&View>,
    ) -> Result<TextureObject> {
        self.status()?;
        let texels = resource.texels(self)?;
        let is_array = matches!(resource, Resource::Array(_) | Resource::Mipmapped(_));
        let texels = match view {
            Some(_) if !is_array => return Err(Error::invalid("a view of a buffer")),
            Some(view) => view.of(&texels)?,
            None => texels,
        };
        let bound = Bound::texture(Some(texels), sampler_for(sampler));
        let handle = self.machine().textures.insert(bound, self.id());
        Ok(TextureObject {
            context: self.clone(),
            handle,
        })
    }

    /// Creates a surface object.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for an array that was not created for surfaces.
    pub fn create_surface(&self, array: &Array) -> Result<SurfaceObject> {
        self.status()?;
        let texels = surface_texels(array)?;
        let bound = Bound::Surface(Some(texels));
        let handle = self.machine().textures.insert(bound, self.id());
        Ok(SurfaceObject {
            context: self.clone(),
            handle,
        })
    }
}

/// Returns the texels of an array if surfaces can be created from the array; otherwise returns an error.
pub(super) fn surface_texels(array: &Array) -> Result<Arc<Texels>> {
    array.check()?;
    if array.descriptor().flags & array_flags::SURFACE_LDST == 0 {
        return Err(Error::invalid("an array without CUDA_ARRAY3D_SURFACE_LDST"));
    }
    Ok(Arc::clone(array.texels()))
}

/// Returns `sampler` with a permitted maximum anisotropy: a value outside the permitted range (1 to 16, and
/// only 1 without linear filtering) is replaced by the nearest value in the range.
pub(super) fn sampler_for(sampler: Sampler) -> Sampler {
    let max_anisotropy = match sampler.filter {
        Filter::Point => 1,
        Filter::Linear => sampler.max_anisotropy.clamp(1, 16),
    };
    Sampler {
        max_anisotropy,
        ..sampler
    }
}

impl TextureObject {
    /// Returns the context that owns the object.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the handle with which kernels access the object.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// Destroys the object. Launches that were submitted before this call can still use the object.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the object is already destroyed.
    pub fn destroy(&self) -> Result<()> {
        destroy(&self.context, self.handle)
    }
}

impl SurfaceObject {
    /// Returns the context that owns the object.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the handle with which kernels access the object.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// Destroys the object. Launches that were submitted before this call can still use the object.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the object is already destroyed.
    pub fn destroy(&self) -> Result<()> {
        destroy(&self.context, self.handle)
    }
}

fn destroy(context: &Context, handle: u64) -> Result<()> {
    match context.machine().textures.remove(handle) {
        true => Ok(()),
        false => Err(Error::invalid(format!("{handle:#x} is destroyed already"))),
    }
}
