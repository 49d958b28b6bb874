//! The selection of the kernel events that tools observe.

use margay_ops::mods::StateSpace;

use super::{AccessMode, ObservedAccess, ObservedEvent};

/// The events that at least one tool selects. The compiled code of a kernel depends on the
/// selection, so the selection is part of the keys of caches of compiled code. An access is
/// selected if its state space and its mode are both selected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Selection {
    /// A bit mask of the state spaces of selected accesses. Bit number `space as u32` stands for `space`.
    spaces: u16,
    /// A bit mask of the modes of selected accesses. Bit number `mode as u32` stands for `mode`.
    modes: u8,
    /// Whether operations on groups of asynchronous copies are selected.
    pub copies: bool,
    /// Whether fences are selected.
    pub fences: bool,
    /// Whether barriers and collectives are selected.
    pub synchronisation: bool,
    /// Whether instructions of the PTX text are selected.
    pub instructions: bool,
    /// Whether runs of instructions of the PTX text are selected.
    pub instruction_runs: bool,
    /// Whether branches are selected.
    pub branches: bool,
    /// Whether each record describes all lanes of a warp that execute an instruction together. If
    /// not, a record may describe only some of these lanes.
    pub whole_warps: bool,
    /// Whether generated code counts the runs of instructions instead of reporting each of them.
    pub counts_runs: bool,
    /// Whether generated code also counts the instructions of each warp of the current CTA.
    pub counts_warps: bool,
    /// A bit mask of the state spaces whose accesses generated code may count instead of reporting each of them.
    pub counted_spaces: u16,
}

/// The spaces that a generic address can refer to.
const GENERIC: [StateSpace; 5] = [
    StateSpace::Global,
    StateSpace::Shared,
    StateSpace::SharedCluster,
    StateSpace::Local,
    StateSpace::Const,
];

impl Selection {
    /// Adds state spaces and access modes to the selection. Each selected mode then applies to each selected space,
    /// including the spaces and modes that were selected before.
    #[must_use]
    pub fn with_accesses(mut self, spaces: &[StateSpace], modes: &[AccessMode]) -> Selection {
        for &space in spaces {
            self.spaces |= 1 << space as u32;
        }
        for &mode in modes {
            self.modes |= 1 << mode as u32;
        }
        self
    }

    /// Returns a selection of all events that at least one of the two selections contains. The result may contain
    /// additional accesses, because each selected mode applies to each selected space.
    #[must_use]
    pub fn union(self, other: Selection) -> Selection {
        Selection {
            spaces: self.spaces | other.spaces,
            modes: self.modes | other.modes,
            copies: self.copies | other.copies,
            fences: self.fences | other.fences,
            synchronisation: self.synchronisation | other.synchronisation,
            instructions: self.instructions | other.instructions,
            instruction_runs: self.instruction_runs | other.instruction_runs,
            branches: self.branches | other.branches,
            whole_warps: self.whole_warps | other.whole_warps,
            counts_runs: self.counts_runs | other.counts_runs,
            counts_warps: self.counts_warps | other.counts_warps,
            counted_spaces: self.counted_spaces | other.counted_spaces,
        }
    }

    /// Returns a selection whose accesses to these state spaces generated code may count.
    #[must_use]
    pub fn with_counted(mut self, spaces: &[StateSpace]) -> Selection {
        for &space in spaces {
            self.counted_spaces |= 1 << space as u32;
        }
        self
    }

    /// Returns whether generated code may count the accesses to a state space.
    pub fn counts_space(self, space: StateSpace) -> bool {
        self.counted_spaces >> space as u32 & 1 != 0
    }

    /// Returns whether any access is selected.
    pub fn has_accesses(self) -> bool {
        self.spaces != 0 && self.modes != 0
    }

    /// Returns whether any selected event requires the front end to create `observe.event` operations.
    pub fn needs_lowering(self) -> bool {
        self.instructions || self.instruction_runs || self.branches
    }

    /// Returns whether an event is selected.
    pub fn contains_event(self, event: ObservedEvent) -> bool {
        match event {
            ObservedEvent::Synchronisation { .. } => self.synchronisation,
            ObservedEvent::Fence { .. } => self.fences,
            ObservedEvent::CopyGroup { .. } => self.copies,
            ObservedEvent::Instruction { .. } => self.instructions,
            ObservedEvent::InstructionRun { .. } => self.instruction_runs,
            ObservedEvent::Branch => self.branches,
        }
    }

    /// Returns whether nothing is selected.
    pub fn is_empty(self) -> bool {
        self == Selection::default()
    }

    /// Returns whether an access is selected. An access with a generic address is selected if the address can refer to
    /// a selected space.
    pub fn contains(self, access: &ObservedAccess) -> bool {
        let has = |space: StateSpace| self.spaces >> space as u32 & 1 != 0;
        let in_space = match access.space {
            StateSpace::None => GENERIC.into_iter().any(has),
            space => has(space),
        };
        in_space && self.modes >> access.mode as u32 & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(space: StateSpace, mode: AccessMode) -> ObservedAccess {
        ObservedAccess {
            space,
            mode,
            ..ObservedAccess::from_bits(0)
        }
    }

    #[test]
    fn an_access_must_match_in_space_and_mode() {
        let shared = Selection::default().with_accesses(&[StateSpace::Shared], &[AccessMode::Load]);
        assert!(shared.contains(&access(StateSpace::Shared, AccessMode::Load)));
        assert!(!shared.contains(&access(StateSpace::Shared, AccessMode::Store)));
        assert!(!shared.contains(&access(StateSpace::Global, AccessMode::Load)));
        assert!(shared.contains(&access(StateSpace::None, AccessMode::Load)));
        assert!(shared.has_accesses() && !Selection::default().has_accesses());
    }

    #[test]
    fn a_union_contains_what_each_part_contains() {
        let loads = Selection::default().with_accesses(&[StateSpace::Global], &[AccessMode::Load]);
        let fences = Selection {
            fences: true,
            ..Selection::default()
        };
        let both = loads.union(fences);
        assert!(both.fences && both.contains(&access(StateSpace::Global, AccessMode::Load)));
        assert!(!loads.is_empty() && !fences.is_empty() && Selection::default().is_empty());
    }
}
