//! Logic and shifts.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ops::mods::{BoolOp, Mode};

use super::{Domain, Operand, Operation, Results, one};
use crate::code::Code;
use crate::group::Group;

/// Returns an operand of a logic operation: integers, or truth values.
fn logical(code: &mut Code<'_, '_>, op: &Operation<'_>, index: usize) -> Option<Group> {
    match Domain::of(op.desc.ty) {
        Domain::Pred => op.truth(index),
        _ => op.integer(code, index, op.desc.ty),
    }
}

macro_rules! logic {
    ($($name:ident)*) => {$(
        pub(super) fn $name(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
            let (a, b) = (logical(code, op, 0)?, logical(code, op, 1)?);
            one(code.$name(a, b))
        }
    )*};
}

logic! { and or xor }

pub(super) fn not(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let a = logical(code, op, 0)?;
    one(code.not(a))
}

pub(super) fn negate(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let a = op.truth(0)?;
    one(code.negate(a))
}

pub(super) fn cnot(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let a = logical(code, op, 0)?;
    let is_zero = code.icmp_with(IntCC::Equal, a, 0);
    one(code.zero_or_one(code.bits(a), is_zero))
}

/// Combines two truth values.
pub(super) fn combined(code: &mut Code<'_, '_>, op: BoolOp, a: Group, b: Group) -> Group {
    match op {
        BoolOp::None => a,
        BoolOp::And => code.and(a, b),
        BoolOp::Or => code.or(a, b),
        BoolOp::Xor => code.xor(a, b),
    }
}

/// Emits the bitwise function of `b` and `c` whose truth table is `table`: bit `2b+c` of the table is the result.
fn of_two(code: &mut Code<'_, '_>, table: u8, b: Group, c: Group) -> Group {
    // A table with the highest bit clear has a direct form, as has the inverse of every other table.
    if table & 8 != 0 && !matches!(table, 0x8 | 0xa | 0xc | 0xe) {
        let inverse = of_two(code, !table & 15, b, c);
        return code.not(inverse);
    }
    match table {
        0x1 => {
            let any = code.or(b, c);
            code.not(any)
        }
        0x2 => code.and_not(c, b),
        0x3 => code.not(b),
        0x4 => code.and_not(b, c),
        0x5 => code.not(c),
        0x6 => code.xor(b, c),
        0x7 => {
            let both = code.and(b, c);
            code.not(both)
        }
        0x8 => code.and(b, c),
        0xa => c,
        0xc => b,
        0xe => code.or(b, c),
        _ => code.int(32, 0),
    }
}

pub(super) fn lop3(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let table = op.arg(3)?.known? as u8;
    let (a, b, c) = (op.word(code, 0)?, op.word(code, 1)?, op.word(code, 2)?);
    let (set, clear) = (table >> 4, table & 15);
    let result = match set ^ clear {
        0 => of_two(code, set, b, c),
        15 => {
            let base = of_two(code, clear, b, c);
            code.xor(a, base)
        }
        _ => {
            let (set, clear) = (of_two(code, set, b, c), of_two(code, clear, b, c));
            code.merge(a, set, clear)
        }
    };
    let mut results = one(result)?;
    if op.results.len() > 1 {
        let is_set = code.icmp_with(IntCC::NotEqual, result, 0);
        let other = match op.desc.mods.bool_op() {
            BoolOp::None => is_set,
            _ => op.truth(4)?,
        };
        results.push(combined(code, op.desc.mods.bool_op(), is_set, other));
    }
    Some(results)
}

/// How lanes are shifted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shift {
    Left,
    Right,
    /// To the right; the new bits are copies of the sign bit.
    Signed,
}

impl Shift {
    fn emit(self, code: &mut Code<'_, '_>, a: Group, by: ir::Value) -> Group {
        a.map(|a| match self {
            Shift::Left => code.b.ins().ishl(a, by),
            Shift::Right => code.b.ins().ushr(a, by),
            Shift::Signed => code.b.ins().sshr(a, by),
        })
    }

    /// Shifts lanes by an amount that is the same for all lanes and may exceed the width.
    fn bounded(self, code: &mut Code<'_, '_>, a: Group, amount: &Operand) -> Option<Group> {
        let by = amount.uniform?;
        let bits = code.bits(a);
        let last = bits - 1;
        if let Some(known) = amount.known {
            let known = known as u32;
            return Some(match (self, known <= last) {
                (Shift::Signed, _) => code.sar(a, known.min(last)),
                (_, false) => code.int(bits, 0),
                (Shift::Left, true) => code.shl(a, known),
                (Shift::Right, true) => code.shr(a, known),
            });
        }
        let limit = code.b.ins().iconst(types::I32, i64::from(last));
        let inside = code.b.ins().umin(by, limit);
        let shifted = self.emit(code, a, inside);
        if self == Shift::Signed {
            return Some(shifted);
        }
        // If the amount is at least the width, no bit is left.
        let b = &mut *code.b;
        let keeps = b.ins().icmp(IntCC::UnsignedLessThanOrEqual, by, limit);
        let word = b.ins().uextend(types::I64, keeps);
        let mask = b.ins().ineg(word);
        let ty = b.func.dfg.value_type(shifted[0]);
        let mask = match ty.lane_bits() {
            64 => mask,
            _ => b.ins().ireduce(types::I32, mask),
        };
        let mask = match code.is_vector() {
            true => code.b.ins().splat(ty, mask),
            false => mask,
        };
        Some(shifted.map(|a| code.b.ins().band(a, mask)))
    }
}

pub(super) fn shl(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let a = op.integer(code, 0, op.desc.ty)?;
    one(Shift::Left.bounded(code, a, op.arg(1)?)?)
}

pub(super) fn shr(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let a = op.integer(code, 0, op.desc.ty)?;
    let shift = match op.desc.ty.is_signed() {
        true => Shift::Signed,
        false => Shift::Right,
    };
    one(shift.bounded(code, a, op.arg(1)?)?)
}

pub(super) fn shf(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let is_left = match op.desc.mods.mode() {
        Mode::Left => true,
        // The reference function shifts to the right in every other mode.
        _ => false,
    };
    let (low, high) = (op.word(code, 0)?, op.word(code, 1)?);
    let amount = op.arg(2)?;
    let wraps = op.desc.mods.flag();
    if let Some(known) = amount.known {
        let by = match wraps {
            true => known as u32 & 31,
            false => (known as u32).min(32),
        };
        return one(funnel(code, low, high, if is_left { by } else { 32 - by }));
    }
    let by = amount.uniform?;
    let by = match wraps {
        true => code.b.ins().band_imm_u(by, 31),
        false => {
            let limit = code.b.ins().iconst(types::I32, 32);
            code.b.ins().umin(by, limit)
        }
    };
    let whole = code.join_words(low, high);
    one(match is_left {
        true => {
            let moved = Shift::Left.emit(code, whole, by);
            code.high_words(moved)
        }
        false => {
            let moved = Shift::Right.emit(code, whole, by);
            code.low_words(moved)
        }
    })
}

/// Returns the upper word of 64 bits that are shifted left by `by` bits, at most 32.
fn funnel(code: &mut Code<'_, '_>, low: Group, high: Group, by: u32) -> Group {
    match by {
        0 => high,
        32 => low,
        _ => {
            let above = code.shl(high, by);
            let below = code.shr(low, 32 - by);
            code.or(above, below)
        }
    }
}
