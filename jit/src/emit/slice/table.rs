//! Branch tables (`brx.idx`) of a chunk.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::Inst;
use margay_ir::function::BlockCall;

use super::{Lanes, Slice};
use crate::emit::control::distinct;
use crate::emit::lane::EmitError;

impl Slice<'_, '_> {
    /// Emits a jump to one of several targets, which an index selects in each lane. The first target is that of lanes
    /// whose index is out of range.
    pub(super) fn branch_table(
        &mut self,
        inst: Inst,
        targets: &[BlockCall],
    ) -> Result<(), EmitError> {
        let index = self.lane.function.dfg.args(inst)[0];
        let (calls, entries) = distinct(targets);
        if self.mask.is_none() && self.is_uniform(index) {
            let edges: Vec<ir::Block> = calls.iter().map(|_| self.lane.b.create_block()).collect();
            let table: Vec<ir::Block> = entries.iter().map(|&entry| edges[entry]).collect();
            self.lane.table_jump(index, &table);
            for (&edge, call) in edges.iter().zip(calls) {
                self.lane.b.switch_to_block(edge);
                self.made.clear();
                self.full_edge(call)?;
            }
            return Ok(());
        }
        let lanes = self.get(index)?;
        let lanes = if self.lane.b.func.dfg.value_type(lanes[0]) == types::I64X2 {
            self.narrow_mask(lanes)
        } else {
            lanes
        };
        let mut rest = match &self.mask {
            Some(mask) => mask.clone(),
            None => self.all_lanes(),
        };
        let mut masks: Vec<Option<Lanes>> = vec![None; calls.len()];
        for (number, &entry) in entries.iter().enumerate().skip(1) {
            let wanted = self.constant(types::I32X4, number as u64 - 1);
            let hit: Lanes = lanes
                .iter()
                .map(|&four| self.lane.b.ins().icmp(IntCC::Equal, four, wanted))
                .collect();
            let hit = self.and(&hit, &rest);
            rest = self.and_not(&rest, &hit);
            self.join(&mut masks[entry], hit);
        }
        // The first target is that of lanes whose index is out of range.
        self.join(&mut masks[0], rest);
        let ways = calls.into_iter().zip(masks);
        let mut ways: Vec<(&BlockCall, Lanes)> = ways
            .filter_map(|(call, mask)| Some((call, mask?)))
            .collect();
        ways.rotate_left(1);
        if self.mask.is_some() {
            for (call, mask) in ways {
                // It is not known at compile time whether all lanes take the same edge, so parameters are passed under
                // masks.
                let any = self.any(&mask);
                self.masked_edge(call, &mask, Some(any))?;
            }
            self.next_position();
            return Ok(());
        }
        self.part(&ways)
    }

    /// Adds lanes to a mask, which has no lanes if it is `None`.
    fn join(&mut self, mask: &mut Option<Lanes>, more: Lanes) {
        *mask = Some(match mask.take() {
            Some(known) => self.or(&known, &more),
            None => more,
        });
    }
}
