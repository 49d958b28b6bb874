//! The reference functions of floating-point arithmetic, with all modifiers of PTX: `add`, `sub`,
//! `mul`, `fma`, `mad`, `div`, `rcp`, `sqrt`, and operations on the sign.
//!
//! Each function decodes the operands, computes the exact result and rounds it once. With `.ftz`, a
//! function replaces subnormal operands and a subnormal result by zero. With `.sat`, it limits the
//! result to the range from 0 to 1. With `.relu`, it replaces a negative result by 0. Where PTX leaves
//! a choice, Margay follows these rules:
//!
//! - A NaN result is the format's canonical NaN (`0x7fffffff`, `0x7fff`). An `f64` operation returns its first NaN
//!   operand as a quiet NaN, or `0xfff8000000000000` if no operand was NaN.
//! - `.sat` and `.relu` turn -0 into +0.
//! - With `.ftz`, a result is replaced by zero if it is subnormal after rounding.
//!
//! If the operands and the result are ordinary `f32` or `f64` values (see `host`) and the rounding is to nearest even,
//! the functions use the host's operations, which give the results that IEEE 754 specifies. All other cases use
//! [`soft`].
//!
//! Invariant: mixed-precision forms (`add.f32.f16`) convert their narrow operands exactly, so they also round
//! only once.

mod host;

use super::soft::{self, Format, Number, Round};
use super::{Bits, Desc, arg, map_elements, mask};
use crate::types::OpType;

/// The format of an operation's result, and the rounding of the operation.
#[derive(Clone, Copy)]
struct Frame {
    format: Format,
    round: Round,
}

impl Frame {
    #[inline(always)]
    fn of(desc: &Desc) -> Option<Frame> {
        Some(Frame {
            format: Format::of(desc.ty)?,
            round: Round::of(desc.mods.rounding()),
        })
    }

    /// Rounds the exact result `value` to the format. If the modifiers of the op require it, also
    /// replaces a subnormal result by zero (`.ftz`), and limits the result to the range from 0 to 1
    /// (`.sat`) or replaces a negative result by 0 (`.relu`).
    fn finish(self, desc: &Desc, value: Number) -> Bits {
        let bits = self.format.encode(value, self.round, false);
        finish_bits(desc, &self.format, bits)
    }
}

/// If the modifiers of the op require it, replaces a subnormal result by zero (`.ftz`), and limits
/// the result to the range from 0 to 1 (`.sat`) or replaces a negative result by 0 (`.relu`).
#[inline(always)]
pub(super) fn finish_bits(desc: &Desc, format: &Format, bits: Bits) -> Bits {
    let bits = input(desc, format, bits);
    if desc.mods.sat() {
        clamp_to_one(format, bits)
    } else if desc.mods.relu() {
        clamp_to_zero(format, bits)
    } else {
        bits
    }
}

/// Performs the modifier `.sat`: a value below 0 or a NaN becomes +0, and a value above 1 becomes
/// 1.
#[inline]
pub(super) fn clamp_to_one(format: &Format, bits: Bits) -> Bits {
    if format.is_nan(bits) || format.is_negative(bits) {
        0
    } else {
        bits.min(format.one())
    }
}

/// Performs the modifier `.relu`: a negative value becomes +0, and a NaN becomes the canonical NaN.
#[inline]
pub(super) fn clamp_to_zero(format: &Format, bits: Bits) -> Bits {
    if format.is_nan(bits) {
        format.nan
    } else if format.is_negative(bits) {
        0
    } else {
        bits
    }
}

/// Returns `bits`, or a zero of the same sign if `bits` is subnormal and the op has the modifier
/// `.ftz`. For `f64`, `.ftz` has no effect.
#[inline(always)]
pub(super) fn input(desc: &Desc, format: &Format, bits: Bits) -> Bits {
    if desc.mods.ftz() && *format != Format::F64 {
        format.flush(bits)
    } else {
        bits
    }
}

/// For `f64`, returns the first operand that is NaN, as a quiet NaN, or `None` if no operand is
/// NaN. Operations in formats other than `f64` do not keep the payload of a NaN, so for these
/// formats the result is always `None`.
fn passed_nan(format: &Format, operands: &[Bits]) -> Option<Bits> {
    if *format != Format::F64 {
        return None;
    }
    let nan = operands.iter().find(|&&bits| format.is_nan(bits))?;
    Some(nan | 1 << 51)
}

/// An arithmetic operation: a function that computes the exact result, and the corresponding
/// operations of the host for `f32` and `f64`, which round to nearest even.
struct Operation {
    exact: fn(&[Number; 4], Round) -> Number,
    single: fn(&[f32; 4]) -> f32,
    double: fn(&[f64; 4]) -> f64,
}

/// Computes an operation for each element of the operands. In mixed-precision forms
/// (`add.f32.f16`), all operands except the last have the type `src`.
#[inline(always)]
fn compute(desc: &Desc, args: &[Bits], operation: &Operation) -> Bits {
    let Some(frame) = Frame::of(desc) else {
        return 0;
    };
    if desc.ty.elements() > 1 {
        let one = |x: &[Bits; 4]| compute_element(desc, x, args.len(), operation, frame);
        return map_elements(desc.ty, args, one);
    }
    let operand = |index| arg(args, index) & mask(desc.ty.bits());
    let operands = [operand(0), operand(1), operand(2), operand(3)];
    compute_element(desc, &operands, args.len(), operation, frame) & mask(desc.ty.bits())
}

