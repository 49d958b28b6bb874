//! Batches of factorisations and solutions. A task handles whole matrices.
//!
//! `Pointers::Array` is what cuBLAS passes; strided batches work too.

use crate::{Element, Operation, Plan, Pointers};

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
    unimplemented!()
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
    unimplemented!()
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
    unimplemented!()
}

/// Inverts matrices (`matinvBatched`). `pivots` is not used. The caller checks that `n` is at most 32 if it wants cuBLAS's limit.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn matinv<T: Element>(arguments: Getri<T>) -> Plan {
    unimplemented!()
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
    unimplemented!()
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
    unimplemented!()
}
