//! f32 and f64 arithmetic that rounds to nearest even. `directed` contains sums, products and fused products of f32
//! with other roundings, `approx` contains the approximate functions, and `halves` contains the 16-bit formats.
//! Generated code calls the reference functions for all other floating-point arithmetic.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ops::mods::{Precision, Rounding};
use margay_ops::types::OpType;

use crate::emit::{Lane, clif_type, memory};

pub(super) fn float_type(ty: OpType) -> Option<Type> {
    match ty {
        OpType::F32 => Some(types::F32),
        OpType::F64 => Some(types::F64),
        _ => None,
    }
}

/// Returns the Cranelift type of an operation that is exact or rounds to nearest even. Returns `None` for other
/// operations.
fn nearest(data: &InstData) -> Option<Type> {
    let exact = matches!(data.mods.rounding(), Rounding::None | Rounding::Rn)
        && data.mods.precision() == Precision::None
        && !data.mods.relu();
    if exact { float_type(data.ty) } else { None }
}

/// Returns an operand as a floating-point value, or `None` if the operand does not have the size of `ty`. With `ftz`,
/// a subnormal `f32` becomes a zero of the same sign.
pub(super) fn operand(
    lane: &mut Lane<'_, '_>,
    inst: Inst,
    index: usize,
    ty: Type,
    ftz: bool,
) -> Option<Value> {
    let bits = lane.arg(inst, index);
    let from = lane.b.func.dfg.value_type(bits);
    if from.bits() != ty.bits() {
        return None;
    }
    let value = if from == ty {
        bits
    } else {
        lane.b.ins().bitcast(ty, memory::host_cast(), bits)
    };
    Some(if ftz && ty == types::F32 {
        flush(lane, value)
    } else {
        value
    })
}

/// Emits code that replaces a subnormal `f32` by a zero of the same sign, and returns the result.
pub(crate) fn flush(lane: &mut Lane<'_, '_>, value: Value) -> Value {
    let flags = memory::host_cast();
    let bits = lane.b.ins().bitcast(types::I32, flags, value);
    let exponent = lane.b.ins().band_imm_u(bits, 0x7f80_0000);
    let sign = lane.b.ins().band_imm_u(bits, 0x8000_0000);
    let kept = lane.b.ins().select(exponent, bits, sign);
    lane.b.ins().bitcast(types::F32, flags, kept)
}

/// Emits code that clamps `value` to the range from 0 to 1, and returns the result; a NaN becomes
/// +0.
pub(super) fn saturate(lane: &mut Lane<'_, '_>, ty: Type, value: Value) -> Value {
    let (zero, one) = match ty {
        types::F32 => (lane.b.ins().f32const(0.0), lane.b.ins().f32const(1.0)),
        _ => (lane.b.ins().f64const(0.0), lane.b.ins().f64const(1.0)),
    };
    let above = lane.b.ins().fcmp(FloatCC::GreaterThan, value, zero);
    let floored = lane.b.ins().select(above, value, zero);
    let below = lane.b.ins().fcmp(FloatCC::LessThan, floored, one);
    lane.b.ins().select(below, floored, one)
}

/// Emits the last steps of an operation with the unmodified result `value`. If the operation has
/// `.ftz`, a subnormal value becomes zero; if it has `.sat`, the value is clamped to the range from
/// 0 to 1. Then sets the result of `inst`.
pub(super) fn finish(
    lane: &mut Lane<'_, '_>,
    inst: Inst,
    data: &InstData,
    ty: Type,
    value: Value,
) -> Option<()> {
    let value = if data.mods.ftz() && ty == types::F32 {
        flush(lane, value)
    } else {
        value
    };
    let value = if data.mods.sat() {
        saturate(lane, ty, value)
    } else {
        value
    };
    let &result = lane.function.dfg.results(inst).first()?;
    let to = clif_type(lane.function.dfg.ty(result));
    let bits = if to == ty {
        value
    } else {
        lane.b.ins().bitcast(to, memory::host_cast(), value)
    };
    lane.set(result, bits);
    Some(())
}

