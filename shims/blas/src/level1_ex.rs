//! Level 1 for vectors of mixed types (`cublasDotEx` and its like).
//!
//! A routine returns `None` for combinations of types that cuBLAS does not document: vectors are in R16F or R16BF and computed in R32F, or in
//! R32F, R64F, C32F or C64F and computed in the same type.

use std::ffi::c_void;
use std::marker::PhantomData;

use crate::core::Shared;
use crate::rotations::{modified, rotation};
use crate::storage::{BF16, F16, Load, Store};
use crate::vector::{Strided, single_with};
use crate::vector_routines::IndexAt;
use crate::vector_routines::{
    AsumOf, Axpy, DotOf, Exchange, ExtremeOf, Modified, Nrm2Of, Place, Rotate, RotateReal, Scal,
    ScalReal, Writes, apply, plan_of, value,
};
use crate::{AnyScalar, Complex, Conjugation, DataType, Element, Plan};

/// A vector whose type is a value.
#[derive(Clone, Copy, Debug)]
pub struct AnyVector {
    /// The vector.
    pub data: *mut c_void,
    /// The type of its elements.
    pub kind: DataType,
    /// Increment.
    pub increment: i64,
}

/// A result or a parameter whose type is a value.
#[derive(Clone, Copy, Debug)]
pub struct AnyPlace {
    /// The address.
    pub data: *mut c_void,
    /// The type.
    pub kind: DataType,
}

impl AnyVector {
    fn vector<S>(&self, n: usize) -> Strided<S> {
        Strided::new(self.data.cast::<S>(), n, self.increment)
    }

    /// Number of elements that count: none if the increment is not positive.
    fn counted(&self, n: usize) -> usize {
        if self.increment <= 0 { 0 } else { n }
    }
}

/// An element in memory with its real type.
trait Kind {
    /// The type of a real part.
    type Real;
    /// Its number.
    const REAL: DataType;
}

macro_rules! kinds {
    ($($t:ty, $real:ty, $kind:ident;)*) => {$(
        impl Kind for $t {
            type Real = $real;
            const REAL: DataType = DataType::$kind;
        }
    )*};
}

kinds! {
    F16, F16, R16F;
    BF16, BF16, R16BF;
    f32, f32, R32F;
    f64, f64, R64F;
    Complex<f32>, f32, R32F;
    Complex<f64>, f64, R64F;
}

/// Evaluates an expression with `$s` as the type of real vectors of a kind, and `$t` as the type in which they are computed.
macro_rules! with_real_vector {
    ($kind:expr, $execution:expr, $s:ident, $t:ident => $body:expr) => {
        match ($kind, $execution) {
            (DataType::R16F, DataType::R32F) => {
                type $s = F16;
                type $t = f32;
                $body
            }
            (DataType::R16BF, DataType::R32F) => {
                type $s = BF16;
                type $t = f32;
                $body
            }
            (DataType::R32F, DataType::R32F) => {
                type $s = f32;
                type $t = f32;
                $body
            }
            (DataType::R64F, DataType::R64F) => {
                type $s = f64;
                type $t = f64;
                $body
            }
            _ => None,
        }
    };
}

/// The same for real and complex vectors.
macro_rules! with_vector {
    ($kind:expr, $execution:expr, $s:ident, $t:ident => $body:expr) => {
        match ($kind, $execution) {
            (DataType::C32F, DataType::C32F) => {
                type $s = Complex<f32>;
                type $t = Complex<f32>;
                $body
            }
            (DataType::C64F, DataType::C64F) => {
                type $s = Complex<f64>;
                type $t = Complex<f64>;
                $body
            }
            (kind, execution) => with_real_vector!(kind, execution, $s, $t => $body),
        }
    };
}

/// The type in which the routines without an execution type compute.
fn computed(kind: DataType) -> DataType {
    match kind {
        DataType::R16F | DataType::R16BF => DataType::R32F,
        kind => kind,
    }
}

fn exchange(n: usize, x: AnyVector, y: AnyVector, writes: Writes) -> Option<Plan> {
    if y.kind != x.kind {
        return None;
    }
    // Only the size of elements matters.
    macro_rules! of {
        ($t:ty) => {
            apply::<$t, $t, $t, _>(n, x.vector(n), y.vector(n), writes, || Some(Exchange))
        };
    }
    Some(match x.kind.size() {
        1 => of!(Bytes<u8>),
        2 => of!(Bytes<u16>),
        4 => of!(Bytes<u32>),
        8 => of!(Complex<f32>),
        _ => of!(Complex<f64>),
    })
}

