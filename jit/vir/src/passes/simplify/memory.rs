//! Rules for the masks of memory accesses and of calls.

use margay_ir::entity::{Inst, Value};
use margay_ops::ops::Opcode;
use smallvec::SmallVec;

use super::{Change, Rewriter};
use crate::data::Data;
use crate::meaning::update_operands;
use crate::ops::Op;

pub(super) fn rule(rewriter: &mut Rewriter<'_>, inst: Inst) -> Option<Change> {
    let data = rewriter.function.insts[inst];
    let args: SmallVec<[Value; 4]> = rewriter.function.args(inst).into();
    if data.op == Op::CallLanes {
        return match rewriter.function.constant(args[0]) {
            Some(0) => Some(zeros(rewriter, inst)),
            _ => None,
        };
    }
    let (value, fixed) = match data.op {
        Op::Load => (None, 1),
        Op::Gather => (None, 2),
        Op::Update => match data.data {
            Data::Lane(desc) => (None, 2 + update_operands(&desc)),
            _ => return None,
        },
        Op::Store => (Some(1), 2),
        _ => (Some(2), 3),
    };
    let &on = args.get(fixed)?;
    match rewriter.function.constant(on) {
        Some(0) => return Some(zeros(rewriter, inst)),
        Some(_) => return rewriter.set_args(inst, &args[..fixed]),
        None => {}
    }
    // What a store does not write does not matter.
    let chosen = chosen(rewriter, args[value?], on)?;
    let mut args = args;
    args[value?] = chosen;
    rewriter.set_args(inst, &args)
}

/// No lane runs: the results are zero.
fn zeros(rewriter: &mut Rewriter<'_>, inst: Inst) -> Change {
    let results: SmallVec<[Value; 2]> = rewriter.function.results(inst).into();
    if results.is_empty() {
        return Change::Removed;
    }
    let zero = |&result: &Value| {
        let ty = rewriter.function.ty(result);
        rewriter.constant(ty, 0)
    };
    Change::Values(results.iter().map(zero).collect())
}

/// If `value` is a selection by the mask `on`, returns the vector of the lanes in which the mask is true.
fn chosen(rewriter: &Rewriter<'_>, value: Value, on: Value) -> Option<Value> {
    let function = &*rewriter.function;
    let inst = function.def_inst(value)?;
    let data = &function.insts[inst];
    let is_selp = matches!(data.data, Data::Lane(desc)
        if desc.opcode == Opcode::Selp && desc.ty.bits() == function.ty(value).lane_bits());
    let args = function.args(inst);
    let is_same = data.op == Op::Map && is_selp && args[2] == on;
    (is_same && function.ty(args[0]) == function.ty(value)).then(|| args[0])
}
