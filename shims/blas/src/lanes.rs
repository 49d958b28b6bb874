//! Loops over contiguous elements that keep several sums, so that they can use vectors.

use crate::kernels::Accumulate;
use crate::simd::Task;
use crate::storage::Load;
use crate::vector::Strided;
use crate::{Element, Real};

/// Number of sums that a loop keeps.
const LANES: usize = 32;

/// Elements that are converted or gathered at once.
pub(crate) const CHUNK: usize = 256;

/// The pairwise sum.
#[inline(always)]
fn total<T: Accumulate>(mut lanes: [T; LANES]) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = lanes[lane].plus(lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// The sum of `op(x[i]) * y[i]` for contiguous elements.
///
/// # Safety
/// The elements can be read.
#[inline(always)]
pub(crate) unsafe fn dot_contiguous<T: Element, const FUSED: bool>(
    count: usize,
    x: *const T,
    y: *const T,
    conjugate: bool,
) -> T {
    let mut sums = [T::ZERO; LANES];
    let whole = count / LANES * LANES;
    // SAFETY: all elements are below `count`.
    unsafe {
        for start in (0..whole).step_by(LANES) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum = sum.add_product::<FUSED>(
                    x.add(start + lane).read().conj_if(conjugate),
                    y.add(start + lane).read(),
                );
            }
        }
        for (lane, index) in (whole..count).enumerate() {
            sums[lane] = sums[lane]
                .add_product::<FUSED>(x.add(index).read().conj_if(conjugate), y.add(index).read());
        }
    }
    total(sums)
}

/// The product of parts of two vectors.
pub(crate) struct Dot<S, T> {
    pub(crate) count: usize,
    pub(crate) x: Strided<S>,
    pub(crate) y: Strided<S>,
    pub(crate) conjugate: bool,
    pub(crate) sum: std::marker::PhantomData<T>,
}

impl<T: Element, S: Load<T>> Task for Dot<S, T> {
    type Output = T;

    #[inline(always)]
    fn run<const FUSED: bool>(self) -> T {
        let mut result = T::ZERO;
        let (mut left, mut right) = ([T::ZERO; CHUNK], [T::ZERO; CHUNK]);
        // SAFETY: the vectors have `count` elements.
        unsafe {
            if self.x.increment == 1
                && self.y.increment == 1
                && std::any::TypeId::of::<S>() == std::any::TypeId::of::<T>()
            {
                return dot_contiguous::<T, FUSED>(
                    self.count,
                    self.x.data.cast(),
                    self.y.data.cast(),
                    self.conjugate,
                );
            }
            for start in (0..self.count).step_by(CHUNK) {
                let count = CHUNK.min(self.count - start);
                let x = self.x.fetch(start, count, left.as_mut_ptr());
                let y = self.y.fetch(start, count, right.as_mut_ptr());
                result = result + dot_contiguous::<T, FUSED>(count, x, y, self.conjugate);
            }
        }
        result
    }
}

/// What a [`Fold`] adds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Term {
    /// Absolute values.
    Magnitudes,
    /// Squares.
    Squares,
}

/// The sum of magnitudes or squares of contiguous real numbers, in the type `R`.
///
/// # Safety
/// The elements can be read.
#[inline(always)]
pub(crate) unsafe fn fold<T: Real + Load<R>, R: Real, const FUSED: bool>(
    count: usize,
    x: *const T,
    term: Term,
) -> R {
    let mut sums = [R::ZERO; LANES];
    let whole = count / LANES * LANES;
    let add = |sum: R, value: R| match term {
        Term::Magnitudes => sum + value.abs(),
        Term::Squares => sum.add_product::<FUSED>(value, value),
    };
    // SAFETY: all elements are below `count`.
    unsafe {
        for start in (0..whole).step_by(LANES) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum = add(*sum, Load::<R>::load(x.add(start + lane).read()));
            }
        }
        for (lane, index) in (whole..count).enumerate() {
            sums[lane] = add(sums[lane], Load::<R>::load(x.add(index).read()));
        }
    }
    total(sums)
}

/// The sum of magnitudes or squares of the parts of a vector's elements, which are read as `T`; the sum is in `R`.
pub(crate) struct Fold<S, T, R> {
    pub(crate) count: usize,
    pub(crate) x: Strided<S>,
    pub(crate) term: Term,
    pub(crate) types: std::marker::PhantomData<(T, R)>,
}

impl<T: Element, R: Real, S: Load<T>> Task for Fold<S, T, R>
where
    T::Real: Load<R>,
{
    type Output = R;

    #[inline(always)]
    fn run<const FUSED: bool>(self) -> R {
        let mut result = R::ZERO;
        let mut buffer = [T::ZERO; CHUNK];
        // SAFETY: the vector has `count` elements, each of which consists of `PARTS` real numbers.
        unsafe {
            if self.x.increment == 1 && std::any::TypeId::of::<S>() == std::any::TypeId::of::<T>() {
                return fold::<T::Real, R, FUSED>(
                    self.count * T::PARTS,
                    self.x.data.cast(),
                    self.term,
                );
            }
            for start in (0..self.count).step_by(CHUNK) {
                let count = CHUNK.min(self.count - start);
                let x = self.x.fetch(start, count, buffer.as_mut_ptr());
                result = result + fold::<T::Real, R, FUSED>(count * T::PARTS, x.cast(), self.term);
            }
        }
        result
    }
}

/// The largest (or smallest) magnitude `|re| + |im|` of a vector's elements that are not NaN, and the first index of it.
pub(crate) struct Extreme<S, T> {
    pub(crate) count: usize,
    pub(crate) x: Strided<S>,
    pub(crate) smallest: bool,
    pub(crate) types: std::marker::PhantomData<T>,
}

impl<T: Element, S: Load<T>> Task for Extreme<S, T> {
    /// `None` if all elements are NaN.
    type Output = Option<(T::Real, usize)>;

    #[inline(always)]
    fn run<const FUSED: bool>(self) -> Option<(T::Real, usize)> {
        let mut best: Option<(T::Real, usize)> = None;
        let mut buffer = [T::ZERO; CHUNK];
        let mut magnitudes = [T::Real::ZERO; CHUNK];
        for start in (0..self.count).step_by(CHUNK) {
            let count = CHUNK.min(self.count - start);
            // SAFETY: the vector has these elements.
            unsafe {
                let x = self.x.fetch(start, count, buffer.as_mut_ptr());
                for (index, magnitude) in magnitudes[..count].iter_mut().enumerate() {
                    let value = x.add(index).read().taxicab();
                    *magnitude = if self.smallest { -value } else { value };
                }
            }
            let chunk = largest(&magnitudes[..count]);
            if best.is_none_or(|(value, _)| chunk > value)
                && let Some(index) = magnitudes[..count].iter().position(|value| *value == chunk)
            {
                best = Some((chunk, start + index));
            }
        }
        best
    }
}

/// The largest number that is not NaN, or minus infinity.
#[inline(always)]
fn largest<R: Real>(values: &[R]) -> R {
    let mut lanes = [-R::INFINITY; LANES];
    let larger = |a: R, b: R| if b > a { b } else { a };
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, *value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane = larger(*lane, *value);
    }
    lanes.into_iter().fold(lanes[0], larger)
}
