//! Products and solutions with a triangular matrix, by recursion: large parts are general products.
//!
//! Each problem is brought to one form, a lower triangular matrix on the left: a matrix on the right is transposed, an
//! upper one read backwards. Strides express both.

use crate::core::{Axpby, Dense, Region, Shared, parallelism, product, stage_of, with_scratch};
use crate::simd::{self, Task};
use crate::{Diagonal, Element, Operation, Plan, Pointers, Scalar, Side, Triangle};

/// `C = alpha op(A) B` or `alpha B op(A)` with a triangular `A`. `C` may be `B` (with `ldc` = `ldb`).
#[derive(Clone, Copy, Debug)]
pub struct Trmm<T> {
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
    /// The other matrix.
    pub b: *const T,
    /// Its leading dimension.
    pub ldb: usize,
    /// The result.
    pub c: *mut T,
    /// Its leading dimension.
    pub ldc: usize,
}

/// [`Trsm`](crate::level3::Trsm) for each item of a batch.
#[derive(Clone, Copy, Debug)]
pub struct TrsmBatched<T> {
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
    /// The triangular matrices.
    pub a: Pointers<T>,
    /// Their leading dimension.
    pub lda: usize,
    /// The right-hand sides and the solutions.
    pub b: Pointers<T>,
    /// Their leading dimension.
    pub ldb: usize,
    /// Number of items.
    pub batch: usize,
}

/// Rows of the largest triangle that is handled without recursion.
const LEAF: usize = 32;

/// Columns that a leaf handles at once.
const CHUNK: usize = 64;

/// Columns of vectors in a leaf.
const LANES: usize = 16;

/// The matrix that a triangular matrix is applied to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panel<T> {
    /// The element at row 0 and column 0.
    pub(crate) data: *mut T,
    /// Distance of rows in elements.
    pub(crate) row_stride: isize,
    /// Distance of columns in elements.
    pub(crate) column_stride: isize,
    /// Number of columns.
    pub(crate) columns: usize,
}

impl<T> Panel<T> {
    /// The address of an element.
    #[inline(always)]
    pub(crate) fn at(&self, row: usize, column: usize) -> *mut T {
        self.data
            .wrapping_offset(row as isize * self.row_stride)
            .wrapping_offset(column as isize * self.column_stride)
    }

    /// The panel from a row on.
    pub(crate) fn below(self, row: usize) -> Panel<T> {
        Panel {
            data: self.at(row, 0),
            ..self
        }
    }

    /// `count` columns of the panel.
    pub(crate) fn part(self, column: usize, count: usize) -> Panel<T> {
        Panel {
            data: self.at(0, column),
            columns: count,
            ..self
        }
    }

    /// The first `n` rows in reverse order.
    fn reversed(self, n: usize) -> Panel<T> {
        Panel {
            data: self.at(n.saturating_sub(1), 0),
            row_stride: -self.row_stride,
            ..self
        }
    }
}

/// A lower triangular matrix: outer index is the row, k the column.
#[derive(Debug)]
pub(crate) struct Lower<T> {
    /// The elements.
    pub(crate) matrix: Dense<T>,
    /// Rows and columns.
    pub(crate) n: usize,
    /// Whether the diagonal is 1 and not read.
    pub(crate) unit: bool,
}

impl<T> Clone for Lower<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Lower<T> {}

/// A problem with a triangular matrix, independent of addresses.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// Rows and columns of the triangular matrix.
    n: usize,
    /// Columns of the panel.
    columns: usize,
    /// Whether the problem is transposed.
    right: bool,
    /// Whether rows are read backwards.
    reverse: bool,
    /// Whether the triangular matrix is read transposed.
    transposed: bool,
    conjugate: bool,
    unit: bool,
}

impl Form {
    fn new(
        side: Side,
        triangle: Triangle,
        operation: Operation,
        diagonal: Diagonal,
        m: usize,
        n: usize,
    ) -> Form {
        let right = side == Side::Right;
        let transposed = operation.transposes() != right;
        Form {
            n: if right { n } else { m },
            columns: if right { m } else { n },
            right,
            reverse: (triangle == Triangle::Upper) != transposed,
            transposed,
            conjugate: operation.conjugates(),
            unit: diagonal == Diagonal::Unit,
        }
    }

