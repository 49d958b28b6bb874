//! The profile as a document: plain data with a stable JSON form.
//!
//! All rows are sorted, so two runs of a deterministic program give equal documents except for the times.

use std::collections::BTreeMap;
use std::fmt;

use margay::occupancy::Occupancy;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The value of [`Profile::format`].
pub const FORMAT: &str = "margay-profile";
/// The version of the format that this crate writes.
pub(crate) const VERSION: u32 = 1;

/// The profile of a program.
///
/// ```
/// use margay_profile::{Options, Profiler, Profile};
///
/// let profile = Profiler::new(Options::default()).profile();
/// let text = profile.to_json();
/// assert_eq!(Profile::from_json(text.as_bytes()).unwrap().kernels, []);
/// assert!(Profile::from_json(b"{}").is_err());
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// [`FORMAT`].
    pub format: String,
    /// The version of the format: 1.
    pub version: u32,
    /// The program and its arguments.
    #[serde(default)]
    pub program: String,
    /// Number of processes that used CUDA.
    pub processes: u32,
    /// Time from the first use of CUDA to the end, in seconds; for several processes, the longest.
    pub seconds: f64,
    /// Number of bytes of all allocations.
    pub allocated_bytes: u64,
    /// The largest number of bytes that were allocated at the same time; for several processes, the sum.
    pub peak_bytes: u64,
    /// Copies and fills.
    pub copies: Vec<CopyRow>,
    /// The kernels, the one with the most executed instructions first.
    pub kernels: Vec<KernelProfile>,
    /// The launches in the order in which they ended, at most 20,000.
    pub timeline: Vec<Slice>,
    /// Number of launches that are missing in `timeline`.
    pub dropped_slices: u64,
}

/// Copies in one direction, or fills.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CopyRow {
    /// The direction, such as `host to device`; `fill` for fills.
    pub direction: String,
    /// Number of copies.
    pub count: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// A launch in the timeline.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Slice {
    /// The name of the kernel.
    pub kernel: String,
    /// The time at which the launch began, in seconds.
    pub start: f64,
    /// The duration in seconds.
    pub seconds: f64,
}

/// The shape of a launch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct LaunchShape {
    /// Number of blocks in each dimension.
    pub grid: [u32; 3],
    /// Number of threads of a block in each dimension.
    pub block: [u32; 3],
    /// Number of blocks of a cluster in each dimension.
    pub cluster: [u32; 3],
    /// Number of bytes of static shared memory of a block.
    pub static_shared: u32,
    /// Number of bytes of dynamic shared memory of a block.
    pub dynamic_shared: u32,
}

impl LaunchShape {
    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        product(self.grid)
    }

    /// Returns the number of threads of a block.
    pub fn threads_of_block(&self) -> u64 {
        product(self.block)
    }
}

/// Returns the product of three sizes; the largest number if it does not fit.
fn product(sizes: [u32; 3]) -> u64 {
    let factors = sizes.iter().map(|&size| u64::from(size));
    factors.fold(1, u64::saturating_mul)
}

/// Everything that was counted for a kernel.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KernelProfile {
    /// The name in the PTX text.
    pub name: String,
    /// The demangled name, if it differs from `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demangled: Option<String>,
    /// Number of launches.
    pub launches: u64,
    /// Number of launches that failed.
    pub failed_launches: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of threads.
    pub threads: u64,
    /// Time of all launches on this machine, with the cost of the profiler, in seconds.
    pub seconds: f64,
    /// Number of registers of a thread; 0 if it is unknown.
    pub registers: u32,
    /// The shapes of the launches, with the number of launches of each.
    pub shapes: Vec<(LaunchShape, u64)>,
    /// The occupancy of the most frequent shape on GPUs.
    pub occupancy: Vec<OccupancyRow>,
    /// The instructions that were executed.
    pub instructions: Vec<InstructionRow>,
    /// The accesses to memory.
    pub accesses: Vec<AccessRow>,
    /// The barriers.
    pub barriers: Vec<BarrierRow>,
    /// How evenly the work is distributed over the blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<CtaBalance>,
    /// Reuse distances in global memory, if they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<ReuseRow>,
}

/// The position of an instruction in the source.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
pub struct SourceRow {
    /// The source file; `None` if the PTX text has no line information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in the file; 0 without a file. For inlined code, the line of the outermost call.
    pub line: u32,
    /// File and line in each inlined function, from the outermost to the innermost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<(String, u32)>,
    /// The line in the PTX text.
    pub ptx_line: u32,
}

