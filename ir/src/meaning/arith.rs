//! Rows that integers and floating point share: the type's class decides who computes.

use super::{Bits, Desc, PureFn, approx, carry, float, int, minmax};
use crate::mods::Precision;

#[inline]
fn by_class(desc: &Desc, integer: PureFn, floating: PureFn) -> PureFn {
    if desc.ty.is_float() {
        floating
    } else {
        integer
    }
}

/// The integer form, or the one that also yields a carry.
#[inline]
fn by_carry(desc: &Desc, plain: PureFn, carrying: PureFn) -> PureFn {
    if desc.mods.carry_out() {
        carrying
    } else {
        plain
    }
}

/// Sum.
#[inline]
pub fn add(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class(desc, by_carry(desc, int::add, carry::add), float::add)(desc, args, out);
}

/// Difference.
#[inline]
pub fn sub(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class(desc, by_carry(desc, int::sub, carry::sub), float::sub)(desc, args, out);
}

/// Product.
#[inline]
pub fn mul(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class(desc, int::mul, float::mul)(desc, args, out);
}

/// Product and sum; of floating point, fused.
#[inline]
pub fn mad(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class(desc, by_carry(desc, int::mad, carry::mad), float::fma)(desc, args, out);
}

/// Quotient.
#[inline]
pub fn div(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let floating = match desc.mods.precision() {
        Precision::None => float::div,
        Precision::Approx | Precision::Full => approx::div,
    };
    by_class(desc, int::div, floating)(desc, args, out);
}

/// Magnitude.
#[inline]
pub fn abs(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class(desc, int::abs, float::abs)(desc, args, out);
}

/// Negation.
#[inline]
pub fn neg(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class(desc, int::neg, float::neg)(desc, args, out);
}

/// Minimum.
#[inline]
pub fn min(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class(desc, int::min, minmax::min)(desc, args, out);
}

/// Maximum.
#[inline]
pub fn max(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_class(desc, int::max, minmax::max)(desc, args, out);
}

/// Reciprocal.
pub fn rcp(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_precision(desc, float::rcp, approx::rcp)(desc, args, out);
}

/// Square root.
pub fn sqrt(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    by_precision(desc, float::sqrt, approx::sqrt)(desc, args, out);
}

#[inline]
fn by_precision(desc: &Desc, exact: PureFn, approximate: PureFn) -> PureFn {
    if desc.mods.precision() == Precision::None {
        exact
    } else {
        approximate
    }
}
