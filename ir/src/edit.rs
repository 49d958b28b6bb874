//! Transformations that passes of the IR and of the vector IR share.

use crate::analysis::Cfg;
use crate::body::Body;
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::{ValueDef, resolve, resolve_and_shorten};

/// The edges that lead to each block. An edge consists of a terminator and the index of one of its targets. A branch
/// table may have as many targets as there are blocks, so a search through all targets for each block would take
/// quadratic time.
pub type Incoming = SecondaryMap<Block, Vec<(Inst, u32)>>;

/// Returns the edges that lead to each block.
pub fn incoming_edges(function: &impl Body) -> Incoming {
    let mut incoming = Incoming::default();
    for &block in function.blocks() {
        if let Some(&inst) = function.insts(block).last() {
            for (call, number) in function.targets(inst).iter().zip(0..) {
                incoming[call.block].push((inst, number));
            }
        }
    }
    incoming
}

/// Replaces each aliased operand of an instruction by the value to which the alias resolves.
pub fn resolve_args(function: &mut impl Body, inst: Inst) {
    for index in 0..function.args(inst).len() {
        let value = function.args(inst)[index];
        if let ValueDef::Alias(_) = function.values()[value].def {
            let end = resolve_and_shorten(function.values_mut(), value);
            function.args_mut(inst)[index] = end;
        }
    }
}

/// Replaces each alias that an instruction passes to its targets by the value to which the alias resolves.
pub fn resolve_targets(function: &mut impl Body, inst: Inst) {
    let Some(calls) = function.targets_mut(inst) else {
        return;
    };
    let mut calls = std::mem::take(calls);
    for arg in calls.iter_mut().flat_map(|call| &mut call.args) {
        *arg = resolve_and_shorten(function.values_mut(), *arg);
    }
    if let Some(there) = function.targets_mut(inst) {
        *there = calls;
    }
}

/// Replaces every use of an alias, in operands and in block arguments, by the value to which the alias resolves.
pub fn resolve_aliases(function: &mut impl Body) {
    for block in function.blocks().to_vec() {
        let insts = std::mem::take(function.insts_mut(block));
        for &inst in &insts {
            resolve_args(function, inst);
        }
        if let Some(&last) = insts.last() {
            resolve_targets(function, last);
        }
        *function.insts_mut(block) = insts;
    }
}

/// Removes the block parameters that always have the same value, and returns whether there was one. Their uses become
/// aliases, which [`resolve_aliases`] replaces.
pub fn drop_redundant_params(function: &mut impl Body) -> bool {
    let incoming = incoming_edges(function);
    let mut changed = false;
    for block in function.blocks().to_vec() {
        let mut keep = vec![true; function.params(block).len()];
        for index in (0..keep.len()).rev() {
            let param = function.params(block)[index];
            if let Some(value) = only_value(function, &incoming[block], index, param) {
                function.values_mut()[param].def = ValueDef::Alias(value);
                keep[index] = false;
                changed = true;
            }
        }
        keep_params(function, &incoming[block], block, &keep);
    }
    changed
}

fn only_value(
    function: &impl Body,
    incoming: &[(Inst, u32)],
    index: usize,
    param: Value,
) -> Option<Value> {
    let mut only = None;
    for &(inst, number) in incoming {
        let call = &function.targets(inst)[number as usize];
        let value = resolve(function.values(), call.args[index]);
        if value != param && *only.get_or_insert(value) != value {
            return None;
        }
    }
    only
}

