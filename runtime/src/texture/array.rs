//! CUDA arrays and mipmapped arrays: device memory that contains texels.

use std::sync::{Arc, Weak};

use margay_ops::texture::{Format, Image, Layout, Level};

use super::format::format_of;
use super::limits::{self, Shape, Use};
use crate::context::{Context, Inner};
use crate::error::{Error, Result};
use crate::pointer::{DevicePtr, PointerKind};
use crate::process::next_id;
use crate::texture_table::Texels;

/// The flags of an array (`CUDA_ARRAY3D_*`).
pub mod array_flags {
    /// The third dimension of the array counts layers.
    pub const LAYERED: u32 = 0x01;
    /// The program can create surfaces from the array.
    pub const SURFACE_LDST: u32 = 0x02;
    /// The third dimension of the array counts faces of cubes; each cube has six faces.
    pub const CUBEMAP: u32 = 0x04;
    /// Kernels can access the array with the instruction `tld4`.
    pub const TEXTURE_GATHER: u32 = 0x08;
    /// The texels are depth values for comparisons (unsupported).
    pub const DEPTH_TEXTURE: u32 = 0x10;
    /// Graphics APIs can render to the array.
    pub const COLOR_ATTACHMENT: u32 = 0x20;
    /// Only parts of the array are backed by memory (unsupported).
    pub const SPARSE: u32 = 0x40;
    /// The memory of the array is mapped later (unsupported).
    pub const DEFERRED_MAPPING: u32 = 0x80;
    /// Video codecs use the array (unsupported).
    pub const VIDEO_ENCODE_DECODE: u32 = 0x100;
    /// All flags.
    pub const ALL: u32 = 0x1ff;
}

/// Alignment in bytes of the first texel of each mipmap level.
const ALIGNMENT: u64 = 512;

/// The properties of an array (`CUDA_ARRAY3D_DESCRIPTOR`).
///
/// ```
/// use margay::texture::ArrayDescriptor;
///
/// // 64 x 32 texels of one f32 (`CU_AD_FORMAT_FLOAT`).
/// let descriptor =
///     ArrayDescriptor { width: 64, height: 32, depth: 0, format: 0x20, channels: 1, flags: 0 };
/// let context = margay::Runtime::new()?.context()?;
/// assert_eq!(context.create_array(&descriptor)?.texel_bytes(), 4);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayDescriptor {
    /// Number of texels in a row.
    pub width: u64,
    /// Number of rows; 0 for an array with one dimension.
    pub height: u64,
    /// Number of slices (three-dimensional arrays), layers or cube faces; 0 for any other array.
    pub depth: u64,
    /// Format of the components (`CUarray_format`).
    pub format: u32,
    /// Number of components of a texel.
    pub channels: u32,
    /// Flags of [`array_flags`].
    pub flags: u32,
}

impl ArrayDescriptor {
    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    fn shape(&self) -> Result<Shape> {
        let layered = self.has(array_flags::LAYERED);
        let shape = match (self.height > 0, self.depth > 0) {
            _ if self.width == 0 => None,
            _ if self.has(array_flags::CUBEMAP) => {
                let faces = match layered {
                    true => self.depth > 0 && self.depth.is_multiple_of(6),
                    false => self.depth == 6,
                };
                let square = self.width == self.height;
                (faces && square).then_some(if layered { Shape::Cubes } else { Shape::Cube })
            }
            (false, true) if layered => Some(Shape::Lines),
            (true, true) if layered => Some(Shape::Planes),
            (_, false) if layered => None,
            (false, false) => Some(Shape::Line),
            (true, false) => Some(Shape::Plane),
            (true, true) => Some(Shape::Volume),
            (false, true) => None,
        };
        shape.ok_or_else(|| {
            let Self {
                width,
                height,
                depth,
                flags,
                ..
            } = self;
            Error::invalid(format!(
                "an array of {width} by {height} by {depth}, flags {flags:#x}"
            ))
        })
    }

