//! Which sectors of lines the lanes of an access touch, and how often a bank of shared memory is accessed.

use margay_accelsim::{Addresses, MemoryKind};

use crate::cache::SECTORS;
use crate::program::LineAccess;

/// The bytes of a sector.
const SECTOR: u64 = 32;
/// The number of sectors of a line.
const SECTORS_PER_LINE: u64 = SECTORS as u64;
/// The bytes of a line.
const LINE: u64 = SECTOR * SECTORS_PER_LINE;
/// The largest number of a word of a thread's local memory.
const LOCAL_WORDS: u64 = u32::MAX as u64;

/// Merges the accesses of lanes into accesses to lines. It keeps its memory between calls.
#[derive(Default)]
pub(crate) struct Coalescer {
    /// Pairs of a sector and the bytes that are touched.
    sectors: Vec<(u64, u32)>,
    lines: Vec<LineAccess>,
    words: Vec<(u64, u64)>,
}

impl Coalescer {
    /// Returns the lines from the highest address to the lowest one, which is the order of the simulator. `width` is that of
    /// a lane in bytes.
    ///
    /// Lanes that touch the same bytes of a sector share an access, but atomic accesses to the same bytes are separate
    /// accesses.
    pub(crate) fn lines(
        &mut self,
        kind: MemoryKind,
        addresses: &Addresses,
        mask: u32,
        width: u32,
    ) -> &[LineAccess] {
        self.sectors.clear();
        let is_atomic = matches!(kind, MemoryKind::Atomic | MemoryKind::Reduction);
        for (_, address) in addresses.lanes(mask) {
            self.add_lane(address, width, is_atomic);
        }
        self.collect(is_atomic)
    }

    /// Returns the lines of an access to local memory. Word `n` of the 32 lanes of a warp is line `n`: the simulator
    /// interleaves the words of the threads.
    pub(crate) fn local_lines(
        &mut self,
        addresses: &Addresses,
        mask: u32,
        width: u32,
    ) -> &[LineAccess] {
        self.sectors.clear();
        for (lane, address) in addresses.lanes(mask) {
            for word in 0..u64::from((width / 4).clamp(1, 32)) {
                let number = (address / 4).wrapping_add(word) & LOCAL_WORDS;
                let place = number * LINE + u64::from(lane) * 4;
                match width {
                    0..4 => self.add_lane(place + address % 4, width, false),
                    _ => self.add_lane(place, 4, false),
                }
            }
        }
        self.collect(false)
    }

    /// Adds the sectors of a lane. An access has at most 128 bytes.
    fn add_lane(&mut self, address: u64, width: u32, is_atomic: bool) {
        let last = address.saturating_add(u64::from(width.clamp(1, 128)) - 1);
        for sector in address / SECTOR..=last / SECTOR {
            let first_byte = address.max(sector * SECTOR) - sector * SECTOR;
            let last_byte = last.min(sector * SECTOR + (SECTOR - 1)) - sector * SECTOR;
            let bytes = (u32::MAX >> (31 - (last_byte - first_byte))) << first_byte;
            self.add(sector, bytes, is_atomic);
        }
    }

    fn add(&mut self, sector: u64, bytes: u32, is_atomic: bool) {
        // Neighbours are likely to share a sector.
        let fits = |(known, taken): &&mut (u64, u32)| {
            *known == sector && !(is_atomic && *taken & bytes != 0)
        };
        let known = match is_atomic {
            // The first access with free bytes takes the lane.
            true => self.sectors.iter_mut().find(fits),
            false => self.sectors.iter_mut().rev().find(fits),
        };
        match known {
            Some((_, taken)) => *taken |= bytes,
            None => self.sectors.push((sector, bytes)),
        }
    }

    /// Joins the sectors of a line, except those of atomic accesses.
    fn collect(&mut self, is_atomic: bool) -> &[LineAccess] {
        // Stable: separate atomic accesses keep their order.
        self.sectors.sort_by_key(|(sector, _)| *sector);
        self.lines.clear();
        for &(sector, touched) in self.sectors.iter().rev() {
            let line = sector / SECTORS_PER_LINE;
            let index = (sector % SECTORS_PER_LINE) as usize;
            if is_atomic || self.lines.last().is_none_or(|last| last.line != line) {
                self.lines.push(LineAccess {
                    line,
                    sectors: 0,
                    bytes: [0; SECTORS],
                });
            }
            if let Some(last) = self.lines.last_mut() {
                last.sectors |= 1 << index;
                last.bytes[index] = touched;
            }
        }
        &self.lines
    }

