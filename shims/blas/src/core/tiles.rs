//! Division of work into tasks.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::finish::Sums;
use super::shared::Packing;
use super::{Buffer, Finish, MOST, Operand, Region, Source, product, product_of};
use crate::Stage;
use crate::kernels::Accumulate;

/// Most tasks of a stage. More items share tasks.
const MOST_TASKS: usize = 1 << 16;

/// Nanoseconds that a task should last at least: some times the cost of starting it.
const TASK: f64 = 20_000.0;

/// Arithmetic operations in a nanosecond, about, of a kernel on one thread.
const SPEED: f64 = 50.0;

/// A stage that runs `body` for each of `items` items, which last about `nanoseconds` each.
pub(crate) fn stage_of(
    items: usize,
    nanoseconds: f64,
    body: impl Fn(usize) + Send + Sync + 'static,
) -> Stage {
    let least = (TASK / nanoseconds.max(1e-3)).clamp(1.0, 1e9) as usize;
    let group = least.min(items).max(items.div_ceil(MOST_TASKS)).max(1);
    let run = move |task: u32| {
        let first = task as usize * group;
        for item in first..items.min(first + group) {
            body(item);
        }
    };
    Stage {
        tasks: items.div_ceil(group) as u32,
        run: Box::new(run),
    }
}

/// A stage with one item for each task, if their number allows it.
pub(crate) fn stage(items: usize, body: impl Fn(usize) + Send + Sync + 'static) -> Stage {
    stage_of(items, TASK, body)
}

/// Number of threads that this process can use, about: an estimate for the size of tasks, on which results do not depend.
pub(crate) fn parallelism() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(8, |count| count.get()))
}

/// How a product of a type is divided into tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    /// Rows and columns of a task.
    rows: usize,
    columns: usize,
    /// Values of k of a task. Depends only on the dimensions.
    depth: usize,
}

/// The operands of one item of a batch, and how it is finished.
pub(crate) struct Operands<'a, T: Accumulate> {
    /// The left operand.
    pub(crate) a: &'a dyn Source<T>,
    /// The right operand.
    pub(crate) b: &'a dyn Source<T>,
    /// The last step.
    pub(crate) finish: &'a dyn Finish<T>,
    /// Whether the product is 0, because `alpha` is: no operand is read.
    pub(crate) zero: bool,
}