    fn check(&self, context: &Context, mipmapped: bool) -> Result<(Format, Shape)> {
        if self.flags & !array_flags::ALL != 0 {
            return Err(Error::invalid(format!("array flags {:#x}", self.flags)));
        }
        for (flag, name) in [
            (array_flags::SPARSE, "sparse arrays"),
            (
                array_flags::DEFERRED_MAPPING,
                "arrays with deferred mapping",
            ),
            (array_flags::DEPTH_TEXTURE, "depth textures"),
            (array_flags::VIDEO_ENCODE_DECODE, "arrays for video codecs"),
        ] {
            if self.has(flag) {
                return Err(Error::Unsupported { what: name.into() });
            }
        }
        let format = format_of(self.format, self.channels).ok_or_else(|| {
            let (number, channels) = (self.format, self.channels);
            Error::invalid(format!("array format {number:#x} with {channels} channels"))
        })?;
        let shape = self.shape()?;
        let gather = self.has(array_flags::TEXTURE_GATHER);
        if gather
            && !matches!(
                shape,
                Shape::Plane | Shape::Planes | Shape::Cube | Shape::Cubes
            )
        {
            return Err(Error::invalid("gathering needs two dimensions"));
        }
        let used = Use {
            surface: self.has(array_flags::SURFACE_LDST),
            gather: gather && shape == Shape::Plane,
            mipmapped,
        };
        let size = [self.width, self.height, self.depth];
        if !limits::allows(&context.device(), shape, used, size) {
            return Err(Error::invalid(format!("an array of {size:?} is too large")));
        }
        Ok((format, shape))
    }

    /// Returns the width, height and depth of the mipmap level `number`.
    fn level(&self, shape: Shape, number: u32) -> [u64; 3] {
        let part = |size: u64| (size >> number.min(63)).max(1);
        let depth = match shape {
            Shape::Volume => part(self.depth),
            _ => self.depth.max(1),
        };
        [part(self.width), part(self.height), depth]
    }

    /// Returns the descriptor of the mipmap level `number`.
    fn of_level(&self, number: u32) -> ArrayDescriptor {
        let part = |size: u64| {
            if size == 0 {
                0
            } else {
                (size >> number.min(63)).max(1)
            }
        };
        let layers = self.flags & (array_flags::LAYERED | array_flags::CUBEMAP) != 0;
        ArrayDescriptor {
            width: part(self.width),
            height: part(self.height),
            depth: if layers { self.depth } else { part(self.depth) },
            ..*self
        }
    }
}

/// Device memory of an array. It is freed when the last array, texture or surface that uses it is dropped.
#[derive(Debug)]
pub(crate) struct Storage {
    context: Weak<Inner>,
    life: u64,
    base: u64,
}

impl Drop for Storage {
    fn drop(&mut self) {
        // If the context was reset after the allocation (its `life` differs), the memory is already freed.
        if let Some(inner) = self.context.upgrade() {
            let context = Context::from(inner);
            if context.life() == self.life {
                context.free_internal(DevicePtr::new(self.base));
            }
        }
    }
}

/// The sizes and the memory offsets of all levels of an array.
struct Plan {
    levels: Vec<Level>,
    bytes: u64,
}

fn plan(descriptor: &ArrayDescriptor, shape: Shape, format: Format, count: u32) -> Result<Plan> {
    let overflow = || Error::invalid("the array's size overflows");
    let mut plan = Plan {
        levels: Vec::new(),
        bytes: 0,
    };
    for number in 0..count {
        let [width, height, depth] = descriptor.level(shape, number);
        let narrow = |size: u64| u32::try_from(size).map_err(|_| overflow());
        let pitch = width
            .checked_mul(format.bytes() as u64)
            .ok_or_else(overflow)?;
        let slice = pitch.checked_mul(height).ok_or_else(overflow)?;
        plan.levels.push(Level {
            address: plan.bytes,
            width: narrow(width)?,
            height: narrow(height)?,
            depth: narrow(depth)?,
            pitch,
            slice,
        });
        plan.bytes = slice
            .checked_mul(depth)
            .and_then(|bytes| bytes.checked_add(plan.bytes))
            .and_then(|bytes| bytes.checked_next_multiple_of(ALIGNMENT))
            .ok_or_else(overflow)?;
    }
    Ok(plan)
}

