//! Comparison and selection.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use margay_ops::mods::{BoolOp, CmpOp, Mode};
use margay_ops::types::{Kind, OpType};

use super::{Domain, Operation, Results, bits, halves, one};
use crate::code::Code;
use crate::group::Group;

fn float_condition(cmp: CmpOp) -> Option<FloatCC> {
    Some(match cmp {
        CmpOp::Eq => FloatCC::Equal,
        CmpOp::Ne => FloatCC::OrderedNotEqual,
        CmpOp::Lt | CmpOp::Lo => FloatCC::LessThan,
        CmpOp::Le | CmpOp::Ls => FloatCC::LessThanOrEqual,
        CmpOp::Gt | CmpOp::Hi => FloatCC::GreaterThan,
        CmpOp::Ge | CmpOp::Hs => FloatCC::GreaterThanOrEqual,
        CmpOp::Equ => FloatCC::UnorderedOrEqual,
        CmpOp::Neu => FloatCC::NotEqual,
        CmpOp::Ltu => FloatCC::UnorderedOrLessThan,
        CmpOp::Leu => FloatCC::UnorderedOrLessThanOrEqual,
        CmpOp::Gtu => FloatCC::UnorderedOrGreaterThan,
        CmpOp::Geu => FloatCC::UnorderedOrGreaterThanOrEqual,
        CmpOp::Num => FloatCC::Ordered,
        CmpOp::Nan => FloatCC::Unordered,
        CmpOp::None => return None,
    })
}

/// Returns the condition of a comparison of integers, and whether the comparison takes them as signed.
fn integer_condition(cmp: CmpOp, signed: bool) -> Option<(IntCC, bool)> {
    let unsigned = matches!(cmp, CmpOp::Lo | CmpOp::Ls | CmpOp::Hi | CmpOp::Hs);
    let signed = signed && !unsigned;
    let condition = match cmp {
        CmpOp::Eq | CmpOp::Equ => IntCC::Equal,
        CmpOp::Ne | CmpOp::Neu => IntCC::NotEqual,
        CmpOp::Lt | CmpOp::Ltu | CmpOp::Lo => IntCC::SignedLessThan,
        CmpOp::Le | CmpOp::Leu | CmpOp::Ls => IntCC::SignedLessThanOrEqual,
        CmpOp::Gt | CmpOp::Gtu | CmpOp::Hi => IntCC::SignedGreaterThan,
        CmpOp::Ge | CmpOp::Geu | CmpOp::Hs => IntCC::SignedGreaterThanOrEqual,
        CmpOp::Num | CmpOp::Nan | CmpOp::None => return None,
    };
    Some(match signed {
        true => (condition, true),
        false => (condition.unsigned(), false),
    })
}

/// Compares element `index` of the first two operands, which have the type `ty`.
fn compared(code: &mut Code<'_, '_>, op: &Operation<'_>, ty: OpType, index: u32) -> Option<Group> {
    let mods = op.desc.mods;
    match Domain::of(ty) {
        Domain::Float => {
            let condition = float_condition(mods.cmp())?;
            let a = op.float(code, 0, ty, mods.ftz())?;
            let b = op.float(code, 1, ty, mods.ftz())?;
            Some(code.fcmp(condition, a, b))
        }
        Domain::Half => {
            let condition = float_condition(mods.cmp())?;
            let a = halves::element(code, op, 0, (ty, index))?;
            let b = halves::element(code, op, 1, (ty, index))?;
            Some(code.fcmp(condition, a, b))
        }
        Domain::Integer => {
            let (condition, signed) = integer_condition(mods.cmp(), ty.is_signed())?;
            // The unsigned comparison of a signed type does not extend the sign.
            let bits = ty.bits();
            let [a, b] = [0, 1].map(|operand| op.integer(code, operand, ty));
            let (mut a, mut b) = (a?, b?);
            if !signed {
                (a, b) = (code.truncated(a, bits), code.truncated(b, bits));
            }
            Some(code.icmp(condition, a, b))
        }
        _ => None,
    }
}

