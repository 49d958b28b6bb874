//! Tests the rules with counts of public programs.

use super::{Finding, of};
use crate::document::{
    AccessCounts, AccessRow, CtaBalance, FORMAT, InstructionCounts, InstructionRow, KernelProfile,
    OccupancyRow, Profile, SourceRow, StrideRow, VERSION,
};

fn kernel() -> KernelProfile {
    KernelProfile {
        name: "k".to_owned(),
        demangled: None,
        launches: 1,
        failed_launches: 0,
        blocks: 1000,
        threads: 256_000,
        seconds: 0.0,
        registers: 0,
        shapes: Vec::new(),
        occupancy: Vec::new(),
        instructions: Vec::new(),
        accesses: Vec::new(),
        barriers: Vec::new(),
        balance: None,
        reuse: None,
    }
}

fn findings(kernel: KernelProfile) -> Vec<Finding> {
    of(&Profile {
        format: FORMAT.to_owned(),
        version: VERSION,
        program: String::new(),
        processes: 1,
        seconds: 0.0,
        allocated_bytes: 0,
        peak_bytes: 0,
        copies: Vec::new(),
        kernels: vec![kernel],
        timeline: Vec::new(),
        dropped_slices: 0,
    })
}

/// The findings of a kernel with one access, whose threads have these distances in 100 requests each.
fn of_access(space: &str, counts: AccessCounts, strides: &[i64]) -> Vec<(&'static str, String)> {
    let strides = strides.iter().map(|&bytes| StrideRow {
        bytes,
        requests: 100,
    });
    let row = AccessRow {
        source: SourceRow::default(),
        space: space.to_owned(),
        kind: "load".to_owned(),
        counts,
        strides: strides.collect(),
        irregular: 0,
    };
    let all = findings(KernelProfile {
        accesses: vec![row],
        ..kernel()
    });
    all.into_iter()
        .map(|finding| (finding.rule, finding.text))
        .collect()
}

#[test]
fn contiguous_requests_are_misaligned_if_they_touch_one_more_sector() {
    let counts = AccessCounts {
        width: 4,
        requests: 100,
        threads: 3200,
        bytes: 12_800,
        sectors: 500,
        ideal_sectors: 400,
        ..AccessCounts::default()
    };
    let found = of_access("global", counts, &[4]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, "misaligned");
}

#[test]
fn requests_of_few_threads_with_gaps_between_them_are_not_misaligned() {
    // As in a reduction in which threads 0, 2, 4, ... add their neighbour's element, then 0, 4, 8, ...
    let counts = AccessCounts {
        width: 4,
        requests: 100,
        threads: 620,
        bytes: 2480,
        sectors: 270,
        ideal_sectors: 120,
        ..AccessCounts::default()
    };
    let found = of_access("global", counts, &[4]);
    assert_eq!(found.len(), 1);
    let text = "each request of this load touches 2.7 sectors of 32 bytes, 1.2 would do; only 6.2 threads of a warp \
                access memory, with gaps between them";
    assert_eq!(found[0], ("uncoalesced", text.to_owned()));
}

#[test]
fn distances_that_differ_between_requests_are_named() {
    let counts = AccessCounts {
        width: 4,
        requests: 300,
        threads: 9600,
        bytes: 38_400,
        cycles: 4200,
        ideal_cycles: 300,
        ..AccessCounts::default()
    };
    let found = of_access("shared", counts, &[8, 16, 512]);
    let text = "each request of this load of shared memory takes 14 cycles, 1 would do: threads access different words \
                of one bank; the addresses of neighbouring threads are 8 to 512 bytes apart, depending on the request";
    assert_eq!(found, [("bank-conflicts", text.to_owned())]);
    let found = of_access("shared", counts, &[]);
    assert!(found[0].1.ends_with("have no common distance"), "{found:?}");
}

#[test]
fn occupancy_is_that_of_the_least_occupied_gpu() {
    let row = |capability: &str, warps, max_warps| OccupancyRow {
        capability: capability.to_owned(),
        blocks: warps,
        warps,
        max_warps,
        limiter: "blocks".to_owned(),
    };
    let found = findings(KernelProfile {
        occupancy: vec![row("8.0", 32, 64), row("8.6", 16, 48), row("9.0", 32, 64)],
        ..kernel()
    });
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].rule, "occupancy");
    let text = "on a GPU with compute capability 8.6, 16 of 48 warps can be resident; the limit is set by the blocks";
    assert_eq!(found[0].text, text);
    let found = findings(KernelProfile {
        occupancy: vec![row("8.0", 32, 64), row("8.6", 24, 48)],
        ..kernel()
    });
    assert_eq!(found, []);
}

/// The balance of launches with these numbers of instructions of their blocks.
fn balance(launches: &[&[u64]]) -> CtaBalance {
    let mut all = CtaBalance::default();
    for blocks in launches {
        let mut of_launch = CtaBalance::default();
        for &instructions in *blocks {
            all.add(CtaBalance::of_block(instructions));
            of_launch.add(CtaBalance::of_block(instructions));
        }
        all.add(of_launch.end_of_launch());
    }
    all
}

#[test]
fn blocks_are_compared_with_blocks_of_their_launch() {
    // Blocks of 32 threads, then blocks of 1,024 threads.
    let even = balance(&[&[10, 10, 10, 10], &[320]]);
    assert_eq!(
        (even.sum, even.longest, even.least, even.most),
        (360, 360, 10, 320)
    );
    let found = findings(KernelProfile {
        balance: Some(even),
        ..kernel()
    });
    assert_eq!(found, []);
    let found = findings(KernelProfile {
        balance: Some(balance(&[&[10, 10, 10, 50], &[20]])),
        ..kernel()
    });
    assert_eq!(found.len(), 1);
    let text = "the longest block of a launch executes 2.2 times as many instructions as the average block (20); a \
                launch ends only after its longest block";
    assert_eq!(
        (found[0].rule, found[0].text.as_str()),
        ("block-imbalance", text)
    );
}

/// The rules that report a kernel with a branch, half of whose executions split a warp.
fn of_branch(lanes: u64) -> Vec<&'static str> {
    let row = |opcode: &str, executed, split| InstructionRow {
        source: SourceRow::default(),
        function: "k".to_owned(),
        index: 0,
        guarded: opcode == "bra",
        opcode: opcode.to_owned(),
        counts: InstructionCounts {
            warps: 100,
            active: 3200,
            executed,
            split,
        },
    };
    let found = findings(KernelProfile {
        instructions: vec![row("bra", 1600, 50), row("add.s32", 200 * lanes - 1600, 0)],
        ..kernel()
    });
    found.into_iter().map(|finding| finding.rule).collect()
}

#[test]
fn branches_at_the_end_of_a_kernel_are_no_divergence() {
    assert_eq!(of_branch(30), [""; 0]);
    assert_eq!(of_branch(26), ["divergence"]);
}
