//! The functions `sin`, `cos`, `lg2`, `ex2` and `tanh` of `f32`, without branches or tables.
//!
//! Each function reduces its argument to a small interval and evaluates a polynomial there with fused multiply-adds.
//! The coefficients come from Chebyshev interpolation of the reduced function in 200-bit arithmetic, rounded to `f32`.
//! The documentation of each function states the worst error over all `f32` values; `tests/approximations.rs` checks
//! these statements. A NaN result always has the bits `0x7fffffff`.

use super::Arithmetic;
use std::f32::consts::{FRAC_1_PI, FRAC_2_PI, FRAC_PI_2, LN_2, LOG2_E, TAU};

/// The smallest positive `f32` that is not subnormal.
const LEAST_NORMAL: f32 = f32::MIN_POSITIVE;
const MAGNITUDE: i32 = 0x7fff_ffff;
const SIGN: i32 = i32::MIN;

/// Coefficients of `(2^f - 1) / f` for `f` in [-1/2, 1/2].
const EXPONENTIAL: [f32; 6] = [
    LN_2,
    0.2402265,
    0.05550357,
    0.009618083,
    0.0013390863,
    0.00015453163,
];
/// Coefficients of `log2(1 + f) / f` for `1 + f` in [sqrt(1/2), sqrt(2)].
const LOGARITHM: [f32; 9] = [
    LOG2_E,
    -0.72134745,
    0.48091075,
    -0.36069328,
    0.28790325,
    -0.23916988,
    0.21607822,
    -0.20586188,
    0.12310968,
];
/// Coefficients of `(sin(r) - r) / r^3` in powers of `r^2`, for `r` in [-pi/4, pi/4].
const SINE: [f32; 3] = [-0.16666664, 0.008332725, -0.00019582831];
/// Coefficients of `(cos(r) - 1 + r^2 / 2) / r^4` in powers of `r^2`, for `r` in [-pi/4, pi/4].
const COSINE: [f32; 3] = [0.041666664, -0.0013888279, 2.4542871e-5];
/// Coefficients of `(tanh(x) - x) / x^3` in powers of `x^2`, for `x` in [-0.4, 0.4].
const TANGENT: [f32; 3] = [-0.33333078, 0.13304591, -0.049078684];

/// Three numbers whose sum is -2 pi. The sum is more precise than one `f32`.
const MINUS_TWO_PI: [f32; 3] = [-TAU, 1.7484555e-7, 6.860498e-15];
/// Two numbers whose sum is -pi / 2. The sum is more precise than one `f32`.
const MINUS_HALF_PI: [f32; 2] = [-FRAC_PI_2, 4.371139e-8];
const TURNS_PER_RADIAN: f32 = FRAC_1_PI / 2.0;
const QUADRANTS_PER_RADIAN: f32 = FRAC_2_PI;
const TWICE_LOG2_E: f32 = 2.0 * LOG2_E;

/// Computes the value at `x` of the polynomial with these coefficients; the constant coefficient is
/// the first.
fn polynomial<A: Arithmetic>(a: &mut A, x: A::Float, coefficients: &[f32]) -> A::Float {
    let (last, rest) = coefficients
        .split_last()
        .expect("polynomials have coefficients");
    let mut sum = a.float(*last);
    for &coefficient in rest.iter().rev() {
        let coefficient = a.float(coefficient);
        sum = a.mul_add(sum, x, coefficient);
    }
    sum
}

/// Returns `x`, limited to the range from `low` to `high`. For a NaN, returns the NaN.
fn clamp<A: Arithmetic>(a: &mut A, x: A::Float, low: f32, high: f32) -> A::Float {
    let (low, high) = (a.float(low), a.float(high));
    let below = a.less(x, low);
    let x = a.select(below, low, x);
    let above = a.less(high, x);
    a.select(above, high, x)
}

fn magnitude<A: Arithmetic>(a: &mut A, x: A::Float) -> A::Float {
    let (bits, mask) = (a.bits(x), a.int(MAGNITUDE));
    let bits = a.and(bits, mask);
    a.of_bits(bits)
}

fn sign<A: Arithmetic>(a: &mut A, x: A::Float) -> A::Int {
    let (bits, mask) = (a.bits(x), a.int(SIGN));
    a.and(bits, mask)
}

fn flip<A: Arithmetic>(a: &mut A, x: A::Float, sign: A::Int) -> A::Float {
    let bits = a.bits(x);
    let bits = a.xor(bits, sign);
    a.of_bits(bits)
}

/// Returns the canonical NaN in lanes where `x` is NaN, and `result` in other lanes.
fn with_nan<A: Arithmetic>(a: &mut A, x: A::Float, result: A::Float) -> A::Float {
    let nan = a.int(MAGNITUDE);
    let nan = a.of_bits(nan);
    let unordered = a.is_nan(x);
    a.select(unordered, nan, result)
}

