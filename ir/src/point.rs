//! Synchronisation points and the places where lanes stop.

use crate::function::SourceLoc;
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

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

/// A synchronisation point as the scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The operation.
    pub desc: Desc,
    /// Source position, for reports.
    pub loc: SourceLoc,
}

impl Point {
    /// What a stop that is no point looks like.
    pub fn exit() -> Point {
        let desc = Desc {
            opcode: Opcode::Exit,
            ty: OpType::None,
            src: OpType::None,
            mods: Mods::NONE,
        };
        Point {
            desc,
            loc: Default::default(),
        }
    }
}
