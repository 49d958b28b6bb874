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

mod finish;
mod pack;
mod scratch;
mod tiles;

pub(crate) use finish::{Axpby, Finish, OnTriangle};
pub(crate) use pack::{Dense, Mirrored, Source};
pub(crate) use scratch::{Buffer, Shared, with_scratch};
pub(crate) use tiles::{Grid, Items, Operands, parallelism, stage, stage_of};

use std::ops::Range;

use crate::kernels::{Accumulate, Kernel};

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

/// Bytes of a packed operand of the block that [`product`] handles at once.
const BLOCK_BYTES: usize = 512 * 1024;

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
    let kernel = T::kernel();
    let (mr, nr) = (kernel.rows, kernel.columns);
    let depth = region.depth.len();
    let step = kernel.depth.min(depth.next_multiple_of(T::STEP));
    let part = size_of::<T::Part>() * T::PARTS;
    let limit = |width: usize| (BLOCK_BYTES / (kernel.depth * part)).next_multiple_of(width);
    let (block_rows, block_columns) = (
        limit(mr).min(region.rows.len().next_multiple_of(mr)),
        limit(nr).min(region.columns.len().next_multiple_of(nr)),
    );
    let tile = mr * nr;
    let tiles = if depth > kernel.depth {
        (block_rows / mr) * (block_columns / nr)
    } else {
        1
    };

    with_scratch(block_rows * step * T::PARTS, |panel_a: *mut T::Part| {
        with_scratch(block_columns * step * T::PARTS, |panel_b: *mut T::Part| {
            with_scratch(tiles * tile, |sums: *mut T| {
                for column in region.columns.clone().step_by(block_columns) {
                    let columns = block_columns.min(region.columns.end - column);
                    for row in region.rows.clone().step_by(block_rows) {
                        let rows = block_rows.min(region.rows.end - row);
                        if !finish.wants(row, column, rows, columns) {
                            continue;
                        }
                        let block = Block {
                            row,
                            rows,
                            column,
                            columns,
                            kernel,
                            panel_a,
                            panel_b,
                            sums,
                        };
                        // SAFETY: the buffers hold the panels and sums of a block.
                        unsafe { block.run(region.depth.clone(), step, a, b, finish) };
                    }
                }
            });
        });
    });
}

/// A part of the result whose operands fit into the buffers.
struct Block<'a, T: Accumulate> {
    row: usize,
    rows: usize,
    column: usize,
    columns: usize,
    kernel: &'a Kernel<T>,
    panel_a: *mut T::Part,
    panel_b: *mut T::Part,
    sums: *mut T,
}

impl<T: Accumulate> Block<'_, T> {
    /// # Safety
    /// As for [`product`]; the buffers are large enough for the block.
    unsafe fn run(
        &self,
        depth: Range<usize>,
        step: usize,
        a: &dyn Source<T>,
        b: &dyn Source<T>,
        finish: &dyn Finish<T>,
    ) {
        if depth.is_empty() {
            // SAFETY: the tile of sums has room for one tile.
            unsafe { self.run_empty(finish) };
            return;
        }
        let several = depth.len() > step;
        for first in depth.clone().step_by(step.max(1)) {
            let count = step.min(depth.end - first);
            // SAFETY: the caller's conditions; `count` is at most `step`.
            unsafe {
                a.pack(
                    self.row..self.row + self.rows,
                    first..first + count,
                    self.kernel.rows,
                    self.panel_a,
                );
                b.pack(
                    self.column..self.column + self.columns,
                    first..first + count,
                    self.kernel.columns,
                    self.panel_b,
                );
                self.multiply(
                    count,
                    several,
                    first == depth.start,
                    first + count == depth.end,
                    finish,
                );
            }
        }
    }

    /// Multiplies the packed panels.
    ///
    /// # Safety
    /// As for [`Block::run`]; the panels hold `count` steps.
    unsafe fn multiply(
        &self,
        count: usize,
        several: bool,
        first: bool,
        last: bool,
        finish: &dyn Finish<T>,
    ) {
        let (mr, nr) = (self.kernel.rows, self.kernel.columns);
        let steps = count.div_ceil(T::STEP);
        let stride = steps * T::STEP * T::PARTS;
        let tile_rows = self.rows.div_ceil(mr);
        for j in 0..self.columns.div_ceil(nr) {
            let column = self.column + j * nr;
            let columns = nr.min(self.column + self.columns - column);
            for i in 0..tile_rows {
                let row = self.row + i * mr;
                let rows = mr.min(self.row + self.rows - row);
                if !finish.wants(row, column, rows, columns) {
                    continue;
                }
                let index = if several {
                    (j * tile_rows + i) * mr * nr
                } else {
                    0
                };
                // SAFETY: the panels and sums of this tile lie in the buffers, whose sizes `product` computed.
                unsafe {
                    let sums = self.sums.add(index);
                    (self.kernel.run)(
                        steps,
                        self.panel_a.add(i * mr * stride),
                        self.panel_b.add(j * nr * stride),
                        sums,
                        first,
                    );
                    if last {
                        finish.tile(row, column, rows, columns, sums, mr);
                    }
                }
            }
        }
    }

    /// Finishes the block with sums of zero.
    ///
    /// # Safety
    /// As for [`Block::run`].
    unsafe fn run_empty(&self, finish: &dyn Finish<T>) {
        let (mr, nr) = (self.kernel.rows, self.kernel.columns);
        for index in 0..mr * nr {
            // SAFETY: the buffer of sums has room for at least one tile.
            unsafe { self.sums.add(index).write(T::NOTHING) };
        }
        for column in (self.column..self.column + self.columns).step_by(nr) {
            let columns = nr.min(self.column + self.columns - column);
            for row in (self.row..self.row + self.rows).step_by(mr) {
                let rows = mr.min(self.row + self.rows - row);
                if finish.wants(row, column, rows, columns) {
                    // SAFETY: the tile lies in the region.
                    unsafe { finish.tile(row, column, rows, columns, self.sums, mr) };
                }
            }
        }
    }
}
