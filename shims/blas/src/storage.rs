//! Elements as they are in memory: conversion from and to the types in which routines compute.
//!
//! Conversions to narrower floating-point types round to nearest, ties to even. 8-bit types saturate: numbers beyond the
//! largest finite one, and infinities, become the largest finite number. NaN stays NaN.

mod minifloat;

use crate::{Complex, DataType};
pub(crate) use minifloat::{E4M3, E5M2, e2m1_code, e2m1_value, ue4m3_value, ue8m0_value};

/// An element in memory that can be read as a `T`.
pub trait Load<T>: Copy + Send + Sync + 'static {
    /// The value, exactly, or rounded if `T` has less precision.
    fn load(self) -> T;
}

/// An element in memory that can hold a rounded `T`.
pub trait Store<T>: Copy + Send + Sync + 'static {
    /// The value, rounded.
    fn store(value: T) -> Self;
}

/// IEEE half precision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub(crate) struct F16(pub(crate) u16);

/// Brain floating point: the upper half of an `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub(crate) struct BF16(pub(crate) u16);

impl Load<f32> for F16 {
    #[inline(always)]
    fn load(self) -> f32 {
        let magnitude = u32::from(self.0 & 0x7fff);
        let sign = u32::from(self.0 & 0x8000) << 16;
        let normal = (magnitude << 13) + (112 << 23);
        let subnormal = (magnitude as f32 * (1.0 / 16_777_216.0)).to_bits();
        let special = (magnitude << 13) | 0x7f80_0000;
        let bits = if magnitude < 0x400 {
            subnormal
        } else if magnitude >= 0x7c00 {
            special
        } else {
            normal
        };
        f32::from_bits(bits | sign)
    }
}

impl Store<f32> for F16 {
    #[inline(always)]
    fn store(value: f32) -> F16 {
        let bits = value.to_bits();
        let sign = (bits >> 16) as u16 & 0x8000;
        let magnitude = bits & 0x7fff_ffff;
        let odd = (magnitude >> 13) & 1;
        let normal = magnitude.wrapping_add((0xfff + odd).wrapping_sub(112 << 23)) >> 13;
        // Adding 0.5 rounds a number below 2^-14 to a multiple of 2^-24, which is the last bit of the sum.
        let subnormal = (f32::from_bits(magnitude) + 0.5)
            .to_bits()
            .wrapping_sub(0.5f32.to_bits());
        let half = if magnitude > 0x7f80_0000 {
            0x7e00 | ((magnitude >> 13) & 0x1ff)
        } else if magnitude >= 0x4780_0000 {
            0x7c00
        } else if magnitude < 0x3880_0000 {
            subnormal
        } else {
            normal
        };
        F16(half as u16 | sign)
    }
}

