//! A native function and the source positions of its code.

use margay_ir::entity::Inst;
use margay_ir::function::SourceLoc;

use crate::addresses::{DescTable, Site};
use crate::code_memory::CodeMemory;

/// Number of low bits of a source place that contain the instruction's number; the bits above contain the
/// lane's number.
pub(crate) const PLACE_LANE: u32 = 26;
pub(crate) const PLACE_INST: u32 = (1 << PLACE_LANE) - 1;

/// Encodes the source place of an instruction's code for one lane of a chunk; code generation attaches it to
/// the code.
pub(crate) fn place_word(inst: Inst, lane: u32) -> u32 {
    inst.0 & PLACE_INST | lane << PLACE_LANE
}

/// A native function.
#[derive(Debug)]
pub struct CompiledFunction {
    /// The code.
    pub code: CodeMemory,
    /// Code offset, source position and lane of the chunk; each entry is valid from its offset to that of the
    /// next. Ascending.
    pub locs: Vec<(u32, SourceLoc, u32)>,
    /// Operations that the code computes by calling their meanings. The code contains the addresses of these
    /// descriptions.
    pub descs: DescTable,
    /// Places in the code that contain addresses.
    pub(crate) sites: Vec<Site>,
}

impl CompiledFunction {
    /// Returns the source position of the instruction at an address, if the address is in this function, and
    /// the distance of its lane from the thread in the context.
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
