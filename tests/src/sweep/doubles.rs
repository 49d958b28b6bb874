//! Checks functions of `f64`: roots rounded in each direction, and the approximate forms of reciprocals and of inverse
//! roots.
//!
//! The checker of roots computes in quadruple precision, in which squares and products of numbers
//! with 54 bits are exact.

use std::cmp::Ordering;

use rustc_apfloat::ieee::{Double, Quad};
use rustc_apfloat::{Float, FloatConvert, Round, Status};

use super::Check;
use super::format::Mode;
use super::tally::{Region, Tally, Unit};

fn quad(x: f64) -> Quad {
    let mut inexact = false;
    let double = Double::from_bits(x.to_bits().into());
    let wide: rustc_apfloat::StatusAnd<Quad> = double.convert(&mut inexact);
    wide.value
}

/// Multiplies two numbers whose product can be represented exactly.
fn product(a: Quad, b: Quad) -> Quad {
    let product = a.mul_r(b, Round::TowardZero);
    debug_assert_eq!(product.status, Status::OK);
    product.value
}

fn half_way(a: f64, b: f64) -> Quad {
    let half = quad(0.5);
    let sum = quad(a).add_r(quad(b), Round::TowardZero).value;
    product(sum, half)
}

/// Returns whether the positive number `got` is the exact value, correctly rounded with the mode
/// `mode`. `compare` compares a number with the exact value.
fn is_right(mode: Mode, got: f64, compare: impl Fn(Quad) -> Ordering) -> bool {
    if got < 0.0 || !got.is_finite() {
        return false;
    }
    let (below, above) = (got.next_down(), got.next_up());
    let even = got.to_bits().is_multiple_of(2);
    match mode {
        Mode::Zero | Mode::Down => {
            compare(quad(got)) != Ordering::Greater && compare(quad(above)) == Ordering::Greater
        }
        Mode::Up => compare(quad(got)) != Ordering::Less && compare(quad(below)) == Ordering::Less,
        Mode::Nearest | Mode::Away => {
            let low = compare(half_way(below, got));
            let high = compare(half_way(got, above));
            (low == Ordering::Less || low == Ordering::Equal && even)
                && (high == Ordering::Greater || high == Ordering::Equal && even)
        }
    }
}

fn same(wanted: f64, inputs: &[u64], got: u64, tally: &mut Tally) {
    let value = f64::from_bits(got);
    let right = wanted.to_bits() == got || wanted.is_nan() && value.is_nan();
    tally.expect(right, inputs, got, "a special case");
}

/// Returns a checker of `sqrt.MODE.f64`.
pub fn root(mode: Mode) -> Check {
    Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
        let x = f64::from_bits(inputs[0]);
        if x.is_nan() || x <= 0.0 || x.is_infinite() {
            return same(x.sqrt(), inputs, got, tally);
        }
        let exact = quad(x);
        let compare = |t: Quad| product(t, t).partial_cmp(&exact).expect("numbers");
        let right = is_right(mode, f64::from_bits(got), compare);
        tally.expect(right, inputs, got, "not the rounded root");
    })
}

/// Returns a region with a bound that this project has chosen, because the ISA states no bound for
/// the function.
const fn ours(bound: f64, unit: Unit) -> Region {
    Region {
        about: "all",
        bound,
        unit,
        stated: false,
    }
}

/// Error bound of the forms that read and write only the upper words of operands and results: a
/// relative error of 2^-20.
pub const UPPER: &[Region] = &[ours(9.536_743_164_062_5e-7, Unit::Relative)];
/// Error bound of `rsqrt.approx.f64`. Margay computes this function as a correctly rounded square
/// root and then a correctly rounded quotient.
pub const ROOT: &[Region] = &[ours(1.5, Unit::Ulp)];

/// The NaN that is the result of forms that write only upper words.
const UPPER_NAN: u64 = 0x7fff_ffff_0000_0000;

/// Returns a checker of `rcp.approx.ftz.f64` or `rsqrt.approx.ftz.f64`; `function` is the exact function.
pub fn upper_word(function: fn(f64) -> f64) -> Check {
    Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
        let x = f64::from_bits(inputs[0] >> 32 << 32);
        let x = if x.is_subnormal() {
            0f64.copysign(x)
        } else {
            x
        };
        let exact = function(x);
        let value = f64::from_bits(got);
        if exact.is_nan() {
            return tally.expect(got == UPPER_NAN, inputs, got, "NaN is due");
        }
        tally.expect(got as u32 == 0, inputs, got, "the lower word is 0");
        if exact == 0.0 || exact.is_infinite() || exact.is_subnormal() {
            let wanted = if exact.is_subnormal() {
                0f64.copysign(exact)
            } else {
                exact
            };
            let least = exact.is_subnormal() && value.abs() == f64::MIN_POSITIVE;
            let right = wanted.to_bits() == got || least;
            return tally.expect(right, inputs, got, "a special case");
        }
        tally.error(0, ((value - exact) / exact).abs(), inputs, got);
    })
}

