//! What the accesses of a warp cost on a GPU: sectors of global memory, cycles of shared memory, collisions of atomic
//! operations.
//!
//! All figures describe one request: one instruction of one warp, with the lanes that execute it together and their
//! addresses.

use margay::observe::{Access, Addresses};

/// Size in bytes of a sector, the unit in which GPUs transfer global and local memory.
pub(crate) const SECTOR_BYTES: u64 = 32;
/// Number of banks of shared memory.
const BANKS: u64 = 32;
/// Number of bytes that a bank of shared memory delivers in one cycle.
const BANK_BYTES: u64 = 4;
/// Number of bytes that all banks deliver in one cycle.
pub(crate) const BANKS_BYTES: u64 = BANKS * BANK_BYTES;

/// The lanes of a request, in ascending order, with their addresses.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    lanes: [u8; 32],
    addresses: [u64; 32],
    count: usize,
    /// Number of bytes that each lane accesses.
    bytes: u64,
}

impl Lanes {
    /// Returns the lanes of an access.
    pub(crate) fn of(access: &Access<'_>) -> Lanes {
        let mut all = Lanes {
            lanes: [0; 32],
            addresses: [0; 32],
            count: 0,
            bytes: access.bytes.into(),
        };
        for (lane, address) in access.lanes() {
            all.lanes[all.count] = lane as u8;
            all.addresses[all.count] = address;
            all.count += 1;
        }
        all
    }

    fn addresses(&self) -> &[u64] {
        &self.addresses[..self.count]
    }

    /// Returns the number of different sectors that the lanes access.
    pub(crate) fn sectors(&self) -> u64 {
        let Some(last) = self.bytes.checked_sub(1) else {
            return 0;
        };
        let mut starts = self.addresses;
        let starts = &mut starts[..self.count];
        // The addresses of most requests are in ascending order.
        if !starts.is_sorted() {
            starts.sort_unstable();
        }
        let (mut count, mut next) = (0, 0);
        for &start in &*starts {
            let first = (start / SECTOR_BYTES).max(next);
            let end = start.saturating_add(last) / SECTOR_BYTES;
            if end >= first {
                count += end - first + 1;
                next = end + 1;
            }
        }
        count
    }

    /// Returns the number of cycles that the request takes in shared memory, and the number without bank conflicts.
    ///
    /// A bank delivers one word in a cycle, to all lanes that access this word. Requests of 8 and 16 bytes a lane are
    /// split into parts of 16 and 8 lanes, which transfer at most 128 bytes each.
    pub(crate) fn bank_cycles(&self) -> (u64, u64) {
        let size = self.bytes.clamp(BANK_BYTES, BANKS_BYTES);
        let together = (BANKS_BYTES / size).max(1) as u8;
        let (mut cycles, mut ideal) = (0, 0);
        let mut from = 0;
        while from < self.count {
            let part = self.lanes[from] / together;
            let mut to = from + 1;
            while to < self.count && self.lanes[to] / together == part {
                to += 1;
            }
            cycles += self.cycles_of(&self.addresses[from..to]);
            ideal += 1;
            from = to;
        }
        (cycles, ideal)
    }

    /// Returns the number of cycles of one part of a request: the largest number of different words in one bank.
    fn cycles_of(&self, addresses: &[u64]) -> u64 {
        // Each lane accesses at most 32 words, and the lanes of a part at most 64 in all if they are not aligned.
        let mut words = smallvec::SmallVec::<[u64; 64]>::new();
        for &address in addresses {
            let last = address.saturating_add(self.bytes.max(1) - 1) / BANK_BYTES;
            words.extend(address / BANK_BYTES..=last);
        }
        if !words.is_sorted() {
            words.sort_unstable();
        }
        words.dedup();
        let mut banks = [0u64; BANKS as usize];
        for word in &words {
            banks[(word % BANKS) as usize] += 1;
        }
        banks.into_iter().max().unwrap_or(0)
    }

    /// Returns the number of lanes whose address equals the address of a lower lane. Hardware performs the atomic
    /// operations of these lanes one after the other.
    pub(crate) fn collisions(&self) -> u64 {
        let mut sorted = self.addresses;
        let sorted = &mut sorted[..self.count];
        sorted.sort_unstable();
        let equal = sorted.windows(2).filter(|pair| pair[0] == pair[1]);
        equal.count() as u64
    }