macro_rules! binary {
    ($name:ident, $op:ident) => {
        pub(super) fn $name(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
            let ty = nearest(data)?;
            let ftz = data.mods.ftz();
            let (a, b) = (
                operand(lane, inst, 0, ty, ftz)?,
                operand(lane, inst, 1, ty, ftz)?,
            );
            let value = lane.b.ins().$op(a, b);
            finish(lane, inst, data, ty, value)
        }
    };
}

binary!(add, fadd);
binary!(sub, fsub);
binary!(mul, fmul);
binary!(div, fdiv);

pub(super) fn fma(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let ty = nearest(data)?;
    if !lane.has_fma {
        return None;
    }
    let ftz = data.mods.ftz();
    let a = operand(lane, inst, 0, ty, ftz)?;
    let b = operand(lane, inst, 1, ty, ftz)?;
    let c = operand(lane, inst, 2, ty, ftz)?;
    let value = lane.b.ins().fma(a, b, c);
    finish(lane, inst, data, ty, value)
}

pub(super) fn sqrt(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let ty = nearest(data)?;
    let a = operand(lane, inst, 0, ty, data.mods.ftz())?;
    let value = lane.b.ins().sqrt(a);
    finish(lane, inst, data, ty, value)
}

pub(super) fn rcp(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let ty = nearest(data)?;
    let a = operand(lane, inst, 0, ty, data.mods.ftz())?;
    let one = match ty {
        types::F32 => lane.b.ins().f32const(1.0),
        _ => lane.b.ins().f64const(1.0),
    };
    let value = lane.b.ins().fdiv(one, a);
    finish(lane, inst, data, ty, value)
}

macro_rules! sign {
    ($name:ident, $op:ident) => {
        pub(super) fn $name(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
            let ty = nearest(data)?;
            let a = operand(lane, inst, 0, ty, data.mods.ftz())?;
            let value = lane.b.ins().$op(a);
            finish(lane, inst, data, ty, value)
        }
    };
}

sign!(neg, fneg);
sign!(abs, fabs);

/// Emits a `min` or `max` operation. If one operand is NaN, the result is the other operand. For
/// this operation, -0 is less than +0.
fn extreme(
    lane: &mut Lane<'_, '_>,
    inst: Inst,
    data: &InstData,
    takes_first: FloatCC,
    is_min: bool,
) -> Option<()> {
    let ty = nearest(data)?;
    let plain = !data.mods.nan() && !data.mods.xorsign_abs();
    if !plain || lane.function.dfg.args(inst).len() != 2 {
        return None;
    }
    let ftz = data.mods.ftz();
    let (a, b) = (
        operand(lane, inst, 0, ty, ftz)?,
        operand(lane, inst, 1, ty, ftz)?,
    );
    let first = lane.b.ins().fcmp(takes_first, a, b);
    let chosen = lane.b.ins().select(first, a, b);
    let nan = lane.b.ins().fcmp(FloatCC::Unordered, b, b);
    let chosen = lane.b.ins().select(nan, a, chosen);
    // Equal operands can only differ in the sign of zero.
    let (ia, ib) = (lane.as_int(a), lane.as_int(b));
    let merged = if is_min {
        lane.b.ins().bor(ia, ib)
    } else {
        lane.b.ins().band(ia, ib)
    };
    let merged = lane.b.ins().bitcast(ty, memory::host_cast(), merged);
    let equal = lane.b.ins().fcmp(FloatCC::Equal, a, b);
    let value = lane.b.ins().select(equal, merged, chosen);
    finish(lane, inst, data, ty, value)
}

pub(super) fn min(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    extreme(lane, inst, data, FloatCC::LessThan, true)
}

pub(super) fn max(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    extreme(lane, inst, data, FloatCC::GreaterThan, false)
}