/// The shared state of an [`Array`] or [`MipmappedArray`]: one or more levels in device memory.
#[derive(Debug)]
struct Made {
    id: u64,
    context: Context,
    life: u64,
    descriptor: ArrayDescriptor,
    texels: Arc<Texels>,
    bytes: u64,
}

impl Made {
    fn new(context: &Context, descriptor: &ArrayDescriptor, count: Option<u32>) -> Result<Made> {
        context.status()?;
        let (format, shape) = descriptor.check(context, count.is_some())?;
        let plan = plan(descriptor, shape, format, count.unwrap_or(1))?;
        let base = context
            .alloc_internal(plan.bytes, PointerKind::Device)?
            .address();
        let storage = Arc::new(Storage {
            context: context.downgrade(),
            life: context.life(),
            base,
        });
        let at = |level: Level| Level {
            address: base + level.address,
            ..level
        };
        let image = Image {
            layout: Layout::Array,
            format,
            dimensions: match shape {
                Shape::Line | Shape::Lines => 1,
                Shape::Volume => 3,
                _ => 2,
            },
            layered: matches!(shape, Shape::Lines | Shape::Planes | Shape::Cubes),
            cube: matches!(shape, Shape::Cube | Shape::Cubes),
            levels: plan.levels.into_iter().map(at).collect(),
            format_number: descriptor.format,
        };
        Ok(Made {
            id: next_id(),
            context: context.clone(),
            life: context.life(),
            descriptor: *descriptor,
            texels: Arc::new(Texels {
                image,
                _storage: Some(storage),
                registered: None,
            }),
            bytes: plan.bytes,
        })
    }

    fn check(&self) -> Result<()> {
        self.context.check(self.life)
    }
}

/// A CUDA array. Clones refer to the same array.
///
/// ```
/// use margay::texture::ArrayDescriptor;
///
/// let rt = margay::Runtime::new()?;
/// let descriptor =
///     ArrayDescriptor { width: 4, height: 0, depth: 0, format: 0x01, channels: 1, flags: 0 };
/// let array = rt.context()?.create_array(&descriptor)?;
/// array.write(&[1, 2, 3, 4])?;
/// let mut bytes = [0; 4];
/// array.read(&mut bytes)?;
/// assert_eq!(bytes, [1, 2, 3, 4]);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Array {
    made: Arc<Made>,
}

/// A mipmapped array: each level has half the extents of the previous level, but the same number of layers or faces.
/// Clones refer to the same array.
///
/// ```
/// use margay::texture::ArrayDescriptor;
///
/// let rt = margay::Runtime::new()?;
/// let descriptor =
///     ArrayDescriptor { width: 8, height: 8, depth: 0, format: 0x20, channels: 1, flags: 0 };
/// let array = rt.context()?.create_mipmapped_array(&descriptor, 3)?;
/// assert_eq!(array.level(2)?.descriptor().width, 2);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MipmappedArray {
    made: Arc<Made>,
}

impl Context {
    /// Creates an array.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for an invalid size, format or flag; [`Error::Unsupported`] for a
    /// flag that Margay does not support; [`Error::OutOfMemory`] if too little memory is free.
    pub fn create_array(&self, descriptor: &ArrayDescriptor) -> Result<Array> {
        let made = Arc::new(Made::new(self, descriptor, None)?);
        Ok(Array { made })
    }

