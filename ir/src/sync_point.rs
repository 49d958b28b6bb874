//! Sync points, their numbers, and the data about them that the CTA scheduler needs.

use serde::{Deserialize, Serialize};

use crate::function::SourceLoc;
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

/// The number of the sync point at which a lane is stopped. Two special numbers mean that the lane has not started
/// ([`SyncPoint::START`]) or has exited ([`SyncPoint::EXIT`]). Sync points are numbered in the order of the program
/// ([`Cfg::program_order`](crate::analysis::Cfg::program_order)). The lanes at the sync point with the lowest number
/// (the lagging lanes) run first, so that diverged lanes reconverge where their paths join.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
pub struct SyncPoint(pub u32);

impl SyncPoint {
    /// The lane is before the first instruction of the kernel.
    pub const START: SyncPoint = SyncPoint(0);
    /// The lane has exited.
    pub const EXIT: SyncPoint = SyncPoint(u32::MAX);
}

/// Returns whether an operation without a member mask acts on all lanes that execute it together: `activemask`, and
/// `shfl` and `vote` without `.sync`. (PTX has no `match` without `.sync`.)
pub fn acts_on_present_lanes(desc: &Desc) -> bool {
    match desc.opcode {
        Opcode::ActiveMask => true,
        Opcode::Shfl | Opcode::Vote | Opcode::Match => desc.mods.flag(),
        _ => false,
    }
}

/// The data of a sync point that the CTA scheduler needs.
#[derive(Clone, Copy, Debug)]
pub struct SyncPointData {
    /// The operation.
    pub desc: Desc,
    /// Source position of the sync point, for reports.
    pub loc: SourceLoc,
}

impl SyncPointData {
    /// Returns placeholder data for [`SyncPoint::START`] and [`SyncPoint::EXIT`], which are not
    /// sync points. The operation in this data is `exit`.
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
