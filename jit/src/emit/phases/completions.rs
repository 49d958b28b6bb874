//! Emits the code that completes a sync point if all lanes of a warp that have not exited wait at
//! it.

use std::mem::offset_of;

use cranelift_codegen::ir::{self, AbiParam, BlockArg, InstBuilder, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use margay_exec::SyncPoint;
use margay_ops::ops::Opcode;

use super::super::lane::fixed;
use super::Driver;
use crate::abi::{Helpers, NativeContext};
use crate::sync_points::{Completion, LaneStorage};

impl Driver<'_> {
    /// Emits the completion of each sync point that all lanes of a warp can reach together.
    pub(super) fn completions(&self, b: &mut FunctionBuilder<'_>) {
        for (index, block) in self.after.iter().enumerate() {
            let &Some(block) = block else { continue };
            b.switch_to_block(block);
            match self.sync_points.completion(index) {
                Completion::Nothing => {
                    if !self.watch_warp(b, index) {
                        continue;
                    }
                    self.clear_warp_converged(b);
                    let (block, arguments) = self.way_to(b, index);
                    b.ins().jump(block, &arguments);
                }
                Completion::Collective => self.collective(b, index),
                Completion::Barrier | Completion::Reduction => {
                    let sync_point = b.ins().iconst(types::I32, index as i64);
                    b.ins().jump(self.warp_done, &[BlockArg::Value(sync_point)]);
                }
                Completion::General => {
                    b.ins().jump(self.leave_here, &[]);
                }
            }
        }
    }

    /// For checking runs, emits the code that runs when all lanes of a warp that have not exited wait at a
    /// `bar.warp.sync`. Returns false if the CTA scheduler must continue the warp. Emits nothing for other sync points.
    fn watch_warp(&self, b: &mut FunctionBuilder<'_>, index: usize) -> bool {
        let place = self.sync_points.get(SyncPoint(index as u32));
        let barrier = place.filter(|place| place.desc.opcode == Opcode::BarWarp);
        let Some(place) = barrier.filter(|_| self.request.watches()) else {
            return true;
        };
        // The CTA scheduler examines member masks that are not constant, and masks that lack a lane of the warp that
        // has not exited. If synchronisation is checked, it also examines masks that contain lanes which have exited.
        let Some(&LaneStorage::Constant(mask)) = place.args.first() else {
            b.ins().jump(self.leave_here, &[]);
            return false;
        };
        let [whole, apart] = std::array::from_fn(|_| b.create_block());
        let alive = b.use_var(self.alive);
        let members = b.ins().iconst(types::I32, i64::from(mask as i32));
        let missing = b.ins().band_not(alive, members);
        let missing = match self.request.synchronisation {
            true => b.ins().bxor(alive, members),
            false => missing,
        };
        b.ins().brif(missing, apart, &[], whole, &[]);
        b.switch_to_block(apart);
        b.set_cold_block(apart);
        b.ins().jump(self.leave_here, &[]);
        b.switch_to_block(whole);
        if self.request.order {
            let warp = b.use_var(self.warp);
            self.tell(b, warp);
        }
        true
    }

    /// Emits a call that reports to the checking tools that threads have synchronised. `who` is the index of a warp,
    /// or [`WHOLE_CTA`](crate::abi::WHOLE_CTA).
    pub(super) fn tell(&self, b: &mut FunctionBuilder<'_>, who: ir::Value) {
        let table = offset_of!(NativeContext, helpers) as i32;
        let table = b.ins().load(types::I64, fixed(), self.ctx, table);
        let helper = offset_of!(Helpers, synchronised) as i32;
        let target = b.ins().load(types::I64, fixed(), table, helper);
        let mut sig = ir::Signature::new(CallConv::SystemV);
        sig.params
            .extend([types::I64, types::I32].map(AbiParam::new));
        let sig = b.import_signature(sig);
        b.ins().call_indirect(sig, target, &[self.ctx, who]);
    }

    fn collective(&self, b: &mut FunctionBuilder<'_>, index: usize) {
        if self.request.watches() {
            b.ins().jump(self.leave_here, &[]);
            return;
        }
        let frame = b.use_var(self.frame);
        let alive = b.use_var(self.alive);
        let helper = offset_of!(Helpers, collective);
        if let Some(waits) = self.host_completes(b, helper, index, frame, alive) {
            self.clear_warp_converged(b);
            let (block, arguments) = self.way_to(b, index);
            b.ins().brif(waits, self.leave_here, &[], block, &arguments);
        }
    }
}
