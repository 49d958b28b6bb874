//! Events, except memory accesses, that tools observe: the payload of `observe.event`.

use margay_ops::mods::{MemOrder, Mode, Scope};
use margay_ops::ops::Opcode;

/// What the lanes that execute an `observe.event` are about to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObservedEvent {
    /// The lanes execute a barrier or a collective. The operands of `observe.event` are the number and the thread count
    /// of the barrier, or the member mask of the collective.
    Synchronisation {
        /// The operation.
        opcode: Opcode,
        /// The mode of a barrier: `sync`, `arrive` or `red`.
        mode: Mode,
    },
    /// The lanes execute a fence.
    Fence {
        /// The memory order.
        order: MemOrder,
        /// The scope.
        scope: Scope,
    },
    /// The lanes execute an operation on groups of asynchronous copies. If the `check.group` that
    /// describes the operation has an operand, the event has the same operand.
    CopyGroup {
        /// The operation: the mode of the `check.group` that describes it.
        mode: Mode,
    },
    /// The lanes execute an instruction of the PTX text. If the event has an operand, only the lanes in which the
    /// operand is not 0 execute the instruction.
    Instruction {
        /// The ID of the function that contains the instruction.
        function: u32,
        /// The index of the instruction in the function, in the order of the text.
        index: u32,
    },
    /// The lanes execute instructions of the PTX text that follow one another, without a branch, a label or a barrier
    /// between them. If the event has an operand, the run contains one instruction, which only the lanes in which the
    /// operand is not 0 execute.
    InstructionRun {
        /// The ID of the function that contains the instructions.
        function: u32,
        /// The index of the first instruction in the function, less than [`ObservedEvent::RUN_END`].
        first: u32,
        /// The number of instructions, at most [`ObservedEvent::LONGEST_RUN`].
        count: u32,
    },
    /// The lanes execute a branch. If the event has an operand, only the lanes in which the operand is not 0 take the
    /// branch.
    Branch,
}

/// Number of bits of the function's ID in a payload.
const FUNCTION_BITS: u32 = 28;
/// Number of bits of the first index of a run in a payload.
const FIRST_BITS: u32 = 20;

impl ObservedEvent {
    /// The largest number of instructions of a run.
    pub const LONGEST_RUN: u32 = (1 << (32 - FIRST_BITS)) - 1;
    /// Runs contain no instructions with this index or larger ones.
    pub const RUN_END: u32 = 1 << FIRST_BITS;

    /// Returns whether the operand of the event, if it has one, states for each lane whether the lane takes part: it is
    /// 0 or not 0.
    pub fn is_choice(self) -> bool {
        match self {
            ObservedEvent::Instruction { .. }
            | ObservedEvent::InstructionRun { .. }
            | ObservedEvent::Branch => true,
            ObservedEvent::Synchronisation { .. }
            | ObservedEvent::Fence { .. }
            | ObservedEvent::CopyGroup { .. } => false,
        }
    }

    /// Returns the payload of an `observe.event`. If the ID of a function has more than [`FUNCTION_BITS`] bits, the
    /// payload contains the largest ID with this number of bits instead.
    pub fn to_payload(self) -> u64 {
        match self {
            ObservedEvent::Synchronisation { opcode, mode } => {
                (opcode as u64) << 8 | (mode as u64) << 32
            }
            ObservedEvent::Fence { order, scope } => 1 | (order as u64) << 8 | (scope as u64) << 16,
            ObservedEvent::CopyGroup { mode } => 2 | (mode as u64) << 8,
            ObservedEvent::Instruction { function, index } => {
                let function = function.min((1 << FUNCTION_BITS) - 1);
                3 | u64::from(function) << 4 | u64::from(index) << 32
            }
            ObservedEvent::Branch => 4,
            ObservedEvent::InstructionRun {
                function,
                first,
                count,
            } => {
                let function = function.min((1 << FUNCTION_BITS) - 1);
                let (first, count) = (u64::from(first), u64::from(count));
                5 | u64::from(function) << 4 | first << 32 | count << (32 + FIRST_BITS)
            }
        }
    }

    /// Returns the event of a payload; `None` if no event has this payload.
    pub fn from_payload(payload: u64) -> Option<ObservedEvent> {
        let field = |at: u32, bits: u32| (payload >> at & ((1 << bits) - 1)) as usize;
        let mode = |at| named(Mode::ALL, field(at, 8));
        Some(match payload & 15 {
            0 => ObservedEvent::Synchronisation {
                opcode: *Opcode::ALL.get(field(8, 16))?,
                mode: mode(32)?,
            },
            1 => ObservedEvent::Fence {
                order: named(MemOrder::ALL, field(8, 8))?,
                scope: named(Scope::ALL, field(16, 8))?,
            },
            2 => ObservedEvent::CopyGroup { mode: mode(8)? },
            3 => ObservedEvent::Instruction {
                function: field(4, FUNCTION_BITS) as u32,
                index: (payload >> 32) as u32,
            },
            4 => ObservedEvent::Branch,
            5 => ObservedEvent::InstructionRun {
                function: field(4, FUNCTION_BITS) as u32,
                first: field(32, FIRST_BITS) as u32,
                count: (payload >> (32 + FIRST_BITS)) as u32,
            },
            _ => return None,
        })
    }
}

/// Returns the default value for the number 0, and `all[number - 1]` for other numbers; `None` if
/// this index is out of range.
fn named<T: Copy + Default>(all: &[T], number: usize) -> Option<T> {
    match number.checked_sub(1) {
        None => Some(T::default()),
        Some(index) => all.get(index).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_packing() {
        let events = [
            ObservedEvent::Synchronisation {
                opcode: Opcode::Shfl,
                mode: Mode::None,
            },
            ObservedEvent::Synchronisation {
                opcode: Opcode::Bar,
                mode: Mode::Arrive,
            },
            ObservedEvent::Fence {
                order: MemOrder::Sc,
                scope: Scope::Sys,
            },
            ObservedEvent::CopyGroup {
                mode: Mode::ProxyFence,
            },
            ObservedEvent::Instruction {
                function: (1 << FUNCTION_BITS) - 1,
                index: u32::MAX,
            },
            ObservedEvent::Branch,
            ObservedEvent::InstructionRun {
                function: 7,
                first: ObservedEvent::RUN_END - 1,
                count: ObservedEvent::LONGEST_RUN,
            },
        ];
        for event in events {
            assert_eq!(ObservedEvent::from_payload(event.to_payload()), Some(event));
        }
        assert_eq!(ObservedEvent::from_payload(15), None);
    }
}
