//! Reductions: fixed blocks, whose results are combined pairwise in the order of the blocks.

use std::sync::Arc;

use crate::core::{Buffer, stage_of};
use crate::vector::single;
use crate::{Plan, Stage};

/// Elements of a block.
pub(crate) const BLOCK: usize = 4096;

/// Blocks of a task.
const GROUP: usize = 8;

/// What a reduction does with a block, and with the results of blocks.
pub(crate) trait Reduction: Send + Sync + 'static {
    /// The result of a block.
    type Part: Copy + Send + Sync + 'static;
    /// The result of no elements.
    const EMPTY: Self::Part;

    /// The result of elements `start..start + count`.
    ///
    /// # Safety
    /// The plan may run now, and the vectors have these elements.
    unsafe fn block(&self, start: usize, count: usize) -> Self::Part;

    /// The result of two neighbouring ranges, in their order.
    fn join(first: Self::Part, second: Self::Part) -> Self::Part;

    /// Stores the result of all elements.
    ///
    /// # Safety
    /// The plan may run now.
    unsafe fn finish(&self, result: Self::Part);
}

/// The pairwise result of blocks `first..end`.
///
/// # Safety
/// The plan may run now, and the vectors have `n` elements.
unsafe fn blocks<R: Reduction>(reduction: &R, first: usize, end: usize, n: usize) -> R::Part {
    if end - first == 1 {
        // SAFETY: the caller's conditions.
        return unsafe { reduction.block(first * BLOCK, BLOCK.min(n - first * BLOCK)) };
    }
    let middle = first + ((end - first) / 2).next_power_of_two();
    // SAFETY: as above.
    unsafe {
        R::join(
            blocks(reduction, first, middle, n),
            blocks(reduction, middle, end, n),
        )
    }
}

/// The pairwise result of parts.
///
/// # Safety
/// There are parts `first..end`.
unsafe fn joined<R: Reduction>(parts: *const R::Part, first: usize, end: usize) -> R::Part {
    if end - first == 1 {
        // SAFETY: the part exists.
        return unsafe { parts.add(first).read() };
    }
    let middle = first + ((end - first) / 2).next_power_of_two();
    // SAFETY: as above.
    unsafe {
        R::join(
            joined::<R>(parts, first, middle),
            joined::<R>(parts, middle, end),
        )
    }
}

/// The plan of a reduction over `n` elements, each of which takes about `nanoseconds`.
pub(crate) fn plan<R: Reduction>(n: usize, nanoseconds: f64, reduction: R) -> Plan {
    let count = n.div_ceil(BLOCK);
    let groups = count.div_ceil(GROUP);
    if groups <= 2 {
        // SAFETY: the caller of the routine runs the plan only while its operands are valid.
        let all = move || unsafe {
            let result = if n == 0 {
                R::EMPTY
            } else {
                blocks(&reduction, 0, count, n)
            };
            reduction.finish(result);
        };
        return Plan {
            stages: vec![single(all)],
        };
    }
    let reduction = Arc::new(reduction);
    let parts = Arc::new(Buffer::new(groups, R::EMPTY));
    let (reduction_of_groups, parts_of_groups) = (reduction.clone(), parts.clone());
    let group = move |index: usize| {
        let first = index * GROUP;
        // SAFETY: as above; each group has its own part.
        unsafe {
            let result = blocks(&*reduction_of_groups, first, count.min(first + GROUP), n);
            parts_of_groups.pointer().add(index).write(result);
        }
    };
    // SAFETY: as above; the first stage has written all parts.
    let all = move || unsafe { reduction.finish(joined::<R>(parts.pointer(), 0, groups)) };
    let stages: Vec<Stage> = vec![
        stage_of(groups, nanoseconds * (GROUP * BLOCK) as f64, group),
        single(all),
    ];
    Plan { stages }
}
