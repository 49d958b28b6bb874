//! One native function, and the source positions of its code.

use margay_ir::entity::Inst;
use margay_ir::function::SourceLoc;

use crate::addresses::{DescTable, Site};
use crate::code_memory::CodeMemory;

/// Bits of a place that are the instruction's number; above them is the lane's.
pub(crate) const PLACE_LANE: u32 = 26;
pub(crate) const PLACE_INST: u32 = (1 << PLACE_LANE) - 1;

/// What code generation remembers of an instruction's code for one lane of a slice.
pub(crate) fn place_word(inst: Inst, lane: u32) -> u32 {
    inst.0 & PLACE_INST | lane << PLACE_LANE
}

/// One native function.
#[derive(Debug)]
pub struct CompiledFunction {
    /// The code.
    pub code: CodeMemory,
    /// Source position of the code from each offset on, ascending; and for which lane of a slice it is.
    pub locs: Vec<(u32, SourceLoc, u32)>,
    /// Operations that the code computes by their meanings; it holds their addresses.
    pub descs: DescTable,
    /// Where it holds addresses.
    pub(crate) sites: Vec<Site>,
}

impl CompiledFunction {
    /// Source position of the instruction at an address, if it lies in this function, and the number of
    /// the lane behind the context's thread that it is for.
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
