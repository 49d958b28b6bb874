//! A native function and the source positions of its code.

use margay_ir::entity::Inst;
use margay_ir::function::SourceLoc;

use crate::addresses::{DescTable, Site};
use crate::code_memory::CodeMemory;
use margay_vectorise::NOTED;
use margay_x64::code::{Cause, GroupAccess, Operation, Place};
use margay_x64::faults::{FaultingAccess, Registers, faulting_access, faulting_group_access};
use serde::{Deserialize, Serialize};

/// Number of low bits of a Cranelift source location that contain the index of the IR instruction. The bits above them
/// contain the index of the lane in its chunk.
pub(crate) const PLACE_LANE: u32 = 26;
pub(crate) const PLACE_INST: u32 = (1 << PLACE_LANE) - 1;

/// Returns the Cranelift source location ([`SourceLoc`](cranelift_codegen::ir::SourceLoc)), as a word, for the code of
/// `inst` for one lane of a chunk.
pub(crate) fn place_word(inst: Inst, lane: u32) -> u32 {
    inst.0 & PLACE_INST | lane << PLACE_LANE
}

/// A native function.
#[derive(Debug)]
pub struct CompiledFunction {
    /// The code.
    pub code: CodeMemory,
    /// Source positions as (code offset, source position, index of the lane in its chunk), in ascending order of the
    /// offsets. Each entry applies up to the offset of the next entry.
    pub locs: Vec<(u32, SourceLoc, u32)>,
    /// Descriptions of the operations that the code computes by calls of reference functions. The code contains the
    /// addresses of these descriptions.
    pub descs: DescTable,
    /// The instructions of the wide back end that can fault, in ascending order of their offsets; empty for other code.
    pub(crate) places: Box<[Place]>,
    /// The accesses of each group of rows of the wide back end.
    pub(crate) groups: Box<[Box<[LocatedAccess]>]>,
    /// The positions in the code at which host addresses are embedded.
    pub(crate) sites: Vec<Site>,
    /// The operations whose reference functions the code of the wide back end calls. The code contains their addresses.
    pub(crate) operations: Box<[Operation]>,
    /// Whether the code runs only whole CTAs, from their start: it runs no single warps and begins at no barrier.
    pub only_from_start: bool,
}

/// An access of a group of rows, and its source position.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct LocatedAccess {
    pub(crate) access: GroupAccess,
    pub(crate) loc: SourceLoc,
    /// The index of its first lane in its chunk.
    pub(crate) lane: u32,
}

/// For which thread a machine instruction runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunningLane {
    /// The thread at this distance from the thread in the context.
    Number(u32),
    /// The thread at the distance that the field `lane` of the context contains.
    Noted,
}

/// A fault of a machine instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultAt {
    /// The source position of the instruction.
    pub loc: SourceLoc,
    /// The first thread whose access faulted.
    pub lane: RunningLane,
    /// The address of this thread's access, if it is known.
    pub address: Option<u64>,
}

impl CompiledFunction {
    /// Describes the fault of the machine instruction at an address. `address` is the address of the fault, if it is
    /// known. Returns `None` if the instruction is not in this function.
    pub fn fault_at(
        &self,
        pc: u64,
        registers: &Registers,
        address: Option<u64>,
        is_readable: impl Fn(u64) -> bool,
    ) -> Option<FaultAt> {
        let (loc, lane) = self.loc_at(pc)?;
        let offset = pc - self.code.start() as u64;
        let index = self
            .places
            .binary_search_by_key(&offset, |place| u64::from(place.offset));
        let Ok(index) = index else {
            let lane = RunningLane::Number(lane);
            return Some(FaultAt { loc, lane, address });
        };
        let place = &self.places[index];
        if let Cause::Rows { group, .. } = place.cause
            && let Some(group) = self.groups.get(group as usize)
        {
            let accesses = group.iter().map(|located| &located.access);
            let found =
                faulting_group_access((&place.cause, accesses), registers, address, &is_readable);
            if let Some((number, access)) = found {
                let LocatedAccess {
                    access: of,
                    loc,
                    lane,
                } = group[number];
                return Some(fault_of((loc, lane, of.place), access));
            }
        }
        let access = faulting_access(place, registers, address, is_readable);
        Some(fault_of((loc, lane, place.place), access))
    }

    /// Returns the source position of the machine instruction at an address, and the index in its chunk of the lane for
    /// which the instruction runs. This index plus the thread index in the context is the index of the running thread.
    /// Returns `None` if the address is not in this function.
    pub fn loc_at(&self, pc: u64) -> Option<(SourceLoc, u32)> {
        let offset = pc.checked_sub(self.code.start() as u64)?;
        if offset >= self.code.bytes().len() as u64 {
            return None;
        }
        let index = self
            .locs
            .partition_point(|&(start, ..)| u64::from(start) <= offset);
        let &(_, loc, lane) = self.locs.get(index.checked_sub(1)?)?;
        Some((loc, lane))
    }
}

/// Describes the fault of an access at a source position and a place, whose first lane has this index in its chunk.
fn fault_of((loc, lane, place): (SourceLoc, u32, u64), access: FaultingAccess) -> FaultAt {
    FaultAt {
        loc,
        lane: match access.lane {
            Some(within) => RunningLane::Number(lane + within),
            None if place & NOTED != 0 => RunningLane::Noted,
            None => RunningLane::Number(lane),
        },
        address: access.address,
    }
}
