//! Arrays, textures, surfaces: what the host makes of them and what kernels get.
//!
//! An array is device memory of ours, texel after texel, row after row, slice after slice, level after level
//! ([`Array`], [`MipmappedArray`]). A texture or surface object is an entry of the machine's [`TextureTable`]; kernels
//! name it by its handle. A launch keeps the table as it was when the launch was submitted, so that a handle is looked up without
//! a lock, and what is destroyed meanwhile stays until the launch is over. What texels mean and how they are filtered is
//! [`margay_ops::texture`]'s.
//!
//! Invariant: a handle is never an address; one that names nothing, or something of another kind, is a fault of the
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