    /// Returns the number of passes of an access to shared memory: the largest number of different words in a bank. The
    /// first word of each lane counts, as in the simulator.
    pub(crate) fn passes(&mut self, addresses: &Addresses, mask: u32, banks: u32) -> u32 {
        self.words.clear();
        let words = addresses.lanes(mask).map(|(_, address)| address / 4);
        self.words
            .extend(words.map(|word| (word % u64::from(banks), word)));
        self.words.sort_unstable();
        self.words.dedup();
        let runs = self.words.chunk_by(|one, other| one.0 == other.0);
        runs.map(<[_]>::len).max().unwrap_or(0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x7f00_0000_1000;

    fn sectors(kind: MemoryKind, start: u64, stride: i32, width: u32) -> u32 {
        let addresses = Addresses::Stride {
            base: start,
            stride,
        };
        let mut coalescer = Coalescer::default();
        let lines = coalescer.lines(kind, &addresses, u32::MAX, width);
        lines.iter().map(|line| line.sectors.count_ones()).sum()
    }

    #[test]
    fn sectors_are_those_of_the_calibration() {
        let load = MemoryKind::Load;
        assert_eq!(sectors(load, BASE, 4, 4), 4);
        assert_eq!(sectors(load, BASE + 4, 4, 4), 5);
        assert_eq!(sectors(load, BASE, 0, 4), 1);
        assert_eq!(sectors(load, BASE, 1, 1), 1);
        assert_eq!(sectors(load, BASE, 8, 8), 8);
        assert_eq!(sectors(load, BASE, 16, 16), 16);
        assert_eq!(sectors(load, BASE, 32, 4), 32);
        assert_eq!(sectors(load, u64::MAX - 1, 0, 4), 1);
        assert_eq!(sectors(MemoryKind::Atomic, BASE, 4, 4), 4);
        assert_eq!(sectors(MemoryKind::Reduction, BASE, 0, 4), 32);
    }

    #[test]
    fn lines_know_the_bytes_that_they_touch() {
        let mut coalescer = Coalescer::default();
        let addresses = Addresses::Stride {
            base: BASE,
            stride: 4,
        };
        let line = |sectors, bytes| LineAccess {
            line: BASE / 128,
            sectors,
            bytes,
        };
        let lines = coalescer.lines(MemoryKind::Store, &addresses, u32::MAX, 4);
        assert_eq!(lines, [line(0xf, [u32::MAX; 4])]);
        let lines = coalescer.lines(MemoryKind::Store, &addresses, 0x1ff, 4);
        assert_eq!(lines, [line(0x3, [u32::MAX, 0xf, 0, 0])]);
    }

    #[test]
    fn the_words_of_a_warp_in_local_memory_are_contiguous() {
        let mut coalescer = Coalescer::default();
        let mut lines = |base, mask, width| {
            let addresses = Addresses::Stride { base, stride: 0 };
            let lines = coalescer.local_lines(&addresses, mask, width);
            let short = |line: &LineAccess| (line.line, line.sectors, line.bytes[0]);
            lines.iter().map(short).collect::<Vec<_>>()
        };
        assert_eq!(
            lines(8, u32::MAX, 8),
            [(3, 0xf, u32::MAX), (2, 0xf, u32::MAX)]
        );
        assert_eq!(lines(6, 0x301, 2), [(1, 0x3, 0xc)]);
    }

    #[test]
    fn passes_are_different_words_in_a_bank() {
        let mut coalescer = Coalescer::default();
        let mut passes = |stride| {
            let addresses = Addresses::Stride { base: 64, stride };
            coalescer.passes(&addresses, u32::MAX, 32)
        };
        // No conflict, broadcast, LDS.64, LDS.128, 32-way; two lanes in each word.
        assert_eq!([4, 0, 8, 16, 128, 2].map(&mut passes), [1, 1, 2, 4, 32, 1]);
    }
}
