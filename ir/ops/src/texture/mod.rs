//! Textures and surfaces: what an access means, bit for bit.
//!
//! [`access`] is the payload of the texture and surface ops: the PTX instruction with its operands and results.
//! [`image`] describes texels in memory, [`mod@format`] the meaning of their bits, and [`sampler`] address
//! modes and filters. [`sample`] fetches and filters, [`surface`] loads, stores and updates, [`query`]
//! implements queries. All memory accesses use [`Memory`] and stay inside an image, so both engines share all
//! of this code.
//!
//! The rules are those of the PTX ISA (9.7.10, 9.7.11) and of the appendix on texture fetching in the CUDA C++
//! Programming Guide. Where they leave a choice, Margay does this:
//!
//! - A weight of linear filtering has 8 bits of fraction and is rounded to nearest, ties up, so it may be 1.
//!   Texels of weight 0 are not read. Sums are computed in binary64 and rounded once.
//! - A NaN coordinate counts as 0. Coordinates outside the range of 32 bits are clamped to that range.
//! - The point filter between mipmap levels selects the nearest level; of two equally near ones, that with the
//!   higher number. Bias and clamps of the sampler apply to levels that an instruction gives or that follow
//!   from its gradients. The base level is the first level of the view, regardless of bias and clamps.
//! - Gradients give the level `log2(longer / n)`. If the sampler allows anisotropy, there are `n` probes along
//!   the longer gradient, where `n` is `ceil(longer / shorter)` or the sampler's limit. Otherwise `n` is 1.
//! - Components that a format lacks are 0, except that the fourth is 1.
//! - If components of a cube direction have equal magnitudes, z takes precedence over y, and y over x.
//!
//! Invariant: nothing here panics, whatever the operands are.

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

/// Memory of texture and surface accesses. Addresses are those in images.
pub trait Memory {
    /// Reads bytes.
    ///
    /// # Errors
    /// Fails if the memory is no longer mapped.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), FaultKind>;
    /// For each lane, reads 1, 2 or 4 bytes at the lane's address plus `displacement`.
    ///
    /// # Errors
    /// Returns the first lane whose memory is no longer mapped, and its fault.
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
    /// Fails if the memory is no longer mapped.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), FaultKind>;
    /// Atomically replaces 4 or 8 bytes.
    ///
    /// # Errors
    /// Fails if the memory is no longer mapped.
    fn update(
        &mut self,
        address: u64,
        bytes: u32,
        new: &mut dyn FnMut(Bits) -> Bits,
    ) -> Result<(), FaultKind>;
}

/// The results of an access: at most four elements and a predicate.
pub type Results = smallvec::SmallVec<[Bits; 5]>;
