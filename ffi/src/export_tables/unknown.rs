//! Slots and tables of unknown purpose. The first call of each slot and the first request of each table write a warning.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::TABLES;
use crate::guard::{self, Call, DefaultStream};
use crate::result::CuResult;

/// The number of words of a table in memory. Callers are known to call the slot 51 of a table that states a smaller size.
pub(super) const SLOTS: usize = 96;

/// Tables that NVIDIA's libraries request and can do without. Requests of them write no warning.
const OPTIONAL: &[[u8; 16]] = &[
    // NVRTC and nvJitLink.
    0xda9151d3_3ae6_cc41_a5c0_4f26d533e328_u128.to_be_bytes(),
];

/// Returns, for each slot index, the function that a slot of table `TABLE` contains if the purpose
/// of the slot is unknown.
pub(super) const fn slots<const TABLE: usize>() -> [*const c_void; SLOTS] {
    macro_rules! slots {
        ($($tens:literal)*) => {[$(
            unknown_slot::<TABLE, { 8 * $tens }> as *const c_void,
            unknown_slot::<TABLE, { 8 * $tens + 1 }> as *const c_void,
            unknown_slot::<TABLE, { 8 * $tens + 2 }> as *const c_void,
            unknown_slot::<TABLE, { 8 * $tens + 3 }> as *const c_void,
            unknown_slot::<TABLE, { 8 * $tens + 4 }> as *const c_void,
            unknown_slot::<TABLE, { 8 * $tens + 5 }> as *const c_void,
            unknown_slot::<TABLE, { 8 * $tens + 6 }> as *const c_void,
            unknown_slot::<TABLE, { 8 * $tens + 7 }> as *const c_void,
        )*]};
    }
    slots!(0 1 2 3 4 5 6 7 8 9 10 11)
}

/// The function of a slot of unknown purpose.
extern "C" fn unknown_slot<const TABLE: usize, const SLOT: usize>() -> CuResult {
    called(TABLE, SLOT)
}

#[inline(never)]
fn called(table: usize, slot: usize) -> CuResult {
    static CALL: Call = Call::new("an unknown slot of an export table", DefaultStream::Legacy);
    // The trace shows the first bytes of the table's identifier.
    let first = TABLES.get(table).map_or(0, |(id, _)| {
        u32::from_be_bytes([id[0], id[1], id[2], id[3]])
    });
    let shown: *const c_void = std::ptr::without_provenance(first as usize);
    guard::enter(&CALL, &[("table", &shown), ("slot", &slot)], || {
        warn_of_slot(table, slot);
        Err(CuResult::NOT_SUPPORTED)
    })
}

fn warn_of_slot(table: usize, slot: usize) {
    const WORDS: usize = SLOTS.div_ceil(64);
    static TOLD: [[AtomicU64; WORDS]; TABLES.len()] =
        [const { [const { AtomicU64::new(0) }; WORDS] }; TABLES.len()];
    let (Some((id, _)), Some(told)) = (TABLES.get(table), TOLD.get(table)) else {
        return;
    };
    let bit = 1 << (slot % 64);
    if told[slot / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        guard::warn(format_args!(
            "slot {slot} of the export table {} has no known meaning; calls of it return \
             CUDA_ERROR_NOT_SUPPORTED",
            identifier(id)
        ));
    }
}

/// Warns that a program has requested the table `id`, which does not exist, unless a warning of this table was written
/// before. Warns of a limited number of tables.
pub(super) fn warn_of_table(id: &[u8; 16]) {
    if is_new(id) {
        guard::warn(format_args!(
            "there is no export table {}; requests of it return CUDA_ERROR_INVALID_VALUE",
            identifier(id)
        ));
    }
}

/// Returns whether a warning of the table `id` must be written, and remembers the table.
fn is_new(id: &[u8; 16]) -> bool {
    const MOST: usize = 64;
    static TOLD: Mutex<Vec<[u8; 16]>> = Mutex::new(Vec::new());
    if OPTIONAL.contains(id) {
        return false;
    }
    let mut told = TOLD.lock();
    let is_new = !told.contains(id) && told.len() < MOST;
    if is_new {
        told.push(*id);
    }
    is_new
}

/// Formats the identifier of a table as text.
fn identifier(id: &[u8; 16]) -> String {
    let digits = |range: std::ops::Range<usize>| -> String {
        id[range].iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let parts = [0..4, 4..6, 6..8, 8..10, 10..16].map(digits);
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unknown_table_is_told_once() {
        let id = *b"an unknown table";
        assert!(is_new(&id) && !is_new(&id));
        let text = "616e2075-6e6b-6e6f-776e-207461626c65";
        assert_eq!(identifier(&id), text);
        let optional = 0xda9151d3_3ae6_cc41_a5c0_4f26d533e328_u128.to_be_bytes();
        assert!(!is_new(&optional), "libraries can do without it");
        let news = (0..200u8).filter(|&number| is_new(&[number; 16]));
        assert_eq!(news.count(), 63, "a program cannot fill the memory");
    }
}
