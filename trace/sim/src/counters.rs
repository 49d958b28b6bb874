//! What the simulation counts.

use serde::Serialize;

/// Accesses to a cache, in sectors.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct CacheCounters {
    /// All accesses.
    pub accesses: u64,
    /// Reads of sectors that were neither there nor requested.
    pub read_misses: u64,
    /// Reads of sectors that were requested but not there yet.
    pub pending_hits: u64,
    /// Writes.
    pub writes: u64,
    /// Atomic operations.
    pub atomics: u64,
}

/// What a kernel did. All numbers are properties of the trace and the configuration.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Counters {
    /// Instructions of threads.
    pub instructions: u64,
    /// Instructions of warps.
    pub warp_instructions: u64,
    /// CTAs that ended.
    pub ctas: u64,
    /// Instructions of warps by unit, in the order of [`UNIT_NAMES`](crate::UNIT_NAMES).
    pub unit_instructions: [u64; 9],
    /// The data caches of the cores.
    pub l1: CacheCounters,
    /// The second cache.
    pub l2: CacheCounters,
    /// Sectors that device memory read.
    pub dram_reads: u64,
    /// Sectors that device memory wrote.
    pub dram_writes: u64,
    /// Accesses of device memory to rows that were not open.
    pub dram_activations: u64,
    /// Accesses of warps to shared memory.
    pub shared_accesses: u64,
    /// Passes of shared memory beyond the first of each access.
    pub bank_conflicts: u64,
    /// Arrivals of warps at barriers.
    pub barriers: u64,
}

impl CacheCounters {
    /// Adds other counts.
    pub fn add(&mut self, other: &CacheCounters) {
        self.accesses += other.accesses;
        self.read_misses += other.read_misses;
        self.pending_hits += other.pending_hits;
        self.writes += other.writes;
        self.atomics += other.atomics;
    }
}

impl Counters {
    /// Adds the counts of another kernel.
    pub fn add(&mut self, other: &Counters) {
        self.instructions += other.instructions;
        self.warp_instructions += other.warp_instructions;
        self.ctas += other.ctas;
        for (count, more) in self
            .unit_instructions
            .iter_mut()
            .zip(other.unit_instructions)
        {
            *count += more;
        }
        self.l1.add(&other.l1);
        self.l2.add(&other.l2);
        self.dram_reads += other.dram_reads;
        self.dram_writes += other.dram_writes;
        self.dram_activations += other.dram_activations;
        self.shared_accesses += other.shared_accesses;
        self.bank_conflicts += other.bank_conflicts;
        self.barriers += other.barriers;
    }
}
