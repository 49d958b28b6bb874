//! Matrices as columns of contiguous elements: full, band and packed matrices are the same to the routines of level 2.

use std::marker::PhantomData;
use std::ops::Range;

use crate::simd::Task;
use crate::storage::Load;
use crate::{Element, Form, Triangle};

/// The stored elements of a column.
#[derive(Debug)]
pub(crate) struct Column<S> {
    /// The element in the first row.
    pub(crate) data: *mut S,
    /// The rows.
    pub(crate) rows: Range<usize>,
}

impl<S> Column<S> {
    /// The elements within `rows`.
    #[inline(always)]
    pub(crate) fn within(self, rows: &Range<usize>) -> Column<S> {
        let start = self.rows.start.max(rows.start);
        let end = self.rows.end.min(rows.end).max(start);
        Column {
            data: self.data.wrapping_add(start - self.rows.start),
            rows: start..end,
        }
    }
}

/// A matrix whose columns are contiguous.
#[derive(Debug)]
pub(crate) enum Columns<S> {
    /// A general matrix.
    Full {
        data: *mut S,
        ld: usize,
        rows: usize,
    },
    /// A general band matrix with `kl` subdiagonals and `ku` superdiagonals.
    Band {
        data: *mut S,
        ld: usize,
        rows: usize,
        kl: usize,
        ku: usize,
    },
    /// A triangle.
    Triangle {
        data: *mut S,
        form: Form,
        triangle: Triangle,
        n: usize,
    },
}

impl<S> Clone for Columns<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Columns<S> {}

// SAFETY: the caller of a routine vouches for the memory, and tasks write disjoint elements.
unsafe impl<S> Send for Columns<S> {}
// SAFETY: as above.
unsafe impl<S> Sync for Columns<S> {}

impl<S> Columns<S> {
    /// A stored triangle.
    pub(crate) fn triangle(data: *const S, form: Form, triangle: Triangle, n: usize) -> Columns<S> {
        Columns::Triangle {
            data: data.cast_mut(),
            form,
            triangle,
            n,
        }
    }

    /// The stored elements of column `j`.
    #[inline(always)]
    pub(crate) fn column(&self, j: usize) -> Column<S> {
        match *self {
            Columns::Full { data, ld, rows } => Column {
                data: data.wrapping_add(j * ld),
                rows: 0..rows,
            },
            Columns::Band {
                data,
                ld,
                rows,
                kl,
                ku,
            } => {
                let start = j.saturating_sub(ku).min(rows);
                Column {
                    data: data.wrapping_add(j * ld + ku + start).wrapping_sub(j),
                    rows: start..rows.min(j + kl + 1).max(start),
                }
            }
            Columns::Triangle {
                data,
                form,
                triangle,
                n,
            } => triangle_column(data, form, triangle, n, j),
        }
    }

    /// The stored elements of column `j` of a triangle without the diagonal, and the element on the diagonal.
    #[inline(always)]
    pub(crate) fn strict(&self, j: usize) -> (Column<S>, *mut S) {
        let Column { data, rows } = self.column(j);
        if rows.start == j {
            (
                Column {
                    data: data.wrapping_add(1),
                    rows: j + 1..rows.end.max(j + 1),
                },
                data,
            )
        } else {
            (
                Column {
                    data,
                    rows: rows.start..j,
                },
                data.wrapping_add(j - rows.start),
            )
        }
    }

    /// Subdiagonals and superdiagonals that are stored, at most `n`.
    pub(crate) fn diagonals(&self, n: usize) -> (usize, usize) {
        match *self {
            Columns::Full { .. } => (n, n),
            Columns::Band { kl, ku, .. } => (kl.min(n), ku.min(n)),
            Columns::Triangle { form, triangle, .. } => {
                let k = if let Form::Band { k, .. } = form {
                    k.min(n)
                } else {
                    n
                };
                if triangle == Triangle::Lower {
                    (k, 0)
                } else {
                    (0, k)
                }
            }
        }
    }

    /// Columns among `columns` that may have elements in `rows`.
    pub(crate) fn touching(&self, rows: &Range<usize>, columns: usize) -> Range<usize> {
        if let Columns::Full { .. } = self {
            return 0..columns;
        }
        let (below, above) = self.diagonals(columns.max(rows.end));
        around(rows, below, above, columns)
    }
}

/// A range with `before` more indices before it and `after` more behind it, cut to `0..end`.
pub(crate) fn around(
    range: &Range<usize>,
    before: usize,
    after: usize,
    end: usize,
) -> Range<usize> {
    let start = range.start.saturating_sub(before).min(end);
    start..range.end.saturating_add(after).min(end).max(start)
}

