//! Integer arithmetic. Integers of 8 and 16 bits are extended to 32 bits, so that the results of these operations are
//! correct in their low bits; the caller drops the others.

use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use margay_ops::mods::Half;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

use super::{Operation, Results, carry, one};
use crate::code::Code;
use crate::group::Group;

/// Returns the first two operands, extended as the type says.
fn pair(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<(Group, Group)> {
    let ty = op.desc.ty;
    Some((op.integer(code, 0, ty)?, op.integer(code, 1, ty)?))
}

pub(super) fn add(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    if op.desc.mods.carry_out() {
        return carry::add(code, op);
    }
    let (a, b) = pair(code, op)?;
    one(match op.desc.mods.sat() {
        true => saturating(code, op.desc.ty, a, b, false),
        false => code.add(a, b),
    })
}

pub(super) fn sub(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    if op.desc.mods.carry_out() {
        return carry::sub(code, op);
    }
    let (a, b) = pair(code, op)?;
    one(match op.desc.mods.sat() {
        true => saturating(code, op.desc.ty, a, b, true),
        false => code.sub(a, b),
    })
}

/// Computes `a + b` or, if `is_difference`, `a - b`, limited to the range of the type.
fn saturating(
    code: &mut Code<'_, '_>,
    ty: OpType,
    a: Group,
    b: Group,
    is_difference: bool,
) -> Group {
    let result = match is_difference {
        true => code.sub(a, b),
        false => code.add(a, b),
    };
    let bits = code.bits(a);
    if ty.bits() < bits {
        // The result is exact.
        let greatest = u64::MAX >> (64 - ty.bits() + u32::from(ty.is_signed()));
        let least = if ty.is_signed() { !greatest } else { 0 };
        let (least, greatest) = (code.int(bits, least), code.int(bits, greatest));
        let result = code.extreme(result, least, true, true);
        return code.extreme(result, greatest, false, true);
    }
    if !ty.is_signed() {
        let (condition, limit, x, y) = match is_difference {
            true => (IntCC::UnsignedLessThan, 0, a, b),
            false => (IntCC::UnsignedLessThan, u64::MAX, result, a),
        };
        let exceeds = code.icmp(condition, x, y);
        let limit = code.int(bits, limit);
        return code.select(exceeds, limit, result);
    }
    // The result exceeds the range if its sign differs from that of both terms.
    let from_a = code.xor(a, result);
    let from_b = match is_difference {
        true => code.xor(a, b),
        false => code.xor(b, result),
    };
    let exceeds = code.and(from_a, from_b);
    let none = code.int(bits, 0);
    let exceeds = code.icmp(IntCC::SignedLessThan, exceeds, none);
    let sign = code.sar(a, bits - 1);
    let greatest = code.int(bits, u64::MAX >> (65 - bits));
    let limit = code.xor(sign, greatest);
    code.select(exceeds, limit, result)
}

/// Computes the product, or its high half, of extended operands.
pub(super) fn product(
    code: &mut Code<'_, '_>,
    ty: OpType,
    half: Half,
    a: Group,
    b: Group,
) -> Option<Group> {
    let signed = ty.is_signed();
    match (half, ty.bits()) {
        (Half::Hi, 64) if code.is_vector() => None,
        (Half::Hi, 64) => Some(code.each2(a, b, |b, x, y| match signed {
            true => b.ins().smulhi(x, y),
            false => b.ins().umulhi(x, y),
        })),
        (Half::Hi | Half::Wide, 32) => {
            let (a, b) = (code.widen(a, signed), code.widen(b, signed));
            let whole = code.mul(a, b);
            Some(match half {
                Half::Hi => code.high_words(whole),
                _ => whole,
            })
        }
        (Half::Hi, bits) => {
            let whole = code.mul(a, b);
            Some(match signed {
                true => code.sar(whole, bits),
                false => code.shr(whole, bits),
            })
        }
        _ => Some(code.mul(a, b)),
    }
}

pub(super) fn mul(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (a, b) = pair(code, op)?;
    one(product(code, op.desc.ty, op.desc.mods.half(), a, b)?)
}

pub(super) fn mad(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    if op.desc.mods.carry_out() {
        return carry::mad(code, op);
    }
    let (ty, half) = (op.desc.ty, op.desc.mods.half());
    let (a, b) = pair(code, op)?;
    let product = product(code, ty, half, a, b)?;
    let to = match half {
        Half::Wide => ty.widened(),
        _ => ty,
    };
    let c = op.integer(code, 2, to)?;
    if !op.desc.mods.sat() {
        return one(code.add(product, c));
    }
    // The limited sum needs all bits of the product.
    let is_exact = half == Half::Hi && ty.bits() >= 32;
    is_exact.then_some(())?;
    one(saturating(code, ty, product, c, false))
}

/// Multiplies the low 24 bits of the operands.
fn product24(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Group> {
    let (a, b) = pair(code, op)?;
    let (a, b) = (code.shl(a, 8), code.shl(b, 8));
    if op.desc.mods.half() == Half::Hi {
        // The operands are multiplied by 2^8, so the high word contains bits 16 to 47 of the product.
        return product(code, op.desc.ty, Half::Hi, a, b);
    }
    let part = |code: &mut Code<'_, '_>, a| match op.desc.ty.is_signed() {
        true => code.sar(a, 8),
        false => code.shr(a, 8),
    };
    let (a, b) = (part(code, a), part(code, b));
    Some(code.mul(a, b))
}

pub(super) fn mul24(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    one(product24(code, op)?)
}

pub(super) fn mad24(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (product, c) = (product24(code, op)?, op.integer(code, 2, op.desc.ty)?);
    one(match op.desc.mods.sat() {
        true => saturating(code, op.desc.ty, product, c, false),
        false => code.add(product, c),
    })
}

pub(super) fn sad(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (a, b) = pair(code, op)?;
    let c = op.integer(code, 2, op.desc.ty)?;
    let signed = op.desc.ty.is_signed();
    let most = code.extreme(a, b, true, signed);
    let least = code.extreme(a, b, false, signed);
    let distance = code.sub(most, least);
    one(code.add(c, distance))
}

/// Emits a quotient or remainder of scalars. If the divisor is zero, all bits of the result are set, as on GPUs.
fn divided(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    if code.is_vector() || op.desc.mods.sat() {
        return None;
    }
    let (signed, is_rem) = (op.desc.ty.is_signed(), op.desc.opcode == Opcode::Rem);
    let (a, b) = pair(code, op)?;
    let bits = code.bits(a);
    let (zero, one_, ones) = (
        code.int(bits, 0),
        code.int(bits, 1),
        code.int(bits, u64::MAX),
    );
    let is_zero = code.icmp(IntCC::Equal, b, zero);
    // A machine's division traps if the divisor is zero, or if it is -1 and the dividend is the least integer.
    let is_minus = code.icmp(IntCC::Equal, b, ones);
    let is_unsafe = match signed {
        true => code.or(is_zero, is_minus),
        false => is_zero,
    };
    let divisor = code.select(is_unsafe, one_, b);
    let mut result = code.each2(a, divisor, |b, x, y| match (is_rem, signed) {
        (false, false) => b.ins().udiv(x, y),
        (false, true) => b.ins().sdiv(x, y),
        (true, false) => b.ins().urem(x, y),
        (true, true) => b.ins().srem(x, y),
    });
    if signed && !is_rem {
        let negated = code.neg(a);
        result = code.select(is_minus, negated, result);
    }
    one(code.select(is_zero, ones, result))
}

pub(super) fn div(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    divided(code, op)
}

pub(super) fn rem(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    divided(code, op)
}

pub(super) fn neg(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let a = op.integer(code, 0, op.desc.ty)?;
    (!op.desc.mods.sat()).then_some(())?;
    one(code.neg(a))
}

pub(super) fn abs(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let a = op.integer(code, 0, op.desc.ty)?;
    (!op.desc.mods.sat()).then_some(())?;
    one(match op.desc.ty.is_signed() {
        true => code.abs(a),
        false => a,
    })
}

fn extreme(code: &mut Code<'_, '_>, op: &Operation<'_>, is_max: bool) -> Option<Results> {
    (op.args.len() == 2).then_some(())?;
    let signed = op.desc.ty.is_signed();
    let (a, b) = pair(code, op)?;
    let mut result = code.extreme(a, b, is_max, signed);
    if op.desc.mods.relu() && signed {
        let zero = code.int(code.bits(a), 0);
        result = code.extreme(result, zero, true, true);
    }
    one(result)
}

pub(super) fn min(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    extreme(code, op, false)
}

pub(super) fn max(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    extreme(code, op, true)
}

/// Returns the part of `bits` bits of each word that begins at bit `start`, extended to 32 bits.
fn part(code: &mut Code<'_, '_>, a: Group, (start, bits): (u32, u32), signed: bool) -> Group {
    let high = code.shl(a, 32 - bits - start);
    match signed {
        true => code.sar(high, 32 - bits),
        false => code.shr(high, 32 - bits),
    }
}

/// Emits the sum of an addend and of products of parts. `parts` contains the start and the number of bits of the parts
/// of both operands.
fn dot(
    code: &mut Code<'_, '_>,
    op: &Operation<'_>,
    parts: impl Iterator<Item = [(u32, u32); 2]>,
) -> Option<Results> {
    let (a, b) = (op.word(code, 0)?, op.word(code, 1)?);
    let mut sum = op.word(code, 2)?;
    let of_b = match op.desc.src {
        OpType::None => op.desc.ty,
        src => src,
    };
    for [from_a, from_b] in parts {
        let x = part(code, a, from_a, op.desc.ty.is_signed());
        let y = part(code, b, from_b, of_b.is_signed());
        let product = code.mul(x, y);
        sum = code.add(sum, product);
    }
    one(sum)
}

pub(super) fn dp4a(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    dot(code, op, (0..4).map(|n| [(8 * n, 8); 2]))
}

pub(super) fn dp2a(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let first = match op.desc.mods.half() {
        Half::Hi => 16,
        _ => 0,
    };
    dot(code, op, (0..2).map(|n| [(16 * n, 16), (first + 8 * n, 8)]))
}
