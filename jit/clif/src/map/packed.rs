//! Packed integers of 8 and 16 bits: vector registers with lanes of this width. Scalars have no such instructions.

use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ops::ops::Opcode;

use super::{Operation, Results, one};
use crate::code::Code;
use crate::group::Group;

/// Returns the type of a register of elements.
fn elements(code: &Code<'_, '_>, op: &Operation<'_>) -> Option<ir::Type> {
    code.is_vector().then_some(())?;
    match op.desc.ty.element_bits() {
        8 => Some(types::I8X16),
        16 => Some(types::I16X8),
        _ => None,
    }
}

fn operand(code: &mut Code<'_, '_>, op: &Operation<'_>, index: usize) -> Option<Group> {
    let ty = elements(code, op)?;
    let word = op.word(code, index)?;
    Some(word.map(|register| code.cast(register, ty)))
}

fn result(code: &mut Code<'_, '_>, elements: Group) -> Option<Results> {
    one(elements.map(|register| code.cast(register, types::I32X4)))
}

pub(super) fn arithmetic(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (mods, signed) = (op.desc.mods, op.desc.ty.is_signed());
    (!mods.carry_out()).then_some(())?;
    let (a, b) = (operand(code, op, 0)?, operand(code, op, 1)?);
    let is_sum = op.desc.opcode == Opcode::Add;
    let elements = code.each2(a, b, |b, x, y| match (is_sum, mods.sat(), signed) {
        (true, false, _) => b.ins().iadd(x, y),
        (true, true, true) => b.ins().sadd_sat(x, y),
        (true, true, false) => b.ins().uadd_sat(x, y),
        (false, false, _) => b.ins().isub(x, y),
        (false, true, true) => b.ins().ssub_sat(x, y),
        (false, true, false) => b.ins().usub_sat(x, y),
    });
    result(code, elements)
}

pub(super) fn extreme(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    (op.args.len() == 2).then_some(())?;
    let (a, b) = (operand(code, op, 0)?, operand(code, op, 1)?);
    let (is_max, signed) = (op.desc.opcode == Opcode::Max, op.desc.ty.is_signed());
    let mut elements = code.each2(a, b, |b, x, y| match (is_max, signed) {
        (true, true) => b.ins().smax(x, y),
        (true, false) => b.ins().umax(x, y),
        (false, true) => b.ins().smin(x, y),
        (false, false) => b.ins().umin(x, y),
    });
    if op.desc.mods.relu() && signed {
        let zero = code.vector_constant(types::I32, |_| 0);
        let ty = code.b.func.dfg.value_type(elements[0]);
        let zero = code.cast(zero, ty);
        elements = elements.map(|x| code.b.ins().smax(x, zero));
    }
    result(code, elements)
}

pub(super) fn sign(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    (!op.desc.mods.sat()).then_some(())?;
    let a = operand(code, op, 0)?;
    let elements = match (op.desc.opcode, op.desc.ty.is_signed()) {
        (Opcode::Neg, _) => code.neg(a),
        (_, true) => code.abs(a),
        (_, false) => a,
    };
    result(code, elements)
}
