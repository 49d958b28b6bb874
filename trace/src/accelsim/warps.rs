//! The warps of one CTA: combines the events of an instruction into lines of the trace.

use margay::observe::{Access, Instruction, Space};
use smallvec::SmallVec;

use super::listing::{Line, Listing};
use super::sass::Memory;

/// Where shared and local memory are in the generic address space of a trace. The windows of 16 MiB have nothing to do
/// with those of the running program, because the simulator knows only windows of this size.
pub(super) const SHARED_BASE: u64 = 0x7f00_0000_0000;
/// See [`SHARED_BASE`].
pub(super) const LOCAL_BASE: u64 = 0x7f00_0100_0000;

/// Number of bytes of the smallest atomic operation of a GPU.
const WORD: u64 = 4;

/// A line that a warp has executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Executed<'a> {
    pub(super) line: &'a Line,
    pub(super) mask: u32,
    /// The addresses of the lanes of the mask, the lowest lane first; `None` if the line accesses no memory.
    pub(super) addresses: Option<&'a [u64]>,
    /// The addresses in shared memory to which an asynchronous copy writes.
    pub(super) copied_to: Option<&'a [u64]>,
    /// Whether the memory of the line is kept in registers, so that the line moves data between registers.
    pub(super) is_move: bool,
}

/// The state of a warp: the instruction that it executes, and the lanes that have exited.
#[derive(Default, Debug)]
pub(super) struct Warp {
    instruction: Option<(u32, u32)>,
    mask: u32,
    accesses: SmallVec<[LaneAccess; 32]>,
    exited: u32,
}

#[derive(Clone, Copy, Debug)]
struct LaneAccess {
    lane: u32,
    space: Space,
    address: u64,
}

impl Warp {
    /// Begins an instruction. Passes the lines of the instruction before it to `write`.
    pub(super) fn begin(
        &mut self,
        listing: &Listing,
        instruction: &Instruction,
        write: &mut dyn FnMut(Executed<'_>),
    ) {
        self.end_instruction(listing, write);
        self.instruction = Some((instruction.function, instruction.index));
        self.mask = instruction.mask;
    }

    /// Adds the addresses of the current instruction.
    pub(super) fn access(&mut self, access: &Access<'_>) {
        let is_generic = access.is_generic;
        self.accesses
            .extend(access.lanes().map(|(lane, address)| LaneAccess {
                lane,
                space: access.space,
                address: match access.space {
                    Space::Shared | Space::SharedCluster if is_generic => SHARED_BASE + address,
                    Space::Local if is_generic => LOCAL_BASE + address,
                    _ => address,
                },
            }));
    }

    /// Ends the warp: passes the lines of its last instruction to `write`, and an exit of the lanes of `lanes` that have
    /// not exited.
    pub(super) fn end(
        &mut self,
        listing: &Listing,
        lanes: u32,
        write: &mut dyn FnMut(Executed<'_>),
    ) {
        self.end_instruction(listing, write);
        let mask = lanes & !self.exited;
        if mask != 0 {
            write(Executed {
                line: &listing.exit,
                mask,
                addresses: None,
                copied_to: None,
                is_move: false,
            });
        }
    }

    fn end_instruction(&mut self, listing: &Listing, write: &mut dyn FnMut(Executed<'_>)) {
        let Some((function, index)) = self.instruction.take() else {
            return;
        };
        let mask = self.mask;
        for line in listing.lines(function, index) {
            if line.is_exit {
                self.exited |= mask;
            }
            let mut addresses = line.memory.map(|memory| self.addresses(memory));
            if line.is_atomic {
                // Atomic operations on 16 bits are operations on the whole word.
                let all = addresses.iter_mut().flatten();
                all.for_each(|address| *address &= !(WORD - 1));
            }
            // Memory that is promoted to registers, and memory without addresses, such as parameters.
            let is_move = mask != 0 && addresses.as_ref().is_some_and(|all| all.is_empty());
            let copied_to = match line.template.opcode.name() {
                "LDGSTS" if !is_move => Some(self.addresses(Memory::Shared)),
                _ => None,
            };
            write(Executed {
                line,
                mask,
                addresses: addresses.as_deref().filter(|_| !is_move),
                copied_to: copied_to.as_deref(),
                is_move,
            });
        }
        self.accesses.clear();
    }

    /// Returns the addresses of a line: one for each lane of the mask, or none if there are no accesses.
    fn addresses(&self, memory: Memory) -> SmallVec<[u64; 32]> {
        let is_one_access = self.accesses.len() == self.mask.count_ones() as usize
            && self.accesses.is_sorted_by(|a, b| a.lane < b.lane);
        if memory == Memory::Any && is_one_access {
            return self.accesses.iter().map(|access| access.address).collect();
        }
        let is_wanted = |access: &&LaneAccess| match memory {
            Memory::Any | Memory::Part { .. } => true,
            Memory::Global => access.space == Space::Global,
            Memory::Shared => access.space == Space::Shared,
        };
        let wanted = || self.accesses.iter().filter(is_wanted);
        let Some(default) = wanted().map(|access| access.address).next() else {
            return SmallVec::new();
        };
        let lanes = (0..32).filter(|lane| self.mask >> lane & 1 != 0);
        let address_of = |lane| {
            let mut own = wanted().filter(|access| access.lane == lane);
            let found = match memory {
                Memory::Part { number, count } => {
                    let all: SmallVec<[u64; 16]> = own.map(|access| access.address).collect();
                    all.get(number * all.len() / count).copied()
                }
                _ => own.next().map(|access| access.address),
            };
            found.unwrap_or(default)
        };
        lanes.map(address_of).collect()
    }
}
