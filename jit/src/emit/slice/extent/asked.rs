//! Expresses values of a function as sums, and conditions as combinations of comparisons of sums, which CTA range
//! analysis can evaluate.

use cranelift_codegen::ir::condcodes::IntCC;
use margay_ir::entity::Value;
use margay_ir::function::{Function, payload_sreg};
use margay_ops::mods::{BoolOp, Half};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{Kind, OpType};
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};

use super::sum::{Sum, Term};
use crate::emit::fast::integer_condition;

/// Maximum number of operations in a chain through which the analysis traces a value back to its
/// operands.
pub(super) const MAX_DEPTH: u32 = 12;

/// The function and its hoisted values.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) function: &'a Function,
    /// Hoisted values.
    pub(super) known: &'a FxHashSet<Value>,
}

impl Asked<'_> {
    pub(super) fn sum(self, value: Value, depth: u32) -> Option<Sum> {
        let dfg = &self.function.dfg;
        if dfg.ty(value).kind() != Kind::B32 || depth == 0 {
            return None;
        }
        if let Some(bits) = dfg.constant(value) {
            return Some(Sum::constant(i64::from(bits as u32 as i32)));
        }
        if self.known.contains(&value) {
            let term = Term {
                times: 1,
                factors: smallvec![value],
            };
            return Some(Sum {
                base: smallvec![term],
                ..Sum::default()
            });
        }
        let inst = dfg.def_inst(value)?;
        let (data, args) = (&dfg.insts[inst], dfg.args(inst));
        let axis = |axis: usize| {
            let mut sum = Sum::default();
            sum.along[axis].push(Term {
                times: 1,
                factors: SmallVec::new(),
            });
            sum
        };
        if data.opcode == Opcode::SReg {
            return match payload_sreg(data.payload())? {
                SpecialReg::TidX => Some(axis(0)),
                SpecialReg::TidY => Some(axis(1)),
                SpecialReg::TidZ => Some(axis(2)),
                _ => None,
            };
        }
        let plain = data.ty.is_integer()
            && data.ty.bits() == 32
            && data.ty.elements() == 1
            && !data.mods.sat();
        let low = !matches!(data.mods.half(), Half::Hi | Half::Wide);
        let of = |index: usize| self.sum(args[index], depth - 1);
        match (data.opcode, args.len()) {
            (Opcode::Add, 2) if plain => of(0)?.plus(&of(1)?, 1),
            (Opcode::Sub, 2) if plain => of(0)?.plus(&of(1)?, -1),
            (Opcode::Mul, 2) if plain && low => of(0)?.times(&of(1)?),
            (Opcode::Mad, 3) if plain && low => of(0)?.times(&of(1)?)?.plus(&of(2)?, 1),
            (Opcode::Shl, 2) => match dfg.constant(args[1]) {
                Some(count) if count < 31 => of(0)?.times(&Sum::constant(1 << count)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether an unsigned value is certain to wrap: for the first thread, its sum is a negative constant.
    pub(super) fn wraps_for_sure(self, value: Value, signed: bool) -> bool {
        let sum = self.sum(value, MAX_DEPTH);
        let constant = sum.filter(|sum| sum.base.iter().all(|term| term.factors.is_empty()));
        constant.is_some_and(|sum| {
            let base = sum.base.iter().map(|term| term.times);
            !signed && (base.fold(0, i64::wrapping_add) as i32) < 0
        })
    }

    /// Returns the comparison of 32-bit integers that a condition makes: its two operands as sums, whether the operands
    /// are signed, and the comparison operator.
    pub(super) fn compared(self, condition: Value) -> Option<(Sum, Sum, bool, IntCC)> {
        let dfg = &self.function.dfg;
        let inst = dfg.def_inst(condition)?;
        let data = &dfg.insts[inst];
        let ty = match data.src {
            OpType::None => data.ty,
            src => src,
        };
        let (&[_], &[a, b]) = (dfg.results(inst), dfg.args(inst)) else {
            return None;
        };
        let plain = data.opcode == Opcode::Setp && data.mods.bool_op() == BoolOp::None;
        if !plain || !ty.is_integer() || ty.bits() != 32 || ty.elements() != 1 {
            return None;
        }
        let order = integer_condition(data.mods.cmp(), ty.is_signed())?;
        let (a, b) = (self.sum(a, MAX_DEPTH)?, self.sum(b, MAX_DEPTH)?);
        Some((a, b, ty.is_signed(), order))
    }

    /// Returns the opcode of a condition that combines other conditions (`not`, `and`, `or`), and the indices of the
    /// operands that are conditions.
    pub(super) fn parts(self, condition: Value) -> Option<(Opcode, &'static [usize])> {
        let dfg = &self.function.dfg;
        let inst = dfg.def_inst(condition)?;
        if dfg.ty(condition).kind() != Kind::Pred {
            return None;
        }
        match dfg.insts[inst].opcode {
            Opcode::Not => Some((Opcode::Not, &[0])),
            opcode @ (Opcode::And | Opcode::Or) => Some((opcode, &[0, 1])),
            _ => None,
        }
    }

    /// Returns the number of comparisons that a condition needs, or `None` if one of them cannot be evaluated.
    pub(super) fn questions(self, condition: Value, depth: u32) -> Option<usize> {
        if self.known.contains(&condition) {
            return Some(0);
        }
        if self.compared(condition).is_some() {
            return Some(1);
        }
        let (_, parts) = self.parts(condition)?;
        let inst = self.function.dfg.def_inst(condition)?;
        let args = self.function.dfg.args(inst);
        let depth = depth.checked_sub(1)?;
        parts
            .iter()
            .map(|&part| self.questions(args[part], depth))
            .sum()
    }
}
