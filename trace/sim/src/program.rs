//! Decoded instructions: what the cores execute.
//!
//! A kernel file has few different instructions and many executions of them. A [`Template`] holds what all executions of an
//! instruction share. A [`Record`] of 8 bytes is one execution by a warp.

use std::ops::Range;

use margay_accelsim::{Dim3, Opcode};

use crate::cache::SECTORS;

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
    /// Waits for the registers of the warp, and makes the data cache of the core invalid.
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
    /// Whether its lines are numbers of words of local memory.
    pub(crate) is_local: bool,
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

/// What an access does to a line of 128 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LineAccess {
    /// The number of the line. For local memory, it is that of a word, because the words of a warp are contiguous.
    pub(crate) line: u64,
    /// A bit for each touched sector.
    pub(crate) sectors: u8,
    /// For each sector, a bit for each touched byte.
    pub(crate) bytes: [u32; SECTORS],
}

impl LineAccess {
    /// Returns whether all bytes of the touched sectors are touched.
    fn covers(&self) -> bool {
        let mut all = self.bytes.iter().enumerate();
        all.all(|(sector, bytes)| self.sectors >> sector & 1 == 0 || *bytes == u32::MAX)
    }
}

/// The bit of an encoded line that says that its touched bytes follow. Without it, all bytes of its sectors are touched.
const HAS_BYTES: u64 = 1 << 4;
/// The number of bits below the number of a line: that bit, and 4 for the sectors.
const LINE_SHIFT: u32 = 7;

/// The lines of an access.
#[derive(Clone, Debug)]
pub(crate) struct Lines<'a> {
    rest: std::slice::Iter<'a, u64>,
}

impl Iterator for Lines<'_> {
    type Item = LineAccess;

    fn next(&mut self) -> Option<LineAccess> {
        let head = *self.rest.next()?;
        let bytes = match head & HAS_BYTES {
            0 => [u32::MAX; SECTORS],
            _ => {
                let (low, high) = (*self.rest.next()?, *self.rest.next()?);
                [
                    low as u32,
                    (low >> 32) as u32,
                    high as u32,
                    (high >> 32) as u32,
                ]
            }
        };
        Some(LineAccess {
            line: head >> LINE_SHIFT,
            sectors: (head & 0xf) as u8,
            bytes,
        })
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
    /// For each access: the number of the elements that follow, then its lines. A line is one element, or three if the
    /// access is a store that does not cover the sectors that it touches.
    pub(crate) lines: Vec<u64>,
    /// The templates that this CTA is the first to use.
    pub(crate) templates: Vec<Template>,
}

impl CtaProgram {
    /// Returns the bytes of the instructions.
    pub(crate) fn bytes(&self) -> u64 {
        let records = self.records.len() * size_of::<Record>();
        let lines = self.lines.len() * size_of::<u64>();
        (records + lines + self.warps.len() * size_of::<Range<usize>>()) as u64
    }

    /// Returns the lines of an access, whose argument this is.
    pub(crate) fn access(&self, argument: u32) -> Lines<'_> {
        let start = argument as usize;
        let count = self.lines.get(start).map_or(0, |count| *count as usize);
        let lines = self.lines.get(start + 1..start + 1 + count);
        Lines {
            rest: lines.unwrap_or(&[]).iter(),
        }
    }

    /// Adds the lines of an access, and returns the argument of its record, or none if there are too many. Only stores need
    /// to know which bytes they touch.
    pub(crate) fn push_access(&mut self, lines: &[LineAccess], is_store: bool) -> Option<u32> {
        let start = self.lines.len();
        let argument = u32::try_from(start).ok()?;
        self.lines.push(0);
        for line in lines {
            let head = line.line << LINE_SHIFT | u64::from(line.sectors & 0xf);
            if !is_store || line.covers() {
                self.lines.push(head);
                continue;
            }
            let [first, second, third, fourth] = line.bytes.map(u64::from);
            let bytes = [second << 32 | first, fourth << 32 | third];
            self.lines.push(head | HAS_BYTES);
            self.lines.extend(bytes);
        }
        self.lines[start] = (self.lines.len() - start - 1) as u64;
        Some(argument)
    }
}
