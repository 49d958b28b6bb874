//! Folds constants, and removes redundant block parameters, unreachable blocks and dead code.
//!
//! The constant folder computes results with the reference functions of the op table (meanings), so its results equal
//! the results of the interpreter.

use smallvec::SmallVec;

use crate::analysis::cfg::remove_unreachable;
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::{BlockCall, Function, ValueDef};
use margay_ops::meaning::{Bits, Meaning, mask};
use margay_ops::mods::{Mods, StateSpace};
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::{Kind, OpType};

/// Simplifies a function in at most four rounds. Stops after a round that has neither folded an instruction nor removed
/// a redundant block parameter.
pub fn run(function: &mut Function) {
    for _ in 0..4 {
        let mut changed = fold(function);
        changed |= drop_params(function);
        function.resolve_aliases();
        remove_unreachable(function);
        drop_dead(function);
        if !changed {
            break;
        }
    }
}

/// Removes block parameters that always have the same value, in at most four rounds.
pub(super) fn remove_redundant_params(function: &mut Function) {
    for _ in 0..4 {
        if !drop_params(function) {
            break;
        }
        function.resolve_aliases();
    }
}

fn fold(function: &mut Function) -> bool {
    let mut changed = false;
    for block in crate::analysis::Cfg::new(function).rpo().to_vec() {
        for inst in function.insts(block).to_vec() {
            changed |= fold_inst(function, inst);
        }
    }
    changed
}

fn fold_inst(function: &mut Function, inst: Inst) -> bool {
    let data = function.dfg.insts[inst];
    let constants: Option<SmallVec<[Bits; 8]>> = function
        .dfg
        .args(inst)
        .iter()
        .map(|&v| function.dfg.constant(v).map(Bits::from))
        .collect();
    match (data.opcode, data.opcode.meaning()) {
        (Opcode::Brif, _) => match function
            .dfg
            .args(inst)
            .first()
            .and_then(|&v| function.dfg.constant(v))
        {
            Some(cond) => {
                keep_target(function, inst, usize::from(cond & 1 == 0));
                true
            }
            None => false,
        },
        (_, Meaning::Pure(meaning)) => {
            let results: SmallVec<[Value; 2]> = SmallVec::from_slice(function.dfg.results(inst));
            let (Some(args), [result]) = (constants, results.as_slice()) else {
                return false;
            };
            let ty = function.dfg.ty(*result);
            if args.is_empty() || ty.lanes() != 1 || ty.lane_bits() > 64 {
                return false;
            }
            let mut out = [0 as Bits];
            meaning(&data.desc(), &args, &mut out);
            become_constant(
                function,
                inst,
                ty.kind(),
                (out[0] & mask(ty.lane_bits())) as u64,
            );
            true
        }
        _ => false,
    }
}

fn keep_target(function: &mut Function, inst: Inst, which: usize) {
    if let Some(calls) = function.dfg.targets.get_mut(&inst) {
        let call: BlockCall = calls.swap_remove(which.min(calls.len() - 1));
        *calls = SmallVec::from_iter([call]);
    }
    let data = &mut function.dfg.insts[inst];
    data.opcode = Opcode::Jump;
    data.args = Default::default();
}

pub(crate) fn become_constant(function: &mut Function, inst: Inst, kind: Kind, bits: u64) {
    let data = &mut function.dfg.insts[inst];
    data.opcode = Opcode::Const;
    data.args = Default::default();
    data.src = OpType::None;
    data.mods = Mods(bits);
    data.ty = match kind {
        Kind::Pred => OpType::Pred,
        Kind::B8 => OpType::B8,
        Kind::B16 => OpType::B16,
        Kind::B32 => OpType::B32,
        Kind::B64 | Kind::B128 => OpType::B64,
        Kind::F32 => OpType::F32,
        Kind::F64 => OpType::F64,
    };
}

/// Returns the edges that lead to each block; an edge consists of a terminator and the index of one of its targets. A
/// branch table may have as many targets as there are blocks, so a search through all targets for each block would take
/// quadratic time.
fn incoming_edges(function: &Function) -> SecondaryMap<Block, Vec<(Inst, u32)>> {
    let mut incoming: SecondaryMap<Block, Vec<(Inst, u32)>> = SecondaryMap::default();
    for &block in function.blocks() {
        if let Some(inst) = function.layout.terminator(block) {
            for (call, number) in function.dfg.targets(inst).iter().zip(0..) {
                incoming[call.block].push((inst, number));
            }
        }
    }
    incoming
}

