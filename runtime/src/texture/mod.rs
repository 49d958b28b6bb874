//! Arrays, textures and surfaces: the objects of the host program, and the handles that kernels use.
//!
//! An array ([`Array`], [`MipmappedArray`]) is device memory with texels. The texels of a row are
//! contiguous in memory, and so are the rows of a slice and the slices of a mipmap level. Each level
//! begins at a multiple of 512 bytes. A texture or surface object is an entry of the machine's [`TextureTable`];
//! kernels refer to it by its handle. A launch uses a snapshot of the table from the time when the
//! launch was submitted. Therefore the launch needs no lock to look up a handle, and objects that
//! the program destroys later continue to exist until the launch is complete.
//! [`margay_ops::texture`] defines how texels are read and filtered.
//!
//! Invariant: a handle is never an address. If a kernel uses an invalid handle, or a handle of another kind of object,
//! the kernel faults.

mod array;
mod format;
mod limits;
mod object;
mod reference;

pub use crate::texture_table::TextureTable;
pub use array::{Array, ArrayDescriptor, MipmappedArray, array_flags};
pub use format::{format_of, view_format_of};
pub use margay_ops::texture::{AddressMode, Filter, Format, ReadMode, ReferenceKind, Sampler};
pub use object::{Resource, SurfaceObject, TextureObject, View};
pub use reference::{SurfaceReference, TextureReference};

pub(crate) use reference::OpaqueVariable;