/// Returns a checker of `rsqrt.approx.f64`. The checker computes the difference between `y * y * x`
/// and 1 with twice the precision, where `y` is the result for `x`.
pub fn inverse_root() -> Check {
    Box::new(|inputs: &[u64], got: u64, tally: &mut Tally| {
        let x = f64::from_bits(inputs[0]);
        let y = f64::from_bits(got);
        if x.is_nan() || x <= 0.0 || x.is_infinite() {
            let wanted = if x.is_infinite() && x > 0.0 {
                0.0
            } else {
                x.sqrt().recip()
            };
            return same(wanted, inputs, got, tally);
        }
        // The operand is scaled by an even power of two into [1, 4).
        let shift = i32::from(x.is_subnormal()) * 54;
        let normal = x * 2f64.powi(shift);
        let exponent = (normal.to_bits() >> 52) as i32 - 1023;
        let even = exponent - (exponent & 1);
        let x = normal * 2f64.powi(-even / 2) * 2f64.powi(-(even - even / 2));
        let y = y * 2f64.powi((even - shift) / 2);
        let square = y * y;
        let rest = y.mul_add(y, -square);
        let near = square * x;
        let lost = square.mul_add(x, -near);
        let error = (near - 1.0 + lost + rest * x) / 2.0;
        // One unit in the last place of the result. The result, 1 / sqrt(x), is in (1/2, 1].
        let unit = if x == 1.0 {
            f64::EPSILON
        } else {
            f64::EPSILON / 2.0
        };
        let units = error.abs() / x.sqrt() / unit;
        tally.error(0, units, inputs, got);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(check: &Check, regions: &'static [Region], x: f64, got: f64) -> bool {
        let mut tally = Tally::new(regions);
        check.one(&[x.to_bits()], got.to_bits(), &mut tally);
        tally.wrong_count == 0
    }

    #[test]
    fn neighbours_of_a_root_are_wrong() {
        for (mode, x, wanted) in [
            (Mode::Nearest, 2.0, std::f64::consts::SQRT_2),
            (Mode::Down, 2.0, std::f64::consts::SQRT_2.next_down()),
            (Mode::Up, 4.0, 2.0),
            (Mode::Nearest, 5e-324, 2.222_758_749_485_077_5e-162),
        ] {
            let check = root(mode);
            assert!(right(&check, &[], x, wanted), "{mode:?} {x:e}");
            assert!(!right(&check, &[], x, wanted.next_up()), "{mode:?} {x:e}");
            assert!(!right(&check, &[], x, wanted.next_down()), "{mode:?} {x:e}");
        }
        assert!(right(&root(Mode::Up), &[], -1.0, f64::NAN));
        assert!(!right(&root(Mode::Up), &[], -0.0, 0.0));
    }

    #[test]
    fn inverse_roots_are_measured() {
        let check = inverse_root();
        for x in [2.0, 3.0, 1e300, 1e-300, 5e-324, 1.0, 4.0] {
            let near = 1.0 / f64::sqrt(x);
            assert!(right(&check, ROOT, x, near), "{x:e}");
            let far = f64::from_bits(near.to_bits() + 3);
            assert!(!right(&check, ROOT, x, far), "{x:e}");
        }
        assert!(right(&check, ROOT, f64::INFINITY, 0.0));
        assert!(right(&check, ROOT, -0.0, f64::NEG_INFINITY));
    }

    #[test]
    fn upper_words_have_no_lower() {
        let check = upper_word(f64::recip);
        assert!(right(&check, UPPER, 2.0, 0.5));
        assert!(!right(&check, UPPER, 2.0, 0.500_001));
        assert!(right(&check, UPPER, f64::NAN, f64::from_bits(UPPER_NAN)));
        assert!(!right(&check, UPPER, f64::NAN, f64::NAN));
        assert!(right(&check, UPPER, -5e-324, f64::NEG_INFINITY));
    }
}
