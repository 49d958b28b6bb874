//! The reference functions of floating-point `min` and `max`.
//!
//! Without the modifier `.NaN`, the result is that of the operands that are not NaN, or the
//! canonical NaN if all operands are NaN. With `.NaN`, the result is the canonical NaN if any
//! operand is NaN. -0 is less than +0. The result for three operands is computed from the result
//! for the first two operands and the third operand. With `.xorsign.abs`, the absolute value of the
//! result is the least or greatest of the operands' absolute values, and its sign bit is the
//! "exclusive or" of the operands' sign bits.

use super::soft::Format;
use super::{Bits, Desc, float, map_elements};

/// Returns the least of the operands.
#[inline]
pub fn min(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = reduce(desc, args, i128::lt);
}

/// Returns the greatest of the operands.
#[inline]
pub fn max(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = reduce(desc, args, i128::gt);
}

#[inline]
fn reduce(desc: &Desc, args: &[Bits], first_wins: fn(&i128, &i128) -> bool) -> Bits {
    let Some(format) = Format::of(desc.ty) else {
        return 0;
    };
    map_elements(desc.ty, args, |x| {
        let operand = |bits: Bits| {
            let bits = float::input(desc, &format, bits);
            if desc.mods.abs() {
                format.magnitude(bits)
            } else {
                bits
            }
        };
        let operands = x.iter().take(args.len()).map(|&bits| operand(bits));
        operands
            .reduce(|a, b| choose(desc, &format, a, b, first_wins))
            .unwrap_or_default()
    })
}

/// Returns a sort key for the number that `bits` represents: for two numbers, the keys have the
/// same order as the numbers, and -0 comes before +0.
#[inline]
pub(super) fn order_key(format: &Format, bits: Bits) -> i128 {
    let magnitude = format.magnitude(bits) as i128;
    if format.is_negative(bits) {
        !magnitude
    } else {
        magnitude
    }
}

#[inline]
fn choose(
    desc: &Desc,
    format: &Format,
    a: Bits,
    b: Bits,
    first_wins: fn(&i128, &i128) -> bool,
) -> Bits {
    let sign = if desc.mods.xorsign_abs() {
        (a ^ b) & format.sign_bit()
    } else {
        0
    };
    let strip = |bits| {
        if desc.mods.xorsign_abs() {
            format.magnitude(bits)
        } else {
            bits
        }
    };
    match (format.is_nan(a), format.is_nan(b)) {
        (true, true) => format.nan,
        (true, false) | (false, true) if desc.mods.nan() => format.nan,
        (true, false) => strip(b) | sign,
        (false, true) => strip(a) | sign,
        (false, false) => {
            let (a, b) = (strip(a), strip(b));
            let a_wins = first_wins(&order_key(format, a), &order_key(format, b));
            (if a_wins { a } else { b }) | sign
        }
    }
}
