//! Level 3: matrices of one type.

use crate::batched::{self, GemmBatched, TrsmBatched};
use crate::core::Grid;
use crate::operands::{Batch, Matrices, MirroredMatrix, Results};
use crate::triangular;
pub use crate::triangular::Trmm;
use crate::{
    AnyScalar, Diagonal, Element, Operation, Plan, Pointers, Scalar, Side, Stage, Symmetry,
    Triangle,
};

/// `C = alpha op(A) op(B) + beta C`, where `op(A)` is m by k and `op(B)` k by n.
#[derive(Clone, Copy, Debug)]
pub struct Gemm<T> {
    /// The operation on `A`.
    pub operation_a: Operation,
    /// The operation on `B`.
    pub operation_b: Operation,
    /// Rows of `C`.
    pub m: usize,
    /// Columns of `C`.
    pub n: usize,
    /// Columns of `op(A)`.
    pub k: usize,
    /// Factor of the product.
    pub alpha: Scalar<T>,
    /// The left matrix.
    pub a: *const T,
    /// Its leading dimension.
    pub lda: usize,
    /// The right matrix.
    pub b: *const T,
    /// Its leading dimension.
    pub ldb: usize,
    /// Factor of the old result.
    pub beta: Scalar<T>,
    /// The result.
    pub c: *mut T,
    /// Its leading dimension.
    pub ldc: usize,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn gemm<T: Element>(arguments: Gemm<T>) -> Plan {
    let Gemm {
        operation_a,
        operation_b,
        m,
        n,
        k,
        alpha,
        a,
        lda,
        b,
        ldb,
        beta,
        c,
        ldc,
    } = arguments;
    let (a, b, c) = (
        Pointers::single(a),
        Pointers::single(b),
        Pointers::single(c.cast_const()),
    );
    let batched = GemmBatched {
        operation_a,
        operation_b,
        m,
        n,
        k,
        alpha,
        a,
        lda,
        b,
        ldb,
        beta,
        c,
        ldc,
        batch: 1,
    };
    // SAFETY: the caller's conditions.
    unsafe { batched::gemm(batched) }
}

/// `C = alpha A B + beta C` or `alpha B A + beta C` with a symmetric or Hermitian `A` (`symm`, `hemm`).
#[derive(Clone, Copy, Debug)]
pub struct Symm<T> {
    /// Whether `A` is symmetric or Hermitian.
    pub symmetry: Symmetry,
    /// The side of `A`.
    pub side: Side,
    /// The triangle of `A` that is stored.
    pub triangle: Triangle,
    /// Rows of `C`.
    pub m: usize,
    /// Columns of `C`.
    pub n: usize,
    /// Factor of the product.
    pub alpha: Scalar<T>,
    /// The symmetric matrix.
    pub a: *const T,
    /// Its leading dimension.
    pub lda: usize,
    /// The other matrix, m by n.
    pub b: *const T,
    /// Its leading dimension.
    pub ldb: usize,
    /// Factor of the old result.
    pub beta: Scalar<T>,
    /// The result.
    pub c: *mut T,
    /// Its leading dimension.
    pub ldc: usize,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn symm<T: Element>(arguments: Symm<T>) -> Plan {
    let Symm {
        symmetry,
        side,
        triangle,
        m,
        n,
        alpha,
        a,
        lda,
        b,
        ldb,
        beta,
        c,
        ldc,
    } = arguments;
    let special = MirroredMatrix {
        data: a,
        ld: lda,
        triangle,
        symmetry,
        right: side == Side::Right,
    };
    let other = Pointers::single(b);
    let c = Box::new(Results::<T, T>::new(
        Pointers::single(c),
        ldc,
        alpha.erase(),
        beta.erase(),
    ));
    let (batch, k): (Batch<T>, usize) = match side {
        Side::Left => (
            Batch {
                a: Box::new(special),
                b: Box::new(Matrices::right(other, ldb, Operation::None)),
                c,
                empty: false,
            },
            m,
        ),
        Side::Right => (
            Batch {
                a: Box::new(Matrices::left(other, ldb, Operation::None)),
                b: Box::new(special),
                c,
                empty: false,
            },
            n,
        ),
    };
    Plan {
        stages: Grid::new::<T>(m, n, k, 1).stages(batch),
    }
}

/// A triangle of `C = alpha op(A) op(A)^T + beta C`, `op(A)` n by k. `S` is the type of `alpha` and `beta`.
#[derive(Clone, Copy, Debug)]
pub struct Syrk<T, S> {
    /// The triangle of `C`.
    pub triangle: Triangle,
    /// The operation on `A`.
    pub operation: Operation,
    /// Rows and columns of `C`.
    pub n: usize,
    /// Columns of `op(A)`.
    pub k: usize,
    /// Factor of the product.
    pub alpha: Scalar<S>,
    /// The matrix.
    pub a: *const T,
    /// Its leading dimension.
    pub lda: usize,
    /// Factor of the old result.
    pub beta: Scalar<S>,
    /// The result.
    pub c: *mut T,
    /// Its leading dimension.
    pub ldc: usize,
}

/// A triangle of a result, which is Hermitian or symmetric.
fn on_triangle<T: Element>(
    c: *mut T,
    ldc: usize,
    alpha: AnyScalar,
    beta: AnyScalar,
    triangle: Triangle,
    symmetry: Symmetry,
) -> Results<T, T> {
    let mut results = Results::new(Pointers::single(c), ldc, alpha, beta);
    results.triangle = Some((
        triangle,
        symmetry == Symmetry::Hermitian && T::KIND.is_complex(),
    ));
    results
}

/// The stages of `op(A) op(B)^T` or, if the result is Hermitian, `op(A) op(B)^H`.
fn rank_k<T: Element>(
    n: usize,
    k: usize,
    [(a, lda), (b, ldb)]: [(*const T, usize); 2],
    operation: Operation,
    symmetry: Symmetry,
    c: Results<T, T>,
) -> Vec<Stage> {
    let left = Matrices::left(Pointers::single(a), lda, operation);
    // The right operand is transposed: its outer index is the row of `op(B)`.
    let mut right = Matrices::left(Pointers::single(b), ldb, operation);
    right.conjugate ^= symmetry == Symmetry::Hermitian;
    Grid::new::<T>(n, n, k, 1).stages(Batch {
        a: Box::new(left),
        b: Box::new(right),
        c: Box::new(c),
        empty: k == 0,
    })
}

/// `C = alpha op(A) op(A)^T + beta C`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn syrk<T: Element>(arguments: Syrk<T, T>) -> Plan {
    let Syrk {
        triangle,
        operation,
        n,
        k,
        alpha,
        a,
        lda,
        beta,
        c,
        ldc,
    } = arguments;
    let result = on_triangle(
        c,
        ldc,
        alpha.erase(),
        beta.erase(),
        triangle,
        Symmetry::Symmetric,
    );
    Plan {
        stages: rank_k(
            n,
            k,
            [(a, lda), (a, lda)],
            operation,
            Symmetry::Symmetric,
            result,
        ),
    }
}

/// `C = alpha op(A) op(A)^H + beta C`. Imaginary parts of the diagonal become 0.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn herk<T: Element>(arguments: Syrk<T, T::Real>) -> Plan {
    let Syrk {
        triangle,
        operation,
        n,
        k,
        alpha,
        a,
        lda,
        beta,
        c,
        ldc,
    } = arguments;
    let result = on_triangle(
        c,
        ldc,
        alpha.erase(),
        beta.erase(),
        triangle,
        Symmetry::Hermitian,
    );
    Plan {
        stages: rank_k(
            n,
            k,
            [(a, lda), (a, lda)],
            operation,
            Symmetry::Hermitian,
            result,
        ),
    }
}

