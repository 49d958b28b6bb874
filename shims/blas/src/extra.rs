//! Routines that BLAS does not have: sums and transposes, diagonal products, packing of triangles.

use crate::{Element, Operation, Plan, Scalar, Side, Triangle};

/// `C = alpha op(A) + beta op(B)`, m by n. `C` may be `A` or `B` if that is not transposed and has the same leading dimension.
#[derive(Clone, Copy, Debug)]
pub struct Geam<T> {
    /// The operation on `A`.
    pub operation_a: Operation,
    /// The operation on `B`.
    pub operation_b: Operation,
    /// Rows of `C`.
    pub m: usize,
    /// Columns of `C`.
    pub n: usize,
    /// Factor of `A`; 0 does not read `A`.
    pub alpha: Scalar<T>,
    /// The first matrix.
    pub a: *const T,
    /// Its leading dimension.
    pub lda: usize,
    /// Factor of `B`; 0 does not read `B`.
    pub beta: Scalar<T>,
    /// The second matrix.
    pub b: *const T,
    /// Its leading dimension.
    pub ldb: usize,
    /// The result.
    pub c: *mut T,
    /// Its leading dimension.
    pub ldc: usize,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn geam<T: Element>(arguments: Geam<T>) -> Plan {
    unimplemented!()
}

/// `C = A diag(x)` (right) or `diag(x) A` (left). `C` may be `A` with the same leading dimension.
#[derive(Clone, Copy, Debug)]
pub struct Dgmm<T> {
    /// The side of the diagonal matrix.
    pub side: Side,
    /// Rows.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// The matrix.
    pub a: *const T,
    /// Its leading dimension.
    pub lda: usize,
    /// The diagonal.
    pub x: *const T,
    /// Its increment; may be 0.
    pub incx: i64,
    /// The result.
    pub c: *mut T,
    /// Its leading dimension.
    pub ldc: usize,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn dgmm<T: Element>(arguments: Dgmm<T>) -> Plan {
    unimplemented!()
}

/// Copies a packed triangle (`packed`) into a full matrix (`tpttr`).
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn tpttr<T: Element>(
    triangle: Triangle,
    n: usize,
    packed: *const T,
    a: *mut T,
    lda: usize,
) -> Plan {
    unimplemented!()
}

/// Copies a triangle of a full matrix into packed form (`trttp`).
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn trttp<T: Element>(
    triangle: Triangle,
    n: usize,
    a: *const T,
    lda: usize,
    packed: *mut T,
) -> Plan {
    unimplemented!()
}
