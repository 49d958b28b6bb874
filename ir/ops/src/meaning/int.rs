//! Integer arithmetic: two's complement, wrapping unless `.sat`.
//!
//! Packed types (`u16x2`, `s8x4` ...) work element by element. Division by zero gives all ones,
//! for the quotient and for the remainder, signed or not: that is what GPUs' division sequences
//! leave. The least value divided by -1 wraps to itself, remainder 0.
//!
//! Invariant: arithmetic is done in 128 bits, where no sum or difference of 64-bit operands can
//! overflow; only products wrap, harmlessly above the bits that are kept.

use super::{Bits, Desc, arg, map_elements, mask, sign_extend};
use crate::mods::Half;
use crate::types::OpType;

/// The element's value as its type reads it.
#[inline(always)]
pub(super) fn value(ty: OpType, bits: Bits) -> i128 {
    if ty.is_signed() {
        sign_extend(bits, ty.element_bits())
    } else {
        (bits & mask(ty.element_bits())) as i128
    }
}

/// The least and the greatest value of a type's element.
pub(super) fn range(ty: OpType) -> (i128, i128) {
    let greatest = mask(ty.element_bits()) >> u32::from(ty.is_signed());
    let greatest = i128::try_from(greatest).unwrap_or(i128::MAX);
    (if ty.is_signed() { !greatest } else { 0 }, greatest)
}

/// Clamps into a type's range.
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

/// `a + b`.
#[inline(always)]
pub fn add(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| x[0].wrapping_add(x[1]));
}

/// `a - b`.
#[inline(always)]
pub fn sub(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| x[0].wrapping_sub(x[1]));
}

/// The part of `a * b` that a modifier keeps: of `.hi` the upper half, else all of it.
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

/// `a * b`: low half, high half, or all of it in twice the width.
#[inline(always)]
pub fn mul(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let whole = product(desc.ty, desc.mods.half(), arg(args, 0), arg(args, 1));
    out[0] = whole as Bits & mask(result_type(desc).bits());
}

/// `a * b + c`, where `c` has the result's width; `.sat` clamps the sum.
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

/// Product of the low 24 bits: its low 32 bits, or with `.hi` bits 16 to 47.
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

/// 24-bit multiplication.
pub fn mul24(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = product24(desc, args) as Bits & mask(32);
}

/// 24-bit multiplication and addition; `.sat` clamps the sum.
pub fn mad24(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let sum = product24(desc, args) + value(desc.ty, arg(args, 2));
    let sum = if desc.mods.sat() {
        saturate(desc.ty, sum)
    } else {
        sum
    };
    out[0] = sum as Bits & mask(32);
}

/// `c + |a - b|`.
pub fn sad(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| {
        x[2].wrapping_add(x[0].wrapping_sub(x[1]).wrapping_abs())
    });
}

/// `a / b`, towards zero.
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

/// `a % b`, with the sign of `a`.
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

/// `|a|`; of the least value itself.
#[inline(always)]
pub fn abs(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| x[0].wrapping_abs());
}

/// `-a`; of the least value itself.
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

/// The lesser operand; `.relu` clamps below at zero.
#[inline(always)]
pub fn min(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| relu(desc, x[0].min(x[1])));
}

/// The greater operand; `.relu` clamps below at zero.
#[inline(always)]
pub fn max(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = per_element(desc, args, |x| relu(desc, x[0].max(x[1])));
}

/// The sum of `c` and the products of four bytes of `a` and `b`; `ty` says how `a` is read, `src`
/// how `b` is.
pub fn dp4a(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let dot: i128 = (0..4)
        .map(|i| part(desc.ty, args, 0, i, 8) * part(b_type(desc), args, 1, i, 8))
        .sum();
    out[0] = dot.wrapping_add(arg(args, 2) as i128) as Bits & mask(32);
}

/// The sum of `c` and the products of two halves of `a` with two bytes of `b`: the low two, or the
/// high two with `.hi`.
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

/// Part `index` of `bits` bits of an operand, extended by its type's sign.
fn part(ty: OpType, args: &[Bits], operand: usize, index: u32, bits: u32) -> i128 {
    let raw = arg(args, operand) >> (index * bits) & mask(bits);
    if ty.is_signed() {
        sign_extend(raw, bits)
    } else {
        raw as i128
    }
}
