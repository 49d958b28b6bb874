//! Reuse distances: how many other cache lines a kernel accesses between two accesses of the same line.
//!
//! An access whose distance is less than the number of lines of a fully associative cache with least-recently-used
//! replacement is a hit in this cache. The histogram therefore states the hit rate of such a cache for every size.

use margay::observe::{Access, Addresses};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Size in bytes of a cache line.
pub(crate) const LINE_BYTES: u64 = 128;

/// Computes the reuse distances of a sequence of accesses.
///
/// Each access has a time. The set of the times of the latest access of each line tells how many lines were accessed
/// since a time. An access takes logarithmic time.
#[derive(Default, Debug)]
pub(crate) struct ReuseDistances {
    /// The time of the latest access of each line.
    latest: FxHashMap<u64, u32>,
    /// The times in `latest`.
    times: Times,
    /// The time of the next access.
    next: u32,
    /// The number of reuses by distance: entry 0 counts distance 0, entry `n` distances from `2^(n-1)` to `2^n - 1`.
    histogram: Vec<u64>,
    /// Number of accesses to lines that were not accessed before.
    first: u64,
}

/// The initial number of times, and the factor by which the number of times exceeds the number of lines.
const TIMES: usize = 1 << 12;
const ROOM: usize = 8;

impl ReuseDistances {
    /// Adds a request of a warp: one access to each line that the request touches.
    pub(crate) fn request(&mut self, access: &Access<'_>) {
        let Some(last) = u64::from(access.bytes).checked_sub(1) else {
            return;
        };
        if let Some((first, end)) = one_range(access) {
            (first / LINE_BYTES..=end.saturating_add(last) / LINE_BYTES)
                .for_each(|line| self.line(line));
            return;
        }
        let mut lines = SmallVec::<[u64; 64]>::new();
        for (_, address) in access.lanes() {
            lines.extend(address / LINE_BYTES..=address.saturating_add(last) / LINE_BYTES);
        }
        lines.sort_unstable();
        lines.dedup();
        for line in lines {
            self.line(line);
        }
    }

    /// Forgets which lines were accessed, because another launch begins.
    pub(crate) fn end_launch(&mut self) {
        if self.latest.is_empty() {
            return;
        }
        self.latest.clear();
        self.times = Times::default();
        self.next = 0;
    }

    /// Adds an access to a line.
    fn line(&mut self, line: u64) {
        if self.next as usize >= self.times.len() {
            self.renumber();
        }
        let now = self.next;
        self.next += 1;
        match self.latest.insert(line, now) {
            None => self.first += 1,
            Some(before) => {
                let lines = self.latest.len() as u64;
                let distance = lines - u64::from(self.times.up_to(before));
                self.times.remove(before);
                let bucket = (u64::BITS - distance.leading_zeros()) as usize;
                if self.histogram.len() <= bucket {
                    self.histogram.resize(bucket + 1, 0);
                }
                self.histogram[bucket] += 1;
            }
        }
        self.times.insert(now);
    }

    /// Returns the number of lines that were accessed.
    pub(crate) fn lines(&self) -> u64 {
        self.first
    }

    /// Returns the number of reuses by distance: entry 0 for distance 0, entry `n` for distances from `2^(n-1)` to
    /// `2^n - 1`.
    pub(crate) fn histogram(&self) -> &[u64] {
        &self.histogram
    }

    /// Gives the latest accesses consecutive times, in their order, and makes room for [`ROOM`] times as many accesses as
    /// there are lines, at least [`TIMES`].
    fn renumber(&mut self) {
        let mut order: Vec<(u32, u64)> = self
            .latest
            .iter()
            .map(|(&line, &time)| (time, line))
            .collect();
        order.sort_unstable();
        for (time, &(_, line)) in (0..).zip(&order) {
            self.latest.insert(line, time);
        }
        self.next = order.len() as u32;
        self.times = Times::of_first(order.len(), (ROOM * order.len()).max(TIMES));
    }
}

/// A set of times: a bit for each time, and a binary indexed tree with the number of bits in each word.
#[derive(Default, Debug)]
struct Times {
    bits: Vec<u64>,
    /// The binary indexed tree; index 0 is unused.
    tree: Vec<u32>,
}

