//! The element types of the typed routines: `f32`, `f64` and their complex numbers.

use std::fmt::Debug;
use std::ops::{Add, Mul, Neg, Sub};

use crate::kernels::Accumulate;
use crate::storage::{Load, Store};
use crate::{Complex, DataType};

/// An element type of the typed routines.
pub trait Element:
    Copy
    + Send
    + Sync
    + PartialEq
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + Accumulate<Item = Self>
    + Load<Self>
    + Store<Self>
    + 'static
{
    /// The type of its real part.
    type Real: Real;
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The type's number.
    const KIND: DataType;

    /// The number with these parts. Real types drop the imaginary part.
    fn from_parts(re: Self::Real, im: Self::Real) -> Self;
    /// Real part.
    fn re(self) -> Self::Real;
    /// Imaginary part, 0 for real types.
    fn im(self) -> Self::Real;
    /// The product with a real number.
    fn scale(self, factor: Self::Real) -> Self;
    /// The quotient, without overflow in between.
    fn divide(self, other: Self) -> Self;

    /// `a * b + self`; each product and sum is fused if `FUSED`, which is fast only in code for a CPU that has the instruction.
    fn add_product<const FUSED: bool>(self, a: Self, b: Self) -> Self;

    /// The real number as an element.
    #[inline(always)]
    fn from_real(re: Self::Real) -> Self {
        Self::from_parts(re, Self::Real::ZERO)
    }

    /// The conjugate.
    #[inline(always)]
    fn conj(self) -> Self {
        Self::from_parts(self.re(), -self.im())
    }

    /// The conjugate if `conjugate`, else the number.
    #[inline(always)]
    fn conj_if(self, conjugate: bool) -> Self {
        if conjugate { self.conj() } else { self }
    }

    /// The number in double precision, rounded to this type.
    fn from_wide(value: Complex<f64>) -> Self {
        Self::from_parts(
            Self::Real::from_f64(value.re),
            Self::Real::from_f64(value.im),
        )
    }

    /// The number in double precision.
    fn wide(self) -> Complex<f64> {
        Complex::new(self.re().to_f64(), self.im().to_f64())
    }

    /// `|re| + |im|`, the magnitude that `iamax` and `asum` use.
    #[inline(always)]
    fn taxicab(self) -> Self::Real {
        if Self::KIND.is_complex() {
            self.re().abs() + self.im().abs()
        } else {
            self.re().abs()
        }
    }
}

/// A real element type.
pub trait Real: Element<Real = Self> + PartialOrd + Load<f64> + Store<f64> {
    /// Smallest positive normal number.
    const TINY: Self;
    /// Infinity.
    const INFINITY: Self;
    /// Distance of 1 and the next number.
    const EPSILON: Self;

    /// Rounds a number in double precision.
    fn from_f64(value: f64) -> Self;
    /// The number in double precision.
    fn to_f64(self) -> f64;
    /// Absolute value.
    fn abs(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// The square root of the sum of squares, without overflow in between.
    fn hypot(self, other: Self) -> Self;
    /// The magnitude of `self` with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// The quotient.
    fn over(self, other: Self) -> Self;
}

macro_rules! real {
    ($t:ident, $kind:ident) => {
        impl Element for $t {
            type Real = $t;
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const KIND: DataType = DataType::$kind;

            #[inline(always)]
            fn from_parts(re: $t, _im: $t) -> $t {
                re
            }
            #[inline(always)]
            fn re(self) -> $t {
                self
            }
            #[inline(always)]
            fn im(self) -> $t {
                0.0
            }
            #[inline(always)]
            fn conj(self) -> $t {
                self
            }
            #[inline(always)]
            fn scale(self, factor: $t) -> $t {
                self * factor
            }
            #[inline(always)]
            fn divide(self, other: $t) -> $t {
                self / other
            }
            #[inline(always)]
            fn add_product<const FUSED: bool>(self, a: $t, b: $t) -> $t {
                if FUSED {
                    a.mul_add(b, self)
                } else {
                    a * b + self
                }
            }
        }

        impl Real for $t {
            const TINY: $t = $t::MIN_POSITIVE;
            const INFINITY: $t = $t::INFINITY;
            const EPSILON: $t = $t::EPSILON;

            #[inline(always)]
            fn from_f64(value: f64) -> $t {
                value as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn abs(self) -> $t {
                $t::abs(self)
            }
            #[inline(always)]
            fn sqrt(self) -> $t {
                $t::sqrt(self)
            }
            fn hypot(self, other: $t) -> $t {
                $t::hypot(self, other)
            }
            #[inline(always)]
            fn copysign(self, sign: $t) -> $t {
                $t::copysign(self, sign)
            }
            #[inline(always)]
            fn over(self, other: $t) -> $t {
                self / other
            }
        }
    };
}

real!(f32, R32F);
real!(f64, R64F);

macro_rules! complex {
    ($t:ident, $kind:ident) => {
        impl Element for Complex<$t> {
            type Real = $t;
            const ZERO: Self = Complex::new(0.0, 0.0);
            const ONE: Self = Complex::new(1.0, 0.0);
            const KIND: DataType = DataType::$kind;

            #[inline(always)]
            fn from_parts(re: $t, im: $t) -> Self {
                Complex::new(re, im)
            }
            #[inline(always)]
            fn re(self) -> $t {
                self.re
            }
            #[inline(always)]
            fn im(self) -> $t {
                self.im
            }
            #[inline(always)]
            fn scale(self, factor: $t) -> Self {
                Complex::new(self.re * factor, self.im * factor)
            }
            fn divide(self, other: Self) -> Self {
                // Smith's method: divides by the larger part first.
                if other.re.abs() >= other.im.abs() {
                    let ratio = other.im / other.re;
                    let scale = other.re + other.im * ratio;
                    if other.im == 0.0 {
                        return Complex::new(self.re / other.re, self.im / other.re);
                    }
                    Complex::new(
                        (self.re + self.im * ratio) / scale,
                        (self.im - self.re * ratio) / scale,
                    )
                } else {
                    let ratio = other.re / other.im;
                    let scale = other.re * ratio + other.im;
                    Complex::new(
                        (self.re * ratio + self.im) / scale,
                        (self.im * ratio - self.re) / scale,
                    )
                }
            }
            #[inline(always)]
            fn add_product<const FUSED: bool>(self, a: Self, b: Self) -> Self {
                if FUSED {
                    Complex::new(
                        (-a.im).mul_add(b.im, a.re.mul_add(b.re, self.re)),
                        a.im.mul_add(b.re, a.re.mul_add(b.im, self.im)),
                    )
                } else {
                    Complex::new(
                        self.re + a.re * b.re - a.im * b.im,
                        self.im + a.re * b.im + a.im * b.re,
                    )
                }
            }
        }
    };
}

complex!(f32, C32F);
complex!(f64, C64F);
