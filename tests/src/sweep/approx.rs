//! Checks the results of approximate instructions with one operand. A result must be within the
//! error bound of the PTX ISA, and must be the ISA's result for special operands such as
//! infinities.
//!
//! The exact results are those of the host's `f64` functions, whose own errors are below 2^-50. An
//! infinite result counts as the power of two above the largest finite number, so that an overflow
//! has a finite error.

use std::f64::consts::{PI, TAU};

use super::Check;
use super::format::Format;
use super::tally::{Region, Tally, Unit};

/// The result that the ISA states for a special operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Special {
    /// Not a number.
    Nan,
    /// A number or an infinity.
    Value(f64),
}

/// An approximate function. The function is a type parameter of its checker, so that the compiler
/// optimises each checker. Checkers check billions of results.
pub trait Function: Send + Sync + 'static {
    /// The function's name in PTX.
    const NAME: &'static str;
    /// Computes the exact function.
    fn exact(x: f64) -> f64;
    /// If the operand is special, returns the result that the ISA's tables state. A computed zero
    /// must also have the sign of this result.
    fn special(x: f64) -> Option<Special>;
    /// Returns the index of the region ([`Region`]) that contains an operand.
    fn region(_: f64) -> usize {
        0
    }
}

/// The function that raises two to the power of the operand.
pub struct Ex2;

impl Function for Ex2 {
    const NAME: &'static str = "ex2";

    #[inline(always)]
    fn exact(x: f64) -> f64 {
        f64::exp2(x)
    }

    #[inline(always)]
    fn special(x: f64) -> Option<Special> {
        match x {
            f64::INFINITY => Some(Special::Value(f64::INFINITY)),
            f64::NEG_INFINITY => Some(Special::Value(0.0)),
            0.0 => Some(Special::Value(1.0)),
            _ => None,
        }
    }
}

/// The logarithm to base two.
pub struct Lg2;

impl Function for Lg2 {
    const NAME: &'static str = "lg2";

    #[inline(always)]
    fn exact(x: f64) -> f64 {
        f64::log2(x)
    }

    #[inline(always)]
    fn special(x: f64) -> Option<Special> {
        match x {
            f64::INFINITY => Some(Special::Value(f64::INFINITY)),
            0.0 => Some(Special::Value(f64::NEG_INFINITY)),
            _ if x < 0.0 => Some(Special::Nan),
            _ => None,
        }
    }

    #[inline(always)]
    fn region(x: f64) -> usize {
        usize::from(!(x > 0.5 && x < 2.0))
    }
}

/// Returns the special results of sine and cosine: NaN for infinities, `at_zero` for zeros.
#[inline(always)]
fn of_angle(x: f64, at_zero: f64) -> Option<Special> {
    if x.is_infinite() {
        Some(Special::Nan)
    } else if x == 0.0 {
        Some(Special::Value(at_zero))
    } else {
        None
    }
}

#[inline(always)]
fn range_of_angle(x: f64) -> usize {
    if x.abs() <= TAU {
        0
    } else if x.abs() <= 100.0 * PI {
        1
    } else {
        2
    }
}

/// The sine.
pub struct Sin;

impl Function for Sin {
    const NAME: &'static str = "sin";

    #[inline(always)]
    fn exact(x: f64) -> f64 {
        f64::sin(x)
    }

    #[inline(always)]
    fn special(x: f64) -> Option<Special> {
        of_angle(x, x)
    }

    #[inline(always)]
    fn region(x: f64) -> usize {
        range_of_angle(x)
    }
}

/// The cosine.
pub struct Cos;

impl Function for Cos {
    const NAME: &'static str = "cos";

    #[inline(always)]
    fn exact(x: f64) -> f64 {
        f64::cos(x)
    }

    #[inline(always)]
    fn special(x: f64) -> Option<Special> {
        of_angle(x, 1.0)
    }

    #[inline(always)]
    fn region(x: f64) -> usize {
        range_of_angle(x)
    }
}

/// The hyperbolic tangent.
pub struct Tanh;

impl Function for Tanh {
    const NAME: &'static str = "tanh";

    #[inline(always)]
    fn exact(x: f64) -> f64 {
        f64::tanh(x)
    }

    #[inline(always)]
    fn special(x: f64) -> Option<Special> {
        {
            if x.is_infinite() {
                Some(Special::Value(x.signum()))
            } else if x.abs() < f64::from(f32::MIN_POSITIVE) {
                Some(Special::Value(x))
            } else {
                None
            }
        }
    }
}

