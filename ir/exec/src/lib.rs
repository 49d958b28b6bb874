//! The CTA scheduler, which both engines (native code and the interpreter) use, and the
//! interpreter.
//!
//! A [`Runner`] (the interpreter, or native code) runs lanes of a warp from one sync point to the
//! next. The scheduler, [`cta::CtaState`], decides which lanes may continue. The scheduler
//! implements member masks, barriers, reconvergence, yields and deadlock detection
//! (`docs/frames.md`, "The CTA scheduler"), so these mechanisms are the same in both engines.
//! Between sync points, each engine executes the code of the lanes itself.
//!
//! The module [`interp`] contains the interpreter.
//!
//! Invariant: each lane is in exactly one of three states: ready, waiting at a sync point, or exited.

#![forbid(unsafe_code)]

pub mod arrays;
pub mod barrier;
pub mod check;
pub mod collective;
pub mod cta;
pub mod interp;
pub mod launch;
pub mod symbols;
mod warp;

use margay_ops::meaning::Bits;

pub use check::{SyncFinding, Undefined};
pub use cta::{CtaOutcome, CtaState, Order};
pub use launch::{CtaInfo, LaunchInfo};
pub use margay_ir::sync_point::{SyncPoint, SyncPointData};
pub use margay_ops::fault::FaultKind;
pub use symbols::SymbolTable;

/// A fault, with the thread and the source position of the instruction that caused it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The linear index in the CTA of the thread that caused the fault, or `None` if it is not
    /// known.
    pub thread: Option<u32>,
    /// The source position of the instruction that caused the fault; all zeros if it is not known.
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

/// An event by which threads of a CTA synchronise, described for the tools that observe the launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncEvent<'a> {
    /// Lanes of a warp execute a collective together.
    Warp {
        /// The index of the warp in the CTA.
        warp: u32,
        /// The lanes.
        lanes: u32,
        /// The lanes of the warp that have not exited.
        alive: u32,
    },
    /// Lanes of a warp arrive at a barrier of the CTA.
    Arrive {
        /// The number of the barrier in the CTA, from 0 to 15.
        barrier: u32,
        /// The index of the warp in the CTA.
        warp: u32,
        /// The lanes.
        lanes: u32,
    },
    /// A barrier of the CTA completes, and the lanes that wait at it continue.
    Barrier {
        /// The number of the barrier in the CTA, from 0 to 15.
        barrier: u32,
        /// For each warp, the lanes that waited at the barrier and continue.
        released: &'a [u32],
        /// For each warp, the lanes that have not exited. If the barrier waits for a given number
        /// of threads, this mask also contains the lanes that have exited, because such a barrier
        /// does not order the accesses of exited lanes.
        alive: &'a [u32],
    },
    /// Lanes of a warp arrive at the barrier of the cluster.
    ClusterArrive {
        /// The index of the warp in the CTA.
        warp: u32,
        /// The lanes.
        lanes: u32,
        /// Whether the arrival is `.relaxed`, so that it does not order memory accesses.
        relaxed: bool,
    },
    /// Lanes of a warp execute a wait at the barrier of the cluster (`barrier.cluster.wait`) and do
    /// not stop, because the barrier is already complete.
    ClusterWait {
        /// The index of the warp in the CTA.
        warp: u32,
        /// The lanes.
        lanes: u32,
    },
}

/// The lanes of a CTA at the barrier of the cluster. Each vector contains one lane mask for each warp.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterLanes {
    /// The lanes that wait at the barrier.
    pub waiting: Vec<u32>,
    /// The lanes that have not exited.
    pub alive: Vec<u32>,
}

/// An engine: it runs lanes from one sync point to the next.
pub trait Runner {
    /// Runs the lanes of `mask`, which all resume after `from`, until each lane stops at a sync point or exits. Writes
    /// to `sync_points` the sync point at which each lane stopped, or [`SyncPoint::EXIT`].
    fn run(
        &mut self,
        warp: u32,
        from: SyncPoint,
        mask: u32,
        sync_points: &mut [SyncPoint; 32],
    ) -> Result<(), Fault>;

