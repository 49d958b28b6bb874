//! Folds constants, and removes redundant block parameters, unreachable blocks and dead code.
//!
//! The constant folder computes results with the reference functions of the op table (meanings), so its results equal
//! the results of the interpreter.

use smallvec::SmallVec;

use crate::analysis::cfg::remove_unreachable;
use crate::edit;
use crate::entity::{Inst, Value};
use crate::function::{BlockCall, Function};
use margay_ops::meaning::{Bits, Meaning, mask};
use margay_ops::mods::{Mods, StateSpace};
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::{Kind, OpType};

/// Simplifies a function in at most four rounds. Stops after a round that has neither folded an instruction nor removed
/// a redundant block parameter.
pub fn run(function: &mut Function) {
    for _ in 0..4 {
        let mut changed = fold(function);
        changed |= edit::drop_redundant_params(function);
        edit::resolve_aliases(function);
        remove_unreachable(function);
        edit::drop_dead(function, is_droppable);
        if !changed {
            break;
        }
    }
}

/// Removes block parameters that always have the same value, in at most four rounds.
pub(super) fn remove_redundant_params(function: &mut Function) {
    for _ in 0..4 {
        if !edit::drop_redundant_params(function) {
            break;
        }
        edit::resolve_aliases(function);
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

/// Makes an instruction with one result of kind `kind` a constant.
pub fn become_constant(function: &mut Function, inst: Inst, kind: Kind, bits: u64) {
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
