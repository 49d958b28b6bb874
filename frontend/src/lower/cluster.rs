//! Lowers instructions for addresses in the shared memory of a cluster: `mapa` and `getctarank` (PTX ISA
//! 9.7.9.23 and 9.7.9.24).
//!
//! Such an address is an offset from the start of the cluster's window, the address range for the
//! shared memory of all its blocks. Its high bits are the rank of the block that owns the memory
//! (`margay_exec::LaunchInfo::shared_shift` is the position of these bits). The result of a `mapa`
//! to a rank that does not exist in the cluster, or of an address outside of the window, is an
//! address outside of the window. Compilers may move a `mapa` before the code that tests whether
//! the rank exists, so the `mapa` itself must not end the launch.

use margay_ir::entity::Value;
use margay_ops::meaning::Desc;
use margay_ops::mods::{CmpOp, Mode, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{OpType, Type};

use super::Lowered;
use super::function::FunctionLowering;
use super::parts::Parts;

/// A shared address that is not in the window of any cluster. The sum of this address and a small
/// positive or negative offset is not in a window either.
const OUTSIDE: u64 = 0xc000_0000;

impl FunctionLowering<'_, '_> {
    /// Returns the position, counted from bit 0, of the lowest bit of the block's rank in an
    /// address of the cluster's shared memory.
    fn shared_shift(&mut self) -> Value {
        self.b.sreg(SpecialReg::SharedShift)
    }

    /// Returns the rank of the block to whose shared memory the 32-bit address `offset` refers.
    fn rank_of(&mut self, offset: Value) -> Value {
        let shift = self.shared_shift();
        self.b.simple(Opcode::Shr, OpType::U32, &[offset, shift])
    }

    /// Replaces the rank in the shared address `offset` by `rank`. The result is the address with the same offset in
    /// the shared memory of block `rank`, which must exist in the cluster.
    pub(super) fn in_block(&mut self, offset: Value, rank: Value) -> Value {
        let shift = self.shared_shift();
        let one = self.b.constant(Type::B32, 1);
        let span = self.b.simple(Opcode::Shl, OpType::B32, &[one, shift]);
        let within = self.b.simple(Opcode::Sub, OpType::U32, &[span, one]);
        let within = self.b.simple(Opcode::And, OpType::B32, &[offset, within]);
        let start = self.b.simple(Opcode::Shl, OpType::B32, &[rank, shift]);
        self.b.simple(Opcode::Or, OpType::B32, &[start, within])
    }

    /// Emits a `cvta`, which converts a generic address to an address of `.shared::cluster` or the
    /// reverse; `mode` selects the direction.
    fn cvta_shared(&mut self, address: Value, mode: Mode) -> Value {
        let desc = Desc {
            opcode: Opcode::Cvta,
            ty: OpType::U64,
            src: OpType::None,
            mods: Mods::NONE
                .with_space(StateSpace::SharedCluster)
                .with_mode(mode),
        };
        self.b.op(desc, &[address], Type::B64)
    }

    /// Converts the address in operand `a` to a 32-bit address in the cluster's window. Also returns whether `a` is a
    /// generic address. Returns `None` if there is no operand `a`.
    fn shared_offset(&mut self, parts: &Parts<'_>) -> Lowered<Option<(Value, bool)>> {
        let Some(operand) = parts.operand("a") else {
            return Ok(None);
        };
        let ty = parts.words.last();
        let is_wide = ty.is_some_and(|&word| word == "u64");
        let ty = if is_wide { OpType::U64 } else { OpType::U32 };
        let value = self.read(operand, ty)?;
        let value = self.cut_to(value, ty);
        let value = self.convert(value, ty, OpType::U64);
        let is_generic = parts.space() == StateSpace::None;
        let value = match is_generic {
            true => self.cvta_shared(value, Mode::To),
            false => value,
        };
        Ok(Some((
            self.convert(value, OpType::U64, OpType::U32),
            is_generic,
        )))
    }

    pub(super) fn mapa(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let ty = parts.resolved.desc().ty;
        let (Some((offset, is_generic)), Some(rank)) =
            (self.shared_offset(parts)?, parts.operand("b"))
        else {
            return Ok(());
        };
        let rank = self.read(rank, OpType::U32)?;
        let rank = self.cut_to(rank, OpType::U32);
        let blocks = self.b.sreg(SpecialReg::ClusterNctarank);
        let known = self.compare(CmpOp::Lt, OpType::U32, rank, blocks);
        let from = self.rank_of(offset);
        let inside = self.compare(CmpOp::Lt, OpType::U32, from, blocks);
        let known = self.b.simple(Opcode::And, OpType::Pred, &[known, inside]);
        let value = self.in_block(offset, rank);
        let outside = self.b.constant(Type::B32, OUTSIDE);
        let select = Desc {
            opcode: Opcode::Selp,
            ty: OpType::B32,
            src: OpType::None,
            mods: Mods::NONE,
        };
        let value = self.b.op(select, &[value, outside, known], Type::B32);
        let value = self.convert(value, OpType::U32, OpType::U64);
        let value = match is_generic {
            true => self.cvta_shared(value, Mode::None),
            false => value,
        };
        let value = self.cut_to(value, ty);
        self.give(parts, value, ty)
    }

    pub(super) fn rank_of_address(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let Some((offset, _)) = self.shared_offset(parts)? else {
            return Ok(());
        };
        let rank = self.rank_of(offset);
        self.give(parts, rank, OpType::U32)
    }
}
