//! Rules for branches and traps.

use margay_ir::entity::{Inst, Value};
use margay_ops::ops::Opcode;
use smallvec::SmallVec;

use super::{Change, Rewriter};
use crate::data::Data;
use crate::ops::Op;

pub(super) fn rule(rewriter: &mut Rewriter<'_>, inst: Inst) -> Option<Change> {
    let data = rewriter.function.insts[inst];
    if data.op == Op::Jump {
        return None;
    }
    let condition = rewriter.function.args(inst)[0];
    let constant = rewriter.function.constant(condition);
    if data.op == Op::TrapIf {
        return match constant? {
            0 => Some(Change::Removed),
            _ => {
                rewriter.set(inst, Op::Trap, data.data, &[]);
                Some(Change::Ended)
            }
        };
    }
    if let Some(bits) = constant {
        let target = match data.op {
            Op::Brif => usize::from(bits == 0),
            _ => usize::try_from(bits).map_or(0, |index| index + 1),
        };
        return jump(rewriter, inst, target);
    }
    let calls = rewriter.function.targets(inst);
    if calls.iter().all(|call| *call == calls[0]) {
        return jump(rewriter, inst, 0);
    }
    if data.op != Op::Brif {
        return None;
    }
    let inner = inverse(rewriter, condition)?;
    if let Some(calls) = rewriter.function.targets.get_mut(&inst) {
        calls.swap(0, 1);
    }
    rewriter.set_args(inst, &[inner])
}

/// Changes a branch into a jump to one of its targets; target 0 is the default.
fn jump(rewriter: &mut Rewriter<'_>, inst: Inst, target: usize) -> Option<Change> {
    let calls = rewriter.function.targets.get_mut(&inst)?;
    let call = calls.get(target).unwrap_or(&calls[0]).clone();
    *calls = SmallVec::from_iter([call]);
    rewriter.set(inst, Op::Jump, Data::Nothing, &[])
}

fn inverse(rewriter: &Rewriter<'_>, value: Value) -> Option<Value> {
    let inst = rewriter.function.def_inst(value)?;
    match rewriter.function.insts[inst].data {
        Data::Lane(desc) if desc.opcode == Opcode::Not => Some(rewriter.function.args(inst)[0]),
        _ => None,
    }
}
