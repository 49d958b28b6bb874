//! Textures and surfaces: what an access means, bit for bit.
//!
//! [`access`] is the payload of the ops that touch them: which instruction of PTX it is, with its operands
//! and results. [`image`] describes texels in memory, [`mod@format`] what their bits mean, [`sampler`] how they
//! are looked up; [`sample`] fetches and filters, [`surface`] loads, stores and updates, [`query`] answers
//! questions. Memory is reached through [`Memory`] alone, and only at addresses inside of an image, so that
//! both engines share every line of this.
//!
//! The rules are those of the PTX ISA (9.7.10, 9.7.11) and of the appendix on texture fetching in the CUDA C++
//! Programming Guide. Where those leave a choice, this is it:
//!
//! - A weight of linear filtering has 8 bits of fraction and is rounded to nearest, ties up, so that it may be 1;
//!   texels of weight 0 are not looked at. Sums are made in binary64 and rounded once.
//! - A coordinate that is NaN counts as 0; others beyond the range of 32 bits as its ends.
//! - The point filter between mipmap levels takes the nearest level, the higher of two that are equally near. Bias and
//!   clamps of the sampler apply to levels that an instruction gives or that follow from its gradients; the base
//!   level is the first of the view, whatever they are.
//! - Gradients give the level `log2(longer / n)` and, where the sampler allows anisotropy, `n` probes along the
//!   longer one, `n` being `ceil(longer / shorter)` or the sampler's limit.
//! - Components that a format lacks are 0, the fourth is 1.
//! - Of equal magnitudes in a direction z decides before y, and y before x.
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

/// Memory as texture and surface accesses see it. Addresses are those of images.
pub trait Memory {
    /// Reads bytes.
    ///
    /// # Errors
    /// Memory that is not there any more.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), FaultKind>;
    /// Reads 1, 2 or 4 bytes for each of some lanes, `displacement` behind their addresses.
    ///
    /// # Errors
    /// The first lane whose memory is not there any more.
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
    /// As for reading.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), FaultKind>;
    /// Replaces 4 or 8 bytes in one atomic step.
    ///
    /// # Errors
    /// As for reading.
    fn update(
        &mut self,
        address: u64,
        bytes: u32,
        new: &mut dyn FnMut(Bits) -> Bits,
    ) -> Result<(), FaultKind>;
}

/// Results of an access: at most four elements and a predicate.
pub type Results = smallvec::SmallVec<[Bits; 5]>;