/// Combines the result of a comparison with the predicate operand.
fn with_predicate(code: &mut Code<'_, '_>, op: &Operation<'_>, truth: Group) -> Option<Group> {
    match op.desc.mods.bool_op() {
        BoolOp::None => Some(truth),
        combine => {
            let other = op.truth(2)?;
            Some(bits::combined(code, combine, truth, other))
        }
    }
}

pub(super) fn setp(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let ty = op.desc.ty;
    let truth = compared(code, op, ty, 0)?;
    let mut results = one(with_predicate(code, op, truth)?)?;
    if op.results.len() > 1 {
        let second = match ty.elements() {
            2 => compared(code, op, ty, 1)?,
            _ => code.negate(truth),
        };
        results.push(with_predicate(code, op, second)?);
    }
    Some(results)
}

pub(super) fn set(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let source = match op.desc.src {
        OpType::None => op.desc.ty,
        src => src,
    };
    let yes = match op.desc.ty {
        OpType::F32 => u64::from(1.0f32.to_bits()),
        OpType::F16 => 0x3c00,
        OpType::BF16 => 0x3f80,
        ty if ty.is_integer() && ty.elements() == 1 && ty.bits() <= 32 => u64::from(u32::MAX),
        _ => return None,
    };
    (source.elements() == 1).then_some(())?;
    let truth = compared(code, op, source, 0)?;
    let truth = with_predicate(code, op, truth)?;
    let mask = code.mask(truth);
    one(code.and_with(mask, yes))
}

/// Returns the first two operands in a form in which lanes can be selected.
fn choices(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<(Group, Group)> {
    let (a, b) = (op.arg(0)?, op.arg(1)?);
    let as_bits = |code: &mut Code<'_, '_>, operand: &super::Operand| match operand.kind {
        Kind::Pred | Kind::B128 => operand.group,
        _ => code.as_int(operand.group),
    };
    let is_same = a.kind.bits() == b.kind.bits();
    is_same.then(|| (as_bits(code, a), as_bits(code, b)))
}

pub(super) fn selp(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (a, b) = choices(code, op)?;
    let condition = op.truth(2)?;
    one(code.select(condition, a, b))
}

pub(super) fn slct(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (a, b) = choices(code, op)?;
    let condition = match op.desc.src {
        OpType::F32 => {
            let c = op.float(code, 2, OpType::F32, op.desc.mods.ftz())?;
            let zero = code.float(32, 0.0);
            code.fcmp(FloatCC::GreaterThanOrEqual, c, zero)
        }
        _ => {
            let c = op.word(code, 2)?;
            code.icmp_with(IntCC::SignedGreaterThanOrEqual, c, 0)
        }
    };
    one(code.select(condition, a, b))
}

pub(super) fn testp(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let a = op.integer(code, 0, op.desc.ty)?;
    let (bits, fraction) = match op.desc.ty {
        OpType::F64 => (64, 52),
        _ => (32, 23),
    };
    let infinity = (u64::MAX >> (65 - bits)) >> fraction << fraction;
    let magnitude = code.and_with(a, u64::MAX >> (65 - bits));
    let mut test = |condition, value| code.icmp_with(condition, magnitude, value);
    one(match op.desc.mods.mode() {
        Mode::Finite => test(IntCC::SignedLessThan, infinity),
        Mode::Infinite => test(IntCC::Equal, infinity),
        Mode::Number => test(IntCC::SignedLessThanOrEqual, infinity),
        Mode::NotANumber => test(IntCC::SignedGreaterThan, infinity),
        Mode::Normal => {
            let is_finite = test(IntCC::SignedLessThan, infinity);
            let is_large = test(IntCC::SignedGreaterThanOrEqual, 1 << fraction);
            let is_zero = test(IntCC::Equal, 0);
            let is_normal = code.or(is_large, is_zero);
            code.and(is_finite, is_normal)
        }
        Mode::Subnormal => {
            let is_small = test(IntCC::SignedLessThan, 1 << fraction);
            let is_some = test(IntCC::NotEqual, 0);
            code.and(is_small, is_some)
        }
        _ => return None,
    })
}
