//! Products of matrices and vectors: the plans behind `gemv`, `gbmv`, `symv` and `trmv`.
//!
//! A task computes the elements of the result for a block of rows. If the result is short and the matrix large, tasks
//! compute sums for parts of the matrix, and a second stage adds them in order. Blocks depend on dimensions only.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use crate::columns::{AddColumns, Columns, DotColumns, Elements, around};
use crate::core::{Buffer, stage_of, with_scratch};
use crate::simd;
use crate::storage::{Load, Store};
use crate::vector::{Strided, single};
use crate::{AnyScalar, Element, Plan, Pointers, Stage, Symmetry};

/// Elements of the result that a task computes at most.
const ROWS: usize = 1024;

/// Elements of the matrix that a task reads, about.
const AREA: usize = 1 << 17;

/// Nanoseconds for an element of a matrix, about.
const COST: f64 = 0.25;

/// A product for each item of a batch: `y = alpha op(A) x + beta y`, in the type `T`.
pub(crate) struct Product<SA, SX, SY> {
    /// Makes the matrix of an item from its address.
    pub(crate) columns: fn(*mut SA, &Shape) -> Columns<SA>,
    pub(crate) shape: Shape,
    pub(crate) a: Pointers<SA>,
    pub(crate) x: Pointers<SX>,
    pub(crate) incx: i64,
    pub(crate) y: Pointers<SY>,
    pub(crate) incy: i64,
    pub(crate) alpha: AnyScalar,
    pub(crate) beta: AnyScalar,
    pub(crate) batch: usize,
}

/// The dimensions of a general matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) ld: usize,
    /// Subdiagonals and superdiagonals of a band.
    pub(crate) band: (usize, usize),
    pub(crate) transposed: bool,
    pub(crate) conjugate: bool,
}

impl Shape {
    fn output(&self) -> usize {
        if self.transposed { self.n } else { self.m }
    }

    fn input(&self) -> usize {
        if self.transposed { self.m } else { self.n }
    }
}

/// What the tasks of a product share.
struct Work<SA, SX, SY, T> {
    product: Product<SA, SX, SY>,
    /// Elements of the result of a task.
    block: usize,
    /// Elements of `x` of a task.
    part: usize,
    sums: PhantomData<T>,
}

/// The factors of an item.
struct Factors<T> {
    alpha: T,
    beta: T,
}

impl<SA, SX, SY, T> Work<SA, SX, SY, T>
where
    T: Element,
    SA: Load<T>,
    SX: Load<T>,
    SY: Load<T> + Store<T>,
{
    /// The factors, or `None` if there is nothing to do.
    ///
    /// # Safety
    /// The plan may run now.
    unsafe fn factors(&self) -> Option<Factors<T>> {
        // SAFETY: the caller's condition.
        let (alpha, beta) = unsafe { (self.product.alpha.read(), self.product.beta.read()) };
        let (alpha, beta) = (T::from_wide(alpha), T::from_wide(beta));
        (alpha != T::ZERO || beta != T::ONE).then_some(Factors { alpha, beta })
    }

    /// Adds the products of elements `input` of `x` to the sums for elements `output`.
    ///
    /// # Safety
    /// The plan may run now; there is a sum for each element.
    unsafe fn add(&self, item: usize, output: Range<usize>, input: Range<usize>, sums: *mut T) {
        let Product {
            columns,
            shape,
            a,
            x,
            incx,
            ..
        } = &self.product;
        // SAFETY: the caller's conditions; the scratch has an element for each of `input`.
        unsafe {
            let matrix = columns(a.item(item), shape);
            let x = Strided::new(x.item(item), shape.input(), *incx);
            // The part of the input that meets the output within the band.
            let meeting = match matrix {
                Columns::Full { .. } => input.clone(),
                _ if shape.transposed => around(&output, shape.band.1, shape.band.0, shape.m),
                _ => matrix.touching(&output, shape.n),
            };
            let input = meeting.start.max(input.start)..meeting.end.min(input.end);
            if input.is_empty() {
                return;
            }
            with_scratch(input.len(), |buffer: *mut T| {
                let x = x.fetch(input.start, input.len(), buffer);
                let conjugate = shape.conjugate;
                if shape.transposed {
                    simd::run(DotColumns {
                        matrix,
                        elements: Elements::All,
                        js: output,
                        rows: input,
                        conjugate,
                        x,
                        sums,
                        types: PhantomData,
                    });
                } else {
                    simd::run(AddColumns {
                        matrix,
                        elements: Elements::All,
                        js: input,
                        rows: output,
                        conjugate,
                        factors: x,
                        sums,
                    });
                }
            });
        }
    }

    /// Stores elements of the result.
    ///
    /// # Safety
    /// As for [`Work::add`].
    unsafe fn store(
        &self,
        item: usize,
        output: Range<usize>,
        factors: &Factors<T>,
        sums: *const T,
    ) {
        // SAFETY: the caller's conditions.
        unsafe {
            let y = Strided::new(
                self.product.y.item(item),
                self.product.shape.output(),
                self.product.incy,
            );
            store(y, output, factors.alpha, factors.beta, sums);
        }
    }
}