impl Load<f32> for BF16 {
    #[inline(always)]
    fn load(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

impl Store<f32> for BF16 {
    #[inline(always)]
    fn store(value: f32) -> BF16 {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        let quiet = (bits >> 16) | 0x40;
        BF16(if value.is_nan() { quiet } else { rounded } as u16)
    }
}

macro_rules! same {
    ($($t:ty),*) => {$(
        impl Load<$t> for $t {
            #[inline(always)]
            fn load(self) -> $t {
                self
            }
        }
        impl Store<$t> for $t {
            #[inline(always)]
            fn store(value: $t) -> $t {
                value
            }
        }
    )*};
}

same!(f32, f64, Complex<f32>, Complex<f64>, i32);

impl Load<f32> for i8 {
    #[inline(always)]
    fn load(self) -> f32 {
        f32::from(self)
    }
}

impl Load<f32> for u8 {
    #[inline(always)]
    fn load(self) -> f32 {
        f32::from(self)
    }
}

impl Load<i16> for i8 {
    #[inline(always)]
    fn load(self) -> i16 {
        i16::from(self)
    }
}

impl Load<f64> for f32 {
    #[inline(always)]
    fn load(self) -> f64 {
        f64::from(self)
    }
}

impl Store<f64> for f32 {
    #[inline(always)]
    fn store(value: f64) -> f32 {
        value as f32
    }
}

/// Rounds to the nearest integer, ties to even, and saturates.
impl Store<f32> for i8 {
    #[inline(always)]
    fn store(value: f32) -> i8 {
        value.round_ties_even() as i8
    }
}

impl Load<f32> for i32 {
    #[inline(always)]
    fn load(self) -> f32 {
        self as f32
    }
}

impl Store<f32> for i32 {
    #[inline(always)]
    fn store(value: f32) -> i32 {
        value.round_ties_even() as i32
    }
}

/// Saturates.
impl Store<i32> for i8 {
    #[inline(always)]
    fn store(value: i32) -> i8 {
        value.clamp(-128, 127) as i8
    }
}

impl Load<i32> for i8 {
    #[inline(always)]
    fn load(self) -> i32 {
        i32::from(self)
    }
}

macro_rules! integer_as_f64 {
    ($($t:ty),*) => {$(
        impl Load<f64> for $t {
            #[inline(always)]
            fn load(self) -> f64 {
                f64::from(self)
            }
        }
        /// Rounds to the nearest integer, ties to even, and saturates.
        impl Store<f64> for $t {
            #[inline(always)]
            fn store(value: f64) -> $t {
                value.round_ties_even() as $t
            }
        }
    )*};
}

integer_as_f64!(i8, i32);

macro_rules! complex_of {
    ($($t:ty),*) => {$(
        impl Load<Complex<f32>> for Complex<$t> {
            #[inline(always)]
            fn load(self) -> Complex<f32> {
                Complex::new(self.re.load(), self.im.load())
            }
        }
        impl Store<Complex<f32>> for Complex<$t> {
            #[inline(always)]
            fn store(value: Complex<f32>) -> Complex<$t> {
                Complex::new(Store::store(value.re), Store::store(value.im))
            }
        }
    )*};
}

complex_of!(F16, BF16, i8);

/// Calls a macro with the Rust type of a [`DataType`], for the types that are real and can be read as `f32`.
macro_rules! with_narrow {
    ($kind:expr, $t:ident => $body:expr, else $otherwise:expr) => {
        match $kind {
            DataType::R32F => {
                type $t = f32;
                $body
            }
            DataType::R16F => {
                type $t = $crate::storage::F16;
                $body
            }
            DataType::R16BF => {
                type $t = $crate::storage::BF16;
                $body
            }
            DataType::E4M3 => {
                type $t = $crate::storage::E4M3;
                $body
            }
            DataType::E5M2 => {
                type $t = $crate::storage::E5M2;
                $body
            }
            DataType::R8I => {
                type $t = i8;
                $body
            }
            _ => $otherwise,
        }
    };
}
pub(crate) use with_narrow;

/// Calls a macro with the Rust type of a [`DataType`], for the types that are complex and can be read as `Complex<f32>`.
macro_rules! with_complex {
    ($kind:expr, $t:ident => $body:expr, else $otherwise:expr) => {
        match $kind {
            DataType::C32F => {
                type $t = $crate::Complex<f32>;
                $body
            }
            DataType::C16F => {
                type $t = $crate::Complex<$crate::storage::F16>;
                $body
            }
            DataType::C16BF => {
                type $t = $crate::Complex<$crate::storage::BF16>;
                $body
            }
            DataType::C8I => {
                type $t = $crate::Complex<i8>;
                $body
            }
            _ => $otherwise,
        }
    };
}
pub(crate) use with_complex;

/// Reads one scalar of any type as a complex number in double precision.
///
/// # Safety
/// `address` points to an element of the type.
pub(crate) unsafe fn read_scalar(address: *const std::ffi::c_void, kind: DataType) -> Complex<f64> {
    // SAFETY: the caller passes the address of an element of the type.
    unsafe fn at<T: Copy>(address: *const std::ffi::c_void) -> T {
        // SAFETY: as above; the address need not be aligned.
        unsafe { address.cast::<T>().read_unaligned() }
    }
    let real = |value: f32| Complex::new(f64::from(value), 0.0);
    let pair = |value: Complex<f32>| Complex::new(f64::from(value.re), f64::from(value.im));
    // SAFETY: each arm reads an element of the type that its pattern names.
    unsafe {
        match kind {
            DataType::R32F => real(at::<f32>(address)),
            DataType::R64F => Complex::new(at::<f64>(address), 0.0),
            DataType::R16F => real(at::<F16>(address).load()),
            DataType::R16BF => real(at::<BF16>(address).load()),
            DataType::E4M3 => real(at::<E4M3>(address).load()),
            DataType::E5M2 => real(at::<E5M2>(address).load()),
            DataType::E2M1 => real(e2m1_value(at::<u8>(address))),
            DataType::R8I => real(at::<i8>(address).load()),
            DataType::R8U => real(at::<u8>(address).load()),
            DataType::R32I => Complex::new(f64::from(at::<i32>(address)), 0.0),
            DataType::C32F => pair(at::<Complex<f32>>(address)),
            DataType::C64F => at::<Complex<f64>>(address),
            DataType::C16F => pair(at::<Complex<F16>>(address).load()),
            DataType::C16BF => pair(at::<Complex<BF16>>(address).load()),
            DataType::C8I => pair(at::<Complex<i8>>(address).load()),
        }
    }
}

#[cfg(test)]
mod tests;
