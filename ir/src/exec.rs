//! Execution of a CTA, whatever runs its lanes.
//!
//! A [`Runner`] (the interpreter, or native code) runs lanes of a warp from one synchronisation
//! point to the next; [`cta::CtaState`] decides who may go on: member masks, barriers, convergence,
//! yields, deadlock (execution-model sections 3, 4 and 5). Both engines share it, so they agree on
//! what waits for what; what each lane computes in between is theirs.
//!
//! Invariant: lanes stand in exactly one state each: ready, waiting at a point, or exited.

pub mod arrays;
pub mod barrier;
pub mod check;
pub mod collective;
pub mod cta;
pub mod launch;
mod warp;

use crate::meaning::{Bits, Desc};

pub use check::{SyncFinding, Undefined};
pub use cta::{CtaOutcome, CtaState, Order};
pub use launch::{CtaInfo, LaunchInfo};

/// Where a lane stopped: an index that only the runner understands, except [`Stop::START`] and
/// [`Stop::EXIT`]. Lower numbers come earlier in the program (reverse postorder): lanes that are
/// behind run first, which makes lanes meet again where their paths join.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Stop(pub u32);

impl Stop {
    /// Before the first instruction.
    pub const START: Stop = Stop(0);
    /// After the last.
    pub const EXIT: Stop = Stop(u32::MAX);
}

/// Why a thread could not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// Access to memory that is not mapped or not allowed.
    IllegalAddress {
        /// Address, if known.
        address: Option<u64>,
        /// Whether it was a write, if known.
        write: Option<bool>,
    },
    /// Access not aligned to its size.
    Misaligned {
        /// Address, if known.
        address: Option<u64>,
    },
    /// `trap` or an instruction that cannot be executed.
    IllegalInstruction,
    /// A call through a handle that names no function.
    InvalidPc {
        /// The handle.
        handle: u64,
    },
    /// `trap`.
    Trap,
    /// `brkpt` with no debugger.
    Breakpoint,
    /// `__assertfail`.
    Assert {
        /// The whole message.
        message: String,
    },
    /// The stack of a thread is full (recursion).
    StackOverflow,
    /// Nobody can arrive any more: who waits where.
    Deadlock {
        /// One line for each group of waiting threads.
        waiting: Vec<String>,
    },
    /// A handle that is no texture or surface of the kind that the instruction needs.
    InvalidReference {
        /// The handle and what is wrong with it.
        what: String,
    },
    /// A surface access with `.trap` beyond the edge.
    SurfaceBounds {
        /// Coordinates: x in bytes for unformatted accesses, then y and the slice.
        at: [i64; 3],
        /// The surface's size, in the same units.
        size: [u64; 3],
    },
    /// Stopped from outside (time limit, reset, fault elsewhere).
    Stopped,
    /// An operation that is left out was reached.
    Unsupported {
        /// Its name.
        what: String,
    },
}

/// A fault and where it happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// Linear thread number in the CTA, if known.
    pub thread: Option<u32>,
    /// Source position, if known.
    pub loc: crate::function::SourceLoc,
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

/// A synchronisation point as the scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The operation.
    pub desc: Desc,
    /// Source position, for reports.
    pub loc: crate::function::SourceLoc,
}

impl Point {
    /// What a stop that is no point looks like.
    pub fn exit() -> Point {
        let desc = Desc {
            opcode: crate::ops::Opcode::Exit,
            ty: crate::types::OpType::None,
            src: crate::types::OpType::None,
            mods: crate::mods::Mods::NONE,
        };
        Point {
            desc,
            loc: Default::default(),
        }
    }
}

/// Runs lanes between points.
pub trait Runner {
    /// Runs the lanes of `mask`, all standing behind `from`, until each stops; writes where into
    /// `stops`.
    fn run(
        &mut self,
        warp: u32,
        from: Stop,
        mask: u32,
        stops: &mut [Stop; 32],
    ) -> Result<(), Fault>;

    /// The point behind a stop.
    fn point(&self, stop: Stop) -> Point;

    /// Operand number `index` of the point behind a stop, where it is the same constant for every lane.
    fn constant_operand(&self, _stop: Stop, _index: usize) -> Option<Bits> {
        None
    }

    /// Operand number `index` of the point that a lane waits at.
    fn operand(&self, warp: u32, lane: u32, stop: Stop, index: usize) -> Bits;

    /// Sets result number `index` of the point that a lane waits at.
    fn set_result(&mut self, warp: u32, lane: u32, stop: Stop, index: usize, value: Bits);

    /// Computes the collective for lanes of a warp that all stand at `stop`, faster than operand by
    /// operand; false when the runner cannot.
    fn perform(&mut self, _warp: u32, _stop: Stop, _active: u32) -> bool {
        false
    }

    /// Whether [`CtaState::run`] is to come back when all threads are about to go on behind `stop`.
    fn steps_from(&self, _stop: Stop) -> bool {
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