#[inline(always)]
fn compute_element(
    desc: &Desc,
    operands: &[Bits; 4],
    count: usize,
    operation: &Operation,
    frame: Frame,
) -> Bits {
    match host::result(desc, operands, operation, &frame) {
        Some(bits) => finish_bits(desc, &frame.format, bits),
        None => exactly(desc, operands, count, operation, frame),
    }
}

/// Computes the exact result of an operation for one element, and rounds it once.
#[inline(never)]
fn exactly(
    desc: &Desc,
    operands: &[Bits; 4],
    count: usize,
    operation: &Operation,
    frame: Frame,
) -> Bits {
    let format = frame.format;
    if let Some(nan) = passed_nan(&format, operands) {
        return nan;
    }
    let mixed = Format::of(desc.src).filter(|_| desc.src != desc.ty);
    let mut numbers = [Number::Nan; 4];
    for (i, (number, &bits)) in numbers.iter_mut().zip(operands).enumerate() {
        let format = mixed.filter(|_| i + 1 < count).unwrap_or(format);
        *number = format.decode(input(desc, &format, bits));
    }
    frame.finish(desc, (operation.exact)(&numbers, frame.round))
}

const ADD: Operation = Operation {
    exact: |x, round| soft::add(x[0], x[1], round),
    single: |x| x[0] + x[1],
    double: |x| x[0] + x[1],
};
const SUB: Operation = Operation {
    exact: |x, round| soft::add(x[0], soft::negate(x[1]), round),
    single: |x| x[0] - x[1],
    double: |x| x[0] - x[1],
};
const MUL: Operation = Operation {
    exact: |x, _| soft::multiply(x[0], x[1]),
    single: |x| x[0] * x[1],
    double: |x| x[0] * x[1],
};
const FMA: Operation = Operation {
    exact: |x, round| soft::add(soft::multiply(x[0], x[1]), x[2], round),
    single: |x| x[0].mul_add(x[1], x[2]),
    double: |x| x[0].mul_add(x[1], x[2]),
};
const DIV: Operation = Operation {
    exact: |x, _| soft::divide(x[0], x[1]),
    single: |x| x[0] / x[1],
    double: |x| x[0] / x[1],
};
const RCP: Operation = Operation {
    exact: |x, _| soft::divide(Number::Finite(soft::Real::integer(false, 1)), x[0]),
    single: |x| 1.0 / x[0],
    double: |x| 1.0 / x[0],
};
const SQRT: Operation = Operation {
    exact: |x, _| soft::square_root(x[0]),
    single: |x| x[0].sqrt(),
    double: |x| x[0].sqrt(),
};

/// Computes the sum of the two operands.
#[inline(always)]
pub fn add(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = compute(desc, args, &ADD);
}

/// Subtracts the second operand from the first operand.
#[inline(always)]
pub fn sub(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = compute(desc, args, &SUB);
}

/// Computes the product of the two operands.
#[inline(always)]
pub fn mul(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = compute(desc, args, &MUL);
}

/// Adds the third operand to the product of the first two operands. The result is rounded once.
/// With `.oob`, the result of an element is zero if one of its factors is the special NaN that a
/// tensor copy writes for elements outside the tensor.
#[inline(always)]
pub fn fma(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let whole = compute(desc, args, &FMA);
    out[0] = if desc.mods.oob() {
        without_out_of_bounds(desc, args, whole)
    } else {
        whole
    };
}

/// Returns whether `bits` are the bits of the special NaN that a tensor copy writes for elements
/// outside the tensor.
fn is_out_of_bounds_nan(ty: OpType, bits: Bits) -> bool {
    ty.element_bits() == 16 && bits & 0x7fff == 0x7ff7
}

fn without_out_of_bounds(desc: &Desc, args: &[Bits], whole: Bits) -> Bits {
    map_elements(desc.ty, &[arg(args, 0), arg(args, 1), whole], |x| {
        let outside = is_out_of_bounds_nan(desc.ty, x[0]) || is_out_of_bounds_nan(desc.ty, x[1]);
        if outside { 0 } else { x[2] }
    })
}

/// Divides the first operand by the second operand.
#[inline(always)]
pub fn div(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = compute(desc, args, &DIV);
}

/// Computes the reciprocal of the operand.
pub fn rcp(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = compute(desc, args, &RCP);
}

/// Computes the square root of the operand.
pub fn sqrt(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = compute(desc, args, &SQRT);
}

/// Computes the absolute value: replaces a subnormal operand by zero if the op has the modifier
/// `.ftz`, and then clears the sign bit.
#[inline(always)]
pub fn abs(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = on_bits(desc, args, |format, bits| format.magnitude(bits));
}

/// Negates the operand: replaces a subnormal operand by zero if the op has the modifier `.ftz`, and
/// then inverts the sign bit.
#[inline(always)]
pub fn neg(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = on_bits(desc, args, |format, bits| bits ^ format.sign_bit());
}

#[inline(always)]
fn on_bits(desc: &Desc, args: &[Bits], op: impl Fn(&Format, Bits) -> Bits) -> Bits {
    let Some(format) = Format::of(desc.ty) else {
        return 0;
    };
    map_elements(desc.ty, args, |x| op(&format, input(desc, &format, x[0])))
}

/// Returns the second operand with the sign of the first operand.
pub fn copysign(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let Some(format) = Format::of(desc.ty) else {
        return;
    };
    out[0] = map_elements(desc.ty, args, |x| {
        x[0] & format.sign_bit() | format.magnitude(x[1])
    });
}
