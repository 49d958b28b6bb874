//! Fast lowerings of operations on bit fields, bytes and signs, and of arithmetic with carry.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ops::mods::{Half, Mode};

use super::{directed, float, integer, logic};
use crate::emit::Lane;

/// Emits the extension of an operand of type `ty` to 64 bits, and returns the result.
fn wide(
    lane: &mut Lane<'_, '_>,
    inst: Inst,
    index: usize,
    ty: Type,
    signed: bool,
) -> Option<Value> {
    let bits = logic::operand(lane, inst, index, ty)?;
    Some(match (ty, signed) {
        (types::I64, _) => bits,
        (_, true) => lane.b.ins().sextend(types::I64, bits),
        (_, false) => lane.b.ins().uextend(types::I64, bits),
    })
}

fn narrow(lane: &mut Lane<'_, '_>, bits: Value, ty: Type) -> Value {
    if ty == types::I64 {
        bits
    } else {
        lane.b.ins().ireduce(ty, bits)
    }
}

/// Returns the low byte of a position or length operand, extended to 64 bits.
fn byte(lane: &mut Lane<'_, '_>, inst: Inst, index: usize) -> Option<Value> {
    let bits = wide(lane, inst, index, types::I32, false)?;
    Some(lane.b.ins().band_imm_u(bits, 255))
}

/// Emits the test whether a 64-bit amount is at least `limit`.
fn reaches(lane: &mut Lane<'_, '_>, amount: Value, limit: i64) -> Value {
    lane.b
        .ins()
        .icmp_imm_s(IntCC::UnsignedGreaterThanOrEqual, amount, limit)
}

/// Emits the computation of a 64-bit power of two.
fn power(lane: &mut Lane<'_, '_>, exponent: Value) -> Value {
    let one = lane.b.ins().iconst(types::I64, 1);
    lane.b.ins().ishl(one, exponent)
}

/// Emits the computation of a 64-bit integer whose `length` low bits are ones. If `length` is 64 or
/// more, all 64 bits are ones.
fn ones(lane: &mut Lane<'_, '_>, length: Value) -> Value {
    let power = power(lane, length);
    let low = lane.b.ins().iadd_imm_s(power, -1);
    let all = lane.b.ins().iconst(types::I64, -1);
    let full = reaches(lane, length, 64);
    lane.b.ins().select(full, all, low)
}

pub(super) fn bfe(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let ty = integer::integer(data.ty)?;
    let signed = data.ty.is_signed();
    let a = wide(lane, inst, 0, ty, signed)?;
    let (position, length) = (byte(lane, inst, 1)?, byte(lane, inst, 2)?);
    let zero = lane.b.ins().iconst(types::I64, 0);
    let past = reaches(lane, position, 64);
    let bits = if signed {
        let last = lane.b.ins().iconst(types::I64, 63);
        let by = lane.b.ins().select(past, last, position);
        let moved = lane.b.ins().sshr(a, by);
        // Removes the bits above the field by a shift to the left and a shift to the right. If the length is 64 or
        // more, both shift amounts are 0.
        let width = lane.b.ins().iconst(types::I64, 64);
        let unused = lane.b.ins().isub(width, length);
        let full = reaches(lane, length, 64);
        let by = lane.b.ins().select(full, zero, unused);
        let high = lane.b.ins().ishl(moved, by);
        let extended = lane.b.ins().sshr(high, by);
        lane.b.ins().select(length, extended, zero)
    } else {
        let moved = lane.b.ins().ushr(a, position);
        let moved = lane.b.ins().select(past, zero, moved);
        let mask = ones(lane, length);
        lane.b.ins().band(moved, mask)
    };
    let bits = narrow(lane, bits, ty);
    logic::define(lane, inst, bits)
}

pub(super) fn bfi(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let ty = integer::integer(data.ty)?;
    let a = wide(lane, inst, 0, ty, false)?;
    let b = wide(lane, inst, 1, ty, false)?;
    let (position, length) = (byte(lane, inst, 2)?, byte(lane, inst, 3)?);
    let mask = ones(lane, length);
    let mask = lane.b.ins().ishl(mask, position);
    let zero = lane.b.ins().iconst(types::I64, 0);
    let past = reaches(lane, position, 64);
    let mask = lane.b.ins().select(past, zero, mask);
    let moved = lane.b.ins().ishl(a, position);
    let bits = lane.b.ins().bitselect(mask, moved, b);
    let bits = narrow(lane, bits, ty);
    logic::define(lane, inst, bits)
}

/// Returns a position or number of bits, extended to 64 bits, that `.wrap` takes modulo 32 and `.clamp` limits to 32.
fn within_word(
    lane: &mut Lane<'_, '_>,
    inst: Inst,
    index: usize,
    data: &InstData,
) -> Option<Value> {
    let bits = wide(lane, inst, index, types::I32, false)?;
    Some(if data.mods.mode() == Mode::Wrap {
        lane.b.ins().band_imm_u(bits, 31)
    } else {
        let limit = lane.b.ins().iconst(types::I64, 32);
        lane.b.ins().umin(bits, limit)
    })
}

