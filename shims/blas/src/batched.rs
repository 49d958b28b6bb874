//! Batches of typed routines. For batches of [`level3::Gemm`](crate::level3::Gemm) with mixed types see [`products`](crate::products).

use crate::columns::Columns;
use crate::core::Grid;
use crate::matrix_vector::{self, Product, Shape};
use crate::operands::{Batch, Matrices, Results};
use crate::products::AnyMatrix;
use crate::storage::{BF16, F16, Load, Store};
use crate::triangular;
pub use crate::triangular::TrsmBatched;
use crate::{AnyScalar, Complex, DataType, Element, Operation, Plan, Pointers, Scalar, Stage};

/// [`Gemm`](crate::level3::Gemm) for each item of a batch (`cublas<t>gemmBatched`, `cublas<t>gemmStridedBatched`).
#[derive(Clone, Copy, Debug)]
pub struct GemmBatched<T> {
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
    /// The left matrices.
    pub a: Pointers<T>,
    /// Their leading dimension.
    pub lda: usize,
    /// The right matrices.
    pub b: Pointers<T>,
    /// Their leading dimension.
    pub ldb: usize,
    /// Factor of the old result.
    pub beta: Scalar<T>,
    /// The results.
    pub c: Pointers<T>,
    /// Their leading dimension.
    pub ldc: usize,
    /// Number of items.
    pub batch: usize,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn gemm<T: Element>(arguments: GemmBatched<T>) -> Plan {
    Plan {
        stages: gemm_stages(arguments),
    }
}

fn gemm_stages<T: Element>(arguments: GemmBatched<T>) -> Vec<Stage> {
    let GemmBatched {
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
        batch,
    } = arguments;
    let items = Batch::<T> {
        a: Box::new(Matrices::left(a, lda, operation_a)),
        b: Box::new(Matrices::right(b, ldb, operation_b)),
        c: Box::new(Results::<T, T>::new(c, ldc, alpha.erase(), beta.erase())),
        empty: k == 0,
    };
    Grid::new::<T>(m, n, k, batch).stages(items)
}

/// One plan for several products (`cublas<t>gemmGroupedBatched`).
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn gemm_grouped<T: Element>(groups: &[GemmBatched<T>]) -> Plan {
    Plan::joined(groups.iter().map(|group| gemm_stages(*group)))
}

/// `y = alpha op(A) x + beta y` for each item of a batch, with mixed types (`cublas<t>gemvBatched`, `HSH`, `HSS`, `TST`, `TSS`, strided forms).
#[derive(Clone, Copy, Debug)]
pub struct GemvBatched {
    /// The operation on `A`.
    pub operation: Operation,
    /// Rows of `A`.
    pub m: usize,
    /// Columns of `A`.
    pub n: usize,
    /// Factor of the product.
    pub alpha: AnyScalar,
    /// The matrices.
    pub a: AnyMatrix,
    /// The vectors that are read; `ld` is not used.
    pub x: AnyMatrix,
    /// Their increment.
    pub incx: i64,
    /// Factor of the old result.
    pub beta: AnyScalar,
    /// The results; `ld` is not used.
    pub y: AnyMatrix,
    /// Their increment.
    pub incy: i64,
    /// Number of items.
    pub batch: usize,
}

/// Types: all the same of R32F, R64F, C32F, C64F; or `A` and `x` in R16F or R16BF with `y` in the same type or R32F. Else `None`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn gemv(arguments: GemvBatched) -> Option<Plan> {
    use DataType::*;
    let GemvBatched { a, x, y, .. } = arguments;
    let stages = match [a.kind, x.kind, y.kind] {
        [R32F, R32F, R32F] => gemv_stages::<f32, f32, f32>(arguments),
        [R64F, R64F, R64F] => gemv_stages::<f64, f64, f64>(arguments),
        [C32F, C32F, C32F] => gemv_stages::<Complex<f32>, Complex<f32>, Complex<f32>>(arguments),
        [C64F, C64F, C64F] => gemv_stages::<Complex<f64>, Complex<f64>, Complex<f64>>(arguments),
        [R16F, R16F, R16F] => gemv_stages::<f32, F16, F16>(arguments),
        [R16F, R16F, R32F] => gemv_stages::<f32, F16, f32>(arguments),
        [R16BF, R16BF, R16BF] => gemv_stages::<f32, BF16, BF16>(arguments),
        [R16BF, R16BF, R32F] => gemv_stages::<f32, BF16, f32>(arguments),
        _ => return None,
    };
    Some(Plan { stages })
}

fn gemv_stages<T, S, SY>(arguments: GemvBatched) -> Vec<Stage>
where
    T: Element,
    S: Load<T>,
    SY: Load<T> + Store<T>,
{
    let GemvBatched {
        operation,
        m,
        n,
        alpha,
        a,
        x,
        incx,
        beta,
        y,
        incy,
        batch,
    } = arguments;
    let shape = Shape {
        m,
        n,
        ld: a.ld,
        band: (0, 0),
        transposed: operation.transposes(),
        conjugate: operation.conjugates(),
    };
    matrix_vector::stages::<T, S, S, SY>(Product {
        columns: |data, shape| Columns::Full {
            data,
            ld: shape.ld,
            rows: shape.m,
        },
        shape,
        a: a.data.cast(),
        x: x.data.cast(),
        incx,
        y: y.data.cast(),
        incy,
        alpha,
        beta,
        batch,
    })
}

/// See [`TrsmBatched`].
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn trsm<T: Element>(arguments: TrsmBatched<T>) -> Plan {
    triangular::solve(arguments)
}
