//! Lines of memory. A line is 64 adjacent bytes (16 cells). This module records accesses of neighbouring lanes that
//! cover a whole line.
//!
//! Most accesses of warps cover whole lines: each lane accesses the same number of cells, directly after the cells of
//! the previous lane. Such accesses are recorded once for a line instead of in each of its 16 cells, which have 20
//! bytes each.

use smallvec::SmallVec;

use super::cell::{About, Entry, GroupId, NONE};

/// Number of cells of a line.
pub(super) const LINE: usize = 16;

/// An access of neighbouring lanes to all cells of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Whole {
    /// The group of the access; [`NONE`] if there is no access.
    group: GroupId,
    /// The lane that accesses the first cell.
    first: u8,
    /// Base-two logarithm of the number of cells that each lane accesses.
    shift: u8,
}

impl Whole {
    /// Creates an access in which the lanes from `first` on each access `per` cells; `None` if `per` is not a power of
    /// two.
    pub(super) fn new(group: GroupId, first: u32, per: u32) -> Option<Whole> {
        per.is_power_of_two().then(|| Whole {
            group,
            first: first as u8,
            shift: per.trailing_zeros().min(5) as u8,
        })
    }

    /// Returns the part of the access that accesses the cell with index `cell` in the line.
    pub(super) fn entry(self, cell: usize, writes: bool) -> Option<Entry> {
        (self.group != NONE).then_some(Entry {
            group: self.group,
            lanes: 1 << ((u32::from(self.first) + (cell as u32 >> self.shift)) & 31),
            bytes: 15,
            writes,
        })
    }

    fn has_lanes_of(self, other: Whole) -> bool {
        (self.first, self.shift) == (other.first, other.shift)
    }
}

/// The accesses to a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Line {
    pub(super) write: Whole,
    pub(super) read: Whole,
    /// An earlier write: either a write by the same lanes of another CTA that races with `write`, or a write by the
    /// same threads in the same interval.
    pub(super) other_write: Whole,
}

/// Up to two earlier writes to a line that race with a new write.
pub(super) type Writes = SmallVec<[Whole; 2]>;

impl Line {
    /// Calls `f` with the group of each access; [`NONE`] stands for no access.
    pub(super) fn for_each_group(&self, f: &mut impl FnMut(GroupId)) {
        for access in [self.write, self.read, self.other_write] {
            f(access.group);
        }
    }

    /// Records a weak access to all 64 bytes of the line, unless `Detector::touch` must compare this access with the
    /// earlier accesses. Returns whether the access was recorded. `about` returns how the accesses of a group are
    /// ordered with the new access.
    pub(super) fn record(
        &mut self,
        new: Whole,
        writes: bool,
        mut about: impl FnMut(GroupId) -> About,
    ) -> bool {
        // Returns true if an earlier access happens before the new access, and false if the same lanes perform both
        // accesses in one interval. Returns `None` if the two accesses may race.
        let mut over = |old: Whole| match about(old.group) {
            About::Over => Some(true),
            About::Current if old.has_lanes_of(new) => Some(false),
            _ => None,
        };
        let earlier_over = match self.other_write.group {
            NONE => Some(true),
            _ => over(self.other_write),
        };
        let Some(earlier_over) = earlier_over else {
            return false;
        };
        let (same, other) = match writes {
            true => (self.write, self.read),
            false => (self.read, self.write),
        };
        let other_over = match other.group {
            NONE => Some(false),
            _ => over(other),
        };
        let Some(other_over) = other_over else {
            return false;
        };
        let same_over = match same.group {
            NONE => Some(true),
            _ if same == new => Some(true),
            _ => over(same),
        };
        match same_over {
            Some(true) => {}
            // Both writes are kept, because a later access races with both or with neither.
            Some(false) if writes && earlier_over => {}
            _ => return false,
        }
        match writes {
            true => {
                self.other_write = match (same_over, earlier_over) {
                    (Some(false), _) => self.write,
                    (_, true) => Whole::default(),
                    (_, false) => self.other_write,
                };
                self.write = new;
                if other_over {
                    self.read = Whole::default();
                }
            }
            false => self.read = new,
        }
        true
    }

