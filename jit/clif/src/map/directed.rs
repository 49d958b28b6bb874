//! Sums, products and fused products of `f32`, rounded towards zero, down, up or to odd.
//!
//! The exact result is represented as a sum of two `f64`: a product of two `f32` is exact in `f64`, and the error of an
//! `f64` sum is computed exactly (Knuth, The Art of Computer Programming 2, 4.2.2, theorem B). The `f32` nearest to the
//! first `f64` is either the result or the neighbour of the result on the other side of the exact result.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use margay_ops::meaning::Desc;
use margay_ops::mods::Rounding;
use margay_ops::ops::Opcode;

use crate::code::Code;
use crate::group::Group;

/// An exact number: the sum of an `f64` and of its error.
#[derive(Clone, Copy)]
struct Exact {
    sum: Group,
    error: Group,
}

/// Emits an operation with the rounding of `desc`, which must be directed.
pub(super) fn result(code: &mut Code<'_, '_>, desc: &Desc, x: &[Group]) -> Option<Group> {
    let rounding = desc.mods.rounding();
    if !matches!(rounding, Rounding::Rz | Rounding::Rm | Rounding::Rp) {
        return None;
    }
    let wide: Vec<Group> = x.iter().map(|&x| code.promote(x)).collect();
    let exact = match (desc.opcode, wide.as_slice()) {
        (Opcode::Add, &[a, b]) => sum(code, a, b, rounding),
        (Opcode::Sub, &[a, b]) => {
            let b = code.fneg(b);
            sum(code, a, b, rounding)
        }
        (Opcode::Mul, &[a, b]) => Exact {
            sum: code.fmul(a, b),
            error: code.float(64, 0.0),
        },
        (Opcode::Fma, &[a, b, c]) => {
            let product = code.fmul(a, b);
            sum(code, product, c, rounding)
        }
        _ => return None,
    };
    Some(round(code, exact, rounding))
}

/// Emits the exact sum of two `f64`.
fn sum(code: &mut Code<'_, '_>, a: Group, b: Group, rounding: Rounding) -> Exact {
    let sum = code.fadd(a, b);
    let of_b = code.fsub(sum, a);
    let of_a = code.fsub(sum, of_b);
    let (error_a, error_b) = (code.fsub(a, of_a), code.fsub(b, of_b));
    let error = code.fadd(error_a, error_b);
    if rounding != Rounding::Rm {
        return Exact { sum, error };
    }
    // With rounding down, a zero sum of numbers with opposite signs is -0.
    let (x, y) = (code.as_int(a), code.as_int(b));
    let either = code.or(x, y);
    let sign = code.and_with(either, 1 << 63);
    let zero = code.as_float(sign);
    let none = code.float(64, 0.0);
    let vanishes = code.fcmp(FloatCC::Equal, sum, none);
    Exact {
        sum: code.select(vanishes, zero, sum),
        error,
    }
}

/// The `f32` nearest to an exact number, and the same number as `f64`.
struct Nearest {
    bits: Group,
    back: Group,
}

fn nearest(code: &mut Code<'_, '_>, exact: Exact) -> Nearest {
    let single = code.demote(exact.sum);
    Nearest {
        bits: code.as_int(single),
        back: code.promote(single),
    }
}

/// Returns whether the nearest `f32` is greater (`GreaterThan`) or less (`LessThan`) than the exact number.
fn is_beyond(code: &mut Code<'_, '_>, back: Group, exact: Exact, side: FloatCC) -> Group {
    let zero = code.float(64, 0.0);
    let is_past = code.fcmp(side, back, exact.sum);
    let is_level = code.fcmp(FloatCC::Equal, back, exact.sum);
    let is_lacking = code.fcmp(side, zero, exact.error);
    let is_just_past = code.and(is_level, is_lacking);
    code.or(is_past, is_just_past)
}

/// Returns the bits of the next `f32` above (`up`) or below.
fn neighbour(code: &mut Code<'_, '_>, bits: Group, up: bool) -> Group {
    // A step upwards increases the magnitude of a positive number and decreases that of a negative number.
    let one = code.int(32, 1);
    let sign = code.sar(bits, 31);
    let delta = code.or(sign, one);
    let moved = match up {
        true => code.add(bits, delta),
        false => code.sub(bits, delta),
    };
    // From both zeros, the step upwards leads to the least positive number, and the step downwards to its negation.
    let magnitude = code.add(bits, bits);
    let is_zero = code.icmp_with(IntCC::Equal, magnitude, 0);
    let least = code.int(32, if up { 1 } else { 0x8000_0001 });
    code.select(is_zero, least, moved)
}

/// Returns the nearest `f32`, or its neighbour if the nearest one is on the wrong side of the exact number.
fn one_sided(code: &mut Code<'_, '_>, nearest: &Nearest, exact: Exact, up: bool) -> Group {
    let side = match up {
        true => FloatCC::LessThan,
        false => FloatCC::GreaterThan,
    };
    let is_beyond = is_beyond(code, nearest.back, exact, side);
    let moved = neighbour(code, nearest.bits, up);
    code.select(is_beyond, moved, nearest.bits)
}

fn round(code: &mut Code<'_, '_>, exact: Exact, rounding: Rounding) -> Group {
    let nearest = nearest(code, exact);
    let bits = match rounding {
        Rounding::Rm => one_sided(code, &nearest, exact, false),
        Rounding::Rp => one_sided(code, &nearest, exact, true),
        _ => {
            let down = one_sided(code, &nearest, exact, false);
            let up = one_sided(code, &nearest, exact, true);
            let zero = code.float(64, 0.0);
            let is_positive = code.fcmp(FloatCC::GreaterThan, exact.sum, zero);
            code.select(is_positive, down, up)
        }
    };
    code.as_float(bits)
}

/// Emits `a * b + c` of `f32`, rounded to odd: rounded towards zero, with the last bit set if the result is inexact.
pub(super) fn fused_to_odd(code: &mut Code<'_, '_>, a: Group, b: Group, c: Group) -> Group {
    let [a, b, c] = [a, b, c].map(|x| code.promote(x));
    let product = code.fmul(a, b);
    let exact = sum(code, product, c, Rounding::Rn);
    let nearest = nearest(code, exact);
    let down = one_sided(code, &nearest, exact, false);
    let is_below = is_beyond(code, nearest.back, exact, FloatCC::LessThan);
    let up = neighbour(code, nearest.bits, true);
    let moved = code.select(is_below, up, down);
    // If the last bit of the nearest number is set, this number is the result.
    let last = code.and_with(nearest.bits, 1);
    let is_even = code.icmp_with(IntCC::Equal, last, 0);
    let bits = code.select(is_even, moved, nearest.bits);
    code.as_float(bits)
}
