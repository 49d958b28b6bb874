//! Arithmetic of `f32` and `f64`. [`super::directed`] contains sums and products of `f32` that are not rounded to nearest.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use margay_ops::meaning::Desc;
use margay_ops::mods::{Precision, Rounding};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

use super::{Domain, Operation, Results, directed, halves, one};
use crate::code::Code;
use crate::group::Group;

/// Replaces subnormal `f32` by zeros of the same sign.
pub(super) fn flush(code: &mut Code<'_, '_>, a: Group) -> Group {
    let bits = code.as_int(a);
    let magnitude = code.and_with(bits, 0x7fff_ffff);
    let is_small = code.icmp_with(IntCC::SignedLessThan, magnitude, 0x0080_0000);
    let mask = code.mask(is_small);
    let dropped = code.and_with(mask, 0x7fff_ffff);
    let kept = code.and_not(bits, dropped);
    code.as_float(kept)
}

/// Limits numbers to the range from 0 to 1; a NaN becomes 0.
pub(super) fn saturate(code: &mut Code<'_, '_>, a: Group) -> Group {
    let bits = code.bits(a);
    let (zero, one) = (code.float(bits, 0.0), code.float(bits, 1.0));
    let above = code.fcmp(FloatCC::GreaterThan, a, zero);
    let floored = code.select(above, a, zero);
    let below = code.fcmp(FloatCC::LessThan, floored, one);
    code.select(below, floored, one)
}

/// Applies `.ftz` and `.sat` to a result.
pub(super) fn finish(code: &mut Code<'_, '_>, desc: &Desc, result: Group) -> Group {
    let mut result = result;
    if desc.mods.ftz() && code.bits(result) == 32 {
        result = flush(code, result);
    }
    match desc.mods.sat() {
        true => saturate(code, result),
        false => result,
    }
}

/// Returns whether an operation of `f64` has `.sat`, which keeps the NaN of an operand.
fn is_limited_double(desc: &Desc) -> bool {
    desc.ty == OpType::F64 && desc.mods.sat()
}

fn is_nearest(desc: &Desc) -> bool {
    matches!(desc.mods.rounding(), Rounding::None | Rounding::Rn)
}

/// Returns whether an operation is one of the correctly rounded ones to nearest, without modifiers that this module does
/// not implement.
fn is_plain(desc: &Desc) -> bool {
    is_nearest(desc) && desc.mods.precision() == Precision::None && !desc.mods.relu()
}

/// Emits a sum, a difference, a product or a fused product of operands whose subnormal numbers are flushed.
fn rounded(code: &mut Code<'_, '_>, desc: &Desc, x: &[Group]) -> Option<Group> {
    let mods = desc.mods;
    if mods.relu() || mods.precision() != Precision::None || is_limited_double(desc) {
        return None;
    }
    if !is_nearest(desc) {
        let is_single = code.bits(x[0]) == 32;
        return is_single.then(|| directed::result(code, desc, x))?;
    }
    Some(match (desc.opcode, x) {
        (Opcode::Add, &[a, b]) => code.fadd(a, b),
        (Opcode::Sub, &[a, b]) => code.fsub(a, b),
        (Opcode::Mul, &[a, b]) => code.fmul(a, b),
        (Opcode::Fma, &[a, b, c]) if code.has_fma => code.fma(a, b, c),
        _ => return None,
    })
}

/// Lowers a sum, a difference, a product or a fused product. In mixed forms, all operands except the last have a narrower
/// type, and are converted exactly.
fn arithmetic(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (desc, mods) = (op.desc, op.desc.mods);
    let is_mixed = Domain::of(desc.src) == Domain::Half;
    if is_mixed && desc.ty != OpType::F32 {
        return None;
    }
    let last = op.args.len() - 1;
    let operands: Vec<Group> = (0..op.args.len())
        .map(|index| match is_mixed && index < last {
            true => halves::element(code, op, index, (desc.src, 0)),
            false => op.float(code, index, desc.ty, mods.ftz()),
        })
        .collect::<Option<_>>()?;
    let result = rounded(code, desc, &operands)?;
    one(finish(code, desc, result))
}

pub(super) fn add(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    arithmetic(code, op)
}

pub(super) fn sub(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    arithmetic(code, op)
}

pub(super) fn mul(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    arithmetic(code, op)
}

pub(super) fn fma(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    (!op.desc.mods.oob()).then_some(())?;
    arithmetic(code, op)
}

/// Lowers arithmetic of pairs of `f32`, which are in 64 bits.
pub(super) fn pair(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    (op.desc.src == OpType::None && !op.desc.mods.oob()).then_some(())?;
    let whole: Vec<Group> = (0..op.args.len())
        .map(|index| op.integer(code, index, OpType::B64))
        .collect::<Option<_>>()?;
    let mut half = |is_upper: bool| {
        let operands: Vec<Group> = whole
            .iter()
            .map(|&pair| {
                let words = match is_upper {
                    true => code.high_words(pair),
                    false => code.low_words(pair),
                };
                let value = code.as_float(words);
                match op.desc.mods.ftz() {
                    true => flush(code, value),
                    false => value,
                }
            })
            .collect();
        let result = rounded(code, op.desc, &operands)?;
        let result = finish(code, op.desc, result);
        Some(code.as_int(result))
    };
    let (low, high) = (half(false)?, half(true)?);
    one(code.join_words(low, high))
}

