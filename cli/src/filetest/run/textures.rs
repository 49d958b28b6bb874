//! Creates the textures and surfaces of a launch with the runtime.

use margay::texture::{
    AddressMode, Array, ArrayDescriptor, Filter, MipmappedArray, ReadMode, Resource, Sampler,
    SurfaceObject, TextureObject,
};
use margay::{DeviceBuffer, Error, Module, Runtime};

use crate::filetest::texels::{Kind, TexelMemory, Texels};

/// The memory that contains the texels during a launch.
enum Held {
    Array(Array),
    Mipmapped(MipmappedArray),
    Buffer(DeviceBuffer<u8>),
}

/// A texture or surface of a launch.
pub(super) struct Made {
    held: Held,
    texture: Option<TextureObject>,
    surface: Option<SurfaceObject>,
}

fn sampler_of(texels: &Texels) -> Sampler {
    let mode = |number: u32| match number {
        0 => AddressMode::Wrap,
        1 => AddressMode::Clamp,
        2 => AddressMode::Mirror,
        _ => AddressMode::Border,
    };
    let [filter, mipmap_filter] = texels.filters.map(|number| match number {
        0 => Filter::Point,
        _ => Filter::Linear,
    });
    let has = |flag: u32| texels.flags & flag != 0;
    let [level_bias, min_level, max_level] = texels.levels;
    Sampler {
        address: texels.address.map(mode),
        filter,
        mipmap_filter,
        read: if has(0x01) {
            ReadMode::Element
        } else {
            ReadMode::Normalized
        },
        normalized: has(0x02),
        force_unnormalized: false,
        srgb: has(0x10),
        seamless: has(0x40),
        max_anisotropy: texels.anisotropy,
        level_bias,
        min_level,
        max_level,
        border: texels.border.map(f32::to_bits),
    }
}

impl Made {
    /// Allocates memory for the texels, fills it, and creates the texture or surface that the kernel uses.
    pub(super) fn new(runtime: &Runtime, module: &Module, texels: &Texels) -> Result<Made, Error> {
        let context = module.context();
        let [width, height, depth] = texels.size;
        let descriptor = ArrayDescriptor {
            width,
            height,
            depth,
            format: texels.format,
            channels: texels.channels,
            flags: texels.array_flags,
        };
        let bytes = &texels.buffer.bytes;
        let held = match texels.place {
            TexelMemory::Array => {
                let array = context.create_array(&descriptor)?;
                array.write(bytes)?;
                Held::Array(array)
            }
            TexelMemory::Mipmapped(count) => {
                let array = context.create_mipmapped_array(&descriptor, count)?;
                let mut start = 0;
                for level in 0..count {
                    let end = start + texels.level_bytes(level) as usize;
                    array.level(level)?.write(&bytes[start..end])?;
                    start = end;
                }
                Held::Mipmapped(array)
            }
            TexelMemory::Buffer | TexelMemory::Rows(_) => Held::Buffer(runtime.upload(bytes)?),
        };
        let mut made = Made {
            held,
            texture: None,
            surface: None,
        };
        made.bind(module, texels)?;
        Ok(made)
    }

    fn resource(&self, texels: &Texels) -> Resource {
        let (format, channels) = (texels.format, texels.channels);
        match &self.held {
            Held::Array(array) => Resource::Array(array.clone()),
            Held::Mipmapped(array) => Resource::Mipmapped(array.clone()),
            Held::Buffer(buffer) => match texels.place {
                TexelMemory::Rows(pitch) => Resource::Pitch {
                    address: buffer.ptr().address(),
                    format,
                    channels,
                    width: texels.size[0],
                    height: texels.size[1],
                    pitch,
                },
                _ => Resource::Linear {
                    address: buffer.ptr().address(),
                    format,
                    channels,
                    bytes: texels.buffer.bytes.len() as u64,
                },
            },
        }
    }

    fn bind(&mut self, module: &Module, texels: &Texels) -> Result<(), Error> {
        let context = module.context();
        let resource = self.resource(texels);
        match (texels.kind, &texels.variable, &self.held) {
            (Kind::Texture, None, _) => {
                let sampler = sampler_of(texels);
                self.texture = Some(context.create_texture(&resource, sampler, None)?);
            }
            (Kind::Texture, Some(name), _) => {
                let reference = module.texture(name)?;
                reference.bind(&resource)?;
                reference.set_sampler(sampler_of(texels));
            }
            (Kind::Surface, None, Held::Array(array)) => {
                self.surface = Some(context.create_surface(array)?);
            }
            (Kind::Surface, Some(name), Held::Array(array)) => module.surface(name)?.bind(array)?,
            (Kind::Surface, ..) => return Err(Error::invalid("a surface needs an array")),
        }
        Ok(())
    }

    /// Returns the handle that the launch passes as an argument; `None` if the texels are bound to a variable.
    pub(super) fn handle(&self) -> Option<u64> {
        let texture = self.texture.as_ref().map(TextureObject::handle);
        texture.or(self.surface.as_ref().map(SurfaceObject::handle))
    }

    /// Returns the contents of the texels after the launch, and destroys the texture or surface. The contents of a
    /// mipmapped array are not read, because no surface writes to them.
    pub(super) fn finish(self, texels: &Texels) -> Result<Vec<u8>, Error> {
        let mut bytes = texels.buffer.bytes.clone();
        match &self.held {
            Held::Array(array) => array.read(&mut bytes)?,
            Held::Mipmapped(_) => {}
            Held::Buffer(buffer) => bytes = buffer.to_vec()?,
        }
        self.texture.map_or(Ok(()), |texture| texture.destroy())?;
        self.surface.map_or(Ok(()), |surface| surface.destroy())?;
        Ok(bytes)
    }
}
