//! What happens to finished sums: scaling, addition to the old result, conversion, and the store.

use crate::kernels::Accumulate;
use crate::simd::{self, Task};
use crate::storage::{Load, Store};
use crate::{Element, Triangle};

/// The last step of a product.
pub(crate) trait Finish<T: Accumulate>: Sync {
    /// Whether the elements of this tile are part of the result.
    fn wants(&self, _row: usize, _column: usize, _rows: usize, _columns: usize) -> bool {
        true
    }

    /// Stores a tile. The sum of element (i, j) of the tile is `sums[i + j * stride]`.
    ///
    /// # Safety
    /// The result has these elements; no other thread accesses them.
    unsafe fn tile(
        &self,
        row: usize,
        column: usize,
        rows: usize,
        columns: usize,
        sums: *const T,
        stride: usize,
    );
}

/// `C = alpha sum + beta C` in the type `T`, for a result of type `S`.
#[derive(Debug)]
pub(crate) struct Axpby<T, S> {
    /// The element at row 0 and column 0.
    pub(crate) data: *mut S,
    /// Distance of rows in elements.
    pub(crate) row_stride: isize,
    /// Distance of columns in elements.
    pub(crate) column_stride: isize,
    /// Factor of the sums.
    pub(crate) alpha: T,
    /// Factor of the old result, which is not read if the factor is 0.
    pub(crate) beta: T,
}

// SAFETY: the caller of a routine vouches for the memory, and tasks write disjoint elements.
unsafe impl<T: Send, S> Send for Axpby<T, S> {}
// SAFETY: as above.
unsafe impl<T: Sync, S> Sync for Axpby<T, S> {}

impl<T, S> Axpby<T, S> {
    /// The address of an element.
    #[inline(always)]
    pub(crate) fn at(&self, row: usize, column: usize) -> *mut S {
        self.data
            .wrapping_offset(row as isize * self.row_stride)
            .wrapping_offset(column as isize * self.column_stride)
    }
}

impl<T: Element, S: Load<T> + Store<T>> Finish<T> for Axpby<T, S> {
    unsafe fn tile(
        &self,
        row: usize,
        column: usize,
        rows: usize,
        columns: usize,
        sums: *const T,
        stride: usize,
    ) {
        simd::run(Tile {
            result: self,
            row,
            column,
            rows,
            columns,
            sums,
            stride,
            part: Part::All,
        });
    }
}

/// [`Axpby`] for the elements of one triangle of the result. Imaginary parts on the diagonal become 0 if `real_diagonal`.
#[derive(Debug)]
pub(crate) struct OnTriangle<T, S> {
    /// The result.
    pub(crate) inner: Axpby<T, S>,
    /// The triangle.
    pub(crate) triangle: Triangle,
    /// Whether the diagonal is real.
    pub(crate) real_diagonal: bool,
}

impl<T: Element, S: Load<T> + Store<T>> Finish<T> for OnTriangle<T, S> {
    fn wants(&self, row: usize, column: usize, rows: usize, columns: usize) -> bool {
        match self.triangle {
            Triangle::Lower => row + rows > column,
            Triangle::Upper => column + columns > row,
        }
    }

    unsafe fn tile(
        &self,
        row: usize,
        column: usize,
        rows: usize,
        columns: usize,
        sums: *const T,
        stride: usize,
    ) {
        let part = match self.triangle {
            Triangle::Lower if row >= column + columns => Part::All,
            Triangle::Upper if column >= row + rows => Part::All,
            Triangle::Lower => Part::Lower,
            Triangle::Upper => Part::Upper,
        };
        let diagonal = if self.real_diagonal && part != Part::All {
            row.max(column)..(row + rows).min(column + columns)
        } else {
            0..0
        };
        let clear = || {
            for index in diagonal.clone() {
                // SAFETY: the element on the diagonal is in the tile.
                unsafe {
                    let place = self.inner.at(index, index);
                    place.write(S::store(T::from_real(place.read().load().re())));
                }
            }
        };
        if self.inner.beta != T::ZERO {
            clear();
        }
        simd::run(Tile {
            result: &self.inner,
            row,
            column,
            rows,
            columns,
            sums,
            stride,
            part,
        });
        clear();
    }
}

/// Stores sums as they are, column by column.
#[derive(Debug)]
pub(crate) struct Sums<T> {
    /// The element at row 0 and column 0.
    pub(crate) data: *mut T,
    /// Distance of columns in elements.
    pub(crate) stride: usize,
}

// SAFETY: the buffer belongs to the plan, and tasks write disjoint elements.
unsafe impl<T: Send> Sync for Sums<T> {}

impl<T: Accumulate> Finish<T> for Sums<T> {
    unsafe fn tile(
        &self,
        row: usize,
        column: usize,
        rows: usize,
        columns: usize,
        sums: *const T,
        stride: usize,
    ) {
        for j in 0..columns {
            // SAFETY: the buffer has these elements, the tile these sums.
            unsafe {
                self.data
                    .add(row + (column + j) * self.stride)
                    .copy_from_nonoverlapping(sums.add(j * stride), rows)
            };
        }
    }
}

/// Which elements of a tile are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    Lower,
    Upper,
}

struct Tile<'a, T, S> {
    result: &'a Axpby<T, S>,
    row: usize,
    column: usize,
    rows: usize,
    columns: usize,
    sums: *const T,
    stride: usize,
    part: Part,
}

impl<T: Element, S: Load<T> + Store<T>> Task for Tile<'_, T, S> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Axpby {
            row_stride,
            alpha,
            beta,
            ..
        } = *self.result;
        for j in 0..self.columns {
            let above = (self.column + j).saturating_sub(self.row).min(self.rows);
            let (start, end) = match self.part {
                Part::All => (0, self.rows),
                Part::Lower => (above, self.rows),
                Part::Upper if self.column + j < self.row => (0, 0),
                Part::Upper => (0, (above + 1).min(self.rows)),
            };
            // SAFETY: the sums of a column are in the tile.
            let sums = unsafe { self.sums.add(j * self.stride) };
            let column = self.result.at(self.row, self.column + j);
            // SAFETY: each place is an element of the result, each sum one of the tile.
            unsafe {
                if row_stride == 1 && beta == T::ZERO {
                    for i in start..end {
                        column.add(i).write(S::store(alpha * sums.add(i).read()));
                    }
                } else if row_stride == 1 {
                    for i in start..end {
                        let old = beta * column.add(i).read().load();
                        column.add(i).write(S::store(
                            old.add_product::<FUSED>(alpha, sums.add(i).read()),
                        ));
                    }
                } else {
                    for i in start..end {
                        let place = column.wrapping_offset(i as isize * row_stride);
                        let sum = sums.add(i).read();
                        let value = if beta == T::ZERO {
                            alpha * sum
                        } else {
                            (beta * place.read().load()).add_product::<FUSED>(alpha, sum)
                        };
                        place.write(S::store(value));
                    }
                }
            }
        }
    }
}
