//! Removes blocks: unreachable ones, those that only jump, and those that continue a chain.

use margay_ir::analysis::cfg::remove_unreachable;
use margay_ir::edit;
use margay_ir::entity::{Block, Inst, SecondaryMap, Value};
use margay_ir::function::BlockCall;

use crate::data::Data;
use crate::function::Function;
use crate::ops::Op;

/// The maximum number of blocks that a branch skips.
const MOST_SKIPPED: usize = 8;

/// Removes blocks. Returns whether a branch leads to another block than before.
pub(super) fn run(function: &mut Function) -> bool {
    let changed = skip(function);
    let cfg = remove_unreachable(function);
    let is_jump = |function: &Function, inst: Inst| function.insts[inst].op == Op::Jump;
    if edit::merge_chains(function, &cfg, is_jump) {
        edit::resolve_aliases(function);
        remove_unreachable(function);
    }
    changed
}

/// Returns the jump of a block that has no other instruction.
fn only_jump(function: &Function, block: Block) -> Option<&BlockCall> {
    let &[inst] = function.body[block].as_slice() else {
        return None;
    };
    let is_jump = function.insts[inst].op == Op::Jump && block != function.entry();
    is_jump.then(|| function.targets(inst).first()).flatten()
}

/// Lets branches skip blocks that only jump, unless other blocks use the parameters of the skipped block.
fn skip(function: &mut Function) -> bool {
    let is_candidate = |&block: &Block| only_jump(function, block).is_some();
    if !function.order.iter().any(is_candidate) {
        return false;
    }
    let used = used_elsewhere(function);
    let mut changed = false;
    for block in function.order.clone() {
        let Some(&last) = function.body[block].last() else {
            continue;
        };
        let Some(mut calls) = function.targets.remove(&last) else {
            continue;
        };
        for call in &mut calls {
            for _ in 0..MOST_SKIPPED {
                match behind(function, &used, call) {
                    Some(next) if next.block != call.block => *call = next,
                    _ => break,
                }
                changed = true;
            }
        }
        if calls.len() > 1 && calls.iter().all(|call| *call == calls[0]) {
            calls.truncate(1);
            let data = &mut function.insts[last];
            (data.op, data.data, data.args) = (Op::Jump, Data::Nothing, Default::default());
        }
        function.targets.insert(last, calls);
    }
    changed
}

/// If a branch leads to a block that only jumps, returns a branch to where that jump leads.
fn behind(
    function: &Function,
    used: &SecondaryMap<Value, bool>,
    call: &BlockCall,
) -> Option<BlockCall> {
    let next = only_jump(function, call.block)?;
    let params = &function.blocks[call.block];
    if params.iter().any(|&param| used[param]) {
        return None;
    }
    let passed = |&arg: &Value| match params.iter().position(|&param| param == arg) {
        Some(index) => call.args[index],
        None => arg,
    };
    Some(BlockCall {
        block: next.block,
        args: next.args.iter().map(passed).collect(),
    })
}

/// Returns which values instructions use, except the jumps of blocks that only jump.
fn used_elsewhere(function: &Function) -> SecondaryMap<Value, bool> {
    let mut used = SecondaryMap::default();
    for &block in &function.order {
        let own = only_jump(function, block).map(|_| &function.blocks[block]);
        for &inst in &function.body[block] {
            for value in function.uses(inst) {
                if own.is_none_or(|params| !params.contains(&value)) {
                    used[value] = true;
                }
            }
        }
    }
    used
}
