//! `f16` and `bf16`, scalar and in pairs. Operands are converted exactly to `f32`.
//!
//! `f32` has at least two digits more than twice those of either format, so a sum or product that is rounded to `f32` and
//! then to the format is correctly rounded. A fused product is first rounded to odd.

use cranelift_codegen::ir::condcodes::IntCC;
use margay_ops::meaning::Desc;
use margay_ops::meaning::approx::halves as formats;
use margay_ops::mods::{Mods, Precision, Rounding};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

use super::approx::{self, Emitted};
use super::{Operation, Results, directed, float, one};
use crate::code::Code;
use crate::group::Group;

/// Returns whether elements are `bf16`; `None` if they are neither `f16` nor `bf16`.
fn is_bfloat(ty: OpType) -> Option<bool> {
    match ty {
        OpType::F16 | OpType::F16x2 => Some(false),
        OpType::BF16 | OpType::BF16x2 => Some(true),
        _ => None,
    }
}

/// Converts values of 16 bits, in integers of 32 bits, to `f32`.
pub(super) fn widened(code: &mut Code<'_, '_>, ty: OpType, bits: Group) -> Option<Group> {
    let mut emitted = Emitted(code);
    Some(match is_bfloat(ty)? {
        true => formats::single_of_bfloat(&mut emitted, bits),
        false => formats::single_of_half(&mut emitted, bits),
    })
}

/// Converts `f32` to values of 16 bits, in integers of 32 bits.
pub(super) fn narrowed(code: &mut Code<'_, '_>, ty: OpType, value: Group) -> Option<Group> {
    let mut emitted = Emitted(code);
    Some(match is_bfloat(ty)? {
        true => formats::bfloat_of_single(&mut emitted, value),
        false => formats::half_of_single(&mut emitted, value),
    })
}

/// Returns element `index` of an operand of the type `ty` as `f32`. With `.ftz`, a subnormal element becomes zero.
pub(super) fn element(
    code: &mut Code<'_, '_>,
    op: &Operation<'_>,
    operand: usize,
    (ty, index): (OpType, u32),
) -> Option<Group> {
    let bits = bits_of(code, op, operand, (ty, index))?;
    let bits = match op.desc.mods.ftz() {
        true => flushed(code, ty, bits)?,
        false => bits,
    };
    widened(code, ty, bits)
}

/// Replaces subnormal values of 16 bits by zeros of the same sign.
fn flushed(code: &mut Code<'_, '_>, ty: OpType, bits: Group) -> Option<Group> {
    let least = match is_bfloat(ty)? {
        true => 0x0080,
        false => 0x0400,
    };
    let magnitude = code.and_with(bits, 0x7fff);
    let is_small = code.icmp_with(IntCC::SignedLessThan, magnitude, least);
    let sign = code.and_with(bits, 0x8000);
    Some(code.select(is_small, sign, bits))
}

/// Replaces negative values of 16 bits, among which are no NaNs, by zero.
fn not_negative(code: &mut Code<'_, '_>, bits: Group) -> Group {
    let sign = code.and_with(bits, 0x8000);
    let is_positive = code.icmp_with(IntCC::Equal, sign, 0);
    let zero = code.int(32, 0);
    code.select(is_positive, bits, zero)
}

/// Converts the result of an operation, an `f32`, and applies the modifiers of the operation: `.sat`, `.ftz` and `.relu`.
fn finished(code: &mut Code<'_, '_>, desc: &Desc, result: Group) -> Option<Group> {
    let result = match desc.mods.sat() {
        true => float::saturate(code, result),
        false => result,
    };
    let mut bits = narrowed(code, desc.ty, result)?;
    if desc.mods.ftz() {
        bits = flushed(code, desc.ty, bits)?;
    }
    // The conversion returns a NaN without a sign.
    Some(match desc.mods.relu() && !desc.mods.sat() {
        true => not_negative(code, bits),
        false => bits,
    })
}

/// Returns the bits of element `index` of an operand of the type `ty`.
fn bits_of(
    code: &mut Code<'_, '_>,
    op: &Operation<'_>,
    operand: usize,
    (ty, index): (OpType, u32),
) -> Option<Group> {
    let whole = match ty.bits() {
        16 => op.integer(code, operand, OpType::B16)?,
        _ => op.word(code, operand)?,
    };
    Some(match (ty.bits(), index) {
        (16, _) => whole,
        (_, 0) => code.truncated(whole, 16),
        _ => code.shr(whole, 16),
    })
}

/// Returns the pair of a lower and an upper element of 16 bits, or the only element.
fn with_upper(code: &mut Code<'_, '_>, lower: Option<Group>, bits: Group) -> Group {
    match lower {
        None => bits,
        Some(lower) => {
            let upper = code.shl(bits, 16);
            code.or(upper, lower)
        }
    }
}