    fn lower<T>(&self, a: *const T, lda: usize) -> Lower<T> {
        let (outer_stride, depth_stride) = if self.transposed {
            (lda as isize, 1)
        } else {
            (1, lda as isize)
        };
        let mut matrix = Dense {
            data: a,
            outer_stride,
            depth_stride,
            conjugate: self.conjugate,
        };
        if self.reverse {
            let last = self.n.saturating_sub(1);
            matrix = Dense {
                data: matrix.at(last, last),
                outer_stride: -outer_stride,
                depth_stride: -depth_stride,
                ..matrix
            };
        }
        Lower {
            matrix,
            n: self.n,
            unit: self.unit,
        }
    }

    fn panel<T>(&self, b: *mut T, ldb: usize) -> Panel<T> {
        let (row_stride, column_stride) = if self.right {
            (ldb as isize, 1)
        } else {
            (1, ldb as isize)
        };
        let panel = Panel {
            data: b,
            row_stride,
            column_stride,
            columns: self.columns,
        };
        if self.reverse {
            panel.reversed(self.n)
        } else {
            panel
        }
    }

    /// Columns of a task, and the number of tasks of an item.
    fn split(&self, batch: usize) -> (usize, usize) {
        let wanted = (4 * parallelism()).div_ceil(batch.max(1));
        let width = self
            .columns
            .div_ceil(wanted)
            .clamp(48, 512)
            .next_multiple_of(48);
        (width, self.columns.div_ceil(width))
    }
}

/// Work of a column in nanoseconds, about.
fn cost<T: Element>(n: usize) -> f64 {
    n as f64 * n as f64 * if T::KIND.is_complex() { 4.0 } else { 1.0 } / 20.0 + n as f64
}

/// A problem with a triangular matrix: which matrix it is, and the size of the other one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    pub(crate) side: Side,
    pub(crate) triangle: Triangle,
    pub(crate) operation: Operation,
    pub(crate) diagonal: Diagonal,
    pub(crate) m: usize,
    pub(crate) n: usize,
}

/// Solves a problem on the calling thread; the solution replaces `b`.
///
/// # Safety
/// The matrices can be accessed.
pub(crate) unsafe fn solve_now<T: Element>(
    problem: Problem,
    a: *const T,
    lda: usize,
    b: *mut T,
    ldb: usize,
) {
    let Problem {
        side,
        triangle,
        operation,
        diagonal,
        m,
        n,
    } = problem;
    let form = Form::new(side, triangle, operation, diagonal, m, n);
    // SAFETY: the caller's condition.
    unsafe { solve_lower(form.lower(a, lda), form.panel(b, ldb)) };
}

/// Solves `op(A) X = alpha B` or `X op(A) = alpha B` for each item of a batch.
pub(crate) fn solve<T: Element>(arguments: TrsmBatched<T>) -> Plan {
    let TrsmBatched {
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
        batch,
    } = arguments;
    if m == 0 || n == 0 || batch == 0 {
        return Plan::empty();
    }
    let form = Form::new(side, triangle, operation, diagonal, m, n);
    let (width, parts) = form.split(batch);
    let run = move |task: usize| {
        let (item, part) = (task / parts, task % parts);
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have disjoint columns.
        unsafe {
            let alpha = alpha.read();
            let columns = width.min(form.columns - part * width);
            let x = form.panel(b.item(item), ldb).part(part * width, columns);
            scale(alpha, x, x, form.n);
            if alpha != T::ZERO {
                solve_lower(form.lower(a.item(item), lda), x);
            }
        }
    };
    Plan {
        stages: vec![stage_of(
            batch * parts,
            cost::<T>(form.n) * width.min(form.columns) as f64,
            run,
        )],
    }
}