    /// Records a write that races only with one or two earlier writes of the line, by the same lanes and the same
    /// instruction in other CTAs. Returns these earlier writes; the result is empty if `Detector::touch` must
    /// compare the write with the earlier accesses. `races` returns the cluster of a group's accesses if they race with
    /// the new write in this way.
    ///
    /// The line keeps two writes of different CTAs. If both are in the cluster of the new write, the result is empty.
    /// `enough_writes` states why two writes of different clusters suffice.
    pub(super) fn add_write(
        &mut self,
        new: Whole,
        over: impl Fn(GroupId) -> bool,
        races: impl Fn(GroupId) -> Option<u64>,
    ) -> Writes {
        let raced = |old: Whole| match old.group != NONE && old.has_lanes_of(new) {
            true => races(old.group),
            false => None,
        };
        let is_free = self.read.group == NONE || over(self.read.group);
        let Some(cluster) = raced(self.write).filter(|_| is_free) else {
            return Writes::new();
        };
        if self.other_write.group == NONE {
            let kept = std::mem::replace(&mut self.write, new);
            self.other_write = kept;
            self.read = Whole::default();
            return Writes::from_iter([kept]);
        }
        match raced(self.other_write) {
            Some(other) if other != cluster => {
                self.read = Whole::default();
                Writes::from_iter([self.other_write, self.write])
            }
            _ => Writes::new(),
        }
    }

    /// Adds a read that does not race with the accesses of the line. Returns false if the line has another read.
    pub(super) fn add_read(&mut self, new: Whole) -> bool {
        let free = self.read.group == NONE || self.read == new;
        if free {
            self.read = new;
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(group: GroupId, first: u32, per: u32) -> Whole {
        Whole::new(group, first, per).expect("a power of two")
    }

    #[test]
    fn cells_belong_to_lanes() {
        let lanes = |access: Whole| {
            [0, 1, 15].map(|cell| access.entry(cell, true).map(|entry| entry.lanes))
        };
        assert_eq!(lanes(whole(1, 0, 1)), [Some(1), Some(2), Some(1 << 15)]);
        assert_eq!(
            lanes(whole(1, 16, 1)),
            [Some(1 << 16), Some(1 << 17), Some(1 << 31)]
        );
        assert_eq!(
            lanes(whole(1, 8, 2)),
            [Some(1 << 8), Some(1 << 8), Some(1 << 15)]
        );
        assert_eq!(lanes(Whole::default()), [None; 3]);
        assert_eq!(Whole::new(1, 0, 3), None);
    }

    #[test]
    fn open_accesses_need_a_closer_examination() {
        // The accesses of groups below 10 happen before the new access. Groups 10 to 19 are of the current interval.
        let about = |group: GroupId| match group {
            0..10 => About::Over,
            10..20 => About::Current,
            _ => About::Open,
        };
        let mut line = Line::default();
        assert!(line.record(whole(1, 0, 1), true, about));
        assert!(
            line.record(whole(10, 0, 1), false, about),
            "the write is over"
        );
        assert!(
            !line.record(whole(11, 0, 1), false, about),
            "two current reads"
        );
        assert!(line.record(whole(12, 0, 1), true, about), "the same lanes");
        assert_eq!(line.read, whole(10, 0, 1));
        assert!(
            line.record(whole(13, 0, 1), true, about),
            "another write by the same lanes"
        );
        assert_eq!(
            (line.write, line.other_write),
            (whole(13, 0, 1), whole(12, 0, 1))
        );
        assert!(line.record(whole(13, 0, 1), true, about), "the write again");
        assert_eq!(line.other_write, whole(12, 0, 1));
        assert!(
            !line.record(whole(14, 0, 1), true, about),
            "a third write of the interval"
        );
        assert!(!line.record(whole(13, 16, 1), false, about), "other lanes");
        assert!(!line.record(whole(13, 16, 1), true, about));
        let mut line = Line {
            write: whole(20, 0, 1),
            ..Line::default()
        };
        assert!(!line.record(whole(10, 0, 1), true, about));
        assert!(!line.record(whole(10, 0, 1), false, about));
        let mut line = Line {
            read: whole(2, 0, 1),
            ..Line::default()
        };
        assert!(line.record(whole(10, 0, 1), true, about));
        assert_eq!(line.read, Whole::default());
    }
}
