//! Computes an order of blocks in which diverged lanes can run, one path after the other.
//!
//! The lanes of a chunk pass all blocks in the order of [`Loops`] under masks. Every edge leads forwards, or back to the
//! header of a loop that contains the edge's source. The blocks of a loop are contiguous, with the header first. Lanes
//! stop at sync points and resume after them, so lanes may enter a loop at any of its blocks. The only property of
//! a header is that it comes first.
//!
//! The order covers the whole graph, including the edges after sync points, which no lane follows without stopping.
//! If lanes leave a loop in different iterations, lanes of different iterations must not meet in a block, because
//! [`super::Uniformity`] describes lanes of the same iteration.

use std::ops::Deref;

use crate::analysis::{Cfg, Loops};
use crate::entity::Block;
use crate::function::Function;
use margay_ops::ops::Opcode;

/// The order of the blocks and its loops.
#[derive(Clone, Debug)]
pub struct Linear {
    /// Whether all lanes of a warp run together, so that lanes do not stop at `converge`.
    whole_warps: bool,
    loops: Loops,
}

/// Returns the successors of a block that lanes reach without stopping at a sync point. Lanes do not stop at
/// `yield`, and with `whole_warps` they do not stop at `converge` either.
fn onward(
    function: &Function,
    block: Block,
    whole_warps: bool,
) -> impl Iterator<Item = Block> + '_ {
    let passes = |opcode: Opcode| match opcode {
        Opcode::Yield => true,
        Opcode::Converge => whole_warps,
        _ => false,
    };
    let stops = function.insts(block).iter().any(|&inst| {
        function.effects(inst).is_sync_point() && !passes(function.dfg.insts[inst].opcode)
    });
    let calls = if stops {
        &[][..]
    } else {
        function.successors(block)
    };
    calls.iter().map(|call| call.block)
}

impl Linear {
    /// Computes the order of a function's reachable blocks. `whole_warps` states whether all lanes of a warp run
    /// together, or only those of a chunk.
    pub fn new(function: &Function, cfg: &Cfg, whole_warps: bool) -> Linear {
        Linear {
            whole_warps,
            loops: Loops::new(function, cfg),
        }
    }

    /// Returns the successors of a block that lanes reach without stopping at a sync point.
    pub fn onward<'a>(
        &self,
        function: &'a Function,
        block: Block,
    ) -> impl Iterator<Item = Block> + use<'a> {
        onward(function, block, self.whole_warps)
    }
}

impl Deref for Linear {
    type Target = Loops;

    fn deref(&self) -> &Loops {
        &self.loops
    }
}
