//! LU factorisation of one matrix, by recursion over columns, and solutions with the factors.

use crate::core::{Dense, with_scratch};
use crate::simd::{self, Task};
use crate::triangular::{Lower, Panel, Problem, solve_lower, solve_now, update};
use crate::{Diagonal, Element, Operation, Side, Triangle};

/// A column-major matrix.
#[derive(Debug)]
pub(super) struct Matrix<T> {
    pub(super) data: *mut T,
    pub(super) ld: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl<T> Clone for Matrix<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Matrix<T> {}

impl<T> Matrix<T> {
    #[inline(always)]
    pub(super) fn at(&self, row: usize, column: usize) -> *mut T {
        self.data.wrapping_add(row + column * self.ld)
    }

    /// The part with these sizes that starts at an element.
    pub(super) fn part(&self, row: usize, column: usize, rows: usize, columns: usize) -> Matrix<T> {
        Matrix {
            data: self.at(row, column),
            ld: self.ld,
            rows,
            columns,
        }
    }

    pub(super) fn dense(&self) -> Dense<T> {
        Dense {
            data: self.data,
            outer_stride: 1,
            depth_stride: self.ld as isize,
            conjugate: false,
        }
    }

    pub(super) fn panel(&self) -> Panel<T> {
        Panel {
            data: self.data,
            row_stride: 1,
            column_stride: self.ld as isize,
            columns: self.columns,
        }
    }
}

/// Columns that are factored without recursion.
const NARROW: usize = 8;

/// Factors a matrix with at least as many rows as columns. `pivots` receives row numbers counted from 0, if there is pivoting. Returns the number of the
/// first column whose pivot is 0, counted from 1, or 0.
///
/// # Safety
/// The matrix and an element of `pivots` for each column can be accessed.
pub(super) unsafe fn factor<T: Element>(a: Matrix<T>, pivots: Option<*mut usize>) -> usize {
    // SAFETY: the parts lie in the matrix.
    unsafe {
        if a.columns <= NARROW {
            return narrow(a, pivots);
        }
        let first = (a.columns / 2).next_multiple_of(NARROW);
        let rest = a.columns - first;
        let left = a.part(0, 0, a.rows, first);
        let info = factor(left, pivots);
        let right = a.part(0, first, a.rows, rest);
        if let Some(pivots) = pivots {
            swap_rows(right, pivots, first, Order::Forward);
        }
        let below = a.rows - first;
        let corner = a.part(first, first, below, rest);
        solve_lower(
            Lower {
                matrix: left.dense(),
                n: first,
                unit: true,
            },
            right.panel(),
        );
        update(
            -T::ONE,
            left.dense().from(first, 0),
            below,
            first,
            right.panel(),
            corner.panel(),
        );
        let second = factor(corner, pivots.map(|pivots| pivots.add(first)));
        if let Some(pivots) = pivots {
            swap_rows(
                a.part(first, 0, below, first),
                pivots.add(first),
                rest,
                Order::Forward,
            );
            for index in first..a.columns {
                let pivot = pivots.add(index);
                pivot.write(pivot.read() + first);
            }
        }
        match (info, second) {
            (0, 0) => 0,
            (0, second) => second + first,
            (info, _) => info,
        }
    }
}

/// Factors a narrow matrix column by column.
///
/// # Safety
/// As for [`factor`].
unsafe fn narrow<T: Element>(a: Matrix<T>, pivots: Option<*mut usize>) -> usize {
    let mut info = 0;
    for j in 0..a.columns {
        // SAFETY: the rows and columns are those of the matrix.
        unsafe {
            if let Some(pivots) = pivots {
                let pivot = pivot_row(a, j);
                pivots.add(j).write(pivot);
                if pivot != j {
                    (0..a.columns).for_each(|column| a.at(j, column).swap(a.at(pivot, column)));
                }
            }
            let pivot = a.at(j, j).read();
            if pivot == T::ZERO {
                if info == 0 {
                    info = j + 1;
                }
                continue;
            }
            simd::run(Eliminate { a, j, pivot });
        }
    }
    info
}

/// The row with the largest magnitude `|re| + |im|` in a column, from the diagonal on. NaN counts only on the diagonal.
///
/// # Safety
/// The column is in the matrix.
unsafe fn pivot_row<T: Element>(a: Matrix<T>, j: usize) -> usize {
    // SAFETY: the rows are those of the matrix.
    let magnitude = |row: usize| unsafe { a.at(row, j).read() }.taxicab();
    let (mut best, mut largest) = (j, magnitude(j));
    for row in j + 1..a.rows {
        let value = magnitude(row);
        if value > largest {
            (best, largest) = (row, value);
        }
    }
    best
}

/// Divides a column below the diagonal by the pivot, and subtracts its products from the columns on the right.
struct Eliminate<T> {
    a: Matrix<T>,
    j: usize,
    pivot: T,
}

impl<T: Element> Task for Eliminate<T> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Eliminate { a, j, pivot } = self;
        // SAFETY: the rows and columns are those of the matrix.
        unsafe {
            let column = a.at(j + 1, j);
            let count = a.rows - j - 1;
            for i in 0..count {
                column.add(i).write(column.add(i).read().divide(pivot));
            }
            for other in j + 1..a.columns {
                let factor = -a.at(j, other).read();
                let target = a.at(j + 1, other);
                for i in 0..count {
                    target.add(i).write(
                        target
                            .add(i)
                            .read()
                            .add_product::<FUSED>(factor, column.add(i).read()),
                    );
                }
            }
        }
    }
}

