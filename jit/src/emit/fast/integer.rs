//! Integer arithmetic, including 24-bit products. If an op also exists for floating-point types, its lowering here calls
//! [`super::float`] for these types.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use margay_ir::entity::Inst;
use margay_ir::function::{Function, InstData};
use margay_ops::mods::Half;
use margay_ops::types::OpType;

use super::{float, logic};
use crate::emit::Lane;

/// Returns the Cranelift type of a plain integer operation, which neither saturates, nor clamps to zero (`.relu`), nor
/// writes a carry.
fn plain(data: &InstData) -> Option<Type> {
    let mods = data.mods;
    if mods.sat() || mods.carry_out() || mods.relu() {
        return None;
    }
    integer(data.ty)
}

pub(super) fn integer(ty: OpType) -> Option<Type> {
    if !ty.is_integer() || ty.elements() != 1 {
        return None;
    }
    match ty.bits() {
        16 => Some(types::I16),
        32 => Some(types::I32),
        64 => Some(types::I64),
        _ => None,
    }
}

/// Returns the operands as integers. Returns `None` if an operand has another type than `ty`.
fn operands<const N: usize>(lane: &mut Lane<'_, '_>, inst: Inst, ty: Type) -> Option<[Value; N]> {
    let mut out = [None; N];
    for (i, slot) in out.iter_mut().enumerate() {
        let bits = lane.arg(inst, i);
        let bits = lane.as_int(bits);
        if lane.b.func.dfg.value_type(bits) != ty {
            return None;
        }
        *slot = Some(bits);
    }
    let out: Option<Vec<Value>> = out.into_iter().collect();
    out?.try_into().ok()
}

macro_rules! binary {
    ($name:ident, $op:ident, $float:path) => {
        pub(super) fn $name(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
            if data.ty.is_float() {
                return $float(lane, inst, data);
            }
            let [a, b] = operands(lane, inst, plain(data)?)?;
            let bits = lane.b.ins().$op(a, b);
            lane.result(inst, bits);
            Some(())
        }
    };
}

binary!(add, iadd, float::add);
binary!(sub, isub, float::sub);

fn widened(lane: &mut Lane<'_, '_>, ty: OpType, value: Value) -> Option<Value> {
    let to = integer(ty.widened())?;
    Some(if ty.is_signed() {
        lane.b.ins().sextend(to, value)
    } else {
        lane.b.ins().uextend(to, value)
    })
}

/// Recognises a multiplication by a constant power of two. Returns the index of the other factor, and the exponent. If
/// the type is signed, a constant with only the sign bit set is negative and does not count as a power of two.
pub(crate) fn doubled(function: &Function, inst: Inst, data: &InstData) -> Option<(usize, u32)> {
    let args = function.dfg.args(inst);
    let highest = data.ty.bits() - u32::from(data.ty.is_signed());
    [(0, 1), (1, 0)].into_iter().find_map(|(factor, constant)| {
        let mask = u64::MAX >> (64 - data.ty.bits().clamp(1, 64));
        let bits = function.dfg.constant(args[constant])? & mask;
        let power = bits.trailing_zeros();
        (bits.is_power_of_two() && power < highest).then_some((factor, power))
    })
}

fn product(
    lane: &mut Lane<'_, '_>,
    inst: Inst,
    data: &InstData,
    [a, b]: [Value; 2],
) -> Option<Value> {
    if let Some((factor, power)) = doubled(lane.function, inst, data) {
        let factor = [a, b][factor];
        let power = i64::from(power);
        match data.mods.half() {
            Half::Lo => return Some(lane.b.ins().ishl_imm_u(factor, power)),
            Half::Wide => {
                let wide = widened(lane, data.ty, factor)?;
                return Some(lane.b.ins().ishl_imm_u(wide, power));
            }
            Half::Hi | Half::None => {}
        }
    }
    match data.mods.half() {
        Half::Lo => Some(lane.b.ins().imul(a, b)),
        Half::Wide => {
            let (a, b) = (widened(lane, data.ty, a)?, widened(lane, data.ty, b)?);
            Some(lane.b.ins().imul(a, b))
        }
        Half::Hi if data.ty.bits() >= 32 => Some(if data.ty.is_signed() {
            lane.b.ins().smulhi(a, b)
        } else {
            lane.b.ins().umulhi(a, b)
        }),
        _ => None,
    }
}

pub(super) fn mul(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if data.ty.is_float() {
        return float::mul(lane, inst, data);
    }
    let [a, b] = operands(lane, inst, plain(data)?)?;
    let bits = product(lane, inst, data, [a, b])?;
    lane.result(inst, bits);
    Some(())
}

pub(super) fn mad(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if data.ty.is_float() {
        return None;
    }
    let ty = plain(data)?;
    let [a, b] = operands(lane, inst, ty)?;
    let addend = lane.arg(inst, 2);
    let addend = lane.as_int(addend);
    let wide = data.mods.half() == Half::Wide;
    let expected = if wide {
        integer(data.ty.widened())?
    } else {
        ty
    };
    if lane.b.func.dfg.value_type(addend) != expected {
        return None;
    }
    let product = product(lane, inst, data, [a, b])?;
    let bits = lane.b.ins().iadd(product, addend);
    lane.result(inst, bits);
    Some(())
}

