//! The reference functions of integer arithmetic. Numbers are in two's complement, and results wrap
//! unless the op has the modifier `.sat`.
//!
//! Operations on packed types (`u16x2`, `s8x4` ...) compute each element separately. Both the quotient and the
//! remainder of a division by zero have all bits set, for signed and unsigned types, as with the division code of GPUs.
//! The quotient of the least value of a signed type and -1 wraps to the least value, and the
//! remainder is 0.
//!
//! Invariant: arithmetic is done in 128 bits, where no sum or difference of 64-bit operands can
//! overflow. A product may overflow 128 bits, but this only affects bits above the bits of the
//! result.

use super::{Bits, Desc, arg, map_elements, mask, sign_extend};
use crate::mods::Half;
use crate::types::OpType;

/// Returns the value of an element of the type `ty`: the element's bits are sign-extended or
/// zero-extended as the type requires.
#[inline(always)]
pub(super) fn value(ty: OpType, bits: Bits) -> i128 {
    if ty.is_signed() {
        sign_extend(bits, ty.element_bits())
    } else {
        (bits & mask(ty.element_bits())) as i128
    }
}

/// Returns the least and the greatest value of an element of a type.
pub(super) fn range(ty: OpType) -> (i128, i128) {
    let greatest = mask(ty.element_bits()) >> u32::from(ty.is_signed());
    let greatest = i128::try_from(greatest).unwrap_or(i128::MAX);
    (if ty.is_signed() { !greatest } else { 0 }, greatest)
}

/// Returns `value`, limited to the range of an element of the type `ty`.
#[inline(always)]
pub(super) fn saturate(ty: OpType, value: i128) -> i128 {
    let (low, high) = range(ty);
    value.clamp(low, high)
}

#[inline(always)]
fn per_element(desc: &Desc, args: &[Bits], op: impl Fn(&[i128; 4]) -> i128) -> Bits {
    let ty = desc.ty;
    map_elements(ty, args, |x| {
        let [a, b, c, d] = *x;
        let result = op(&[value(ty, a), value(ty, b), value(ty, c), value(ty, d)]);
        (if desc.mods.sat() {
            saturate(ty, result)
        } else {
            result
        }) as Bits
    })
}

/// Computes the sum of the two operands.
#[inline(always)]
pub fn add(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| x[0].wrapping_add(x[1]));
}

/// Subtracts the second operand from the first operand.
#[inline(always)]
pub fn sub(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| x[0].wrapping_sub(x[1]));
}

/// Returns the product of `a` and `b` without its lower half if `half` is `.hi`, and the whole
/// product otherwise.
#[inline(always)]
pub(super) fn product(ty: OpType, half: Half, a: Bits, b: Bits) -> i128 {
    let whole = value(ty, a).wrapping_mul(value(ty, b));
    match half {
        Half::Hi if ty.is_signed() => whole.unbounded_shr(ty.element_bits()),
        Half::Hi => (whole as u128).unbounded_shr(ty.element_bits()) as i128,
        _ => whole,
    }
}

#[inline(always)]
fn result_type(desc: &Desc) -> OpType {
    if desc.mods.half() == Half::Wide {
        desc.ty.widened()
    } else {
        desc.ty
    }
}

/// Computes the product of the two operands. As the modifiers require, returns its low half, its
/// high half, or the whole product, which has twice the width of the operands.
#[inline(always)]
pub fn mul(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let whole = product(desc.ty, desc.mods.half(), arg(args, 0), arg(args, 1));
    out[0] = whole as Bits & mask(result_type(desc).bits());
}

/// Adds the third operand, which has the result's width, to the product of the first two operands.
/// With `.sat`, limits the sum to the range of the type.
#[inline(always)]
pub fn mad(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let ty = result_type(desc);
    let whole = product(desc.ty, desc.mods.half(), arg(args, 0), arg(args, 1));
    let sum = whole.wrapping_add(value(ty, arg(args, 2)));
    let sum = if desc.mods.sat() {
        saturate(ty, sum)
    } else {
        sum
    };
    out[0] = sum as Bits & mask(ty.bits());
}

