//! The arithmetic operations from which the approximate functions are built.

/// Arithmetic on `f32` values, 32-bit integers and truth values, in one lane or in several lanes at once.
///
/// Each engine has one implementation of this trait, whose operations either compute on the host ([`Host`]) or emit
/// code. Every function of [`super::functions`] therefore gives the same bits in all engines. Operations follow IEEE
/// 754 in round-to-nearest-even; integers wrap.
pub trait Arithmetic {
    /// `f32` values.
    type Float: Copy;
    /// 32-bit integers.
    type Int: Copy;
    /// Truth values.
    type Truth: Copy;

    /// Returns a floating-point constant.
    fn float(&mut self, value: f32) -> Self::Float;
    /// Returns an integer constant.
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
    /// Rounds to the nearest integral value, ties to even.
    fn nearest(&mut self, a: Self::Float) -> Self::Float;
    /// Converts an integral value to an integer; values out of range saturate, and NaN becomes 0.
    fn to_int(&mut self, a: Self::Float) -> Self::Int;
    /// Converts an integer of magnitude below 2^24 exactly.
    fn to_float(&mut self, a: Self::Int) -> Self::Float;
    /// Returns the bits of a floating-point value as an integer.
    fn bits(&mut self, a: Self::Float) -> Self::Int;
    /// Returns the floating-point value whose bits are the integer `a`.
    fn of_bits(&mut self, a: Self::Int) -> Self::Float;
    /// Computes `a + b`.
    fn int_add(&mut self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// Computes `a - b`.
    fn int_sub(&mut self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// Computes the bitwise and.
    fn and(&mut self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// Computes the bitwise exclusive or.
    fn xor(&mut self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// Shifts left by a constant.
    fn shift_left(&mut self, a: Self::Int, count: u32) -> Self::Int;
    /// Shifts right by a constant, copying the sign.
    fn shift_right(&mut self, a: Self::Int, count: u32) -> Self::Int;
    /// Returns whether `a < b`; false if an operand is NaN.
    fn less(&mut self, a: Self::Float, b: Self::Float) -> Self::Truth;
    /// Returns whether the value is NaN.
    fn is_nan(&mut self, a: Self::Float) -> Self::Truth;
    /// Returns whether the integer is zero.
    fn is_zero(&mut self, a: Self::Int) -> Self::Truth;
    /// Returns `a` in lanes where the condition is true, and `b` in other lanes.
    fn select(&mut self, condition: Self::Truth, a: Self::Float, b: Self::Float) -> Self::Float;
}

/// Arithmetic on one lane, computed on the host.
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
