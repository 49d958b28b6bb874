//! Reuse distances: how many other cache lines a kernel accesses between two accesses of the same line.
//!
//! An access whose distance is less than the number of lines of a fully associative cache with least-recently-used
//! replacement is a hit in this cache. The histogram therefore states the hit rate of such a cache for every size.

use margay::observe::Access;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Size in bytes of a cache line.
pub(crate) const LINE_BYTES: u64 = 128;

/// Computes the reuse distances of a sequence of accesses.
///
/// A binary indexed tree over the times of accesses contains a 1 for the latest access of each line, so the number of
/// lines that were accessed since a time is a sum over the tree. An access takes logarithmic time.
#[derive(Debug)]
pub(crate) struct ReuseDistances {
    /// The time of the latest access of each line.
    latest: FxHashMap<u64, u32>,
    /// The binary indexed tree; index 0 is unused.
    tree: Vec<u32>,
    /// The time of the next access; the first access has time 1.
    next: u32,
    /// The number of reuses by distance: entry 0 counts distance 0, entry `n` distances from `2^(n-1)` to `2^n - 1`.
    histogram: Vec<u64>,
    /// Number of accesses to lines that were not accessed before.
    first: u64,
}

/// Initial number of times in the tree.
const TIMES: usize = 1 << 12;

impl Default for ReuseDistances {
    fn default() -> ReuseDistances {
        ReuseDistances {
            latest: FxHashMap::default(),
            tree: vec![0; TIMES + 1],
            next: 1,
            histogram: Vec::new(),
            first: 0,
        }
    }
}

impl ReuseDistances {
    /// Adds a request of a warp: one access to each line that the request touches.
    pub(crate) fn request(&mut self, access: &Access<'_>) {
        let Some(last) = u64::from(access.bytes).checked_sub(1) else {
            return;
        };
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
        self.tree = vec![0; TIMES + 1];
        self.next = 1;
    }

    /// Adds an access to a line.
    fn line(&mut self, line: u64) {
        if self.next as usize == self.tree.len() {
            self.renumber();
        }
        let now = self.next;
        self.next += 1;
        match self.latest.insert(line, now) {
            None => self.first += 1,
            Some(before) => {
                let lines = self.latest.len() as u64;
                let distance = lines - u64::from(self.sum(before));
                self.add(before, false);
                let bucket = (u64::BITS - distance.leading_zeros()) as usize;
                if self.histogram.len() <= bucket {
                    self.histogram.resize(bucket + 1, 0);
                }
                self.histogram[bucket] += 1;
            }
        }
        self.add(now, true);
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

    /// Returns the number of lines whose latest access was not after the time `time`.
    fn sum(&self, time: u32) -> u32 {
        let mut index = time as usize;
        let mut sum = 0;
        while index > 0 {
            sum += self.tree[index];
            index &= index - 1;
        }
        sum
    }

    fn add(&mut self, time: u32, present: bool) {
        let mut index = time as usize;
        while index < self.tree.len() {
            match present {
                true => self.tree[index] += 1,
                false => self.tree[index] -= 1,
            }
            index += index & index.wrapping_neg();
        }
    }

    /// Gives the latest accesses consecutive times, in their order, and makes room for as many further accesses as there
    /// are lines, at least [`TIMES`].
    fn renumber(&mut self) {
        let mut order: Vec<(u32, u64)> = self
            .latest
            .iter()
            .map(|(&line, &time)| (time, line))
            .collect();
        order.sort_unstable();
        let room = (2 * order.len()).max(TIMES);
        self.tree = vec![0; room + 1];
        for (time, &(_, line)) in (1..).zip(&order) {
            self.latest.insert(line, time);
            self.add(time, true);
        }
        self.next = order.len() as u32 + 1;
    }
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
