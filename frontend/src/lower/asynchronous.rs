//! Lowers asynchronous stores and reductions, which signal an mbarrier. The access and the signal for its bytes both
//! happen when the instruction executes. PTX permits this order.

use margay_ir::entity::Value;
use margay_ops::meaning::Desc;
use margay_ops::mods::{MemOrder, Mode, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

use super::Lowered;
use super::function::FunctionLowering;
use super::operand::bits_type;
use super::parts::{At, Parts};
impl FunctionLowering<'_, '_> {
    pub(super) fn store_and_signal(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let object = self.object_of(parts)?;
        let at = self.at(parts, "a", StateSpace::Shared)?;
        let ty = bits_type(parts.resolved.desc().ty.held());
        let mut offset = 0;
        if let Some(operand) = parts.operand("b") {
            for part in self.parts(operand) {
                let value = self.read(&part, ty)?;
                let value = self.held_as(value, ty);
                let address = self.offset_by(at.address, offset);
                let desc = Self::plain_access(Opcode::St, ty, at.space);
                self.b.inst(desc, &[address, value], &[]);
                offset += i64::from(ty.bits() / 8);
            }
        }
        let bytes = self.b.constant(Type::B64, offset as u64);
        self.complete_bytes(object, bytes);
        Ok(())
    }

    /// Tells tools about groups of asynchronous copies. Copies are complete when they are issued, so these instructions
    /// have no other effect.
    pub(super) fn copy_group(&mut self, parts: &Parts<'_>, mode: Mode) -> Lowered<()> {
        let mut args = Vec::new();
        if let Some(operand) = parts.operand("n") {
            args.push(self.read(operand, OpType::U32)?);
        }
        let desc = Desc {
            opcode: Opcode::CheckGroup,
            ty: OpType::None,
            src: OpType::None,
            mods: Mods::NONE.with_mode(mode),
        };
        self.b.inst(desc, &args, &[]);
        Ok(())
    }

    pub(super) fn reduce_and_signal(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let object = self.object_of(parts)?;
        let at = self.at(parts, "a", StateSpace::Shared)?;
        let desc = parts.resolved.desc();
        let ty = desc.ty;
        let Some(operand) = parts.operand("b") else {
            return Ok(());
        };
        let value = self.read(operand, ty)?;
        let value = self.held_as(value, ty);
        self.reduce(at, desc, ty, value);
        let bytes = self.b.constant(Type::B64, u64::from(ty.bits() / 8));
        self.complete_bytes(object, bytes);
        Ok(())
    }

    pub(super) fn reduce(&mut self, at: At, like: Desc, ty: OpType, value: Value) {
        let desc = Desc {
            opcode: Opcode::Red,
            ty,
            src: OpType::None,
            mods: Mods::NONE
                .with_space(at.space)
                .with_atom_op(like.mods.atom_op())
                .with_noftz(like.mods.noftz())
                .with_order(MemOrder::Relaxed),
        };
        self.b.inst(desc, &[at.address, value], &[]);
    }
}