    /// Creates a mipmapped array with `levels` levels, or with the maximum number of levels for its
    /// size if this number is smaller.
    ///
    /// # Errors
    /// Returns the same errors as [`Context::create_array`].
    pub fn create_mipmapped_array(
        &self,
        descriptor: &ArrayDescriptor,
        levels: u32,
    ) -> Result<MipmappedArray> {
        let layers = descriptor.flags & (array_flags::LAYERED | array_flags::CUBEMAP) != 0;
        let depth = if layers { 1 } else { descriptor.depth };
        let longest = descriptor.width.max(descriptor.height).max(depth).max(1);
        let levels = levels.clamp(1, longest.ilog2() + 1);
        let made = Arc::new(Made::new(self, descriptor, Some(levels))?);
        Ok(MipmappedArray { made })
    }
}

impl Array {
    /// Returns the context that owns the array.
    pub fn context(&self) -> &Context {
        &self.made.context
    }

    /// Returns the descriptor.
    pub fn descriptor(&self) -> &ArrayDescriptor {
        &self.made.descriptor
    }

    /// Returns the array's ID, which is unique in the process and equal for clones.
    pub fn id(&self) -> u64 {
        self.made.id
    }

    /// Returns the size of the array's memory in bytes, and the alignment of its start.
    pub fn memory(&self) -> (u64, u64) {
        (self.made.bytes, ALIGNMENT)
    }

    /// Returns an error if the array cannot be used, because its context was destroyed or reset, or
    /// has a sticky error.
    ///
    /// # Errors
    /// [`Error::ContextDestroyed`] if the context was destroyed or reset; otherwise the context's
    /// sticky error.
    pub fn check(&self) -> Result<()> {
        self.made.check()
    }

    /// Returns the address of the first byte, the number of bytes in a row, the number of rows in a
    /// slice, and the number of slices. The rows of a slice are contiguous, and so are the slices.
    pub fn place(&self) -> (DevicePtr, [u64; 3]) {
        let level = self.level();
        let size = [level.pitch, level.height.into(), level.depth.into()];
        (DevicePtr::new(level.address), size)
    }

    /// Returns the address of the first texel and the total size of all texels in bytes. Returns an
    /// error if the size is not `bytes`.
    pub(crate) fn whole(&self, bytes: usize) -> Result<(DevicePtr, u64)> {
        self.check()?;
        let (start, [row, rows, slices]) = self.place();
        let count = row * rows * slices;
        match count == bytes as u64 {
            true => Ok((start, count)),
            false => Err(Error::invalid(format!(
                "{bytes} bytes for an array of {count}"
            ))),
        }
    }

    /// Returns the size of a texel in bytes.
    pub fn texel_bytes(&self) -> u64 {
        self.made.texels.image.format.bytes() as u64
    }

    fn level(&self) -> Level {
        // There is always at least one level.
        self.made.texels.image.levels[0]
    }

    pub(super) fn texels(&self) -> &Arc<Texels> {
        &self.made.texels
    }

    /// Waits until all work that was submitted so far is complete. Callers call this function
    /// before they drop the array. The memory of a dropped array is freed when no texture or
    /// surface uses it any more.
    pub fn wait(&self) {
        self.made.context.settle();
    }
}

impl MipmappedArray {
    /// Returns the context that owns the array.
    pub fn context(&self) -> &Context {
        &self.made.context
    }

    /// Returns the descriptor of the first mipmap level.
    pub fn descriptor(&self) -> &ArrayDescriptor {
        &self.made.descriptor
    }

    /// Returns the array's ID, which is unique in the process and equal for clones.
    pub fn id(&self) -> u64 {
        self.made.id
    }

    /// Returns the size of the array's memory in bytes, and the alignment of its start.
    pub fn memory(&self) -> (u64, u64) {
        (self.made.bytes, ALIGNMENT)
    }

