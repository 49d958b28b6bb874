//! Decoded instructions: what the cores execute.
//!
//! A kernel file has few different instructions and many executions of them. A [`Template`] holds what all executions of an
//! instruction share. A [`Record`] of 8 bytes is one execution by a warp.

use std::ops::Range;

use margay_accelsim::{Dim3, Opcode};

/// The unit that an instruction occupies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub(crate) enum UnitKind {
    /// Single precision.
    Fp32,
    /// Integers.
    Integer,
    /// Double precision.
    Fp64,
    /// Special functions.
    Special,
    /// Branches.
    Branch,
    /// Textures.
    Texture,
    /// Matrices.
    Matrix,
    /// Uniform operations.
    Uniform,
    /// Loads and stores.
    Memory,
}

impl UnitKind {
    /// The number of kinds.
    pub(crate) const COUNT: usize = 9;
    /// The names for reports, in order.
    pub(crate) const NAMES: [&'static str; UnitKind::COUNT] = [
        "fp32", "integer", "fp64", "special", "branch", "texture", "matrix", "uniform", "memory",
    ];
}

/// What an instruction does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Action {
    /// Computes in its unit.
    Compute,
    /// Ends its lanes.
    Exit,
    /// Waits for the other warps of the CTA.
    Barrier,
    /// Waits for the accesses of the warp.
    MemoryBarrier,
    /// Accesses shared memory. The argument is the number of passes.
    Shared {
        /// Whether the warp gets no value.
        is_store: bool,
        /// Whether it is atomic.
        is_atomic: bool,
    },
    /// Accesses global or local memory. The argument is where [`CtaProgram::lines`] has its lines.
    Global(Access),
    /// Ends a group of asynchronous copies.
    CommitCopies,
    /// Waits for groups of asynchronous copies. The argument is the number of youngest groups that may be open.
    WaitForCopies,
}

/// An access to global or local memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Access {
    /// What it does.
    pub(crate) kind: AccessKind,
    /// Whether it goes to the second cache directly.
    pub(crate) bypasses_l1: bool,
}

/// What an access to global or local memory does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum AccessKind {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads, modifies and writes in the second cache.
    Atomic,
    /// Copies to shared memory.
    Copy,
}

/// The maximum number of sources.
pub(crate) const MAX_SOURCES: usize = 5;

/// An instruction of a kernel, without what differs between executions.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// What it does.
    pub(crate) action: Action,
    /// Where it executes.
    pub(crate) unit: UnitKind,
    /// Cycles from the start in the unit to the result.
    pub(crate) latency: u32,
    /// Cycles that the unit is occupied.
    pub(crate) interval: u32,
    /// The destination, then the sources: register numbers from 1, then 0.
    pub(crate) registers: [u32; MAX_SOURCES + 1],
    /// The number of registers in use.
    pub(crate) register_count: u8,
    /// Whether the first register is a destination.
    pub(crate) has_destination: bool,
    /// The offset in the function.
    pub(crate) pc: u64,
    /// The opcode.
    pub(crate) opcode: Opcode,
}

impl Template {
    /// Returns the destination and the sources.
    pub(crate) fn registers(&self) -> &[u32] {
        &self.registers[..usize::from(self.register_count)]
    }
}

/// The number of bits that hold the number of active lanes.
const LANE_BITS: u32 = 6;

/// The maximum number of templates of a kernel.
pub(crate) const MAX_TEMPLATES: usize = 1 << (32 - LANE_BITS);

/// An execution of an instruction by a warp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    template_and_lanes: u32,
    /// What [`Action`] says.
    pub(crate) argument: u32,
}

const _: () = assert!(size_of::<Record>() == 8);

impl Record {
    /// Returns an execution of the template with this number, below [`MAX_TEMPLATES`], by at most 32 lanes.
    pub(crate) fn new(template: usize, lanes: u32, argument: u32) -> Record {
        debug_assert!(template < MAX_TEMPLATES && lanes <= 32);
        Record {
            template_and_lanes: (template as u32) << LANE_BITS | lanes,
            argument,
        }
    }

    /// Returns the number of the template.
    pub(crate) fn template(self) -> usize {
        (self.template_and_lanes >> LANE_BITS) as usize
    }

    /// Returns the number of active lanes.
    pub(crate) fn lanes(self) -> u32 {
        self.template_and_lanes & ((1 << LANE_BITS) - 1)
    }
}

/// The sectors of a line of 128 bytes that an access touches: the number of the line, a bit that is set if a store covers
/// each touched sector fully, and 4 bits for the sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LineAccess(u64);

impl LineAccess {
    const FULL: u64 = 1 << 4;
    const LINE_SHIFT: u32 = 7;

    /// Returns the access to the sectors of the line `address / 128`.
    pub(crate) fn new(line: u64, sectors: u8, covers: bool) -> LineAccess {
        let full = if covers { LineAccess::FULL } else { 0 };
        LineAccess(line << LineAccess::LINE_SHIFT | full | u64::from(sectors & 0xf))
    }

    /// Returns the number of the line.
    pub(crate) fn line(self) -> u64 {
        self.0 >> LineAccess::LINE_SHIFT
    }

    /// Returns the touched sectors.
    pub(crate) fn sectors(self) -> u8 {
        (self.0 & 0xf) as u8
    }

    /// Returns whether all bytes of the touched sectors are written.
    pub(crate) fn covers(self) -> bool {
        self.0 & LineAccess::FULL != 0
    }
}

/// The instructions of a CTA.
#[derive(Debug)]
pub(crate) struct CtaProgram {
    /// The position in the grid.
    pub(crate) cta: Dim3,
    /// For each warp of the CTA, its records.
    pub(crate) warps: Vec<Range<usize>>,
    /// The executed instructions.
    pub(crate) records: Vec<Record>,
    /// For each access: the number of its lines, then the lines.
    pub(crate) lines: Vec<LineAccess>,
    /// The templates that this CTA is the first to use.
    pub(crate) templates: Vec<Template>,
}

impl CtaProgram {
    /// Returns the bytes of the instructions.
    pub(crate) fn bytes(&self) -> u64 {
        let records = self.records.len() * size_of::<Record>();
        let lines = self.lines.len() * size_of::<LineAccess>();
        (records + lines + self.warps.len() * size_of::<Range<usize>>()) as u64
    }

    /// Returns the lines of an access, whose argument this is.
    pub(crate) fn access(&self, argument: u32) -> &[LineAccess] {
        let start = argument as usize;
        let count = self.lines.get(start).map_or(0, |count| count.0 as usize);
        self.lines.get(start + 1..start + 1 + count).unwrap_or(&[])
    }

    /// Adds the lines of an access, and returns the argument of its record, or none if there are too many.
    pub(crate) fn push_access(&mut self, lines: &[LineAccess]) -> Option<u32> {
        let start = u32::try_from(self.lines.len()).ok()?;
        self.lines.push(LineAccess(lines.len() as u64));
        self.lines.extend_from_slice(lines);
        Some(start)
    }
}