/// An element that is only copied.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Bytes<T>(T);

impl<T: Copy + Send + Sync + 'static> Load<Bytes<T>> for Bytes<T> {
    #[inline(always)]
    fn load(self) -> Bytes<T> {
        self
    }
}

impl<T: Copy + Send + Sync + 'static> Store<Bytes<T>> for Bytes<T> {
    #[inline(always)]
    fn store(value: Bytes<T>) -> Bytes<T> {
        value
    }
}

fn extreme(n: usize, x: AnyVector, result: IndexAt, smallest: bool) -> Option<Plan> {
    let n = x.counted(n);
    with_vector!(x.kind, computed(x.kind), S, T => {
        Some(plan_of(n, ExtremeOf::<S, T> { n, x: x.vector(n), smallest, result, types: PhantomData }))
    })
}

/// `cublasNrm2Ex`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn nrm2(n: usize, x: AnyVector, result: AnyPlace, execution: DataType) -> Option<Plan> {
    with_vector!(x.kind, execution, S, T => {
        if result.kind != <S as Kind>::REAL {
            return None;
        }
        let reduction = Nrm2Of::<S, T, <S as Kind>::Real> { x: x.vector(n), result: Place(result.data.cast()), sum: PhantomData };
        Some(plan_of(x.counted(n), reduction))
    })
}

/// `cublasAsumEx`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn asum(n: usize, x: AnyVector, result: AnyPlace, execution: DataType) -> Option<Plan> {
    with_vector!(x.kind, execution, S, T => {
        if result.kind != <S as Kind>::REAL {
            return None;
        }
        let reduction = AsumOf::<S, T, <S as Kind>::Real> { x: x.vector(n), result: Place(result.data.cast()), sum: PhantomData };
        Some(plan_of(x.counted(n), reduction))
    })
}

/// `cublasDotEx` and `cublasDotcEx`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn dot(
    n: usize,
    x: AnyVector,
    y: AnyVector,
    conjugation: Conjugation,
    result: AnyPlace,
    execution: DataType,
) -> Option<Plan> {
    if y.kind != x.kind || result.kind != x.kind {
        return None;
    }
    let conjugate = conjugation == Conjugation::Conjugate;
    with_vector!(x.kind, execution, S, T => {
        let result = Place(result.data.cast());
        Some(plan_of(n, DotOf::<S, T, S> { x: x.vector(n), y: y.vector(n), conjugate, result, sum: PhantomData }))
    })
}

/// `cublasAxpyEx`. `alpha_type` is checked; the value is in `alpha`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn axpy(
    n: usize,
    alpha: AnyScalar,
    alpha_type: DataType,
    x: AnyVector,
    y: AnyVector,
    execution: DataType,
) -> Option<Plan> {
    if y.kind != x.kind || alpha_type != execution {
        return None;
    }
    with_vector!(x.kind, execution, S, T => {
        Some(apply::<T, S, S, _>(n, x.vector(n), y.vector(n), Writes::Y, move || {
            // SAFETY: the plan may run now.
            let alpha = unsafe { value::<T>(alpha) };
            (alpha != T::ZERO).then_some(Axpy(alpha))
        }))
    })
}

/// `cublasScalEx`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn scal(
    n: usize,
    alpha: AnyScalar,
    alpha_type: DataType,
    x: AnyVector,
    execution: DataType,
) -> Option<Plan> {
    let real_alpha = alpha_type == execution.real();
    if alpha_type != execution && !real_alpha {
        return None;
    }
    with_vector!(x.kind, execution, S, T => {
        let vector = x.vector::<S>(x.counted(n));
        // SAFETY: the plan may run when it reads the scalar.
        Some(if real_alpha {
            // SAFETY: the condition of the surrounding function.
            apply::<T, S, S, _>(x.counted(n), vector, vector, Writes::Y, move || Some(ScalReal(unsafe { value::<T>(alpha) }.re())))
        } else {
            // SAFETY: the condition of the surrounding function.
            apply::<T, S, S, _>(x.counted(n), vector, vector, Writes::Y, move || Some(Scal(unsafe { value::<T>(alpha) })))
        })
    })
}

/// `cublasCopyEx`: both vectors have the same type.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn copy(n: usize, x: AnyVector, y: AnyVector) -> Option<Plan> {
    exchange(n, x, y, Writes::Y)
}

/// `cublasSwapEx`: both vectors have the same type.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn swap(n: usize, x: AnyVector, y: AnyVector) -> Option<Plan> {
    exchange(n, x, y, Writes::Both)
}

