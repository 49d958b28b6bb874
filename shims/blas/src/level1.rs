//! Level 1: vectors.
//!
//! Reductions ([`dot`], [`nrm2`], [`asum`]) add in fixed blocks and combine the blocks pairwise. `asum`, `nrm2`, `iamax`, `iamin`
//! give 0 and `scal` does nothing if `n` or `incx` is not positive.

use std::marker::PhantomData;

use crate::core::Shared;
use crate::rotations::{modified, rotation};
use crate::vector::{Strided, single_with};
pub use crate::vector_routines::IndexAt;
use crate::vector_routines::{
    AsumOf, Axpy, DotOf, Exchange, ExtremeOf, Modified, Nrm2Of, Place, Rotate, RotateReal, Scal,
    ScalReal, Writes, apply, plan_of,
};
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

impl<T> Input<T> {
    /// Number of elements that count: none if the increment is not positive.
    fn counted(&self) -> usize {
        if self.incx <= 0 { 0 } else { self.n }
    }

    fn vector(&self) -> Strided<T> {
        Strided::new(self.x, self.n, self.incx)
    }
}

impl<T> Pair<T> {
    fn split(&self) -> (Strided<T>, Strided<T>) {
        (
            Strided::new(self.x, self.n, self.incx),
            Strided::new(self.y, self.n, self.incy),
        )
    }
}

/// The vector of `scal`, without elements if the increment is not positive.
fn scaled_vector<T>(n: usize, x: *mut T, incx: i64) -> (usize, Strided<T>) {
    (if incx <= 0 { 0 } else { n }, Strided::new(x, n, incx))
}

/// Writes the smallest index of an element with the largest `|re| + |im|`, counted from 1. NaN is skipped as in the reference BLAS: the
/// result is 1 if the first element is NaN, else NaN never wins.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn iamax<T: Element>(x: Input<T>, result: IndexAt) -> Plan {
    let n = x.counted();
    plan_of(
        n,
        ExtremeOf::<T, T> {
            n,
            x: x.vector(),
            smallest: false,
            result,
            types: PhantomData,
        },
    )
}

/// Writes the smallest index of an element with the smallest `|re| + |im|`, with the rules of [`iamax`].
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn iamin<T: Element>(x: Input<T>, result: IndexAt) -> Plan {
    let n = x.counted();
    plan_of(
        n,
        ExtremeOf::<T, T> {
            n,
            x: x.vector(),
            smallest: true,
            result,
            types: PhantomData,
        },
    )
}

/// Writes the sum of `|re| + |im|`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn asum<T: Element>(x: Input<T>, result: *mut T::Real) -> Plan {
    plan_of(
        x.counted(),
        AsumOf::<T, T, T::Real> {
            x: x.vector(),
            result: Place(result),
            sum: PhantomData,
        },
    )
}

/// Writes the Euclidean norm, without overflow or underflow in between.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn nrm2<T: Element>(x: Input<T>, result: *mut T::Real) -> Plan {
    plan_of(
        x.counted(),
        Nrm2Of::<T, T, T::Real> {
            x: x.vector(),
            result: Place(result),
            sum: PhantomData,
        },
    )
}

/// Writes the sum of `x[i] * y[i]`, where `conjugation` applies to `x`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn dot<T: Element>(vectors: Pair<T>, conjugation: Conjugation, result: *mut T) -> Plan {
    let (x, y) = vectors.split();
    let conjugate = conjugation == Conjugation::Conjugate;
    plan_of(
        vectors.n,
        DotOf::<T, T, T> {
            x,
            y,
            conjugate,
            result: Place(result),
            sum: PhantomData,
        },
    )
}

/// `y = alpha x + y`. Does nothing for `alpha = 0`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn axpy<T: Element>(alpha: Scalar<T>, vectors: Pair<T>) -> Plan {
    let (x, y) = vectors.split();
    apply::<T, T, T, _>(vectors.n, x, y, Writes::Y, move || {
        // SAFETY: the plan may run now.
        let alpha = unsafe { alpha.read() };
        (alpha != T::ZERO).then_some(Axpy(alpha))
    })
}