/// `C = alpha op(A) B` or `alpha B op(A)`.
pub(crate) fn multiply<T: Element>(arguments: Trmm<T>) -> Plan {
    let Trmm {
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
        c,
        ldc,
    } = arguments;
    if m == 0 || n == 0 {
        return Plan::empty();
    }
    let form = Form::new(side, triangle, operation, diagonal, m, n);
    let (width, parts) = form.split(1);
    let lower = form.lower(a, lda);
    let from = form.panel(b.cast_mut(), ldb);
    let to = form.panel(c, ldc);
    let (lower, from, to) = (Shared(lower), Shared(from), Shared(to));
    let run = move |part: usize| {
        let columns = width.min(form.columns - part * width);
        let (lower, from, to) = (
            lower.get(),
            from.get().part(part * width, columns),
            to.get().part(part * width, columns),
        );
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have disjoint columns.
        unsafe {
            let alpha = alpha.read();
            scale(alpha, from, to, form.n);
            if alpha != T::ZERO {
                multiply_lower(lower, to);
            }
        }
    };
    Plan {
        stages: vec![stage_of(
            parts,
            cost::<T>(form.n) * width.min(form.columns) as f64,
            run,
        )],
    }
}

/// `to = alpha from` for `n` rows. Does not read `from` if `alpha` is 0.
///
/// # Safety
/// The panels have these rows; they are the same or do not overlap.
unsafe fn scale<T: Element>(alpha: T, from: Panel<T>, to: Panel<T>, n: usize) {
    if alpha == T::ONE && from.data == to.data {
        return;
    }
    let rows_first = to.row_stride.unsigned_abs() == 1;
    let (outer, inner) = if rows_first {
        (to.columns, n)
    } else {
        (n, to.columns)
    };
    for o in 0..outer {
        for i in 0..inner {
            let (row, column) = if rows_first { (i, o) } else { (o, i) };
            // SAFETY: the panels have this element.
            unsafe {
                let value = if alpha == T::ZERO {
                    T::ZERO
                } else {
                    alpha * from.at(row, column).read()
                };
                to.at(row, column).write(value);
            }
        }
    }
}

/// `C = C + alpha A B`, where `C` and `B` are panels with the same columns and `A` is `rows` by `depth`.
///
/// # Safety
/// The operands have these elements; the panels do not overlap.
pub(crate) unsafe fn update<T: Element>(
    alpha: T,
    a: Dense<T>,
    rows: usize,
    depth: usize,
    b: Panel<T>,
    c: Panel<T>,
) {
    let (mut a, mut c) = (a, c);
    if c.row_stride < 0 && rows > 0 {
        // The rows in the other order, so that rows may be contiguous.
        a = Dense {
            data: a.at(rows - 1, 0),
            outer_stride: -a.outer_stride,
            ..a
        };
        c = c.reversed(rows);
    }
    let b = Dense {
        data: b.data.cast_const(),
        outer_stride: b.column_stride,
        depth_stride: b.row_stride,
        conjugate: false,
    };
    let swap = c.row_stride != 1 && c.column_stride == 1;
    let (row_stride, column_stride) = if swap {
        (c.column_stride, c.row_stride)
    } else {
        (c.row_stride, c.column_stride)
    };
    let finish = Axpby {
        data: c.data,
        row_stride,
        column_stride,
        alpha,
        beta: T::ONE,
    };
    // SAFETY: the caller's conditions.
    unsafe {
        if swap {
            product::<T>(&Region::whole(c.columns, rows, depth), &b, &a, &finish);
        } else {
            product::<T>(&Region::whole(rows, c.columns, depth), &a, &b, &finish);
        }
    }
}

/// Where a triangle is divided: about half, at a multiple of a leaf.
fn half(n: usize) -> usize {
    (n / 2).next_multiple_of(LEAF)
}

/// Solves `L X = B`; `X` replaces `B` in the panel.
///
/// # Safety
/// The operands have `l.n` rows.
pub(crate) unsafe fn solve_lower<T: Element>(l: Lower<T>, x: Panel<T>) {
    let n = l.n;
    // SAFETY: the parts lie in the operands.
    unsafe {
        if n <= LEAF {
            leaf(l, x, Leaf::Solve);
            return;
        }
        let first = half(n);
        solve_lower(Lower { n: first, ..l }, x);
        update(
            -T::ONE,
            l.matrix.from(first, 0),
            n - first,
            first,
            x,
            x.below(first),
        );
        solve_lower(
            Lower {
                matrix: l.matrix.from(first, first),
                n: n - first,
                ..l
            },
            x.below(first),
        );
    }
}

