//! Groups the lanes of a warp that run together, and determines the order in which the groups run.
//!
//! An *activation* is one call of a function by lanes that entered it together; a *step* is a
//! decoded instruction. Lanes of one activation whose next step is the same form a group, and
//! execute this step together. When lanes diverge, the group with the lowest position runs first.
//! Groups that reach the same step of the same activation are merged. Groups in deeper activations
//! run before groups in their callers, so that lanes that have returned wait for lanes that have
//! not returned. Within an activation, the group at the earliest step runs first. There is one
//! exception: lanes that have returned to the header of a loop wait for lanes that are still in the
//! loop's previous iteration (`waits_until`). Native code for whole warps runs the lanes in the
//! same order. A group that has passed a `yield` may have to run after all other groups
//! (`is_last`).
//!
//! Invariant: groups have no lane in common.

use smallvec::SmallVec;

/// The position of lanes in the program: their activation (function call) and their next step
/// (decoded instruction). Groups with the lowest position run first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct At(u64);

/// The maximum number of activations in which a thread can be at the same time, including the
/// activation of the kernel.
pub(super) const MAX_DEPTH: u32 = 4097;

const PC_BITS: u32 = 32;
/// The number of bits for the index of an activation. It is sufficient for the activations of a
/// warp in which each of 32 lanes has [`MAX_DEPTH`] activations.
const ACTIVATION_BITS: u32 = 18;

impl At {
    pub(super) fn new(depth: u32, activation: u32, pc: u32) -> At {
        let shallow = u64::from(MAX_DEPTH.saturating_sub(depth));
        At(shallow << (PC_BITS + ACTIVATION_BITS)
            | u64::from(activation) << PC_BITS
            | u64::from(pc))
    }

    pub(super) fn activation(self) -> usize {
        (self.0 >> PC_BITS) as usize & ((1 << ACTIVATION_BITS) - 1)
    }

    pub(super) fn pc(self) -> usize {
        self.0 as u32 as usize
    }

    /// Returns whether `other` is a later step than `self` in the same activation, but earlier than
    /// the step `end`.
    fn precedes(self, other: At, end: u32) -> bool {
        self < other && other < self.with_pc(end)
    }

    /// Returns the position of the step `pc` in the same activation.
    pub(super) fn with_pc(self, pc: u32) -> At {
        At(self.0 >> PC_BITS << PC_BITS | u64::from(pc))
    }
}

/// Lanes of a warp that are at the same step of the same activation and run together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Group {
    pub(super) at: At,
    pub(super) mask: u32,
    /// Whether all other groups must run before this group, because this group may wait for one of them.
    pub(super) is_last: bool,
    /// If the group has returned to the header of a loop, the first step after the loop. For any
    /// other group, 0. Groups between the header and this step run before this group.
    pub(super) waits_until: u32,
}

impl Group {
    pub(super) fn new(at: At, mask: u32) -> Group {
        Group {
            at,
            mask,
            is_last: false,
            waits_until: 0,
        }
    }

    /// Returns whether this group has returned to the header of a loop and waits there for `other`,
    /// which is still in the previous iteration of this loop.
    fn waits_for(&self, other: &Group) -> bool {
        !other.is_last && self.at.precedes(other.at, self.waits_until)
    }
}

/// The groups of lanes of a warp that can run, except the group that is running.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups(SmallVec<[Group; 8]>);

impl Groups {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a group of lanes. If another group is at the same position, merges the two groups.
    pub(super) fn push(&mut self, group: Group) {
        match self.0.iter_mut().find(|other| other.at == group.at) {
            Some(other) => {
                other.mask |= group.mask;
                other.is_last &= group.is_last;
                other.waits_until = other.waits_until.max(group.waits_until);
            }
            None => self.0.push(group),
        }
    }

    /// Removes the group of lanes that must run next, and returns it.
    pub(super) fn pop(&mut self) -> Option<Group> {
        let all = self.0.iter().enumerate();
        let waits = |group: &Group| {
            group.waits_until != 0 && self.0.iter().any(|other| group.waits_for(other))
        };
        let (index, _) = all.min_by_key(|(_, group)| (group.is_last, waits(group), group.at))?;
        let group = self.0.swap_remove(index);
        Some(Group::new(group.at, group.mask))
    }

    /// Returns the group that must run next after `group` has reached a new position. If another
    /// group is at this position, merges both groups. If another group must run before `group`,
    /// returns that group, and adds `group` to the groups that are not running.
    pub(super) fn go_on(&mut self, group: Group) -> Group {
        if self.0.is_empty() {
            return group;
        }
        self.push(group);
        self.pop().unwrap_or(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lagging_lanes_go_first_and_meet_the_others() {
        let place = |pc| At::new(0, 0, pc);
        let mut groups = Groups::default();
        groups.push(Group::new(place(9), 0b1100));
        assert_eq!(
            groups.go_on(Group::new(place(3), 0b0011)),
            Group::new(place(3), 0b0011)
        );
        assert_eq!(
            groups.go_on(Group::new(place(9), 0b0011)),
            Group::new(place(9), 0b1111)
        );
        assert_eq!(groups.pop(), None);
    }

    #[test]
    fn lanes_in_a_call_go_before_those_that_have_returned() {
        let caller = At::new(0, 0, 2);
        let callee = At::new(1, 5, 40);
        let mut groups = Groups::default();
        groups.push(Group::new(caller, 1));
        assert_eq!(groups.go_on(Group::new(callee, 2)).at, callee);
        assert_eq!((callee.activation(), callee.pc()), (5, 40));
        assert_eq!(callee.with_pc(7), At::new(1, 5, 7));
    }

    #[test]
    fn lanes_of_the_next_iteration_wait_for_the_others() {
        let place = |pc| At::new(1, 4, pc);
        let header = Group {
            waits_until: 9,
            ..Group::new(place(2), 1)
        };
        let next = |other: Group| {
            let mut groups = Groups::default();
            groups.push(other);
            groups.go_on(header).mask
        };
        assert_eq!(next(Group::new(place(8), 2)), 2, "in the loop");
        assert_eq!(next(Group::new(place(9), 2)), 1, "after the loop");
        assert_eq!(next(Group::new(At::new(1, 3, 8), 2)), 2, "lower activation");
        assert_eq!(next(Group::new(At::new(1, 5, 8), 2)), 1, "another call");
        assert_eq!(next(Group::new(place(2), 2)), 3, "at the header");
        let last = Group {
            is_last: true,
            ..Group::new(place(8), 2)
        };
        assert_eq!(next(last), 1, "waits for other lanes");
    }

    #[test]
    fn lanes_that_wait_let_all_others_go_first() {
        let place = |pc| At::new(0, 0, pc);
        let mut groups = Groups::default();
        groups.push(Group {
            is_last: true,
            ..Group::new(place(1), 1)
        });
        groups.push(Group::new(place(8), 2));
        assert_eq!(groups.pop(), Some(Group::new(place(8), 2)));
        assert_eq!(groups.pop(), Some(Group::new(place(1), 1)));
    }
}
