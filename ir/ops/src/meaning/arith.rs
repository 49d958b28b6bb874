//! The reference functions of ops that accept both integer and floating-point types. They call
//! another function, depending on whether the type is an integer or a floating-point type.
//!
//! The calls do not use function pointers, so that the Rust compiler can inline and specialise the
//! functions if the [`Desc`] is a constant.

use super::{Bits, Desc, approx, carry, float, int, minmax};
use crate::mods::Precision;

macro_rules! by_class {
    ($desc:ident, $args:ident, $out:ident, $integer:path, $floating:path) => {
        if $desc.ty.is_float() {
            $floating($desc, $args, $out);
        } else {
            $integer($desc, $args, $out);
        }
    };
    // For integers, the macro takes two functions: one without a carry, and one that also returns a carry.
    ($desc:ident, $args:ident, $out:ident, $plain:path | $carrying:path, $floating:path) => {
        if $desc.ty.is_float() {
            $floating($desc, $args, $out);
        } else if $desc.mods.carry_out() {
            $carrying($desc, $args, $out);
        } else {
            $plain($desc, $args, $out);
        }
    };
}

macro_rules! by_precision {
    ($desc:ident, $args:ident, $out:ident, $exact:path, $approximate:path) => {
        if $desc.mods.precision() == Precision::None {
            $exact($desc, $args, $out);
        } else {
            $approximate($desc, $args, $out);
        }
    };
}

/// Computes a sum.
#[inline(always)]
pub fn add(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class!(desc, args, out, int::add | carry::add, float::add);
}

/// Computes a difference.
#[inline(always)]
pub fn sub(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class!(desc, args, out, int::sub | carry::sub, float::sub);
}

/// Computes a product.
#[inline(always)]
pub fn mul(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class!(desc, args, out, int::mul, float::mul);
}

/// Computes the sum of a product and an addend. For floating-point types, the product is not
/// rounded before the addition.
#[inline(always)]
pub fn mad(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class!(desc, args, out, int::mad | carry::mad, float::fma);
}

/// Computes a quotient.
#[inline(always)]
pub fn div(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class!(desc, args, out, int::div, float_div);
}

#[inline]
fn float_div(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_precision!(desc, args, out, float::div, approx::div);
}

/// Computes a magnitude.
#[inline(always)]
pub fn abs(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class!(desc, args, out, int::abs, float::abs);
}

/// Negates the operand.
#[inline(always)]
pub fn neg(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class!(desc, args, out, int::neg, float::neg);
}

/// Computes a minimum.
#[inline(always)]
pub fn min(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class!(desc, args, out, int::min, minmax::min);
}

/// Computes a maximum.
#[inline(always)]
pub fn max(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class!(desc, args, out, int::max, minmax::max);
}

/// Computes a reciprocal.
pub fn rcp(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_precision!(desc, args, out, float::rcp, approx::rcp);
}

/// Computes the square root of the operand.
pub fn sqrt(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_precision!(desc, args, out, float::sqrt, approx::sqrt);
}
