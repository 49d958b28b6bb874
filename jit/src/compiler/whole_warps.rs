//! Whether all code of a kernel runs in chunks of 32 lanes, as tools that observe whole warps need it.

use margay_ir::analysis::uniformity::Assumptions;
use margay_ir::analysis::{Cfg, Uniformity, together};
use margay_ir::entity::{Block, Inst, SecondaryMap};
use margay_ops::ops::Opcode;

use super::{CompiledKernel, Compiler};
use crate::error::CompileError;
use crate::slices::Widths;

impl CompiledKernel {
    /// Checks that all code of the kernel runs in chunks of 32 lanes. Otherwise a tool could not
    /// get one record for all lanes of a warp that execute an instruction together.
    ///
    /// # Errors
    /// Returns [`CompileError::Unsupported`] with the reason why some code may run lane by lane.
    pub fn check_whole_warps(&self, compiler: &Compiler) -> Result<(), CompileError> {
        let (calls, indirect) = self.calls();
        let why = if self.request.watches() {
            "checks of synchronisation, which split warps"
        } else if self.has_sync_points() && !self.syncs_together() {
            "sync points that the threads of a block may not reach together"
        } else if !calls.is_empty() || indirect {
            "calls, which run lane by lane"
        } else if self.widths(compiler) != Widths::all(32) {
            "no chunks of 32 lanes"
        } else {
            return Ok(());
        };
        Err(CompileError::Unsupported(format!(
            "observation of whole warps: {why}"
        )))
    }

    /// Returns whether the analyses prove, for all block shapes, that all threads of a CTA reach each sync point
    /// together and continue together. Ignores `converge`, at which lanes of code in chunks of 32 lanes do not stop.
    fn syncs_together(&self) -> bool {
        let cfg = Cfg::new(&self.function);
        let uniformity = Uniformity::new(&self.function, Assumptions::default());
        let mut synchronises: SecondaryMap<Block, bool> = SecondaryMap::default();
        let insts = self.regions.resume_points.iter().enumerate();
        for (index, resume_point) in insts {
            let inst = resume_point.sync_point;
            let waits = |&inst: &Inst| self.function.dfg.insts[inst].opcode != Opcode::Converge;
            let Some(inst) = inst.filter(waits) else {
                continue;
            };
            if !self.sync_points.continues_together(index) {
                return false;
            }
            if let Some(block) = self.homes[inst] {
                synchronises[block] = true;
            }
        }
        together::meet_at(&self.function, &cfg, &uniformity, |block| {
            synchronises[block]
        })
    }
}
