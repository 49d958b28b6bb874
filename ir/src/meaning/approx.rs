//! Approximate functions.
//!
//! PTX bounds their errors; the bits are ours, the same on every engine.

use super::{Bits, Desc, float};

/// `a / b` within 2 ulp: correctly rounded, but `.approx` treats divisors above 2^126 as infinite.
pub fn div(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    float::div(desc, args, out);
}

/// `1 / a`.
pub fn rcp(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    float::rcp(desc, args, out);
}

/// The square root of `a`.
pub fn sqrt(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    float::sqrt(desc, args, out);
}

/// `1 / sqrt(a)`.
pub fn rsqrt(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    float::sqrt(desc, args, out);
    let root = [out[0]];
    float::rcp(desc, &root, out);
}