/// `y = alpha sums + beta y` for some elements.
///
/// # Safety
/// The vector has these elements, and there is a sum for each.
unsafe fn store<T: Element, S: Load<T> + Store<T>>(
    y: Strided<S>,
    output: Range<usize>,
    alpha: T,
    beta: T,
    sums: *const T,
) {
    for (index, element) in output.enumerate() {
        // SAFETY: the caller's conditions.
        unsafe {
            let place = y.at(element);
            let mut value = if alpha == T::ZERO {
                T::ZERO
            } else {
                alpha * sums.add(index).read()
            };
            if beta != T::ZERO {
                value = if alpha == T::ZERO {
                    beta * place.read().load()
                } else {
                    value + beta * place.read().load()
                };
            }
            place.write(S::store(value));
        }
    }
}

/// The stages of a product.
pub(crate) fn stages<T, SA, SX, SY>(product: Product<SA, SX, SY>) -> Vec<Stage>
where
    T: Element,
    SA: Load<T>,
    SX: Load<T>,
    SY: Load<T> + Store<T>,
{
    let Product { shape, batch, .. } = product;
    let (output, input) = (shape.output(), shape.input());
    if output == 0 || input == 0 || batch == 0 {
        return Vec::new();
    }
    let block = if shape.transposed {
        (AREA / input.max(1)).clamp(4, ROWS).next_multiple_of(4)
    } else {
        ROWS
    }
    .min(output);
    let blocks = output.div_ceil(block);
    // Parts of the input: one, unless there are few blocks and each is large.
    let parts = (block.saturating_mul(input) / (2 * AREA))
        .clamp(1, 64 / blocks.saturating_mul(batch).clamp(1, 64));
    let part = input.div_ceil(parts).next_multiple_of(64);
    let parts = input.div_ceil(part);
    let work = Arc::new(Work {
        product,
        block,
        part,
        sums: PhantomData::<T>,
    });
    if parts > 1 {
        return split(work, blocks, parts);
    }
    let cost = block as f64 * input as f64 * COST + 50.0;
    let run = move |task: usize| {
        let (item, index) = (task / blocks, task % blocks);
        let rows = index * work.block..output.min((index + 1) * work.block);
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have disjoint results.
        unsafe {
            let Some(factors) = work.factors() else {
                return;
            };
            let mut sums = [T::ZERO; ROWS];
            if factors.alpha != T::ZERO {
                work.add(item, rows.clone(), 0..input, sums.as_mut_ptr());
            }
            work.store(item, rows, &factors, sums.as_ptr());
        }
    };
    vec![stage_of(blocks * batch, cost, run)]
}

