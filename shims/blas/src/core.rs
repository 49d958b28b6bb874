//! The engine of all matrix products: packed panels, small kernels in registers, and finishers that store the result.
//!
//! [`product`] computes a region of a product on the calling thread:
//!
//! - A [`Source`] packs parts of an operand into panels: it knows the operand's type in memory, strides, conjugation and structure.
//! - A [`Kernel`] multiplies two panels and adds into a small tile of sums, in registers.
//! - A [`Finish`] gets each finished tile of sums, scales it, and stores it in the result's type.
//!
//! Invariant: an element of the result is the sum over blocks of [`Kernel::depth`] products in the order of k, whatever the region is.
//! Regions therefore decide about parallelism only, and not about bits.

mod cache;
mod finish;
mod pack;
mod scratch;
mod shared;
mod tiles;

pub(crate) use finish::{Axpby, Finish, OnTriangle};
pub(crate) use pack::{Dense, Mirrored, Source};
pub(crate) use scratch::{Buffer, Shared, with_scratch};
pub(crate) use tiles::{Grid, Items, Operands, parallelism, stage, stage_of};

use std::ops::Range;

use shared::Ready;

use crate::kernels::{Accumulate, Kernel, NEXT, Panels};

/// A part of a product: rows and columns of the result, and the terms that are added.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    /// Rows of the result.
    pub(crate) rows: Range<usize>,
    /// Columns of the result.
    pub(crate) columns: Range<usize>,
    /// The terms: columns of the left operand.
    pub(crate) depth: Range<usize>,
}

impl Region {
    /// The whole product of an m by k and a k by n matrix.
    pub(crate) fn whole(m: usize, n: usize, k: usize) -> Region {
        Region {
            rows: 0..m,
            columns: 0..n,
            depth: 0..k,
        }
    }
}

/// Most rows and columns of the result for which [`product`] keeps sums.
pub(crate) const MOST: usize = 1024;

/// Computes a region of a product on the calling thread. An empty `depth` gives sums of zero.
///
/// # Safety
/// The sources can read, and `finish` can write, what the region names.
pub(crate) unsafe fn product<T: Accumulate>(
    region: &Region,
    a: &dyn Source<T>,
    b: &dyn Source<T>,
    finish: &dyn Finish<T>,
) {
    // SAFETY: the caller's conditions.
    unsafe { product_of(region, Operand::Source(a), Operand::Source(b), finish) };
}

/// An operand of [`product_of`].
#[derive(Clone, Copy)]
enum Operand<'a, T: Accumulate> {
    /// One that is packed when it is needed.
    Source(&'a dyn Source<T>),
    /// One that is packed already.
    Ready(Ready<T::Part>),
}

impl<T: Accumulate> Operand<'_, T> {
    /// Elements of the buffer for the panels of `count` outer indices.
    fn room(&self, count: usize) -> usize {
        if let Operand::Source(_) = self {
            count
        } else {
            0
        }
    }

    /// The panels of a part of the operand. They may be in the buffer.
    ///
    /// # Safety
    /// As for [`product`]; the buffer has room for the panels.
    unsafe fn panels(
        &self,
        outer: &Range<usize>,
        terms: &Range<usize>,
        width: usize,
        buffer: *mut T::Part,
    ) -> *const T::Part {
        match self {
            Operand::Source(source) => {
                // SAFETY: the caller's conditions.
                unsafe { source.pack(outer.clone(), terms.clone(), width, buffer) };
                buffer
            }
            Operand::Ready(ready) => ready.panels::<T>(outer, terms),
        }
    }
}

/// [`product`] with operands that may be packed already. Then the region starts at the beginning of panels.
///
/// # Safety
/// As for [`product`].
unsafe fn product_of<T: Accumulate>(
    region: &Region,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    finish: &dyn Finish<T>,
) {
    let kernel = T::kernel();
    let (mr, nr) = (kernel.rows, kernel.columns);
    let depth = region.depth.len();
    let step = kernel.step(depth);
    // The panels of both operands, and the sums of the right one's columns, share the cache.
    let column_bytes = kernel.depth * size_of::<T::Part>() * T::PARTS;
    // `length` in equal parts that fit into a share of the cache.
    let fit = |share: usize, width: usize, length: usize| {
        let most = (cache::bytes() * share / 16 / column_bytes).max(1);
        length
            .div_ceil(length.div_ceil(most).max(1))
            .next_multiple_of(width)
    };
    let most_rows = fit(5, mr, region.rows.len().min(MOST));
    let most_columns = MOST
        .next_multiple_of(nr)
        .min(region.columns.len().next_multiple_of(nr));
    let chunk = fit(3, nr, most_columns);
    let several = depth > step;
    let tiles = if several {
        (most_rows / mr) * (most_columns / nr)
    } else {
        1
    };

    with_scratch(
        a.room(most_rows) * step * T::PARTS,
        |panel_a: *mut T::Part| {
            with_scratch(b.room(chunk) * step * T::PARTS, |panel_b: *mut T::Part| {
                with_scratch(tiles * mr * nr, |sums: *mut T| {
                    for column in region.columns.clone().step_by(most_columns) {
                        let columns = column..region.columns.end.min(column + most_columns);
                        for row in region.rows.clone().step_by(most_rows) {
                            let rows = row..region.rows.end.min(row + most_rows);
                            if finish.wants(row, column, rows.len(), columns.len()) {
                                let next_row = (row + most_rows).min(region.rows.end);
                                let next_rows = next_row..region.rows.end.min(next_row + most_rows);
                                let block = Block {
                                    rows,
                                    next_rows,
                                    columns: columns.clone(),
                                    several,
                                    kernel,
                                    panel_a,
                                    panel_b,
                                    sums,
                                    a,
                                    b,
                                    finish,
                                };
                                // SAFETY: the buffers hold the panels and sums of a block.
                                unsafe { block.run(region.depth.clone(), step, chunk) };
                            }
                        }
                    }
                });
            });
        },
    );
}

