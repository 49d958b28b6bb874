//! The arithmetic operations from which the approximate functions are built.

/// Arithmetic on `f32` values, 32-bit integers and truth values, in one lane or in several lanes at once.
///
/// Each engine has one implementation of this trait, whose operations either compute on the host ([`Host`]) or emit
/// code. Every function of [`super::functions`] therefore gives the same bits in all engines.
/// Floating-point operations follow IEEE 754 and round to nearest even; integer operations wrap.
pub trait Arithmetic {
    /// `f32` values.
    type Float: Copy;
    /// 32-bit integers.
    type Int: Copy;
    /// Truth values.
    type Truth: Copy;

    /// Returns the floating-point constant `value`, in all lanes.
    fn float(&mut self, value: f32) -> Self::Float;
    /// Returns the integer constant `value`, in all lanes.
    fn int(&mut self, value: i32) -> Self::Int;
    /// Computes `a + b`.
    fn add(&mut self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// Computes `a - b`.
    fn sub(&mut self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// Computes `a * b`.
    fn mul(&mut self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// Computes `a / b`.
    fn div(&mut self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// Computes `a * b + c`, rounded once.
    fn mul_add(&mut self, a: Self::Float, b: Self::Float, c: Self::Float) -> Self::Float;
    /// Rounds `a` to the nearest integral value, ties to even.
    fn nearest(&mut self, a: Self::Float) -> Self::Float;
    /// Converts `a`, an integral value, to an integer. A value out of range becomes the nearest
    /// integer in the range, and NaN becomes 0.
    fn to_int(&mut self, a: Self::Float) -> Self::Int;
    /// Converts `a` to floating point. The absolute value of `a` must be below 2^24, so the
    /// conversion is exact.
    fn to_float(&mut self, a: Self::Int) -> Self::Float;
    /// Returns the bits of a floating-point value as an integer.
    fn bits(&mut self, a: Self::Float) -> Self::Int;
    /// Returns the floating-point value whose bits are the integer `a`.
    fn of_bits(&mut self, a: Self::Int) -> Self::Float;
    /// Computes `a + b`.
    fn int_add(&mut self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// Computes `a - b`.
    fn int_sub(&mut self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// Computes the bitwise "and" of `a` and `b`.
    fn and(&mut self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// Computes the bitwise "exclusive or" of `a` and `b`.
    fn xor(&mut self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// Shifts `a` left by `count` bits.
    fn shift_left(&mut self, a: Self::Int, count: u32) -> Self::Int;
    /// Shifts `a` right by `count` bits; the new high bits are copies of the sign bit.
    fn shift_right(&mut self, a: Self::Int, count: u32) -> Self::Int;
    /// Returns whether `a < b`; false if an operand is NaN.
    fn less(&mut self, a: Self::Float, b: Self::Float) -> Self::Truth;
    /// Returns whether `a` is NaN.
    fn is_nan(&mut self, a: Self::Float) -> Self::Truth;
    /// Returns whether `a` is zero.
    fn is_zero(&mut self, a: Self::Int) -> Self::Truth;
    /// Returns `a` in lanes where the condition is true, and `b` in other lanes.
    fn select(&mut self, condition: Self::Truth, a: Self::Float, b: Self::Float) -> Self::Float;
}

/// An [`Arithmetic`] for one lane, whose operations compute on the host.
#[derive(Clone, Copy, Debug)]
pub struct Host;

impl Arithmetic for Host {
    type Float = f32;
    type Int = i32;
    type Truth = bool;

    fn float(&mut self, value: f32) -> f32 {
        value
    }
    fn int(&mut self, value: i32) -> i32 {
        value
    }
    fn add(&mut self, a: f32, b: f32) -> f32 {
        a + b
    }
    fn sub(&mut self, a: f32, b: f32) -> f32 {
        a - b
    }
    fn mul(&mut self, a: f32, b: f32) -> f32 {
        a * b
    }
    fn div(&mut self, a: f32, b: f32) -> f32 {
        a / b
    }
    fn mul_add(&mut self, a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    fn nearest(&mut self, a: f32) -> f32 {
        a.round_ties_even()
    }
    fn to_int(&mut self, a: f32) -> i32 {
        a as i32
    }
    fn to_float(&mut self, a: i32) -> f32 {
        a as f32
    }
    fn bits(&mut self, a: f32) -> i32 {
        a.to_bits() as i32
    }
    fn of_bits(&mut self, a: i32) -> f32 {
        f32::from_bits(a as u32)
    }
    fn int_add(&mut self, a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }
    fn int_sub(&mut self, a: i32, b: i32) -> i32 {
        a.wrapping_sub(b)
    }
    fn and(&mut self, a: i32, b: i32) -> i32 {
        a & b
    }
    fn xor(&mut self, a: i32, b: i32) -> i32 {
        a ^ b
    }
    fn shift_left(&mut self, a: i32, count: u32) -> i32 {
        a.wrapping_shl(count)
    }
    fn shift_right(&mut self, a: i32, count: u32) -> i32 {
        a.wrapping_shr(count)
    }
    fn less(&mut self, a: f32, b: f32) -> bool {
        a < b
    }
    fn is_nan(&mut self, a: f32) -> bool {
        a.is_nan()
    }
    fn is_zero(&mut self, a: i32) -> bool {
        a == 0
    }
    fn select(&mut self, condition: bool, a: f32, b: f32) -> f32 {
        if condition { a } else { b }
    }
}