/// Stages for parts of the input, and a stage that adds their sums.
fn split<T, SA, SX, SY>(work: Arc<Work<SA, SX, SY, T>>, blocks: usize, parts: usize) -> Vec<Stage>
where
    T: Element,
    SA: Load<T>,
    SX: Load<T>,
    SY: Load<T> + Store<T>,
{
    let (output, input, batch) = (
        work.product.shape.output(),
        work.product.shape.input(),
        work.product.batch,
    );
    let sums = Arc::new(Buffer::new(batch * parts * output, T::ZERO));
    let (sums_of_parts, work_of_parts) = (sums.clone(), work.clone());
    let multiply = move |task: usize| {
        let (block, rest) = (task % blocks, task / blocks);
        let (part, item) = (rest % parts, rest / parts);
        let work = &*work_of_parts;
        let rows = block * work.block..output.min((block + 1) * work.block);
        let terms = part * work.part..input.min((part + 1) * work.part);
        // SAFETY: as in `stages`; the buffer has a sum for each element of each part of each item.
        unsafe {
            if work
                .factors()
                .is_none_or(|factors| factors.alpha == T::ZERO)
            {
                return;
            }
            let place = sums_of_parts
                .pointer()
                .add((item * parts + part) * output + rows.start);
            for index in 0..rows.len() {
                place.add(index).write(T::ZERO);
            }
            work.add(item, rows, terms, place);
        }
    };
    let add = move |task: usize| {
        let (block, item) = (task % blocks, task / blocks);
        let rows = block * work.block..output.min((block + 1) * work.block);
        // SAFETY: as above.
        unsafe {
            let Some(factors) = work.factors() else {
                return;
            };
            let first = sums.pointer().add(item * parts * output + rows.start);
            for index in 0..rows.len() {
                let mut sum = first.add(index).read();
                for part in 1..parts {
                    sum = sum + first.add(part * output + index).read();
                }
                first.add(index).write(sum);
            }
            work.store(item, rows, &factors, first);
        }
    };
    let cost = work_cost(output, input, blocks, parts);
    vec![
        stage_of(blocks * parts * batch, cost, multiply),
        stage_of(blocks * batch, (parts * ROWS) as f64, add),
    ]
}

fn work_cost(output: usize, input: usize, blocks: usize, parts: usize) -> f64 {
    output as f64 * input as f64 * COST / (blocks * parts) as f64
}

/// A symmetric or Hermitian matrix and vectors.
pub(crate) struct Symmetric<T> {
    pub(crate) matrix: Columns<T>,
    pub(crate) symmetry: Symmetry,
    pub(crate) n: usize,
    pub(crate) x: Strided<T>,
    pub(crate) y: Strided<T>,
    pub(crate) alpha: AnyScalar,
    pub(crate) beta: AnyScalar,
}

/// The plan of `y = alpha A x + beta y` for a symmetric or Hermitian matrix. Each element of the result is computed from its row: the part that is
/// stored in the row's columns, and the part that is stored in the column.
pub(crate) fn symmetric<T: Element>(work: Symmetric<T>) -> Plan {
    let n = work.n;
    let (below, above) = work.matrix.diagonals(n);
    let width = below.max(above);
    let block = (AREA / (width + 1)).clamp(16, ROWS);
    let run = move |index: usize| {
        let rows = index * block..n.min((index + 1) * block);
        let input = around(&rows, width, width, n);
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have disjoint results.
        unsafe {
            let (alpha, beta) = (
                T::from_wide(work.alpha.read()),
                T::from_wide(work.beta.read()),
            );
            if alpha == T::ZERO && beta == T::ONE {
                return;
            }
            let mut sums = [T::ZERO; ROWS];
            if alpha != T::ZERO {
                with_scratch(input.len(), |buffer: *mut T| {
                    let x = work.x.fetch(input.start, input.len(), buffer);
                    work.add(rows.clone(), input.clone(), x, sums.as_mut_ptr());
                });
            }
            store(work.y, rows, alpha, beta, sums.as_ptr());
        }
    };
    if n == 0 {
        Plan::empty()
    } else {
        Plan {
            stages: vec![stage_of(
                n.div_ceil(block),
                (width + 1) as f64 * 2.0 * block as f64 * COST,
                run,
            )],
        }
    }
}

