//! The element types of the typed routines: `f32`, `f64` and their complex numbers.

use crate::Complex;

/// An element type of the typed routines.
pub trait Element: Copy + Send + Sync + PartialEq + std::fmt::Debug + 'static {
    /// The type of its real part.
    type Real: Real;
}

/// A real element type.
pub trait Real: Element<Real = Self> + PartialOrd {}

impl Element for f32 {
    type Real = f32;
}
impl Element for f64 {
    type Real = f64;
}
impl Element for Complex<f32> {
    type Real = f32;
}
impl Element for Complex<f64> {
    type Real = f64;
}
impl Real for f32 {}
impl Real for f64 {}