/// The order in which exchanges of rows are applied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Forward,
    Backward,
}

/// Applies exchanges of rows. Row numbers outside the matrix are skipped.
///
/// # Safety
/// The matrix and `count` pivots can be accessed.
unsafe fn swap_rows<T: Element>(a: Matrix<T>, pivots: *const usize, count: usize, order: Order) {
    for column in 0..a.columns {
        for step in 0..count {
            let row = if order == Order::Forward {
                step
            } else {
                count - 1 - step
            };
            // SAFETY: the rows are those of the matrix.
            unsafe {
                let pivot = pivots.add(row).read();
                if pivot != row && pivot < a.rows && row < a.rows {
                    a.at(row, column).swap(a.at(pivot, column));
                }
            }
        }
    }
}

/// Solves `op(A) X = B` with the factors of `A`. Pivots count from 1; null: none.
///
/// # Safety
/// The matrices and `n` pivots can be accessed.
pub(super) unsafe fn solve<T: Element>(
    operation: Operation,
    factors: Matrix<T>,
    pivots: *const i32,
    b: Matrix<T>,
) {
    let n = factors.rows;
    let solve = |triangle, diagonal| {
        let problem = Problem {
            side: Side::Left,
            triangle,
            operation,
            diagonal,
            m: n,
            n: b.columns,
        };
        // SAFETY: the matrices have these sizes.
        unsafe { solve_now(problem, factors.data, factors.ld, b.data, b.ld) };
    };
    let exchange = |order| {
        if pivots.is_null() {
            return;
        }
        with_scratch(n, |rows: *mut usize| {
            // SAFETY: there are n pivots. A number that is not a row becomes one that is skipped.
            unsafe {
                for index in 0..n {
                    rows.add(index).write(
                        usize::try_from(i64::from(pivots.add(index).read()) - 1)
                            .unwrap_or(usize::MAX),
                    );
                }
                swap_rows(b, rows, n, order);
            }
        });
    };
    let transposes = operation.transposes();
    if transposes {
        solve(Triangle::Upper, Diagonal::Stored);
        solve(Triangle::Lower, Diagonal::Unit);
        exchange(Order::Backward);
    } else {
        exchange(Order::Forward);
        solve(Triangle::Lower, Diagonal::Unit);
        solve(Triangle::Upper, Diagonal::Stored);
    }
}

/// The first column, counted from 1, whose element on the diagonal is 0, or 0.
///
/// # Safety
/// The matrix can be read.
pub(super) unsafe fn first_zero<T: Element>(a: Matrix<T>) -> usize {
    // SAFETY: the elements are in the matrix.
    (0..a.columns)
        .find(|j| unsafe { a.at(*j, *j).read() } == T::ZERO)
        .map_or(0, |j| j + 1)
}

/// Writes the inverse from factors.
///
/// # Safety
/// As for [`solve`]; `c` is as large as the factors.
pub(super) unsafe fn invert<T: Element>(factors: Matrix<T>, pivots: *const i32, c: Matrix<T>) {
    // SAFETY: the elements are in the matrix.
    unsafe {
        for j in 0..c.columns {
            for i in 0..c.rows {
                c.at(i, j).write(if i == j { T::ONE } else { T::ZERO });
            }
        }
        solve(Operation::None, factors, pivots, c);
    }
}
