//! Merges each chain of blocks into one block, in functions with very many blocks. In a chain, each
//! block jumps to the next block, to which no other branch leads.
//!
//! Each label of a program begins a block, whether or not a branch leads to it. Chains are merged
//! because a function with several thousand blocks is compiled and interpreted faster if it has
//! fewer blocks. Functions with at most [`MIN_BLOCKS`] blocks are not changed.

use crate::analysis::Cfg;
use crate::entity::Block;
use crate::function::{Function, ValueDef};
use margay_ops::ops::Opcode;

/// The pass does not change functions with at most this number of blocks.
const MIN_BLOCKS: usize = 2_000;

/// Appends to each block the block to which it jumps, if no other branch leads to that block.
pub fn run(function: &mut Function) {
    if function.blocks().len() <= MIN_BLOCKS {
        return;
    }
    let cfg = Cfg::new(function);
    let mut changed = false;
    for &block in cfg.rpo() {
        // The last block of the chain so far. Its terminator is now the terminator of `block`.
        let mut end = block;
        while let Some(next) = only_next(function, &cfg, block, end) {
            let Some(jump) = function.layout.insts[block].pop() else {
                break;
            };
            let calls = function.dfg.targets.remove(&jump).unwrap_or_default();
            let args = calls.into_iter().next().map(|call| call.args);
            let params = std::mem::take(&mut function.dfg.blocks[next].params);
            for (param, arg) in params.into_iter().zip(args.unwrap_or_default()) {
                function.dfg.values[param].def = ValueDef::Alias(arg);
            }
            let rest = std::mem::take(&mut function.layout.insts[next]);
            function.layout.insts[block].extend(rest);
            end = next;
            changed = true;
        }
    }
    if changed {
        function.resolve_aliases();
        crate::analysis::cfg::remove_unreachable(function);
    }
}

/// Returns the block to which `block` jumps, if no other branch leads to that block. `end` is the
/// last block that was appended to `block`, so the terminator of `block` was originally the
/// terminator of `end`.
fn only_next(function: &Function, cfg: &Cfg, block: Block, end: Block) -> Option<Block> {
    let last = function.layout.terminator(block)?;
    let [call] = function.dfg.targets(last) else {
        return None;
    };
    let alone = cfg.preds(call.block) == [end] && call.block != function.entry();
    let jumps = function.dfg.insts[last].opcode == Opcode::Jump;
    (jumps && alone && call.block != block).then_some(call.block)
}