impl Times {
    /// Creates the set of the times that are less than `count`, with room for `room` times.
    fn of_first(count: usize, room: usize) -> Times {
        let words = room.div_ceil(64);
        let ones = |word: usize| count.saturating_sub(64 * word).min(64) as u32;
        let bits = (0..words).map(|word| match ones(word) {
            64 => u64::MAX,
            ones => (1 << ones) - 1,
        });
        let mut tree: Vec<u32> = std::iter::once(0).chain((0..words).map(ones)).collect();
        for index in 1..tree.len() {
            let above = index + (index & index.wrapping_neg());
            if above < tree.len() {
                tree[above] += tree[index];
            }
        }
        Times {
            bits: bits.collect(),
            tree,
        }
    }

    /// Returns the number of times for which there is room.
    fn len(&self) -> usize {
        64 * self.bits.len()
    }

    /// Returns the number of times in the set that are not after `time`.
    fn up_to(&self, time: u32) -> u32 {
        let (mut word, bit) = (time as usize / 64, time % 64);
        let mut sum = (self.bits[word] << (63 - bit)).count_ones();
        while word > 0 {
            sum += self.tree[word];
            word &= word - 1;
        }
        sum
    }

    fn insert(&mut self, time: u32) {
        self.bits[time as usize / 64] |= 1 << (time % 64);
        self.change(time, 1);
    }

    fn remove(&mut self, time: u32) {
        self.bits[time as usize / 64] &= !(1 << (time % 64));
        self.change(time, u32::MAX);
    }

    /// Adds `step` to the counts of the word with a time. The addition wraps, so `u32::MAX` subtracts 1.
    fn change(&mut self, time: u32, step: u32) {
        let mut index = time as usize / 64 + 1;
        while index < self.tree.len() {
            self.tree[index] = self.tree[index].wrapping_add(step);
            index += index & index.wrapping_neg();
        }
    }
}

/// If the lanes of a request touch each line from the first to the last address, returns these two addresses.
fn one_range(access: &Access<'_>) -> Option<(u64, u64)> {
    let Addresses::Strided { base, stride } = access.addresses else {
        return None;
    };
    let low = access.mask.trailing_zeros();
    let count = access.mask.count_ones();
    let is_dense = access.mask.checked_shr(low)?.trailing_ones() == count;
    let step = stride.unsigned_abs();
    let [a, b] = [low, low + count - 1]
        .map(|lane| base.wrapping_add((stride as u64).wrapping_mul(lane.into())));
    let (first, last) = (a.min(b), a.max(b));
    let wraps = last - first != step.checked_mul(u64::from(count - 1))?;
    (is_dense && step <= LINE_BYTES && !wraps).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distances by their definition: the number of different lines between two accesses of a line.
    fn by_definition(lines: &[u64]) -> (u64, Vec<u64>) {
        let mut first = 0;
        let mut histogram = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let Some(before) = lines[..index].iter().rposition(|other| other == line) else {
                first += 1;
                continue;
            };
            let mut between = lines[before + 1..index].to_vec();
            between.sort_unstable();
            between.dedup();
            let mut bucket = 0;
            while between.len() >> bucket != 0 {
                bucket += 1;
            }
            if histogram.len() <= bucket {
                histogram.resize(bucket + 1, 0);
            }
            histogram[bucket] += 1;
        }
        (first, histogram)
    }

    #[test]
    fn distances_count_different_lines() {
        let mut reuse = ReuseDistances::default();
        // Two addresses of one line; then another line; then the first line again.
        for address in [0, 64, 128, 4, 128, 1000] {
            reuse.line(address / LINE_BYTES);
        }
        assert_eq!(reuse.lines(), 3);
        // 64 after 0: distance 0. 4 after 64, with one line between: distance 1; so has 128.
        assert_eq!(reuse.histogram(), [1, 2]);
    }

    #[test]
    fn sets_of_times_count_their_elements() {
        let mut times = Times::of_first(130, 300);
        assert_eq!(
            (times.len(), times.up_to(299), times.up_to(63)),
            (320, 130, 64)
        );
        times.remove(64);
        times.insert(200);
        assert_eq!(
            (times.up_to(64), times.up_to(129), times.up_to(200)),
            (64, 129, 130)
        );
    }

    #[test]
    fn long_sequences_match_the_definition() {
        let mut state = 7u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        };
        let lines: Vec<u64> = (0..20_000)
            .map(|i| {
                if i % 3 == 0 {
                    next() % 700
                } else {
                    next() % 40
                }
            })
            .collect();
        let mut reuse = ReuseDistances::default();
        for line in &lines {
            reuse.line(*line);
        }
        let (first, histogram) = by_definition(&lines);
        assert_eq!(reuse.lines(), first);
        assert_eq!(reuse.histogram(), histogram);
    }
}
