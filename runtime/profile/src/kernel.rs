//! What the profiler knows of a kernel, and its rows in the document.

use std::collections::BTreeMap;
use std::sync::Arc;

use margay::KernelInfo;
use margay::observe::{AccessKind, Space};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::counts::Counts;
use crate::cta::CtaState;
use crate::document::{
    AccessRow, BarrierRow, CtaBalance, InstructionCounts, InstructionRow, KernelProfile,
    LaunchShape, ReuseRow, StrideRow, occupancy,
};
use crate::options::Options;
use crate::reuse::ReuseDistances;
use crate::text::Text;

/// What is known of a kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) info: KernelInfo,
    pub(crate) text: Text,
    pub(crate) launches: u64,
    pub(crate) failed: u64,
    pub(crate) seconds: f64,
    /// The launches by their shape, with their number.
    pub(crate) shapes: BTreeMap<LaunchShape, u64>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) reuse: ReuseDistances,
}

/// The counts of a kernel, to which the receivers of all threads add theirs.
#[derive(Default, Debug)]
pub(crate) struct Shared {
    pub(crate) counts: Mutex<Counts>,
    /// The CTAs that do not run at the moment, by launch and linear index.
    pub(crate) ctas: Mutex<FxHashMap<(u64, u64), CtaState>>,
    /// The balance of each launch that has not ended.
    pub(crate) launches: Mutex<FxHashMap<u64, CtaBalance>>,
}

impl Shared {
    /// Adds what a CTA has done. The CTA has ended.
    pub(crate) fn end_cta(&self, launch: u64, cta: CtaState) {
        let mut launches = self.launches.lock();
        cta.end(&mut self.counts.lock(), launches.entry(launch).or_default());
    }

    /// Adds the balance of a launch that has ended.
    pub(crate) fn end_launch(&self, launch: u64) {
        if let Some(balance) = self.launches.lock().remove(&launch) {
            self.counts.lock().ctas.add(balance.end_of_launch());
        }
    }
}

fn space_name(space: Space) -> &'static str {
    match space {
        Space::Global => "global",
        Space::Shared => "shared",
        Space::SharedCluster => "shared::cluster",
        Space::Local => "local",
        Space::Constant => "const",
    }
}

fn kind_name(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Load => "load",
        AccessKind::Store => "store",
        AccessKind::Atomic => "atomic",
    }
}

/// Returns the profile of a kernel.
pub(crate) fn profile(kernel: &Kernel, counts: &Counts, options: Options) -> KernelProfile {
    let mut of_instructions: FxHashMap<(u32, u32), (bool, InstructionCounts)> =
        FxHashMap::default();
    for (run, &count) in &counts.runs {
        for index in run.first..run.first + run.count {
            let (has_guard, sum) = of_instructions.entry((run.function, index)).or_default();
            *has_guard |= run.has_guard;
            sum.add(count);
        }
    }
    let instructions = of_instructions.into_iter().map(|(key, (guarded, counts))| {
        let (opcode, source) = kernel.text.instruction(key);
        InstructionRow {
            function: kernel.text.function(key.0),
            index: key.1,
            opcode,
            guarded,
            source,
            counts,
        }
    });
    let accesses = counts.accesses.iter().map(|(key, count)| {
        let mut strides: Vec<StrideRow> = count
            .strides
            .iter()
            .map(|&(bytes, requests)| StrideRow { bytes, requests })
            .collect();
        strides.sort_unstable();
        AccessRow {
            source: kernel.text.source(key.position),
            space: space_name(key.space).to_owned(),
            kind: kind_name(key.kind).to_owned(),
            counts: count.counts,
            strides,
            irregular: count.other_strides,
        }
    });
    let barriers = counts
        .barriers
        .iter()
        .map(|(&position, &counts)| BarrierRow {
            source: kernel.text.source(position),
            counts,
        });
    let shapes: Vec<(LaunchShape, u64)> = kernel
        .shapes
        .iter()
        .map(|(&shape, &count)| (shape, count))
        .collect();
    let blocks = shapes
        .iter()
        .map(|(shape, count)| shape.blocks() * count)
        .sum();
    let threads = shapes
        .iter()
        .map(|(shape, count)| shape.blocks() * shape.threads_of_block() * count)
        .sum();
    let name = kernel.info.name.clone();
    let demangled = margay::demangle::readable(&name);
    let mut profile = KernelProfile {
        demangled: (demangled != name).then_some(demangled),
        name,
        launches: kernel.launches,
        failed_launches: kernel.failed,
        blocks,
        threads,
        seconds: kernel.seconds,
        registers: kernel.info.registers,
        occupancy: occupancy(&shapes, kernel.info.registers),
        shapes,
        instructions: instructions.collect(),
        accesses: accesses.collect(),
        barriers: barriers.collect(),
        balance: (counts.ctas.blocks != 0).then_some(counts.ctas),
        reuse: options.reuse.then(|| ReuseRow {
            lines: kernel.reuse.lines(),
            histogram: kernel.reuse.histogram().to_vec(),
        }),
    };
    profile.sort();
    profile
}
