//! Approximate functions: division, roots, sines, logarithms, exponentials.
//!
//! PTX bounds their errors and fixes special cases; the bits are ours, the same on every engine.
//! Quotients, reciprocals and roots are correctly rounded operations of [`soft`] or two of them
//! (`rsqrt` is `1 / sqrt`, each rounded to nearest), which hosts have as instructions. The rest is
//! [`functions`], written once over [`Arithmetic`]: the meaning evaluates it on one value, a code
//! generator instantiates the same algorithm over vector registers.
//!
//! Half-precision forms widen exactly, compute in `f32` and round once more to nearest even.
//!
//! Invariant: with `.ftz` no intermediate value that matters is subnormal, so engines may run these
//! with the host's flush-to-zero flags set.

pub mod functions;
pub mod halves;
mod lanes;

pub use lanes::{Arithmetic, Host};

use super::soft::{self, Format, Number, Real, Round};
use super::{Bits, Desc, float, map_elements};
use crate::mods::Precision;
use crate::types::OpType;

/// `a / b` within 2 ulp: correctly rounded, except that `.approx` takes divisors above 2^126 for
/// infinite (PTX: the quotient is a zero, or NaN when `a` is infinite).
pub fn div(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let mut operands = [super::arg(args, 0), super::arg(args, 1)];
    let large = Format::F32.magnitude(operands[1]) > LARGEST_DIVISOR;
    if desc.mods.precision() == Precision::Approx && large && !Format::F32.is_nan(operands[1]) {
        operands[1] = operands[1] & Format::F32.sign_bit() | Format::F32.infinity();
    }
    float::div(desc, &operands, out);
}

/// 2^126 as `f32`.
const LARGEST_DIVISOR: Bits = 0x7e80_0000;

/// `1 / a`.
pub fn rcp(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    if desc.ty == OpType::F64 {
        out[0] = upper_word(super::arg(args, 0), reciprocal);
    } else {
        float::rcp(desc, args, out);
    }
}

/// The square root of `a`.
pub fn sqrt(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    float::sqrt(desc, args, out);
}

/// `1 / sqrt(a)`.
pub fn rsqrt(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    if desc.ty == OpType::F64 && desc.mods.ftz() {
        out[0] = upper_word(super::arg(args, 0), |format, bits| {
            let root = format.encode(
                soft::square_root(format.decode(bits)),
                Round::NearestEven,
                false,
            );
            reciprocal(format, root)
        });
        return;
    }
    float::sqrt(desc, args, out);
    let root = [out[0]];
    float::rcp(desc, &root, out);
}

fn reciprocal(format: &Format, bits: Bits) -> Bits {
    let one = Number::Finite(Real::integer(false, 1));
    format.encode(
        soft::divide(one, format.decode(bits)),
        Round::NearestEven,
        false,
    )
}

/// The `.approx.ftz.f64` forms see only the upper word of their operand and give only that of the
/// result, rounded to it; any NaN is `0x7fffffff00000000`.
fn upper_word(bits: Bits, op: impl Fn(&Format, Bits) -> Bits) -> Bits {
    let format = Format::F64;
    let upper = |bits: Bits| bits >> 32 << 32;
    let result = op(&format, format.flush(upper(bits)));
    if format.is_nan(result) {
        return 0x7fff_ffff_0000_0000;
    }
    format.flush(upper(result + (1 << 31)))
}

/// A function of one `f32` on the host.
type Function = fn(&mut Host, f32, bool) -> f32;

fn evaluate(desc: &Desc, args: &[Bits], out: &mut [Bits], function: Function) {
    let Some(format) = Format::of(desc.ty) else {
        return;
    };
    if format == Format::F64 {
        return;
    }
    let single = Format::F32;
    out[0] = map_elements(desc.ty, args, |x| {
        let widened = match format.decode(float::input(desc, &format, x[0])) {
            Number::Nan => return format.nan,
            number => single.encode(number, Round::NearestEven, false),
        };
        // Flushing belongs to the narrow format; only `f32` itself asks the function for it.
        let ftz = desc.mods.ftz() && format == single;
        let result = function(&mut Host, f32::from_bits(widened as u32), ftz);
        let result = single.decode(result.to_bits().into());
        let narrowed = format.encode(result, Round::NearestEven, false);
        float::input(desc, &format, narrowed)
    });
}

/// The sine of an angle in radians.
pub fn sin(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    evaluate(desc, args, out, functions::sin);
}

/// The cosine of an angle in radians.
pub fn cos(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    evaluate(desc, args, out, functions::cos);
}

/// The logarithm to base two.
pub fn lg2(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    evaluate(desc, args, out, functions::lg2);
}

/// Two to a power.
pub fn ex2(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    evaluate(desc, args, out, functions::ex2);
}

/// The hyperbolic tangent.
pub fn tanh(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    evaluate(desc, args, out, |host, x, _| functions::tanh(host, x));
}