/// The reciprocal.
pub struct Rcp;

impl Function for Rcp {
    const NAME: &'static str = "rcp";

    #[inline(always)]
    fn exact(x: f64) -> f64 {
        f64::recip(x)
    }

    #[inline(always)]
    fn special(x: f64) -> Option<Special> {
        {
            let limit = x.is_infinite() || x == 0.0;
            limit.then(|| Special::Value(x.recip()))
        }
    }
}

/// The square root.
pub struct Sqrt;

impl Function for Sqrt {
    const NAME: &'static str = "sqrt";

    #[inline(always)]
    fn exact(x: f64) -> f64 {
        f64::sqrt(x)
    }

    #[inline(always)]
    fn special(x: f64) -> Option<Special> {
        match x {
            0.0 => Some(Special::Value(x)),
            f64::INFINITY => Some(Special::Value(x)),
            _ if x < 0.0 => Some(Special::Nan),
            _ => None,
        }
    }
}

/// The reciprocal of the square root.
pub struct Rsqrt;

impl Function for Rsqrt {
    const NAME: &'static str = "rsqrt";

    #[inline(always)]
    fn exact(x: f64) -> f64 {
        x.sqrt().recip()
    }

    #[inline(always)]
    fn special(x: f64) -> Option<Special> {
        match x {
            0.0 => Some(Special::Value(x.recip())),
            f64::INFINITY => Some(Special::Value(0.0)),
            _ if x < 0.0 => Some(Special::Nan),
            _ => None,
        }
    }
}

const fn region(about: &'static str, bound: f64, unit: Unit) -> Region {
    Region {
        about,
        bound,
        unit,
        stated: true,
    }
}

/// Returns `2^-n`.
const fn power(n: i32) -> f64 {
    f64::from_bits(((1023 - n) as u64) << 52)
}

/// The bound 2^-20.5.
const SINE_NEAR: f64 = power(21) * std::f64::consts::SQRT_2;
/// The bound 2^-14.7 = 2^-15 * 2^0.3.
const SINE_FAR: f64 = power(15) * 1.231_144_413_344_916_3;
/// The bound 2^-22.9 = 2^-23 * 2^0.1.
const RSQRT_BOUND: f64 = power(23) * 1.071_773_462_536_293_1;
/// The bound 2^-9.9 = 2^-10 * 2^0.1.
const EX2_HALF: f64 = power(10) * 1.071_773_462_536_293_1;
/// The bound 2^-10.987 = 2^-11 * 2^0.013.
const TANH_HALF: f64 = power(11) * 1.009_051_633_844_681_3;

const ANGLES: &[Region] = &[
    region("|x| <= 2 pi", SINE_NEAR, Unit::Absolute),
    region("|x| <= 100 pi", SINE_FAR, Unit::Absolute),
    Region {
        stated: false,
        ..region("larger |x|: the result's size", 1.0, Unit::Size)
    },
];

/// Returns the regions of operands of the function `F` in a format, with their error bounds.
pub fn regions<F: Function>(format: Format) -> &'static [Region] {
    match (F::NAME, format) {
        ("ex2", Format::F32) => const { &[region("all", 2.0, Unit::Ulp)] },
        ("ex2", Format::F16) => const { &[region("all normal results", EX2_HALF, Unit::Relative)] },
        ("ex2", _) => const { &[region("all", power(7), Unit::Relative)] },
        ("lg2", _) => {
            const {
                &[
                    region("1/2 < x < 2", power(22), Unit::Absolute),
                    region("other x", power(22), Unit::Relative),
                ]
            }
        }
        ("sin" | "cos", _) => ANGLES,
        ("tanh", Format::F32) => const { &[region("all", power(11), Unit::Relative)] },
        ("tanh", Format::F16) => const { &[region("all", TANH_HALF, Unit::Absolute)] },
        ("tanh", _) => const { &[region("all", power(8), Unit::Absolute)] },
        ("rcp", _) => const { &[region("all", 1.0, Unit::Ulp)] },
        ("sqrt", _) => const { &[region("x > 0", power(23), Unit::Relative)] },
        _ => const { &[region("x > 0", RSQRT_BOUND, Unit::Relative)] },
    }
}