/// Removes the parameters of a block for which `keep` is false, and the arguments that branches pass to them. `incoming`
/// contains the edges to the block.
pub fn keep_params(
    function: &mut impl Body,
    incoming: &[(Inst, u32)],
    block: Block,
    keep: &[bool],
) {
    if keep.iter().all(|&keep| keep) {
        return;
    }
    let mut kept = keep.iter();
    function
        .params_mut(block)
        .retain(|_| *kept.next().unwrap_or(&true));
    for number in 0..function.params(block).len() {
        let param = function.params(block)[number];
        function.values_mut()[param].def = ValueDef::Param(block, number as u16);
    }
    for &(inst, number) in incoming {
        let calls = function.targets_mut(inst);
        if let Some(call) = calls.and_then(|calls| calls.get_mut(number as usize)) {
            let mut kept = keep.iter();
            call.args.retain(|_| *kept.next().unwrap_or(&true));
        }
    }
}

/// Removes the instructions for which `is_droppable` returns true and whose results have no use, and the block
/// parameters without uses. Results and parameters that are used only to compute each other have no use.
pub fn drop_dead<B: Body>(function: &mut B, is_droppable: impl Fn(&B, Inst) -> bool) {
    let mut live: SecondaryMap<Inst, bool> = SecondaryMap::default();
    let mut live_params: SecondaryMap<Value, bool> = SecondaryMap::default();
    let mut work: Vec<Value> = Vec::new();
    for &block in function.blocks() {
        for &inst in function.insts(block) {
            if !is_droppable(function, inst) {
                live[inst] = true;
                work.extend_from_slice(function.args(inst));
            }
        }
    }
    let incoming = incoming_edges(function);
    while let Some(value) = work.pop() {
        match function.values()[value].def {
            ValueDef::Result(inst, _) if !live[inst] => {
                live[inst] = true;
                work.extend_from_slice(function.args(inst));
            }
            ValueDef::Param(block, index) if !live_params[value] => {
                live_params[value] = true;
                let calls = incoming[block].iter();
                let calls = calls.map(|&(inst, number)| &function.targets(inst)[number as usize]);
                work.extend(calls.map(|call| call.args[index as usize]));
            }
            _ => {}
        }
    }
    for block in function.blocks().to_vec() {
        function.insts_mut(block).retain(|&inst| live[inst]);
        if block == function.entry() {
            continue;
        }
        let params = function.params(block).iter();
        let keep: Vec<bool> = params.map(|&param| live_params[param]).collect();
        keep_params(function, &incoming[block], block, &keep);
    }
}

/// Appends to each block the block to which it jumps, if no other branch leads to that block. `is_jump` states whether an
/// instruction only continues in its target. Returns whether a block was appended; then the function may contain aliases
/// and unreachable blocks.
pub fn merge_chains<B: Body>(
    function: &mut B,
    cfg: &Cfg,
    is_jump: impl Fn(&B, Inst) -> bool,
) -> bool {
    let mut changed = false;
    for &block in cfg.rpo() {
        // The last block of the chain so far. Its terminator is now the terminator of `block`.
        let mut end = block;
        while let Some((jump, next)) = only_next(function, cfg, block, end, &is_jump) {
            function.insts_mut(block).pop();
            let call = function.take_targets(jump).into_iter().next();
            let params = std::mem::take(function.params_mut(next));
            let args = call.map(|call| call.args).unwrap_or_default();
            for (param, arg) in params.into_iter().zip(args) {
                function.values_mut()[param].def = ValueDef::Alias(arg);
            }
            let rest = std::mem::take(function.insts_mut(next));
            function.insts_mut(block).extend(rest);
            end = next;
            changed = true;
        }
    }
    changed
}

/// Returns the jump at the end of `block` and the block to which it leads, if no other branch leads to that block. `end`
/// is the last block that was appended to `block`, so the terminator of `block` was originally the terminator of `end`.
fn only_next<B: Body>(
    function: &B,
    cfg: &Cfg,
    block: Block,
    end: Block,
    is_jump: &impl Fn(&B, Inst) -> bool,
) -> Option<(Inst, Block)> {
    let &last = function.insts(block).last()?;
    let [call] = function.targets(last) else {
        return None;
    };
    let alone = cfg.preds(call.block) == [end] && call.block != function.entry();
    (is_jump(function, last) && alone && call.block != block).then_some((last, call.block))
}