/// Emits an operation of each element, whose result is an `f32`, and combines the results.
fn elementwise(
    code: &mut Code<'_, '_>,
    op: &Operation<'_>,
    operation: impl Fn(&mut Code<'_, '_>, &Desc, &[Group]) -> Option<Group>,
) -> Option<Results> {
    let ty = op.desc.ty;
    let mut whole: Option<Group> = None;
    for index in 0..ty.elements() {
        let operands: Vec<Group> = (0..op.args.len())
            .map(|operand| element(code, op, operand, (ty, index)))
            .collect::<Option<_>>()?;
        let result = operation(code, op.desc, &operands)?;
        let bits = finished(code, op.desc, result)?;
        whole = Some(with_upper(code, whole, bits));
    }
    one(whole?)
}

/// Returns modifiers without those that [`finished`] applies.
fn unfinished(mods: Mods) -> Mods {
    mods.with_sat(false).with_ftz(false).with_relu(false)
}

/// Returns whether an operation rounds to nearest and has no modifier besides those that [`finished`] applies.
fn is_plain(desc: &Desc) -> bool {
    let is_nearest = matches!(desc.mods.rounding(), Rounding::None | Rounding::Rn);
    is_nearest && unfinished(desc.mods).with_rounding(Rounding::None) == Mods::NONE
}

pub(super) fn arithmetic(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    (is_plain(op.desc) && op.desc.src == OpType::None).then_some(())?;
    elementwise(code, op, |code, desc, x| {
        Some(match (desc.opcode, x) {
            (Opcode::Add, &[a, b]) => code.fadd(a, b),
            (Opcode::Sub, &[a, b]) => code.fsub(a, b),
            (Opcode::Mul, &[a, b]) => code.fmul(a, b),
            // The product of two `bf16` may be too small for `f32`.
            (Opcode::Fma, &[a, b, c]) if is_bfloat(desc.ty)? => {
                directed::fused_to_odd(code, a, b, c)
            }
            (Opcode::Fma, &[a, b, c]) => formats::fused_to_odd(&mut Emitted(code), a, b, c),
            _ => return None,
        })
    })
}

pub(super) fn extreme(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let mods = op.desc.mods;
    let is_known = mods.with_nan(false).with_ftz(false) == Mods::NONE && op.args.len() == 2;
    is_known.then_some(())?;
    elementwise(code, op, |code, desc, x| {
        let chosen = float::chosen(code, x[0], x[1], desc.opcode == Opcode::Min);
        Some(match desc.mods.nan() {
            true => float::or_nan(code, x[0], x[1], chosen),
            false => chosen,
        })
    })
}

/// Computes an approximate function of each element. `.ftz` applies to the format of the elements.
pub(super) fn function(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let mods = op.desc.mods;
    (code.has_fma && mods.with_ftz(false).with_precision(Precision::None) == Mods::NONE)
        .then_some(())?;
    elementwise(code, op, |code, desc, x| {
        Some(approx::evaluated(code, desc.opcode, x[0], false))
    })
}

/// Inverts or clears the sign bits.
pub(super) fn sign(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    (op.desc.mods == Mods::NONE).then_some(())?;
    let bits = match op.desc.ty.elements() {
        1 => op.integer(code, 0, OpType::B16)?,
        _ => op.word(code, 0)?,
    };
    let signs = code.int(32, 0x8000_8000);
    let result = match op.desc.opcode {
        Opcode::Neg => code.xor(bits, signs),
        _ => code.and_not(bits, signs),
    };
    one(result)
}

/// Converts `f32` to one value of 16 bits, or two of them to a pair, of which the first operand is the upper one.
pub(super) fn of_singles(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (ty, mods) = (op.desc.ty, op.desc.mods);
    let is_known = mods.rounding() == Rounding::Rn
        && unfinished(mods).with_rounding(Rounding::None) == Mods::NONE
        && op.args.len() as u32 == ty.elements();
    is_known.then_some(())?;
    // `.ftz` applies to the operands only.
    let of_result = Desc {
        mods: mods.with_ftz(false),
        ..*op.desc
    };
    let mut whole = None;
    for index in (0..op.args.len()).rev() {
        let value = op.float(code, index, OpType::F32, mods.ftz())?;
        let bits = finished(code, &of_result, value)?;
        whole = Some(with_upper(code, whole, bits));
    }
    one(whole?)
}

/// Returns the operand of a conversion, one value of 16 bits, as `f32`.
pub(super) fn source(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Group> {
    (op.desc.src.elements() == 1).then_some(())?;
    let bits = bits_of(code, op, 0, (op.desc.src, 0))?;
    widened(code, op.desc.src, bits)
}

/// Converts an `f32` that is the exact result of a conversion to one value of 16 bits.
pub(super) fn of_exact(
    code: &mut Code<'_, '_>,
    op: &Operation<'_>,
    value: Group,
) -> Option<Results> {
    let mods = op.desc.mods;
    let is_known = !mods.sat() && !mods.relu() && op.desc.ty.elements() == 1;
    is_known.then_some(())?;
    one(narrowed(code, op.desc.ty, value)?)
}