pub(super) fn div(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if data.ty.is_float() {
        return float::div(lane, inst, data);
    }
    let ty = plain(data)?;
    let [a, b] = operands(lane, inst, ty)?;
    let zero = lane.b.ins().icmp_imm_s(IntCC::Equal, b, 0);
    let ones = lane.b.ins().iconst(ty, -1);
    let one = lane.b.ins().iconst(ty, 1);
    let quotient = if data.ty.is_signed() {
        let minus = lane.b.ins().icmp_imm_s(IntCC::Equal, b, -1);
        let unsafe_divisor = lane.b.ins().bor(zero, minus);
        let divisor = lane.b.ins().select(unsafe_divisor, one, b);
        let quotient = lane.b.ins().sdiv(a, divisor);
        let negated = lane.b.ins().ineg(a);
        lane.b.ins().select(minus, negated, quotient)
    } else {
        let divisor = lane.b.ins().select(zero, one, b);
        lane.b.ins().udiv(a, divisor)
    };
    let bits = lane.b.ins().select(zero, ones, quotient);
    lane.result(inst, bits);
    Some(())
}

pub(super) fn rem(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let ty = plain(data)?;
    let [a, b] = operands(lane, inst, ty)?;
    let zero = lane.b.ins().icmp_imm_s(IntCC::Equal, b, 0);
    let one = lane.b.ins().iconst(ty, 1);
    let remainder = if data.ty.is_signed() {
        let minus = lane.b.ins().icmp_imm_s(IntCC::Equal, b, -1);
        let unsafe_divisor = lane.b.ins().bor(zero, minus);
        let divisor = lane.b.ins().select(unsafe_divisor, one, b);
        lane.b.ins().srem(a, divisor)
    } else {
        let divisor = lane.b.ins().select(zero, one, b);
        lane.b.ins().urem(a, divisor)
    };
    // As in the division sequences of GPUs, quotient and remainder of a division by zero have all bits set.
    let ones = lane.int(ty, u64::MAX);
    let bits = lane.b.ins().select(zero, ones, remainder);
    lane.result(inst, bits);
    Some(())
}

macro_rules! unary {
    ($name:ident, $op:ident, $float:expr) => {
        pub(super) fn $name(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
            if data.ty.is_float() {
                let float: Option<super::Lowering> = $float;
                return float.and_then(|float| float(lane, inst, data));
            }
            let [a] = operands(lane, inst, plain(data)?)?;
            let bits = lane.b.ins().$op(a);
            lane.result(inst, bits);
            Some(())
        }
    };
}

unary!(neg, ineg, Some(float::neg));
unary!(abs, iabs, Some(float::abs));
unary!(brev, bitrev, None);

macro_rules! count {
    ($name:ident, $op:ident) => {
        pub(super) fn $name(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
            let [a] = operands(lane, inst, plain(data)?)?;
            let bits = lane.b.ins().$op(a);
            let bits = lane.narrowed(bits, types::I32);
            lane.result(inst, bits);
            Some(())
        }
    };
}

count!(popc, popcnt);
count!(clz, clz);

macro_rules! order {
    ($name:ident, $signed:ident, $unsigned:ident, $float:path) => {
        pub(super) fn $name(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
            if data.ty.is_float() {
                return $float(lane, inst, data);
            }
            let [a, b] = operands(lane, inst, plain(data)?)?;
            let bits = if data.ty.is_signed() {
                lane.b.ins().$signed(a, b)
            } else {
                lane.b.ins().$unsigned(a, b)
            };
            lane.result(inst, bits);
            Some(())
        }
    };
}

order!(min, smin, umin, float::min);
order!(max, smax, umax, float::max);

/// Emits the extension of the low 24 bits of an operand to 32 bits.
fn short(lane: &mut Lane<'_, '_>, inst: Inst, index: usize, signed: bool) -> Option<Value> {
    let bits = logic::operand(lane, inst, index, types::I32)?;
    let high = lane.b.ins().ishl_imm_u(bits, 8);
    Some(if signed {
        lane.b.ins().sshr_imm_u(high, 8)
    } else {
        lane.b.ins().ushr_imm_u(high, 8)
    })
}

/// Emits the computation of the low 32 bits of the product of two 24-bit integers.
fn product24(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<Value> {
    let low = data.mods.half() != Half::Hi && !data.mods.sat();
    if !low || !matches!(data.ty, OpType::U32 | OpType::S32) {
        return None;
    }
    let signed = data.ty.is_signed();
    let (a, b) = (short(lane, inst, 0, signed)?, short(lane, inst, 1, signed)?);
    Some(lane.b.ins().imul(a, b))
}

pub(super) fn mul24(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let bits = product24(lane, inst, data)?;
    logic::define(lane, inst, bits)
}

pub(super) fn mad24(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let product = product24(lane, inst, data)?;
    let c = logic::operand(lane, inst, 2, types::I32)?;
    let bits = lane.b.ins().iadd(product, c);
    logic::define(lane, inst, bits)
}
