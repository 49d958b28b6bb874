//! Operands of products as routines pass them: batches of column-major matrices whose types and scalars are known when a task runs.

use std::marker::PhantomData;

use crate::core::{Axpby, Dense, Finish, Items, Mirrored, OnTriangle, Operands, Source};
use crate::kernels::Accumulate;
use crate::storage::{Load, Store};
use crate::{AnyScalar, Element, Operation, Pointers, Symmetry, Triangle};

/// An operand of each item of a batch.
pub(crate) trait Operand<T: Accumulate>: Send + Sync {
    /// Calls `body` with the operand of `item`.
    ///
    /// # Safety
    /// The plan may run now.
    unsafe fn with(&self, item: usize, body: &mut dyn FnMut(&dyn Source<T>));
}

/// A result of each item of a batch, for the type `T` of the sums.
pub(crate) trait Outcome<T: Accumulate>: Send + Sync {
    /// Calls `body` with the last step of `item`. `zero`: the product is not computed, because its factor is 0.
    /// Does not call it if there is nothing to do.
    ///
    /// # Safety
    /// The plan may run now.
    unsafe fn with(&self, item: usize, empty: bool, body: &mut dyn FnMut(&dyn Finish<T>, bool));
}

/// Column-major matrices of elements of type `S`.
pub(crate) struct Matrices<S> {
    pub(crate) data: Pointers<S>,
    /// Distance of the indices that stay: rows of a left operand, columns of a right one.
    pub(crate) outer_stride: usize,
    /// Distance of values of k.
    pub(crate) depth_stride: usize,
    pub(crate) conjugate: bool,
}

impl<S> Matrices<S> {
    /// Left operands `op(A)`.
    pub(crate) fn left(data: Pointers<S>, ld: usize, operation: Operation) -> Matrices<S> {
        let (outer_stride, depth_stride) = if operation.transposes() {
            (ld, 1)
        } else {
            (1, ld)
        };
        Matrices {
            data,
            outer_stride,
            depth_stride,
            conjugate: operation.conjugates(),
        }
    }

    /// Right operands `op(B)`.
    pub(crate) fn right(data: Pointers<S>, ld: usize, operation: Operation) -> Matrices<S> {
        let (outer_stride, depth_stride) = if operation.transposes() {
            (1, ld)
        } else {
            (ld, 1)
        };
        Matrices {
            data,
            outer_stride,
            depth_stride,
            conjugate: operation.conjugates(),
        }
    }

    /// The same matrices of elements of another type, which strides count.
    pub(crate) fn cast<U>(self) -> Matrices<U> {
        let Matrices {
            data,
            outer_stride,
            depth_stride,
            conjugate,
        } = self;
        Matrices {
            data: data.cast(),
            outer_stride,
            depth_stride,
            conjugate,
        }
    }

    /// # Safety
    /// The plan may run now.
    pub(crate) unsafe fn item(&self, item: usize) -> Dense<S> {
        Dense {
            // SAFETY: the caller's condition.
            data: unsafe { self.data.item(item) },
            outer_stride: self.outer_stride as isize,
            depth_stride: self.depth_stride as isize,
            conjugate: self.conjugate,
        }
    }
}

impl<T: Accumulate, S: Load<T::Item>> Operand<T> for Matrices<S> {
    unsafe fn with(&self, item: usize, body: &mut dyn FnMut(&dyn Source<T>)) {
        // SAFETY: the caller's condition.
        body(&unsafe { self.item(item) });
    }
}

/// A symmetric or Hermitian matrix.
pub(crate) struct MirroredMatrix<T> {
    pub(crate) data: *const T,
    pub(crate) ld: usize,
    pub(crate) triangle: Triangle,
    pub(crate) symmetry: Symmetry,
    /// Whether the matrix is the right operand, whose outer index is the column.
    pub(crate) right: bool,
}

// SAFETY: the matrix is only read.
unsafe impl<T> Send for MirroredMatrix<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for MirroredMatrix<T> {}

impl<T: Element> Operand<T> for MirroredMatrix<T> {
    unsafe fn with(&self, _item: usize, body: &mut dyn FnMut(&dyn Source<T>)) {
        let stored = Dense {
            data: self.data,
            outer_stride: 1,
            depth_stride: self.ld as isize,
            conjugate: false,
        };
        let source = if self.right {
            // Outer index and k are exchanged, and so are the triangles.
            let triangle = match self.triangle {
                Triangle::Lower => Triangle::Upper,
                Triangle::Upper => Triangle::Lower,
            };
            Mirrored {
                stored: stored.transposed(),
                triangle,
                symmetry: self.symmetry,
            }
        } else {
            Mirrored {
                stored,
                triangle: self.triangle,
                symmetry: self.symmetry,
            }
        };
        body(&source);
    }
}

/// Results `C = alpha AB + beta C` of type `S`, all elements or those of a triangle.
pub(crate) struct Results<T, S> {
    pub(crate) data: Pointers<S>,
    pub(crate) ld: usize,
    pub(crate) alpha: AnyScalar,
    pub(crate) beta: AnyScalar,
    /// Whether `alpha` is conjugated.
    pub(crate) conjugate_alpha: bool,
    /// The triangle that is stored, and whether its diagonal is real.
    pub(crate) triangle: Option<(Triangle, bool)>,
    pub(crate) sums: PhantomData<T>,
}

