//! The routines of level 1 for vectors of type `S` that compute in the type `T`.

use std::marker::PhantomData;

use crate::lanes::{Dot, Extreme, Fold, Term};
use crate::reduce::{self, Reduction};
use crate::simd::{self, Task};
use crate::storage::{Load, Store};
use crate::vector::{Strided, parts};
use crate::{AnyScalar, Element, Plan, Real};

/// Where `iamax` and `iamin` write the index, which counts from 1.
#[derive(Clone, Copy, Debug)]
pub enum IndexAt {
    /// A 32-bit index.
    I32(*mut i32),
    /// A 64-bit index.
    I64(*mut i64),
}

impl IndexAt {
    /// # Safety
    /// The address is valid.
    pub(crate) unsafe fn write(self, index: usize) {
        // SAFETY: the caller's condition.
        unsafe {
            match self {
                IndexAt::I32(address) => address.write(index as i32),
                IndexAt::I64(address) => address.write(index as i64),
            }
        }
    }
}

/// The address of a result that a plan writes.
pub(crate) struct Place<R>(pub(crate) *mut R);

// SAFETY: one task writes the result.
unsafe impl<R> Send for Place<R> {}
// SAFETY: as above.
unsafe impl<R> Sync for Place<R> {}

pub(crate) struct DotOf<S, T, R> {
    pub(crate) x: Strided<S>,
    pub(crate) y: Strided<S>,
    pub(crate) conjugate: bool,
    pub(crate) result: Place<R>,
    pub(crate) sum: PhantomData<T>,
}

impl<S: Load<T>, T: Element, R: Store<T>> Reduction for DotOf<S, T, R> {
    type Part = T;
    const EMPTY: T = T::ZERO;

    unsafe fn block(&self, start: usize, count: usize) -> T {
        simd::run(Dot {
            count,
            x: self.x.from(start),
            y: self.y.from(start),
            conjugate: self.conjugate,
            sum: PhantomData,
        })
    }

    fn join(first: T, second: T) -> T {
        first + second
    }

    unsafe fn finish(&self, result: T) {
        // SAFETY: the caller of the routine passes the address of a result.
        unsafe { self.result.0.write(R::store(result)) };
    }
}

/// The sum of magnitudes.
pub(crate) struct AsumOf<S, T, R> {
    pub(crate) x: Strided<S>,
    pub(crate) result: Place<R>,
    pub(crate) sum: PhantomData<T>,
}

impl<S: Load<T>, T: Element, R: Store<T::Real>> Reduction for AsumOf<S, T, R> {
    type Part = T::Real;
    const EMPTY: T::Real = T::Real::ZERO;

    unsafe fn block(&self, start: usize, count: usize) -> T::Real {
        simd::run(Fold::<S, T, T::Real> {
            count,
            x: self.x.from(start),
            term: Term::Magnitudes,
            types: PhantomData,
        })
    }

    fn join(first: T::Real, second: T::Real) -> T::Real {
        first + second
    }

    unsafe fn finish(&self, result: T::Real) {
        // SAFETY: the caller of the routine passes the address of a result.
        unsafe { self.result.0.write(R::store(result)) };
    }
}

/// The Euclidean norm.
pub(crate) struct Nrm2Of<S, T, R> {
    pub(crate) x: Strided<S>,
    pub(crate) result: Place<R>,
    pub(crate) sum: PhantomData<T>,
}

/// A sum of squares: `sum * 4^exponent`. The exponent is 0 unless the sum would overflow or underflow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Squares {
    sum: f64,
    exponent: i32,
}

/// Sums of squares in this range are accurate without scaling.
const SAFE: std::ops::Range<f64> = 1e-280..1e300;

/// `value * 2^exponent`, for an exponent between -2100 and 2100.
fn scaled(value: f64, exponent: i32) -> f64 {
    let mut value = value;
    let mut left = exponent;
    while left != 0 {
        let step = left.clamp(-1000, 1000);
        value *= f64::from_bits(((1023 + step) as u64) << 52);
        left -= step;
    }
    value
}

impl<S: Load<T>, T: Element, R: Store<T::Real>> Nrm2Of<S, T, R> {
    /// The sum of squares of a block whose plain sum is not accurate.
    ///
    /// # Safety
    /// As for [`Reduction::block`].
    unsafe fn careful(&self, start: usize, count: usize) -> Squares {
        // SAFETY: the caller's conditions.
        let parts = |index: usize| unsafe { self.x.at(start + index).read().load() }.wide();
        let (mut largest, mut nan) = (0.0f64, false);
        for index in 0..count {
            for part in [parts(index).re, parts(index).im] {
                nan |= part.is_nan();
                largest = largest.max(part.abs());
            }
        }
        if nan {
            return Squares {
                sum: f64::NAN,
                exponent: 0,
            };
        }
        if largest == 0.0 || largest.is_infinite() {
            return Squares {
                sum: largest,
                exponent: 0,
            };
        }
        // A power of two near the largest part. Subnormal numbers have the exponent of the smallest normal number.
        let exponent = ((largest.to_bits() >> 52) as i32).max(1) - 1023;
        let sum = (0..count)
            .flat_map(|index| [parts(index).re, parts(index).im])
            .map(|part| scaled(part, -exponent))
            .map(|part| part * part)
            .sum();
        Squares { sum, exponent }
    }
}