/// Returns a zero of the same sign in lanes where `x` is subnormal, and `x` in other lanes.
fn flush<A: Arithmetic>(a: &mut A, x: A::Float) -> A::Float {
    let (size, least) = (magnitude(a, x), a.float(LEAST_NORMAL));
    let zero = sign(a, x);
    let zero = a.of_bits(zero);
    let subnormal = a.less(size, least);
    a.select(subnormal, zero, x)
}

/// Computes `p * 2^k`, where `k` must be an integral number from -152 to 130. The result is rounded
/// only once.
fn scale<A: Arithmetic>(a: &mut A, p: A::Float, k: A::Float) -> A::Float {
    let k = a.to_int(k);
    let half = a.shift_right(k, 1);
    let rest = a.int_sub(k, half);
    let factor = |a: &mut A, k| {
        let bias = a.int(127);
        let field = a.int_add(k, bias);
        let bits = a.shift_left(field, 23);
        a.of_bits(bits)
    };
    let (first, second) = (factor(a, half), factor(a, rest));
    let scaled = a.mul(p, first);
    a.mul(scaled, second)
}

/// Computes two to the power of `x`, which must not be NaN.
fn power_of_two<A: Arithmetic>(a: &mut A, x: A::Float) -> A::Float {
    let x = clamp(a, x, -152.0, 130.0);
    let whole = a.nearest(x);
    let fraction = a.sub(x, whole);
    let slope = polynomial(a, fraction, &EXPONENTIAL);
    let one = a.float(1.0);
    let p = a.mul_add(fraction, slope, one);
    scale(a, p, whole)
}

/// Computes two to the power of `x`; the error is below 0.92 units in the last place.
pub fn ex2<A: Arithmetic>(a: &mut A, x: A::Float, ftz: bool) -> A::Float {
    let mut result = power_of_two(a, x);
    if ftz {
        let (least, zero) = (a.float(-126.0), a.float(0.0));
        let subnormal = a.less(x, least);
        result = a.select(subnormal, zero, result);
    }
    with_nan(a, x, result)
}

/// Computes the logarithm of `x` to base two; the error is below 0.33 times the bound in the PTX
/// ISA. This bound is 2^-22; for values of `x` from 1/2 to 2 it is a bound of the absolute error,
/// and otherwise of the relative error.
pub fn lg2<A: Arithmetic>(a: &mut A, x: A::Float, ftz: bool) -> A::Float {
    let zero = a.float(0.0);
    let (argument, offset) = if ftz { (x, zero) } else { normalised(a, x) };
    let bits = a.bits(argument);
    let root_of_half = a.int(0x3f35_04f3);
    let above = a.int_sub(bits, root_of_half);
    let exponent = a.shift_right(above, 23);
    let field = a.shift_left(exponent, 23);
    let mantissa = a.int_sub(bits, field);
    let mantissa = a.of_bits(mantissa);
    let one = a.float(1.0);
    let f = a.sub(mantissa, one);
    let slope = polynomial(a, f, &LOGARITHM);
    let exponent = a.to_float(exponent);
    let exponent = a.sub(exponent, offset);
    let result = a.mul_add(f, slope, exponent);
    logarithm_limits(a, x, result, ftz)
}

/// Returns a pair of a number and an exponent. For a positive subnormal number `x`, the pair is `x * 2^24` and 24; for
/// any other `x`, the pair is `x` and 0.
fn normalised<A: Arithmetic>(a: &mut A, x: A::Float) -> (A::Float, A::Float) {
    let (least, zero) = (a.float(LEAST_NORMAL), a.float(0.0));
    let subnormal = a.less(x, least);
    let (power, digits) = (a.float(16_777_216.0), a.float(24.0));
    let raised = a.mul(x, power);
    (
        a.select(subnormal, raised, x),
        a.select(subnormal, digits, zero),
    )
}

/// Returns the logarithm of `x` if `x` is infinite, zero, negative, NaN or, with `.ftz`, subnormal.
/// For all other values of `x`, returns `result`.
fn logarithm_limits<A: Arithmetic>(
    a: &mut A,
    x: A::Float,
    result: A::Float,
    ftz: bool,
) -> A::Float {
    let (infinity, minus_infinity) = (a.float(f32::INFINITY), a.float(f32::NEG_INFINITY));
    let nan = a.int(MAGNITUDE);
    let nan = a.of_bits(nan);
    let finite = a.less(x, infinity);
    let result = a.select(finite, result, infinity);
    let zero = a.float(0.0);
    let negative = a.less(x, zero);
    let result = a.select(negative, nan, result);
    let size = magnitude(a, x);
    let vanishes = if ftz {
        let least = a.float(LEAST_NORMAL);
        a.less(size, least)
    } else {
        let size = a.bits(size);
        a.is_zero(size)
    };
    let result = a.select(vanishes, minus_infinity, result);
    with_nan(a, x, result)
}

