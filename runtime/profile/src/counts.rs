//! Counts of what the warps of a kernel did, by instruction.

use margay::observe::{Access, AccessKind, InstructionCount, Position, Space};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::document::{AccessCounts, BarrierCounts, CtaBalance, InstructionCounts};
use crate::memo::Memo;
use crate::requests;

/// A run of instructions: the function, the index of the first instruction, the number of instructions, and whether the
/// run is one instruction with a guard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Run {
    pub(crate) function: u32,
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) has_guard: bool,
}

/// The accesses of one instruction to one kind of memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct AccessKey {
    pub(crate) position: Position,
    pub(crate) space: Space,
    pub(crate) kind: AccessKind,
}

/// Counts of accesses.
#[derive(Clone, Default, Debug)]
pub(crate) struct AccessCount {
    pub(crate) counts: AccessCounts,
    /// The distances between the addresses of neighbouring lanes, and the number of requests with this distance. Empty
    /// if there were more than [`STRIDES`] different distances, so that the result does not depend on their order.
    pub(crate) strides: SmallVec<[(i64, u64); 2]>,
    /// Whether there were more than [`STRIDES`] different distances.
    pub(crate) many_strides: bool,
    /// Number of requests without a common distance, or with a distance that is not in `strides`.
    pub(crate) other_strides: u64,
    memo: Option<Box<Memo>>,
}

/// The maximum number of different distances in [`AccessCount::strides`].
const STRIDES: usize = 8;

impl AccessCount {
    /// Adds `requests` requests with the same pattern.
    pub(crate) fn count(&mut self, access: &Access<'_>, requests: u64) {
        let lanes = u64::from(access.mask.count_ones());
        let bytes = u64::from(access.bytes);
        let cost = self.memo.get_or_insert_default().cost(access);
        match cost.stride {
            Some(Some(stride)) => self.stride(stride, requests),
            Some(None) => self.other_strides += requests,
            None => {}
        }
        let mut counts = AccessCounts {
            width: access.bytes,
            requests: 1,
            threads: lanes,
            bytes: lanes * bytes,
            collisions: cost.collisions,
            ..AccessCounts::default()
        };
        match access.space {
            Space::Shared | Space::SharedCluster => {
                counts.cycles = cost.units;
                counts.ideal_cycles = cost.ideal_cycles;
            }
            // Each lane has its own local memory. Hardware stores the words with equal offsets of all lanes together.
            Space::Local => {
                counts.sectors = requests::ideal_sectors(lanes, bytes);
                counts.ideal_sectors = counts.sectors;
            }
            Space::Global | Space::Constant => {
                counts.sectors = cost.units;
                counts.ideal_sectors = requests::ideal_sectors(lanes, bytes);
            }
        }
        self.counts.add(AccessCounts {
            width: counts.width,
            requests,
            threads: requests * counts.threads,
            bytes: requests * counts.bytes,
            sectors: requests * counts.sectors,
            ideal_sectors: requests * counts.ideal_sectors,
            cycles: requests * counts.cycles,
            ideal_cycles: requests * counts.ideal_cycles,
            collisions: requests * counts.collisions,
        });
    }

    fn stride(&mut self, stride: i64, count: u64) {
        let known = self.strides.iter().position(|&(known, _)| known == stride);
        match known {
            Some(index) => self.strides[index].1 += count,
            None if self.many_strides => self.other_strides += count,
            None if self.strides.len() < STRIDES => self.strides.push((stride, count)),
            None => {
                self.other_strides += count;
                self.drop_strides();
            }
        }
    }

    fn drop_strides(&mut self) {
        self.many_strides = true;
        let counts = self.strides.drain(..).map(|(_, count)| count);
        self.other_strides += counts.sum::<u64>();
    }

    pub(crate) fn add(&mut self, other: &AccessCount) {
        self.counts.add(other.counts);
        if other.many_strides {
            self.drop_strides();
        }
        for &(stride, count) in &other.strides {
            self.stride(stride, count);
        }
        self.other_strides += other.other_strides;
    }
}

/// All counts of a kernel.
#[derive(Clone, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) runs: FxHashMap<Run, InstructionCounts>,
    pub(crate) accesses: FxHashMap<AccessKey, AccessCount>,
    pub(crate) barriers: FxHashMap<Position, BarrierCounts>,
    pub(crate) ctas: CtaBalance,
}

impl Counts {
    pub(crate) fn run(&mut self, run: &InstructionCount) {
        let key = Run {
            function: run.function,
            first: run.first,
            count: run.count,
            has_guard: run.has_guard,
        };
        self.runs.entry(key).or_default().add(InstructionCounts {
            warps: run.warps,
            active: run.active,
            executed: run.executed,
            split: run.split,
        });
    }

    /// Adds `requests` accesses with the same pattern.
    pub(crate) fn access(&mut self, access: &Access<'_>, requests: u64) {
        let key = AccessKey {
            position: access.position,
            space: access.space,
            kind: access.kind,
        };
        self.accesses
            .entry(key)
            .or_default()
            .count(access, requests);
    }

    pub(crate) fn add(&mut self, other: &Counts) {
        for (&run, &count) in &other.runs {
            self.runs.entry(run).or_default().add(count);
        }
        for (&key, count) in &other.accesses {
            self.accesses.entry(key).or_default().add(count);
        }
        for (&position, &count) in &other.barriers {
            self.barriers.entry(position).or_default().add(count);
        }
        self.ctas.add(other.ctas);
    }
}
