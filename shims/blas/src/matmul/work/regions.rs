//! Products whose regions are computed by functions of this crate instead of a grid: groups, and results with factors of blocks.

use std::ops::Range;

use super::Work;
use crate::Plan;
use crate::core::{Region, product, stage_of, with_scratch};
use crate::matmul::Order;
use crate::matmul::access::Access;
use crate::matmul::finish::{Now, Writable};
use crate::matmul::quantize::REGION;

impl Work<f32, f32> {
    /// The plan of a product whose result has factors of blocks.
    pub(in crate::matmul) fn quantized_plan(self) -> Plan {
        let mut stages = self.clear_maxima();
        let (m, n, k) = (
            self.arguments.d.rows,
            self.arguments.d.columns,
            self.arguments.k,
        );
        let count = m.div_ceil(REGION);
        let nanoseconds = (REGION * REGION) as f64 * (k as f64 + 8.0) / 25.0;
        let run = move |task: usize| {
            let part = |index: usize, end: usize| index * REGION..end.min((index + 1) * REGION);
            let (rows, columns) = (part(task % count, m), part(task / count, n));
            with_scratch(REGION * REGION, |values: *mut f32| {
                // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have disjoint
                // regions, and the buffer has room for a region.
                unsafe { self.quantize(rows.clone(), columns.clone(), values) };
            });
        };
        stages.push(stage_of(count * n.div_ceil(REGION), nanoseconds, run));
        Plan { stages }
    }

    /// Computes a region and stores it with its factors. `values` has room for the region.
    ///
    /// # Safety
    /// The plan may run now; no other task has this region.
    unsafe fn quantize(&self, rows: Range<usize>, columns: Range<usize>, values: *mut f32) {
        let Some(quantized) = &self.quantized else {
            return;
        };
        let result = Writable {
            // The elements of the region begin at the first value.
            data: values
                .wrapping_sub(rows.start)
                .wrapping_sub(columns.start * REGION)
                .cast(),
            access: Access::plain(Order::Column, REGION),
            write: self.d.function,
        };
        // SAFETY: the caller's condition; `region` writes the values of the whole region.
        unsafe {
            values.write_bytes(0, REGION * REGION);
            self.region(0, rows.clone(), columns.clone(), Some(result));
            let values = std::slice::from_raw_parts(values, REGION * REGION);
            quantized.store(rows, columns, values);
        }
    }

    /// Computes a region of an item on the calling thread. `result`: where it is stored, if not in `D`.
    ///
    /// # Safety
    /// The plan may run now; no other task has this region.
    pub(in crate::matmul) unsafe fn region(
        &self,
        item: usize,
        rows: Range<usize>,
        columns: Range<usize>,
        result: Option<Writable<f32>>,
    ) {
        // SAFETY: the caller's condition.
        unsafe {
            let mut finish = self.last_steps(item);
            if let Some(result) = result {
                finish.d = result;
            }
            let zero = matches!(&finish.alpha, Now::One(0.0));
            let depth = if zero { 0 } else { self.arguments.k };
            let region = Region {
                rows,
                columns,
                depth: 0..depth,
            };
            self.a.with(item, &mut |a| {
                self.b.with(item, &mut |b| product(&region, a, b, &finish));
            });
        }
    }
}