#[inline(always)]
fn triangle_column<S>(
    data: *mut S,
    form: Form,
    triangle: Triangle,
    n: usize,
    j: usize,
) -> Column<S> {
    match (form, triangle) {
        (Form::Full { ld }, Triangle::Lower) => Column {
            data: data.wrapping_add(j * ld + j),
            rows: j..n,
        },
        (Form::Full { ld }, Triangle::Upper) => Column {
            data: data.wrapping_add(j * ld),
            rows: 0..j + 1,
        },
        (Form::Band { k, ld }, Triangle::Lower) => Column {
            data: data.wrapping_add(j * ld),
            rows: j..n.min(j + k + 1),
        },
        (Form::Band { k, ld }, Triangle::Upper) => {
            let start = j.saturating_sub(k);
            Column {
                data: data.wrapping_add(j * ld + k - (j - start)),
                rows: start..j + 1,
            }
        }
        (Form::Packed, Triangle::Lower) => {
            // Columns before have n, n - 1, ... elements.
            let before = j * (2 * n - j + 1) / 2;
            Column {
                data: data.wrapping_add(before),
                rows: j..n,
            }
        }
        (Form::Packed, Triangle::Upper) => Column {
            data: data.wrapping_add(j * (j + 1) / 2),
            rows: 0..j + 1,
        },
    }
}

/// Which elements of columns a loop uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elements {
    /// All that are stored.
    All,
    /// Those of a triangle without the diagonal.
    Strict,
}

impl Elements {
    #[inline(always)]
    fn of<S>(self, columns: &Columns<S>, j: usize) -> Column<S> {
        match self {
            Elements::All => columns.column(j),
            Elements::Strict => columns.strict(j).0,
        }
    }
}

/// `sums[i - rows.start] += factors[j - columns.start] * a(i, j)` for columns `js` and rows `rows`.
pub(crate) struct AddColumns<S, T> {
    pub(crate) matrix: Columns<S>,
    pub(crate) elements: Elements,
    pub(crate) js: Range<usize>,
    pub(crate) rows: Range<usize>,
    pub(crate) conjugate: bool,
    pub(crate) factors: *const T,
    pub(crate) sums: *mut T,
}

/// Columns that a loop handles together.
const TOGETHER: usize = 4;

/// Column numbers `start..start + 4` cut to the rows that all have, if these are many.
#[inline(always)]
fn common<S>(
    matrix: &Columns<S>,
    elements: Elements,
    start: usize,
    rows: &Range<usize>,
) -> ([Column<S>; TOGETHER], Range<usize>) {
    let columns: [Column<S>; TOGETHER] =
        std::array::from_fn(|index| elements.of(matrix, start + index).within(rows));
    let first = columns
        .iter()
        .map(|column| column.rows.start)
        .max()
        .unwrap_or(0);
    let end = columns
        .iter()
        .map(|column| column.rows.end)
        .min()
        .unwrap_or(0)
        .max(first);
    (columns, first..end)
}

impl<S: Load<T>, T: Element> Task for AddColumns<S, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let AddColumns {
            matrix,
            elements,
            ref js,
            ref rows,
            conjugate,
            factors,
            sums,
        } = self;
        // SAFETY: rows and columns are those of the matrix, the sums and the factors.
        unsafe {
            let one = |data: *mut S, part: Range<usize>, factor: T| {
                let sums = sums.add(part.start - rows.start);
                for i in 0..part.len() {
                    let value = data.add(i).read().load().conj_if(conjugate);
                    sums.add(i)
                        .write(sums.add(i).read().add_product::<FUSED>(factor, value));
                }
            };
            let mut j = js.start;
            while j < js.end {
                let factor = |index: usize| factors.add(j - js.start + index).read();
                if j + TOGETHER <= js.end {
                    let (columns, shared) = common(&matrix, elements, j, rows);
                    if !shared.is_empty() {
                        let [a, b, c, d] = [0, 1, 2, 3].map(|index: usize| {
                            columns[index]
                                .data
                                .add(shared.start - columns[index].rows.start)
                        });
                        let [fa, fb, fc, fd] = [0, 1, 2, 3].map(factor);
                        let sums = sums.add(shared.start - rows.start);
                        for i in 0..shared.len() {
                            let value = |data: *mut S| data.add(i).read().load().conj_if(conjugate);
                            let sum = sums
                                .add(i)
                                .read()
                                .add_product::<FUSED>(fa, value(a))
                                .add_product::<FUSED>(fb, value(b));
                            sums.add(i).write(
                                sum.add_product::<FUSED>(fc, value(c))
                                    .add_product::<FUSED>(fd, value(d)),
                            );
                        }
                    }
                    for (index, column) in columns.into_iter().enumerate() {
                        let (start, end) = if shared.is_empty() {
                            (column.rows.end, column.rows.end)
                        } else {
                            (shared.start, shared.end)
                        };
                        if start > column.rows.start {
                            one(column.data, column.rows.start..start, factor(index));
                        }
                        if end < column.rows.end {
                            one(
                                column.data.add(end - column.rows.start),
                                end..column.rows.end,
                                factor(index),
                            );
                        }
                    }
                    j += TOGETHER;
                } else {
                    let column = elements.of(&matrix, j).within(rows);
                    one(column.data, column.rows, factor(0));
                    j += 1;
                }
            }
        }
    }
}