    /// Returns the number of mipmap levels.
    pub fn levels(&self) -> u32 {
        self.made.texels.image.levels.len() as u32
    }

    /// Returns an error if the array cannot be used, because its context was destroyed or reset, or
    /// has a sticky error.
    ///
    /// # Errors
    /// [`Error::ContextDestroyed`] if the context was destroyed or reset; otherwise the context's
    /// sticky error.
    pub fn check(&self) -> Result<()> {
        self.made.check()
    }

    pub(super) fn texels(&self) -> &Arc<Texels> {
        &self.made.texels
    }

    /// Returns the mipmap level `number` as an array, which uses the same memory.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the level does not exist.
    pub fn level(&self, number: u32) -> Result<Array> {
        self.check()?;
        let texels = &self.made.texels;
        let level = texels
            .image
            .level(number as usize)
            .ok_or_else(|| Error::invalid(format!("level {number} of {}", self.levels())))?;
        let image = Image {
            levels: vec![*level],
            ..texels.image.clone()
        };
        Ok(Array {
            made: Arc::new(Made {
                id: next_id(),
                context: self.made.context.clone(),
                life: self.made.life,
                descriptor: self.made.descriptor.of_level(number),
                texels: Arc::new(Texels {
                    image,
                    _storage: texels._storage.clone(),
                    registered: texels.registered.clone(),
                }),
                bytes: level.slice * u64::from(level.depth),
            }),
        })
    }

    /// Waits until all work that was submitted so far is complete ([`Array::wait`]).
    pub fn wait(&self) {
        self.made.context.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(size: [u64; 3], flags: u32) -> ArrayDescriptor {
        let [width, height, depth] = size;
        ArrayDescriptor {
            width,
            height,
            depth,
            format: 0x20,
            channels: 1,
            flags,
        }
    }

    #[test]
    fn shapes_follow_from_sizes_and_flags() {
        use array_flags::{CUBEMAP, LAYERED};
        let shape = |size, flags| descriptor(size, flags).shape().ok();
        assert_eq!(shape([5, 0, 0], 0), Some(Shape::Line));
        assert_eq!(shape([5, 4, 0], 0), Some(Shape::Plane));
        assert_eq!(shape([5, 4, 3], 0), Some(Shape::Volume));
        assert_eq!(shape([5, 0, 3], LAYERED), Some(Shape::Lines));
        assert_eq!(shape([5, 4, 3], LAYERED), Some(Shape::Planes));
        assert_eq!(shape([4, 4, 6], CUBEMAP), Some(Shape::Cube));
        assert_eq!(shape([4, 4, 12], CUBEMAP | LAYERED), Some(Shape::Cubes));
        for (size, flags) in [
            ([0, 4, 3], 0),
            ([5, 0, 3], 0),
            ([5, 4, 0], LAYERED),
            ([4, 5, 6], CUBEMAP),
            ([4, 4, 12], CUBEMAP),
            ([4, 4, 7], CUBEMAP | LAYERED),
        ] {
            assert_eq!(shape(size, flags), None, "{size:?} {flags}");
        }
    }

    #[test]
    fn levels_halve_and_layers_do_not() {
        let volume = descriptor([9, 4, 6], 0);
        assert_eq!(volume.level(Shape::Volume, 1), [4, 2, 3]);
        assert_eq!(volume.level(Shape::Volume, 3), [1, 1, 1]);
        let layered = descriptor([9, 0, 6], array_flags::LAYERED);
        assert_eq!(layered.level(Shape::Lines, 2), [2, 1, 6]);
        let plan = plan(
            &volume,
            Shape::Volume,
            Format::new(margay_ops::texture::Channel::F32, 1),
            2,
        );
        let plan = plan.expect("a plan");
        assert_eq!(plan.levels[0].slice, 9 * 4 * 4);
        assert_eq!(
            plan.levels[1].address,
            (9 * 4 * 4 * 6u64).next_multiple_of(512)
        );
    }
}
