//! Bounds of sums and forms, which prove that affine values do not wrap, and the extension of affine values to wider
//! types.

use super::Shape;
use super::form::{Condition, ConditionTest, Form};
use super::lanes::range_of;
use super::sum::{Extension, Factor, Sum, Term, extended, sign_extended};
use crate::analysis::reach::{Interval, Reach};
use crate::entity::Value;
use crate::function::Function;

/// Blocks with fewer threads along an axis are small.
const SMALL: i128 = 32;

/// Computes bounds of expressions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranges<'a> {
    pub(super) function: &'a Function,
    pub(super) reach: Reach<'a>,
    pub(super) shape: Shape,
}

/// An interpretation of low bits as an integer.
#[derive(Clone, Copy, Debug)]
pub(super) struct IntegerType {
    pub(super) bits: u32,
    pub(super) signed: bool,
}

impl IntegerType {
    fn range(self) -> Interval {
        let (low, high) = range_of(self.bits, self.signed);
        Interval { low, high }
    }
}

impl Ranges<'_> {
    /// Returns bounds of the sum as it is written: of the sum of products of its factors, without wrapping. `None` if
    /// the bounds are too large.
    fn interval(&self, sum: &Sum) -> Option<Interval> {
        sum.terms().iter().try_fold(Interval::ZERO, |all, term| {
            all.plus(self.term(term)?).checked()
        })
    }

    fn term(&self, term: &Term) -> Option<Interval> {
        let times = Interval::point(i128::from(term.times)).checked();
        term.factors.iter().try_fold(times?, |product, factor| {
            product.times(self.factor(factor)?).checked()
        })
    }

    fn factor(&self, factor: &Factor) -> Option<Interval> {
        let whole = |bits| {
            IntegerType {
                bits,
                signed: false,
            }
            .range()
        };
        let bits_of = |value: Value| self.function.dfg.ty(value).lane_bits();
        let (known, whole) = match factor {
            Factor::Register(register) => {
                (self.reach.register(*register), whole(register.ty().bits()))
            }
            Factor::Value(value) => (self.reach.bounds(*value), whole(bits_of(*value))),
            Factor::Base(value) => (None, whole(bits_of(*value))),
            Factor::Extended(of) => {
                let ty = IntegerType {
                    bits: of.bits,
                    signed: of.signed,
                };
                (self.interval(&of.sum), ty.range())
            }
        };
        known
            .filter(|known| known.lies_in(whole))
            .or(whole.checked())
    }

    /// Returns bounds of the integer that the low bits of a sum represent.
    fn integer(&self, sum: &Sum, ty: IntegerType) -> Interval {
        if let Some(number) = sum.as_constant() {
            let number = extended(number as u64, ty.bits, ty.signed);
            return Interval::point(match ty.signed {
                true => i128::from(number as i64),
                false => i128::from(number),
            });
        }
        let known = self.interval(sum);
        known
            .filter(|known| known.lies_in(ty.range()))
            .unwrap_or(ty.range())
    }

    /// Returns bounds of the integer that the low bits of an affine value represent in the threads of a block, if the
    /// value does not wrap: the sum of the base and of the coordinates, without wrapping.
    fn without_wrapping(&self, form: &Form, ty: IntegerType) -> Interval {
        let step = IntegerType { signed: true, ..ty };
        let mut all = self.integer(&form.base, ty);
        for (sum, most) in form.coefficients.iter().zip(self.shape.most()) {
            let last = i128::from(most.saturating_sub(1));
            let steps = Interval { low: 0, high: last };
            all = all.plus(self.integer(sum, step).times(steps));
        }
        all
    }

    /// Returns whether an affine value does not wrap in any block; `None` if this depends on the CTA. The result is
    /// `Some(false)` if the value wraps in all blocks, or if all numbers are constants and it wraps in all blocks but
    /// small ones.
    pub(super) fn fits(&self, form: &Form, ty: IntegerType) -> Option<bool> {
        if self.without_wrapping(form, ty).lies_in(ty.range()) {
            return Some(true);
        }
        let constant = |sum: &Sum| sum.as_constant().map(i128::from);
        let steps = form.coefficients.each_ref().map(constant);
        form.base.as_constant()?;
        let &[Some(x), Some(y), Some(z)] = &steps else {
            return None;
        };
        let base = self.integer(&form.base, ty).low;
        let steps = [x, y, z];
        match self.shape.known() {
            // The extremes are those of threads of the block, and at least one of them is out of range.
            Some(_) => Some(false),
            None => {
                let wraps = |&step: &i128| {
                    let last = Interval::point(base + step * (SMALL - 1));
                    !last.lies_in(ty.range())
                };
                steps.iter().any(wraps).then_some(false)
            }
        }
    }

    /// Returns bounds of the integers that the low bits of an affine value represent in the threads of a block; `None`
    /// if the value may wrap.
    pub(super) fn bounds(&self, form: &Form, ty: IntegerType) -> Option<Interval> {
        let bounds = self.without_wrapping(form, ty);
        bounds.lies_in(ty.range()).then_some(bounds)
    }

    fn extend_sum(&self, sum: &Sum, ty: IntegerType) -> Sum {
        if let Some(number) = sum.as_constant() {
            return Sum::constant(extended(number as u64, ty.bits, ty.signed) as i64);
        }
        if self
            .interval(sum)
            .is_some_and(|known| known.lies_in(ty.range()))
        {
            return sum.clone();
        }
        Sum::factor(Factor::Extended(Box::new(Extension {
            sum: sum.clone(),
            bits: ty.bits,
            signed: ty.signed,
        })))
    }

    /// Returns the form of the low bits of a value, extended to `bits` bits. `form` is the form of `value`. The result
    /// has a condition unless the value is proved not to wrap; it is `None` if the value is certain to wrap.
    pub(super) fn extend(
        &self,
        form: &Form,
        value: Value,
        ty: IntegerType,
        bits: u32,
    ) -> Option<Form> {
        let narrow = form.truncated(ty.bits);
        let fits = match narrow.is_uniform() {
            true => Some(true),
            false => self.fits(&narrow, ty),
        };
        if fits == Some(false) {
            return None;
        }
        let step = IntegerType { signed: true, ..ty };
        let coefficients = narrow.coefficients.each_ref();
        let wide = Form {
            bits,
            base: self.extend_sum(&narrow.base, ty).truncated(bits),
            coefficients: coefficients.map(|sum| self.extend_sum(sum, step).truncated(bits)),
            conditions: narrow.conditions,
        };
        match fits {
            Some(_) => Some(wide),
            None => wide.under(Condition {
                value,
                bits: ty.bits,
                signed: ty.signed,
                test: ConditionTest::NoWrap,
            }),
        }
    }

    /// Returns whether two forms have no bit position at which both may have a one, so that a bitwise "or" of the two
    /// values is their sum.
    pub(super) fn are_disjoint(&self, a: &Form, b: &Form) -> bool {
        let below = |high: &Form, low: &Form| {
            let mut zeros = 64;
            high.each_sum(&mut |sum| zeros = zeros.min(sum.zeros()));
            let ty = IntegerType {
                bits: low.bits,
                signed: false,
            };
            let bounds = self.bounds(low, ty);
            bounds.is_some_and(|bounds| bounds.high < 1 << zeros.min(64))
        };
        below(a, b) || below(b, a)
    }
}

/// Returns the constant operand of an operation as a signed integer with `bits` bits.
pub(super) fn constant(function: &Function, value: Value, bits: u32) -> Option<i64> {
    Some(sign_extended(function.dfg.constant(value)?, bits))
}
