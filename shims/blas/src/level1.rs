//! Level 1: vectors.
//!
//! Reductions ([`dot`], [`nrm2`], [`asum`]) add in fixed blocks and combine the blocks pairwise. `asum`, `nrm2`, `iamax`, `iamin`
//! give 0 and `scal` does nothing if `n` or `incx` is not positive.

use crate::{Conjugation, Element, Plan, Real, Scalar};

/// One vector, read.
#[derive(Clone, Copy, Debug)]
pub struct Input<T> {
    /// Number of elements.
    pub n: usize,
    /// The vector.
    pub x: *const T,
    /// Increment.
    pub incx: i64,
}

/// Two vectors, `x` read and `y` written.
#[derive(Clone, Copy, Debug)]
pub struct Pair<T> {
    /// Number of elements.
    pub n: usize,
    /// The vector that is read. `swap`, `rot` and `rotm` also write it.
    pub x: *mut T,
    /// Increment of `x`.
    pub incx: i64,
    /// The other vector. `dot` only reads it.
    pub y: *mut T,
    /// Increment of `y`.
    pub incy: i64,
}

/// Where `iamax` and `iamin` write the index, which counts from 1.
#[derive(Clone, Copy, Debug)]
pub enum IndexAt {
    /// A 32-bit index.
    I32(*mut i32),
    /// A 64-bit index.
    I64(*mut i64),
}

/// Writes the smallest index of an element with the largest `|re| + |im|`, counted from 1. NaN is skipped as in the reference BLAS: the
/// result is 1 if the first element is NaN, else NaN never wins.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn iamax<T: Element>(x: Input<T>, result: IndexAt) -> Plan {
    unimplemented!()
}

/// Writes the smallest index of an element with the smallest `|re| + |im|`, with the rules of [`iamax`].
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn iamin<T: Element>(x: Input<T>, result: IndexAt) -> Plan {
    unimplemented!()
}

/// Writes the sum of `|re| + |im|`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn asum<T: Element>(x: Input<T>, result: *mut T::Real) -> Plan {
    unimplemented!()
}

/// Writes the Euclidean norm, without overflow or underflow in between.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn nrm2<T: Element>(x: Input<T>, result: *mut T::Real) -> Plan {
    unimplemented!()
}

/// Writes the sum of `x[i] * y[i]`, where `conjugation` applies to `x`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn dot<T: Element>(vectors: Pair<T>, conjugation: Conjugation, result: *mut T) -> Plan {
    unimplemented!()
}

/// `y = alpha x + y`. Does nothing for `alpha = 0`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn axpy<T: Element>(alpha: Scalar<T>, vectors: Pair<T>) -> Plan {
    unimplemented!()
}

/// `x = alpha x`. `alpha = 0` gives zeros, also for NaN in `x`, as cuBLAS does.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn scal<T: Element>(alpha: Scalar<T>, n: usize, x: *mut T, incx: i64) -> Plan {
    unimplemented!()
}

/// [`scal`] with a real `alpha` (`csscal`, `zdscal`).
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn scal_real<T: Element>(
    alpha: Scalar<T::Real>,
    n: usize,
    x: *mut T,
    incx: i64,
) -> Plan {
    unimplemented!()
}

/// `y = x`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn copy<T: Element>(vectors: Pair<T>) -> Plan {
    unimplemented!()
}

/// Exchanges `x` and `y`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn swap<T: Element>(vectors: Pair<T>) -> Plan {
    unimplemented!()
}

/// Applies a rotation with real cosine `c` and sine `s` of the vectors' type: `x = c x + s y`, `y = c y - conj(s) x`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rot<T: Element>(vectors: Pair<T>, c: Scalar<T::Real>, s: Scalar<T>) -> Plan {
    unimplemented!()
}

/// [`rot`] with a real sine (`csrot`, `zdrot`).
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rot_real<T: Element>(
    vectors: Pair<T>,
    c: Scalar<T::Real>,
    s: Scalar<T::Real>,
) -> Plan {
    unimplemented!()
}

/// The operands of [`rotg`], all read or written when the plan runs. For host pointer mode, pass addresses of the host.
#[derive(Clone, Copy, Debug)]
pub struct Rotg<T: Element> {
    /// First component; becomes `r`.
    pub a: *mut T,
    /// Second component; becomes `z` for real types, unchanged for complex types.
    pub b: *mut T,
    /// Receives the cosine.
    pub c: *mut T::Real,
    /// Receives the sine.
    pub s: *mut T,
}

/// Constructs the rotation that makes the second component zero.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rotg<T: Element>(arguments: Rotg<T>) -> Plan {
    unimplemented!()
}

/// Applies a modified rotation, whose flag and elements are `param[0..5]`, read when the plan runs.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rotm<T: Real>(vectors: Pair<T>, param: *const T) -> Plan {
    unimplemented!()
}

/// The operands of [`rotmg`].
#[derive(Clone, Copy, Debug)]
pub struct Rotmg<T> {
    /// First scaling factor.
    pub d1: *mut T,
    /// Second scaling factor.
    pub d2: *mut T,
    /// First component.
    pub x1: *mut T,
    /// Second component.
    pub y1: *const T,
    /// Receives the flag and the elements of the matrix.
    pub param: *mut T,
}

/// Constructs a modified rotation.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rotmg<T: Real>(arguments: Rotmg<T>) -> Plan {
    unimplemented!()
}