/// Multiplies the low 24 bits of the first two operands. Returns bits 16 to 47 of the product if
/// the op has the modifier `.hi`, and the low 32 bits otherwise.
fn product24(desc: &Desc, args: &[Bits]) -> i128 {
    let read = |i| {
        let bits = arg(args, i) & mask(24);
        if desc.ty.is_signed() {
            sign_extend(bits, 24)
        } else {
            bits as i128
        }
    };
    let product: i128 = read(0) * read(1);
    let kept = if desc.mods.half() == Half::Hi {
        product >> 16
    } else {
        product
    };
    value(desc.ty, kept as Bits)
}

/// Multiplies 24-bit operands.
pub fn mul24(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = product24(desc, args) as Bits & mask(32);
}

/// Multiplies the low 24 bits of the first two operands, and adds the third operand. With `.sat`,
/// limits the sum to the range of the type.
pub fn mad24(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let sum = product24(desc, args) + value(desc.ty, arg(args, 2));
    let sum = if desc.mods.sat() {
        saturate(desc.ty, sum)
    } else {
        sum
    };
    out[0] = sum as Bits & mask(32);
}

/// Adds the third operand to the absolute difference of the first two operands.
pub fn sad(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| {
        x[2].wrapping_add(x[0].wrapping_sub(x[1]).wrapping_abs())
    });
}

/// Divides the first operand by the second operand; the quotient is rounded towards zero.
#[inline(always)]
pub fn div(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| {
        if x[1] == 0 {
            -1
        } else {
            x[0].wrapping_div(x[1])
        }
    });
}

/// Computes the remainder of the division of the first operand by the second operand. It has the
/// sign of the first operand.
#[inline(always)]
pub fn rem(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| {
        if x[1] == 0 {
            -1
        } else {
            x[0].wrapping_rem(x[1])
        }
    });
}

/// Computes the absolute value of the operand. The least value of the type, whose absolute value
/// the type does not have, does not change.
#[inline(always)]
pub fn abs(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| x[0].wrapping_abs());
}

/// Negates the operand. The least value of the type, whose negation the type does not have, does
/// not change.
#[inline(always)]
pub fn neg(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| x[0].wrapping_neg());
}

#[inline(always)]
fn relu(desc: &Desc, value: i128) -> i128 {
    if desc.mods.relu() {
        value.max(0)
    } else {
        value
    }
}

/// Returns the lesser operand. With `.relu`, returns zero if the lesser operand is negative.
#[inline(always)]
pub fn min(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| relu(desc, x[0].min(x[1])));
}

/// Returns the greater operand. With `.relu`, returns zero if the greater operand is negative.
#[inline(always)]
pub fn max(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| relu(desc, x[0].max(x[1])));
}

/// The operands are `a`, `b` and `c`. Returns the sum of `c` and the four products of corresponding
/// bytes of `a` and `b`. `ty` states whether `a` is signed, and `src` states whether `b` is signed.
pub fn dp4a(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let dot: i128 = (0..4)
        .map(|i| part(desc.ty, args, 0, i, 8) * part(b_type(desc), args, 1, i, 8))
        .sum();
    out[0] = dot.wrapping_add(arg(args, 2) as i128) as Bits & mask(32);
}

/// The operands are `a`, `b` and `c`. Returns the sum of `c` and the products of the two halves of
/// `a` with two bytes of `b`: the upper two bytes with `.hi`, and the lower two bytes otherwise.
pub fn dp2a(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let first = if desc.mods.half() == Half::Hi { 2 } else { 0 };
    let dot: i128 = (0..2)
        .map(|i| part(desc.ty, args, 0, i, 16) * part(b_type(desc), args, 1, first + i, 8))
        .sum();
    out[0] = dot.wrapping_add(arg(args, 2) as i128) as Bits & mask(32);
}

fn b_type(desc: &Desc) -> OpType {
    if desc.src == OpType::None {
        desc.ty
    } else {
        desc.src
    }
}

/// Returns a part of the operand with index `operand`, sign-extended or zero-extended as `ty`
/// requires. The operand consists of parts of `bits` bits, and `index` is the index of the part.
fn part(ty: OpType, args: &[Bits], operand: usize, index: u32, bits: u32) -> i128 {
    let raw = arg(args, operand) >> (index * bits) & mask(bits);
    if ty.is_signed() {
        sign_extend(raw, bits)
    } else {
        raw as i128
    }
}
