//! Level 2: a matrix and vectors. Triangles can be stored in full matrices, bands or packed ([`Form`]).

use crate::columns::Columns;
use crate::matrix_vector::{self, Product, Shape, Symmetric, Triangular};
use crate::rank_one::Update;
use crate::vector::Strided;
use crate::{
    AnyScalar, Conjugation, Diagonal, Element, Form, Operation, Plan, Pointers, Scalar, Symmetry,
    Triangle,
};

/// `y = alpha op(A) x + beta y` for an m by n matrix.
#[derive(Clone, Copy, Debug)]
pub struct Gemv<T> {
    /// The operation on `A`.
    pub operation: Operation,
    /// Rows of `A`.
    pub m: usize,
    /// Columns of `A`.
    pub n: usize,
    /// Factor of the product.
    pub alpha: Scalar<T>,
    /// The matrix.
    pub a: *const T,
    /// Its leading dimension.
    pub lda: usize,
    /// The vector that is read.
    pub x: *const T,
    /// Its increment.
    pub incx: i64,
    /// Factor of the old result.
    pub beta: Scalar<T>,
    /// The result.
    pub y: *mut T,
    /// Its increment.
    pub incy: i64,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn gemv<T: Element>(arguments: Gemv<T>) -> Plan {
    let full = |data, shape: &Shape| Columns::Full {
        data,
        ld: shape.ld,
        rows: shape.m,
    };
    Plan {
        stages: matrix_vector::stages::<T, T, T, T>(product(arguments, (0, 0), full)),
    }
}

/// [`gemv`] for a band matrix: `gemv.a` has `kl + ku + 1` rows, one for each diagonal.
#[derive(Clone, Copy, Debug)]
pub struct Gbmv<T> {
    /// The operands.
    pub gemv: Gemv<T>,
    /// Number of subdiagonals.
    pub kl: usize,
    /// Number of superdiagonals.
    pub ku: usize,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn gbmv<T: Element>(arguments: Gbmv<T>) -> Plan {
    let Gbmv { gemv, kl, ku } = arguments;
    let band = |data, shape: &Shape| Columns::Band {
        data,
        ld: shape.ld,
        rows: shape.m,
        kl: shape.band.0,
        ku: shape.band.1,
    };
    Plan {
        stages: matrix_vector::stages::<T, T, T, T>(product(gemv, (kl, ku), band)),
    }
}

/// `A = alpha x y^T + A`, or `y^H` with `conjugation`.
#[derive(Clone, Copy, Debug)]
pub struct Ger<T> {
    /// Whether `y` is conjugated.
    pub conjugation: Conjugation,
    /// Rows.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// Factor.
    pub alpha: Scalar<T>,
    /// Vector of m elements.
    pub x: *const T,
    /// Its increment.
    pub incx: i64,
    /// Vector of n elements.
    pub y: *const T,
    /// Its increment.
    pub incy: i64,
    /// The matrix.
    pub a: *mut T,
    /// Its leading dimension.
    pub lda: usize,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn ger<T: Element>(arguments: Ger<T>) -> Plan {
    let Ger {
        conjugation,
        m,
        n,
        alpha,
        x,
        incx,
        y,
        incy,
        a,
        lda,
    } = arguments;
    let update = Update {
        matrix: Columns::Full {
            data: a,
            ld: lda,
            rows: m,
        },
        rows: m,
        columns: n,
        alpha: alpha.erase(),
        x: Strided::new(x, m, incx),
        y: Strided::new(y, n, incy),
        conjugate: conjugation == Conjugation::Conjugate,
        twice: false,
        real_diagonal: false,
    };
    update.plan()
}

/// `y = alpha A x + beta y` for a symmetric or Hermitian matrix (`symv`, `hemv`, `sbmv`, `hbmv`, `spmv`, `hpmv`).
#[derive(Clone, Copy, Debug)]
pub struct Symv<T> {
    /// Whether `A` is symmetric or Hermitian.
    pub symmetry: Symmetry,
    /// How `A` is stored.
    pub form: Form,
    /// Which triangle is stored.
    pub triangle: Triangle,
    /// Rows and columns.
    pub n: usize,
    /// Factor of the product.
    pub alpha: Scalar<T>,
    /// The matrix.
    pub a: *const T,
    /// The vector that is read.
    pub x: *const T,
    /// Its increment.
    pub incx: i64,
    /// Factor of the old result.
    pub beta: Scalar<T>,
    /// The result.
    pub y: *mut T,
    /// Its increment.
    pub incy: i64,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn symv<T: Element>(arguments: Symv<T>) -> Plan {
    let Symv {
        symmetry,
        form,
        triangle,
        n,
        alpha,
        a,
        x,
        incx,
        beta,
        y,
        incy,
    } = arguments;
    matrix_vector::symmetric(Symmetric {
        matrix: Columns::triangle(a, form, triangle, n),
        symmetry,
        n,
        x: Strided::new(x, n, incx),
        y: Strided::new(y, n, incy),
        alpha: alpha.erase(),
        beta: beta.erase(),
    })
}

/// `A = alpha x x^T + A` on one triangle, full or packed (`syr`, `spr`, `her`, `hpr`). `S` is the type of `alpha`.
#[derive(Clone, Copy, Debug)]
pub struct Syr<T, S> {
    /// `Full` or `Packed`.
    pub form: Form,
    /// Which triangle is stored.
    pub triangle: Triangle,
    /// Rows and columns.
    pub n: usize,
    /// Factor.
    pub alpha: Scalar<S>,
    /// The vector.
    pub x: *const T,
    /// Its increment.
    pub incx: i64,
    /// The matrix.
    pub a: *mut T,
}

/// `syr`, `spr`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn syr<T: Element>(arguments: Syr<T, T>) -> Plan {
    let Syr {
        form,
        triangle,
        n,
        alpha,
        x,
        incx,
        a,
    } = arguments;
    rank_one(
        Columns::triangle(a, form, triangle, n),
        n,
        alpha.erase(),
        Strided::new(x, n, incx),
        false,
    )
}

/// `her`, `hpr`: `A = alpha x x^H + A`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn her<T: Element>(arguments: Syr<T, T::Real>) -> Plan {
    let Syr {
        form,
        triangle,
        n,
        alpha,
        x,
        incx,
        a,
    } = arguments;
    rank_one(
        Columns::triangle(a, form, triangle, n),
        n,
        alpha.erase(),
        Strided::new(x, n, incx),
        true,
    )
}

/// `A = alpha x y^T + alpha y x^T + A` on one triangle, full or packed; Hermitian: `alpha x y^H + conj(alpha) y x^H + A`.
#[derive(Clone, Copy, Debug)]
pub struct Syr2<T> {
    /// Whether `A` is symmetric or Hermitian.
    pub symmetry: Symmetry,
    /// `Full` or `Packed`.
    pub form: Form,
    /// Which triangle is stored.
    pub triangle: Triangle,
    /// Rows and columns.
    pub n: usize,
    /// Factor.
    pub alpha: Scalar<T>,
    /// First vector.
    pub x: *const T,
    /// Its increment.
    pub incx: i64,
    /// Second vector.
    pub y: *const T,
    /// Its increment.
    pub incy: i64,
    /// The matrix.
    pub a: *mut T,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn syr2<T: Element>(arguments: Syr2<T>) -> Plan {
    let Syr2 {
        symmetry,
        form,
        triangle,
        n,
        alpha,
        x,
        incx,
        y,
        incy,
        a,
    } = arguments;
    let update = Update {
        matrix: Columns::triangle(a, form, triangle, n),
        rows: n,
        columns: n,
        alpha: alpha.erase(),
        x: Strided::new(x, n, incx),
        y: Strided::new(y, n, incy),
        conjugate: symmetry == Symmetry::Hermitian,
        twice: true,
        real_diagonal: symmetry == Symmetry::Hermitian && T::KIND.is_complex(),
    };
    update.plan()
}

/// A triangular matrix and a vector, which is replaced.
#[derive(Clone, Copy, Debug)]
pub struct Trmv<T> {
    /// How `A` is stored.
    pub form: Form,
    /// Which triangle is stored.
    pub triangle: Triangle,
    /// The operation on `A`.
    pub operation: Operation,
    /// Whether the diagonal is stored.
    pub diagonal: Diagonal,
    /// Rows and columns.
    pub n: usize,
    /// The matrix.
    pub a: *const T,
    /// The vector.
    pub x: *mut T,
    /// Its increment.
    pub incx: i64,
}

/// `x = op(A) x` (`trmv`, `tbmv`, `tpmv`).
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn trmv<T: Element>(arguments: Trmv<T>) -> Plan {
    triangular(arguments).multiply()
}

/// Solves `op(A) x = b`, where `x` holds `b` before (`trsv`, `tbsv`, `tpsv`). A zero on the diagonal gives infinities or NaN.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn trsv<T: Element>(arguments: Trmv<T>) -> Plan {
    triangular(arguments).solve()
}

fn product<T: Element>(
    gemv: Gemv<T>,
    band: (usize, usize),
    columns: fn(*mut T, &Shape) -> Columns<T>,
) -> Product<T, T, T> {
    let Gemv {
        operation,
        m,
        n,
        alpha,
        a,
        lda,
        x,
        incx,
        beta,
        y,
        incy,
    } = gemv;
    let shape = Shape {
        m,
        n,
        ld: lda,
        band,
        transposed: operation.transposes(),
        conjugate: operation.conjugates(),
    };
    Product {
        columns,
        shape,
        a: Pointers::single(a),
        x: Pointers::single(x),
        incx,
        y: Pointers::single(y),
        incy,
        alpha: alpha.erase(),
        beta: beta.erase(),
        batch: 1,
    }
}

fn rank_one<T: Element>(
    matrix: Columns<T>,
    n: usize,
    alpha: AnyScalar,
    x: Strided<T>,
    hermitian: bool,
) -> Plan {
    let real_diagonal = hermitian && T::KIND.is_complex();
    Update {
        matrix,
        rows: n,
        columns: n,
        alpha,
        x,
        y: x,
        conjugate: hermitian,
        twice: false,
        real_diagonal,
    }
    .plan()
}

fn triangular<T: Element>(arguments: Trmv<T>) -> Triangular<T> {
    let Trmv {
        form,
        triangle,
        operation,
        diagonal,
        n,
        a,
        x,
        incx,
    } = arguments;
    Triangular {
        matrix: Columns::triangle(a, form, triangle, n),
        n,
        transposed: operation.transposes(),
        conjugate: operation.conjugates(),
        unit: diagonal == Diagonal::Unit,
        lower: triangle == Triangle::Lower,
        x: Strided::new(x, n, incx),
    }
}
