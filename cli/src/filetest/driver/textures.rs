//! Creates the textures and surfaces of a launch with any driver.

use std::ffi::{CString, c_uint, c_void};

use super::Driver;
use crate::filetest::texels::{Kind, TexelMemory, Texels};

/// The driver API's `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
pub(super) struct ArrayDescriptor {
    size: [usize; 3],
    format: c_uint,
    channels: c_uint,
    flags: c_uint,
}

/// The driver API's `CUDA_MEMCPY3D`: the source, the destination, and the extent of the copy.
#[repr(C)]
pub(super) struct Copy {
    source: Side,
    target: Side,
    extent: [usize; 3],
}

#[repr(C)]
#[derive(Default)]
struct Side {
    place: [usize; 4],
    kind: c_uint,
    host: usize,
    device: u64,
    array: usize,
    reserved: usize,
    pitch: usize,
    height: usize,
}

/// The driver API's `CUDA_RESOURCE_DESC`.
#[repr(C)]
pub(super) struct Resource {
    kind: c_uint,
    content: [u64; 16],
    flags: c_uint,
}

/// The driver API's `CUDA_TEXTURE_DESC`.
#[repr(C)]
pub(super) struct Texture {
    address: [c_uint; 3],
    filter: c_uint,
    flags: c_uint,
    anisotropy: c_uint,
    mipmap_filter: c_uint,
    levels: [f32; 3],
    border: [f32; 4],
    reserved: [c_uint; 12],
}

/// The value of `CU_MEMORYTYPE_HOST`. The constant below is that of `CU_MEMORYTYPE_ARRAY`.
const HOST: c_uint = 1;
const ARRAY: c_uint = 3;

/// The objects of the driver (array, device memory, texture or surface) that were created for the
/// texels of a launch.
pub(super) struct Made<'a> {
    texels: &'a Texels,
    array: *mut c_void,
    buffer: u64,
    object: u64,
}

