//! f32 sums, products and fused products, rounded towards zero, down or up.
//!
//! CUDA compilers use `fma.rm` in exponentials. The exact result is represented as a sum of two f64 values: a product
//! of two f32 values is exact in f64, and Knuth's two-sum computes the rounding error of an f64 addition. The f32
//! nearest to the f64 sum is either the result of directed rounding or the adjacent f32 on the other side of the exact
//! result. A comparison with the exact result distinguishes the two cases.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ops::mods::Rounding;
use margay_ops::types::OpType;

use super::{float, integer};
use crate::emit::{Lane, memory};

/// An exact real number: the sum of an f64 and the rounding error of this f64.
#[derive(Clone, Copy)]
struct Exact {
    sum: Value,
    rest: Value,
}

/// Returns whether `data` is an f32 operation with directed rounding: towards zero, down or up.
fn is_directed(data: &InstData) -> bool {
    let directed = matches!(
        data.mods.rounding(),
        Rounding::Rz | Rounding::Rm | Rounding::Rp
    );
    data.ty == OpType::F32 && data.src == OpType::None && directed
}

/// Emits the conversion of the operand with index `index` to f64, and returns the result.
fn wide(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData, index: usize) -> Option<Value> {
    let value = float::operand(lane, inst, index, types::F32, data.mods.ftz())?;
    Some(lane.b.ins().fpromote(types::F64, value))
}

/// Emits the exact computation of `a + b`.
fn sum(lane: &mut Lane<'_, '_>, a: Value, b: Value, rounding: Rounding) -> Exact {
    let sum = lane.b.ins().fadd(a, b);
    let of_b = lane.b.ins().fsub(sum, a);
    let of_a = lane.b.ins().fsub(sum, of_b);
    let rest_a = lane.b.ins().fsub(a, of_a);
    let rest_b = lane.b.ins().fsub(b, of_b);
    let rest = lane.b.ins().fadd(rest_a, rest_b);
    let sum = if rounding == Rounding::Rm {
        negative_zero(lane, a, b, sum)
    } else {
        sum
    };
    Exact { sum, rest }
}

/// Emits code that replaces a zero `sum` by -0 if `a` or `b` is negative, because with rounding
/// down a zero sum of operands with opposite signs is -0.
fn negative_zero(lane: &mut Lane<'_, '_>, a: Value, b: Value, sum: Value) -> Value {
    let [a, b] = [a, b].map(|value| lane.as_int(value));
    let either = lane.b.ins().bor(a, b);
    let sign = lane.int(types::I64, 1 << 63);
    let sign = lane.b.ins().band(either, sign);
    let zero = lane.b.ins().bitcast(types::F64, memory::host_cast(), sign);
    let none = lane.b.ins().f64const(0.0);
    let vanishes = lane.b.ins().fcmp(FloatCC::Equal, sum, none);
    lane.b.ins().select(vanishes, zero, sum)
}

/// Emits the test whether `rounded` is greater than the exact value (if `side` is `GreaterThan`) or less than the exact
/// value (if `side` is `LessThan`).
fn beyond(lane: &mut Lane<'_, '_>, rounded: Value, exact: Exact, side: FloatCC) -> Value {
    let zero = lane.b.ins().f64const(0.0);
    let past = lane.b.ins().fcmp(side, rounded, exact.sum);
    let level = lane.b.ins().fcmp(FloatCC::Equal, rounded, exact.sum);
    let lacking = lane.b.ins().fcmp(side, zero, exact.rest);
    let just_past = lane.b.ins().band(level, lacking);
    lane.b.ins().bor(past, just_past)
}

/// Emits the computation of the bits of the next f32 above the f32 with the bits `bits` (if `up` is
/// true) or below it.
fn step(lane: &mut Lane<'_, '_>, bits: Value, up: bool) -> Value {
    let one = lane.int(types::I32, 1);
    let minus_one = lane.int(types::I32, u64::MAX);
    let zero = lane.int(types::I32, 0);
    let negative = lane.b.ins().icmp(IntCC::SignedLessThan, bits, zero);
    // The step upwards increases the magnitude of a positive number and decreases that of a negative number.
    let delta = if up {
        lane.b.ins().select(negative, minus_one, one)
    } else {
        lane.b.ins().select(negative, one, minus_one)
    };
    let moved = lane.b.ins().iadd(bits, delta);
    let magnitude = lane.b.ins().iadd(bits, bits);
    let least = lane.int(types::I32, if up { 1 } else { 0x8000_0001 });
    // From +0 and from -0, the step upwards leads to the smallest positive subnormal, and the step downwards to its
    // negation.
    lane.b.ins().select(magnitude, moved, least)
}