impl<S: Load<T>, T: Element, R: Store<T::Real>> Reduction for Nrm2Of<S, T, R> {
    type Part = Squares;
    const EMPTY: Squares = Squares {
        sum: 0.0,
        exponent: 0,
    };

    unsafe fn block(&self, start: usize, count: usize) -> Squares {
        let sum = simd::run(Fold::<S, T, f64> {
            count,
            x: self.x.from(start),
            term: Term::Squares,
            types: PhantomData,
        });
        if SAFE.contains(&sum) {
            return Squares { sum, exponent: 0 };
        }
        // SAFETY: the caller's conditions.
        unsafe { self.careful(start, count) }
    }

    fn join(first: Squares, second: Squares) -> Squares {
        // A sum of 0, infinity or NaN has exponent 0, and does not decide about the exponent of the result.
        let plain = |squares: Squares| squares.sum == 0.0 || !squares.sum.is_finite();
        if plain(first) || plain(second) {
            let exponent = if plain(first) {
                second.exponent
            } else {
                first.exponent
            };
            return Squares {
                sum: first.sum + second.sum,
                exponent,
            };
        }
        let exponent = first.exponent.max(second.exponent);
        let part =
            |squares: Squares| scaled(squares.sum, (2 * (squares.exponent - exponent)).max(-2100));
        Squares {
            sum: part(first) + part(second),
            exponent,
        }
    }

    unsafe fn finish(&self, result: Squares) {
        let norm = scaled(result.sum.sqrt(), result.exponent);
        // SAFETY: the caller of the routine passes the address of a result.
        unsafe { self.result.0.write(R::store(T::Real::from_f64(norm))) };
    }
}

/// The index of the largest or smallest magnitude.
pub(crate) struct ExtremeOf<S, T> {
    pub(crate) n: usize,
    pub(crate) x: Strided<S>,
    pub(crate) smallest: bool,
    pub(crate) result: IndexAt,
    pub(crate) types: PhantomData<T>,
}

// SAFETY: one task writes the result.
unsafe impl<S, T> Send for ExtremeOf<S, T> {}
// SAFETY: as above.
unsafe impl<S, T> Sync for ExtremeOf<S, T> {}

impl<S: Load<T>, T: Element> Reduction for ExtremeOf<S, T> {
    type Part = Option<(T::Real, usize)>;
    const EMPTY: Self::Part = None;

    unsafe fn block(&self, start: usize, count: usize) -> Self::Part {
        let found = simd::run(Extreme {
            count,
            x: self.x.from(start),
            smallest: self.smallest,
            types: PhantomData,
        });
        found.map(|(value, index)| (value, start + index))
    }

    fn join(first: Self::Part, second: Self::Part) -> Self::Part {
        match (first, second) {
            (Some(first), Some(second)) => Some(if second.0 > first.0 { second } else { first }),
            _ => first.or(second),
        }
    }

    unsafe fn finish(&self, result: Self::Part) {
        // SAFETY: the vector has a first element if it has any; the caller of the routine passes the address of a result.
        unsafe {
            let first = || self.x.data.read().load().taxicab();
            let first_is_nan = self.n > 0 && first().to_f64().is_nan();
            let index = match result {
                _ if self.n == 0 => 0,
                Some((_, index)) if !first_is_nan => index + 1,
                _ => 1,
            };
            self.result.write(index);
        }
    }
}

/// An element-wise routine: how it changes an element of `x` and one of `y`.
pub(crate) trait Map<T>: Copy + Send + Sync {
    /// The new elements.
    fn map<const FUSED: bool>(self, x: T, y: T) -> (T, T);
}

/// Which vectors an element-wise routine writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    Y,
    Both,
}

/// Applies a [`Map`] to parts of two vectors. The second may have another type.
pub(crate) struct Apply<S, U, T, M> {
    pub(crate) count: usize,
    pub(crate) x: Strided<S>,
    pub(crate) y: Strided<U>,
    pub(crate) map: M,
    pub(crate) writes: Writes,
    pub(crate) types: PhantomData<T>,
}

impl<T: Copy, S: Load<T> + Store<T>, U: Load<T> + Store<T>, M: Map<T>> Task for Apply<S, U, T, M> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Apply {
            count,
            x,
            y,
            map,
            writes,
            ..
        } = self;
        let both = writes == Writes::Both;
        // SAFETY: the vectors have `count` elements.
        let one = |from: *mut S, to: *mut U| unsafe {
            let (new_x, new_y) = map.map::<FUSED>(from.read().load(), to.read().load());
            to.write(U::store(new_y));
            if both {
                from.write(S::store(new_x));
            }
        };
        if x.increment == 1 && y.increment == 1 {
            for index in 0..count {
                one(x.data.wrapping_add(index), y.data.wrapping_add(index));
            }
        } else {
            for index in 0..count {
                one(x.at(index), y.at(index));
            }
        }
    }
}