pub(super) fn szext(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let a = wide(lane, inst, 0, types::I32, false)?;
    let count = within_word(lane, inst, 1, data)?;
    let power = power(lane, count);
    let mask = lane.b.ins().iadd_imm_s(power, -1);
    let mut bits = lane.b.ins().band(a, mask);
    if data.ty.is_signed() {
        // If the sign bit is set, the exclusive or clears it, and the subtraction borrows from all bits above it. The
        // sign bit of a number without bits is 0.
        let sign = lane.b.ins().ushr_imm_u(power, 1);
        let flipped = lane.b.ins().bxor(bits, sign);
        bits = lane.b.ins().isub(flipped, sign);
    }
    let bits = narrow(lane, bits, types::I32);
    logic::define(lane, inst, bits)
}

pub(super) fn bmsk(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let position = within_word(lane, inst, 0, data)?;
    let count = within_word(lane, inst, 1, data)?;
    let power = power(lane, count);
    let mask = lane.b.ins().iadd_imm_s(power, -1);
    let bits = lane.b.ins().ishl(mask, position);
    let bits = narrow(lane, bits, types::I32);
    logic::define(lane, inst, bits)
}

pub(super) fn bfind(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let ty = integer::integer(data.ty)?;
    let mut a = logic::operand(lane, inst, 0, ty)?;
    let top = i64::from(ty.bits()) - 1;
    if data.ty.is_signed() {
        let sign = lane.b.ins().sshr_imm_u(a, top);
        a = lane.b.ins().bxor(a, sign);
    }
    // For the operand zero, the number of leading zeros equals the width, so the position becomes -1.
    let zeros = lane.b.ins().clz(a);
    let zeros = lane.narrowed(zeros, types::I32);
    let bits = if data.mods.flag() {
        let none = lane.int(types::I32, u64::MAX);
        lane.b.ins().select(a, zeros, none)
    } else {
        let top = lane.b.ins().iconst(types::I32, top);
        lane.b.ins().isub(top, zeros)
    };
    logic::define(lane, inst, bits)
}

pub(super) fn prmt(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let &selector = lane.function.dfg.args(inst).get(2)?;
    let selector = lane.function.dfg.constant(selector)?;
    if data.mods.mode() != Mode::None {
        return None;
    }
    let low = wide(lane, inst, 0, types::I32, false)?;
    let high = wide(lane, inst, 1, types::I32, false)?;
    let high = lane.b.ins().ishl_imm_u(high, 32);
    let both = lane.b.ins().bor(low, high);
    let mut word = lane.b.ins().iconst(types::I64, 0);
    for i in 0..4 {
        let pick = selector >> (4 * i) & 15;
        let from = (pick & 7) as i64 * 8;
        let byte = if pick & 8 != 0 {
            let top = lane.b.ins().ishl_imm_u(both, 56 - from);
            lane.b.ins().sshr_imm_u(top, 63)
        } else {
            lane.b.ins().ushr_imm_u(both, from)
        };
        let byte = lane.b.ins().band_imm_u(byte, 255);
        let byte = lane.b.ins().ishl_imm_u(byte, 8 * i);
        word = lane.b.ins().bor(word, byte);
    }
    let bits = lane.b.ins().ireduce(types::I32, word);
    logic::define(lane, inst, bits)
}

pub(super) fn copysign(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let ty = float::float_type(data.ty)?;
    let sign = float::operand(lane, inst, 0, ty, false)?;
    let magnitude = float::operand(lane, inst, 1, ty, false)?;
    let value = lane.b.ins().fcopysign(magnitude, sign);
    float::finish(lane, inst, data, ty, value)
}

/// Sets the first result to the sum or difference and, if the operation has a carry-out, the second result to the
/// carry.
fn define_both(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData, bits: Value, carry: Value) {
    lane.result(inst, bits);
    if data.mods.carry_out()
        && let Some(&second) = lane.function.dfg.results(inst).get(1)
    {
        lane.set(second, carry);
    }
}

fn carry_in(lane: &mut Lane<'_, '_>, inst: Inst, index: usize, ty: Type) -> Option<Value> {
    let carry = logic::operand(lane, inst, index, types::I8)?;
    Some(lane.b.ins().uextend(ty, carry))
}

/// Returns the type of the operands if it has 32 or 64 bits, the only widths that operations with
/// carry can have.
fn chain(data: &InstData) -> Option<Type> {
    integer::integer(data.ty).filter(|ty| ty.bits() >= 32)
}

