//! Performs the loads and stores of the lanes of a chunk, after the examiner has chosen the address for each lane.

use std::ops::Range;

use margay_ir::observe::ObservedAccess;
use margay_jit::abi::PerformedAccess;
use margay_ops::meaning::Bits;
use margay_ops::mods::MemOrder;
use margay_shadow::race::Shape;

use super::Chunk;
use crate::fault::{AccessFault, access};

/// The lane whose access has caused a fault, and the fault.
type Faulted = (u32, AccessFault);

/// For each active lane, loads a value from the lane's address ([`Chunk::used`]) and writes the
/// value to `results`. `results` contains a row for each element of the access, and a row contains
/// a cell for each lane. Elements whose values the program does not use are not loaded.
pub(in crate::native) fn load(
    access: &ObservedAccess,
    what: PerformedAccess,
    chunk: &Chunk<'_>,
    used: Option<&[u64; 32]>,
    results: &mut [u8],
) -> Result<(), Faulted> {
    let cell = what.cell_bytes() as usize;
    if let Some((first, range)) = adjacent(access, what, chunk, used) {
        let start = chunk.used(used, first);
        return access::read(&mut results[range], start)
            .map_err(|fault| faulted(fault, (first, start), what));
    }
    for lane in chunk.lanes() {
        let start = chunk.used(used, lane);
        for (index, row) in results.chunks_exact_mut(cell * chunk.width).enumerate() {
            if access.unused >> index & 1 != 0 {
                continue;
            }
            let at = start.wrapping_add(index as u64 * u64::from(what.element));
            let bits = load_element(at, what.element).map_err(|fault| (lane, fault))?;
            let bits = extended(bits, what).to_le_bytes();
            let to = lane as usize * cell;
            row[to..to + cell].copy_from_slice(&bits[..cell]);
        }
    }
    Ok(())
}

/// For each active lane, stores the lane's operands at the lane's address ([`Chunk::used`]).
pub(in crate::native) fn store(
    access: &ObservedAccess,
    what: PerformedAccess,
    chunk: &Chunk<'_>,
    used: Option<&[u64; 32]>,
) -> Result<(), Faulted> {
    debug_assert!(access.mode.writes());
    if let Some((first, range)) = adjacent(access, what, chunk, used) {
        let start = chunk.used(used, first);
        // SAFETY: the examiner has permitted writes to all this memory.
        let done = unsafe { access::write(start, &chunk.operands[range]) };
        return done.map_err(|fault| faulted(fault, (first, start), what));
    }
    for lane in chunk.lanes() {
        let mut at = chunk.used(used, lane);
        for bits in chunk.operands_of(lane) {
            store_element(at, what.element, bits).map_err(|fault| (lane, fault))?;
            at = at.wrapping_add(what.element.into());
        }
    }
    Ok(())
}

/// If a single copy between memory and the cells can perform the accesses of all active lanes,
/// returns the first active lane and the byte range of the cells of these lanes. Returns `None` if
/// the values in memory do not have the same layout as the cells, or if the memory of each lane
/// must be accessed separately.
fn adjacent(
    access: &ObservedAccess,
    what: PerformedAccess,
    chunk: &Chunk<'_>,
    used: Option<&[u64; 32]>,
) -> Option<(u32, Range<usize>)> {
    let cell = what.cell_bytes();
    let plain = used.is_none() && access.order == MemOrder::Weak;
    let alike = access.bytes == what.element && cell == what.element;
    if !plain || !alike || chunk.shape(access) != Shape::Adjacent {
        return None;
    }
    let first = chunk.active.trailing_zeros();
    let (from, count) = (first * cell, chunk.active.count_ones() * cell);
    Some((first, from as usize..(from + count) as usize))
}

fn faulted(fault: AccessFault, (first, start): (u32, u64), what: PerformedAccess) -> Faulted {
    let beyond = fault.address.wrapping_sub(start) / u64::from(what.element.max(1));
    (first + (beyond as u32 & 31), fault)
}

fn load_element(at: u64, bytes: u32) -> Result<u64, AccessFault> {
    match bytes {
        1 => access::load8(at).map(u64::from),
        2 => access::load16(at).map(u64::from),
        4 => access::load32(at).map(u64::from),
        _ => access::load64(at),
    }
}

fn store_element(at: u64, bytes: u32, bits: Bits) -> Result<(), AccessFault> {
    // SAFETY: the examiner has chosen the address, which is in device memory that the kernel may write, or in spare
    // memory.
    unsafe {
        match bytes {
            1 => access::store8(at, bits as u8),
            2 => access::store16(at, bits as u16),
            4 => access::store32(at, bits as u32),
            _ => access::store64(at, bits as u64),
        }
    }
}

/// Extends a loaded element to the size of the register that receives it, with zeros or with copies
/// of the sign bit.
fn extended(bits: u64, what: PerformedAccess) -> u64 {
    let above = 64 - 8 * what.element.clamp(1, 8);
    let wide = match what.signed {
        true => ((bits << above) as i64 >> above) as u64,
        false => bits,
    };
    let unused = 64 - 8 * what.kind_bytes.clamp(1, 8);
    wide << unused >> unused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(signed: bool, kind_bytes: u32, element: u32) -> PerformedAccess {
        PerformedAccess {
            always: true,
            signed,
            kind_bytes,
            element,
            range: 0,
        }
    }

    #[test]
    fn elements_are_extended_to_registers_with_or_without_sign() {
        assert_eq!(extended(0x80, of(true, 2, 1)), 0xff80);
        assert_eq!(extended(0x80, of(false, 2, 1)), 0x80);
        assert_eq!(extended(0x8000, of(true, 4, 2)), 0xffff_8000);
        assert_eq!(extended(0x8000_0000, of(true, 8, 4)), 0xffff_ffff_8000_0000);
        assert_eq!(extended(0x7fff_ffff, of(true, 8, 4)), 0x7fff_ffff);
        assert_eq!(extended(u64::MAX, of(true, 8, 8)), u64::MAX);
    }
}
