//! Rules about the shape of launches and the distribution of work.

use super::{Found, number, share};
use crate::document::OccupancyRow;

pub(super) fn rules(found: &mut Found<'_>) {
    barriers(found);
    balance(found);
    occupancy(found);
    few_blocks(found);
}

/// Barriers at which warps wait for a warp with far more instructions.
fn barriers(found: &mut Found<'_>) {
    let kernel = found.kernel;
    for row in &kernel.barriers {
        let all = row.counts.waited + row.counts.executed;
        let waited = share(row.counts.waited, all);
        if waited < 0.25 {
            continue;
        }
        let weight = share(row.counts.waited, row.counts.waited + found.summary.warps);
        let text = format!(
            "warps wait here: before this barrier, the warps execute {} instructions on average, and the last one {}",
            number(share(row.counts.executed, row.counts.warps)),
            number(share(all, row.counts.warps))
        );
        let advice = "Distribute the work before the barrier evenly over the warps, or let fewer warps take part.";
        found.add("barrier-imbalance", Some(&row.source), weight, text, advice);
    }
}

/// Blocks with far more instructions than the average block of their launch.
fn balance(found: &mut Found<'_>) {
    let Some(balance) = found.kernel.balance else {
        return;
    };
    // If all blocks of a launch executed as many instructions as the longest one, all launches would execute `longest`.
    let times = share(balance.longest, balance.sum);
    if times < 2.0 {
        return;
    }
    let text = format!(
        "the longest block of a launch executes {} times as many instructions as the average block ({}); a launch ends \
         only after its longest block",
        number(times),
        number(share(balance.sum, balance.blocks))
    );
    let advice = "Split large pieces of work, or let blocks fetch pieces from a common counter.";
    found.add("block-imbalance", None, 1.0 - 1.0 / times, text, advice);
}

/// Shapes that leave most of a multiprocessor empty, on the GPU of the list on which they leave most.
fn occupancy(found: &mut Found<'_>) {
    let kernel = found.kernel;
    let share_of = |row: &OccupancyRow| f64::from(row.warps) / f64::from(row.max_warps.max(1));
    let least = |a: &&OccupancyRow, b: &&OccupancyRow| share_of(a).total_cmp(&share_of(b));
    let Some(row) = kernel.occupancy.iter().min_by(least) else {
        return;
    };
    let occupied = share_of(row);
    if occupied >= 0.5 {
        return;
    }
    let text = format!(
        "on a GPU with compute capability {}, {} of {} warps can be resident; the limit is set by the {}",
        row.capability, row.warps, row.max_warps, row.limiter
    );
    let advice = match row.limiter.as_str() {
        "registers" => {
            "Limit the registers (__launch_bounds__, -maxrregcount), or split the kernel."
        }
        "shared memory" => "Use less shared memory in a block, for example smaller tiles.",
        _ => "Use larger blocks: 128 to 512 threads are usual.",
    };
    found.add("occupancy", None, 0.5 * (1.0 - occupied), text, advice);
}

/// Launches with fewer blocks than a large GPU has multiprocessors.
fn few_blocks(found: &mut Found<'_>) {
    let kernel = found.kernel;
    let blocks = share(kernel.blocks, kernel.launches);
    // Launches with little work do not matter.
    if blocks >= 100.0 || found.summary.executed < 10_000_000 {
        return;
    }
    let text = format!(
        "the launches have {} blocks on average; a large GPU has more than 100 multiprocessors, so most of them have \
         nothing to do",
        number(blocks)
    );
    let advice = "Use smaller or more blocks: divide the work of a block, for example along another dimension.";
    found.add("few-blocks", None, 1.0 - blocks / 100.0, text, advice);
}
