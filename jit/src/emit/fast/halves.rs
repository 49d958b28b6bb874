//! `f16` and `bf16`: conversions to and from f32, and sums, products and fused products, both scalar and packed.
//!
//! Widening an operand to f32 is exact. f32 has 24 digits, at least two more than twice the digits of either format
//! (11 and 8), so rounding a sum or product first to f32 and then to the format gives the same result as one rounding.
//! For a fused product, this does not hold, because the exact value has too many digits. Generated code therefore
//! computes a fused product exactly, as a sum of two f64 values, and rounds it to f32 *to odd* (the last digit of an
//! inexact result is odd), so that the second rounding gives the correct result.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ops::meaning::approx::{Arithmetic, halves};
use margay_ops::mods::{Mods, Rounding};
use margay_ops::types::OpType;

use super::approx::Code;
use super::{convert, directed, fields, float, logic};
use crate::emit::Lane;

/// A 16-bit format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `f16`.
    Half,
    /// `bf16`.
    Bfloat,
}

impl Format {
    /// Returns the format of a type's elements; `None` if it is neither `f16` nor `bf16`.
    pub(crate) fn of(ty: OpType) -> Option<Format> {
        match ty {
            OpType::F16 | OpType::F16x2 => Some(Format::Half),
            OpType::BF16 | OpType::BF16x2 => Some(Format::Bfloat),
            _ => None,
        }
    }

    /// Converts a 16-bit value in a 32-bit integer to f32.
    pub(crate) fn widen<A: Arithmetic>(self, code: &mut A, bits: A::Int) -> A::Float {
        match self {
            Format::Half => halves::single_of_half(code, bits),
            Format::Bfloat => halves::single_of_bfloat(code, bits),
        }
    }

    /// Converts an f32 to a 16-bit value in a 32-bit integer.
    pub(crate) fn narrow<A: Arithmetic>(self, code: &mut A, value: A::Float) -> A::Int {
        match self {
            Format::Half => halves::half_of_single(code, value),
            Format::Bfloat => halves::bfloat_of_single(code, value),
        }
    }
}

/// Returns whether the operation is exact or rounds to nearest, and has no modifiers except the rounding mode.
pub(crate) fn is_plain(data: &InstData) -> bool {
    let rounding = data.mods.rounding();
    let nearest = matches!(rounding, Rounding::None | Rounding::Rn);
    nearest && data.mods.with_rounding(Rounding::None) == Mods::NONE
}

pub(super) fn cvt(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    match (Format::of(data.ty), Format::of(data.src)) {
        (None, Some(format)) if data.ty == OpType::F32 && data.src.elements() == 1 => {
            if data.mods.relu() || data.mods.satfinite() {
                return None;
            }
            let exact = matches!(data.mods.rounding(), Rounding::None | Rounding::Rn);
            let bits = logic::operand(lane, inst, 0, types::I16).filter(|_| exact)?;
            let bits = lane.b.ins().uextend(types::I32, bits);
            let value = format.widen(&mut Code(lane.b), bits);
            float::finish(lane, inst, data, types::F32, value)
        }
        (Some(format), None) if data.src == OpType::F32 => narrowing(lane, inst, data, format),
        _ => convert::cvt(lane, inst, data),
    }
}

/// Emits the conversion of one f32 to a 16-bit value, or of two f32 values to a pair of 16-bit
/// values. The first f32 becomes the upper half of the pair.
fn narrowing(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData, format: Format) -> Option<()> {
    let ftz = data.mods.ftz();
    let plain = InstData {
        mods: data.mods.with_ftz(false),
        ..*data
    };
    if !is_plain(&plain) || data.mods.rounding() != Rounding::Rn {
        return None;
    }
    let first = float::operand(lane, inst, 0, types::F32, ftz)?;
    let first = format.narrow(&mut Code(lane.b), first);
    if data.ty.elements() == 1 {
        let bits = lane.b.ins().ireduce(types::I16, first);
        return logic::define(lane, inst, bits);
    }
    let second = float::operand(lane, inst, 1, types::F32, ftz)?;
    let second = format.narrow(&mut Code(lane.b), second);
    let high = lane.b.ins().ishl_imm_u(first, 16);
    let bits = lane.b.ins().bor(high, second);
    logic::define(lane, inst, bits)
}

/// An operation on elements that have been widened to f32.
type Operation = fn(&mut Lane<'_, '_>, &[Value]) -> Value;

/// Emits code that applies `operation` to each element of the operands of `inst`. Returns `None` if
/// this lowering does not support the op.
fn elementwise(
    lane: &mut Lane<'_, '_>,
    inst: Inst,
    data: &InstData,
    operands: usize,
    operation: Operation,
) -> Option<()> {
    let format = Format::of(data.ty).filter(|_| data.src == OpType::None && is_plain(data))?;
    let held = if data.ty.elements() == 1 {
        types::I16
    } else {
        types::I32
    };
    let mut words = Vec::with_capacity(operands);
    for index in 0..operands {
        let bits = logic::operand(lane, inst, index, held)?;
        let bits = if held == types::I16 {
            lane.b.ins().uextend(types::I32, bits)
        } else {
            bits
        };
        words.push(bits);
    }
    let element = |lane: &mut Lane<'_, '_>, index: u32| {
        let mut values = Vec::with_capacity(operands);
        for &word in &words {
            let part = match index {
                0 => lane.b.ins().band_imm_u(word, 0xffff),
                _ => lane.b.ins().ushr_imm_u(word, 16),
            };
            values.push(format.widen(&mut Code(lane.b), part));
        }
        let value = operation(lane, &values);
        format.narrow(&mut Code(lane.b), value)
    };
    let low = element(lane, 0);
    let bits = if held == types::I16 {
        lane.b.ins().ireduce(types::I16, low)
    } else {
        let high = element(lane, 1);
        let high = lane.b.ins().ishl_imm_u(high, 16);
        lane.b.ins().bor(high, low)
    };
    logic::define(lane, inst, bits)
}

pub(super) fn add(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if Format::of(data.ty).is_none() {
        return fields::add(lane, inst, data);
    }
    elementwise(lane, inst, data, 2, |lane, x| lane.b.ins().fadd(x[0], x[1]))
}

pub(super) fn sub(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if Format::of(data.ty).is_none() {
        return fields::sub(lane, inst, data);
    }
    elementwise(lane, inst, data, 2, |lane, x| lane.b.ins().fsub(x[0], x[1]))
}

pub(super) fn mul(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if Format::of(data.ty).is_none() {
        return directed::mul(lane, inst, data);
    }
    elementwise(lane, inst, data, 2, |lane, x| lane.b.ins().fmul(x[0], x[1]))
}

pub(super) fn fma(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if Format::of(data.ty).is_none() {
        return directed::fma(lane, inst, data);
    }
    elementwise(lane, inst, data, 3, |lane, x| {
        directed::fused_to_odd(lane, x[0], x[1], x[2])
    })
}
