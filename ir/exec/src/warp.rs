//! The states of the lanes of one warp.

use crate::{SyncPoint, lanes, mask_of};
use margay_ops::mods::Mode;
use margay_ops::ops::Opcode;

#[derive(Clone, Debug)]
pub(super) struct WarpState {
    pub(super) ready: u32,
    pub(super) waiting: u32,
    /// The lanes of `waiting` that have yielded.
    pub(super) yielded: u32,
    /// The lanes of `waiting` that wait at a barrier of the CTA or of the cluster.
    pub(super) at_barrier: u32,
    /// The lanes of `waiting` that wait at the barrier of the cluster.
    pub(super) at_cluster: u32,
    /// The lanes that have arrived at the barrier of the cluster since the barrier last completed.
    pub(super) arrived: u32,
    pub(super) hold: Option<Hold>,
    pub(super) free_passes: FreePasses,
    /// The open sync point ([`WarpState::next_open`]) from which lanes last continued.
    pub(super) passed: Option<SyncPoint>,
    pub(super) exited: u32,
    pub(super) sync_points: [SyncPoint; 32],
}

/// A sync point at which lanes must wait until the lagging lanes that have yielded have run once more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hold {
    sync_point: SyncPoint,
    /// Whether the lagging lanes have run since the time at which lanes began to wait at the sync
    /// point.
    pub(super) is_over: bool,
}

/// The number of times that lanes may continue from a `converge` without a [`Hold`], after a hold
/// for the same lagging lanes has ended. Without these free passes, a loop with a `converge` in
/// each iteration, such as that of a bulk copy, would take one round of the CTA per iteration, and
/// all threads that poll for the end of the copy would poll in each of these rounds. Each further
/// hold for the same lanes permits twice as many free passes, so the number of holds is logarithmic
/// in the number of iterations.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct FreePasses {
    lagging: u32,
    permitted: u32,
    left: u32,
}

impl FreePasses {
    /// The number of free passes after the first hold.
    const FIRST: u32 = 64;
    const MOST: u32 = 1 << 20;

    /// Uses one free pass and returns true. If no free pass is left for the lagging lanes
    /// `lagging`, returns false.
    fn take(&mut self, lagging: u32) -> bool {
        let is_free = self.lagging == lagging && self.left != 0;
        self.left -= u32::from(is_free);
        is_free
    }

    fn permit(&mut self, lagging: u32) {
        let permitted = match self.lagging == lagging {
            true => (2 * self.permitted).clamp(Self::FIRST, Self::MOST),
            false => Self::FIRST,
        };
        *self = FreePasses {
            lagging,
            permitted,
            left: permitted,
        };
    }
}

impl WarpState {
    /// Updates the state of lanes that have reached the barrier of the cluster (PTX ISA 9.7.13.4).
    /// Lanes that only arrive (`Mode::Arrive`) do not stop. Lanes that wait without having arrived
    /// since the barrier last completed do not stop either. Returns the lanes that do not stop.
    pub(super) fn reach_cluster_barrier(&mut self, mode: Mode, lanes: u32) -> u32 {
        if mode == Mode::Arrive {
            self.arrived |= lanes;
            self.ready |= lanes;
            return lanes;
        }
        let expected = lanes & self.arrived;
        self.ready |= lanes & !expected;
        self.waiting |= expected;
        self.at_barrier |= expected;
        self.at_cluster |= expected;
        lanes & !expected
    }

    /// Returns one of the sync points in `open`, at which lanes wait and whose operations do not
    /// wait for other lanes. The lanes at this sync point continue together.
    ///
    /// The lowest sync point is chosen, so that lagging lanes catch up. If lanes have yielded, the lagging lanes may
    /// wait for lanes at a higher sync point. In this case, all sync points are chosen in turn,
    /// first the sync point at which lanes already wait for the lagging lanes.
    pub(super) fn next_open(&self, open: impl Iterator<Item = SyncPoint>) -> Option<SyncPoint> {
        if self.yielded == 0 {
            return open.min();
        }
        let held = self.hold.map(|hold| hold.sync_point);
        let passed = |one| self.passed.is_some_and(|last| one <= last);
        open.min_by_key(|&one| (Some(one) != held, passed(one), one))
    }

    /// Returns whether lanes may continue from `sync_point`. If lagging lanes have yielded, these
    /// lanes must run once more first. The reason is that a lane can yield in any iteration of a
    /// loop. If the lanes at `sync_point` continued at once, the lagging lanes could not catch up,
    /// and lanes that could reconverge would stay diverged. If the lagging lanes yield again, they
    /// probably wait for other threads, possibly for the lanes at `sync_point`. The lanes at
    /// `sync_point` may then continue. If `opcode`, the opcode of the sync point, is `converge`,
    /// the lanes may also continue if there is a free pass ([`FreePasses`]).
    pub(super) fn may_pass(&mut self, sync_point: SyncPoint, opcode: Opcode) -> bool {
        let lags = |lane: &u32| self.sync_points[*lane as usize] < sync_point;
        let lagging = mask_of(lanes(self.yielded).filter(lags));
        let held = self.hold.filter(|hold| hold.sync_point == sync_point);
        if lagging != 0 && held.is_none_or(|hold| !hold.is_over) {
            if opcode == Opcode::Converge && self.free_passes.take(lagging) {
                self.passed = Some(sync_point);
                return true;
            }
            self.hold = Some(held.unwrap_or(Hold {
                sync_point,
                is_over: false,
            }));
            return false;
        }
        if held.is_some() {
            self.hold = None;
            self.free_passes.permit(lagging);
        }
        self.passed = Some(sync_point);
        true
    }
}
