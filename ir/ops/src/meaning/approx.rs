//! The reference functions of the ops for which PTX permits approximate results: division, roots,
//! sines, logarithms, exponentials.
//!
//! PTX specifies error bounds and special cases for these functions. Within these bounds, Margay defines the exact bits
//! of the results, which are the same in every engine. A quotient, a reciprocal or a square root of `f32` values is one
//! correctly rounded operation of [`float`]; [`div`] states the one exception. Host processors have instructions for
//! these three operations. `rsqrt` consists of two such operations (`1 / sqrt`, each rounded to nearest). [`functions`]
//! contains the other functions, which are generic over [`Arithmetic`]: the reference function computes them for one
//! value, and the code generator emits the same operations for vector registers.
//!
//! For a type of 16 bits, a function converts the operand exactly to `f32`, computes in `f32`, and
//! rounds the result to nearest even.
//!
//! Invariant: with `.ftz` no intermediate value that affects the result is subnormal, so engines may run these
//! functions with the host's flush-to-zero flags set.

pub mod functions;
pub mod halves;
mod lanes;

pub use lanes::{Arithmetic, Host};

use super::soft::{self, Format, Number, Real, Round};
use super::{Bits, Desc, float, map_elements};
use crate::mods::Precision;
use crate::types::OpType;

/// Computes the quotient `a / b` of the two operands, correctly rounded. There is one exception:
/// `.approx` treats divisors above 2^126 as infinite, because PTX requires a quotient of zero for
/// them, or NaN if `a` is infinite.
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

/// Computes the reciprocal of the operand.
pub fn rcp(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    if desc.ty == OpType::F64 {
        out[0] = upper_word(super::arg(args, 0), reciprocal);
    } else {
        float::rcp(desc, args, out);
    }
}

/// Computes the square root of the operand.
pub fn sqrt(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    float::sqrt(desc, args, out);
}

/// Computes the reciprocal of the operand's square root.
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

/// Computes an `.approx.ftz.f64` form: applies `op` to the operand with its lower 32 bits set to
/// zero, and rounds the result so that its lower 32 bits are zero. If the result is a NaN, returns
/// `0x7fffffff00000000`.
fn upper_word(bits: Bits, op: impl Fn(&Format, Bits) -> Bits) -> Bits {
    let format = Format::F64;
    let upper = |bits: Bits| bits >> 32 << 32;
    let result = op(&format, format.flush(upper(bits)));
    if format.is_nan(result) {
        return 0x7fff_ffff_0000_0000;
    }
    format.flush(upper(result + (1 << 31)))
}

/// A function of one `f32`, computed on the host. Its last argument states whether the instruction
/// has the modifier `.ftz`.
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
        // `.ftz` applies to the format of the operand, so `function` flushes only if this format is `f32`.
        let ftz = desc.mods.ftz() && format == single;
        let result = function(&mut Host, f32::from_bits(widened as u32), ftz);
        let result = single.decode(result.to_bits().into());
        let narrowed = format.encode(result, Round::NearestEven, false);
        float::input(desc, &format, narrowed)
    });
}

/// Computes the sine of the operand, an angle in radians.
pub fn sin(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    evaluate(desc, args, out, functions::sin);
}

/// Computes the cosine of the operand, an angle in radians.
pub fn cos(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    evaluate(desc, args, out, functions::cos);
}

/// Computes the operand's logarithm to base two.
pub fn lg2(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    evaluate(desc, args, out, functions::lg2);
}

/// Computes two to the power of the operand.
pub fn ex2(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    evaluate(desc, args, out, functions::ex2);
}

/// Computes the hyperbolic tangent of the operand.
pub fn tanh(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    evaluate(desc, args, out, |host, x, _| functions::tanh(host, x));
}
