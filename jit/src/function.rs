//! A native function and the source positions of its code.

use margay_ir::entity::Inst;
use margay_ir::function::SourceLoc;

use crate::addresses::{DescTable, Site};
use crate::code_memory::CodeMemory;

/// Number of low bits of a source location word that contain the instruction's index. The bits above contain the lane's
/// index in the chunk.
pub(crate) const PLACE_LANE: u32 = 26;
pub(crate) const PLACE_INST: u32 = (1 << PLACE_LANE) - 1;

/// Returns the word that Cranelift keeps as the source location ([`SourceLoc`](cranelift_codegen::ir::SourceLoc)) of
/// the code of `inst` for one lane of a chunk.
pub(crate) fn place_word(inst: Inst, lane: u32) -> u32 {
    inst.0 & PLACE_INST | lane << PLACE_LANE
}

/// A native function.
#[derive(Debug)]
pub struct CompiledFunction {
    /// The code.
    pub code: CodeMemory,
    /// Entries of code offset, source position and lane of the chunk, in ascending order. Each entry is valid from its
    /// offset to the offset of the next entry.
    pub locs: Vec<(u32, SourceLoc, u32)>,
    /// Operations that the code computes by calling their reference functions. The code contains the addresses of these
    /// descriptions.
    pub descs: DescTable,
    /// Positions in the code that contain addresses.
    pub(crate) sites: Vec<Site>,
}

impl CompiledFunction {
    /// Returns the source position of the instruction at an address, and the index of the instruction's lane in its
    /// chunk. The sum of this index and the thread index in the context is the thread that runs the instruction.
    /// Returns `None` if the address is not in this function.
    pub fn loc_at(&self, pc: u64) -> Option<(SourceLoc, u32)> {
        let offset = pc.checked_sub(self.code.start() as u64)?;
        if offset >= self.code.bytes().len() as u64 {
            return None;
        }
        let index = self
            .locs
            .partition_point(|&(start, ..)| u64::from(start) <= offset);
        let &(_, loc, lane) = self.locs.get(index.checked_sub(1)?)?;
        Some((loc, lane))
    }
}
