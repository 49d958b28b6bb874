//! Which lane of an instruction caused a fault.

use crate::code::{Cause, MemoryOperand, Place};

/// The size of the pages of memory, of which either all bytes are accessible or none.
const PAGE: u64 = 4096;

/// The registers of the machine at a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Registers {
    /// The general registers, in the order of their encoding.
    pub general: [u64; 16],
    /// The mask registers.
    pub masks: [u64; 8],
}

impl Registers {
    fn general(&self, number: Option<u8>) -> u64 {
        let found = number.and_then(|number| self.general.get(usize::from(number)));
        found.copied().unwrap_or(0)
    }

    /// Returns the address of a memory operand whose index is not a vector.
    fn address(&self, operand: &MemoryOperand) -> u64 {
        let index = self.general(operand.index);
        self.general(operand.base)
            .wrapping_add(index.wrapping_mul(u64::from(operand.scale)))
            .wrapping_add(i64::from(operand.displacement) as u64)
    }
}

/// The access that faulted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultingAccess {
    /// The first lane whose access faulted; `None` if the instruction does not access memory for several lanes.
    pub lane: Option<u32>,
    /// The address of the lane's access, if it is known.
    pub address: Option<u64>,
}

/// Returns the first access that faulted at a place. `address` is the address of the fault, if the system reports it.
///
/// `is_readable` states whether a byte of memory can be read. It decides between two pages if an instruction accesses
/// both, because the machine may report either.
pub fn faulting_access(
    place: &Place,
    registers: &Registers,
    address: Option<u64>,
    is_readable: impl Fn(u64) -> bool,
) -> FaultingAccess {
    let at = |lane, address| FaultingAccess { lane, address };
    let (first, lanes, bytes, operand) = match place.cause {
        Cause::Trap(_) => return at(None, address),
        Cause::Loop { lane, operand, .. } => {
            let lane = registers.general(Some(lane)) as u32;
            return at(Some(lane), Some(registers.address(&operand)));
        }
        Cause::Access {
            first,
            lanes,
            bytes,
            operand,
        } => (first, lanes, bytes, operand),
    };
    let mask = operand
        .mask
        .and_then(|number| registers.masks.get(usize::from(number)))
        .map_or(u64::MAX, |&mask| mask);
    // A gather or scatter clears the bits of the lanes that it has completed.
    if operand.is_vector_index {
        let lane = first + mask.trailing_zeros().min(lanes - 1);
        return at(Some(lane), address);
    }
    let start = registers.address(&operand);
    if lanes == 1 {
        return at(None, Some(start));
    }
    // The masks of elements of 128 bits have two bits for each.
    let bits = if bytes == 16 { 2 } else { 1 };
    let address_of = |lane: u32| start.wrapping_add(u64::from(lane * bytes));
    let faults = |&lane: &u32| {
        let first = address_of(lane);
        let last = first.wrapping_add(u64::from(bytes) - 1);
        [first, last].into_iter().any(|byte| match address {
            Some(address) => byte / PAGE == address / PAGE || !is_readable(byte),
            None => !is_canonical(byte),
        })
    };
    let is_active = |lane: &u32| {
        mask.checked_shr(bits * lane)
            .is_some_and(|mask| mask & 1 == 1)
    };
    let mut active = (0..lanes).filter(is_active);
    let lane = active.clone().find(faults).or_else(|| active.next());
    let lane = lane.unwrap_or(0);
    at(Some(first + lane), Some(address_of(lane)))
}

/// Returns whether an address is canonical on machines with 48 bits of virtual addresses.
fn is_canonical(address: u64) -> bool {
    (address as i64) << 16 >> 16 == address as i64
}