    /// Runs all lanes of a warp that have not exited, the lanes `alive`. All of them resume after `from`. Unlike
    /// [`Runner::run`], this function may complete sync points of the warp itself, so the lanes can pass several sync
    /// points. Writes to `sync_points` the sync point at which each lane finally stopped, or [`SyncPoint::EXIT`].
    /// Returns false and changes nothing if the runner cannot do this; the caller then calls [`Runner::run`].
    fn run_whole(
        &mut self,
        _warp: u32,
        _from: SyncPoint,
        _alive: u32,
        _sync_points: &mut [SyncPoint; 32],
    ) -> Result<bool, Fault> {
        Ok(false)
    }

    /// Returns the operation and the source position of a sync point.
    fn sync_point_data(&self, sync_point: SyncPoint) -> SyncPointData;

    /// Returns whether threads of a CTA can bypass the barrier at a sync point, and then execute
    /// code that follows the barrier ([`margay_ir::analysis::skipping`]). Only checking runs call
    /// this function.
    fn is_skipped(&self, _sync_point: SyncPoint) -> bool {
        false
    }

    /// Returns whether the CTA has run for so long that the worker should switch to other CTAs if
    /// lanes of this CTA have yielded.
    fn is_overdue(&self) -> bool {
        false
    }

    /// Returns the value of the operand with index `index` of a sync point if the operand is a
    /// constant, which is equal for all lanes. Otherwise, returns `None`.
    fn constant_operand(&self, _sync_point: SyncPoint, _index: usize) -> Option<Bits> {
        None
    }

    /// Returns whether the program can have computed the operand `c` of a shuffle from a width
    /// ([`margay_ir::analysis::shuffle_width`]). Only checking runs call this function.
    fn has_width(&self, _sync_point: SyncPoint) -> bool {
        true
    }

    /// Returns the value in a lane of the operand with index `index` of the sync point at which the
    /// lane waits.
    fn operand(&self, warp: u32, lane: u32, sync_point: SyncPoint, index: usize) -> Bits;

    /// Writes `value` to the result with index `index` of the sync point at which a lane waits.
    fn set_result(
        &mut self,
        warp: u32,
        lane: u32,
        sync_point: SyncPoint,
        index: usize,
        value: Bits,
    );

    /// Computes the collective at `sync_point` for the lanes `active` of a warp, which all wait
    /// there. If the runner cannot compute the collective, it changes nothing and returns false.
    /// The caller then computes it from [`Runner::operand`] and writes the results with
    /// [`Runner::set_result`].
    fn perform(&mut self, _warp: u32, _sync_point: SyncPoint, _active: u32) -> bool {
        false
    }

    /// Tells the tools that observe the launch that threads of the CTA have synchronised.
    /// [`CtaState`] calls this function only if [`CtaState::observed`] was called.
    fn synchronised(&mut self, _event: SyncEvent<'_>) {}

    /// Returns those of the lanes `open` of a warp, which wait at sync points, whose sync point
    /// comes first in the program. They are all in the same function calls. The order of two sync
    /// points in different functions is the order of the calls of these functions in their common
    /// caller. Returns `None` if all lanes are in the kernel itself; then the order of the sync
    /// point numbers is the order in the program.
    fn first_in_calls(&self, _warp: u32, _open: u32) -> Option<u32> {
        None
    }

    /// Returns whether [`CtaState::run`] must return [`CtaOutcome::Converged`] when all threads that have not exited
    /// are about to resume after `sync_point`.
    fn takes_converged(&self, _sync_point: SyncPoint) -> bool {
        false
    }
}

/// Returns a mask in which exactly the bits of `lanes` are set.
pub(crate) fn mask_of(lanes: impl Iterator<Item = u32>) -> u32 {
    lanes.fold(0, |mask, lane| mask | 1 << lane)
}

/// Returns the numbers of the lanes whose bits are set in `mask`, in ascending order.
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
