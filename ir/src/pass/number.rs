//! Value numbering: replaces an operation by an earlier operation that computes the same result, and a load by the
//! value that the same block has loaded or stored before.
//!
//! A pure operation that is executed again with the same operands has the same results. So does a load of a kernel
//! parameter at a constant offset, which therefore counts as a pure operation here. In a function without sync points,
//! the pass replaces an operation by an equal operation that dominates it. In a function with sync points, it does so
//! only for operations that cost nothing to compute again. It replaces any other operation only if the equal operation
//! is in the same block, and no sync point lies between the two. If a sync point were between the two, the result of
//! the first operation would have to be stored while a lane waits at the sync point. If warps run in lock-step,
//! accesses to shared memory and accesses at generic addresses count as sync points.
//!
//! A load is replaced if the same block has loaded or stored the same type at the same address and nothing in between
//! may have changed the memory. Between the two accesses there must be no write to the same space or to a generic
//! address, no fence, no sync point and no call. Volatile and strong accesses are not changed, because other threads
//! may write in between.

use std::collections::hash_map::Entry;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::analysis::regions::is_param_load;
use crate::analysis::{Cfg, Dominators};
use crate::entity::{Block, Inst, Value};
use crate::function::{Function, InstData, ValueDef};
use crate::module::Module;
use margay_ops::meaning::Desc;
use margay_ops::mods::StateSpace;
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::{OpType, Type};

/// Maximum number of instructions with the same op and the same operands that the pass remembers. A search through more
/// instructions would cost more than it saves.
const MOST_EQUAL: usize = 8;

/// The key of value numbering: an operation and its operands. Operations with equal keys compute equal results.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Number {
    desc: Desc,
    args: SmallVec<[Value; 4]>,
    /// The types of the results. A load of 32 bits has a result of type `b32`, `b64` or `f32`, as the register has.
    results: SmallVec<[Type; 2]>,
}

/// The known contents of memory at some point in a block. For each state space, the key of the inner map consists of
/// an address, the type of the access and the type of the register. The value of the inner map is the SSA value at
/// that address.
type Known = FxHashMap<StateSpace, FxHashMap<(Value, OpType, Type), Value>>;

/// Replaces repeated operations and loads, and returns whether anything changed.
pub fn run(function: &mut Function, module: &Module) -> bool {
    let lock_step = super::sync_points::is_lock_step(module);
    let cfg = Cfg::new(function);
    let dominators = Dominators::new(&cfg);
    let cut = has_sync_points(function, &cfg);
    let mut numbers: FxHashMap<Number, Vec<(Block, Inst)>> = FxHashMap::default();
    let mut changed = false;
    for &block in cfg.rpo() {
        let mut known = Known::default();
        // The operations of this block between the last sync point and the current instruction.
        let mut behind: FxHashMap<Number, Inst> = FxHashMap::default();
        let mut gone: FxHashSet<Inst> = FxHashSet::default();
        for inst in function.insts(block).to_vec() {
            function.dfg.resolve_args(inst);
            let data = function.dfg.insts[inst];
            if is_shared(function, inst) {
                let results = function.dfg.results(inst).iter();
                let number = Number {
                    desc: data.desc(),
                    args: function.dfg.args(inst).into(),
                    results: results.map(|&value| function.dfg.ty(value)).collect(),
                };
                let free = is_free(function, inst);
                let first = if cut && !free {
                    behind.get(&number).copied()
                } else {
                    let all = numbers.get(&number).into_iter().flatten();
                    let mut above =
                        all.filter(|&&(home, _)| dominators.dominates(&cfg, home, block));
                    above.next().map(|&(_, inst)| inst)
                };
                match first {
                    Some(first) => {
                        let firsts: SmallVec<[Value; 2]> = function.dfg.results(first).into();
                        alias(function, inst, &firsts);
                        gone.insert(inst);
                    }
                    None if cut && !free => {
                        behind.insert(number, inst);
                    }
                    None => {
                        let equal = numbers.entry(number).or_default();
                        if equal.len() < MOST_EQUAL {
                            equal.push((block, inst));
                        }
                    }
                }
                continue;
            }
            let shared = !matches!(data.mods.space(), StateSpace::Global | StateSpace::Local);
            if let Some(value) = memory(function, inst, &data, &mut known) {
                alias(function, inst, &[value]);
                gone.insert(inst);
            } else if function.effects(inst).is_sync_point() || lock_step && shared {
                behind.clear();
                known.clear();
            }
        }
        changed |= !gone.is_empty();
        function.layout.insts[block].retain(|inst| !gone.contains(inst));
    }
    crate::edit::resolve_aliases(function);
    changed
}

