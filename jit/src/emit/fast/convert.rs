//! Conversions among integers, f32 and f64.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ops::mods::Rounding;
use margay_ops::types::OpType;

use super::float;
use crate::emit::{Lane, clif_type, memory};

fn int_type(ty: OpType) -> Option<Type> {
    if !ty.is_integer() || ty.elements() != 1 {
        return None;
    }
    Type::int(ty.bits() as u16).filter(|ty| ty.bits() <= 64 && ty.bits() >= 8)
}

pub(super) fn cvt(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let mods = data.mods;
    if mods.relu() || mods.satfinite() {
        return None;
    }
    match (data.ty.is_integer(), data.src.is_integer()) {
        (true, true) => int_to_int(lane, inst, data),
        (false, true) => int_to_float(lane, inst, data),
        (true, false) => float_to_int(lane, inst, data),
        (false, false) => float_to_float(lane, inst, data),
    }
}

/// Sets the result of `inst` to the integer `bits`, extended to the width of the result's register:
/// sign-extended if the destination type is signed, otherwise zero-extended.
fn define(lane: &mut Lane<'_, '_>, inst: Inst, ty: OpType, bits: Value) -> Option<()> {
    let &value = lane.function.dfg.results(inst).first()?;
    let to = clif_type(lane.function.dfg.ty(value));
    let from = lane.b.func.dfg.value_type(bits);
    let int = Type::int(to.bits() as u16)?;
    let bits = if from.bits() < to.bits() {
        if ty.is_signed() {
            lane.b.ins().sextend(int, bits)
        } else {
            lane.b.ins().uextend(int, bits)
        }
    } else if from.bits() > to.bits() {
        return None;
    } else {
        bits
    };
    let bits = if to.is_float() {
        lane.b.ins().bitcast(to, memory::host_cast(), bits)
    } else {
        bits
    };
    lane.set(value, bits);
    Some(())
}

/// Returns the low bits of the first operand as an integer that has the width of the source type
/// `ty`.
fn source(lane: &mut Lane<'_, '_>, inst: Inst, ty: OpType) -> Option<Value> {
    let wanted = int_type(ty)?;
    let bits = lane.arg(inst, 0);
    let bits = lane.as_int(bits);
    (lane.b.func.dfg.value_type(bits).bits() >= wanted.bits()).then(|| lane.narrowed(bits, wanted))
}

fn int_to_int(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if data.mods.sat() {
        return None;
    }
    let to = int_type(data.ty)?;
    let bits = source(lane, inst, data.src)?;
    let from = lane.b.func.dfg.value_type(bits);
    let bits = if from.bits() >= to.bits() {
        lane.narrowed(bits, to)
    } else if data.src.is_signed() {
        lane.b.ins().sextend(to, bits)
    } else {
        lane.b.ins().uextend(to, bits)
    };
    define(lane, inst, data.ty, bits)
}

fn int_to_float(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let to = float::float_type(data.ty)?;
    if data.mods.rounding() != Rounding::Rn && !is_exact(data) || data.mods.sat() {
        return None;
    }
    let bits = source(lane, inst, data.src)?;
    let from = lane.b.func.dfg.value_type(bits);
    let bits = match from.bits() {
        8 | 16 if data.src.is_signed() => lane.b.ins().sextend(types::I32, bits),
        8 | 16 => lane.b.ins().uextend(types::I32, bits),
        _ => bits,
    };
    let value = if data.src.is_signed() {
        lane.b.ins().fcvt_from_sint(to, bits)
    } else {
        lane.b.ins().fcvt_from_uint(to, bits)
    };
    define_float(lane, inst, to, value)
}

/// Returns whether the destination type can represent every integer of the source type, so that rounding has no effect.
fn is_exact(data: &InstData) -> bool {
    let digits = if data.ty == OpType::F64 { 53 } else { 24 };
    data.src.bits() <= digits
}

fn define_float(lane: &mut Lane<'_, '_>, inst: Inst, ty: Type, value: Value) -> Option<()> {
    let &result = lane.function.dfg.results(inst).first()?;
    let to = clif_type(lane.function.dfg.ty(result));
    if to.bits() != ty.bits() {
        return None;
    }
    let bits = if to == ty {
        value
    } else {
        lane.b.ins().bitcast(to, memory::host_cast(), value)
    };
    lane.set(result, bits);
    Some(())
}

fn integral(lane: &mut Lane<'_, '_>, rounding: Rounding, value: Value) -> Option<Value> {
    Some(match rounding {
        Rounding::Rni => lane.b.ins().nearest(value),
        Rounding::Rzi => lane.b.ins().trunc(value),
        Rounding::Rmi => lane.b.ins().floor(value),
        Rounding::Rpi => lane.b.ins().ceil(value),
        _ => return None,
    })
}

fn float_to_int(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let from = float::float_type(data.src)?;
    let to = int_type(data.ty)?;
    if to.bits() < 32 {
        return None;
    }
    let value = float::operand(lane, inst, 0, from, data.mods.ftz())?;
    let rounded = match data.mods.rounding() {
        // The conversion itself truncates.
        Rounding::Rzi => value,
        rounding => integral(lane, rounding, value)?,
    };
    let bits = if data.ty.is_signed() {
        lane.b.ins().fcvt_to_sint_sat(to, rounded)
    } else {
        lane.b.ins().fcvt_to_uint_sat(to, rounded)
    };
    // From f32 to 32 bits, a NaN becomes zero (PTX ISA, cvt). In all other conversions, a NaN becomes the integer with
    // only the top bit set.
    let bits = if from == types::F32 && to == types::I32 {
        bits
    } else {
        let top = lane.int(to, 1 << (to.bits() - 1));
        let nan = lane.b.ins().fcmp(FloatCC::Unordered, value, value);
        lane.b.ins().select(nan, top, bits)
    };
    define(lane, inst, data.ty, bits)
}

fn float_to_float(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let (to, from) = (float::float_type(data.ty)?, float::float_type(data.src)?);
    let ftz = data.mods.ftz();
    let value = float::operand(lane, inst, 0, from, ftz)?;
    let value = match (from, to, data.mods.rounding()) {
        (types::F32, types::F64, Rounding::None) => lane.b.ins().fpromote(types::F64, value),
        (types::F64, types::F32, Rounding::Rn) => {
            let narrow = lane.b.ins().fdemote(types::F32, value);
            if ftz {
                float::flush(lane, narrow)
            } else {
                narrow
            }
        }
        (from, to, rounding) if from == to => match rounding {
            Rounding::None => value,
            rounding => integral(lane, rounding, value)?,
        },
        _ => return None,
    };
    let value = if data.mods.sat() {
        float::saturate(lane, to, value)
    } else {
        value
    };
    define_float(lane, inst, to, value)
}