/// A triangle of a result of two n by k operands. `S` is the type of `beta`.
#[derive(Clone, Copy, Debug)]
pub struct Syr2k<T, S> {
    /// The triangle of `C`.
    pub triangle: Triangle,
    /// The operation on `A` and `B`.
    pub operation: Operation,
    /// Rows and columns of `C`.
    pub n: usize,
    /// Columns of `op(A)` and `op(B)`.
    pub k: usize,
    /// Factor of the product.
    pub alpha: Scalar<T>,
    /// The first matrix.
    pub a: *const T,
    /// Its leading dimension.
    pub lda: usize,
    /// The second matrix.
    pub b: *const T,
    /// Its leading dimension.
    pub ldb: usize,
    /// Factor of the old result.
    pub beta: Scalar<S>,
    /// The result.
    pub c: *mut T,
    /// Its leading dimension.
    pub ldc: usize,
}

/// `C = alpha (op(A) op(B)^T + op(B) op(A)^T) + beta C`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn syr2k<T: Element>(arguments: Syr2k<T, T>) -> Plan {
    let Syr2k {
        triangle,
        operation,
        n,
        k,
        alpha,
        a,
        lda,
        b,
        ldb,
        beta,
        c,
        ldc,
    } = arguments;
    let first = on_triangle(
        c,
        ldc,
        alpha.erase(),
        beta.erase(),
        triangle,
        Symmetry::Symmetric,
    );
    let mut second = on_triangle(
        c,
        ldc,
        alpha.erase(),
        AnyScalar::ONE,
        triangle,
        Symmetry::Symmetric,
    );
    second.conjugate_alpha = false;
    let mut stages = rank_k(
        n,
        k,
        [(a, lda), (b, ldb)],
        operation,
        Symmetry::Symmetric,
        first,
    );
    stages.extend(rank_k(
        n,
        k,
        [(b, ldb), (a, lda)],
        operation,
        Symmetry::Symmetric,
        second,
    ));
    Plan { stages }
}