/// `X = L X`.
///
/// # Safety
/// The operands have `l.n` rows.
unsafe fn multiply_lower<T: Element>(l: Lower<T>, x: Panel<T>) {
    let n = l.n;
    // SAFETY: the parts lie in the operands.
    unsafe {
        if n <= LEAF {
            leaf(l, x, Leaf::Multiply);
            return;
        }
        let first = half(n);
        multiply_lower(
            Lower {
                matrix: l.matrix.from(first, first),
                n: n - first,
                ..l
            },
            x.below(first),
        );
        update(
            T::ONE,
            l.matrix.from(first, 0),
            n - first,
            first,
            x,
            x.below(first),
        );
        multiply_lower(Lower { n: first, ..l }, x);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaf {
    Solve,
    Multiply,
}

/// A small triangle.
///
/// # Safety
/// The operands have `l.n` rows, at most [`LEAF`].
unsafe fn leaf<T: Element>(l: Lower<T>, x: Panel<T>, what: Leaf) {
    let n = l.n;
    let mut triangle = [[T::ZERO; LEAF]; LEAF];
    for (row, values) in triangle.iter_mut().enumerate().take(n) {
        for (column, value) in values.iter_mut().enumerate().take(row + 1) {
            if row == column && l.unit {
                *value = T::ONE;
            } else {
                // SAFETY: the element is in the triangle.
                *value = unsafe { l.matrix.at(row, column).read() }.conj_if(l.matrix.conjugate);
            }
        }
    }
    with_scratch(LEAF * CHUNK, |rows: *mut T| {
        for column in (0..x.columns).step_by(CHUNK) {
            let x = x.part(column, CHUNK.min(x.columns - column));
            simd::run(LeafTask {
                triangle: &triangle,
                n,
                unit: l.unit,
                rows,
                x,
                what,
            });
        }
    });
}

struct LeafTask<'a, T> {
    triangle: &'a [[T; LEAF]; LEAF],
    n: usize,
    unit: bool,
    /// Room for the rows of the chunk, one after another.
    rows: *mut T,
    x: Panel<T>,
    what: Leaf,
}

impl<T: Element> LeafTask<'_, T> {
    /// Copies between the panel and the rows.
    ///
    /// # Safety
    /// The panel has `n` rows.
    #[inline(always)]
    unsafe fn exchange(&self, mut copy: impl FnMut(*mut T, *mut T)) {
        // SAFETY: the elements are in the panel and in the rows.
        unsafe {
            if self.x.column_stride == 1 {
                for row in 0..self.n {
                    for column in 0..self.x.columns {
                        copy(
                            self.x.at(row, 0).add(column),
                            self.rows.add(row * CHUNK + column),
                        );
                    }
                }
            } else {
                for column in 0..self.x.columns {
                    for row in 0..self.n {
                        copy(self.x.at(row, column), self.rows.add(row * CHUNK + column));
                    }
                }
            }
        }
    }
}

impl<T: Element> Task for LeafTask<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        // SAFETY: `rows` has room for n rows of a chunk; the panel has n rows.
        unsafe {
            // Vectors read beyond the last column: those elements must be numbers, and are not used.
            if self.x.columns < CHUNK {
                for index in 0..self.n * CHUNK {
                    self.rows.add(index).write(T::ZERO);
                }
            }
            self.exchange(|from, to| to.write(from.read()));
            for start in (0..self.x.columns).step_by(LANES) {
                for step in 0..self.n {
                    let row = if self.what == Leaf::Solve {
                        step
                    } else {
                        self.n - 1 - step
                    };
                    let place = self.rows.add(row * CHUNK + start).cast::<[T; LANES]>();
                    let mut sum = place.read();
                    if self.what == Leaf::Multiply && !self.unit {
                        for lane in &mut sum {
                            *lane = *lane * self.triangle[row][row];
                        }
                    }
                    for column in 0..row {
                        let factor = self.triangle[row][column];
                        let factor = if self.what == Leaf::Solve {
                            -factor
                        } else {
                            factor
                        };
                        let other = self
                            .rows
                            .add(column * CHUNK + start)
                            .cast::<[T; LANES]>()
                            .read();
                        for lane in 0..LANES {
                            sum[lane] = sum[lane].add_product::<FUSED>(factor, other[lane]);
                        }
                    }
                    if self.what == Leaf::Solve && !self.unit {
                        for lane in &mut sum {
                            *lane = lane.divide(self.triangle[row][row]);
                        }
                    }
                    place.write(sum);
                }
            }
            self.exchange(|from, to| from.write(to.read()));
        }
    }
}
