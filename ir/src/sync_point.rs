//! Sync points, and the numbers of the places where lanes stop.

use crate::function::SourceLoc;
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

/// The place where a lane stopped: the number of a sync point, [`SyncPoint::START`] or [`SyncPoint::EXIT`]. Sync
/// points are numbered in reverse postorder. Lagging lanes, which have the lowest number, run first, so that diverged
/// lanes reconverge where their paths join.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct SyncPoint(pub u32);

impl SyncPoint {
    /// The lane stands before the first instruction.
    pub const START: SyncPoint = SyncPoint(0);
    /// The lane has exited.
    pub const EXIT: SyncPoint = SyncPoint(u32::MAX);
}

/// The data of a sync point that the CTA scheduler needs.
#[derive(Clone, Copy, Debug)]
pub struct SyncPointData {
    /// The operation.
    pub desc: Desc,
    /// Source position, for reports.
    pub loc: SourceLoc,
}

impl SyncPointData {
    /// Returns a placeholder for a place that is not a sync point, with the operation `exit`.
    pub fn exit() -> SyncPointData {
        let desc = Desc {
            opcode: Opcode::Exit,
            ty: OpType::None,
            src: OpType::None,
            mods: Mods::NONE,
        };
        SyncPointData {
            desc,
            loc: Default::default(),
        }
    }
}
