//! Splits vectors of 64-bit elements that fill several registers into their halves of 32 bits, and joins halves, by
//! permutations of two registers.
//!
//! Programs that load or store pairs of 32-bit values do this with conversions and shifts by 32 bits.

use margay_ir::entity::Value;
use margay_ir::function::ValueDef;
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_vir::data::Data;
use margay_vir::ops::Op as VirOp;
use smallvec::SmallVec;

use super::{Regs, Selector};
use crate::asm::Op;

/// Whether an operation converts integers without a change of their bits, except that upper bits are dropped or zero.
fn is_resize(desc: &Desc, to: u32, from: u32) -> bool {
    desc.opcode == Opcode::Cvt
        && desc.mods == Mods::NONE
        && [desc.ty, desc.src]
            .iter()
            .all(|ty| ty.is_integer() && ty.elements() == 1)
        && (desc.ty.bits(), desc.src.bits()) == (to, from)
        && (to < from || !desc.src.is_signed())
}

impl Selector<'_> {
    /// Selects operations that split or join elements of 64 bits. Returns whether the current instruction is one.
    pub(super) fn split_or_join(&mut self, desc: &Desc) -> bool {
        let (vir, inst) = (self.vir, self.inst);
        let Some(ty) = vir.insts[inst].ty.filter(|_| self.has_masks()) else {
            return false;
        };
        if 64 * ty.lanes() < 2 * self.width {
            return false;
        }
        let regs = match (desc.opcode, vir.args(inst)) {
            (Opcode::Cvt, &[of]) if is_resize(desc, 32, 64) => self.split(of),
            (Opcode::Or, &[a, b]) if ty.lane_bits() == 64 => self.joined_words(a, b),
            _ => None,
        };
        let found = regs.is_some();
        if let Some(regs) = regs {
            self.define(0, regs);
        }
        found
    }

    /// Returns the operation and the operands of a vector of 64-bit elements that a `map` computes.
    fn operation_of(&self, value: Value) -> Option<(Desc, &[Value])> {
        let vir = self.vir;
        let ValueDef::Result(inst, 0) = vir.values[value].def else {
            return None;
        };
        let data = &vir.insts[inst];
        match (data.op, data.data, data.ty) {
            (VirOp::Map, Data::Lane(desc), Some(ty)) if ty.lane_bits() == 64 && ty.lanes() > 1 => {
                Some((desc, vir.args(inst)))
            }
            _ => None,
        }
    }

    /// If a value is a vector that is shifted by 32 bits, returns the vector.
    fn shifted_by_half(&self, value: Value, opcode: Opcode) -> Option<Value> {
        let (desc, args) = self.operation_of(value)?;
        let &[of, by] = args else {
            return None;
        };
        let is_shift = desc.opcode == opcode && desc.mods == Mods::NONE && desc.ty.bits() == 64;
        let is_unsigned = opcode == Opcode::Shl || !desc.ty.is_signed();
        let is_half = self.constants[by] == Some(32);
        (is_shift && is_unsigned && is_half && self.vir.ty(of).lanes() > 1).then_some(of)
    }

    /// Returns the registers of a vector of elements with these bits, which is not a constant.
    fn vector_regs(&mut self, value: Value, bits: u32) -> Option<Regs> {
        let val = self.val(value);
        let is_vector = val.ty.lanes() > 1 && val.ty.lane_bits() == bits && val.bits.is_none();
        is_vector.then_some(val.regs)
    }

    /// Returns the lower half of each element of a vector; the upper half, if the vector is shifted by 32 bits.
    fn split(&mut self, of: Value) -> Option<Regs> {
        let (of, first) = match self.shifted_by_half(of, Opcode::Shr) {
            Some(of) => (of, 1),
            None => (of, 0),
        };
        let regs = self.vector_regs(of, 64)?;
        let index = self.word_index((0..).map(|n| 2 * n + first));
        let len = self.widest();
        let pairs = regs.chunks(2);
        let pairs: SmallVec<[Regs; 4]> = pairs.map(Regs::from).collect();
        let pairs = pairs.into_iter();
        Some(
            pairs
                .map(|pair| self.v3(Op::Vpermt2d, len, pair[0], index, pair[1], None))
                .collect(),
        )
    }

    /// Returns the elements whose halves are the operands of a disjunction.
    fn joined_words(&mut self, a: Value, b: Value) -> Option<Regs> {
        let (low, high) = match self.shifted_by_half(b, Opcode::Shl) {
            Some(high) => (a, high),
            None => (b, self.shifted_by_half(a, Opcode::Shl)?),
        };
        let low = self.extended_words(low)?;
        let high = self.extended_words(high)?;
        let count = i64::from(self.width / 64);
        let len = self.widest();
        let indices = [0, count].map(|first| {
            self.word_index((0..).map(move |n| {
                let word = first + n / 2;
                (word + n % 2 * 2 * count) as u64
            }))
        });
        let pairs: SmallVec<[_; 4]> = low.into_iter().zip(high).collect();
        let halves = pairs
            .into_iter()
            .flat_map(|pair| indices.map(|index| (pair, index)));
        let halves: SmallVec<[_; 8]> = halves.collect();
        let halves = halves.into_iter();
        Some(
            halves
                .map(|((low, high), index)| self.v3(Op::Vpermt2d, len, low, index, high, None))
                .collect(),
        )
    }

    /// Returns the registers of the 32-bit elements that a value extends with zeros.
    fn extended_words(&mut self, value: Value) -> Option<Regs> {
        let (desc, args) = self.operation_of(value)?;
        let &[of] = args else {
            return None;
        };
        if !is_resize(&desc, 64, 32) {
            return None;
        }
        self.vector_regs(of, 32)
    }

    /// Returns a register with these numbers of words.
    fn word_index(&mut self, words: impl Iterator<Item = u64>) -> regalloc2::VReg {
        let count = self.width as usize / 32;
        let words: SmallVec<[u64; 16]> = words.take(count).collect();
        self.vector_constant(32, words.into_iter())
    }
}