/// Emits the computation of `a + b + carry`, and returns the sum and the carry-out; a missing
/// `carry` counts as 0.
fn add_all(lane: &mut Lane<'_, '_>, a: Value, b: Value, carry: Option<Value>) -> (Value, Value) {
    let sum = lane.b.ins().iadd(a, b);
    let over = lane.b.ins().icmp(IntCC::UnsignedLessThan, sum, a);
    let Some(carry) = carry else {
        return (sum, over);
    };
    let whole = lane.b.ins().iadd(sum, carry);
    let again = lane.b.ins().icmp(IntCC::UnsignedLessThan, whole, sum);
    (whole, lane.b.ins().bor(over, again))
}

/// Emits the computation of `a + !b + carry`, and returns the sum and the carry-out; a missing
/// `carry` counts as 1.
fn subtract_all(
    lane: &mut Lane<'_, '_>,
    a: Value,
    b: Value,
    carry: Option<Value>,
) -> (Value, Value) {
    if carry.is_some() {
        let inverse = lane.b.ins().bnot(b);
        return add_all(lane, a, inverse, carry);
    }
    let difference = lane.b.ins().isub(a, b);
    let over = lane.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, a, b);
    (difference, over)
}

type Chained = fn(&mut Lane<'_, '_>, Value, Value, Option<Value>) -> (Value, Value);

fn chained(
    lane: &mut Lane<'_, '_>,
    inst: Inst,
    data: &InstData,
    has_carry: bool,
    op: Chained,
) -> Option<()> {
    let ty = chain(data)?;
    let (a, b) = (
        logic::operand(lane, inst, 0, ty)?,
        logic::operand(lane, inst, 1, ty)?,
    );
    let carry = if has_carry {
        Some(carry_in(lane, inst, 2, ty)?)
    } else {
        None
    };
    let (bits, out) = op(lane, a, b, carry);
    define_both(lane, inst, data, bits, out);
    Some(())
}

pub(super) fn add(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if data.mods.carry_out() {
        return chained(lane, inst, data, false, add_all);
    }
    directed::add(lane, inst, data)
}

pub(super) fn sub(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if data.mods.carry_out() {
        return chained(lane, inst, data, false, subtract_all);
    }
    directed::sub(lane, inst, data)
}

pub(super) fn addc(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    chained(lane, inst, data, true, add_all)
}

pub(super) fn subc(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    chained(lane, inst, data, true, subtract_all)
}

/// Emits the computation of the half of a product, low or high, that a multiply-add with carry
/// adds.
fn product(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData, ty: Type) -> Option<Value> {
    let (a, b) = (
        logic::operand(lane, inst, 0, ty)?,
        logic::operand(lane, inst, 1, ty)?,
    );
    Some(match (data.mods.half(), data.ty.is_signed()) {
        (Half::Hi, true) => lane.b.ins().smulhi(a, b),
        (Half::Hi, false) => lane.b.ins().umulhi(a, b),
        _ => lane.b.ins().imul(a, b),
    })
}

fn multiply_chained(
    lane: &mut Lane<'_, '_>,
    inst: Inst,
    data: &InstData,
    has_carry: bool,
) -> Option<()> {
    // On some machines, no instruction computes the upper half of a 32-bit product.
    let ty = chain(data)?;
    if ty == types::I32 && data.mods.half() == Half::Hi {
        return multiply_chained_upper(lane, inst, data, has_carry);
    }
    let low = product(lane, inst, data, ty)?;
    let c = logic::operand(lane, inst, 2, ty)?;
    let carry = if has_carry {
        Some(carry_in(lane, inst, 3, ty)?)
    } else {
        None
    };
    let (bits, out) = add_all(lane, low, c, carry);
    define_both(lane, inst, data, bits, out);
    Some(())
}

fn multiply_chained_upper(
    lane: &mut Lane<'_, '_>,
    inst: Inst,
    data: &InstData,
    has_carry: bool,
) -> Option<()> {
    let signed = data.ty.is_signed();
    let a = wide(lane, inst, 0, types::I32, signed)?;
    let b = wide(lane, inst, 1, types::I32, signed)?;
    let whole = lane.b.ins().imul(a, b);
    let upper = lane.b.ins().ushr_imm_u(whole, 32);
    let upper = lane.b.ins().ireduce(types::I32, upper);
    let c = logic::operand(lane, inst, 2, types::I32)?;
    let carry = if has_carry {
        Some(carry_in(lane, inst, 3, types::I32)?)
    } else {
        None
    };
    let (bits, out) = add_all(lane, upper, c, carry);
    define_both(lane, inst, data, bits, out);
    Some(())
}

pub(super) fn mad(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if data.mods.carry_out() {
        return multiply_chained(lane, inst, data, false);
    }
    if data.ty.is_float() {
        return directed::fma(lane, inst, data);
    }
    integer::mad(lane, inst, data)
}

pub(super) fn madc(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    multiply_chained(lane, inst, data, true)
}
