//! Checks that the slices of a track nest: of two slices, one contains the other, or they are disjoint.
//!
//! A slice may be recorded when it has ended, so that slices arrive in the order of their ends, and those of a stream in
//! any order of the threads that record them. The check compares a slice with the open ones and with the last
//! [`REMEMBERED`] that have ended.
//!
//! A reader of Perfetto's format sorts events by time and keeps the order of the file between equal times. If a slice is
//! recorded after a slice that it contains, and both begin at the same nanosecond, or if it ends at the nanosecond at
//! which a slice begins that was recorded before, the order of the file is wrong, so its event moves by a nanosecond
//! ([`Shift`]).

use std::collections::VecDeque;

/// The number of ended slices that are remembered.
const REMEMBERED: usize = 64;
/// The number of slices of a track that can be open.
pub(crate) const MAX_OPEN: usize = 4096;

/// An interval in nanoseconds.
pub(crate) type Interval = (u64, u64);

/// The state of a track.
#[derive(Debug, Default)]
pub(crate) struct Nesting {
    /// When the open slices began, from the outermost to the innermost.
    open: Vec<u64>,
    /// In the order of recording, with the times that are written.
    closed: VecDeque<Interval>,
    latest_end: u64,
}

/// Which events of a slice move by a nanosecond, so that the order of equal times in the file does not matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shift {
    /// The slice begins a nanosecond earlier.
    pub(crate) begin: bool,
    /// The slice ends a nanosecond earlier.
    pub(crate) end: bool,
}

impl Shift {
    /// Returns the interval that is written.
    pub(crate) fn apply(self, (begin, end): Interval) -> Interval {
        (
            begin.saturating_sub(self.begin.into()),
            end.saturating_sub(self.end.into()),
        )
    }
}

impl Nesting {
    /// Adds a slice that has ended. Returns an interval that it overlaps, if there is one, and then adds nothing.
    pub(crate) fn add(&mut self, begin: u64, end: u64) -> Result<Shift, Interval> {
        if let Some(outer) = self.open.last()
            && begin < *outer
        {
            return Err((*outer, u64::MAX));
        }
        if begin >= self.latest_end {
            self.remember(begin, end);
            return Ok(Shift::default());
        }
        if let Some(other) = self
            .closed
            .iter()
            .find(|other| crosses(**other, (begin, end)))
        {
            return Err(*other);
        }
        let shift = self.shift(begin, end)?;
        self.remember(
            begin.saturating_sub(shift.begin.into()),
            end - u64::from(shift.end),
        );
        Ok(shift)
    }

    /// Opens a slice. Returns an interval that contains the time, if there is one, and then opens nothing.
    pub(crate) fn open(&mut self, begin: u64) -> Result<(), Interval> {
        let outer = self.open.last().copied().unwrap_or(0);
        if begin < outer {
            return Err((outer, u64::MAX));
        }
        if let Some(other) = self
            .closed
            .iter()
            .find(|other| other.0 <= begin && begin < other.1)
        {
            return Err(*other);
        }
        self.open.push(begin);
        Ok(())
    }

    /// Closes the slice that was opened last. Returns when it began and when it ends: not before the slices in it.
    pub(crate) fn close(&mut self, end: u64) -> Option<Interval> {
        let begin = self.open.pop()?;
        let inner = self.closed.iter().filter(|inner| begin <= inner.0);
        let end = inner.map(|inner| inner.1).fold(end.max(begin), u64::max);
        self.remember(begin, end);
        Some((begin, end))
    }

    fn shift(&self, begin: u64, end: u64) -> Result<Shift, Interval> {
        let begins_with = |other: &&Interval| other.0 == begin && begin < other.1 && other.1 < end;
        let shift = Shift {
            begin: self.closed.iter().any(|other| begins_with(&other)),
            end: begin < end
                && self
                    .closed
                    .iter()
                    .any(|other| other.0 == end && end < other.1),
        };
        if shift == Shift::default() {
            return Ok(shift);
        }
        // There may be no room for the nanosecond.
        let moved = shift.apply((begin, end));
        let is_in_the_way =
            |other: &&Interval| crosses(**other, moved) || shift.begin && other.0 == moved.0;
        match self.closed.iter().find(is_in_the_way) {
            Some(other) => Err(*other),
            None => Ok(shift),
        }
    }