/// `C = alpha op(A) op(B)^H + conj(alpha) op(B) op(A)^H + beta C`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn her2k<T: Element>(arguments: Syr2k<T, T::Real>) -> Plan {
    let Syr2k {
        triangle,
        operation,
        n,
        k,
        alpha,
        a,
        lda,
        b,
        ldb,
        beta,
        c,
        ldc,
    } = arguments;
    let first = on_triangle(
        c,
        ldc,
        alpha.erase(),
        beta.erase(),
        triangle,
        Symmetry::Hermitian,
    );
    let mut second = on_triangle(
        c,
        ldc,
        alpha.erase(),
        AnyScalar::ONE,
        triangle,
        Symmetry::Hermitian,
    );
    second.conjugate_alpha = true;
    let mut stages = rank_k(
        n,
        k,
        [(a, lda), (b, ldb)],
        operation,
        Symmetry::Hermitian,
        first,
    );
    stages.extend(rank_k(
        n,
        k,
        [(b, ldb), (a, lda)],
        operation,
        Symmetry::Hermitian,
        second,
    ));
    Plan { stages }
}

/// `C = alpha op(A) op(B)^T + beta C` on one triangle (`syrkx`).
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn syrkx<T: Element>(arguments: Syr2k<T, T>) -> Plan {
    let Syr2k {
        triangle,
        operation,
        n,
        k,
        alpha,
        a,
        lda,
        b,
        ldb,
        beta,
        c,
        ldc,
    } = arguments;
    let result = on_triangle(
        c,
        ldc,
        alpha.erase(),
        beta.erase(),
        triangle,
        Symmetry::Symmetric,
    );
    Plan {
        stages: rank_k(
            n,
            k,
            [(a, lda), (b, ldb)],
            operation,
            Symmetry::Symmetric,
            result,
        ),
    }
}

/// `C = alpha op(A) op(B)^H + beta C` on one triangle (`herkx`).
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn herkx<T: Element>(arguments: Syr2k<T, T::Real>) -> Plan {
    let Syr2k {
        triangle,
        operation,
        n,
        k,
        alpha,
        a,
        lda,
        b,
        ldb,
        beta,
        c,
        ldc,
    } = arguments;
    let result = on_triangle(
        c,
        ldc,
        alpha.erase(),
        beta.erase(),
        triangle,
        Symmetry::Hermitian,
    );
    Plan {
        stages: rank_k(
            n,
            k,
            [(a, lda), (b, ldb)],
            operation,
            Symmetry::Hermitian,
            result,
        ),
    }
}

/// See [`Trmm`].
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn trmm<T: Element>(arguments: Trmm<T>) -> Plan {
    triangular::multiply(arguments)
}

/// Solves `op(A) X = alpha B` or `X op(A) = alpha B`; `X` replaces `B`.
#[derive(Clone, Copy, Debug)]
pub struct Trsm<T> {
    /// The side of `A`.
    pub side: Side,
    /// The triangle of `A` that is stored.
    pub triangle: Triangle,
    /// The operation on `A`.
    pub operation: Operation,
    /// Whether the diagonal is stored.
    pub diagonal: Diagonal,
    /// Rows of `B`.
    pub m: usize,
    /// Columns of `B`.
    pub n: usize,
    /// Factor.
    pub alpha: Scalar<T>,
    /// The triangular matrix.
    pub a: *const T,
    /// Its leading dimension.
    pub lda: usize,
    /// The right-hand sides and the solution.
    pub b: *mut T,
    /// Its leading dimension.
    pub ldb: usize,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn trsm<T: Element>(arguments: Trsm<T>) -> Plan {
    let Trsm {
        side,
        triangle,
        operation,
        diagonal,
        m,
        n,
        alpha,
        a,
        lda,
        b,
        ldb,
    } = arguments;
    let (a, b) = (Pointers::single(a), Pointers::single(b));
    triangular::solve(TrsmBatched {
        side,
        triangle,
        operation,
        diagonal,
        m,
        n,
        alpha,
        a,
        lda,
        b,
        ldb,
        batch: 1,
    })
}