/// Converts the difference `distance` to units in the last place (ULP) of numbers near `x`.
#[inline(always)]
pub(super) fn units(format: Format, distance: f64, x: f64) -> f64 {
    let least = format.value(format.least_normal());
    let exponent = (x.abs().max(least).to_bits() >> 52) - u64::from(format.fraction);
    // The unit is a power of two, and so is its inverse.
    distance * f64::from_bits((2046 - exponent) << 52)
}

/// Returns the value of the operand with the encoding `bits`. The value may be infinite.
#[inline(always)]
fn operand(format: Format, bits: u64) -> f64 {
    let value = format.signed(bits);
    if bits & (format.sign() - 1) == format.end() {
        f64::INFINITY.copysign(value)
    } else {
        value
    }
}

/// An approximate function whose operand and result have the same format.
pub struct Approximation<F> {
    /// The approximated function.
    pub function: F,
    /// The format of the operand and of the result.
    pub format: Format,
    /// Whether subnormal operands and results become zero (`.ftz`).
    pub flush: bool,
}

impl<F: Function> Approximation<F> {
    /// Checks one result `got` for the operand `bits`. `format` equals `self.format`. It is a
    /// separate parameter so that callers can pass a constant.
    #[inline(always)]
    fn judge(&self, format: Format, bits: u64, got: u64, tally: &mut Tally) {
        let inputs = &[bits];
        let mut x = operand(format, bits);
        let value = format.signed(got);
        if x.is_nan() {
            return tally.expect(value.is_nan(), inputs, got, "a NaN gives NaN");
        }
        let least = format.value(format.least_normal());
        if self.flush && x.abs() < least {
            x = 0f64.copysign(x);
        }
        if let Some(special) = F::special(x) {
            return self.special(special, bits, got, tally);
        }
        if value.is_nan() {
            return tally.wrong(inputs, got, "NaN");
        }
        let region = F::region(x);
        let unit = tally.regions[region].unit;
        if unit == Unit::Size {
            return tally.error(region, value.abs(), inputs, got);
        }
        let limit = format.value(format.end());
        let exact = F::exact(x).clamp(-limit, limit);
        if self.flush && exact.abs() < least * (1.0 + power(21)) {
            return self.flushed(exact, bits, got, tally);
        }
        let distance = (value - exact).abs();
        let small = exact.abs() < least && unit == Unit::Relative;
        let error = match unit {
            // A subnormal result has fewer bits, so it must be within one unit of its last place.
            Unit::Relative if small => {
                let error = units(format, distance, exact);
                return tally.expect(error <= 1.0, inputs, got, "a subnormal result");
            }
            Unit::Relative => distance / exact.abs(),
            Unit::Ulp => units(format, distance, exact),
            Unit::Absolute | Unit::Size => distance,
        };
        tally.error(region, error, inputs, got);
    }

    /// Checks a result of a function with `.ftz`. The exact result is less than the least normal
    /// number, or exceeds it by less than the error bound.
    fn flushed(&self, exact: f64, bits: u64, got: u64, tally: &mut Tally) {
        let format = self.format;
        let least = format.value(format.least_normal());
        let value = format.signed(got);
        let zero = value == 0.0 && value.is_sign_negative() == exact.is_sign_negative();
        let close = exact.abs() > least * (1.0 - power(21));
        let right = zero || close && (value - exact).abs() <= least * power(21);
        tally.expect(right, &[bits], got, "a subnormal result is a zero");
    }

    fn special(&self, special: Special, bits: u64, got: u64, tally: &mut Tally) {
        let format = self.format;
        let right = match special {
            Special::Nan => format.is_nan(got & (format.sign() - 1)),
            Special::Value(wanted) => {
                let infinite = got & (format.sign() - 1) == format.end();
                let value = format.signed(got);
                let same = if wanted.is_infinite() {
                    infinite && (value > 0.0) == (wanted > 0.0)
                } else {
                    value == wanted && !infinite
                };
                same && value.is_sign_negative() == wanted.is_sign_negative()
            }
        };
        if !right {
            tally.wrong(&[bits], got, &format!("{special:?} is due"));
        }
    }

