//! The types of elements, under the names that the lists of entry points use.

#![allow(
    non_camel_case_types,
    reason = "the lists of entry points use these names"
)]

use margay_blas::{AnyScalar, Complex, DataType, Element, Scalar};

use crate::host::Plain;

pub(crate) use half::{bf16, f16};

/// `cuComplex`.
pub(crate) type c32 = Complex<f32>;
/// `cuDoubleComplex`.
pub(crate) type c64 = Complex<f64>;

/// A type of elements and scalars: its number in `cudaDataType_t` and its value in the widest type.
pub(crate) trait Kind: Plain + Default + Send {
    /// The number of the type.
    const KIND: DataType;
    /// Returns the value in the widest type.
    fn widen(self) -> Complex<f64>;
}

/// A type of the typed routines.
pub(crate) trait Scalars: Kind + Element<Real: Kind> {}

/// A real type of the typed routines.
pub(crate) trait RealScalar: Scalars + margay_blas::Real {}

macro_rules! kinds {
    ($($name:ty, $kind:ident, $value:ident => $wide:expr;)*) => {$(
        impl Kind for $name {
            const KIND: DataType = DataType::$kind;
            fn widen(self) -> Complex<f64> {
                let $value = self;
                $wide
            }
        }
    )*};
}

fn real(re: f64) -> Complex<f64> {
    Complex { re, im: 0.0 }
}

kinds! {
    f32, R32F, x => real(x.into());
    f64, R64F, x => real(x);
    i32, R32I, x => real(x.into());
    f16, R16F, x => real(x.into());
    bf16, R16BF, x => real(x.into());
    c32, C32F, x => Complex { re: x.re.into(), im: x.im.into() };
    c64, C64F, x => x;
}

impl Scalars for f32 {}
impl Scalars for f64 {}
impl Scalars for c32 {}
impl Scalars for c64 {}
impl RealScalar for f32 {}
impl RealScalar for f64 {}

/// Whether a factor may differ from 0. The values at addresses are unknown.
pub(crate) fn may_be_nonzero<T: Kind>(factor: &Scalar<T>) -> bool {
    match factor {
        Scalar::Value(value) => value.widen() != Complex::default(),
        Scalar::At(_) => true,
    }
}

/// [`may_be_nonzero`] for factors whose type is a number.
pub(crate) fn any_may_be_nonzero(factor: &AnyScalar) -> bool {
    match factor {
        AnyScalar::Value(value) => *value != Complex::default(),
        AnyScalar::At { .. } => true,
    }
}

/// Where a function stores an index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Index {
    /// 32 bits.
    Narrow(*mut i32),
    /// 64 bits.
    Wide(*mut i64),
}

/// An array of integers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Integers {
    /// 32 bits each.
    Narrow(*const i32),
    /// 64 bits each.
    Wide(*const i64),
}
