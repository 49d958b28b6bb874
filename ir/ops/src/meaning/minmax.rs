//! Floating-point `min` and `max`.
//!
//! A NaN operand is ignored unless `.NaN` is given; if all operands are NaN, the result is the canonical NaN. -0 is
//! less than +0. The three-operand form applies the two-operand form twice. With `.xorsign.abs`, the result is the
//! least or greatest magnitude, and its sign is the exclusive or of the operands' signs.

use super::soft::Format;
use super::{Bits, Desc, float, map_elements};

/// Returns the least operand.
#[inline]
pub fn min(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = reduce(desc, args, i128::lt);
}

/// Returns the greatest operand.
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

/// Returns an integer for an encoding. The integers are in the same order as the numbers that the encodings represent,
/// with -0 before +0.
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
