//! Computes the layout of a function's local-memory slots.

use crate::entity::{SecondaryMap, Slot};
use crate::function::Function;

/// Returns the offsets of a function's slots and their total size in bytes, a multiple of 16. An
/// offset that does not fit in 32 bits becomes `u32::MAX`, rounded down to the alignment. No thread
/// uses such an offset, because the driver refuses a launch whose slots need so much memory.
pub fn layout(function: &Function) -> (SecondaryMap<Slot, u32>, u32) {
    let (offsets, end) = placed(function);
    (offsets, end.saturating_add(15) & !15)
}

/// Returns the offset in bytes at which the last slot of a function ends.
pub fn end(function: &Function) -> u32 {
    placed(function).1
}

fn placed(function: &Function) -> (SecondaryMap<Slot, u32>, u32) {
    let mut offsets = SecondaryMap::default();
    let mut end = 0u32;
    for (slot, data) in function.slots.iter() {
        let align = data.align.max(1);
        let start = end.saturating_add(align - 1) & !(align - 1);
        offsets[slot] = start;
        end = start.saturating_add(data.size);
    }
    (offsets, end)
}