    /// Returns the distance in bytes between the addresses of neighbouring lanes, if it is the same for all lanes and
    /// there are at least two lanes.
    fn stride(&self) -> Option<i64> {
        let [first, second, ..] = *self.addresses() else {
            return None;
        };
        let lanes = |index: usize| i64::from(self.lanes[index]) - i64::from(self.lanes[0]);
        let apart = second.wrapping_sub(first) as i64;
        let stride = (apart % lanes(1) == 0).then(|| apart / lanes(1))?;
        let of = |index: usize| first.wrapping_add(stride.wrapping_mul(lanes(index)) as u64);
        (2..self.count)
            .all(|index| self.addresses[index] == of(index))
            .then_some(stride)
    }
}

/// The addresses of a request whose lanes are neighbours and have a common distance: lane `n` of `count` has the address
/// `first + stride * n`. The results are those of [`Lanes`], but take constant time.
#[derive(Clone, Copy)]
pub(crate) struct Even {
    first: u64,
    stride: u64,
    count: u64,
    bytes: u64,
}

impl Even {
    /// Returns the addresses of an access; `None` if its lanes are not neighbours or have no common distance.
    pub(crate) fn of(access: &Access<'_>) -> Option<Even> {
        let Addresses::Strided { base, stride } = access.addresses else {
            return None;
        };
        let low = access.mask.trailing_zeros();
        let count = access.mask.count_ones();
        let has_gaps = access.mask.checked_shr(low)?.trailing_ones() != count;
        if has_gaps || access.bytes == 0 {
            return None;
        }
        let of = |lane: u32| base.wrapping_add((stride as u64).wrapping_mul(lane.into()));
        let [start, end] = [of(low), of(low + count - 1)];
        let size = stride.unsigned_abs();
        let bytes = u64::from(access.bytes);
        // The addresses do not wrap around.
        let span = size.checked_mul(u64::from(count - 1))?;
        let first = start.min(end);
        let is_whole = start.max(end) - first == span;
        first.checked_add(span)?.checked_add(bytes)?;
        is_whole.then_some(Even {
            first,
            stride: size,
            count: count.into(),
            bytes,
        })
    }

    /// Returns the number of different sectors, if the lanes access one range of memory without gaps.
    pub(crate) fn sectors(&self) -> Option<u64> {
        let last = self.first + self.stride * (self.count - 1) + self.bytes - 1;
        (self.stride <= self.bytes).then(|| last / SECTOR_BYTES - self.first / SECTOR_BYTES + 1)
    }

    /// Returns the number of cycles in shared memory and the number without bank conflicts, if each lane accesses one
    /// word.
    pub(crate) fn bank_cycles(&self) -> Option<(u64, u64)> {
        let is_word = self.bytes == BANK_BYTES
            && self.first.is_multiple_of(BANK_BYTES)
            && self.stride.is_multiple_of(BANK_BYTES);
        if !is_word {
            return None;
        }
        let words = self.stride / BANK_BYTES;
        if words == 0 {
            return Some((1, 1));
        }
        // Two lanes use the same bank if their distance is a multiple of `period`.
        let period = BANKS >> words.trailing_zeros().min(BANKS.trailing_zeros());
        Some((self.count.div_ceil(period), 1))
    }
}

/// Returns the smallest number of sectors that can contain the bytes of `lanes` lanes, if no two lanes access the same
/// byte.
pub(crate) fn ideal_sectors(lanes: u64, bytes: u64) -> u64 {
    (lanes * bytes).div_ceil(SECTOR_BYTES)
}

