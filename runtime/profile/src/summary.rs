//! Totals of a kernel and of each of its source lines, computed from the rows of a profile.

use std::collections::BTreeMap;

use crate::document::{AccessRow, InstructionRow, KernelProfile, SourceRow};
use crate::opcode::{Class, Precision, lane_operations, warp_operations};
use crate::requests::SECTOR_BYTES;

/// Totals of instructions and accesses.
///
/// ```
/// use margay_profile::Summary;
///
/// let nothing = Summary::default();
/// assert_eq!((nothing.flops.all(), nothing.lanes_per_warp()), (0, None));
/// ```
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Summary {
    /// Number of executions of instructions by warps.
    pub warps: u64,
    /// Number of threads that reached an instruction, summed over these executions.
    pub active: u64,
    /// Number of threads that executed an instruction.
    pub executed: u64,
    /// The executions by warps, by the class of the instruction.
    pub classes: BTreeMap<Class, u64>,
    /// Floating-point operations.
    pub flops: Flops,
    /// Number of conditional branches that warps executed.
    pub branches: u64,
    /// Number of these branches that some threads of the warp took and others did not.
    pub divergent: u64,
    /// Accesses to global memory.
    pub global: Traffic,
    /// Accesses to shared memory.
    pub shared: Traffic,
    /// Accesses to local memory.
    pub local: Traffic,
    /// Accesses to constant memory.
    pub constant: Traffic,
    /// Number of atomic operations of threads.
    pub atomics: u64,
    /// Number of these whose address equals that of a lower thread of the warp.
    pub collisions: u64,
}

/// Floating-point operations by precision. A fused multiply-add counts as two operations.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Flops(pub BTreeMap<Precision, u64>);

impl Flops {
    /// Returns the number of operations of all precisions.
    pub fn all(&self) -> u64 {
        self.0.values().sum()
    }

    fn add(&mut self, precision: Precision, count: u64) {
        if count != 0 {
            *self.0.entry(precision).or_default() += count;
        }
    }
}

/// Accesses to one kind of memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Number of requests: executions by a warp.
    pub requests: u64,
    /// Number of bytes that threads read.
    pub loaded: u64,
    /// Number of bytes that threads wrote, including atomic operations.
    pub stored: u64,
    /// Number of 32-byte sectors; 0 for shared memory.
    pub sectors: u64,
    /// The number of sectors if the bytes of each request were contiguous and aligned.
    pub ideal_sectors: u64,
    /// Shared memory: number of cycles.
    pub cycles: u64,
    /// Shared memory: number of cycles without bank conflicts.
    pub ideal_cycles: u64,
}

impl Traffic {
    /// Returns the number of bytes that threads read and wrote.
    pub fn bytes(&self) -> u64 {
        self.loaded + self.stored
    }

    /// Returns the number of bytes of the sectors.
    pub fn sector_bytes(&self) -> u64 {
        self.sectors * SECTOR_BYTES
    }

    fn add(&mut self, row: &AccessRow) {
        self.requests += row.counts.requests;
        match row.kind.as_str() {
            "load" => self.loaded += row.counts.bytes,
            _ => self.stored += row.counts.bytes,
        }
        self.sectors += row.counts.sectors;
        self.ideal_sectors += row.counts.ideal_sectors;
        self.cycles += row.counts.cycles;
        self.ideal_cycles += row.counts.ideal_cycles;
    }
}

impl Summary {
    /// Returns the totals of a kernel.
    pub fn of(kernel: &KernelProfile) -> Summary {
        let mut summary = Summary::default();
        for row in &kernel.instructions {
            summary.instruction(row);
        }
        for row in &kernel.accesses {
            summary.access(row);
        }
        summary
    }

    /// Returns the average number of threads of a warp that execute an instruction; `None` without instructions.
    pub fn lanes_per_warp(&self) -> Option<f64> {
        (self.warps != 0).then(|| self.executed as f64 / self.warps as f64)
    }

    /// Returns the floating-point operations for each byte of the sectors of global memory; `None` without sectors.
    pub fn intensity(&self) -> Option<f64> {
        let bytes = self.global.sector_bytes();
        (bytes != 0).then(|| self.flops.all() as f64 / bytes as f64)
    }

    fn instruction(&mut self, row: &InstructionRow) {
        self.warps += row.counts.warps;
        self.active += row.counts.active;
        self.executed += row.counts.executed;
        *self.classes.entry(Class::of(&row.opcode)).or_default() += row.counts.warps;
        if let Some((precision, count)) = lane_operations(&row.opcode) {
            self.flops.add(precision, count * row.counts.executed);
        }
        if let Some((precision, count)) = warp_operations(&row.opcode) {
            self.flops.add(precision, count * row.counts.warps);
        }
        if is_conditional_branch(row) {
            self.branches += row.counts.warps;
            self.divergent += row.counts.split;
        }
    }

    fn access(&mut self, row: &AccessRow) {
        match row.space.as_str() {
            "global" => self.global.add(row),
            "local" => self.local.add(row),
            "const" => self.constant.add(row),
            _ => self.shared.add(row),
        }
        if row.kind == "atomic" {
            self.atomics += row.counts.threads;
            self.collisions += row.counts.collisions;
        }
    }
}

/// Returns whether an instruction is a branch with a guard.
fn is_conditional_branch(row: &InstructionRow) -> bool {
    row.guarded && (row.opcode == "bra" || row.opcode.starts_with("bra."))
}

/// Totals of a source line, or of a line of the PTX text if there is no line information.
#[derive(Clone, PartialEq, Debug)]
pub struct LineSummary {
    /// The source file; `None` for a line of the PTX text.
    pub file: Option<String>,
    /// The line.
    pub line: u32,
    /// The totals.
    pub summary: Summary,
}

impl LineSummary {
    /// Returns the totals of all lines of a kernel, sorted by file and line. Code that was inlined counts for the line
    /// of the outermost call.
    pub fn of(kernel: &KernelProfile) -> Vec<LineSummary> {
        let mut lines: BTreeMap<(Option<String>, u32), Summary> = BTreeMap::new();
        for row in &kernel.instructions {
            lines.entry(key(&row.source)).or_default().instruction(row);
        }
        for row in &kernel.accesses {
            lines.entry(key(&row.source)).or_default().access(row);
        }
        let lines = lines
            .into_iter()
            .map(|((file, line), summary)| LineSummary {
                file,
                line,
                summary,
            });
        lines.collect()
    }
}

fn key(source: &SourceRow) -> (Option<String>, u32) {
    match &source.file {
        Some(file) => (Some(file.clone()), source.line),
        None => (None, source.ptx_line),
    }
}
