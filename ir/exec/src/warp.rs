//! Where the lanes of one warp stand.

use crate::{SyncPoint, lanes};
use margay_ops::mods::Mode;

#[derive(Clone, Debug)]
pub(super) struct WarpState {
    pub(super) ready: u32,
    pub(super) waiting: u32,
    /// Those of the waiting lanes that yielded.
    pub(super) yielded: u32,
    /// Those of the waiting lanes that wait at a barrier.
    pub(super) at_barrier: u32,
    /// Those of them that wait at the barrier of the cluster.
    pub(super) at_cluster: u32,
    /// Lanes that have arrived at the barrier of the cluster since it was last complete.
    pub(super) arrived: u32,
    pub(super) hold: Option<Hold>,
    pub(super) exited: u32,
    pub(super) sync_points: [SyncPoint; 32],
}

/// A sync point where lanes are kept until the lagging lanes that yielded have had another turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hold {
    sync_point: SyncPoint,
    /// Whether they have had it.
    pub(super) is_over: bool,
}

impl WarpState {
    /// Lanes have come to the barrier of the cluster (PTX ISA 9.7.13.4). Whoever waits without an arrival since
    /// the barrier was last complete waits for nothing.
    pub(super) fn reach_cluster_barrier(&mut self, mode: Mode, lanes: u32) {
        if mode == Mode::Arrive {
            self.arrived |= lanes;
            self.ready |= lanes;
            return;
        }
        let expected = lanes & self.arrived;
        self.ready |= lanes & !expected;
        self.waiting |= expected;
        self.at_barrier |= expected;
        self.at_cluster |= expected;
    }

    /// Whether lanes may go on from `sync_point`. When lagging lanes yielded, those get another turn
    /// first: a lane yields anywhere in a loop, and the warp would diverge by chance. If they
    /// yield again, they wait for somebody, perhaps for these lanes.
    pub(super) fn may_pass(&mut self, sync_point: SyncPoint) -> bool {
        let is_expected = lanes(self.yielded).any(|lane| self.sync_points[lane as usize] < sync_point);
        let held = self.hold.filter(|hold| hold.sync_point == sync_point);
        if is_expected && held.is_none_or(|hold| !hold.is_over) {
            self.hold = Some(held.unwrap_or(Hold {
                sync_point,
                is_over: false,
            }));
            return false;
        }
        if held.is_some() {
            self.hold = None;
        }
        true
    }
}
