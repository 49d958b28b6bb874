//! Conversions among integers, `f32` and `f64`, and the dispatch to those of 16-bit floating-point formats.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Type, types};
use margay_ops::mods::Rounding;
use margay_ops::types::OpType;

use super::{Domain, Operation, Results, float, halves, one};
use crate::code::Code;
use crate::group::Group;

pub(super) fn cvt(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let mods = op.desc.mods;
    if mods.satfinite() {
        return None;
    }
    let (to, from) = (Domain::of(op.desc.ty), Domain::of(op.desc.src));
    if to == Domain::Half && op.desc.src == OpType::F32 {
        return halves::of_singles(code, op);
    }
    if mods.relu() {
        return None;
    }
    match (to, from) {
        (Domain::Integer, Domain::Integer) => between_integers(code, op),
        (Domain::Float, Domain::Integer) => to_float(code, op),
        (Domain::Half, Domain::Integer) => integer_to_half(code, op),
        (Domain::Integer, Domain::Float) => {
            let value = op.float(code, 0, op.desc.src, mods.ftz())?;
            to_integer(code, op, value)
        }
        (Domain::Integer, Domain::Half) => {
            let value = halves::source(code, op)?;
            to_integer(code, op, value)
        }
        (Domain::Float, Domain::Float) => between_floats(code, op),
        (Domain::Float, Domain::Half) => from_half(code, op),
        (Domain::Half, Domain::Half) => between_halves(code, op),
        _ => None,
    }
}

