//! Finds the comparisons of which predicates consist.

use super::form::{Condition, ConditionTest, Form, union};
use super::guard::{Guard, Predicate, Relation, Test};
use super::integer_bits;
use super::ranges::{IntegerType, constant};
use super::rules::View;
use super::sum::Sum;
use crate::analysis::uniformity::Class;
use crate::entity::{Inst, Value};
use margay_ops::mods::BoolOp;
use margay_ops::ops::Opcode;
use margay_ops::types::Type;

/// Maximum number of nested bitwise operations of a sign test.
const MAX_DEPTH: u32 = 4;

impl View<'_> {
    /// Returns whether a comparison for equality has the same result in all threads of the CTA, because its operands
    /// are affine with the same coefficients.
    pub(super) fn compares_equal_steps(&self, inst: Inst) -> bool {
        let data = &self.function.dfg.insts[inst];
        let args = self.function.dfg.args(inst);
        let relation = Relation::of(data.mods.cmp(), false).map(|(relation, _)| relation);
        let is_equality = relation.is_some_and(|relation| !relation.is_order());
        let is_setp = data.opcode == Opcode::Setp && is_equality;
        let integer = data.ty.is_integer() && data.ty.elements() == 1;
        let same = || {
            let (a, b) = (self.form(args[0])?, self.form(args[1])?);
            let unconditional = a.is_unconditional() && b.is_unconditional();
            (unconditional && a.coefficients == b.coefficients).then_some(())
        };
        let others = || args[2..].iter().all(|&arg| self.class(arg) <= Class::Cta);
        is_setp && integer && args.len() >= 2 && same().is_some() && others()
    }

    /// Returns the comparison of a `setp` as a guard; `None` if it is not a comparison of an affine value with a
    /// uniform bound.
    fn guard(&self, inst: Inst) -> Option<Guard> {
        let data = &self.function.dfg.insts[inst];
        let ty = data.ty;
        let &[a, b, ..] = self.function.dfg.args(inst) else {
            return None;
        };
        if !ty.is_integer() || ty.elements() != 1 {
            return None;
        }
        let (relation, signed) = Relation::of(data.mods.cmp(), ty.is_signed())?;
        let (left, right) = (self.form(a)?, self.form(b)?);
        let (value, form, bound, relation) = match (left.is_uniform(), right.is_uniform()) {
            (false, true) => (a, left, right, relation),
            (true, false) => (b, right, left, relation.swapped()),
            // Two affine values are equal if their difference is zero.
            (false, false) if !relation.is_order() => {
                let base = left.base.plus(&right.base, -1, left.bits)?;
                let form = left.plus(&right, -1, || base.clone())?;
                let zero = Form::uniform(Sum::default(), form.bits);
                (a, form, zero, relation)
            }
            _ => return None,
        };
        let conditions = union(&form.conditions, &bound.conditions)?;
        let form = Form { conditions, ..form };
        let form = match relation.is_order() {
            true => self.without_wrapping(value, form, signed)?,
            false => form,
        };
        Some(Guard {
            form,
            bound: bound.base,
            relation,
            signed,
        })
    }

    /// Returns the tests of a comparison that tests the sign of a bitwise combination of integers. Compilers test with
    /// `(a | b) < 0` whether one of two indices is negative.
    fn sign_test(&self, inst: Inst) -> Option<Predicate> {
        let data = &self.function.dfg.insts[inst];
        let &[a, b, ..] = self.function.dfg.args(inst) else {
            return None;
        };
        let bits = integer_bits(self.function, a)?;
        let is_word = data.ty.elements() == 1 && data.ty.bits() == bits && self.is_current(a);
        let (relation, signed) = Relation::of(data.mods.cmp(), data.ty.is_signed())?;
        let negative = match (relation, constant(self.function, b, bits)?) {
            (Relation::Less, 0) | (Relation::LessOrEqual, -1) => true,
            (Relation::GreaterOrEqual, 0) | (Relation::Greater, -1) => false,
            _ => return None,
        };
        let predicate = (is_word && signed).then(|| self.is_negative(a, MAX_DEPTH))??;
        Some(match negative {
            true => predicate,
            false => predicate.not(),
        })
    }

    /// Returns the predicate that is true if an integer is negative.
    fn is_negative(&self, value: Value, depth: u32) -> Option<Predicate> {
        if let Some(form) = self.form(value).filter(|form| !form.is_uniform()) {
            let guard = Guard {
                relation: Relation::Less,
                bound: Sum::default(),
                form: self.without_wrapping(value, form, true)?,
                signed: true,
            };
            return Some(Predicate::of(Test::Guard(Box::new(guard))));
        }
        let inst = self.function.dfg.def_inst(value)?;
        let op = match self.function.dfg.insts[inst].opcode {
            Opcode::Or => BoolOp::Or,
            Opcode::And => BoolOp::And,
            _ => return None,
        };
        let &[a, b] = self.function.dfg.args(inst) else {
            return None;
        };
        let depth = depth.checked_sub(1)?;
        (self.is_current(a) && self.is_current(b)).then_some(())?;
        let first = self.is_negative(a, depth)?;
        first.combined(op, self.is_negative(b, depth)?)
    }

    /// Returns the form of an integer under the condition that it does not wrap, unless this is proved.
    fn without_wrapping(&self, value: Value, form: Form, signed: bool) -> Option<Form> {
        let bits = form.bits;
        match self.ranges.fits(&form, IntegerType { bits, signed }) {
            Some(true) => Some(form),
            _ => form.under(Condition {
                value,
                bits,
                signed,
                test: ConditionTest::NoWrap,
            }),
        }
    }

    /// Returns the tests of which a result of an instruction consists. `number` is the index of the result. `known`
    /// returns the tests of an operand.
    pub(super) fn predicate(
        &self,
        inst: Inst,
        number: usize,
        known: impl Fn(Value) -> Option<Predicate>,
    ) -> Option<Predicate> {
        let data = &self.function.dfg.insts[inst];
        let args = self.function.dfg.args(inst);
        let operand = |index: usize| {
            let value = args[index];
            if self.class(value) <= Class::Cta {
                let expected = true;
                return Some(Predicate::of(Test::Uniform { value, expected }));
            }
            self.is_current(value).then(|| known(value))?
        };
        let op = match data.opcode {
            Opcode::Setp => {
                let guard = match self.guard(inst) {
                    Some(guard) => Predicate::of(Test::Guard(Box::new(guard))),
                    None => self.sign_test(inst)?,
                };
                // The second result combines the complement of the comparison.
                let guard = if number == 1 { guard.not() } else { guard };
                return match data.mods.bool_op() {
                    BoolOp::None => Some(guard),
                    op => guard.combined(op, operand(2)?),
                };
            }
            Opcode::Not => return operand(0).map(Predicate::not),
            Opcode::And => BoolOp::And,
            Opcode::Or => BoolOp::Or,
            _ => return None,
        };
        operand(0)?.combined(op, operand(1)?)
    }

    /// Returns whether a value is a predicate.
    pub(super) fn is_predicate(&self, value: Value) -> bool {
        self.function.dfg.ty(value) == Type::PRED
    }
}
