//! Chains of blocks become one block, in functions of very many blocks.
//!
//! Each label of a program begins a block, whether anything branches to it or not. A function of some thousand blocks is
//! compiled, and interpreted, faster with fewer; smaller ones are left as they are.

use crate::analysis::Cfg;
use crate::entity::Block;
use crate::function::{Function, ValueDef};
use margay_ops::ops::Opcode;

/// Functions with at most so many blocks are left alone.
const MIN_BLOCKS: usize = 2_000;

/// Appends to each block the one that it alone jumps to.
pub fn run(function: &mut Function) {
    if function.blocks().len() <= MIN_BLOCKS {
        return;
    }
    let cfg = Cfg::new(function);
    let mut changed = false;
    for &block in cfg.rpo() {
        // The block whose end `block` has now.
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

/// The block that `block` jumps to, if nothing else does; what it ends with was the end of `end`.
fn only_next(function: &Function, cfg: &Cfg, block: Block, end: Block) -> Option<Block> {
    let last = function.layout.terminator(block)?;
    let [call] = function.dfg.targets(last) else {
        return None;
    };
    let alone = cfg.preds(call.block) == [end] && call.block != function.entry();
    let jumps = function.dfg.insts[last].opcode == Opcode::Jump;
    (jumps && alone && call.block != block).then_some(call.block)
}