/// Returns the source as integers of 32 or 64 bits that are extended as its type says. The operand may be wider.
fn source(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Group> {
    let (ty, operand) = (op.desc.src, op.arg(0)?);
    if operand.kind.bits() < ty.bits() || operand.kind.bits() > 64 {
        return None;
    }
    let mut lanes = code.as_int(operand.group);
    if code.bits(lanes) == 64 && ty.bits() < 64 {
        lanes = code.low_words(lanes);
    }
    Some(match ty.is_signed() {
        true => code.sign_extended(lanes, ty.bits()),
        false => code.truncated(lanes, ty.bits()),
    })
}

/// Returns the least and the greatest integer of a type; that of a signed type is sign-extended.
fn range(ty: OpType) -> (u64, u64) {
    let greatest = u64::MAX >> (64 - ty.bits() + u32::from(ty.is_signed()));
    (if ty.is_signed() { !greatest } else { 0 }, greatest)
}

fn between_integers(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (to, from) = (op.desc.ty, op.desc.src);
    let mut lanes = source(code, op)?;
    if op.desc.mods.sat() {
        lanes = limited(code, lanes, to, from);
    }
    one(match (code.bits(lanes), to.bits()) {
        (32, 64) => code.widen(lanes, from.is_signed()),
        (64, ..=32) => code.low_words(lanes),
        _ => lanes,
    })
}

/// Limits integers of the type `from` to the range of the type `to`.
fn limited(code: &mut Code<'_, '_>, lanes: Group, to: OpType, from: OpType) -> Group {
    let bits = code.bits(lanes);
    let signed = from.is_signed();
    let (least, greatest) = range(to);
    let (low, high) = range(from);
    let mut lanes = lanes;
    if signed && (least as i64) > (low as i64) {
        let least = code.int(bits, least);
        lanes = code.extreme(lanes, least, true, true);
    }
    if greatest < high {
        let greatest = code.int(bits, greatest);
        lanes = code.extreme(lanes, greatest, false, signed);
    }
    lanes
}

fn float_type(code: &Code<'_, '_>, ty: OpType) -> Type {
    match (ty, code.is_vector()) {
        (OpType::F64, true) => types::F64X2,
        (OpType::F64, false) => types::F64,
        (_, true) => types::F32X4,
        (_, false) => types::F32,
    }
}

fn to_float(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (to, from) = (op.desc.ty, op.desc.src);
    let digits = if to == OpType::F64 { 53 } else { 24 };
    let is_exact = from.bits() <= digits;
    let is_nearest = op.desc.mods.rounding() == Rounding::Rn;
    if !(is_nearest || is_exact) || op.desc.mods.sat() {
        return None;
    }
    if code.is_vector() && from.bits() == 64 {
        return None;
    }
    let lanes = source(code, op)?;
    // Narrower unsigned integers are not negative as signed integers of 32 bits.
    let signed = from.is_signed() || from.bits() < 32;
    let ty = float_type(code, to);
    if !code.is_vector() || to == OpType::F32 {
        return one(lanes.map(|a| match signed {
            true => code.b.ins().fcvt_from_sint(ty, a),
            false => code.b.ins().fcvt_from_uint(ty, a),
        }));
    }
    let wide = code.widen(lanes, signed);
    if signed {
        return one(wide.map(|a| code.b.ins().fcvt_from_sint(ty, a)));
    }
    // An integer below 2^32 is the fraction of a number from 2^52 on.
    let power = code.int(64, 0x4330_0000_0000_0000);
    let sum = code.or(wide, power);
    let (sum, power) = (code.as_float(sum), code.as_float(power));
    one(code.fsub(sum, power))
}

/// Rounds numbers to integral values; `None` if the rounding is none to an integral value.
fn integral(code: &mut Code<'_, '_>, rounding: Rounding, a: Group) -> Option<Group> {
    Some(match rounding {
        Rounding::Rni => code.nearest(a),
        Rounding::Rzi => code.trunc(a),
        Rounding::Rmi => code.floor(a),
        Rounding::Rpi => code.ceil(a),
        _ => return None,
    })
}

/// Converts numbers to integers.
fn to_integer(code: &mut Code<'_, '_>, op: &Operation<'_>, value: Group) -> Option<Results> {
    let (to, from) = (op.desc.ty, op.desc.src);
    let bits = to.bits();
    if code.is_vector() && (from == OpType::F64 || bits == 64) {
        return None;
    }
    let rounded = match op.desc.mods.rounding() {
        // The conversion truncates.
        Rounding::Rzi | Rounding::None => value,
        rounding => integral(code, rounding, value)?,
    };
    let signed = to.is_signed() || bits < 32;
    let ty = match (code.is_vector(), bits) {
        (true, _) => types::I32X4,
        (false, 64) => types::I64,
        (false, _) => types::I32,
    };
    let mut lanes = rounded.map(|a| match signed {
        true => code.b.ins().fcvt_to_sint_sat(ty, a),
        false => code.b.ins().fcvt_to_uint_sat(ty, a),
    });
    if bits < 32 {
        lanes = limited(code, lanes, to, OpType::S32);
    }
    if from != OpType::F64 && bits < 64 {
        // The conversion of a NaN is zero.
        return one(lanes);
    }
    let is_nan = code.fcmp(FloatCC::Unordered, value, value);
    let top = code.int(code.bits(lanes), 1 << (bits - 1));
    one(code.select(is_nan, top, lanes))
}

/// Converts integers to `f16` or `bf16`.
fn integer_to_half(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    // An integer that `f32` cannot represent is beyond the range of `f16`, also after rounding to `f32`.
    let widest = if op.desc.ty == OpType::F16 { 32 } else { 16 };
    let is_known = op.desc.mods.rounding() == Rounding::Rn && op.desc.src.bits() <= widest;
    is_known.then_some(())?;
    let lanes = source(code, op)?;
    let ty = float_type(code, OpType::F32);
    let signed = op.desc.src.is_signed() || op.desc.src.bits() < 32;
    let value = lanes.map(|a| match signed {
        true => code.b.ins().fcvt_from_sint(ty, a),
        false => code.b.ins().fcvt_from_uint(ty, a),
    });
    halves::of_exact(code, op, value)
}

/// Converts `f16` or `bf16` to `f32` or `f64`.
fn from_half(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let is_exact = matches!(op.desc.mods.rounding(), Rounding::None | Rounding::Rn);
    let is_double = op.desc.ty == OpType::F64;
    (is_exact && !(is_double && op.desc.mods.sat())).then_some(())?;
    let value = halves::source(code, op)?;
    one(match is_double {
        true => code.promote(value),
        false => float::finish(code, op.desc, value),
    })
}

/// Converts among `f16` and `bf16`, rounded to nearest or to an integral value.
fn between_halves(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let mut value = halves::source(code, op)?;
    let rounding = op.desc.mods.rounding();
    if !matches!(rounding, Rounding::None | Rounding::Rn) {
        // The integral value of a number is exact in the format of the number.
        (op.desc.ty == op.desc.src).then_some(())?;
        value = integral(code, rounding, value)?;
    }
    halves::of_exact(code, op, value)
}

fn between_floats(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (to, from, mods) = (op.desc.ty, op.desc.src, op.desc.mods);
    let a = op.float(code, 0, from, mods.ftz())?;
    let result = match (from == to, from, mods.rounding()) {
        (true, _, Rounding::None) => a,
        (true, _, rounding) => integral(code, rounding, a)?,
        (_, OpType::F32, Rounding::None) => code.promote(a),
        (_, OpType::F64, Rounding::Rn) => {
            let narrow = code.demote(a);
            match mods.ftz() {
                true => float::flush(code, narrow),
                false => narrow,
            }
        }
        _ => return None,
    };
    one(match mods.sat() {
        true => float::saturate(code, result),
        false => result,
    })
}
