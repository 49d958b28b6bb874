//! Execution of a CTA, whatever runs its lanes, and the interpreter.
//!
//! A [`Runner`] (the interpreter, or native code) runs lanes of a warp from one synchronisation
//! point (*sync point*) to the next; [`cta::CtaState`] decides who may go on: member masks, barriers, convergence,
//! yields, deadlock (execution-model sections 3, 4 and 5). Both engines share it, so they agree on
//! what waits for what; what each lane computes in between is theirs.
//!
//! [`interp`] is the interpreter.
//!
//! Invariant: lanes stand in exactly one state each: ready, waiting at a sync point, or exited.

#![forbid(unsafe_code)]

pub mod arrays;
pub mod barrier;
pub mod check;
pub mod collective;
pub mod cta;
pub mod interp;
pub mod launch;
mod warp;

use margay_ops::meaning::Bits;

pub use check::{SyncFinding, Undefined};
pub use cta::{CtaOutcome, CtaState, Order};
pub use launch::{CtaInfo, LaunchInfo};
pub use margay_ir::sync_point::{SyncPointData, SyncPoint};
pub use margay_ops::fault::FaultKind;

/// A fault and where it happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// Linear thread number in the CTA, if known.
    pub thread: Option<u32>,
    /// Source position, if known.
    pub loc: margay_ir::function::SourceLoc,
}

impl From<FaultKind> for Fault {
    fn from(kind: FaultKind) -> Fault {
        Fault {
            kind,
            thread: None,
            loc: Default::default(),
        }
    }
}

/// Runs lanes between sync points.
pub trait Runner {
    /// Runs the lanes of `mask` from the resume point after `from` until each stops; writes where into
    /// `sync_points`.
    fn run(
        &mut self,
        warp: u32,
        from: SyncPoint,
        mask: u32,
        sync_points: &mut [SyncPoint; 32],
    ) -> Result<(), Fault>;

    /// The data of a sync point.
    fn sync_point_data(&self, sync_point: SyncPoint) -> SyncPointData;

    /// Operand number `index` of a sync point, where it is the same constant for every lane.
    fn constant_operand(&self, _sync_point: SyncPoint, _index: usize) -> Option<Bits> {
        None
    }

    /// Operand number `index` of the sync point that a lane waits at.
    fn operand(&self, warp: u32, lane: u32, sync_point: SyncPoint, index: usize) -> Bits;

    /// Sets result number `index` of the sync point that a lane waits at.
    fn set_result(&mut self, warp: u32, lane: u32, sync_point: SyncPoint, index: usize, value: Bits);

    /// Computes the collective for lanes of a warp that all stand at `sync_point`, faster than operand by
    /// operand; false when the runner cannot.
    fn perform(&mut self, _warp: u32, _sync_point: SyncPoint, _active: u32) -> bool {
        false
    }

    /// Whether [`CtaState::run`] is to return when the CTA is converged: all threads are about to resume after
    /// `sync_point`.
    fn takes_converged(&self, _sync_point: SyncPoint) -> bool {
        false
    }
}

/// The mask of some lanes.
pub(crate) fn mask_of(lanes: impl Iterator<Item = u32>) -> u32 {
    lanes.fold(0, |mask, lane| mask | 1 << lane)
}

/// Lanes of a mask, lowest first.
pub fn lanes(mask: u32) -> impl Iterator<Item = u32> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let lane = rest.trailing_zeros();
            rest &= rest - 1;
            lane
        })
    })
}
