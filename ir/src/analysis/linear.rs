//! Computes an order of a function's blocks in which the code for a chunk executes the paths of
//! diverged lanes one after another.
//!
//! The code for a chunk goes through all blocks in the order of [`Loops`]; for each block, a mask selects the lanes
//! that execute the block. Every edge leads forwards, or back to the header of a loop that contains the edge's source.
//! The blocks of a loop are contiguous, with the header first. Lanes stop at sync points and resume after them, so
//! lanes may enter a loop at any of its blocks. Therefore, the only special property of a header is
//! that it is the first block of its loop.
//!
//! The order covers the whole graph, including the edges after sync points, which no lane follows without stopping.
//! Without these edges, a loop that contains a sync point would not count as a loop. Lanes that leave such a loop in
//! different iterations could then meet in one of its blocks. This must not happen, because the
//! results of [`super::Uniformity`] only hold for lanes in the same iteration.

use std::ops::Deref;

use crate::analysis::{Cfg, Loops};
use crate::entity::Block;
use crate::function::Function;
use margay_ops::ops::Opcode;

/// The order of a function's reachable blocks, and the loops in this order.
#[derive(Clone, Debug)]
pub struct Linear {
    /// Whether the code runs all 32 lanes of a warp together. In this case, lanes do not stop at
    /// `converge`.
    whole_warps: bool,
    loops: Loops,
}

/// Returns the successors of a block that lanes reach without stopping at a sync point in the
/// block. Lanes do not stop at `yield`. If `whole_warps` is set, they do not stop at `converge`
/// either.
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
    /// Computes the order of a function's reachable blocks. `whole_warps` states whether the code
    /// runs all lanes of a warp together; otherwise, it runs only the lanes of a chunk together.
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
