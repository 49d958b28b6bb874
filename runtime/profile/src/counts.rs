//! Counts of what the warps of a kernel did, by instruction.

use margay::observe::{Access, AccessKind, InstructionRun, Position, Space};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::memo::Memo;
use crate::requests;

/// A run of instructions: the function, the index of the first instruction, and the number of instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Run {
    pub(crate) function: u32,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// How often warps and lanes executed an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct InstructionCount {
    /// Number of executions by a warp.
    pub(crate) warps: u64,
    /// Number of lanes that reached the instruction, summed over these executions.
    pub(crate) active: u64,
    /// Number of lanes that executed the instruction: those of `active` whose guard was true.
    pub(crate) executed: u64,
    /// Number of executions in which the guard was true in some lanes and false in others.
    pub(crate) split: u64,
    /// Whether the instruction has a guard.
    pub(crate) has_guard: bool,
}

impl InstructionCount {
    pub(crate) fn add(&mut self, other: InstructionCount) {
        self.warps += other.warps;
        self.active += other.active;
        self.executed += other.executed;
        self.split += other.split;
        self.has_guard |= other.has_guard;
    }
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
    /// The size in bytes of the access of a lane.
    pub(crate) width: u32,
    /// Number of requests: executions by a warp.
    pub(crate) requests: u64,
    /// Number of lanes, summed over the requests.
    pub(crate) lanes: u64,
    /// Number of bytes that lanes accessed; a byte that several lanes access counts several times.
    pub(crate) bytes: u64,
    /// Global and local memory: number of 32-byte sectors.
    pub(crate) sectors: u64,
    /// Global and local memory: number of sectors if the bytes of each request were contiguous and aligned.
    pub(crate) ideal_sectors: u64,
    /// Shared memory: number of cycles.
    pub(crate) cycles: u64,
    /// Shared memory: number of cycles without bank conflicts.
    pub(crate) ideal_cycles: u64,
    /// Atomic operations: number of lanes whose address equals that of a lower lane of the request.
    pub(crate) collisions: u64,
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
    /// Adds a request.
    pub(crate) fn count(&mut self, access: &Access<'_>) {
        let lanes = u64::from(access.mask.count_ones());
        let bytes = u64::from(access.bytes);
        self.width = self.width.max(access.bytes);
        self.requests += 1;
        self.lanes += lanes;
        self.bytes += lanes * bytes;
        let cost = self.memo.get_or_insert_default().cost(access);
        match cost.stride {
            Some(Some(stride)) => self.stride(stride, 1),
            Some(None) => self.other_strides += 1,
            None => {}
        }
        self.collisions += cost.collisions;
        match access.space {
            Space::Shared | Space::SharedCluster => {
                self.cycles += cost.units;
                self.ideal_cycles += cost.ideal_cycles;
            }
            // Each lane has its own local memory. Hardware stores the words with equal offsets of all lanes together.
            Space::Local => {
                let sectors = requests::ideal_sectors(lanes, bytes);
                self.sectors += sectors;
                self.ideal_sectors += sectors;
            }
            Space::Global | Space::Constant => {
                self.sectors += cost.units;
                self.ideal_sectors += requests::ideal_sectors(lanes, bytes);
            }
        }
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
        self.width = self.width.max(other.width);
        self.requests += other.requests;
        self.lanes += other.lanes;
        self.bytes += other.bytes;
        self.sectors += other.sectors;
        self.ideal_sectors += other.ideal_sectors;
        self.cycles += other.cycles;
        self.ideal_cycles += other.ideal_cycles;
        self.collisions += other.collisions;
        if other.many_strides {
            self.drop_strides();
        }
        for &(stride, count) in &other.strides {
            self.stride(stride, count);
        }
        self.other_strides += other.other_strides;
    }
}

/// Counts of the arrivals at a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct BarrierCount {
    /// Number of times that the barrier completed.
    pub(crate) phases: u64,
    /// Number of arrivals of warps.
    pub(crate) warps: u64,
    /// Number of instructions that the arriving warps executed since their previous barrier.
    pub(crate) executed: u64,
    /// Number of instructions that these warps could have executed until the warp with the most instructions arrived,
    /// in addition to `executed`.
    pub(crate) waited: u64,
}

impl BarrierCount {
    pub(crate) fn add(&mut self, other: BarrierCount) {
        self.phases += other.phases;
        self.warps += other.warps;
        self.executed += other.executed;
        self.waited += other.waited;
    }
}

/// The instructions that CTAs executed: the number of CTAs, and the smallest, the largest and the total number of
/// instructions of warps.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct CtaCount {
    pub(crate) ctas: u64,
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) sum: u64,
}

impl CtaCount {
    pub(crate) fn cta(&mut self, instructions: u64) {
        self.add(CtaCount {
            ctas: 1,
            least: instructions,
            most: instructions,
            sum: instructions,
        });
    }

    pub(crate) fn add(&mut self, other: CtaCount) {
        self.least = match (self.ctas, other.ctas) {
            (0, _) => other.least,
            (_, 0) => self.least,
            _ => self.least.min(other.least),
        };
        self.most = self.most.max(other.most);
        self.ctas += other.ctas;
        self.sum += other.sum;
    }
}

/// All counts of a kernel.
#[derive(Clone, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) runs: FxHashMap<Run, InstructionCount>,
    pub(crate) accesses: FxHashMap<AccessKey, AccessCount>,
    pub(crate) barriers: FxHashMap<Position, BarrierCount>,
    pub(crate) ctas: CtaCount,
}

impl Counts {
    pub(crate) fn run(&mut self, run: &InstructionRun) {
        let key = Run {
            function: run.function,
            first: run.first,
            count: run.count,
        };
        let (active, executed) = (run.active.count_ones(), run.mask.count_ones());
        self.runs.entry(key).or_default().add(InstructionCount {
            warps: 1,
            active: active.into(),
            executed: executed.into(),
            split: u64::from(executed != 0 && executed != active),
            has_guard: run.has_guard,
        });
    }

    pub(crate) fn access(&mut self, access: &Access<'_>) {
        let key = AccessKey {
            position: access.position,
            space: access.space,
            kind: access.kind,
        };
        self.accesses.entry(key).or_default().count(access);
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
