//! Atomic updates.
//!
//! The lanes that execute the block update memory one after the other, in ascending order, also if they all have the same
//! address and the same operands: each of them gets another result.

use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::InstData;
use margay_ops::mods::StateSpace;
use margay_ops::types::{Kind, Type};
use margay_vir::meaning::update_operands;
use smallvec::SmallVec;

use crate::Refusal;
use crate::emitter::Emitter;
use crate::layout::NOTED;
use crate::memory::Places;
use crate::scan::is_plain_update;

impl Emitter<'_> {
    /// Emits an atomic update.
    pub(crate) fn update(&mut self, inst: Inst, data: &InstData) -> Result<(), Refusal> {
        let source = self.source;
        let args = source.dfg.args(inst);
        let result = source.dfg.results(inst).first().copied();
        let kind = self.kind(args[1]);
        let mut values = args[1..].iter().chain(&result);
        let is_plain = is_plain_update(data)
            && args.len() == 1 + update_operands(&data.desc())
            && kind.bits() == data.ty.bits()
            && values.all(|&value| self.kind(value) == kind)
            && result.is_none_or(|result| self.own_class(result) == Class::Varying)
            && matches!(self.kind(args[0]), Kind::B32 | Kind::B64);
        if !is_plain {
            return Err(Refusal::Operation("an atomic of this type"));
        }
        self.demand_aligned(inst, data.ty.bits() / 8);
        let (base, offsets) = self.update_places(args[0], data.mods.space())?;
        let places = Places::Each {
            base,
            offsets,
            scale: 1,
        };
        self.demand_reach(inst, places)?;
        // The place names the lane.
        self.place &= !NOTED;
        let mut operands: SmallVec<[Value; 5]> = SmallVec::from_slice(&[base, offsets]);
        operands.extend(args[1..].iter().map(|&value| self.operand(value)));
        operands.push(self.mask);
        let ty = self.vector(kind);
        if let Some(lanes) = self.update_lanes(data.desc(), ty, &operands, result.is_some())
            && let Some(result) = result
        {
            self.set_lanes(result, lanes);
        }
        Ok(())
    }

    /// Returns the base of the lanes' addresses, and the unsigned offsets.
    fn update_places(
        &mut self,
        address: Value,
        space: StateSpace,
    ) -> Result<(Value, Value), Refusal> {
        let lanes = self.lanes(address);
        Ok(match self.window(space)? {
            Some(base) => (base, self.low_word(lanes)),
            None => (self.constant(Type::B64, 0), self.widened(lanes)),
        })
    }
}
