//! Conversions between `f32` and the 16-bit formats `f16` and `bf16`, exact or rounded to nearest
//! even. They are generic over [`Arithmetic`].
//!
//! The results have the same bits as the results of `cvt`. These functions have no branches, so
//! that engines can emit vector code for them. A 16-bit value is an integer below 2^16. An
//! intermediate value is subnormal only if the operand is subnormal, and then the result is the
//! same whether the host processor replaces subnormal numbers by zero or not.

use super::Arithmetic;

const EXPONENT_SHIFT: i32 = 112 << 23;
const LEAST_HALF: i32 = 113 << 23;

/// Returns the integer `x` in lanes where the condition is true, and `y` in other lanes.
fn choose<A: Arithmetic>(a: &mut A, condition: A::Truth, x: A::Int, y: A::Int) -> A::Int {
    let (x, y) = (a.of_bits(x), a.of_bits(y));
    let chosen = a.select(condition, x, y);
    a.bits(chosen)
}

fn masked<A: Arithmetic>(a: &mut A, x: A::Int, mask: i32) -> A::Int {
    let mask = a.int(mask);
    a.and(x, mask)
}

fn plus<A: Arithmetic>(a: &mut A, x: A::Int, constant: i32) -> A::Int {
    let constant = a.int(constant);
    a.int_add(x, constant)
}

/// Returns the canonical NaN if `x` is a NaN, and `x` otherwise.
fn canonical<A: Arithmetic>(a: &mut A, x: A::Float) -> A::Float {
    let nan = a.int(0x7fff_ffff);
    let nan = a.of_bits(nan);
    let unordered = a.is_nan(x);
    a.select(unordered, nan, x)
}

/// Converts `half`, the bits of an `f16`, to `f32`.
pub fn single_of_half<A: Arithmetic>(a: &mut A, half: A::Int) -> A::Float {
    let magnitude = masked(a, half, 0x7fff);
    let moved = a.shift_left(magnitude, 13);
    let normal = plus(a, moved, EXPONENT_SHIFT);
    // The value of a subnormal `half` is the distance of `above` from the least normal number.
    let above = plus(a, moved, LEAST_HALF);
    let (above, least) = (a.of_bits(above), a.int(LEAST_HALF));
    let least = a.of_bits(least);
    let small = a.sub(above, least);
    let small = a.bits(small);
    // For infinity and NaN, the exponent of the result also has all bits set.
    let special = plus(a, normal, EXPONENT_SHIFT);
    let field = masked(a, half, 0x7c00);
    let is_small = a.is_zero(field);
    let ones = a.int(0x7c00);
    let rest = a.xor(field, ones);
    let is_special = a.is_zero(rest);
    let bits = choose(a, is_small, small, normal);
    let bits = choose(a, is_special, special, bits);
    let sign = masked(a, half, 0x8000);
    let sign = a.shift_left(sign, 16);
    let bits = a.xor(bits, sign);
    let value = a.of_bits(bits);
    canonical(a, value)
}

/// Converts `x` to `f16`, rounded to nearest even, and returns the bits.
pub fn half_of_single<A: Arithmetic>(a: &mut A, x: A::Float) -> A::Int {
    let bits = a.bits(x);
    let magnitude = masked(a, bits, 0x7fff_ffff);
    let size = a.of_bits(magnitude);
    // Normal results: add half a unit in the last place minus 1, and add 1 more if the last bit is odd.
    let last = a.shift_right(magnitude, 13);
    let odd = masked(a, last, 1);
    let biased = plus(a, magnitude, 0xfff - EXPONENT_SHIFT);
    let rounded = a.int_add(biased, odd);
    let normal = a.shift_right(rounded, 13);
    // Subnormal results: the `f32` value 1/2 has the same unit in the last place as a subnormal `f16`.
    let half = a.float(0.5);
    let shifted = a.add(size, half);
    let shifted = a.bits(shifted);
    let small = plus(a, shifted, -(126 << 23));
    let (least, limit) = (a.int(LEAST_HALF), a.float(65_520.0));
    let least = a.of_bits(least);
    let is_small = a.less(size, least);
    let is_finite = a.less(size, limit);
    let (infinity, nan) = (a.int(0x7c00), a.int(0x7fff));
    let result = choose(a, is_small, small, normal);
    let result = choose(a, is_finite, result, infinity);
    let sign = a.shift_right(bits, 16);
    let sign = masked(a, sign, 0x8000);
    let result = a.xor(result, sign);
    let unordered = a.is_nan(x);
    choose(a, unordered, nan, result)
}

/// Converts `bfloat`, the bits of a `bf16`, to `f32`.
pub fn single_of_bfloat<A: Arithmetic>(a: &mut A, bfloat: A::Int) -> A::Float {
    let bits = a.shift_left(bfloat, 16);
    let value = a.of_bits(bits);
    canonical(a, value)
}

/// Converts `x` to `bf16`, rounded to nearest even, and returns the bits.
pub fn bfloat_of_single<A: Arithmetic>(a: &mut A, x: A::Float) -> A::Int {
    let bits = a.bits(x);
    let last = a.shift_right(bits, 16);
    let odd = masked(a, last, 1);
    let biased = plus(a, bits, 0x7fff);
    let rounded = a.int_add(biased, odd);
    let moved = a.shift_right(rounded, 16);
    let result = masked(a, moved, 0xffff);
    let (nan, unordered) = (a.int(0x7fff), a.is_nan(x));
    choose(a, unordered, nan, result)
}

/// Computes `x * y + z` for `f16` values that are widened to `f32`. The result is rounded to odd in `f32`: if the sum
/// is inexact, the last bit of the result is set. With this rounding, a second rounding to `f16` gives the correctly
/// rounded result. The product is exact, because it has at most 22 significant bits and its lowest bit has a weight of
/// at least 2^-48.
pub fn fused_to_odd<A: Arithmetic>(a: &mut A, x: A::Float, y: A::Float, z: A::Float) -> A::Float {
    let product = a.mul(x, y);
    let sum = a.add(product, z);
    // `lacks` is the exact error of the sum (Knuth, The Art of Computer Programming 2, 4.2.2, theorem B).
    let other = a.sub(sum, product);
    let back = a.sub(sum, other);
    let (left, right) = (a.sub(product, back), a.sub(z, other));
    let lacks = a.add(left, right);
    let (bits, missing) = (a.bits(sum), a.bits(lacks));
    // The step changes the sum by one unit in the last place: away from zero if the error has the sign of the sum, and
    // towards zero otherwise.
    let apart = a.xor(bits, missing);
    let apart = a.shift_right(apart, 31);
    let apart = a.shift_left(apart, 1);
    let step = plus(a, apart, 1);
    let moved = a.int_add(bits, step);
    let last = masked(a, bits, 1);
    let is_even = a.is_zero(last);
    let odd = choose(a, is_even, moved, bits);
    let size = masked(a, missing, 0x7fff_ffff);
    let is_exact = a.is_zero(size);
    let odd = choose(a, is_exact, bits, odd);
    // If the sum is infinite or NaN, the computed error is NaN, and the sum is the result.
    let endless = a.is_nan(lacks);
    let result = choose(a, endless, bits, odd);
    a.of_bits(result)
}
