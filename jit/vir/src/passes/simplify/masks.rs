//! Rules for ops that convert masks to bits and back.

use margay_ir::entity::{Inst, Value};
use margay_ops::meaning::mask;
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

use super::{Change, Rewriter};
use crate::data::Data;
use crate::ops::Op;
use crate::passes::emitter::plain;

pub(super) fn rule(rewriter: &mut Rewriter<'_>, inst: Inst) -> Option<Change> {
    let data = rewriter.function.insts[inst];
    let (ty, of) = (data.ty?, rewriter.function.args(inst)[0]);
    match data.op {
        Op::Ballot => ballot(rewriter, ty, of),
        Op::Mask => to_mask(rewriter, inst, ty, of),
        op => any_or_all(rewriter, op, ty, of),
    }
}

/// The bits of a mask of bits are these bits, as many as there are lanes.
fn ballot(rewriter: &mut Rewriter<'_>, ty: Type, of: Value) -> Option<Change> {
    let bits = rewriter.def_as(of, Op::Mask)?[0];
    if ty.lanes() == 64 {
        return Change::value(bits);
    }
    let ones = rewriter.constant(Type::B64, mask(ty.lanes()) as u64);
    let and = Data::Lane(plain(Opcode::And, OpType::B64));
    let value = rewriter.emit(Op::Map, Type::B64, and, &[bits, ones]);
    Change::value(value)
}

fn to_mask(rewriter: &mut Rewriter<'_>, inst: Inst, ty: Type, of: Value) -> Option<Change> {
    if let Some(&[mask]) = rewriter.def_as(of, Op::Ballot)
        && rewriter.function.ty(mask) == ty
    {
        return Change::value(mask);
    }
    // An operand of `and` that keeps all bits of the mask has no effect.
    let &[bits, by] = rewriter.def_as(of, Op::Map)? else {
        return None;
    };
    let used = mask(ty.lanes()) as u64;
    let is_and = opcode(rewriter, of) == Some(Opcode::And);
    let keeps = rewriter.function.constant(by)? & used == used;
    (is_and && keeps).then_some(())?;
    rewriter.set_args(inst, &[bits])
}

fn any_or_all(rewriter: &mut Rewriter<'_>, op: Op, ty: Type, of: Value) -> Option<Change> {
    if ty.lanes() == 1 {
        return Change::value(of);
    }
    if let Some(&[lane]) = rewriter.def_as(of, Op::Splat) {
        return Change::value(lane);
    }
    // A lane of `not m` is true unless all lanes of `m` are.
    let &[inner] = rewriter.def_as(of, Op::Map)? else {
        return None;
    };
    if opcode(rewriter, of) != Some(Opcode::Not) || rewriter.function.ty(inner) != ty {
        return None;
    }
    let other = if op == Op::Any { Op::All } else { Op::Any };
    let value = rewriter.emit(other, ty, Data::Nothing, &[inner]);
    let not = Data::Lane(plain(Opcode::Not, OpType::Pred));
    let value = rewriter.emit(Op::Map, Type::PRED, not, &[value]);
    Change::value(value)
}

/// Returns the opcode of the `map` that defines a value.
fn opcode(rewriter: &Rewriter<'_>, value: Value) -> Option<Opcode> {
    let inst = rewriter.function.def_inst(value)?;
    match rewriter.function.insts[inst].data {
        Data::Lane(desc) => Some(desc.opcode),
        _ => None,
    }
}