/// The plan of an element-wise routine. `map` makes the map when a task runs; there is nothing to do if it returns `None`.
pub(crate) fn apply<T, S, U, M>(
    n: usize,
    x: Strided<S>,
    y: Strided<U>,
    writes: Writes,
    map: impl Fn() -> Option<M> + Send + Sync + 'static,
) -> Plan
where
    T: Copy + 'static,
    S: Load<T> + Store<T>,
    U: Load<T> + Store<T>,
    M: Map<T>,
{
    let ordered = y.increment == 0 || (writes == Writes::Both && x.increment == 0);
    let stages = parts(n, 0.3, ordered, move |start, count| {
        if let Some(map) = map() {
            simd::run(Apply::<S, U, T, M> {
                count,
                x: x.from(start),
                y: y.from(start),
                map,
                writes,
                types: PhantomData,
            });
        }
    });
    Plan { stages }
}

/// `y = alpha x + y`.
#[derive(Clone, Copy)]
pub(crate) struct Axpy<T>(pub(crate) T);

impl<T: Element> Map<T> for Axpy<T> {
    #[inline(always)]
    fn map<const FUSED: bool>(self, x: T, y: T) -> (T, T) {
        (x, y.add_product::<FUSED>(self.0, x))
    }
}

/// `y = alpha y`.
#[derive(Clone, Copy)]
pub(crate) struct Scal<T>(pub(crate) T);

impl<T: Element> Map<T> for Scal<T> {
    #[inline(always)]
    fn map<const FUSED: bool>(self, x: T, y: T) -> (T, T) {
        (x, self.0 * y)
    }
}

/// `y = alpha y` with a real factor.
#[derive(Clone, Copy)]
pub(crate) struct ScalReal<R>(pub(crate) R);

impl<T: Element> Map<T> for ScalReal<T::Real> {
    #[inline(always)]
    fn map<const FUSED: bool>(self, x: T, y: T) -> (T, T) {
        (x, y.scale(self.0))
    }
}

/// A rotation with a real cosine.
#[derive(Clone, Copy)]
pub(crate) struct Rotate<T: Element>(pub(crate) T::Real, pub(crate) T);

impl<T: Element> Map<T> for Rotate<T> {
    #[inline(always)]
    fn map<const FUSED: bool>(self, x: T, y: T) -> (T, T) {
        let Rotate(c, s) = self;
        (
            x.scale(c).add_product::<FUSED>(s, y),
            y.scale(c).add_product::<FUSED>(-s.conj(), x),
        )
    }
}

/// A rotation with real cosine and sine.
#[derive(Clone, Copy)]
pub(crate) struct RotateReal<R>(pub(crate) R, pub(crate) R);

impl<T: Element> Map<T> for RotateReal<T::Real> {
    #[inline(always)]
    fn map<const FUSED: bool>(self, x: T, y: T) -> (T, T) {
        let RotateReal(c, s) = self;
        (x.scale(c) + y.scale(s), y.scale(c) - x.scale(s))
    }
}

/// A 2 by 2 matrix, row by row.
#[derive(Clone, Copy)]
pub(crate) struct Modified<R>(pub(crate) [R; 4]);

impl<R: Real> Map<R> for Modified<R> {
    #[inline(always)]
    fn map<const FUSED: bool>(self, x: R, y: R) -> (R, R) {
        let [h11, h12, h21, h22] = self.0;
        (x * h11 + y * h12, x * h21 + y * h22)
    }
}

impl<R: Real> Modified<R> {
    /// The matrix of `param`, or `None` if it is the identity.
    pub(crate) fn of(param: [R; 5]) -> Option<Modified<R>> {
        let [flag, h11, h21, h12, h22] = param;
        let one = R::ONE;
        if flag == -one - one {
            None
        } else if flag < R::ZERO {
            Some(Modified([h11, h12, h21, h22]))
        } else if flag == R::ZERO {
            Some(Modified([one, h12, h21, one]))
        } else {
            Some(Modified([h11, one, -one, h22]))
        }
    }
}

/// `y = x`, and `x = y` if both are written.
#[derive(Clone, Copy)]
pub(crate) struct Exchange;

impl<T: Copy> Map<T> for Exchange {
    #[inline(always)]
    fn map<const FUSED: bool>(self, x: T, y: T) -> (T, T) {
        (y, x)
    }
}

/// A scalar of type `T` now.
///
/// # Safety
/// The plan may run now.
pub(crate) unsafe fn value<T: Element>(scalar: AnyScalar) -> T {
    // SAFETY: the caller's condition.
    T::from_wide(unsafe { scalar.read() })
}

/// The plan of a reduction of a vector, for which an increment that is not positive means no elements.
pub(crate) fn plan_of<R: Reduction>(n: usize, reduction: R) -> Plan {
    reduce::plan(n, 0.15, reduction)
}
