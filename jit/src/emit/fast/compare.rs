//! Comparisons and selection.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ops::mods::{BoolOp, CmpOp};
use margay_ops::types::{Class, OpType};

use super::float;
use crate::emit::{Lane, clif_type, memory};

pub(crate) fn integer_condition(cmp: CmpOp, signed: bool) -> Option<IntCC> {
    Some(match (cmp, signed) {
        (CmpOp::Eq, _) => IntCC::Equal,
        (CmpOp::Ne, _) => IntCC::NotEqual,
        (CmpOp::Lt, true) => IntCC::SignedLessThan,
        (CmpOp::Le, true) => IntCC::SignedLessThanOrEqual,
        (CmpOp::Gt, true) => IntCC::SignedGreaterThan,
        (CmpOp::Ge, true) => IntCC::SignedGreaterThanOrEqual,
        (CmpOp::Lt | CmpOp::Lo, _) => IntCC::UnsignedLessThan,
        (CmpOp::Le | CmpOp::Ls, _) => IntCC::UnsignedLessThanOrEqual,
        (CmpOp::Gt | CmpOp::Hi, _) => IntCC::UnsignedGreaterThan,
        (CmpOp::Ge | CmpOp::Hs, _) => IntCC::UnsignedGreaterThanOrEqual,
        _ => return None,
    })
}

pub(crate) fn float_condition(cmp: CmpOp) -> Option<FloatCC> {
    Some(match cmp {
        CmpOp::Eq => FloatCC::Equal,
        CmpOp::Ne => FloatCC::OrderedNotEqual,
        CmpOp::Lt => FloatCC::LessThan,
        CmpOp::Le => FloatCC::LessThanOrEqual,
        CmpOp::Gt => FloatCC::GreaterThan,
        CmpOp::Ge => FloatCC::GreaterThanOrEqual,
        CmpOp::Equ => FloatCC::UnorderedOrEqual,
        CmpOp::Neu => FloatCC::NotEqual,
        CmpOp::Ltu => FloatCC::UnorderedOrLessThan,
        CmpOp::Leu => FloatCC::UnorderedOrLessThanOrEqual,
        CmpOp::Gtu => FloatCC::UnorderedOrGreaterThan,
        CmpOp::Geu => FloatCC::UnorderedOrGreaterThanOrEqual,
        CmpOp::Num => FloatCC::Ordered,
        CmpOp::Nan => FloatCC::Unordered,
        _ => return None,
    })
}

/// Emits the comparison of the first two operands as values of the type `ty`. The result is nonzero
/// if the comparison holds; `None` if this lowering does not support the type.
fn compare(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData, ty: OpType) -> Option<Value> {
    if let Some(float_ty) = float::float_type(ty) {
        let ftz = data.mods.ftz();
        let a = float::operand(lane, inst, 0, float_ty, ftz)?;
        let b = float::operand(lane, inst, 1, float_ty, ftz)?;
        return Some(lane.b.ins().fcmp(float_condition(data.mods.cmp())?, a, b));
    }
    if !ty.is_integer() || ty.elements() != 1 {
        return None;
    }
    let (a, b) = (lane.arg(inst, 0), lane.arg(inst, 1));
    let (a, b) = (lane.as_int(a), lane.as_int(b));
    let widths = [a, b].map(|v| lane.b.func.dfg.value_type(v).bits());
    if widths != [ty.bits(); 2] {
        return None;
    }
    let condition = integer_condition(data.mods.cmp(), ty.class() == Class::Signed)?;
    Some(lane.b.ins().icmp(condition, a, b))
}

fn combine(lane: &mut Lane<'_, '_>, op: BoolOp, a: Value, b: Value) -> Value {
    match op {
        BoolOp::And => lane.b.ins().band(a, b),
        BoolOp::Or => lane.b.ins().bor(a, b),
        BoolOp::Xor => lane.b.ins().bxor(a, b),
        BoolOp::None => a,
    }
}

pub(super) fn setp(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    // `setp` has one type, that of the operands. If an op has two types, `ty` is the type of the predicate, and `src`
    // that of the operands.
    let ty = if data.src == OpType::None {
        data.ty
    } else {
        data.src
    };
    let truth = compare(lane, inst, data, ty)?;
    let op = data.mods.bool_op();
    let other = (op != BoolOp::None).then(|| lane.arg(inst, 2));
    let results = lane.function.dfg.results(inst).to_vec();
    for (i, value) in results.into_iter().enumerate() {
        let this = if i == 0 {
            truth
        } else {
            lane.b.ins().bxor_imm_u(truth, 1)
        };
        let bits = match other {
            Some(other) => combine(lane, op, this, other),
            None => this,
        };
        lane.set(value, bits);
    }
    Some(())
}

pub(super) fn set(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let truth = compare(lane, inst, data, data.src)?;
    let truth = match data.mods.bool_op() {
        BoolOp::None => truth,
        op => {
            let other = lane.arg(inst, 2);
            combine(lane, op, truth, other)
        }
    };
    let yes = match data.ty {
        OpType::U32 | OpType::S32 | OpType::B32 => -1,
        OpType::F32 => i64::from(1.0f32.to_bits()),
        _ => return None,
    };
    let (yes, no) = (
        lane.b.ins().iconst(types::I32, yes),
        lane.b.ins().iconst(types::I32, 0),
    );
    let bits = lane.b.ins().select(truth, yes, no);
    let &value = lane.function.dfg.results(inst).first()?;
    let to = clif_type(lane.function.dfg.ty(value));
    if to.bits() != 32 {
        return None;
    }
    let bits = if to.is_float() {
        lane.b.ins().bitcast(to, memory::host_cast(), bits)
    } else {
        bits
    };
    lane.set(value, bits);
    Some(())
}

pub(super) fn selp(lane: &mut Lane<'_, '_>, inst: Inst, _: &InstData) -> Option<()> {
    let (a, b, p) = (lane.arg(inst, 0), lane.arg(inst, 1), lane.arg(inst, 2));
    let &value = lane.function.dfg.results(inst).first()?;
    let to = clif_type(lane.function.dfg.ty(value));
    let same = |lane: &Lane<'_, '_>, v: Value| lane.b.func.dfg.value_type(v) == to;
    if !same(lane, a) || !same(lane, b) {
        return None;
    }
    let bits = lane.b.ins().select(p, a, b);
    lane.set(value, bits);
    Some(())
}
