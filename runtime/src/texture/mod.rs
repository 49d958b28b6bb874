//! Arrays, textures and surfaces: the objects of the host, and the handles that kernels use.
//!
//! An array ([`Array`], [`MipmappedArray`]) is device memory that holds texel after texel, row after row, slice after
//! slice, level after level. A texture or surface object is an entry of the machine's [`TextureTable`]; kernels refer
//! to it by its handle. A launch keeps the table as it was when the launch was submitted. Therefore a handle is looked
//! up without a lock, and objects that are destroyed in the meantime exist until the launch is complete.
//! [`margay_ops::texture`] defines the meaning of texels and how they are filtered.
//!
//! Invariant: a handle is never an address. An invalid handle, or a handle of another kind of object, is a fault of the
//! kernel.

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
