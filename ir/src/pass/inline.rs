//! Inlining of `.func` bodies.
//!
//! Every call of a function that is not recursive is replaced by its body, unless the caller would
//! grow beyond [`MAX_INSTS`]. What stays a call: recursion, calls through handles, functions
//! without a body.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::entity::{Block, Entity, FuncId, Inst, Slot, Value};
use crate::function::{BlockCall, Function, ValueDef, payload_func};
use crate::meaning::Desc;
use crate::mods::Mods;
use crate::module::Module;
use crate::ops::Opcode;
use crate::types::OpType;

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

fn new_block(function: &mut Function) -> Block {
    function.dfg.blocks.push(Default::default())
}

fn jump(function: &mut Function, from: Block, to: Block, args: &[Value]) {
    let desc = Desc {
        opcode: Opcode::Jump,
        ty: OpType::None,
        src: OpType::None,
        mods: Mods::NONE,
    };
    let inst = function.dfg.make_inst(desc, &[], &[]);
    let call = BlockCall {
        block: to,
        args: SmallVec::from_slice(args),
    };
    function
        .dfg
        .targets
        .insert(inst, SmallVec::from_iter([call]));
    function.append_inst(from, inst);
}

/// Copies a callee's body into a caller.
struct Copier<'a> {
    caller: &'a mut Function,
    callee: &'a Function,
    tail: Block,
    blocks: FxHashMap<Block, Block>,
    values: FxHashMap<Value, Value>,
    first_slot: usize,
}

impl<'a> Copier<'a> {
    fn new(caller: &'a mut Function, callee: &'a Function, tail: Block) -> Self {
        let first_slot = caller.slots.len();
        for slot in callee.slots.values() {
            caller.slots.push(slot.clone());
        }
        Copier {
            caller,
            callee,
            tail,
            blocks: FxHashMap::default(),
            values: FxHashMap::default(),
            first_slot,
        }
    }

    fn copy_blocks(&mut self) {
        for &block in self.callee.blocks() {
            let new = new_block(self.caller);
            self.blocks.insert(block, new);
            for &param in &self.callee.dfg.blocks[block].params {
                let value = self.caller.dfg.append_param(new, self.callee.dfg.ty(param));
                self.values.insert(param, value);
            }
        }
        // Definitions dominate uses but may come later in the layout: results first.
        let mut pairs = Vec::new();
        for &block in self.callee.blocks() {
            for &inst in self.callee.insts(block) {
                let new = self.copy_inst(inst);
                pairs.push((inst, new));
                let target = self.blocks[&block];
                self.caller.append_inst(target, new);
            }
        }
        for (old, new) in pairs {
            self.connect(old, new);
        }
    }

    fn copy_inst(&mut self, inst: Inst) -> Inst {
        let dfg = &self.callee.dfg;
        let mut desc = dfg.insts[inst].desc();
        if desc.opcode == Opcode::LocalAddr {
            let slot = Slot::new(self.first_slot + desc.mods.0 as usize);
            desc.mods = Mods(u64::from(slot.0));
        }
        let is_return = desc.opcode == Opcode::Ret;
        if is_return {
            desc.opcode = Opcode::Jump;
        }
        let types: SmallVec<[_; 4]> = dfg.results(inst).iter().map(|&v| dfg.ty(v)).collect();
        // Operands are filled in by `connect`; their number must be right now.
        let args: SmallVec<[Value; 8]> = if is_return {
            SmallVec::new()
        } else {
            SmallVec::from_slice(dfg.args(inst))
        };
        let new = self.caller.dfg.make_inst(desc, &args, &types);
        self.caller.dfg.locs[new] = dfg.locs[inst];
        for (&old, i) in dfg.results(inst).iter().zip(0..) {
            let value: Value = self.caller.dfg.results(new)[i];
            self.values.insert(old, value);
        }
        new
    }

    fn value(&self, old: Value) -> Value {
        self.values[&self.callee.dfg.resolve(old)]
    }

    fn connect(&mut self, old: Inst, new: Inst) {
        if self.callee.dfg.insts[old].opcode == Opcode::Ret {
            let args = self
                .callee
                .dfg
                .args(old)
                .iter()
                .map(|&v| self.value(v))
                .collect();
            let call = BlockCall {
                block: self.tail,
                args,
            };
            self.caller
                .dfg
                .targets
                .insert(new, SmallVec::from_iter([call]));
            return;
        }
        let args: SmallVec<[Value; 8]> = self
            .callee
            .dfg
            .args(old)
            .iter()
            .map(|&v| self.value(v))
            .collect();
        let list = self.caller.dfg.insts[new].args;
        self.caller.dfg.pool.get_mut(list).copy_from_slice(&args);
        let calls: SmallVec<[BlockCall; 2]> = self
            .callee
            .dfg
            .targets(old)
            .iter()
            .map(|call| BlockCall {
                block: self.blocks[&call.block],
                args: call.args.iter().map(|&v| self.value(v)).collect(),
            })
            .collect();
        if !calls.is_empty() {
            self.caller.dfg.targets.insert(new, calls);
        }
    }
}
