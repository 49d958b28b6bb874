//! An allocator for address ranges. It chooses the smallest free range that is large enough, and
//! among ranges of equal size the range at the lowest address. Adjacent free ranges are joined.
//!
//! This module only records ranges; it does not access memory.
//!
//! Invariant: free ranges never overlap and are never adjacent. `by_size` contains the same ranges
//! as `by_start`.

use std::collections::{BTreeMap, BTreeSet};

/// Free ranges of an address space or of a memory file.
#[derive(Debug, Default)]
pub(super) struct Extents {
    by_start: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl Extents {
    /// Creates an allocator with one free range: `len` bytes at `start`.
    pub(super) fn new(start: u64, len: u64) -> Extents {
        let mut extents = Extents::default();
        extents.insert(start, len);
        extents
    }

    /// Removes a range of `len` bytes from the free ranges and returns its start; `None` if no free
    /// range is large enough.
    pub(super) fn take(&mut self, len: u64) -> Option<u64> {
        let &(size, start) = self.by_size.range((len, 0)..).next()?;
        self.remove(start, size);
        if size > len {
            self.insert(start + len, size - len);
        }
        Some(start)
    }

    /// Removes the range of `len` bytes at `start` from the free ranges. Returns false, without a
    /// change, if part of the range is not free.
    pub(super) fn take_at(&mut self, start: u64, len: u64) -> bool {
        let Some(end) = start.checked_add(len) else {
            return false;
        };
        let found = self.by_start.range(..=start).next_back();
        let Some((&from, &size)) = found.filter(|&(&from, &size)| end <= from + size) else {
            return false;
        };
        self.remove(from, size);
        if from < start {
            self.insert(from, start - from);
        }
        if end < from + size {
            self.insert(end, from + size - end);
        }
        true
    }

    /// Marks a range as free.
    pub(super) fn give(&mut self, start: u64, len: u64) {
        let (mut start, mut len) = (start, len);
        if let Some((&before, &size)) = self.by_start.range(..start).next_back()
            && before + size == start
        {
            self.remove(before, size);
            start = before;
            len += size;
        }
        if let Some(&size) = self.by_start.get(&(start + len)) {
            self.remove(start + len, size);
            len += size;
        }
        self.insert(start, len);
    }

    /// Returns the total number of free bytes.
    #[cfg(test)]
    pub(super) fn total(&self) -> u64 {
        self.by_start.values().sum()
    }

    fn insert(&mut self, start: u64, len: u64) {
        self.by_start.insert(start, len);
        self.by_size.insert((len, start));
    }

    fn remove(&mut self, start: u64, len: u64) {
        self.by_start.remove(&start);
        self.by_size.remove(&(len, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_fit_then_lowest() {
        let mut extents = Extents::new(0x1000, 0x9000);
        assert_eq!(extents.take(0x1000), Some(0x1000));
        assert_eq!(extents.take(0x2000), Some(0x2000));
        assert_eq!(extents.take(0x1000), Some(0x4000));
        extents.give(0x2000, 0x2000);
        // 0x2000 bytes at 0x2000 fit better than 0x5000 at 0x5000.
        assert_eq!(extents.take(0x2000), Some(0x2000));
        assert_eq!(extents.take(0x6000), None);
        assert_eq!(extents.total(), 0x5000);
    }

    #[test]
    fn a_range_is_taken_where_it_is_asked_for() {
        let mut extents = Extents::new(0x1000, 0x4000);
        assert!(extents.take_at(0x2000, 0x1000));
        for (start, len) in [
            (0x2000, 1),
            (0x1000, 0x1001),
            (0x2fff, 2),
            (0x4000, 0x1001),
            (u64::MAX, 2),
            (0, 1),
        ] {
            assert!(!extents.take_at(start, len), "{start:#x}");
        }
        assert_eq!(extents.total(), 0x3000);
        assert!(extents.take_at(0x1000, 0x1000));
        assert!(extents.take_at(0x4fff, 1));
        extents.give(0x2000, 0x1000);
        assert_eq!(extents.take(0x2fff), Some(0x2000));
    }

    #[test]
    fn neighbours_join_in_any_order() {
        for order in [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]] {
            let mut extents = Extents::new(0, 0x300);
            for _ in 0..3 {
                extents.take(0x100).expect("room");
            }
            assert_eq!(extents.total(), 0);
            for part in order {
                extents.give(part * 0x100, 0x100);
            }
            assert_eq!(extents.take(0x300), Some(0));
        }
    }
}