/// Subtracts full turns and then quarter turns from a non-negative angle. Returns the number of the
/// subtracted quarter turns and the remainder, which is about in the range from -pi/4 to pi/4.
fn reduce_angle<A: Arithmetic>(a: &mut A, angle: A::Float) -> (A::Int, A::Float) {
    let scale = a.float(TURNS_PER_RADIAN);
    let turns = a.mul(angle, scale);
    let turns = a.nearest(turns);
    let rest = subtract_multiple(a, angle, turns, &MINUS_TWO_PI);
    let scale = a.float(QUADRANTS_PER_RADIAN);
    let quadrants = a.mul(rest, scale);
    let quadrants = a.nearest(quadrants);
    let rest = subtract_multiple(a, rest, quadrants, &MINUS_HALF_PI);
    // If the angle is too large for an accurate reduction, the clamp keeps the sine or cosine within [-1, 1].
    let rest = clamp(a, rest, -0.8, 0.8);
    (a.to_int(quadrants), rest)
}

fn subtract_multiple<A: Arithmetic>(
    a: &mut A,
    x: A::Float,
    count: A::Float,
    period: &[f32],
) -> A::Float {
    period.iter().fold(x, |rest, &part| {
        let part = a.float(part);
        a.mul_add(count, part, rest)
    })
}

/// Computes the sine of the angle that is the sum of `rest` and `quadrant` quarter turns.
fn sine_of_quadrant<A: Arithmetic>(a: &mut A, quadrant: A::Int, rest: A::Float) -> A::Float {
    let square = a.mul(rest, rest);
    let cube = a.mul(square, rest);
    let slope = polynomial(a, square, &SINE);
    let sine = a.mul_add(cube, slope, rest);
    let fourth = a.mul(square, square);
    let slope = polynomial(a, square, &COSINE);
    let (half, one) = (a.float(-0.5), a.float(1.0));
    let parabola = a.mul_add(square, half, one);
    let cosine = a.mul_add(fourth, slope, parabola);
    let (low, high) = (a.int(1), a.int(2));
    let odd = a.and(quadrant, low);
    let even = a.is_zero(odd);
    let value = a.select(even, sine, cosine);
    let second_half = a.and(quadrant, high);
    let sign = a.shift_left(second_half, 30);
    flip(a, value, sign)
}

/// Computes the sine of `x`; for `x` in [-2 pi, 2 pi], the error is below 0.17 * 2^-20.5.
pub fn sin<A: Arithmetic>(a: &mut A, x: A::Float, ftz: bool) -> A::Float {
    let x = if ftz { flush(a, x) } else { x };
    let size = magnitude(a, x);
    let (quadrant, rest) = reduce_angle(a, size);
    let value = sine_of_quadrant(a, quadrant, rest);
    let sign = sign(a, x);
    let result = flip(a, value, sign);
    with_nan(a, value, result)
}

/// Computes the cosine of `x`; for `x` in [-2 pi, 2 pi], the error is below 0.21 * 2^-20.5.
pub fn cos<A: Arithmetic>(a: &mut A, x: A::Float, _ftz: bool) -> A::Float {
    let size = magnitude(a, x);
    let (quadrant, rest) = reduce_angle(a, size);
    let one = a.int(1);
    let quadrant = a.int_add(quadrant, one);
    let value = sine_of_quadrant(a, quadrant, rest);
    with_nan(a, value, value)
}

/// Computes the hyperbolic tangent of `x`; the relative error is below 2^-21.
pub fn tanh<A: Arithmetic>(a: &mut A, x: A::Float) -> A::Float {
    let size = magnitude(a, x);
    let square = a.mul(size, size);
    let cube = a.mul(square, size);
    let slope = polynomial(a, square, &TANGENT);
    let near_zero = a.mul_add(cube, slope, size);
    // For larger arguments, the result is 1 - 2 / (e^2x + 1).
    let (factor, one, two) = (a.float(TWICE_LOG2_E), a.float(1.0), a.float(2.0));
    let exponent = a.mul(size, factor);
    let power = power_of_two(a, exponent);
    let denominator = a.add(power, one);
    let quotient = a.div(two, denominator);
    let elsewhere = a.sub(one, quotient);
    let limit = a.float(0.4);
    let small = a.less(size, limit);
    let value = a.select(small, near_zero, elsewhere);
    let sign = sign(a, x);
    let result = flip(a, value, sign);
    with_nan(a, x, result)
}
