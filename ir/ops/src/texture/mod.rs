//! The reference functions of texture and surface accesses, which define the exact bits of the
//! results.
//!
//! [`access`] defines the payload of the texture and surface ops, which encodes the PTX instruction. [`image`]
//! describes texels in memory, [`mod@format`] the encoding of texels, and [`sampler`] address modes and filters.
//! [`sample`] fetches and filters texels of textures, [`surface`] loads, stores and updates texels of surfaces, and
//! [`query`] implements queries. All memory accesses use the trait [`Memory`] and are inside an
//! image, so both the interpreter and native code can call these functions.
//!
//! The PTX ISA (9.7.10, 9.7.11) and the appendix on texture fetching in the CUDA C++ Programming Guide define the
//! rules. Where these documents leave a choice, Margay follows these rules:
//!
//! - A weight of linear filtering is rounded to 8 fraction bits, to nearest with ties upwards, so a
//!   weight can be 1. Margay does not read texels of weight 0. It computes sums in binary64 and
//!   rounds them once.
//! - A NaN coordinate counts as 0. A coordinate outside the range of 32-bit integers is replaced by
//!   the nearest number in the range.
//! - The point filter between mipmap levels selects the nearest level; if two levels are equally near, it selects the
//!   level with the higher index. The bias and the clamps of the sampler apply to a level that an instruction
//!   specifies, and to a level that is computed from gradients. An instruction without a level or gradients uses the
//!   base level, which is the first level of the texture's resource view, without bias and clamps.
//! - The level that is computed from gradients is `log2(longer / n)`. Here, `longer` and `shorter` are the lengths of
//!   the two gradients, and `n` is the number of probes along the longer gradient. If the sampler allows anisotropy,
//!   the texture has two dimensions, and its texels are read as numbers, `n` is the lesser of `ceil(longer / shorter)`
//!   and the sampler's limit; otherwise, `n` is 1.
//! - Components that a format does not have are 0. This includes the fourth component, as on an
//!   H100.
//! - The face of a cube is determined by the component of the direction with the largest absolute
//!   value. If absolute values are equal, z is chosen before y, and y before x.
//!
//! Invariant: the functions of this module do not panic for any operands.

pub mod access;
mod cube;
pub mod format;
pub mod image;
pub mod lanes;
mod lod;
pub mod plan;
pub mod query;
pub mod reference;
pub mod sample;
pub mod sampler;
pub mod surface;

pub use access::{Access, Edge, Geometry, LevelMode, Operation, Query};
pub use format::{Channel, Format};
pub use image::{Image, Layout, Level};
pub use plan::{Plan, Shape};
pub use reference::{Reference, ReferenceKind};
pub use sampler::{AddressMode, Filter, ReadMode, Sampler};

use crate::fault::FaultKind;
use crate::meaning::Bits;

/// The memory that texture and surface accesses read and write. Addresses are the addresses in [`image::Level`].
pub trait Memory {
    /// Reads bytes.
    ///
    /// # Errors
    /// Returns a fault if the program has freed or unmapped the memory.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), FaultKind>;
    /// For each lane, reads `bytes` bytes (1, 2 or 4) at the lane's address plus `displacement`,
    /// and writes them to `out`.
    ///
    /// # Errors
    /// If the program has freed or unmapped the memory at a lane's address, returns the first such lane, and
    /// the fault.
    fn gather(
        &mut self,
        addresses: &[u64],
        displacement: u64,
        bytes: usize,
        out: &mut [u32],
    ) -> Result<(), (usize, FaultKind)> {
        for (lane, (&address, out)) in addresses.iter().zip(out).enumerate() {
            let mut word = [0; 4];
            let found = self.read(
                address.wrapping_add(displacement),
                &mut word[..bytes.min(4)],
            );
            found.map_err(|fault| (lane, fault))?;
            *out = u32::from_le_bytes(word);
        }
        Ok(())
    }
    /// Writes bytes.
    ///
    /// # Errors
    /// Returns a fault if the program has freed or unmapped the memory.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), FaultKind>;
    /// Atomically replaces the `bytes` bytes (4 or 8) at `address` by the result of `new` for these
    /// bytes.
    ///
    /// # Errors
    /// Returns a fault if the program has freed or unmapped the memory.
    fn update(
        &mut self,
        address: u64,
        bytes: u32,
        new: &mut dyn FnMut(Bits) -> Bits,
    ) -> Result<(), FaultKind>;
}

/// The results of a texture or surface access: at most four elements and a predicate.
pub type Results = smallvec::SmallVec<[Bits; 5]>;