/// Returns the distance in bytes between the addresses of neighbouring lanes. Returns `None` if only one lane accesses
/// memory, `Some(None)` if there is no common distance.
pub(crate) fn stride_of(access: &Access<'_>) -> Option<Option<i64>> {
    if access.mask.count_ones() < 2 {
        return None;
    }
    Some(match access.addresses {
        Addresses::Strided { stride, .. } => Some(stride),
        Addresses::Each(_) => Lanes::of(access).stride(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes 0, 1, … with these addresses.
    fn lanes(addresses: &[u64], bytes: u64) -> Lanes {
        let mut all = Lanes {
            lanes: std::array::from_fn(|lane| lane as u8),
            addresses: [0; 32],
            count: addresses.len(),
            bytes,
        };
        all.addresses[..addresses.len()].copy_from_slice(addresses);
        all
    }

    fn strided(base: u64, stride: u64) -> Vec<u64> {
        (0..32).map(|lane| base + stride * lane).collect()
    }

    fn sectors(addresses: &[u64], bytes: u64) -> u64 {
        lanes(addresses, bytes).sectors()
    }

    fn bank_cycles(addresses: &[u64], bytes: u64) -> (u64, u64) {
        lanes(addresses, bytes).bank_cycles()
    }

    #[test]
    fn neighbouring_words_need_four_sectors() {
        assert_eq!(sectors(&strided(256, 4), 4), 4);
        // The words begin in the middle of a sector.
        assert_eq!(sectors(&strided(256 + 16, 4), 4), 5);
        assert_eq!(ideal_sectors(32, 4), 4);
    }

    #[test]
    fn distant_words_need_a_sector_each() {
        assert_eq!(sectors(&strided(0, 4096), 4), 32);
        assert_eq!(sectors(&[64; 32], 4), 1);
        let descending: Vec<u64> = strided(0, 4).into_iter().rev().collect();
        assert_eq!(sectors(&descending, 4), 4);
    }

    #[test]
    fn wide_and_overlapping_accesses_count_each_sector_once() {
        assert_eq!(sectors(&strided(0, 16), 16), 16);
        // Each lane reads 64 bytes, of which the next lane reads 32 again.
        assert_eq!(sectors(&strided(0, 32), 64), 33);
        assert_eq!(sectors(&[0, 8], 128), 5);
        assert_eq!(sectors(&[], 4), 0);
        assert_eq!(sectors(&[0], 0), 0);
        assert_eq!(sectors(&[u64::MAX - 3], 4), 1);
    }

    #[test]
    fn columns_of_unpadded_tiles_conflict() {
        // A column of a tile with rows of 32 words: all words are in one bank.
        assert_eq!(bank_cycles(&strided(0, 128), 4), (32, 1));
        // With rows of 33 words, all banks differ.
        assert_eq!(bank_cycles(&strided(0, 132), 4), (1, 1));
        // Every second word: two words in each of 16 banks.
        assert_eq!(bank_cycles(&strided(0, 8), 4), (2, 1));
        // All lanes read one word.
        assert_eq!(bank_cycles(&[40; 32], 4), (1, 1));
        // Bytes of one word share its cycle.
        assert_eq!(bank_cycles(&strided(0, 1), 1), (1, 1));
    }

    #[test]
    fn wide_accesses_take_a_cycle_for_each_128_bytes() {
        assert_eq!(bank_cycles(&strided(0, 8), 8), (2, 2));
        assert_eq!(bank_cycles(&strided(0, 16), 16), (4, 4));
        // 16-byte elements that are 128 bytes apart: the 8 lanes of a part access the same 4 banks.
        assert_eq!(bank_cycles(&strided(0, 128), 16), (32, 4));
        assert_eq!(bank_cycles(&[], 4), (0, 0));
    }

    #[test]
    fn even_requests_have_the_counts_of_their_lanes() {
        let mut compared = 0;
        for bytes in [1, 2, 4, 8, 16] {
            for stride in [0, 1, 2, 3, 4, 8, 12, 16, 36, 64, 128, 132] {
                for first in [4096, 4100, 4111] {
                    for count in [1, 2, 5, 16, 31, 32] {
                        let even = Even {
                            first,
                            stride,
                            count,
                            bytes,
                        };
                        let all: Vec<u64> = (0..count).map(|lane| first + stride * lane).collect();
                        let all = lanes(&all, bytes);
                        if let Some(sectors) = even.sectors() {
                            assert_eq!(sectors, all.sectors(), "{first} {stride} {count} {bytes}");
                            compared += 1;
                        }
                        if let Some(cycles) = even.bank_cycles() {
                            assert_eq!(cycles, all.bank_cycles(), "{first} {stride} {count}");
                            compared += 1;
                        }
                    }
                }
            }
        }
        assert!(compared > 400);
    }

    #[test]
    fn equal_addresses_collide() {
        assert_eq!(lanes(&[8; 32], 4).collisions(), 31);
        assert_eq!(lanes(&strided(0, 4), 4).collisions(), 0);
        assert_eq!(lanes(&[4, 8, 4, 12, 8], 4).collisions(), 2);
    }

    #[test]
    fn strides_are_those_of_all_lanes() {
        assert_eq!(lanes(&strided(100, 12), 4).stride(), Some(12));
        assert_eq!(lanes(&[7; 32], 4).stride(), Some(0));
        assert_eq!(lanes(&[0, 4, 12], 4).stride(), None);
        let mut gaps = lanes(&[0, 8, 12], 4);
        gaps.lanes[1] = 2;
        gaps.lanes[2] = 3;
        assert_eq!(gaps.stride(), Some(4));
    }
}
