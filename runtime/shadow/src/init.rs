//! Records which bytes of memory have been written: one bit per byte.
//!
//! Writes are recorded only for ranges of memory that were passed to [`Initialised::track`]. All other memory is
//! treated as written. Several threads may call the functions at the same time, because the bits are atomic.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Whether all, some or none of the bytes of a range have been written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// All bytes.
    All,
    /// Some bytes have been written, but not all.
    Some,
    /// No byte.
    None,
}

/// One tracked range, and the bits that state which of its bytes have been written.
#[derive(Debug)]
struct Range {
    start: u64,
    len: u64,
    /// Bit `i % 64` of word `i / 64` states whether byte `i` of the range has been written.
    words: Box<[AtomicU64]>,
    /// A counter that is incremented before and after each time that bits are cleared.
    clears: AtomicU64,
    /// The value of `clears` when all bytes were found to be written; `u64::MAX` if they were not.
    whole_at: AtomicU64,
    /// Number of calls of [`Range::is_whole`] since bits were last cleared, without the calls that
    /// returned true because of `whole_at`.
    searches: AtomicU64,
}

impl Range {
    fn new(start: u64, len: u64) -> Range {
        Range {
            start,
            len,
            words: (0..len.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            clears: AtomicU64::new(0),
            whole_at: AtomicU64::new(u64::MAX),
            searches: AtomicU64::new(0),
        }
    }

    /// Returns whether all bytes of the range have been written. May return false although all
    /// bytes have been written, because only the 1st, 2nd, 4th, 8th (and so on) call examines all
    /// bytes.
    fn is_whole(&self) -> bool {
        let clears = self.clears.load(Ordering::SeqCst);
        if self.whole_at.load(Ordering::SeqCst) == clears {
            return true;
        }
        let call = self.searches.fetch_add(1, Ordering::Relaxed) + 1;
        if !call.is_power_of_two() || self.written(0, self.len) != Written::All {
            return false;
        }
        self.whole_at.store(clears, Ordering::SeqCst);
        true
    }

    /// Calls `clear`, which clears bits, and increments `clears` before and after this call.
    fn cleared(&self, clear: impl FnOnce()) {
        self.clears.fetch_add(1, Ordering::SeqCst);
        clear();
        self.clears.fetch_add(1, Ordering::SeqCst);
        self.searches.store(0, Ordering::Relaxed);
    }

    fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Returns, for each word that contains bits of the bytes `from .. to`, the index of the word and the mask of these
    /// bits.
    fn parts(from: u64, to: u64) -> impl Iterator<Item = (usize, u64)> {
        (from / 64..to.div_ceil(64)).map(move |word| {
            let first = from.max(word * 64) % 64;
            let count = to.min(word * 64 + 64) - from.max(word * 64);
            let mask = match count {
                64 => u64::MAX,
                _ => ((1 << count) - 1) << first,
            };
            (word as usize, mask)
        })
    }

    fn set(&self, from: u64, to: u64) {
        for (word, mask) in Range::parts(from, to) {
            let word = &self.words[word];
            // Most stores write bytes that were written before, so the atomic read-modify-write is usually unnecessary.
            if word.load(Ordering::Relaxed) & mask != mask {
                word.fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    fn written(&self, from: u64, to: u64) -> Written {
        let (mut any, mut all) = (false, true);
        for (word, mask) in Range::parts(from, to) {
            let bits = self.words[word].load(Ordering::Relaxed) & mask;
            any |= bits != 0;
            all &= bits == mask;
        }
        match (any, all) {
            (_, true) => Written::All,
            (true, false) => Written::Some,
            (false, false) => Written::None,
        }
    }
}

/// Records which bytes of the tracked ranges have been written.
#[derive(Debug, Default)]
pub struct Initialised {
    /// The tracked ranges by their start. They do not overlap.
    ranges: RwLock<BTreeMap<u64, Arc<Range>>>,
    /// The number of changes of `ranges` so far. A [`View`] is out of date if its number differs.
    changes: AtomicU64,
}

/// A cache of the most recently used ranges of an [`Initialised`]. The owner of the `View` finds
/// these ranges again without taking the lock of the [`Initialised`].
#[derive(Debug, Default)]
pub struct View {
    changes: u64,
    recent: [Option<Arc<Range>>; 4],
    /// The ranges whose bits generated code accesses directly. They are kept so that the addresses of the bits stay
    /// valid.
    lent: Vec<Arc<Range>>,
}

/// The record of a tracked range. All addresses that are passed to its functions must be in the range.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a>(&'a Range);

impl Record<'_> {
    /// Records that `len` bytes at `start` have been written.
    #[inline]
    pub fn set(self, start: u64, len: u64) {
        let from = start - self.0.start;
        self.0.set(from, from + len);
    }

    /// Returns whether `len` bytes at `start` have been written.
    #[inline]
    pub fn is_written(self, start: u64, len: u64) -> bool {
        let from = start - self.0.start;
        let (word, bit) = ((from / 64) as usize, from % 64);
        match len <= 64 - bit {
            true => {
                let mask = u64::MAX >> (64 - len.clamp(1, 64)) << bit;
                self.0.words[word].load(Ordering::Relaxed) & mask == mask
            }
            false => self.0.written(from, from + len) == Written::All,
        }
    }
}

impl View {
    /// Returns the tracked range that contains all `len` bytes at `start`; `None` if no single range contains them.
    fn range(&mut self, of: &Initialised, start: u64, len: u64) -> Option<&Range> {
        let changes = of.changes.load(Ordering::Acquire);
        if self.changes != changes {
            self.changes = changes;
            self.recent = [const { None }; 4];
        }
        let contains =
            |range: &Arc<Range>| range.start <= start && start.saturating_add(len) <= range.end();
        let known = |range: &Option<Arc<Range>>| range.as_ref().is_some_and(contains);
        match self.recent.iter().position(known) {
            Some(at) => self.recent.swap(0, at),
            None => {
                let ranges = of.ranges.read().unwrap_or_else(PoisonError::into_inner);
                let (_, found) = ranges.range(..=start).next_back()?;
                if !contains(found) {
                    return None;
                }
                self.recent.rotate_right(1);
                self.recent[0] = Some(Arc::clone(found));
            }
        }
        self.recent[0].as_deref()
    }

    /// Returns the record of the tracked range that contains all `len` bytes at `start`; `None` if no single range
    /// contains them.
    pub fn within(&mut self, of: &Initialised, start: u64, len: u64) -> Option<Record<'_>> {
        self.range(of, start, len).map(Record)
    }

    /// Returns the address of the bits of `len` bytes at `start`: bit `i % 8` of byte `i / 8` states whether byte `i`
    /// has been written. Returns 0 if no tracked range contains any of the bytes, because all of them are then treated
    /// as written, or if all bytes of the tracked range have been written. Returns `None` on big-endian hosts, if some
    /// of the bytes are tracked but no single range contains all of them, or if the bit of the byte at `start` is not
    /// bit 0 of a byte of the record. The memory of the bits is not freed while this view exists. The [`Initialised`]
    /// uses these bits until [`Initialised::track`] or [`Initialised::forget`] replaces or removes the range.
    pub fn record(&mut self, of: &Initialised, start: u64, len: u64) -> Option<u64> {
        let Some(range) = self.range(of, start, len) else {
            return of.is_untracked(start, len).then_some(0);
        };
        if range.is_whole() {
            return Some(0);
        }
        let offset = start - range.start;
        let bits = range.words.as_ptr().expose_provenance() as u64 + offset / 8;
        if !offset.is_multiple_of(8) || cfg!(target_endian = "big") {
            return None;
        }
        let found = self.recent[0].clone()?;
        if !self.lent.iter().any(|lent| Arc::ptr_eq(lent, &found)) {
            self.lent.push(found);
        }
        Some(bits)
    }

    /// Does the same as [`Initialised::set`].
    pub fn set(&mut self, of: &Initialised, start: u64, len: u64) {
        match self.range(of, start, len) {
            Some(range) => range.set(start - range.start, start + len - range.start),
            None => of.set(start, len),
        }
    }

    /// Does the same as [`Initialised::written`].
    pub fn written(&mut self, of: &Initialised, start: u64, len: u64) -> Written {
        match self.range(of, start, len) {
            Some(range) => range.written(start - range.start, start + len - range.start),
            None => of.written(start, len),
        }
    }
}

impl Initialised {
    /// Begins to track a range in which no byte has been written. Tracked ranges that overlap the new range are
    /// removed.
    pub fn track(&self, start: u64, len: u64) {
        let mut ranges = self.ranges.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = ranges.get(&start).filter(|same| same.len == len) {
            let words = same.words.iter();
            return same.cleared(|| words.for_each(|word| word.store(0, Ordering::Relaxed)));
        }
        let overlapping: Vec<u64> = overlapping(&ranges, start, len).map(|r| r.start).collect();
        for start in overlapping {
            ranges.remove(&start);
        }
        if len != 0 {
            ranges.insert(start, Arc::new(Range::new(start, len)));
        }
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Stops tracking the range that begins at `start`. Its bytes are then treated as written.
    pub fn forget(&self, start: u64) {
        let mut ranges = self.ranges.write().unwrap_or_else(PoisonError::into_inner);
        ranges.remove(&start);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Returns the length in bytes of the tracked range that begins at `start`; `None` if there is no such range.
    pub fn tracked(&self, start: u64) -> Option<u64> {
        let ranges = self.ranges.read().unwrap_or_else(PoisonError::into_inner);
        ranges.get(&start).map(|range| range.len)
    }

    /// Returns whether no byte of `len` bytes at `start` is in a tracked range.
    fn is_untracked(&self, start: u64, len: u64) -> bool {
        let ranges = self.ranges.read().unwrap_or_else(PoisonError::into_inner);
        overlapping(&ranges, start, len).next().is_none()
    }

    /// Records that `len` bytes at `start` have been written.
    pub fn set(&self, start: u64, len: u64) {
        self.each(start, len, |range, from, to| range.set(from, to));
    }

    /// Returns whether all, some or none of the `len` bytes at `start` have been written.
    pub fn written(&self, start: u64, len: u64) -> Written {
        let (mut any, mut all, mut seen) = (false, true, 0);
        self.each(start, len, |range, from, to| {
            let part = range.written(from, to);
            any |= part != Written::None;
            all &= part == Written::All;
            seen += to - from;
        });
        any |= seen < len;
        match (any, all) {
            (_, true) => Written::All,
            (true, false) => Written::Some,
            (false, false) => Written::None,
        }
    }

    /// Returns the offset from `start` of the first unwritten byte, the number of unwritten bytes, and the length of
    /// the longest sequence of unwritten bytes. Returns `None` if all bytes have been written.
    pub fn missing(&self, start: u64, len: u64) -> Option<(u64, u64, u64)> {
        let (mut first, mut count) = (None, 0);
        // The length of the longest sequence of unwritten bytes, and the length and the end of the current sequence.
        let (mut longest, mut run, mut next) = (0, 0, u64::MAX);
        self.each(start, len, |range, from, to| {
            for (word, mask) in Range::parts(from, to) {
                let missing = !range.words[word].load(Ordering::Relaxed) & mask;
                if missing != 0 {
                    let byte = word as u64 * 64 + u64::from(missing.trailing_zeros());
                    first.get_or_insert(range.start + byte - start);
                    count += u64::from(missing.count_ones());
                }
                let mut bits = missing;
                while bits != 0 {
                    let from = u64::from(bits.trailing_zeros());
                    let ones = u64::from((bits >> from).trailing_ones());
                    let at = range.start + word as u64 * 64 + from;
                    run = if at == next { run + ones } else { ones };
                    next = at + ones;
                    longest = longest.max(run);
                    bits = match from + ones {
                        64 => 0,
                        end => bits >> end << end,
                    };
                }
            }
        });
        first.map(|first| (first, count, longest))
    }

    /// Copies the record of `len` bytes at `src` to `dst`: each destination byte is then recorded as written if and
    /// only if its source byte is.
    pub fn copy(&self, dst: u64, src: u64, len: u64) {
        // Copies the record byte by byte only if the source contains bytes that have not been written.
        if self.written(src, len) == Written::All {
            return self.set(dst, len);
        }
        let bits: Vec<bool> = (0..len)
            .map(|i| self.written(src + i, 1) == Written::All)
            .collect();
        self.clear(dst, len);
        for (i, written) in bits.into_iter().enumerate() {
            if written {
                self.set(dst + i as u64, 1);
            }
        }
    }

    /// Records that no byte of `len` bytes at `start` has been written.
    pub fn clear(&self, start: u64, len: u64) {
        self.each(start, len, |range, from, to| {
            range.cleared(|| {
                for (word, mask) in Range::parts(from, to) {
                    range.words[word].fetch_and(!mask, Ordering::Relaxed);
                }
            });
        });
    }

    /// Calls `action` for each tracked range that contains some of the bytes. The arguments are the range, and the
    /// offsets in the range of the first and one past the last of these bytes.
    fn each(&self, start: u64, len: u64, mut action: impl FnMut(&Range, u64, u64)) {
        let ranges = self.ranges.read().unwrap_or_else(PoisonError::into_inner);
        for range in overlapping(&ranges, start, len) {
            let from = start.max(range.start) - range.start;
            let to = start.saturating_add(len).min(range.end()) - range.start;
            action(range, from, to);
        }
    }
}

/// Returns the ranges that overlap `len` bytes at `start`, in the order of their addresses.
fn overlapping(
    ranges: &BTreeMap<u64, Arc<Range>>,
    start: u64,
    len: u64,
) -> impl Iterator<Item = &Arc<Range>> {
    let end = start.saturating_add(len);
    let before = ranges.range(..start).next_back().map(|(_, range)| range);
    let before = before.filter(move |range| range.end() > start && len != 0);
    before
        .into_iter()
        .chain(ranges.range(start..end).map(|(_, range)| range))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_recorded_one_by_one() {
        let init = Initialised::default();
        init.track(1000, 300);
        assert_eq!(init.written(1000, 300), Written::None);
        init.set(1060, 10);
        assert_eq!(init.written(1060, 10), Written::All);
        assert_eq!(init.written(1059, 1), Written::None);
        assert_eq!(init.written(1069, 2), Written::Some);
        assert_eq!(init.missing(1060, 12), Some((10, 2, 2)));
        init.set(1000, 300);
        assert_eq!(init.written(1000, 300), Written::All);
        assert_eq!(init.missing(1000, 300), None);
    }

    #[test]
    fn a_range_without_unwritten_bytes_needs_no_record() {
        let (init, mut view) = (Initialised::default(), View::default());
        init.track(1024, 300);
        let record = view.record(&init, 1024, 300);
        assert!(record.is_some_and(|address| address != 0));
        init.set(1024, 300);
        let mut calls = (0..8).map(|_| view.record(&init, 1024, 300));
        assert!(calls.any(|record| record == Some(0)));
        assert_eq!(view.record(&init, 1032, 8), Some(0));
        for unwrite in [
            |init: &Initialised| init.clear(1033, 1),
            |init: &Initialised| init.track(1024, 300),
        ] {
            unwrite(&init);
            assert_eq!(view.record(&init, 1024, 300), record);
            init.set(1024, 300);
            assert_eq!(view.record(&init, 1024, 300), Some(0));
        }
    }

    #[test]
    fn other_memory_counts_as_written() {
        let init = Initialised::default();
        assert_eq!(init.written(5, 100), Written::All);
        init.track(50, 10);
        assert_eq!(init.written(40, 10), Written::All);
        assert_eq!(init.written(60, 10), Written::All);
        assert_eq!(init.written(45, 10), Written::Some);
        assert_eq!((init.tracked(50), init.tracked(51)), (Some(10), None));
        init.forget(50);
        assert_eq!(init.written(45, 10), Written::All);
    }

    #[test]
    fn copies_carry_the_record() {
        let init = Initialised::default();
        init.track(0, 100);
        init.track(200, 100);
        init.set(10, 20);
        init.set(200, 100);
        init.copy(200, 0, 100);
        assert_eq!(init.written(210, 20), Written::All);
        assert_eq!(init.written(200, 10), Written::None);
        assert_eq!(init.missing(200, 100), Some((0, 80, 70)));
    }

    #[test]
    fn a_new_range_replaces_old_ranges() {
        let init = Initialised::default();
        init.track(0, 100);
        init.set(0, 100);
        init.track(50, 100);
        assert_eq!(init.written(0, 50), Written::All);
        assert_eq!(init.written(50, 50), Written::None);
    }

    #[test]
    fn a_record_says_whether_bytes_were_written() {
        let init = Initialised::default();
        init.track(1000, 300);
        let mut view = View::default();
        assert!(view.within(&init, 999, 4).is_none());
        let record = view.within(&init, 1000, 300).expect("a tracked range");
        // Bytes 60 to 67 of the range are in two words.
        record.set(1060, 8);
        assert!(record.is_written(1060, 8) && record.is_written(1060, 4));
        assert!(!record.is_written(1059, 4) && !record.is_written(1064, 8));
        assert_eq!(init.written(1060, 8), Written::All);
        assert_eq!(init.written(1056, 8), Written::Some);
    }

    #[test]
    fn generated_code_finds_the_bits_of_a_range() {
        let init = Initialised::default();
        init.track(4096, 256);
        let mut view = View::default();
        let whole = view.record(&init, 4096, 256).expect("a tracked range");
        assert_eq!(view.record(&init, 4096 + 64, 64), Some(whole + 8));
        assert_eq!(
            view.record(&init, 4096 + 4, 8),
            None,
            "no byte of bits begins there"
        );
        assert_eq!(
            view.record(&init, 9000, 8),
            Some(0),
            "nobody records this memory"
        );
        assert_eq!(view.record(&init, 4096 + 250, 64), None);
        init.set(4096, 256);
        init.track(4096, 256);
        assert_eq!(init.written(4096, 256), Written::None);
        assert_eq!(
            view.record(&init, 4096, 256),
            Some(whole),
            "the bits stay where they are"
        );
    }
}