/// How often an instruction was executed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InstructionRow {
    /// The name of the function.
    pub function: String,
    /// The index of the instruction in its function, in the order of the text.
    pub index: u32,
    /// The opcode with its modifiers.
    pub opcode: String,
    /// Whether the instruction has a guard.
    pub guarded: bool,
    /// The position.
    #[serde(flatten)]
    pub source: SourceRow,
    /// The counts.
    #[serde(flatten)]
    pub counts: InstructionCounts,
}

/// Counts of the executions of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct InstructionCounts {
    /// Number of executions by a warp.
    pub warps: u64,
    /// Number of threads that reached the instruction.
    pub active: u64,
    /// Number of threads that executed the instruction, because its guard was true. For a branch, the threads that
    /// took it.
    pub executed: u64,
    /// Number of executions in which the guard was true in some threads of the warp and false in others.
    pub split: u64,
}

impl InstructionCounts {
    pub(crate) fn add(&mut self, other: InstructionCounts) {
        self.warps += other.warps;
        self.active += other.active;
        self.executed += other.executed;
        self.split += other.split;
    }
}

/// The accesses of one instruction to one kind of memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AccessRow {
    /// The position.
    #[serde(flatten)]
    pub source: SourceRow,
    /// The kind of memory: `global`, `shared`, `shared::cluster`, `local` or `const`.
    pub space: String,
    /// `load`, `store` or `atomic`.
    pub kind: String,
    /// The counts.
    #[serde(flatten)]
    pub counts: AccessCounts,
    /// The distances between the addresses of neighbouring threads.
    pub strides: Vec<StrideRow>,
    /// Number of requests without a common distance.
    pub irregular: u64,
}

/// Counts of the accesses of one instruction to one kind of memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct AccessCounts {
    /// The number of bytes that a thread accesses in one execution.
    pub width: u32,
    /// Number of requests: executions by a warp.
    pub requests: u64,
    /// Number of accesses of threads.
    pub threads: u64,
    /// Number of bytes that threads accessed.
    pub bytes: u64,
    /// Global, constant and local memory: number of 32-byte sectors.
    pub sectors: u64,
    /// The number of sectors if the bytes of each request were contiguous and aligned.
    pub ideal_sectors: u64,
    /// Shared memory: number of cycles.
    pub cycles: u64,
    /// Shared memory: number of cycles without bank conflicts.
    pub ideal_cycles: u64,
    /// Atomic operations: number of threads whose address equals that of another, lower thread of the request.
    pub collisions: u64,
}

impl AccessCounts {
    pub(crate) fn add(&mut self, other: AccessCounts) {
        self.width = self.width.max(other.width);
        self.requests += other.requests;
        self.threads += other.threads;
        self.bytes += other.bytes;
        self.sectors += other.sectors;
        self.ideal_sectors += other.ideal_sectors;
        self.cycles += other.cycles;
        self.ideal_cycles += other.ideal_cycles;
        self.collisions += other.collisions;
    }
}

/// A distance between the addresses of neighbouring threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct StrideRow {
    /// The distance in bytes.
    pub bytes: i64,
    /// Number of requests.
    pub requests: u64,
}

/// The arrivals at a barrier.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BarrierRow {
    /// The position.
    #[serde(flatten)]
    pub source: SourceRow,
    /// The counts.
    #[serde(flatten)]
    pub counts: BarrierCounts,
}

/// Counts of the arrivals at a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct BarrierCounts {
    /// Number of times that the barrier completed.
    pub phases: u64,
    /// Number of arrivals of warps.
    pub warps: u64,
    /// Number of instructions that the warps executed since their previous barrier.
    pub executed: u64,
    /// Number of instructions by which the warps were behind the warp with the most instructions, summed over the
    /// warps: what they wait.
    pub waited: u64,
}

impl BarrierCounts {
    pub(crate) fn add(&mut self, other: BarrierCounts) {
        self.phases += other.phases;
        self.warps += other.warps;
        self.executed += other.executed;
        self.waited += other.waited;
    }
}

/// How evenly the instructions are distributed over the blocks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct CtaBalance {
    /// Number of blocks.
    pub blocks: u64,
    /// The smallest number of instructions (of warps) of a block.
    pub least: u64,
    /// The largest number.
    pub most: u64,
    /// The sum over all blocks.
    pub sum: u64,
    /// The sum over all launches of the number of blocks, multiplied by the largest number of the launch.
    #[serde(default)]
    pub longest: u64,
}

impl CtaBalance {
    pub(crate) fn add(&mut self, other: CtaBalance) {
        self.least = match (self.blocks, other.blocks) {
            (0, _) => other.least,
            (_, 0) => self.least,
            _ => self.least.min(other.least),
        };
        self.most = self.most.max(other.most);
        self.blocks += other.blocks;
        self.sum += other.sum;
        self.longest = self.longest.saturating_add(other.longest).min(LARGEST);
    }

