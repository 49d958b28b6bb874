//! Routines that BLAS does not have: sums and transposes, diagonal products, packing of triangles.

use crate::columns::Columns;
use crate::core::{Dense, Shared, stage_of};
use crate::operands::Matrices;
use crate::simd::{self, Task};
use crate::vector::Strided;
use crate::{Element, Form, Operation, Plan, Pointers, Scalar, Side, Triangle};

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
    let Geam {
        operation_a,
        operation_b,
        m,
        n,
        alpha,
        a,
        lda,
        beta,
        b,
        ldb,
        c,
        ldc,
    } = arguments;
    let operand = |data, ld, operation| Matrices::left(Pointers::<T>::single(data), ld, operation);
    let (a, b) = (operand(a, lda, operation_a), operand(b, ldb, operation_b));
    let c = Shared(c);
    let (rows, columns) = (m.div_ceil(TILE), n.div_ceil(TILE));
    let run = move |task: usize| {
        let (row, column) = (task % rows * TILE, task / rows * TILE);
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have disjoint tiles.
        unsafe {
            simd::run(Sum {
                a: a.item(0).from(row, column),
                b: b.item(0).from(row, column),
                alpha: alpha.read(),
                beta: beta.read(),
                rows: TILE.min(m - row),
                columns: TILE.min(n - column),
                c: c.get().add(row + column * ldc),
                ldc,
            });
        }
    };
    if m == 0 || n == 0 {
        Plan::empty()
    } else {
        Plan {
            stages: vec![stage_of(rows * columns, (TILE * TILE) as f64 * 0.5, run)],
        }
    }
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
    let Dgmm {
        side,
        m,
        n,
        a,
        lda,
        x,
        incx,
        c,
        ldc,
    } = arguments;
    let (a, c) = (Shared(a), Shared(c));
    let x = Strided::new(x, if side == Side::Left { m } else { n }, incx);
    let run = move |j: usize| {
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have disjoint columns.
        unsafe {
            let (from, to) = (a.get().add(j * lda), c.get().add(j * ldc));
            for i in 0..m {
                let factor = x.at(if side == Side::Left { i } else { j }).read();
                to.add(i).write(from.add(i).read() * factor);
            }
        }
    };
    if m == 0 || n == 0 {
        Plan::empty()
    } else {
        Plan {
            stages: vec![stage_of(n, m as f64 * 0.5, run)],
        }
    }
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
    copy_triangle(
        n,
        Columns::triangle(packed, Form::Packed, triangle, n),
        Columns::triangle(a, Form::Full { ld: lda }, triangle, n),
    )
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
    copy_triangle(
        n,
        Columns::triangle(a, Form::Full { ld: lda }, triangle, n),
        Columns::triangle(packed, Form::Packed, triangle, n),
    )
}

fn copy_triangle<T: Element>(n: usize, from: Columns<T>, to: Columns<T>) -> Plan {
    let run = move |j: usize| {
        let (from, to) = (from.column(j), to.column(j));
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have disjoint columns.
        unsafe { to.data.copy_from(from.data, from.rows.len()) };
    };
    if n == 0 {
        Plan::empty()
    } else {
        Plan {
            stages: vec![stage_of(n, n as f64 * 0.1, run)],
        }
    }
}

/// Rows and columns of a tile of [`geam`].
const TILE: usize = 64;

/// Rows and columns that are read together if one operand is transposed.
const BLOCK: usize = 16;

/// A tile of [`geam`].
struct Sum<T> {
    a: Dense<T>,
    b: Dense<T>,
    alpha: T,
    beta: T,
    rows: usize,
    columns: usize,
    c: *mut T,
    ldc: usize,
}

impl<T: Element> Task for Sum<T> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Sum {
            a,
            b,
            alpha,
            beta,
            rows,
            columns,
            c,
            ldc,
        } = self;
        // SAFETY: the operands have these elements. An element of `C` is written after those of `A` and `B` in its place are read.
        unsafe {
            let value =
                |operand: &Dense<T>, i, j| operand.at(i, j).read().conj_if(operand.conjugate);
            for row in (0..rows).step_by(BLOCK) {
                for j in 0..columns {
                    for i in row..rows.min(row + BLOCK) {
                        let mut sum = if alpha == T::ZERO {
                            T::ZERO
                        } else {
                            alpha * value(&a, i, j)
                        };
                        if beta != T::ZERO {
                            let term = beta * value(&b, i, j);
                            sum = if alpha == T::ZERO { term } else { sum + term };
                        }
                        c.add(i + j * ldc).write(sum);
                    }
                }
            }
        }
    }
}