/// Returns whether an operation with an approximate variant is the correctly rounded one, which it is for `f32`.
fn is_exact(desc: &Desc) -> bool {
    is_nearest(desc)
        && !desc.mods.relu()
        && !is_limited_double(desc)
        && (desc.mods.precision() == Precision::None || desc.ty == OpType::F32)
}

pub(super) fn div(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let desc = op.desc;
    is_exact(desc).then_some(())?;
    let a = op.float(code, 0, desc.ty, desc.mods.ftz())?;
    let mut b = op.float(code, 1, desc.ty, desc.mods.ftz())?;
    if desc.mods.precision() == Precision::Approx {
        b = limited(code, b);
    }
    let quotient = code.fdiv(a, b);
    one(finish(code, desc, quotient))
}

/// Replaces divisors above 2^126 by infinity, as `.approx` does.
fn limited(code: &mut Code<'_, '_>, b: Group) -> Group {
    let limit = code.float_of_bits(32, 0x7e80_0000);
    let size = code.fabs(b);
    let is_large = code.fcmp(FloatCC::GreaterThan, size, limit);
    let bits = code.as_int(b);
    let sign = code.and_with(bits, 0x8000_0000);
    let infinity = code.int(32, 0x7f80_0000);
    let infinite = code.or(sign, infinity);
    let infinite = code.as_float(infinite);
    code.select(is_large, infinite, b)
}

pub(super) fn rcp(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    is_exact(op.desc).then_some(())?;
    let a = op.float(code, 0, op.desc.ty, op.desc.mods.ftz())?;
    let one_ = code.float(code.bits(a), 1.0);
    let result = code.fdiv(one_, a);
    one(finish(code, op.desc, result))
}

pub(super) fn sqrt(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    is_exact(op.desc).then_some(())?;
    let a = op.float(code, 0, op.desc.ty, op.desc.mods.ftz())?;
    let result = code.sqrt(a);
    one(finish(code, op.desc, result))
}

/// Lowers `rsqrt`. The form of `f64` with `.ftz` has fewer significant bits and is not supported.
pub(super) fn rsqrt(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (desc, mods) = (op.desc, op.desc.mods);
    let is_supported = desc.ty == OpType::F32 || !mods.ftz();
    (is_supported && is_nearest(desc) && !mods.relu() && !mods.sat()).then_some(())?;
    let a = op.float(code, 0, desc.ty, mods.ftz())?;
    let root = code.sqrt(a);
    let one_ = code.float(code.bits(a), 1.0);
    let result = code.fdiv(one_, root);
    one(finish(code, desc, result))
}

fn sign(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Group> {
    let desc = op.desc;
    (is_plain(desc) && !desc.mods.sat()).then_some(())?;
    op.float(code, 0, desc.ty, desc.mods.ftz())
}

pub(super) fn neg(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let a = sign(code, op)?;
    one(code.fneg(a))
}

pub(super) fn abs(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let a = sign(code, op)?;
    one(code.fabs(a))
}

pub(super) fn copysign(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let ty = op.desc.ty;
    let sign = op.integer(code, 0, ty)?;
    let magnitude = op.integer(code, 1, ty)?;
    let top = code.int(ty.bits(), 1 << (ty.bits() - 1));
    one(code.merge(top, sign, magnitude))
}

/// Returns the lesser or the greater of two numbers. If one is NaN, it is the other one; -0 is less than +0.
pub(super) fn chosen(code: &mut Code<'_, '_>, a: Group, b: Group, is_min: bool) -> Group {
    let order = match is_min {
        true => FloatCC::LessThan,
        false => FloatCC::GreaterThan,
    };
    let is_first = code.fcmp(order, a, b);
    let chosen = code.select(is_first, a, b);
    let is_nan = code.fcmp(FloatCC::Unordered, b, b);
    let chosen = code.select(is_nan, a, chosen);
    // Equal operands differ only in the sign of zero.
    let (x, y) = (code.as_int(a), code.as_int(b));
    let merged = match is_min {
        true => code.or(x, y),
        false => code.and(x, y),
    };
    let merged = code.as_float(merged);
    let is_equal = code.fcmp(FloatCC::Equal, a, b);
    code.select(is_equal, merged, chosen)
}

/// Replaces the result by a NaN where an operand is NaN.
pub(super) fn or_nan(code: &mut Code<'_, '_>, a: Group, b: Group, result: Group) -> Group {
    let is_nan = code.fcmp(FloatCC::Unordered, a, b);
    let nan = match code.bits(a) {
        64 => code.float_of_bits(64, 0xfff8_0000_0000_0000),
        _ => code.float_of_bits(32, 0x7fff_ffff),
    };
    code.select(is_nan, nan, result)
}

pub(super) fn extreme(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (desc, mods) = (op.desc, op.desc.mods);
    let is_known = !mods.relu() && !mods.xorsign_abs() && !mods.sat();
    (is_known && !op.args.is_empty()).then_some(())?;
    let operands: Vec<Group> = (0..op.args.len())
        .map(|index| {
            let value = op.float(code, index, desc.ty, mods.ftz())?;
            Some(match mods.abs() {
                true => code.fabs(value),
                false => value,
            })
        })
        .collect::<Option<_>>()?;
    let mut result = operands[0];
    for &operand in &operands[1..] {
        let next = chosen(code, result, operand, desc.opcode == Opcode::Min);
        result = match mods.nan() {
            true => or_nan(code, result, operand, next),
            false => next,
        };
    }
    one(result)
}