/// `cublasIamaxEx`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn iamax(n: usize, x: AnyVector, result: IndexAt) -> Option<Plan> {
    extreme(n, x, result, false)
}

/// `cublasIaminEx`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn iamin(n: usize, x: AnyVector, result: IndexAt) -> Option<Plan> {
    extreme(n, x, result, true)
}

/// `cublasRotEx`: `cs_type` is the type of `c` and `s`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rot(
    n: usize,
    x: AnyVector,
    y: AnyVector,
    c: AnyScalar,
    s: AnyScalar,
    cs_type: DataType,
    execution: DataType,
) -> Option<Plan> {
    let real = cs_type == x.kind.real();
    if y.kind != x.kind || (cs_type != x.kind && !real) {
        return None;
    }
    with_vector!(x.kind, execution, S, T => {
        // SAFETY: the plan may run when it reads the scalars.
        Some(if real {
            // SAFETY: the condition of the surrounding function.
            apply::<T, S, S, _>(n, x.vector(n), y.vector(n), Writes::Both, move || unsafe {
                Some(RotateReal(value::<T>(c).re(), value::<T>(s).re()))
            })
        } else {
            // SAFETY: the condition of the surrounding function.
            apply::<T, S, S, _>(n, x.vector(n), y.vector(n), Writes::Both, move || unsafe {
                Some(Rotate::<T>(value::<T>(c).re(), value::<T>(s)))
            })
        })
    })
}

/// `cublasRotgEx`: `a` and `b` have one type, `c` and `s` another.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rotg(
    a: AnyPlace,
    b: AnyPlace,
    c: AnyPlace,
    s: AnyPlace,
    execution: DataType,
) -> Option<Plan> {
    let ab_type = a.kind;
    if b.kind != ab_type || c.kind != s.kind || s.kind != ab_type {
        return None;
    }
    with_vector!(ab_type, execution, S, T => {
        let places: [*mut S; 3] = [a.data.cast(), b.data.cast(), s.data.cast()];
        let cosine: *mut <S as Kind>::Real = c.data.cast();
        Some(Plan { stages: vec![single_with((places, cosine), |([a, b, s], c)| {
            // SAFETY: the caller of the routine passes the addresses of numbers.
            unsafe {
                let found = rotation::<T>(a.read().load(), b.read().load());
                a.write(S::store(found.r));
                if !T::KIND.is_complex() {
                    b.write(S::store(found.z));
                }
                c.write(Store::store(found.c));
                s.write(S::store(found.s));
            }
        })] })
    })
}

/// `cublasRotmEx`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rotm(
    n: usize,
    x: AnyVector,
    y: AnyVector,
    param: AnyPlace,
    execution: DataType,
) -> Option<Plan> {
    if y.kind != x.kind || param.kind != x.kind || x.kind.is_complex() {
        return None;
    }
    with_real_vector!(x.kind, execution, S, T => {
        let param = Shared(param.data.cast::<[S; 5]>());
        // SAFETY: the plan may run when it reads the parameters.
        Some(apply::<T, S, S, _>(n, x.vector(n), y.vector(n), Writes::Both, move || {
            // SAFETY: the condition of the surrounding function.
            Modified::of(unsafe { param.get().read() }.map(Load::<T>::load))
        }))
    })
}

/// `cublasRotmgEx`: the five operands in the order of cuBLAS.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rotmg(
    d1: AnyPlace,
    d2: AnyPlace,
    x1: AnyPlace,
    y1: AnyPlace,
    param: AnyPlace,
    execution: DataType,
) -> Option<Plan> {
    let kind = d1.kind;
    if [d2.kind, x1.kind, y1.kind, param.kind] != [kind; 4] {
        return None;
    }
    with_real_vector!(kind, execution, S, T => {
        let places: [*mut S; 4] = [d1.data, d2.data, x1.data, y1.data].map(<*mut c_void>::cast);
        let param: *mut [S; 5] = param.data.cast();
        Some(Plan { stages: vec![single_with((places, param), |([d1, d2, x1, y1], param)| {
            // SAFETY: the caller of the routine passes the addresses of numbers.
            unsafe {
                let [a, b, c, d] = [d1, d2, x1, y1].map(|place| Load::<T>::load(place.read()));
                let found = modified::<T>(a, b, c, d, param.read().map(Load::<T>::load));
                d1.write(S::store(found.d1));
                d2.write(S::store(found.d2));
                x1.write(S::store(found.x1));
                param.write(found.param.map(S::store));
            }
        })] })
    })
}