    /// Returns the balance of one block.
    pub(crate) fn of_block(instructions: u64) -> CtaBalance {
        CtaBalance {
            blocks: 1,
            least: instructions,
            most: instructions,
            sum: instructions,
            longest: 0,
        }
    }

    /// Returns the balance to add when the launch whose blocks `self` describes has ended.
    pub(crate) fn end_of_launch(self) -> CtaBalance {
        CtaBalance {
            longest: self.blocks.saturating_mul(self.most).min(LARGEST),
            ..CtaBalance::default()
        }
    }
}

/// The occupancy of a multiprocessor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OccupancyRow {
    /// The compute capability of the GPU.
    pub capability: String,
    /// Number of resident blocks.
    pub blocks: u32,
    /// Number of resident warps.
    pub warps: u32,
    /// The maximum number of resident warps.
    pub max_warps: u32,
    /// The resource that permits the fewest blocks.
    pub limiter: String,
}

/// Reuse distances over lines of 128 bytes. The distance of an access is the number of other lines that the launch has
/// accessed since the last access to the same line, with the blocks in grid order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReuseRow {
    /// Number of different lines that a launch accesses, summed over the launches.
    pub lines: u64,
    /// Number of accesses to a line that was accessed before: entry 0 for distance 0, entry `n` for distances from
    /// `2^(n-1)` to `2^n - 1`.
    pub histogram: Vec<u64>,
}

/// A file is not a profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError(String);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}

impl Profile {
    /// Returns the JSON text of the profile.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads a profile from its JSON text.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON, not a profile of a supported version, or contains a count above
    /// 2^50, so that sums of counts do not overflow.
    pub fn from_json(text: &[u8]) -> Result<Profile, ReadError> {
        let wrong = |error: serde_json::Error| ReadError(format!("not a profile: {error}"));
        let value: Value = serde_json::from_slice(text).map_err(wrong)?;
        if has_too_large(&value) {
            return Err(ReadError("a count is larger than 2^50".to_owned()));
        }
        let profile: Profile = serde_json::from_value(value).map_err(wrong)?;
        match (profile.format.as_str(), profile.version) {
            (FORMAT, VERSION) => Ok(profile),
            (FORMAT, version) => Err(ReadError(format!(
                "version {version} of the profile format is not supported"
            ))),
            _ => Err(ReadError("not a profile".to_owned())),
        }
    }

    /// Adds the profile of another process of the same program.
    pub fn merge(&mut self, other: Profile) {
        self.processes += other.processes;
        self.seconds = self.seconds.max(other.seconds);
        self.allocated_bytes += other.allocated_bytes;
        self.peak_bytes += other.peak_bytes;
        for row in other.copies {
            match self
                .copies
                .iter_mut()
                .find(|known| known.direction == row.direction)
            {
                Some(known) => {
                    known.count += row.count;
                    known.bytes += row.bytes;
                }
                None => self.copies.push(row),
            }
        }
        self.copies.sort_by(|a, b| a.direction.cmp(&b.direction));
        self.kernels.extend(other.kernels);
        sort(&mut self.kernels);
        self.timeline.extend(other.timeline);
        self.dropped_slices += other.dropped_slices;
    }
}

/// The largest count that [`Profile::from_json`] accepts.
const LARGEST: u64 = 1 << 50;