/// Removes block parameters that always have the same value.
fn drop_params(function: &mut Function) -> bool {
    let incoming = incoming_edges(function);
    let mut changed = false;
    for block in function.blocks().to_vec() {
        let mut keep = vec![true; function.dfg.blocks[block].params.len()];
        for index in (0..keep.len()).rev() {
            let param = function.dfg.blocks[block].params[index];
            if let Some(value) = only_value(function, &incoming[block], index, param) {
                function.dfg.values[param].def = ValueDef::Alias(value);
                keep[index] = false;
                changed = true;
            }
        }
        keep_params(function, &incoming[block], block, &keep);
    }
    changed
}

fn only_value(f: &Function, incoming: &[(Inst, u32)], index: usize, param: Value) -> Option<Value> {
    let mut only = None;
    for &(inst, number) in incoming {
        let call = &f.dfg.targets(inst)[number as usize];
        let value = f.dfg.resolve(call.args[index]);
        if value != param && *only.get_or_insert(value) != value {
            return None;
        }
    }
    only
}

/// Removes the parameters of a block for which `keep` is false, and the arguments that branches pass to them.
fn keep_params(function: &mut Function, incoming: &[(Inst, u32)], block: Block, keep: &[bool]) {
    if keep.iter().all(|&keep| keep) {
        return;
    }
    let mut kept = keep.iter();
    let params = &mut function.dfg.blocks[block].params;
    params.retain(|_| *kept.next().unwrap_or(&true));
    for (number, &param) in params.iter().enumerate() {
        function.dfg.values[param].def = ValueDef::Param(block, number as u16);
    }
    for (inst, number) in incoming {
        let calls = function.dfg.targets.get_mut(inst);
        if let Some(call) = calls.and_then(|calls| calls.get_mut(*number as usize)) {
            let mut kept = keep.iter();
            call.args.retain(|_| *kept.next().unwrap_or(&true));
        }
    }
}

/// Returns whether an instruction may be removed if its results are unused.
pub(crate) fn is_droppable(function: &Function, inst: Inst) -> bool {
    let data = &function.dfg.insts[inst];
    match data.opcode {
        Opcode::Ld => data.mods.space() == StateSpace::Param && data.mods.is_weak(),
        Opcode::StackSave | Opcode::Clock => true,
        opcode => {
            opcode.effects().is_pure() && opcode.effects() & Effects::TERMINATOR == Effects::empty()
        }
    }
}

fn drop_dead(function: &mut Function) {
    let mut live: SecondaryMap<Inst, bool> = SecondaryMap::default();
    let mut live_params: SecondaryMap<Value, bool> = SecondaryMap::default();
    let mut work: Vec<Value> = Vec::new();
    for &block in function.blocks() {
        for &inst in function.insts(block) {
            if !is_droppable(function, inst) {
                live[inst] = true;
                work.extend_from_slice(function.dfg.args(inst));
            }
        }
    }
    let incoming = incoming_edges(function);
    while let Some(value) = work.pop() {
        match function.dfg.values[value].def {
            ValueDef::Result(inst, _) if !live[inst] => {
                live[inst] = true;
                work.extend_from_slice(function.dfg.args(inst));
            }
            ValueDef::Param(block, index) if !live_params[value] => {
                live_params[value] = true;
                let calls = incoming[block].iter();
                let calls =
                    calls.map(|&(inst, number)| &function.dfg.targets(inst)[number as usize]);
                work.extend(calls.map(|call| call.args[index as usize]));
            }
            _ => {}
        }
    }
    for block in function.blocks().to_vec() {
        function.layout.insts[block].retain(|&inst| live[inst]);
        if block == function.entry() {
            continue;
        }
        let params = function.dfg.blocks[block].params.iter();
        let keep: Vec<bool> = params.map(|&param| live_params[param]).collect();
        keep_params(function, &incoming[block], block, &keep);
    }
}
