//! The 32-byte sectors that an access touches.

use crate::addresses::Addresses;

/// The size in bytes of a sector, the smallest unit of a transfer between caches.
pub const SECTOR: u64 = 32;

/// The largest width that [`sectors`] and [`local_sectors`] count. A wider one is a token of the opcode with another meaning.
const MAX_WIDTH: u32 = 128;

/// Returns the different sectors that the lanes of `mask` touch with `width` bytes each, as addresses divided by 32 in
/// ascending order. Widths above 128 count as 128.
pub fn sectors(addresses: &Addresses, mask: u32, width: u32) -> Vec<u64> {
    let last = u64::from(width.clamp(1, MAX_WIDTH)) - 1;
    let mut sectors = Vec::with_capacity(32);
    for (_, address) in addresses.lanes(mask) {
        let range = address / SECTOR..=address.saturating_add(last) / SECTOR;
        range.for_each(|sector| {
            if sectors.last() != Some(&sector) {
                sectors.push(sector);
            }
        });
    }
    sectors.sort_unstable();
    sectors.dedup();
    sectors
}

/// Returns the number of sectors of an access to local memory. Hardware stores each word of the 32 lanes of a warp side by
/// side, so that eight lanes share a sector if they access the same offset.
pub fn local_sectors(addresses: &Addresses, mask: u32, width: u32) -> u64 {
    const WORD: u64 = 4;
    const LANES: u32 = 8;
    let last = u64::from(width.clamp(1, MAX_WIDTH)) - 1;
    let mut sectors = Vec::with_capacity(32);
    for (lane, address) in addresses.lanes(mask) {
        let words = address / WORD..=address.saturating_add(last) / WORD;
        sectors.extend(words.map(|word| (word, lane / LANES)));
    }
    sectors.sort_unstable();
    sectors.dedup();
    sectors.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: u64 = 0x7f00_0000_1000;

    fn count(base: u64, stride: i32, width: u32) -> usize {
        sectors(&Addresses::Stride { base, stride }, u32::MAX, width).len()
    }

    /// The numbers of accesses that the simulator counted for one warp instruction (format description, section 9).
    #[test]
    fn sectors_are_those_of_the_simulator() {
        assert_eq!(count(B, 4, 4), 4);
        assert_eq!(count(B + 4, 4, 4), 5);
        assert_eq!(count(B, 8, 8), 8);
        assert_eq!(count(B, 16, 16), 16);
        assert_eq!(count(B, 32, 4), 32);
        assert_eq!(count(B, 128, 4), 32);
        assert_eq!(count(B, 0, 4), 1);
        assert_eq!(count(B, 1, 1), 1);
    }

    #[test]
    fn sectors_are_ascending_and_different() {
        let addresses = Addresses::list(&[B + 96, B + 28, B, B + 100]);
        let sector = B / 32;
        assert_eq!(
            sectors(&addresses, 0xf0, 8),
            [sector, sector + 1, sector + 3]
        );
        assert_eq!(sectors(&addresses, 0, 8), []);
        // The end of the address space.
        assert_eq!(
            sectors(&Addresses::list(&[u64::MAX]), 1, 16),
            [u64::MAX / 32]
        );
    }

    #[test]
    fn equal_offsets_of_local_memory_share_sectors() {
        let same = Addresses::Stride {
            base: 64,
            stride: 0,
        };
        assert_eq!(local_sectors(&same, u32::MAX, 4), 4);
        assert_eq!(local_sectors(&same, u32::MAX, 16), 16);
        assert_eq!(local_sectors(&same, 0xff, 4), 1);
        let different = Addresses::Stride {
            base: 64,
            stride: 4,
        };
        assert_eq!(local_sectors(&different, u32::MAX, 4), 32);
    }
}