/// Emits code that rounds `exact` to f32 in the rounding direction of `inst`, and sets the result
/// of `inst`.
fn round(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData, exact: Exact) -> Option<()> {
    let nearest = lane.b.ins().fdemote(types::F32, exact.sum);
    let rounded = lane.b.ins().fpromote(types::F64, nearest);
    let bits = lane.as_int(nearest);
    let down = |lane: &mut Lane<'_, '_>| {
        let above = beyond(lane, rounded, exact, FloatCC::GreaterThan);
        let stepped = step(lane, bits, false);
        lane.b.ins().select(above, stepped, bits)
    };
    let up = |lane: &mut Lane<'_, '_>| {
        let below = beyond(lane, rounded, exact, FloatCC::LessThan);
        let stepped = step(lane, bits, true);
        lane.b.ins().select(below, stepped, bits)
    };
    let bits = match data.mods.rounding() {
        Rounding::Rm => down(lane),
        Rounding::Rp => up(lane),
        _ => {
            let zero = lane.b.ins().f64const(0.0);
            let (down, up) = (down(lane), up(lane));
            let positive = lane.b.ins().fcmp(FloatCC::GreaterThan, exact.sum, zero);
            lane.b.ins().select(positive, down, up)
        }
    };
    let value = lane.b.ins().bitcast(types::F32, memory::host_cast(), bits);
    float::finish(lane, inst, data, types::F32, value)
}

pub(super) fn add(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if !is_directed(data) {
        return integer::add(lane, inst, data);
    }
    let (a, b) = (wide(lane, inst, data, 0)?, wide(lane, inst, data, 1)?);
    let exact = sum(lane, a, b, data.mods.rounding());
    round(lane, inst, data, exact)
}

pub(super) fn sub(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if !is_directed(data) {
        return integer::sub(lane, inst, data);
    }
    let (a, b) = (wide(lane, inst, data, 0)?, wide(lane, inst, data, 1)?);
    let b = lane.b.ins().fneg(b);
    let exact = sum(lane, a, b, data.mods.rounding());
    round(lane, inst, data, exact)
}

pub(super) fn mul(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if !is_directed(data) {
        return integer::mul(lane, inst, data);
    }
    let (a, b) = (wide(lane, inst, data, 0)?, wide(lane, inst, data, 1)?);
    let product = lane.b.ins().fmul(a, b);
    let rest = lane.b.ins().f64const(0.0);
    let exact = Exact { sum: product, rest };
    round(lane, inst, data, exact)
}

pub(super) fn fma(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if !is_directed(data) || data.mods.relu() {
        return float::fma(lane, inst, data);
    }
    let (a, b) = (wide(lane, inst, data, 0)?, wide(lane, inst, data, 1)?);
    let c = wide(lane, inst, data, 2)?;
    let product = lane.b.ins().fmul(a, b);
    let exact = sum(lane, product, c, data.mods.rounding());
    round(lane, inst, data, exact)
}

/// Emits the computation of `a * b + c` of f32 values, rounded to odd: rounded towards zero, with
/// the last bit set if the result is inexact.
pub(super) fn fused_to_odd(lane: &mut Lane<'_, '_>, a: Value, b: Value, c: Value) -> Value {
    let [a, b, c] = [a, b, c].map(|value| lane.b.ins().fpromote(types::F64, value));
    let product = lane.b.ins().fmul(a, b);
    let exact = sum(lane, product, c, Rounding::Rn);
    let nearest = lane.b.ins().fdemote(types::F32, exact.sum);
    let rounded = lane.b.ins().fpromote(types::F64, nearest);
    let bits = lane.as_int(nearest);
    let above = beyond(lane, rounded, exact, FloatCC::GreaterThan);
    let below = beyond(lane, rounded, exact, FloatCC::LessThan);
    let (down, up) = (step(lane, bits, false), step(lane, bits, true));
    let moved = lane.b.ins().select(above, down, bits);
    let moved = lane.b.ins().select(below, up, moved);
    // If the last bit of the nearest f32 is set, the nearest f32 is the result.
    let odd = lane.b.ins().band_imm_u(bits, 1);
    let bits = lane.b.ins().select(odd, bits, moved);
    lane.b.ins().bitcast(types::F32, memory::host_cast(), bits)
}
