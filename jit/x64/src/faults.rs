//! Which lane of an instruction caused a fault.

use crate::code::{Cause, GroupAccess, MemoryOperand, Place};

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
    /// The first lane whose access faulted; `None` if the instruction accesses memory only for lane 0 of its operation.
    pub lane: Option<u32>,
    /// The address of the lane's access, if it is known.
    pub address: Option<u64>,
}

/// Returns the number of the first access of a group that faulted, and the access. `cause` is that of the group's row load,
/// and `address` is the address of the fault, if the system reports it. Returns `None` if the cause is not that of a row
/// load, or no access is found that faults.
///
/// `is_readable` states whether a byte of memory can be read.
pub fn faulting_group_access<'a>(
    (cause, mut accesses): (&Cause, impl Iterator<Item = &'a GroupAccess>),
    registers: &Registers,
    address: Option<u64>,
    is_readable: impl Fn(u64) -> bool,
) -> Option<(usize, FaultingAccess)> {
    let Cause::Rows {
        operand, others, ..
    } = cause
    else {
        return None;
    };
    let faults = |byte: u64| match address {
        Some(address) if byte / PAGE == address / PAGE => true,
        _ => !is_canonical(byte) || !is_readable(byte),
    };
    let mut number = 0;
    accesses.find_map(|access| {
        let register = match usize::from(access.base).checked_sub(1) {
            None => operand.base,
            Some(other) => others.get(other).copied(),
        };
        let start = registers
            .general(register)
            .wrapping_add(i64::from(access.displacement) as u64);
        number += 1;
        (0..access.lanes).find_map(|lane| {
            let distance = access.stride.wrapping_mul(lane.into());
            let first = start.wrapping_add(distance as u64);
            let last = first.wrapping_add(u64::from(access.bytes) - 1);
            (faults(first) || faults(last)).then_some((
                number - 1,
                FaultingAccess {
                    lane: (access.lanes > 1).then_some(lane),
                    address: Some(first),
                },
            ))
        })
    })
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
        // See `faulting_group_access`.
        Cause::Trap(_) | Cause::Rows { .. } => return at(None, address),
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
        return at((first > 0).then_some(first), Some(start));
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

#[cfg(test)]
mod tests {
    use margay_ir::entity::Inst;

    use super::*;

    fn place(cause: Cause) -> Place {
        Place {
            offset: 0,
            inst: Inst(0),
            place: 0,
            cause,
        }
    }

    /// Returns the registers with the base address 0x10_0fe0 in register 3, 16 in register 5, and a mask in mask register 2.
    fn registers(mask: u64) -> Registers {
        let mut registers = Registers::default();
        registers.general[3] = 0x10_0fe0;
        registers.general[5] = 16;
        registers.masks[2] = mask;
        registers
    }

    const OPERAND: MemoryOperand = MemoryOperand {
        base: Some(3),
        index: None,
        is_vector_index: false,
        scale: 1,
        displacement: 0,
        mask: Some(2),
    };

    fn access(bytes: u32, operand: MemoryOperand) -> Place {
        place(Cause::Access {
            first: 16,
            lanes: 16,
            bytes,
            operand,
        })
    }

    #[track_caller]
    fn check(place: Place, mask: u64, address: Option<u64>, expected: (Option<u32>, Option<u64>)) {
        // Only the page at 0x10_0000 is readable.
        let is_readable = |byte: u64| byte / PAGE == 0x100;
        let found = faulting_access(&place, &registers(mask), address, is_readable);
        assert_eq!((found.lane, found.address), expected);
    }

    #[test]
    fn the_first_active_lane_in_a_page_that_is_not_accessible() {
        let place = access(4, OPERAND);
        // The lanes from the eighth on are in the second page.
        check(place, 0xffff, Some(0x10_1000), (Some(24), Some(0x10_1000)));
        check(place, 0xf0ff, Some(0x10_1000), (Some(28), Some(0x10_1010)));
        // The machine reports the second page, but lanes of the first one fault as well.
        let found = faulting_access(&place, &registers(0xff0e), Some(0x10_1000), |_| false);
        assert_eq!((found.lane, found.address), (Some(17), Some(0x10_0fe4)));
    }

    #[test]
    fn elements_of_128_bits_have_two_bits_of_the_mask() {
        check(
            access(16, OPERAND),
            0b11_00_11_11,
            Some(0x10_1000),
            (Some(19), Some(0x10_1010)),
        );
    }

    #[test]
    fn indices_displacements_and_missing_masks_count() {
        let operand = MemoryOperand {
            index: Some(5),
            scale: 2,
            displacement: -8,
            mask: None,
            ..OPERAND
        };
        check(
            access(4, operand),
            0,
            Some(0x10_1000),
            (Some(18), Some(0x10_1000)),
        );
    }

    #[test]
    fn addresses_that_are_not_canonical_have_no_address_of_the_fault() {
        let mut registers = registers(0xfffc);
        registers.general[3] = 0x7fff_ffff_fff0;
        let found = faulting_access(&access(4, OPERAND), &registers, None, |_| true);
        assert_eq!(
            (found.lane, found.address),
            (Some(20), Some(0x8000_0000_0000))
        );
    }

    #[test]
    fn a_gather_has_cleared_the_bits_of_its_first_lanes() {
        let operand = MemoryOperand {
            index: Some(7),
            is_vector_index: true,
            ..OPERAND
        };
        check(access(4, operand), 0xfa00, Some(64), (Some(25), Some(64)));
    }

    #[test]
    fn loops_count_their_lanes_and_single_lanes_have_no_number() {
        let (lane, bytes, operand) = (5, 8, OPERAND);
        let place_of = place(Cause::Loop {
            lane,
            bytes,
            operand,
        });
        check(place_of, 0, Some(64), (Some(16), Some(0x10_0fe0)));
        let single = place(Cause::Access {
            first: 0,
            lanes: 1,
            bytes: 4,
            operand,
        });
        check(single, 0, Some(64), (None, Some(0x10_0fe0)));
        let later = place(Cause::Access {
            first: 3,
            lanes: 1,
            bytes: 4,
            operand,
        });
        check(later, 0, Some(64), (Some(3), Some(0x10_0fe0)));
        check(place(Cause::Trap(1)), 0, None, (None, None));
    }
}