impl<T: Element, S> Results<T, S> {
    /// Results all of whose elements are stored.
    pub(crate) fn new(
        data: Pointers<S>,
        ld: usize,
        alpha: AnyScalar,
        beta: AnyScalar,
    ) -> Results<T, S> {
        Results {
            data,
            ld,
            alpha,
            beta,
            conjugate_alpha: false,
            triangle: None,
            sums: PhantomData,
        }
    }
}

impl<T: Element, S: Load<T> + Store<T>> Outcome<T> for Results<T, S> {
    unsafe fn with(&self, item: usize, empty: bool, body: &mut dyn FnMut(&dyn Finish<T>, bool)) {
        // SAFETY: the plan may run now.
        let (alpha, beta, data) =
            unsafe { (self.alpha.read(), self.beta.read(), self.data.item(item)) };
        let (alpha, beta) = (
            T::from_wide(alpha).conj_if(self.conjugate_alpha),
            T::from_wide(beta),
        );
        let zero = empty || alpha == T::ZERO;
        if zero && beta == T::ONE {
            return;
        }
        // With a factor of -0, the product does not change the sign of a result that is 0.
        let alpha = match (zero, beta == T::ZERO) {
            (true, true) => T::ZERO,
            (true, false) => -T::ZERO,
            (false, _) => alpha,
        };
        let inner = Axpby {
            data,
            row_stride: 1,
            column_stride: self.ld as isize,
            alpha,
            beta,
        };
        match self.triangle {
            None => body(&inner, zero),
            Some((triangle, real_diagonal)) => body(
                &OnTriangle {
                    inner,
                    triangle,
                    real_diagonal,
                },
                zero,
            ),
        }
    }
}

/// Results of products of 8-bit integers: `i32`, scaled in `i32`, which wraps; or `i8`, scaled in `f32`.
pub(crate) struct IntegerResults<S> {
    pub(crate) data: Pointers<S>,
    pub(crate) ld: usize,
    pub(crate) alpha: AnyScalar,
    pub(crate) beta: AnyScalar,
}

/// A type of [`IntegerResults`].
pub(crate) trait IntegerResult: Copy + Send + Sync + 'static {
    /// `alpha sum + beta old`.
    fn combine(alpha: f64, sum: i32, beta: f64, old: Self) -> Self;
    /// `alpha sum`.
    fn scale(alpha: f64, sum: i32) -> Self;
}

impl IntegerResult for i32 {
    fn combine(alpha: f64, sum: i32, beta: f64, old: i32) -> i32 {
        i32::scale(alpha, sum).wrapping_add(i32::scale(beta, old))
    }

    fn scale(alpha: f64, sum: i32) -> i32 {
        (alpha as i32).wrapping_mul(sum)
    }
}

impl IntegerResult for i8 {
    fn combine(alpha: f64, sum: i32, beta: f64, old: i8) -> i8 {
        Store::<f32>::store(alpha as f32 * sum as f32 + beta as f32 * f32::from(old))
    }

    fn scale(alpha: f64, sum: i32) -> i8 {
        Store::<f32>::store(alpha as f32 * sum as f32)
    }
}

impl<S: IntegerResult> Outcome<i32> for IntegerResults<S> {
    unsafe fn with(&self, item: usize, empty: bool, body: &mut dyn FnMut(&dyn Finish<i32>, bool)) {
        // SAFETY: the plan may run now.
        let (alpha, beta, data) = unsafe {
            (
                self.alpha.read().re,
                self.beta.read().re,
                self.data.item(item),
            )
        };
        let zero = empty || alpha == 0.0;
        if !(zero && beta == 1.0) {
            body(
                &IntegerFinish {
                    data,
                    ld: self.ld,
                    alpha,
                    beta,
                },
                zero,
            );
        }
    }
}

struct IntegerFinish<S> {
    data: *mut S,
    ld: usize,
    alpha: f64,
    beta: f64,
}

// SAFETY: tasks write disjoint elements.
unsafe impl<S> Sync for IntegerFinish<S> {}

impl<S: IntegerResult> Finish<i32> for IntegerFinish<S> {
    unsafe fn tile(
        &self,
        row: usize,
        column: usize,
        rows: usize,
        columns: usize,
        sums: *const i32,
        stride: usize,
    ) {
        for j in 0..columns {
            for i in 0..rows {
                // SAFETY: the result has this element, the tile this sum.
                unsafe {
                    let place = self.data.add(row + i + (column + j) * self.ld);
                    let sum = sums.add(i + j * stride).read();
                    let value = if self.beta == 0.0 {
                        S::scale(self.alpha, sum)
                    } else {
                        S::combine(self.alpha, sum, self.beta, place.read())
                    };
                    place.write(value);
                }
            }
        }
    }
}

/// The items of a batch of products.
pub(crate) struct Batch<T: Accumulate> {
    pub(crate) a: Box<dyn Operand<T>>,
    pub(crate) b: Box<dyn Operand<T>>,
    pub(crate) c: Box<dyn Outcome<T>>,
    /// Whether products have no terms.
    pub(crate) empty: bool,
}

impl<T: Accumulate> Items<T> for Batch<T> {
    unsafe fn with(&self, item: usize, body: &mut dyn FnMut(Operands<'_, T>)) {
        // SAFETY: the plan may run now.
        unsafe {
            self.c.with(item, self.empty, &mut |finish, zero| {
                self.a.with(item, &mut |a| {
                    self.b
                        .with(item, &mut |b| body(Operands { a, b, finish, zero }));
                });
            });
        }
    }
}
