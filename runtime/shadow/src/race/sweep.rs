//! Frees the groups of accesses to which no recorded access belongs any more. A group describes the
//! accesses of one warp with one instruction in one interval between two synchronising operations.
//!
//! A CTA that accesses shared memory in thousands of intervals creates groups for each interval, but the cells contain
//! only accesses of the last few intervals. Without reuse, the memory for groups would grow with the running time of a
//! kernel.

use super::cell::{GroupId, NONE};
use super::ctas::Cta;
use super::{Detector, Group};

/// The detector searches for unused groups only if it stores at least this number of groups.
const FIRST: usize = 1 << 18;

/// The groups of accesses that are free for reuse.
#[derive(Debug, Default)]
pub(super) struct Unused {
    /// In descending order.
    groups: Vec<GroupId>,
    /// Number of groups that were in use after the last search, or that were skipped since then; 0 before the first
    /// search.
    kept: usize,
}

impl Unused {
    /// Removes the first `count` groups with consecutive IDs, and returns the first ID. Skips the groups before them:
    /// they can be reused only after the next search. Without this, groups that are not consecutive would prevent this
    /// search if the detector needed only consecutive groups.
    fn take_consecutive(&mut self, count: u32) -> Option<GroupId> {
        let (mut first, mut length) = (NONE, 0);
        while let Some(id) = self.groups.pop() {
            if length == 0 || id != first + length {
                self.kept += length as usize;
                (first, length) = (id, 0);
            }
            length += 1;
            if length == count {
                return Some(first);
            }
        }
        self.kept += length as usize;
        None
    }
}

impl Detector {
    /// Searches for unused groups if three conditions hold: no group can be reused, there are at
    /// least [`FIRST`] groups, and there are at least twice as many groups as were in use after the
    /// last search or were skipped since then. Between two searches, therefore, at least as many groups are created as
    /// were in use after the first of the two. The search frees every group that no recorded access
    /// belongs to and that is not the current group of an instruction and a warp. The function must
    /// therefore not be called while a caller uses such a group.
    pub(super) fn sweep_groups(&mut self) {
        if self.groups.len() < FIRST.max(2 * self.unused.kept) || !self.unused.groups.is_empty() {
            return;
        }
        let mut used = vec![false; self.groups.len() + 1];
        let mut note = |group: GroupId| used[group as usize] = true;
        self.cells.for_each_group(&mut note);
        self.recent
            .iter()
            .flatten()
            .for_each(|(_, group)| note(*group));
        let running = self.ctas.iter().filter_map(Cta::running);
        running.for_each(|cta| cta.for_each_group(&mut note));
        used[NONE as usize] = true;
        let unused = (0u32..).zip(&used).filter(|(_, used)| !**used);
        // The group that was created first is reused first.
        self.unused.groups = unused.map(|(group, _)| group).collect();
        self.unused.groups.reverse();
        self.unused.kept = self.groups.len() - self.unused.groups.len();
    }

    /// Adds a group.
    pub(super) fn add_group(&mut self, group: Group) -> GroupId {
        if let Some(id) = self.unused.groups.pop() {
            self.groups[id as usize - 1] = group;
            return id;
        }
        self.groups.push(group);
        self.groups.len() as GroupId
    }

    /// Adds `count` groups with consecutive IDs, which `make` creates, and returns the first ID.
    pub(super) fn add_groups(&mut self, count: u32, make: impl Fn(u32) -> Group) -> GroupId {
        if let Some(first) = self.unused.take_consecutive(count) {
            for index in 0..count {
                self.groups[(first + index) as usize - 1] = make(index);
            }
            return first;
        }
        self.groups.extend((0..count).map(make));
        self.groups.len() as GroupId + 1 - count
    }

    /// Returns the number of groups that are in use. Groups that can be reused are not counted.
    pub(super) fn used_groups(&self) -> usize {
        self.groups.len() - self.unused.groups.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::reads::Run;
    use super::super::{Access, Shape, Site};
    use super::*;

    /// A warp writes and reads shared memory in so many intervals that a search for unused groups
    /// takes place. The detector must find races with the accesses of the last interval, and also
    /// races with accesses that took place before the search.
    #[test]
    fn groups_of_past_intervals_are_reused() {
        let mut detector = Detector::default();
        let id = detector.add_cta(0, 0, 0, 64);
        detector.order_by_barriers_only(id);
        let access =
            |detector: &mut Detector, first: u32, site: Site, access: Access, start: u64| {
                let mut races = Vec::new();
                let lanes = (u32::MAX, 4, Shape::Adjacent);
                let address = |lane: u32| start + 4 * u64::from(lane);
                detector.access_lanes(id, first, (site, access), lanes, address, |_, race| {
                    races.push(race.earlier.0);
                });
                races.dedup();
                races
            };
        // The group of this access, by a CTA that has ended, is then referenced only by its cell: in `recent`, the
        // groups of site 1 replace it, because sites that differ by 16 use the same entry.
        let other = detector.add_cta(0, 1, 1, 32);
        detector.access(other, 3, (17, Access::WRITE), (1 << 20, 4), |_| {});
        detector.end_cta(other);
        for step in 0..FIRST as u64 {
            assert_eq!(access(&mut detector, 0, 1, Access::WRITE, 4096), []);
            assert_eq!(access(&mut detector, 0, 2, Access::READ, 4096), []);
            detector.complete_barrier(id, 0, &[u32::MAX; 2], &[u32::MAX; 2]);
            assert!(detector.groups.len() <= FIRST + 8, "step {step}");
        }
        assert_eq!(access(&mut detector, 0, 3, Access::WRITE, 4096), []);
        assert_eq!(access(&mut detector, 32, 4, Access::READ, 4096), [3]);
        assert_eq!(access(&mut detector, 0, 5, Access::READ, 1 << 20), [17]);
    }
    /// A CTA writes shared memory in so many intervals that searches for unused groups take place. All accesses are
    /// runs, which need groups with consecutive IDs, except the first two: the group of the second stays in use, so
    /// the group of the first is free but not consecutive with the other free groups.
    #[test]
    fn groups_of_runs_are_reused() {
        let mut detector = Detector::default();
        let id = detector.add_cta(0, 0, 0, 64);
        detector.order_by_barriers_only(id);
        for _ in 0..2 {
            detector.access(id, 3, (9, Access::WRITE), (1 << 20, 4), |_| {});
            detector.complete_barrier(id, 0, &[u32::MAX; 2], &[u32::MAX; 2]);
        }
        let run = Run {
            address: 4096,
            first: 0,
            threads: 64,
            stride: 4,
            bytes: 4,
        };
        for step in 0..FIRST {
            let report = |_, _| unreachable!("barriers order the accesses");
            assert!(detector.adjacent_run(id, (1, Access::WRITE), &run, report));
            detector.complete_barrier(id, 0, &[u32::MAX; 2], &[u32::MAX; 2]);
            assert!(detector.groups.len() <= FIRST + 8, "step {step}");
        }
    }
}
