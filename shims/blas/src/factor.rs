//! Batches of factorisations and solutions. A task handles whole matrices.
//!
//! `Pointers::Array` is what cuBLAS passes; strided batches work too.

mod lu;
mod qr;

use crate::core::{Shared, parallelism, stage_of, with_scratch};
use crate::factor::lu::Matrix;
use crate::triangular::{Problem, solve_now};
use crate::{Diagonal, Element, Operation, Plan, Pointers, Side, Triangle};

/// LU factorisation of n by n matrices (`getrfBatched`).
#[derive(Clone, Copy, Debug)]
pub struct Getrf<T> {
    /// Rows and columns.
    pub n: usize,
    /// The matrices; replaced by L (with unit diagonal) and U.
    pub a: Pointers<T>,
    /// Their leading dimension.
    pub lda: usize,
    /// `n` row numbers for each matrix, counted from 1. Null: no pivoting.
    pub pivots: *mut i32,
    /// One for each matrix: 0, or i if U(i, i) is 0 (counted from 1, the first).
    pub info: *mut i32,
    /// Number of matrices.
    pub batch: usize,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn getrf<T: Element>(arguments: Getrf<T>) -> Plan {
    let Getrf {
        n,
        a,
        lda,
        pivots,
        info,
        batch,
    } = arguments;
    let (pivots, info) = (Shared(pivots), Shared(info));
    items(batch, n, n, move |item| {
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; each item has its own.
        unsafe {
            let matrix = Matrix {
                data: a.item(item),
                ld: lda,
                rows: n,
                columns: n,
            };
            let zero = if pivots.get().is_null() {
                lu::factor(matrix, None)
            } else {
                with_pivots(n, pivots.get().add(item * n), |rows| {
                    lu::factor(matrix, Some(rows))
                })
            };
            info.get().add(item).write(zero as i32);
        }
    })
}

/// Solves `op(A) X = B` with the factors of [`getrf`] (`getrsBatched`).
#[derive(Clone, Copy, Debug)]
pub struct Getrs<T> {
    /// The operation on `A`.
    pub operation: Operation,
    /// Rows and columns of `A`.
    pub n: usize,
    /// Columns of `B`.
    pub nrhs: usize,
    /// The factors.
    pub a: Pointers<T>,
    /// Their leading dimension.
    pub lda: usize,
    /// The pivots of `getrf`. Null: none.
    pub pivots: *const i32,
    /// The right-hand sides, replaced by the solutions.
    pub b: Pointers<T>,
    /// Their leading dimension.
    pub ldb: usize,
    /// Number of items.
    pub batch: usize,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn getrs<T: Element>(arguments: Getrs<T>) -> Plan {
    let Getrs {
        operation,
        n,
        nrhs,
        a,
        lda,
        pivots,
        b,
        ldb,
        batch,
    } = arguments;
    if nrhs == 0 || n == 0 {
        return Plan::empty();
    }
    let pivots = Shared(pivots);
    let width = (WIDTH * batch / (2 * parallelism())).clamp(WIDTH, 8 * WIDTH);
    let parts = nrhs.div_ceil(width);
    let run = move |task: usize| {
        let (item, first) = (task / parts, task % parts * width);
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have disjoint columns.
        unsafe {
            let factors = Matrix {
                data: a.item(item),
                ld: lda,
                rows: n,
                columns: n,
            };
            let b = Matrix {
                data: b.item(item),
                ld: ldb,
                rows: n,
                columns: nrhs,
            };
            lu::solve(
                operation,
                factors,
                of_item(pivots.get(), item, n),
                b.part(0, first, n, width.min(nrhs - first)),
            );
        }
    };
    let cost = n as f64 * n as f64 * width.min(nrhs) as f64 / 5.0 + 200.0;
    Plan {
        stages: vec![stage_of(batch * parts, cost, run)],
    }
}

/// Inverts matrices from the factors of [`getrf`] (`getriBatched`), out of place.
#[derive(Clone, Copy, Debug)]
pub struct Getri<T> {
    /// Rows and columns.
    pub n: usize,
    /// The factors.
    pub a: Pointers<T>,
    /// Their leading dimension.
    pub lda: usize,
    /// The pivots of `getrf`. Null: none.
    pub pivots: *const i32,
    /// The inverses.
    pub c: Pointers<T>,
    /// Their leading dimension.
    pub ldc: usize,
    /// One for each matrix: 0, or i if U(i, i) is 0; then there is no inverse.
    pub info: *mut i32,
    /// Number of matrices.
    pub batch: usize,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn getri<T: Element>(arguments: Getri<T>) -> Plan {
    let Getri {
        n,
        a,
        lda,
        pivots,
        c,
        ldc,
        info,
        batch,
    } = arguments;
    let (pivots, info) = (Shared(pivots), Shared(info));
    items(batch, n, 2 * n, move |item| {
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; each item has its own.
        unsafe {
            let factors = Matrix {
                data: a.item(item),
                ld: lda,
                rows: n,
                columns: n,
            };
            let zero = lu::first_zero(factors);
            info.get().add(item).write(zero as i32);
            if zero == 0 {
                let inverse = Matrix {
                    data: c.item(item),
                    ld: ldc,
                    rows: n,
                    columns: n,
                };
                lu::invert(factors, of_item(pivots.get(), item, n), inverse);
            }
        }
    })
}

/// Inverts matrices (`matinvBatched`). `pivots` is not used. The caller checks that `n` is at most 32 if it wants cuBLAS's limit.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn matinv<T: Element>(arguments: Getri<T>) -> Plan {
    let Getri {
        n,
        a,
        lda,
        c,
        ldc,
        info,
        batch,
        ..
    } = arguments;
    let info = Shared(info);
    items(batch, n, 3 * n, move |item| {
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; each item has its own.
        unsafe {
            let matrix = Matrix {
                data: a.item(item),
                ld: lda,
                rows: n,
                columns: n,
            };
            let inverse = Matrix {
                data: c.item(item),
                ld: ldc,
                rows: n,
                columns: n,
            };
            let zero = with_scratch(n * n, |copy: *mut T| {
                for j in 0..n {
                    copy.add(j * n).copy_from_nonoverlapping(matrix.at(0, j), n);
                }
                let factors = Matrix {
                    data: copy,
                    ld: n,
                    rows: n,
                    columns: n,
                };
                with_scratch(n, |pivots: *mut i32| {
                    let zero = with_pivots(n, pivots, |rows| lu::factor(factors, Some(rows)));
                    if zero == 0 {
                        lu::invert(factors, pivots, inverse);
                    }
                    zero
                })
            });
            info.get().add(item).write(zero as i32);
        }
    })
}

/// QR factorisation of m by n matrices by Householder reflections (`geqrfBatched`).
#[derive(Clone, Copy, Debug)]
pub struct Geqrf<T> {
    /// Rows.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// The matrices; replaced by R and the reflectors below the diagonal.
    pub a: Pointers<T>,
    /// Their leading dimension.
    pub lda: usize,
    /// `min(m, n)` factors for each matrix.
    pub tau: Pointers<T>,
    /// Number of matrices.
    pub batch: usize,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn geqrf<T: Element>(arguments: Geqrf<T>) -> Plan {
    let Geqrf {
        m,
        n,
        a,
        lda,
        tau,
        batch,
    } = arguments;
    if m == 0 || n == 0 {
        return Plan::empty();
    }
    items(batch, m, 2 * n, move |item| {
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; each item has its own.
        unsafe {
            qr::factor(
                Matrix {
                    data: a.item(item),
                    ld: lda,
                    rows: m,
                    columns: n,
                },
                tau.item(item),
            )
        };
    })
}

/// Least squares for m by n matrices with `m >= n` (`gelsBatched`, not transposed).
#[derive(Clone, Copy, Debug)]
pub struct Gels<T> {
    /// Rows of `A`.
    pub m: usize,
    /// Columns of `A`.
    pub n: usize,
    /// Columns of `C`.
    pub nrhs: usize,
    /// The matrices; replaced by their QR factors.
    pub a: Pointers<T>,
    /// Their leading dimension.
    pub lda: usize,
    /// The right-hand sides; the first `n` rows become the solutions.
    pub c: Pointers<T>,
    /// Their leading dimension.
    pub ldc: usize,
    /// One for each matrix: 0, or i if R(i, i) is 0; then there is no solution. May be null.
    pub info: *mut i32,
    /// Number of matrices.
    pub batch: usize,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn gels<T: Element>(arguments: Gels<T>) -> Plan {
    let Gels {
        m,
        n,
        nrhs,
        a,
        lda,
        c,
        ldc,
        info,
        batch,
    } = arguments;
    let info = Shared(info);
    items(batch, m, 2 * (n + nrhs), move |item| {
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; each item has its own.
        unsafe {
            let factors = Matrix {
                data: a.item(item),
                ld: lda,
                rows: m,
                columns: n,
            };
            let c = Matrix {
                data: c.item(item),
                ld: ldc,
                rows: m,
                columns: nrhs,
            };
            with_scratch(n, |tau: *mut T| {
                qr::factor(factors, tau);
                if nrhs > 0 {
                    qr::apply_adjoint(factors, tau, c);
                }
            });
            let zero = lu::first_zero(factors);
            if zero == 0 && nrhs > 0 {
                let (side, triangle, operation, diagonal) = (
                    Side::Left,
                    Triangle::Upper,
                    Operation::None,
                    Diagonal::Stored,
                );
                solve_now(
                    Problem {
                        side,
                        triangle,
                        operation,
                        diagonal,
                        m: n,
                        n: nrhs,
                    },
                    factors.data,
                    lda,
                    c.data,
                    ldc,
                );
            }
            if !info.get().is_null() {
                info.get().add(item).write(zero as i32);
            }
        }
    })
}

/// Columns of a task of [`getrs`], at least.
const WIDTH: usize = 64;

/// A plan with a task for each item, or for several if they are small: `rows` by `columns` matrices.
fn items(
    batch: usize,
    rows: usize,
    columns: usize,
    run: impl Fn(usize) + Send + Sync + 'static,
) -> Plan {
    if batch == 0 {
        return Plan::empty();
    }
    let cost = rows as f64 * columns as f64 * (columns as f64 / 5.0 + 2.0) + 300.0;
    Plan {
        stages: vec![stage_of(batch, cost, run)],
    }
}

/// The pivots of an item, or null.
fn of_item(pivots: *const i32, item: usize, n: usize) -> *const i32 {
    if pivots.is_null() {
        pivots
    } else {
        pivots.wrapping_add(item * n)
    }
}

/// Calls a function with room for `n` row numbers, and writes these, counted from 1, to `pivots`.
///
/// # Safety
/// There are `n` pivots; the function sets all row numbers.
unsafe fn with_pivots(
    n: usize,
    pivots: *mut i32,
    factor: impl FnOnce(*mut usize) -> usize,
) -> usize {
    with_scratch(n, |rows: *mut usize| {
        let zero = factor(rows);
        for index in 0..n {
            // SAFETY: the caller's conditions.
            unsafe { pivots.add(index).write(rows.add(index).read() as i32 + 1) };
        }
        zero
    })
}