/// `x = alpha x`, also for `alpha = 0`: NaN stays NaN, as in the reference BLAS.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn scal<T: Element>(alpha: Scalar<T>, n: usize, x: *mut T, incx: i64) -> Plan {
    let (n, x) = scaled_vector(n, x, incx);
    // SAFETY: the plan may run when it reads the scalar.
    apply::<T, T, T, _>(n, x, x, Writes::Y, move || {
        // SAFETY: the condition of the surrounding function.
        Some(Scal(unsafe { alpha.read() }))
    })
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
    let (n, x) = scaled_vector(n, x, incx);
    // SAFETY: the plan may run when it reads the scalar.
    apply::<T, T, T, _>(n, x, x, Writes::Y, move || {
        // SAFETY: the condition of the surrounding function.
        Some(ScalReal(unsafe { alpha.read() }))
    })
}

/// `y = x`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn copy<T: Element>(vectors: Pair<T>) -> Plan {
    let (x, y) = vectors.split();
    apply::<T, T, T, _>(vectors.n, x, y, Writes::Y, || Some(Exchange))
}

/// Exchanges `x` and `y`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn swap<T: Element>(vectors: Pair<T>) -> Plan {
    let (x, y) = vectors.split();
    apply::<T, T, T, _>(vectors.n, x, y, Writes::Both, || Some(Exchange))
}

/// Applies a rotation with real cosine `c` and sine `s` of the vectors' type: `x = c x + s y`, `y = c y - conj(s) x`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rot<T: Element>(vectors: Pair<T>, c: Scalar<T::Real>, s: Scalar<T>) -> Plan {
    let (x, y) = vectors.split();
    // SAFETY: the plan may run when it reads the scalars.
    apply::<T, T, T, _>(vectors.n, x, y, Writes::Both, move || {
        // SAFETY: the condition of the surrounding function.
        Some(unsafe { Rotate::<T>(c.read(), s.read()) })
    })
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
    let (x, y) = vectors.split();
    // SAFETY: the plan may run when it reads the scalars.
    apply::<T, T, T, _>(vectors.n, x, y, Writes::Both, move || {
        // SAFETY: the condition of the surrounding function.
        Some(unsafe { RotateReal(c.read(), s.read()) })
    })
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
    let run = |Rotg { a, b, c, s }: Rotg<T>| {
        // SAFETY: the caller of the routine passes the addresses of numbers.
        unsafe {
            let found = rotation(a.read(), b.read());
            a.write(found.r);
            if !T::KIND.is_complex() {
                b.write(found.z);
            }
            c.write(found.c);
            s.write(found.s);
        }
    };
    Plan {
        stages: vec![single_with(arguments, run)],
    }
}

/// Applies a modified rotation, whose flag and elements are `param[0..5]`, read when the plan runs.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rotm<T: Real>(vectors: Pair<T>, param: *const T) -> Plan {
    let (x, y) = vectors.split();
    let param = Shared(param.cast::<[T; 5]>());
    // SAFETY: the plan may run when it reads the parameters.
    apply::<T, T, T, _>(vectors.n, x, y, Writes::Both, move || {
        // SAFETY: the condition of the surrounding function.
        Modified::of(unsafe { param.get().read() })
    })
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
    let run = |Rotmg {
                   d1,
                   d2,
                   x1,
                   y1,
                   param,
               }: Rotmg<T>| {
        let param = param.cast::<[T; 5]>();
        // SAFETY: the caller of the routine passes the addresses of numbers. Elements of `param` that stay are written again.
        unsafe {
            let found = modified(d1.read(), d2.read(), x1.read(), y1.read(), param.read());
            d1.write(found.d1);
            d2.write(found.d2);
            x1.write(found.x1);
            param.write(found.param);
        }
    };
    Plan {
        stages: vec![single_with(arguments, run)],
    }
}
