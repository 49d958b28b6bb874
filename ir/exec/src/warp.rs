//! Where the lanes of one warp stand.

use crate::{Stop, lanes};
use margay_ops::mods::Mode;

#[derive(Clone, Debug)]
pub(super) struct WarpState {
    pub(super) ready: u32,
    pub(super) waiting: u32,
    /// Those of the waiting lanes that gave way.
    pub(super) yielded: u32,
    /// Those of the waiting lanes that wait at a barrier.
    pub(super) at_barrier: u32,
    /// Those of them that wait at the barrier of the cluster.
    pub(super) at_cluster: u32,
    /// Lanes that have arrived at the barrier of the cluster since it was last complete.
    pub(super) arrived: u32,
    pub(super) hold: Option<Hold>,
    pub(super) exited: u32,
    pub(super) stops: [Stop; 32],
}

/// A point where lanes are kept until those behind them that gave way have had another turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hold {
    stop: Stop,
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

    /// Whether lanes may go on from `stop`. When others gave way behind it, those get another turn
    /// first: a lane gives way anywhere in a loop, and the warp would fall apart by chance. If they
    /// give way again, they wait for somebody, perhaps for these lanes.
    pub(super) fn may_pass(&mut self, stop: Stop) -> bool {
        let is_expected = lanes(self.yielded).any(|lane| self.stops[lane as usize] < stop);
        let held = self.hold.filter(|hold| hold.stop == stop);
        if is_expected && held.is_none_or(|hold| !hold.is_over) {
            self.hold = Some(held.unwrap_or(Hold {
                stop,
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