    /// Returns a checker of results that consist of a single number.
    pub fn check(self) -> Check {
        // Most results are in single precision; the constant format makes their checker faster.
        if self.format == Format::F32 {
            return Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
                self.judge(Format::F32, inputs[0], got, tally);
            });
        }
        Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
            self.judge(self.format, inputs[0], got, tally)
        })
    }

    /// Returns a checker of results that consist of a pair of 16-bit numbers in 32 bits.
    pub fn check_pair(self) -> Check {
        Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
            self.judge(self.format, inputs[0] & 0xffff, got & 0xffff, tally);
            self.judge(self.format, inputs[0] >> 16, got >> 16, tally);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings<F: Function>(function: F, flush: bool, x: f32, got: f32) -> Tally {
        let format = Format::F32;
        let mut tally = Tally::new(regions::<F>(format));
        let approximation = Approximation {
            function,
            format,
            flush,
        };
        approximation.judge(format, x.to_bits().into(), got.to_bits().into(), &mut tally);
        tally
    }

    fn right<F: Function>(function: F, flush: bool, x: f32, got: f32) -> bool {
        findings(function, flush, x, got).wrong_count == 0
    }

    #[test]
    fn special_values_are_those_of_the_tables() {
        let tiny = f32::from_bits(1);
        assert!(right(Rcp, false, -0.0, f32::NEG_INFINITY));
        assert!(!right(Rcp, false, -0.0, f32::INFINITY));
        assert!(!right(Rcp, false, 0.0, f32::MAX));
        assert!(right(Rcp, true, -tiny, f32::NEG_INFINITY));
        assert!(right(Rcp, false, f32::NEG_INFINITY, -0.0));
        assert!(!right(Rcp, false, f32::NEG_INFINITY, 0.0));
        assert!(right(Sqrt, false, -0.0, -0.0));
        assert!(!right(Sqrt, false, -0.0, 0.0));
        assert!(right(Sqrt, false, -1.0, f32::NAN));
        assert!(!right(Sqrt, false, -1.0, 1.0));
        assert!(right(Lg2, true, tiny, f32::NEG_INFINITY));
        assert!(right(Lg2, false, tiny, -149.0));
        assert!(!right(Lg2, true, tiny, -149.0));
        assert!(right(Tanh, false, -tiny, -tiny));
        assert!(!right(Tanh, false, tiny, 0.0));
        assert!(right(Cos, false, f32::INFINITY, f32::NAN));
        assert!(right(Ex2, false, f32::NEG_INFINITY, 0.0));
        assert!(!right(Ex2, false, f32::NAN, 1.0));
        assert!(!right(Ex2, false, 1.0, f32::NAN));
    }

    #[test]
    fn errors_are_measured_in_the_unit_of_the_bound() {
        let two_off = 2.0 - 2.0 * f32::EPSILON;
        let three_off = 2.0 - 3.0 * f32::EPSILON;
        assert!(right(Ex2, false, 1.0, 2.0));
        assert_eq!(
            findings(Ex2, false, 1.0, 2.0 - f32::EPSILON).worst[0].error,
            0.5
        );
        assert!(right(Ex2, false, 1.0, two_off));
        assert!(right(Ex2, false, 1.0, three_off));
        assert!(!right(Ex2, false, 1.0, 2.0 - 5.0 * f32::EPSILON));
        assert!(right(Sin, false, 3.0, (3f64.sin() + 6e-7) as f32));
        assert!(!right(Sin, false, 3.0, (3f64.sin() + 8e-7) as f32));
        assert!(right(Sin, false, 300.0, (300f64.sin() + 3e-5) as f32));
        assert!(!right(Sin, false, 300.0, (300f64.sin() + 5e-5) as f32));
        assert!(right(Sin, false, 1e10, -1.0));
        assert!(!right(Sin, false, 1e10, 1.0 + f32::EPSILON));
        assert!(!right(Rcp, true, 1.5e38, 1.0 / 1.5e38));
        assert!(right(Rcp, true, 1.5e38, 0.0));
        assert!(!right(Rcp, true, -1.5e38, 0.0));
        assert!(!right(Rcp, true, 1.0, 0.0));
    }

    #[test]
    fn bounds_are_the_powers_that_the_isa_names() {
        for (bound, exponent) in [
            (SINE_NEAR, -20.5),
            (SINE_FAR, -14.7),
            (RSQRT_BOUND, -22.9),
            (EX2_HALF, -9.9),
            (TANH_HALF, -10.987),
            (power(22), -22.0),
        ] {
            assert!((bound.log2() - exponent).abs() < 1e-9, "{exponent}");
        }
    }
}