impl Driver {
    /// Allocates memory for the texels, fills it, and creates the texture or surface that the kernel uses.
    pub(super) fn texels<'a>(
        &self,
        module: *mut c_void,
        texels: &'a Texels,
    ) -> Result<Made<'a>, String> {
        let mut made = Made {
            texels,
            array: std::ptr::null_mut(),
            buffer: 0,
            object: 0,
        };
        let descriptor = ArrayDescriptor {
            size: texels.size.map(|size| size as usize),
            format: texels.format,
            channels: texels.channels,
            flags: texels.array_flags,
        };
        let bytes = &texels.buffer.bytes;
        match texels.place {
            TexelMemory::Array => {
                // SAFETY: the pointers to the descriptor and the result are valid.
                let status = unsafe {
                    (self.api.array_create)(&raw mut made.array, (&raw const descriptor).cast())
                };
                self.check("cuArray3DCreate", status)?;
                self.copy_level(texels, 0, made.array, bytes.as_ptr() as usize, true)?;
            }
            TexelMemory::Mipmapped(count) => {
                // SAFETY: the pointers to the descriptor and the result are valid.
                let status = unsafe {
                    let descriptor = (&raw const descriptor).cast();
                    (self.api.mipmapped_create)(&raw mut made.array, descriptor, count)
                };
                self.check("cuMipmappedArrayCreate", status)?;
                let mut start = bytes.as_ptr() as usize;
                for level in 0..count {
                    let mut array = std::ptr::null_mut();
                    // SAFETY: the call above created the array, and the pointer to the result is valid.
                    let status = unsafe { (self.api.level)(&raw mut array, made.array, level) };
                    self.check("cuMipmappedArrayGetLevel", status)?;
                    self.copy_level(texels, level, array, start, true)?;
                    start += texels.level_bytes(level) as usize;
                }
            }
            TexelMemory::Buffer | TexelMemory::Rows(_) => made.buffer = self.upload(bytes)?,
        }
        self.bind(module, &mut made)?;
        Ok(made)
    }

    /// Copies a level between an array and host memory. In host memory, rows are contiguous.
    fn copy_level(
        &self,
        texels: &Texels,
        level: u32,
        array: *mut c_void,
        host: usize,
        to_array: bool,
    ) -> Result<(), String> {
        let [width, height, depth] = texels.level_size(level).map(|size| size as usize);
        let row = width * texels.texel as usize;
        let memory = Side {
            kind: HOST,
            host,
            pitch: row,
            height,
            ..Side::default()
        };
        let array = Side {
            kind: ARRAY,
            array: array as usize,
            ..Side::default()
        };
        let (source, target) = if to_array {
            (memory, array)
        } else {
            (array, memory)
        };
        let copy = Copy {
            source,
            target,
            extent: [row, height, depth],
        };
        // SAFETY: the host memory contains all bytes of the level, and the array has the size of the level.
        let status = unsafe { (self.api.copy)((&raw const copy).cast()) };
        self.check("cuMemcpy3D", status)
    }

    fn resource(made: &Made<'_>) -> Resource {
        let texels = made.texels;
        let format = u64::from(texels.format) | u64::from(texels.channels) << 32;
        let mut content = [0; 16];
        let kind = match texels.place {
            TexelMemory::Array => 0,
            TexelMemory::Mipmapped(_) => 1,
            TexelMemory::Buffer => 2,
            TexelMemory::Rows(_) => 3,
        };
        match texels.place {
            TexelMemory::Array | TexelMemory::Mipmapped(_) => content[0] = made.array as u64,
            TexelMemory::Buffer => {
                content[..3].copy_from_slice(&[
                    made.buffer,
                    format,
                    texels.buffer.bytes.len() as u64,
                ]);
            }
            TexelMemory::Rows(pitch) => {
                let [width, height, _] = texels.size;
                content[..5].copy_from_slice(&[made.buffer, format, width, height, pitch]);
            }
        }
        Resource {
            kind,
            content,
            flags: 0,
        }
    }

    fn bind(&self, module: *mut c_void, made: &mut Made<'_>) -> Result<(), String> {
        let texels = made.texels;
        let Some(name) = &texels.variable else {
            let resource = Driver::resource(made);
            let status = match texels.kind {
                Kind::Texture => {
                    let texture = Texture {
                        address: texels.address,
                        filter: texels.filters[0],
                        flags: texels.flags,
                        anisotropy: texels.anisotropy,
                        mipmap_filter: texels.filters[1],
                        levels: texels.levels,
                        border: texels.border,
                        reserved: [0; 12],
                    };
                    // SAFETY: the pointers to the descriptors and the result are valid; the null pointer means no
                    // resource view.
                    unsafe {
                        (self.api.texture_create)(
                            &raw mut made.object,
                            (&raw const resource).cast(),
                            (&raw const texture).cast(),
                            std::ptr::null(),
                        )
                    }
                }
                // SAFETY: the pointers to the descriptor and the result are valid.
                Kind::Surface => unsafe {
                    let resource = (&raw const resource).cast();
                    (self.api.surface_create)(&raw mut made.object, resource)
                },
            };
            return self.check("creating the object", status);
        };
        let name = CString::new(name.as_str()).map_err(|e| e.to_string())?;
        let mut reference = std::ptr::null_mut();
        match texels.kind {
            Kind::Texture => {
                // SAFETY: the module is loaded, the name is a C string, and the pointer to the result is valid.
                let status =
                    unsafe { (self.api.texref)(&raw mut reference, module, name.as_ptr()) };
                self.check("cuModuleGetTexRef", status)?;
                self.set_reference(reference, made)
            }
            Kind::Surface => {
                // SAFETY: the module is loaded, the name is a C string, and the pointer to the result is valid.
                let status =
                    unsafe { (self.api.surfref)(&raw mut reference, module, name.as_ptr()) };
                self.check("cuModuleGetSurfRef", status)?;
                // SAFETY: the call above returned the reference, and the array exists.
                let status = unsafe { (self.api.surfref_array)(reference, made.array, 0) };
                self.check("cuSurfRefSetArray", status)
            }
        }
    }

    /// Sets the properties of a texture reference to those of the texels.
    fn set_reference(&self, reference: *mut c_void, made: &Made<'_>) -> Result<(), String> {
        const OVERRIDE_FORMAT: c_uint = 1;
        let (api, texels) = (&self.api, made.texels);
        let mut offset = 0;
        let channels = texels.channels as i32;
        // SAFETY: the driver returned the reference, and the arrays and buffers exist.
        let bound = unsafe {
            match texels.place {
                TexelMemory::Array => (api.texref_array)(reference, made.array, OVERRIDE_FORMAT),
                TexelMemory::Mipmapped(_) => {
                    (api.texref_mipmapped)(reference, made.array, OVERRIDE_FORMAT)
                }
                TexelMemory::Buffer => {
                    let status = (api.texref_format)(reference, texels.format, channels);
                    self.check("cuTexRefSetFormat", status)?;
                    let bytes = texels.buffer.bytes.len();
                    (api.texref_address)(&raw mut offset, reference, made.buffer, bytes)
                }
                TexelMemory::Rows(_) => {
                    return Err("references to rows are not supported here".to_owned());
                }
            }
        };
        self.check("binding the reference", bound)?;
        let [bias, least, greatest] = texels.levels;
        // SAFETY: the driver returned the reference.
        let set = unsafe {
            [
                (api.texref_mode)(reference, 0, texels.address[0]),
                (api.texref_mode)(reference, 1, texels.address[1]),
                (api.texref_mode)(reference, 2, texels.address[2]),
                (api.texref_filter)(reference, texels.filters[0]),
                (api.texref_flags)(reference, texels.flags),
                (api.texref_mipmap_filter)(reference, texels.filters[1]),
                (api.texref_bias)(reference, bias),
                (api.texref_clamp)(reference, least, greatest),
            ]
        };
        set.into_iter()
            .try_for_each(|status| self.check("setting the reference", status))
    }

    /// Returns the bytes of all texels after a launch. Only arrays are read, because kernels write texels only through
    /// surfaces, whose memory is an array.
    pub(super) fn read_texels(&self, made: &Made<'_>) -> Result<Vec<u8>, String> {
        let mut bytes = made.texels.buffer.bytes.clone();
        if made.texels.place == TexelMemory::Array {
            let host = bytes.as_mut_ptr() as usize;
            self.copy_level(made.texels, 0, made.array, host, false)?;
        }
        Ok(bytes)
    }

    /// Destroys the objects that were created for the texels.
    pub(super) fn drop_texels(&self, made: &Made<'_>) -> Result<(), String> {
        if made.object != 0 {
            // SAFETY: this driver created the object, which is not used again.
            let status = unsafe {
                match made.texels.kind {
                    Kind::Texture => (self.api.texture_destroy)(made.object),
                    Kind::Surface => (self.api.surface_destroy)(made.object),
                }
            };
            self.check("destroying the object", status)?;
        }
        // SAFETY: this driver created the memory, which is not used again.
        let status = unsafe {
            match made.texels.place {
                TexelMemory::Array => (self.api.array_destroy)(made.array),
                TexelMemory::Mipmapped(_) => (self.api.mipmapped_destroy)(made.array),
                _ => (self.api.free)(made.buffer),
            }
        };
        self.check("freeing the texels", status)
    }
}

impl Made<'_> {
    /// Returns the handle that the launch passes as an argument; `None` if the texels are bound to a variable.
    pub(super) fn handle(&self) -> Option<u64> {
        self.texels.variable.is_none().then_some(self.object)
    }

    /// Returns the description of the texels.
    pub(super) fn texels(&self) -> &Texels {
        self.texels
    }
}
