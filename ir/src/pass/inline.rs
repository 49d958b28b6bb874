//! Inlining of `.func` bodies.
//!
//! Every call of a function that is not recursive is replaced by its body, unless the caller would
//! grow beyond [`MAX_INSTS`]. What stays a call: recursion, calls through handles, functions
//! without a body.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::copy::{Copier, jump, new_block};
use crate::entity::{Block, FuncId, Inst, Value};
use crate::function::{Function, ValueDef, payload_func};
use crate::module::Module;
use crate::ops::Opcode;

/// A caller is not made larger than this many instructions.
const MAX_INSTS: usize = 200_000;

/// Inlines calls in `function`, which is `id` of `module`.
pub fn run(function: &mut Function, module: &Module, id: FuncId) {
    let recursive = recursive_functions(module, id);
    let mut work: Vec<Block> = function.blocks().to_vec();
    let mut changed = false;
    while let Some(block) = work.pop() {
        let call = function
            .insts(block)
            .iter()
            .copied()
            .enumerate()
            .find_map(|(index, inst)| {
                let data = &function.dfg.insts[inst];
                let callee = payload_func(data.payload());
                let inlinable = data.opcode == Opcode::Call
                    && callee != id
                    && !recursive.contains(&callee)
                    && module.functions.get(callee).is_some_and(|f| {
                        f.has_body() && function.dfg.insts.len() + f.dfg.insts.len() <= MAX_INSTS
                    });
                inlinable.then_some((index, inst, callee))
            });
        if let Some((index, inst, callee)) = call {
            work.extend(expand(
                function,
                block,
                index,
                inst,
                &module.functions[callee],
            ));
            changed = true;
        }
    }
    if changed {
        function.resolve_aliases();
        crate::analysis::cfg::remove_unreachable(function);
    }
}

/// Functions on a cycle of direct calls, of those that `id` reaches: what else a module holds costs nothing.
fn recursive_functions(module: &Module, id: FuncId) -> FxHashSet<FuncId> {
    let mut callees: FxHashMap<FuncId, FxHashSet<FuncId>> = FxHashMap::default();
    let mut work = vec![id];
    while let Some(id) = work.pop() {
        if callees.contains_key(&id) {
            continue;
        }
        let called = module.functions.get(id).map(calls_of).unwrap_or_default();
        work.extend(called.iter().copied());
        callees.insert(id, called);
    }
    let reaches_itself = |start: FuncId| {
        let mut seen = FxHashSet::default();
        let mut work: Vec<FuncId> = callees.get(&start).into_iter().flatten().copied().collect();
        while let Some(next) = work.pop() {
            if next == start {
                return true;
            }
            if seen.insert(next) {
                work.extend(callees.get(&next).into_iter().flatten().copied());
            }
        }
        false
    };
    callees
        .keys()
        .copied()
        .filter(|&id| reaches_itself(id))
        .collect()
}

/// Functions that one calls directly.
fn calls_of(function: &Function) -> FxHashSet<FuncId> {
    let insts = function.blocks().iter().flat_map(|&b| function.insts(b));
    let data = insts.map(|&inst| &function.dfg.insts[inst]);
    data.filter(|data| data.opcode == Opcode::Call)
        .map(|data| payload_func(data.payload()))
        .collect()
}

/// Replaces the call at `index` of `block` and returns the blocks that may hold further calls.
fn expand(
    caller: &mut Function,
    block: Block,
    index: usize,
    call: Inst,
    callee: &Function,
) -> Vec<Block> {
    let results: SmallVec<[Value; 4]> = SmallVec::from_slice(caller.dfg.results(call));
    let args: SmallVec<[Value; 8]> = SmallVec::from_slice(caller.dfg.args(call));
    let tail = new_block(caller);
    let rest = caller.layout.insts[block].split_off(index + 1);
    caller.layout.insts[block].pop();
    caller.layout.insts[tail] = rest;
    for &result in &results {
        let param = caller.dfg.append_param(tail, caller.dfg.ty(result));
        caller.dfg.values[result].def = ValueDef::Alias(param);
    }
    let mut copy = Copier::new(caller, callee, tail);
    copy.copy_blocks();
    let entry = copy.blocks[&callee.entry()];
    let new_blocks: Vec<Block> = callee.blocks().iter().map(|b| copy.blocks[b]).collect();
    jump(caller, block, entry, &args);
    let position = caller
        .layout
        .order
        .iter()
        .position(|&b| b == block)
        .map_or(0, |p| p + 1);
    let added = new_blocks.iter().copied().chain([tail]).collect::<Vec<_>>();
    caller
        .layout
        .order
        .splice(position..position, added.iter().copied());
    caller
        .unsupported
        .extend(callee.unsupported.iter().cloned());
    added
}