/// Gets the operands of an item when a task runs, and passes them to a function. Does not call it if there is nothing to do.
pub(crate) trait Items<T: Accumulate>: Send + Sync + 'static {
    /// Calls `body` with the operands of `item`.
    ///
    /// # Safety
    /// The plan may run now.
    unsafe fn with(&self, item: usize, body: &mut dyn FnMut(Operands<'_, T>));
}

impl Grid {
    /// The division of `batch` products of an m by k and a k by n matrix.
    pub(crate) fn new<T: Accumulate>(m: usize, n: usize, k: usize, batch: usize) -> Grid {
        let kernel = T::kernel();
        let (mr, nr) = (kernel.rows, kernel.columns);
        let operations = (2 * T::PARTS * T::PARTS) as f64 / T::STEP as f64;
        let work = |rows: usize, columns: usize, depth: usize| {
            rows as f64 * columns as f64 * (depth as f64 + 8.0) * operations
        };
        let depth = Grid::depth(m, n, k, batch, kernel.depth, work(m, n, 1));
        let even = |size: usize, width: usize| {
            let count = size.div_ceil(MOST).max(1);
            size.div_ceil(count).next_multiple_of(width).max(width)
        };
        let (mut rows, mut columns) = (even(m, mr), even(n, nr));
        let wanted = 4 * parallelism();
        loop {
            let tasks = m
                .div_ceil(rows)
                .saturating_mul(n.div_ceil(columns))
                .saturating_mul(batch);
            if tasks >= wanted || work(rows, columns, depth) < 2.0 * TASK * SPEED {
                break;
            }
            if rows > mr && (rows >= columns || columns <= nr) {
                rows = rows.div_ceil(2).next_multiple_of(mr);
            } else if columns > nr {
                columns = columns.div_ceil(2).next_multiple_of(nr);
            } else {
                break;
            }
        }
        Grid {
            m,
            n,
            k,
            batch,
            rows,
            columns,
            depth,
        }
    }

    /// Values of k of a task: all, except if the result is small and k large.
    fn depth(m: usize, n: usize, k: usize, batch: usize, block: usize, work: f64) -> usize {
        let elements = m.saturating_mul(n).saturating_mul(batch);
        let parts = (k / (2 * block))
            .min(16)
            .min((work * k as f64 / (4.0 * TASK * SPEED)) as usize);
        if elements > 256 * 256 || parts < 2 {
            k
        } else {
            k.div_ceil(parts).next_multiple_of(block)
        }
    }

    /// The stages of the product.
    pub(crate) fn stages<T: Accumulate>(self, items: impl Items<T>) -> Vec<Stage> {
        if self.m == 0 || self.n == 0 || self.batch == 0 {
            return Vec::new();
        }
        let items = Arc::new(items);
        if self.depth < self.k {
            return self.split(items);
        }
        let (rows, columns) = (self.m.div_ceil(self.rows), self.n.div_ceil(self.columns));
        let operations = 2.0 * (T::PARTS * T::PARTS) as f64 / T::STEP as f64;
        let cost = self.rows.min(self.m) as f64
            * self.columns.min(self.n) as f64
            * (self.k as f64 + 8.0)
            * operations
            / SPEED
            + 100.0;
        let packing = if self.batch == 1 {
            Packing::new::<T>([self.m, self.n, self.k], rows * columns)
        } else {
            None
        };
        if let Some(packing) = packing {
            return self.packed(items, packing, cost);
        }
        let run = move |task: usize| {
            let (item, tile) = (task / (rows * columns), task % (rows * columns));
            let region = self.region(tile % rows, tile / rows);
            // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have disjoint regions.
            unsafe { items.with(item, &mut |operands| run_region(&region, &operands)) };
        };
        vec![stage_of(rows * columns * self.batch, cost, run)]
    }

    /// A stage that packs the operands, and one that multiplies.
    fn packed<T: Accumulate>(
        self,
        items: Arc<impl Items<T>>,
        packing: Packing,
        cost: f64,
    ) -> Vec<Stage> {
        let rows = self.m.div_ceil(self.rows);
        let tasks = rows * self.n.div_ceil(self.columns);
        let (packing_tasks, packing_cost) = (packing.pack_tasks(), packing.pack_cost());
        let packing = Arc::new(packing);
        let (packing_of_operands, items_to_pack) = (packing.clone(), items.clone());
        // SAFETY: as in `stages`; tasks pack disjoint panels.
        let pack = move |task: usize| unsafe {
            items_to_pack.with(0, &mut |operands| packing_of_operands.pack(task, &operands))
        };
        let multiply = move |tile: usize| {
            let region = self.region(tile % rows, tile / rows);
            // SAFETY: as in `stages`.
            unsafe {
                items.with(0, &mut |operands| {
                    packing.multiply::<T>(|ready| match ready {
                        Some([a, b]) if !operands.zero => {
                            product_of(
                                &region,
                                Operand::Ready(a),
                                Operand::Ready(b),
                                operands.finish,
                            );
                        }
                        _ => run_region(&region, &operands),
                    });
                });
            }
        };
        let first = stage_of(packing_tasks, packing_cost, pack);
        vec![first, stage_of(tasks, cost, multiply)]
    }

    fn region(&self, row: usize, column: usize) -> Region {
        let part = |index: usize, size: usize, end: usize| -> Range<usize> {
            index * size..end.min((index + 1) * size)
        };
        Region {
            rows: part(row, self.rows, self.m),
            columns: part(column, self.columns, self.n),
            depth: 0..self.k,
        }
    }

    /// Tasks for parts of k, and a stage that adds their sums in order.
    fn split<T: Accumulate>(self, items: Arc<impl Items<T>>) -> Vec<Stage> {
        let Grid {
            m,
            n,
            k,
            batch,
            depth,
            ..
        } = self;
        let parts = k.div_ceil(depth);
        let sums = Arc::new(Buffer::<T>::new(m * n * batch * parts, T::NOTHING));
        let (sums_of_parts, items_of_parts) = (sums.clone(), items.clone());
        let multiply = move |task: usize| {
            let (item, part) = (task / parts, task % parts);
            let region = Region {
                depth: part * depth..k.min((part + 1) * depth),
                ..Region::whole(m, n, k)
            };
            // SAFETY: the buffer has m * n sums for each task.
            let data = unsafe { sums_of_parts.pointer().add(task * m * n) };
            let finish = Sums { data, stride: m };
            // SAFETY: as in `stages`.
            unsafe {
                items_of_parts.with(item, &mut |operands| {
                    if !operands.zero {
                        run_region(
                            &region,
                            &Operands {
                                finish: &finish,
                                ..operands
                            },
                        );
                    }
                });
            }
        };
        let add = move |item: usize| {
            // SAFETY: the buffer has m * n sums for each part of each item, and this task alone accesses those of the item.
            unsafe {
                let first = sums.pointer().add(item * parts * m * n);
                items.with(item, &mut |operands| {
                    if operands.zero {
                        run_region(&Region::whole(m, n, 0), &operands);
                        return;
                    }
                    add_parts(first, m * n, parts);
                    operands.finish.tile(0, 0, m, n, first, m);
                });
            }
        };
        vec![stage(batch * parts, multiply), stage(batch, add)]
    }
}

/// Adds arrays of sums pairwise into the first.
///
/// # Safety
/// `first` points to `parts * count` sums.
unsafe fn add_parts<T: Accumulate>(first: *mut T, count: usize, parts: usize) {
    let mut distance = 1;
    while distance < parts {
        for part in (0..parts - distance).step_by(2 * distance) {
            for index in 0..count {
                // SAFETY: both parts are among the caller's.
                unsafe {
                    let place = first.add(part * count + index);
                    place.write(
                        place
                            .read()
                            .plus(first.add((part + distance) * count + index).read()),
                    );
                }
            }
        }
        distance *= 2;
    }
}

/// # Safety
/// As for [`product`].
unsafe fn run_region<T: Accumulate>(region: &Region, operands: &Operands<'_, T>) {
    let mut region = region.clone();
    if operands.zero {
        region.depth = 0..0;
    }
    // SAFETY: the caller's conditions.
    unsafe { product(&region, operands.a, operands.b, operands.finish) };
}
