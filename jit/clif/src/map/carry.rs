//! Sums with carry of 32 and 64 bits. The carry of a difference is 1 if it does not borrow.

use cranelift_codegen::ir::condcodes::IntCC;

use super::{Operation, Results, integer};
use crate::code::Code;
use crate::group::Group;

/// Returns an operand with 32 or 64 bits.
fn operand(code: &mut Code<'_, '_>, op: &Operation<'_>, index: usize) -> Option<Group> {
    let ty = op.desc.ty;
    (ty.bits() >= 32).then_some(())?;
    op.integer(code, index, ty)
}

/// Returns a carry operand as 0 or 1.
fn carry_in(code: &mut Code<'_, '_>, op: &Operation<'_>, index: usize) -> Option<Group> {
    let truth = op.truth(index)?;
    Some(code.zero_or_one(op.desc.ty.bits(), truth))
}

/// Returns the sum of all terms and its carry.
fn sum(code: &mut Code<'_, '_>, a: Group, b: Group, carry: Option<Group>) -> (Group, Group) {
    let sum = code.add(a, b);
    let over = code.icmp(IntCC::UnsignedLessThan, sum, a);
    let Some(carry) = carry else {
        return (sum, over);
    };
    let whole = code.add(sum, carry);
    let again = code.icmp(IntCC::UnsignedLessThan, whole, sum);
    (whole, code.or(over, again))
}

fn results(op: &Operation<'_>, (sum, carry): (Group, Group)) -> Option<Results> {
    Some([sum, carry].into_iter().take(op.results.len()).collect())
}

pub(super) fn add(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (a, b) = (operand(code, op, 0)?, operand(code, op, 1)?);
    let sum = sum(code, a, b, None);
    results(op, sum)
}

pub(super) fn sub(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (a, b) = (operand(code, op, 0)?, operand(code, op, 1)?);
    let difference = code.sub(a, b);
    let carry = code.icmp(IntCC::UnsignedGreaterThanOrEqual, a, b);
    results(op, (difference, carry))
}

pub(super) fn addc(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (a, b) = (operand(code, op, 0)?, operand(code, op, 1)?);
    let carry = carry_in(code, op, 2)?;
    let sum = sum(code, a, b, Some(carry));
    results(op, sum)
}

pub(super) fn subc(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (a, b) = (operand(code, op, 0)?, operand(code, op, 1)?);
    let carry = carry_in(code, op, 2)?;
    let inverse = code.not(b);
    let sum = sum(code, a, inverse, Some(carry));
    results(op, sum)
}

fn product(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Group> {
    let (a, b) = (operand(code, op, 0)?, operand(code, op, 1)?);
    let product = integer::product(code, op.desc.ty, op.desc.mods.half(), a, b)?;
    (code.bits(product) == op.desc.ty.bits()).then_some(product)
}

pub(super) fn mad(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (product, c) = (product(code, op)?, operand(code, op, 2)?);
    let sum = sum(code, product, c, None);
    results(op, sum)
}

pub(super) fn madc(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (product, c) = (product(code, op)?, operand(code, op, 2)?);
    let carry = carry_in(code, op, 3)?;
    let sum = sum(code, product, c, Some(carry));
    results(op, sum)
}
