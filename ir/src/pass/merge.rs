//! Merges each chain of blocks into one block, in functions with very many blocks. In a chain, each
//! block jumps to the next block, to which no other branch leads.
//!
//! Each label of a program begins a block, whether or not a branch leads to it. Chains are merged
//! because a function with several thousand blocks is compiled and interpreted faster if it has
//! fewer blocks. Functions with at most [`MIN_BLOCKS`] blocks are not changed.

use crate::analysis::Cfg;
use crate::edit;
use crate::function::Function;
use margay_ops::ops::Opcode;

/// The pass does not change functions with at most this number of blocks.
const MIN_BLOCKS: usize = 2_000;

/// Appends to each block the block to which it jumps, if no other branch leads to that block.
pub fn run(function: &mut Function) {
    if function.blocks().len() <= MIN_BLOCKS {
        return;
    }
    let cfg = Cfg::new(function);
    let changed = edit::merge_chains(function, &cfg, |function: &Function, inst| {
        function.dfg.insts[inst].opcode == Opcode::Jump
    });
    if changed {
        edit::resolve_aliases(function);
        crate::analysis::cfg::remove_unreachable(function);
    }
}