/// Lanes of the sums of a column.
const LANES: usize = 16;

/// `sums[j - js.start] += dot(a(rows, j), x)` for columns `js` and rows `rows`, where `x` starts at the first row.
pub(crate) struct DotColumns<S, T> {
    pub(crate) matrix: Columns<S>,
    pub(crate) elements: Elements,
    pub(crate) js: Range<usize>,
    pub(crate) rows: Range<usize>,
    pub(crate) conjugate: bool,
    pub(crate) x: *const T,
    pub(crate) sums: *mut T,
    pub(crate) types: PhantomData<T>,
}

impl<S: Load<T>, T: Element> DotColumns<S, T> {
    /// The products of `N` columns with the elements of `x` in rows that all columns have.
    ///
    /// # Safety
    /// The columns and `x` have `count` elements.
    #[inline(always)]
    unsafe fn dot<const N: usize, const FUSED: bool>(
        &self,
        data: [*mut S; N],
        x: *const T,
        count: usize,
    ) -> [T; N] {
        let mut lanes = [[T::ZERO; LANES]; N];
        let whole = count / LANES * LANES;
        // SAFETY: all indices are below `count`.
        unsafe {
            for start in (0..whole).step_by(LANES) {
                let values = x.add(start).cast::<[T; LANES]>().read();
                for column in 0..N {
                    for lane in 0..LANES {
                        let value = data[column]
                            .add(start + lane)
                            .read()
                            .load()
                            .conj_if(self.conjugate);
                        lanes[column][lane] =
                            lanes[column][lane].add_product::<FUSED>(value, values[lane]);
                    }
                }
            }
            for (lane, index) in (whole..count).enumerate() {
                for column in 0..N {
                    let value = data[column]
                        .add(index)
                        .read()
                        .load()
                        .conj_if(self.conjugate);
                    lanes[column][lane] =
                        lanes[column][lane].add_product::<FUSED>(value, x.add(index).read());
                }
            }
        }
        lanes.map(|mut lanes| {
            let mut width = LANES / 2;
            while width > 0 {
                for lane in 0..width {
                    lanes[lane] = lanes[lane] + lanes[lane + width];
                }
                width /= 2;
            }
            lanes[0]
        })
    }
}

impl<S: Load<T>, T: Element> Task for DotColumns<S, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        // SAFETY: rows and columns are those of the matrix, `x` and the sums.
        unsafe {
            let add = |j: usize, value: T| {
                let place = self.sums.add(j - self.js.start);
                place.write(place.read() + value);
            };
            let one = |j: usize, column: Column<S>| {
                let x = self.x.wrapping_add(column.rows.start - self.rows.start);
                add(
                    j,
                    self.dot::<1, FUSED>([column.data], x, column.rows.len())[0],
                );
            };
            let mut j = self.js.start;
            while j < self.js.end {
                if j + TOGETHER <= self.js.end {
                    let (columns, shared) = common(&self.matrix, self.elements, j, &self.rows);
                    if !shared.is_empty() {
                        let data: [*mut S; TOGETHER] = std::array::from_fn(|index| {
                            columns[index]
                                .data
                                .add(shared.start - columns[index].rows.start)
                        });
                        let sums = self.dot::<TOGETHER, FUSED>(
                            data,
                            self.x.add(shared.start - self.rows.start),
                            shared.len(),
                        );
                        for (index, sum) in sums.into_iter().enumerate() {
                            add(j + index, sum);
                        }
                    }
                    for (index, column) in columns.into_iter().enumerate() {
                        if shared.is_empty() {
                            one(j + index, column);
                            continue;
                        }
                        let Column { data, rows } = column;
                        if rows.start < shared.start {
                            one(
                                j + index,
                                Column {
                                    data,
                                    rows: rows.start..shared.start,
                                },
                            );
                        }
                        if shared.end < rows.end {
                            one(
                                j + index,
                                Column {
                                    data: data.add(shared.end - rows.start),
                                    rows: shared.end..rows.end,
                                },
                            );
                        }
                    }
                    j += TOGETHER;
                } else {
                    one(j, self.elements.of(&self.matrix, j).within(&self.rows));
                    j += 1;
                }
            }
        }
    }
}
