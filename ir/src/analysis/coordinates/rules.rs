//! Computes the form of an instruction's result from the forms of its operands.

use smallvec::SmallVec;

use super::form::{Condition, ConditionTest, Form, union};
use super::ranges::{IntegerType, Ranges, constant};
use super::sum::{Factor, Sum};
use super::{Fact, Facts, integer_bits};
use crate::analysis::uniformity::Class;
use crate::analysis::uniformity::control::Control;
use crate::entity::{Block, Inst, Value};
use crate::function::{Function, InstData, payload_sreg};
use margay_ops::mods::{Half, Mode, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::{self, SpecialReg};

/// The facts about values, as they are seen from a block.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) function: &'a Function,
    pub(super) facts: &'a Facts,
    pub(super) control: &'a Control,
    pub(super) ranges: Ranges<'a>,
    pub(super) block: Block,
}

/// The number of lanes of a warp.
const WARP: u32 = 32;

impl View<'_> {
    /// Returns the class of a value: launch, CTA or varying.
    pub(super) fn class(&self, value: Value) -> Class {
        let level = self.control.leaving(self.function, value, self.block);
        match &self.facts[value] {
            Fact::Uniform(class, _) if level <= Class::Cta => (*class).max(level),
            _ => Class::Varying,
        }
    }

    /// Returns whether the values of the threads that use a value in the block are those of one iteration of each loop
    /// around its definition.
    pub(super) fn is_current(&self, value: Value) -> bool {
        self.control.leaving(self.function, value, self.block) <= Class::Cta
    }

    /// Returns the form of a value; `None` if the value varies, or if it is not a scalar integer of 8 to 64 bits.
    pub(super) fn form(&self, value: Value) -> Option<Form> {
        let bits = integer_bits(self.function, value)?;
        if !self.is_current(value) {
            return None;
        }
        match &self.facts[value] {
            Fact::Uniform(_, Some(sum)) => Some(Form::uniform((**sum).clone(), bits)),
            Fact::Uniform(_, None) => Some(Form::uniform(Sum::factor(Factor::Value(value)), bits)),
            Fact::Affine(form) => Some((**form).clone()),
            Fact::Unknown | Fact::Varying => None,
        }
    }

    /// Returns the form of the first result of an instruction; `None` if it is not affine.
    pub(super) fn result(&self, inst: Inst) -> Option<Form> {
        let data = &self.function.dfg.insts[inst];
        let result = *self.function.dfg.results(inst).first()?;
        let bits = integer_bits(self.function, result)?;
        match data.opcode {
            Opcode::Const => {
                let number = constant(self.function, result, bits)?;
                return Some(Form::uniform(Sum::constant(number), bits));
            }
            Opcode::SReg => return self.register(payload_sreg(data.payload())?, bits),
            Opcode::Cvta => return self.address(data, inst, result),
            _ => {}
        }
        let plain = data.ty.is_integer() && data.ty.elements() == 1 && !data.mods.sat();
        if !plain {
            return None;
        }
        let form = self.operation(data, self.function.dfg.args(inst), result)?;
        debug_assert!(form.bits <= bits);
        (form.bits == bits).then_some(form)
    }

    fn operation(&self, data: &InstData, args: &[Value], result: Value) -> Option<Form> {
        let bits = data.ty.bits();
        let of = |index: usize| self.form(args[index]).filter(|form| form.bits == bits);
        let base = || Sum::factor(Factor::Base(result));
        let zero = || Form::uniform(Sum::default(), bits);
        match (data.opcode, args.len()) {
            (Opcode::Add, 2) => of(0)?.plus(&of(1)?, 1, base),
            (Opcode::Sub, 2) => of(0)?.plus(&of(1)?, -1, base),
            (Opcode::Neg, 1) => zero().plus(&of(0)?, -1, base),
            // The complement of a number is `-1 - number`.
            (Opcode::Not, 1) => {
                let ones = Form::uniform(Sum::constant(-1), bits);
                ones.plus(&of(0)?, -1, base)
            }
            (Opcode::Or | Opcode::Xor, 2) => {
                let (a, b) = (of(0)?, of(1)?);
                let disjoint = self.ranges.are_disjoint(&a, &b);
                disjoint.then(|| a.plus(&b, 1, base)).flatten()
            }
            (Opcode::Shl, 2) => {
                let by = self.function.dfg.constant(args[1])?;
                let by = by as u32;
                // A shift by the width or more removes all bits.
                let scale = if by < bits { 1 << by } else { 0 };
                zero().plus(&of(0)?, scale, base)
            }
            (Opcode::Mul | Opcode::Mul24, 2) => self.product(data, args, result),
            (Opcode::Mad | Opcode::Mad24, 3) => {
                let product = self.product(data, args, result)?;
                let addend = self.form(args[2])?;
                (addend.bits == product.bits).then_some(())?;
                product.plus(&addend, 1, base)
            }
            (Opcode::Cvt, 1) => self.converted(data, args[0]),
            (Opcode::Bitcast, 1) => of(0).filter(|_| data.src.is_integer()),
            (Opcode::Selp | Opcode::Slct, 3) => {
                let chosen_together = self.class(args[2]) <= Class::Cta;
                chosen_together.then(|| self.either(&of(0)?, &of(1)?, base))?
            }
            (Opcode::Min | Opcode::Max, 2) if !data.mods.relu() => self.clamped(data, args),
            _ => None,
        }
    }

    fn register(&self, register: SpecialReg, bits: u32) -> Option<Form> {
        use SpecialReg as R;
        let known = self.ranges.shape.known();
        let constant = |number: u32| Some(Form::uniform(Sum::constant(number.into()), bits));
        let axis = match register {
            R::TidX | R::NtidX => 0,
            R::TidY | R::NtidY => 1,
            R::TidZ | R::NtidZ => 2,
            R::Laneid | R::Warpid => return self.in_one_warp(register, bits),
            _ => return self.uniform_register(register, bits),
        };
        match (register, known) {
            (R::NtidX | R::NtidY | R::NtidZ, Some(shape)) => constant(shape[axis]),
            (R::NtidX | R::NtidY | R::NtidZ, None) => self.uniform_register(register, bits),
            (_, Some(shape)) if shape[axis] == 1 => constant(0),
            _ => Some(Form::coordinate(axis, bits)),
        }
    }

    fn uniform_register(&self, register: SpecialReg, bits: u32) -> Option<Form> {
        let same = register.uniformity() >= sreg::Uniformity::Cta;
        let whole = register.ty().is_integer() && register.ty().bits() <= bits;
        let factor = Factor::Register(register);
        (same && whole).then(|| Form::uniform(Sum::factor(factor), bits))
    }

    /// Returns the form of `%laneid` or `%warpid` in a block that has at most one warp. In other blocks, the registers
    /// are no affine functions of the coordinates.
    fn in_one_warp(&self, register: SpecialReg, bits: u32) -> Option<Form> {
        let [columns, rows, planes] = self.ranges.shape.known()?;
        if columns.checked_mul(rows)?.checked_mul(planes)? > WARP {
            return None;
        }
        let mut form = Form::uniform(Sum::default(), bits);
        if register == SpecialReg::Laneid {
            let steps = [1, columns, columns * rows];
            let lengths = [columns, rows, planes];
            for ((sum, step), length) in form.coefficients.iter_mut().zip(steps).zip(lengths) {
                if length > 1 {
                    *sum = Sum::constant(step.into());
                }
            }
        }
        Some(form)
    }

    /// Returns the form of an address that is converted to or from a generic address.
    fn address(&self, data: &InstData, inst: Inst, result: Value) -> Option<Form> {
        let &[operand] = self.function.dfg.args(inst) else {
            return None;
        };
        let form = self.form(operand)?;
        let bits = integer_bits(self.function, result)?;
        match data.mods.space() {
            StateSpace::Global | StateSpace::Const | StateSpace::Param => {
                (form.bits == bits).then_some(form)
            }
            StateSpace::Shared | StateSpace::SharedCluster => {
                // The instruction adds or subtracts the start of the CTA's window. It adds only the low 32 bits of the
                // operand.
                let form = match data.mods.mode() {
                    Mode::To => Some(form).filter(|form| form.bits >= bits)?.truncated(bits),
                    _ => {
                        let word = IntegerType {
                            bits: 32,
                            signed: false,
                        };
                        self.ranges.extend(&form, operand, word, bits)?
                    }
                };
                Some(Form {
                    base: Sum::factor(Factor::Base(result)),
                    ..form
                })
            }
            _ => None,
        }
    }

    /// Returns the form of a product. The low half of a product depends only on the low halves of the factors; for
    /// other products, the factors are extended first.
    fn product(&self, data: &InstData, args: &[Value], result: Value) -> Option<Form> {
        let base = || Sum::factor(Factor::Base(result));
        let bits = data.ty.bits();
        let is_24 = matches!(data.opcode, Opcode::Mul24 | Opcode::Mad24);
        let (from, to) = match (data.mods.half(), is_24) {
            (Half::Hi, _) => return None,
            (_, true) => (24, bits),
            (Half::Wide, false) => (bits, 2 * bits),
            (_, false) => (bits, bits),
        };
        let signed = data.ty.is_signed();
        let factor = |index: usize| {
            let form = self.form(args[index]).filter(|form| form.bits == bits)?;
            match from == to {
                true => Some(form),
                false => {
                    let ty = IntegerType { bits: from, signed };
                    self.ranges.extend(&form, args[index], ty, to)
                }
            }
        };
        (to <= 64).then_some(())?;
        factor(0)?.times(&factor(1)?, base)
    }

    fn converted(&self, data: &InstData, operand: Value) -> Option<Form> {
        let form = self.form(operand)?;
        let (from, to) = (data.src.bits(), data.ty.bits());
        let plain = data.src.is_integer() && data.src.elements() == 1;
        if !plain || !(8..=form.bits).contains(&from) {
            return None;
        }
        let ty = IntegerType {
            bits: from,
            signed: data.src.is_signed(),
        };
        match to > from {
            true => self.ranges.extend(&form, operand, ty, to),
            false => Some(form.truncated(to)),
        }
    }

    /// Returns the form of a selection between two values if all threads of the CTA select the same value. `base`
    /// returns the base for the case that the two bases differ.
    pub(super) fn either(&self, a: &Form, b: &Form, base: impl Fn() -> Sum) -> Option<Form> {
        (a.coefficients == b.coefficients && a.bits == b.bits).then_some(())?;
        Some(Form {
            bits: a.bits,
            base: match a.base == b.base {
                true => a.base.clone(),
                false => base(),
            },
            coefficients: a.coefficients.clone(),
            conditions: union(&a.conditions, &b.conditions)?,
        })
    }

    /// Returns the form of the minimum or maximum of an affine value and a uniform bound, under the condition that all
    /// threads select the affine value.
    fn clamped(&self, data: &InstData, args: &[Value]) -> Option<Form> {
        let (a, b) = (self.form(args[0])?, self.form(args[1])?);
        let (value, form, bound) = match (self.class(args[0]), self.class(args[1])) {
            (Class::Varying, Class::Launch | Class::Cta) => (args[0], a, args[1]),
            (Class::Launch | Class::Cta, Class::Varying) => (args[1], b, args[0]),
            _ => return None,
        };
        let bits = data.ty.bits();
        (form.bits == bits).then_some(())?;
        form.under(Condition {
            value,
            bits,
            signed: data.ty.is_signed(),
            test: match data.opcode {
                Opcode::Min => ConditionTest::AtMost(bound),
                _ => ConditionTest::AtLeast(bound),
            },
        })
    }

    /// Returns the facts about the operands of an instruction, as the uniformity analysis represents them; `None` if
    /// nothing is known about an operand yet.
    pub(super) fn operand_facts(
        &self,
        inst: Inst,
    ) -> Option<SmallVec<[crate::analysis::uniformity::Fact; 4]>> {
        let args = self.function.dfg.args(inst).iter();
        args.map(|&arg| match self.facts[arg] {
            Fact::Unknown => None,
            _ => Some(crate::analysis::uniformity::Fact {
                class: self.class(arg),
                zeros: 0,
            }),
        })
        .collect()
    }
}