fn has_too_large(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_u64().is_some_and(|number| number > LARGEST),
        Value::Array(all) => all.iter().any(has_too_large),
        Value::Object(all) => all.values().any(has_too_large),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

impl KernelProfile {
    /// Returns the demangled name, or the name if it is not mangled.
    pub fn title(&self) -> &str {
        self.demangled.as_deref().unwrap_or(&self.name)
    }

    /// Returns whether two profiles can be of the same code: their names are equal, and so are the instructions that
    /// both have executed.
    fn is_same(&self, other: &KernelProfile) -> bool {
        let known: FxHashMap<_, _> = other
            .instructions
            .iter()
            .map(|row| ((&row.function, row.index), row))
            .collect();
        let is_equal = |row: &InstructionRow| {
            let other = known.get(&(&row.function, row.index));
            other.is_none_or(|other| other.opcode == row.opcode && other.source == row.source)
        };
        self.name == other.name
            && self.registers == other.registers
            && self.instructions.iter().all(is_equal)
    }

    fn merge(&mut self, other: KernelProfile) {
        self.launches += other.launches;
        self.failed_launches += other.failed_launches;
        self.blocks += other.blocks;
        self.threads += other.threads;
        self.seconds += other.seconds;
        let mut shapes: BTreeMap<LaunchShape, u64> = self.shapes.drain(..).collect();
        for (shape, count) in other.shapes {
            *shapes.entry(shape).or_default() += count;
        }
        self.shapes = shapes.into_iter().collect();
        self.occupancy = occupancy(&self.shapes, self.registers);
        let known: FxHashMap<(String, u32), usize> = (0..self.instructions.len())
            .map(|at| {
                let row = &self.instructions[at];
                ((row.function.clone(), row.index), at)
            })
            .collect();
        for row in other.instructions {
            match known.get(&(row.function.clone(), row.index)) {
                Some(&at) => self.instructions[at].counts.add(row.counts),
                None => self.instructions.push(row),
            }
        }
        for row in other.accesses {
            let is_same = |known: &&mut AccessRow| {
                known.source == row.source && known.space == row.space && known.kind == row.kind
            };
            match self.accesses.iter_mut().find(is_same) {
                Some(known) => known.merge(row),
                None => self.accesses.push(row),
            }
        }
        for row in other.barriers {
            match self
                .barriers
                .iter_mut()
                .find(|known| known.source == row.source)
            {
                Some(known) => known.counts.add(row.counts),
                None => self.barriers.push(row),
            }
        }
        self.balance = match (self.balance, other.balance) {
            (Some(mut a), Some(b)) => {
                a.add(b);
                Some(a)
            }
            (a, b) => a.or(b),
        };
        self.reuse = match (self.reuse.take(), other.reuse) {
            (Some(mut a), Some(b)) => {
                a.lines += b.lines;
                if a.histogram.len() < b.histogram.len() {
                    a.histogram.resize(b.histogram.len(), 0);
                }
                for (known, count) in a.histogram.iter_mut().zip(b.histogram) {
                    *known += count;
                }
                Some(a)
            }
            (a, b) => a.or(b),
        };
        self.sort();
    }

    pub(crate) fn sort(&mut self) {
        self.instructions
            .sort_by(|a, b| (&a.function, a.index).cmp(&(&b.function, b.index)));
        self.accesses.sort_by(|a, b| {
            let key = |row: &AccessRow| (row.source.ptx_line, row.space.clone(), row.kind.clone());
            key(a).cmp(&key(b)).then_with(|| a.source.cmp(&b.source))
        });
        self.barriers
            .sort_by(|a, b| (a.source.ptx_line, &a.source).cmp(&(b.source.ptx_line, &b.source)));
    }

    /// Returns the number of executions of instructions by warps.
    pub fn warp_instructions(&self) -> u64 {
        self.instructions.iter().map(|row| row.counts.warps).sum()
    }
}

impl AccessRow {
    fn merge(&mut self, other: AccessRow) {
        self.counts.add(other.counts);
        self.irregular += other.irregular;
        let mut strides: BTreeMap<i64, u64> = BTreeMap::new();
        for row in self.strides.iter().chain(&other.strides) {
            *strides.entry(row.bytes).or_default() += row.requests;
        }
        self.strides = strides
            .into_iter()
            .map(|(bytes, requests)| StrideRow { bytes, requests })
            .collect();
    }
}

/// Adds the profiles of the same code to one profile, and sorts the kernels: the one with the most executed
/// instructions first.
pub(crate) fn sort(kernels: &mut Vec<KernelProfile>) {
    let mut different: Vec<KernelProfile> = Vec::new();
    for kernel in kernels.drain(..) {
        match different.iter_mut().find(|known| known.is_same(&kernel)) {
            Some(known) => known.merge(kernel),
            None => different.push(kernel),
        }
    }
    different.sort_by(|a, b| {
        let key = |kernel: &KernelProfile| (kernel.warp_instructions(), kernel.threads);
        key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name))
    });
    *kernels = different;
}

/// The compute capabilities for which profiles state the occupancy.
const CAPABILITIES: [&str; 8] = ["7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"];

/// Returns the occupancy of GPUs for the most frequent shape.
pub(crate) fn occupancy(shapes: &[(LaunchShape, u64)], registers: u32) -> Vec<OccupancyRow> {
    let Some((shape, _)) = shapes.iter().max_by_key(|(_, count)| *count) else {
        return Vec::new();
    };
    let shared = u64::from(shape.static_shared) + u64::from(shape.dynamic_shared);
    let threads = shape.threads_of_block() as u32;
    let rows = CAPABILITIES.iter().filter_map(|capability| {
        let of = Occupancy::of(capability, threads, registers, shared)?;
        Some(OccupancyRow {
            capability: (*capability).to_owned(),
            blocks: of.ctas,
            warps: of.warps,
            max_warps: of.max_warps,
            limiter: of.limiter.name().to_owned(),
        })
    });
    rows.collect()
}