impl<T: Element> Symmetric<T> {
    /// Adds the products of the matrix and elements `input` of a vector, which start at `x`.
    ///
    /// # Safety
    /// The plan may run now; `input` are the elements that meet `rows`, and there is a sum for each of `rows`.
    unsafe fn add(&self, rows: Range<usize>, input: Range<usize>, x: *const T, sums: *mut T) {
        let matrix = self.matrix;
        let hermitian = self.symmetry == Symmetry::Hermitian;
        let elements = Elements::Strict;
        // SAFETY: the caller's conditions.
        unsafe {
            let js = matrix.touching(&rows, self.n);
            let factors = x.add(js.start - input.start);
            simd::run(AddColumns {
                matrix,
                elements,
                js,
                rows: rows.clone(),
                conjugate: false,
                factors,
                sums,
            });
            let js = rows.clone();
            simd::run(DotColumns {
                matrix,
                elements,
                js,
                rows: input.clone(),
                conjugate: hermitian,
                x,
                sums,
                types: PhantomData,
            });
            for (index, j) in rows.enumerate() {
                let diagonal = matrix.strict(j).1.read();
                let diagonal = if hermitian {
                    T::from_real(diagonal.re())
                } else {
                    diagonal
                };
                let place = sums.add(index);
                place.write(place.read() + diagonal * x.add(j - input.start).read());
            }
        }
    }
}

/// A triangular matrix and a vector.
pub(crate) struct Triangular<T> {
    pub(crate) matrix: Columns<T>,
    pub(crate) n: usize,
    pub(crate) transposed: bool,
    pub(crate) conjugate: bool,
    pub(crate) unit: bool,
    /// Whether the stored triangle is the lower one.
    pub(crate) lower: bool,
    pub(crate) x: Strided<T>,
}

impl<T: Element> Triangular<T> {
    /// The element on the diagonal.
    ///
    /// # Safety
    /// The plan may run now.
    unsafe fn diagonal(&self, j: usize) -> T {
        if self.unit {
            return T::ONE;
        }
        // SAFETY: the caller's condition.
        unsafe { self.matrix.strict(j).1.read() }.conj_if(self.conjugate)
    }

    /// The plan of `x = op(A) x`: a copy of the vector, and tasks for blocks of the result.
    pub(crate) fn multiply(self) -> Plan {
        let n = self.n;
        if n == 0 {
            return Plan::empty();
        }
        let (below, above) = self.matrix.diagonals(n);
        let width = below.max(above) + 1;
        let block = (AREA / width).clamp(16, ROWS);
        let copy = Arc::new(Buffer::new(n, T::ZERO));
        let work = Arc::new(self);
        let (from, to) = (work.clone(), copy.clone());
        let save = move || {
            for index in 0..n {
                // SAFETY: the caller of the routine runs the plan only while its operands are valid.
                unsafe { to.pointer().add(index).write(from.x.at(index).read()) };
            }
        };
        let run = move |index: usize| {
            let rows = index * block..n.min((index + 1) * block);
            let mut sums = [T::ZERO; ROWS];
            // SAFETY: as above; tasks have disjoint results.
            unsafe {
                let x = copy.pointer().cast_const();
                for (sum, j) in sums.iter_mut().zip(rows.clone()) {
                    *sum = work.diagonal(j) * x.add(j).read();
                }
                work.add(rows.clone(), 0..n, x, sums.as_mut_ptr());
                for (sum, j) in sums.iter().zip(rows) {
                    work.x.at(j).write(*sum);
                }
            }
        };
        Plan {
            stages: vec![
                single(save),
                stage_of(n.div_ceil(block), (width * block) as f64 * COST, run),
            ],
        }
    }

