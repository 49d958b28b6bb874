//! Rules about instructions, divergence and the program around the kernels.

use super::{Finding, Found, number, share};
use crate::document::{InstructionRow, Profile};
use crate::opcode::{Class, Precision};

pub(super) fn rules(found: &mut Found<'_>) {
    divergence(found);
    idle_lanes(found);
    double_precision(found);
    divisions(found);
    narrow(found);
}

fn is_branch(row: &InstructionRow) -> bool {
    row.opcode == "bra" || row.opcode.starts_with("bra.")
}

/// Branches that split warps, in a kernel whose warps often run with few lanes.
fn divergence(found: &mut Found<'_>) {
    let kernel = found.kernel;
    let lost = 32 * found.summary.warps - found.summary.executed.min(32 * found.summary.warps);
    let lost = share(lost, 32 * found.summary.warps);
    if lost < 0.1 {
        return;
    }
    for row in &kernel.instructions {
        let split = share(row.counts.split, row.counts.warps);
        if !is_branch(row) || split < 0.1 {
            continue;
        }
        let of_all = share(row.counts.split, found.summary.divergent);
        let text = format!(
            "{} % of the executions of this branch split a warp; on average, {} of 32 lanes execute an instruction of \
             this kernel",
            number(100.0 * split),
            number(found.summary.lanes_per_warp().unwrap_or(0.0))
        );
        let advice = "Let the condition depend on whole warps (for example threadIdx.x / 32), or sort the work so that \
                      the threads of a warp take the same way.";
        found.add("divergence", Some(&row.source), lost * of_all, text, advice);
    }
}

/// Blocks whose size is no multiple of the warp size.
fn idle_lanes(found: &mut Found<'_>) {
    let kernel = found.kernel;
    let all: u64 = kernel
        .shapes
        .iter()
        .map(|(shape, count)| {
            let lanes = shape.threads_of_block().div_ceil(32).saturating_mul(32);
            lanes.saturating_mul(shape.blocks()).saturating_mul(*count)
        })
        .fold(0, u64::saturating_add);
    let weight = share(all.saturating_sub(kernel.threads), all);
    let text = format!(
        "the blocks have {} threads, so the last warp of each block has idle lanes: {} % of all lanes",
        kernel
            .shapes
            .first()
            .map_or(0, |(shape, _)| shape.threads_of_block()),
        number(100.0 * weight)
    );
    let advice = "Use a block size that is a multiple of 32.";
    found.add("partial-warps", None, weight, text, advice);
}

/// A kernel that computes in single precision, with a few double-precision operations.
fn double_precision(found: &mut Found<'_>) {
    let flops = &found.summary.flops;
    let [single, double] = [Precision::F32, Precision::F64]
        .map(|precision| flops.0.get(&precision).copied().unwrap_or(0));
    let kernel = found.kernel;
    let is_conversion =
        |row: &&InstructionRow| row.opcode.starts_with("cvt") && row.opcode.contains(".f64.f32");
    let is_arithmetic = |row: &&InstructionRow| {
        row.opcode.ends_with(".f64") && Class::of(&row.opcode) == Class::Float
    };
    let rows = kernel.instructions.iter();
    let most = rows
        .filter(is_arithmetic)
        .max_by_key(|row| row.counts.executed);
    let Some(most) = most else {
        return;
    };
    if !kernel.instructions.iter().any(|row| is_conversion(&row)) {
        return;
    }
    if double == 0 || single == 0 && !kernel.instructions.iter().any(narrows) {
        return;
    }
    let text = format!(
        "values are converted from float to double, and {double} of {} floating-point operations are double precision",
        single + double
    );
    let advice = "Write constants with f (0.5f), and call the functions for float (sqrtf, fabsf). Most GPUs execute \
                  1/32 or 1/64 as many double operations.";
    let weight = share(double, single + double);
    found.add("double-precision", Some(&most.source), weight, text, advice);
}

/// Returns whether an instruction converts a double to a float.
fn narrows(row: &InstructionRow) -> bool {
    row.opcode.starts_with("cvt") && row.opcode.ends_with(".f32.f64")
}

/// Integer divisions, which take many instructions on a GPU.
fn divisions(found: &mut Found<'_>) {
    let kernel = found.kernel;
    let is_division = |row: &&InstructionRow| {
        let name = row.opcode.split('.').next().unwrap_or_default();
        matches!(name, "div" | "rem") && Class::of(&row.opcode) == Class::Integer
    };
    let all = kernel.instructions.iter().filter(is_division);
    let count: u64 = all.clone().map(|row| row.counts.warps).sum();
    let Some(first) = all.max_by_key(|row| row.counts.warps) else {
        return;
    };
    // A division takes about 20 instructions of a GPU, twice as many with 64 bits.
    let weight = share(20 * count, 20 * count + found.summary.warps);
    if share(count, found.summary.warps) < 0.02 {
        return;
    }
    let text = format!(
        "{count} of {} instructions of warps are integer divisions or remainders, each of which takes about 20 \
         instructions on a GPU",
        found.summary.warps
    );
    let advice = "Divide by powers of two (shift, and), use unsigned types, move the division out of the loop, or pass \
                  the divisor as a template argument.";
    found.add(
        "integer-division",
        Some(&first.source),
        weight,
        text,
        advice,
    );
}

/// Contiguous accesses of one or two bytes a thread.
fn narrow(found: &mut Found<'_>) {
    let kernel = found.kernel;
    for row in &kernel.accesses {
        let is_contiguous = |stride: i64| stride == i64::from(row.counts.width);
        let contiguous: u64 = row
            .strides
            .iter()
            .filter(|stride| is_contiguous(stride.bytes))
            .map(|stride| stride.requests)
            .sum();
        if row.space != "global"
            || row.counts.width > 2
            || share(contiguous, row.counts.requests) < 0.5
        {
            continue;
        }
        let text = format!(
            "each thread accesses only {} byte(s) with this {}, so a request transfers {} bytes; 128 would be possible",
            row.counts.width,
            row.kind,
            number(share(row.counts.bytes, row.counts.requests))
        );
        let advice = "Let each thread process several neighbouring elements with a vector type (uchar4, short2, int4).";
        let weight = share(row.counts.requests, found.summary.global.requests);
        found.add("narrow-accesses", Some(&row.source), weight, text, advice);
    }
}

/// Rules about the whole program.
pub(super) fn program(profile: &Profile, all: &mut Vec<Finding>) {
    let mut add = |rule, weight: f64, text, advice| {
        all.push(Finding {
            rule,
            kernel: None,
            source: None,
            weight,
            text,
            advice,
        });
    };
    for row in &profile.copies {
        let average = share(row.bytes, row.count);
        let crosses = row.direction.contains("host") && row.direction != "host to host";
        if crosses && row.count >= 100 && average < 4096.0 {
            let text = format!(
                "{} copies {} transfer {} bytes on average",
                row.count,
                row.direction,
                number(average)
            );
            let advice = "Copy once instead of often: collect the data in one buffer.";
            add("small-copies", 1.0, text, advice);
        }
    }
    let launches: u64 = profile.kernels.iter().map(|kernel| kernel.launches).sum();
    let small: u64 = profile
        .kernels
        .iter()
        .filter(|kernel| kernel.threads < 4096 * kernel.launches)
        .map(|kernel| kernel.launches)
        .sum();
    if small >= 200 && share(small, launches) >= 0.5 {
        let text =
            format!("{small} of {launches} launches have fewer than 4,096 threads on average");
        let advice = "Combine kernels, process several problems in one launch, or record the launches in a graph.";
        add("small-launches", share(small, launches), text, advice);
    }
}