fn has_sync_points(function: &Function, cfg: &Cfg) -> bool {
    let blocks = cfg.rpo().iter();
    let mut insts = blocks.flat_map(|&block| function.insts(block));
    insts.any(|&inst| function.effects(inst).is_sync_point())
}

/// Returns whether an instruction has results, and always has the same results if it is executed
/// again with the same operands.
fn is_shared(function: &Function, inst: Inst) -> bool {
    let opcode = function.dfg.insts[inst].opcode;
    let results = !function.dfg.results(inst).is_empty();
    results && (opcode.effects().is_pure() || is_param_load(function, inst))
}

/// Returns whether code after a sync point always computes the result of an instruction again. The result is then
/// stored in the frame only if it is an operand of a sync point.
fn is_free(function: &Function, inst: Inst) -> bool {
    matches!(
        function.dfg.insts[inst].opcode,
        Opcode::Const
            | Opcode::SReg
            | Opcode::SymbolAddr
            | Opcode::ParamAddr
            | Opcode::LocalAddr
            | Opcode::FuncAddr
    ) || is_param_load(function, inst)
}

/// Replaces an instruction's results by other values.
fn alias(function: &mut Function, inst: Inst, by: &[Value]) {
    let results: SmallVec<[Value; 2]> = function.dfg.results(inst).into();
    for (&result, &value) in results.iter().zip(by) {
        function.dfg.values[result].def = ValueDef::Alias(value);
    }
}

/// Updates the known contents of memory for one instruction. If the instruction is a load of known contents, returns
/// the value that it loads.
fn memory(function: &Function, inst: Inst, data: &InstData, known: &mut Known) -> Option<Value> {
    let space = data.mods.space();
    let weak = data.mods.is_weak();
    let single = data.mods.vec() == 1;
    match data.opcode {
        Opcode::Ld if weak && single => {
            let address = function.dfg.args(inst)[0];
            let result = *function.dfg.results(inst).first()?;
            let ty = function.dfg.ty(result);
            match known
                .entry(space)
                .or_default()
                .entry((address, data.ty, ty))
            {
                Entry::Occupied(there) => return Some(*there.get()),
                Entry::Vacant(new) => _ = new.insert(result),
            }
        }
        Opcode::Ld if weak => {}
        Opcode::St if weak => {
            forget(known, space);
            if let (true, &[address, value]) = (single, function.dfg.args(inst))
                && is_whole(function, data.ty, value)
            {
                let key = (address, data.ty, function.dfg.ty(value));
                known.entry(space).or_default().insert(key, value);
            }
        }
        opcode => {
            let effects = opcode.effects();
            if !(Effects::PAYLOAD | Effects::TERMINATOR).contains(effects) {
                known.clear();
            }
        }
    }
    None
}

/// Returns whether a store of `value` with type `ty` writes all bits of the value. If so, a load with this type returns
/// the value.
fn is_whole(function: &Function, ty: OpType, value: Value) -> bool {
    function.dfg.ty(value).lane_bits() == ty.bits() && ty.elements() == 1
}

/// Removes from `known` the contents of memory that a write to the state space `written` may have changed.
fn forget(known: &mut Known, written: StateSpace) {
    let any = |space: StateSpace| space == StateSpace::None;
    known.retain(|&space, _| {
        space != written
            && !any(written)
            && !any(space)
            && !matches!(
                (space, written),
                (StateSpace::Shared, StateSpace::SharedCluster)
                    | (StateSpace::SharedCluster, StateSpace::Shared)
            )
    });
}
