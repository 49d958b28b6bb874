//! Counts of a kernel file.

use std::collections::BTreeMap;
use std::path::Path;

use rustc_hash::FxHashMap;

use crate::addresses::Addresses;
use crate::error::ReadError;
use crate::events::{Event, Events, Numbers, warp_index};
use crate::header::Header;
use crate::instruction::Instruction;
use crate::opcode::{Class, MemoryKind, Opcode, OpcodeMap, Space};
use crate::options::ReadOptions;
use crate::sectors::{local_sectors, sectors};

/// The counts of a kernel. They do not depend on the form of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// The header.
    pub header: Header,
    /// The number of CTAs with instructions.
    pub ctas: u64,
    /// The number of warps with instructions.
    pub warps: u64,
    /// The number of instructions, each counted once for a warp.
    pub warp_instructions: u64,
    /// The number of instructions, each counted once for each lane of its mask.
    pub thread_instructions: u64,
    /// The number of instructions without any lane.
    pub empty_instructions: u64,
    /// The instructions with addresses. Generic accesses count for the memory that they reach.
    pub memory: BTreeMap<(Space, MemoryKind), AccessCounts>,
    /// The number of warp instructions of each execution unit. Without those that the opcode map does not have.
    pub classes: BTreeMap<Class, u64>,
    /// The instructions of each opcode, by its full text.
    pub opcodes: BTreeMap<String, OpcodeCounts>,
}

/// The counts of accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccessCounts {
    /// The number of warp instructions.
    pub instructions: u64,
    /// The number of lanes, summed over the instructions.
    pub lanes: u64,
    /// The number of bytes: lanes times the width that the opcode names ([`Opcode::width`]).
    pub bytes: u64,
    /// The number of 32-byte sectors, summed over the instructions. 0 for shared memory.
    pub sectors: u64,
}

/// The counts of an opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpcodeCounts {
    /// The number of warp instructions.
    pub warp_instructions: u64,
    /// The number of thread instructions.
    pub thread_instructions: u64,
}

/// Counts the instructions of a kernel file of any form.
///
/// # Errors
///
/// Those of [`GroupedReader`](crate::GroupedReader) or [`RawReader`](crate::RawReader).
pub fn count(path: &Path, options: &ReadOptions) -> Result<Counts, ReadError> {
    let mut events = Events::open(path, options)?;
    let mut counter = Counter::new(events.header().clone());
    while let Some(event) = events.next()? {
        counter.add(&event);
    }
    Ok(counter.finish())
}

struct Counter {
    counts: Counts,
    ctas: Numbers,
    warps: Numbers,
    /// By the text of the opcode.
    opcodes: FxHashMap<Opcode, OpcodeCounts>,
}

impl Counter {
    fn new(header: Header) -> Counter {
        Counter {
            counts: Counts {
                header,
                ctas: 0,
                warps: 0,
                warp_instructions: 0,
                thread_instructions: 0,
                empty_instructions: 0,
                memory: BTreeMap::new(),
                classes: BTreeMap::new(),
                opcodes: BTreeMap::new(),
            },
            ctas: Numbers::default(),
            warps: Numbers::default(),
            opcodes: FxHashMap::default(),
        }
    }

    fn add(&mut self, event: &Event) {
        let counts = &mut self.counts;
        let instruction = &event.instruction;
        let lanes = u64::from(instruction.mask.count_ones());
        self.ctas.insert(counts.header.grid.index(event.cta));
        let warp = warp_index(&counts.header, event.cta, event.warp);
        self.warps.insert(warp);
        counts.warp_instructions += 1;
        counts.thread_instructions += lanes;
        counts.empty_instructions += u64::from(lanes == 0);
        if let Some(addresses) = &instruction.addresses {
            counts.access(instruction, addresses);
        }
        match self.opcodes.get_mut(&instruction.opcode) {
            Some(opcode) => opcode.add(lanes),
            None => {
                let mut opcode = OpcodeCounts::default();
                opcode.add(lanes);
                self.opcodes.insert(instruction.opcode.clone(), opcode);
            }
        }
    }

    fn finish(self) -> Counts {
        let mut counts = self.counts;
        let map = OpcodeMap::of(counts.header.binary_version);
        for (opcode, count) in self.opcodes {
            if let Some(class) = map.and_then(|map| map.class(opcode.name())) {
                *counts.classes.entry(class).or_default() += count.warp_instructions;
            }
            counts.opcodes.insert(opcode.text().to_owned(), count);
        }
        counts.ctas = self.ctas.len();
        counts.warps = self.warps.len();
        counts
    }
}

impl OpcodeCounts {
    fn add(&mut self, lanes: u64) {
        self.warp_instructions += 1;
        self.thread_instructions += lanes;
    }
}

impl Counts {
    fn access(&mut self, instruction: &Instruction, addresses: &Addresses) {
        let opcode = &instruction.opcode;
        let Some((space, kind)) = opcode.memory() else {
            return;
        };
        let mask = instruction.mask;
        let space = self.header.resolve(space, addresses, mask);
        let lanes = u64::from(mask.count_ones());
        let access = self.memory.entry((space, kind)).or_default();
        access.instructions += 1;
        access.lanes += lanes;
        access.bytes += lanes * u64::from(opcode.width());
        access.sectors += match space {
            Space::Shared => 0,
            Space::Local => local_sectors(addresses, mask, opcode.width()),
            Space::Global | Space::Generic => sectors(addresses, mask, opcode.width()).len() as u64,
        };
    }
}