    /// Adds the products of elements `input` of `x`, without those of the diagonal, to the sums for `output`. `x` starts at element 0.
    ///
    /// # Safety
    /// The plan may run now; there is a sum for each element.
    unsafe fn add(&self, output: Range<usize>, input: Range<usize>, x: *const T, sums: *mut T) {
        let Triangular {
            matrix,
            n,
            conjugate,
            ..
        } = *self;
        let elements = Elements::Strict;
        // SAFETY: the caller's conditions.
        unsafe {
            if self.transposed {
                let x = x.add(input.start);
                simd::run(DotColumns {
                    matrix,
                    elements,
                    js: output,
                    rows: input,
                    conjugate,
                    x,
                    sums,
                    types: PhantomData,
                });
            } else {
                let touching = matrix.touching(&output, n);
                let js = touching.start.max(input.start)..touching.end.min(input.end);
                if js.start < js.end {
                    simd::run(AddColumns {
                        matrix,
                        elements,
                        factors: x.add(js.start),
                        js,
                        rows: output,
                        conjugate,
                        sums,
                    });
                }
            }
        }
    }

    /// The plan of the solution of `op(A) x = b`: one task, block by block.
    pub(crate) fn solve(self) -> Plan {
        let n = self.n;
        let run = move || {
            with_scratch(n, |x: *mut T| {
                // SAFETY: the caller of the routine runs the plan only while its operands are valid; the scratch has n elements.
                unsafe {
                    for index in 0..n {
                        x.add(index).write(self.x.at(index).read());
                    }
                    self.solve_contiguous(x);
                    for index in 0..n {
                        self.x.at(index).write(x.add(index).read());
                    }
                }
            });
        };
        if n == 0 {
            Plan::empty()
        } else {
            Plan {
                stages: vec![single(run)],
            }
        }
    }

    /// # Safety
    /// The plan may run now; `x` has n elements.
    unsafe fn solve_contiguous(&self, x: *mut T) {
        const BLOCK: usize = 64;
        let n = self.n;
        let blocks = n.div_ceil(BLOCK);
        let forward = self.lower != self.transposed;
        let mut sums = [T::ZERO; BLOCK];
        for step in 0..blocks {
            let index = if forward { step } else { blocks - 1 - step };
            let block = index * BLOCK..n.min((index + 1) * BLOCK);
            // The elements that are known.
            let known = if forward {
                0..block.start
            } else {
                block.end..n
            };
            sums.fill(T::ZERO);
            // SAFETY: the caller's conditions; rows and columns are those of the block.
            unsafe {
                self.add(block.clone(), known, x, sums.as_mut_ptr());
                for (sum, j) in sums.iter().zip(block.clone()) {
                    x.add(j).write(x.add(j).read() - *sum);
                }
                for step in 0..block.len() {
                    let j = if forward {
                        block.start + step
                    } else {
                        block.end - 1 - step
                    };
                    self.solve_one(j, &block, x);
                }
            }
        }
    }

    /// Computes element `j` from those of its block.
    ///
    /// # Safety
    /// As for [`Triangular::solve_contiguous`].
    unsafe fn solve_one(&self, j: usize, block: &Range<usize>, x: *mut T) {
        // SAFETY: the caller's conditions.
        unsafe {
            let column = self.matrix.strict(j).0.within(block);
            let value = |row: usize| {
                column
                    .data
                    .add(row - column.rows.start)
                    .read()
                    .conj_if(self.conjugate)
            };
            if self.transposed {
                let mut rest = x.add(j).read();
                for row in column.rows.clone() {
                    rest = rest - value(row) * x.add(row).read();
                }
                x.add(j).write(if self.unit {
                    rest
                } else {
                    rest.divide(self.diagonal(j))
                });
            } else {
                if !self.unit {
                    x.add(j).write(x.add(j).read().divide(self.diagonal(j)));
                }
                let factor = x.add(j).read();
                for row in column.rows.clone() {
                    let place = x.add(row);
                    place.write(place.read() - value(row) * factor);
                }
            }
        }
    }
}
