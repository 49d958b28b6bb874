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

    /// Tells the CPU that a tile is about to be stored.
    fn announce(&self, _row: usize, _column: usize, _rows: usize, _columns: usize) {}

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
    fn announce(&self, row: usize, column: usize, rows: usize, columns: usize) {
        if self.row_stride == 1 {
            for j in 0..columns {
                prefetch(self.at(row, column + j), rows * size_of::<S>());
            }
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

/// Asks the CPU for some bytes.
#[inline(always)]
pub(crate) fn prefetch<S>(address: *const S, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..bytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, whatever the address is.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>().wrapping_add(offset)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, bytes);
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
    fn announce(&self, row: usize, column: usize, rows: usize, columns: usize) {
        self.inner.announce(row, column, rows, columns);
    }

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

impl<T: Element, S: Load<T> + Store<T>> Tile<'_, T, S> {
    /// Stores `N` neighbouring elements of a column.
    ///
    /// # Safety
    /// The result and the sums have these elements.
    #[inline(always)]
    unsafe fn store<const N: usize, const FUSED: bool>(&self, place: *mut S, sums: *const T) {
        let Axpby { alpha, beta, .. } = *self.result;
        // SAFETY: the caller's condition.
        unsafe {
            // Loops over arrays, so that the elements are read before any is written.
            let mut values = sums.cast::<[T; N]>().read();
            if beta == T::ZERO {
                for value in &mut values {
                    *value = alpha * *value;
                }
            } else {
                let old = place.cast::<[S; N]>().read();
                for i in 0..N {
                    values[i] = (beta * old[i].load()).add_product::<FUSED>(alpha, values[i]);
                }
            }
            for (i, value) in values.into_iter().enumerate() {
                place.add(i).write(S::store(value));
            }
        }
    }
}

impl<T: Element, S: Load<T> + Store<T>> Task for Tile<'_, T, S> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let row_stride = self.result.row_stride;
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
            let mut i = start;
            // SAFETY: each place is an element of the result, each sum one of the tile.
            unsafe {
                if row_stride == 1 {
                    while i + 16 <= end {
                        self.store::<16, FUSED>(column.add(i), sums.add(i));
                        i += 16;
                    }
                    while i + 4 <= end {
                        self.store::<4, FUSED>(column.add(i), sums.add(i));
                        i += 4;
                    }
                }
                while i < end {
                    self.store::<1, FUSED>(
                        column.wrapping_offset(i as isize * row_stride),
                        sums.add(i),
                    );
                    i += 1;
                }
            }
        }
    }
}