/// A part of the result whose sums fit into the buffer.
struct Block<'a, T: Accumulate> {
    rows: Range<usize>,
    /// The rows of the next block.
    next_rows: Range<usize>,
    columns: Range<usize>,
    /// Whether sums are kept between parts of the depth.
    several: bool,
    kernel: &'a Kernel<T>,
    panel_a: *mut T::Part,
    panel_b: *mut T::Part,
    sums: *mut T,
    a: Operand<'a, T>,
    b: Operand<'a, T>,
    finish: &'a dyn Finish<T>,
}

impl<T: Accumulate> Block<'_, T> {
    /// # Safety
    /// As for [`product`]; the buffers are large enough for the block, for `step` values of k and `chunk` columns.
    unsafe fn run(&self, depth: Range<usize>, step: usize, chunk: usize) {
        if depth.is_empty() {
            // SAFETY: the tile of sums has room for one tile.
            unsafe { self.run_empty() };
            return;
        }
        let (mr, nr) = (self.kernel.rows, self.kernel.columns);
        for first in depth.clone().step_by(step) {
            let terms = first..depth.end.min(first + step);
            let (is_first, is_last) = (first == depth.start, terms.end == depth.end);
            // SAFETY: the caller's conditions.
            unsafe {
                let left = self.a.panels(&self.rows, &terms, mr, self.panel_a);
                // The panels of the left operand that are multiplied after these.
                let later = match self.a {
                    Operand::Source(_) => left,
                    Operand::Ready(ready) => {
                        let (rows, start) = if is_last {
                            (&self.next_rows, depth.start)
                        } else {
                            (&self.rows, terms.end)
                        };
                        ready.panels::<T>(rows, &(start..depth.end.min(start + step)))
                    }
                };
                for column in self.columns.clone().step_by(chunk) {
                    let columns = column..self.columns.end.min(column + chunk);
                    if self
                        .finish
                        .wants(self.rows.start, column, self.rows.len(), columns.len())
                    {
                        let right = self.b.panels(&columns, &terms, nr, self.panel_b);
                        self.multiply(
                            [left, right, later],
                            columns,
                            terms.len(),
                            is_first,
                            is_last,
                        );
                    }
                }
            }
        }
    }

    /// Multiplies the packed panels.
    ///
    /// # Safety
    /// As for [`Block::run`]; the panels hold the block's rows, `columns`, and `count` values of k.
    unsafe fn multiply(
        &self,
        [left, right, later]: [*const T::Part; 3],
        columns: Range<usize>,
        count: usize,
        first: bool,
        last: bool,
    ) {
        let (mr, nr) = (self.kernel.rows, self.kernel.columns);
        let steps = count.div_ceil(T::STEP);
        let stride = steps * T::STEP * T::PARTS;
        let tile_rows = self.rows.len().div_ceil(mr);
        let start = (columns.start - self.columns.start) / nr;
        for (j, column) in columns.clone().step_by(nr).enumerate() {
            let width = nr.min(columns.end - column);
            for (i, row) in self.rows.clone().step_by(mr).enumerate() {
                let height = mr.min(self.rows.end - row);
                if !self.finish.wants(row, column, height, width) {
                    continue;
                }
                let index = if self.several {
                    ((start + j) * tile_rows + i) * mr * nr
                } else {
                    0
                };
                // SAFETY: the panels and sums of this tile lie in the buffers, whose sizes `product` computed.
                unsafe {
                    let sums = self.sums.add(index);
                    if last {
                        self.finish.announce(row, column, height, width);
                    }
                    let right = right.add(j * nr * stride);
                    let next = right.wrapping_add(nr * stride + i % NEXT * (nr * stride / NEXT));
                    let panels = Panels {
                        steps,
                        left: left.add(i * mr * stride),
                        right,
                        next,
                        // The calls for the first columns ask for a part of this tile's next panel each.
                        later: later.wrapping_add((i * mr + (start + j) % mr) * stride),
                    };
                    (self.kernel.run)(panels, sums, first);
                    if last {
                        self.finish.tile(row, column, height, width, sums, mr);
                    }
                }
            }
        }
    }

    /// Finishes the block with sums of zero.
    ///
    /// # Safety
    /// As for [`Block::run`].
    unsafe fn run_empty(&self) {
        let (mr, nr) = (self.kernel.rows, self.kernel.columns);
        for index in 0..mr * nr {
            // SAFETY: the buffer of sums has room for at least one tile.
            unsafe { self.sums.add(index).write(T::NOTHING) };
        }
        for column in self.columns.clone().step_by(nr) {
            let columns = nr.min(self.columns.end - column);
            for row in self.rows.clone().step_by(mr) {
                let rows = mr.min(self.rows.end - row);
                if self.finish.wants(row, column, rows, columns) {
                    // SAFETY: the tile lies in the region.
                    unsafe { self.finish.tile(row, column, rows, columns, self.sums, mr) };
                }
            }
        }
    }
}