    #[inline]
    fn remember(&mut self, begin: u64, end: u64) {
        if self.closed.len() == REMEMBERED {
            self.closed.pop_front();
        }
        self.closed.push_back((begin, end));
        self.latest_end = self.latest_end.max(end);
    }
}

fn crosses(one: Interval, other: Interval) -> bool {
    let ordered = |first: Interval, second: Interval| {
        first.0 < second.0 && second.0 < first.1 && first.1 < second.1
    };
    ordered(one, other) || ordered(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Shift = Shift {
        begin: false,
        end: false,
    };

    #[test]
    fn disjoint_and_nested_slices_are_accepted() {
        let mut nesting = Nesting::default();
        for slice in [(1, 5), (5, 9), (10, 20), (12, 20), (0, 30), (30, 30)] {
            assert_eq!(nesting.add(slice.0, slice.1), Ok(NONE), "{slice:?}");
        }
    }

    #[test]
    fn overlapping_slices_are_named() {
        let mut nesting = Nesting::default();
        assert_eq!(nesting.add(10, 20), Ok(NONE));
        assert_eq!(nesting.add(15, 25), Err((10, 20)));
        assert_eq!(nesting.add(5, 15), Err((10, 20)));
        assert_eq!(nesting.add(20, 25), Ok(NONE));
    }

    #[test]
    fn equal_times_move_by_a_nanosecond() {
        let mut nesting = Nesting::default();
        assert_eq!(nesting.add(10, 20), Ok(NONE));
        assert_eq!(
            nesting.add(10, 30),
            Ok(Shift {
                begin: true,
                end: false
            })
        );
        assert_eq!(
            nesting.add(2, 10),
            Err((9, 30)),
            "there is no room any more"
        );
        let mut nesting = Nesting::default();
        assert_eq!(nesting.add(10, 20), Ok(NONE));
        let earlier_end = Shift {
            begin: false,
            end: true,
        };
        assert_eq!(nesting.add(2, 10), Ok(earlier_end));
        let mut crowded = Nesting::default();
        assert_eq!(crowded.add(0, 10), Ok(NONE));
        assert_eq!(crowded.add(10, 20), Ok(NONE));
        assert_eq!(crowded.add(10, 30), Err((0, 10)));
        let mut tight = Nesting::default();
        assert_eq!(tight.add(9, 10), Ok(NONE));
        assert_eq!(tight.add(10, 20), Ok(NONE));
        assert_eq!(tight.add(10, 30), Err((9, 10)));
    }

    #[test]
    fn open_slices_contain_what_is_recorded_in_them() {
        let mut nesting = Nesting::default();
        assert_eq!(nesting.open(10), Ok(()));
        assert_eq!(nesting.add(12, 15), Ok(NONE));
        assert_eq!(nesting.add(5, 11), Err((10, u64::MAX)));
        assert_eq!(nesting.open(14), Err((12, 15)));
        assert_eq!(nesting.open(15), Ok(()));
        assert_eq!(nesting.close(16), Some((15, 16)));
        assert_eq!(
            nesting.close(13),
            Some((10, 16)),
            "not before the slices in it"
        );
        assert_eq!(nesting.close(20), None);
        assert_eq!(nesting.add(9, 12), Err((10, 16)));
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut nesting = Nesting::default();
        for start in 0..1000 {
            assert_eq!(nesting.add(2 * start, 2 * start + 1), Ok(NONE));
        }
        assert_eq!(nesting.closed.len(), REMEMBERED);
        assert_eq!(
            nesting.add(0, 3000),
            Ok(Shift {
                begin: false,
                end: false
            })
        );
        assert_eq!(nesting.closed.len(), REMEMBERED);
    }
}
