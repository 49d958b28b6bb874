//! CTA-affine forms, and the conditions under which they hold.

use std::fmt;

use smallvec::{SmallVec, smallvec};

use super::lanes::Line;
use super::sum::{CtaValues, Sum, extended, sign_extended, zero_extended};
use crate::entity::Value;

/// Maximum number of conditions of a form.
const MAX_CONDITIONS: usize = 6;

/// A condition on a value, which holds for a CTA or not. Code can evaluate the condition from CTA-uniform numbers: the
/// value is affine, so its least and its greatest number are those of threads at block corners.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Condition {
    /// The value, which has a form.
    pub value: Value,
    /// Number of low bits of the value that are interpreted as an integer.
    pub bits: u32,
    /// Whether the integer is signed.
    pub signed: bool,
    /// What must hold for the integer.
    pub test: ConditionTest,
}

/// What must hold for the integer of a [`Condition`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ConditionTest {
    /// The sum of base and coordinates, computed without wrapping, is in the range of the integer type for each thread
    /// of the block.
    NoWrap,
    /// The value does not wrap, and in no thread is the integer greater than that of this CTA-uniform value.
    AtMost(Value),
    /// The value does not wrap, and in no thread is the integer less than that of this CTA-uniform value.
    AtLeast(Value),
}

impl Condition {
    /// Returns the CTA-uniform value with which the condition compares.
    pub fn bound(&self) -> Option<Value> {
        match self.test {
            ConditionTest::NoWrap => None,
            ConditionTest::AtMost(bound) | ConditionTest::AtLeast(bound) => Some(bound),
        }
    }
}

/// The conditions of a form, sorted.
pub type Conditions = SmallVec<[Condition; 1]>;

/// A CTA-affine value: `base + x * %tid.x + y * %tid.y + z * %tid.z`, with wrapping arithmetic in the value's width.
/// This holds for each thread that executes the instruction which defines the value, if all conditions hold for the
/// CTA.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Form {
    /// Number of bits of the value.
    pub bits: u32,
    /// The part of the value that is equal for all threads of the CTA.
    pub base: Sum,
    /// The numbers with which the thread's coordinates are multiplied, for x, y and z.
    pub coefficients: [Sum; 3],
    /// The conditions under which the form holds.
    pub conditions: Conditions,
}

impl Form {
    /// Returns the form of a CTA-uniform value.
    pub(super) fn uniform(base: Sum, bits: u32) -> Form {
        Form {
            bits,
            base,
            coefficients: Default::default(),
            conditions: Conditions::new(),
        }
    }

    /// Returns the form of a coordinate: 0 for x, 1 for y, 2 for z.
    pub(super) fn coordinate(axis: usize, bits: u32) -> Form {
        let mut form = Form::uniform(Sum::default(), bits);
        form.coefficients[axis] = Sum::constant(1);
        form
    }

    /// Returns whether all coefficients are zero, so that the value is equal for all threads of the CTA if the
    /// conditions hold.
    pub fn is_uniform(&self) -> bool {
        self.coefficients.iter().all(Sum::is_zero)
    }

    /// Returns whether the form holds without conditions.
    pub fn is_unconditional(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Returns whether the form holds only if a minimum or maximum selects the affine value in all threads of the CTA.
    /// This is common for CTAs inside of a grid, but not for those at its edges.
    pub fn is_limited(&self) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.any(|condition| condition.bound().is_some())
    }

    /// Returns the axis (0 for x, 1 for y, 2 for z) of the only coordinate on which the value depends; `None` if it
    /// depends on no coordinate or on several.
    pub fn only_axis(&self) -> Option<usize> {
        let mut axes = (0..3).filter(|&axis| !self.coefficients[axis].is_zero());
        let only = axes.next()?;
        axes.next().is_none().then_some(only)
    }

    /// Calls `each` with the sums of the form.
    pub fn each_sum<'a>(&'a self, each: &mut impl FnMut(&'a Sum)) {
        each(&self.base);
        self.coefficients.iter().for_each(each);
    }

    /// Returns the value of the thread with these coordinates. The conditions must hold.
    pub fn evaluate(&self, values: &impl CtaValues, thread: [u32; 3]) -> u64 {
        let mut number = self.base.evaluate(values);
        for (coefficient, at) in self.coefficients.iter().zip(thread) {
            let moved = coefficient.evaluate(values).wrapping_mul(u64::from(at));
            number = number.wrapping_add(moved);
        }
        zero_extended(number, self.bits)
    }

    /// Returns the numbers of the form for a CTA: the base as an integer of the form's width, signed or unsigned, and
    /// the coefficients as signed integers.
    pub fn line(&self, values: &impl CtaValues, signed: bool) -> Line {
        let base = extended(self.base.evaluate(values), self.bits, signed);
        let steps = self.coefficients.each_ref();
        Line {
            base: match signed {
                true => i128::from(base as i64),
                false => i128::from(base),
            },
            steps: steps.map(|sum| i128::from(sign_extended(sum.evaluate(values), self.bits))),
        }
    }

    /// Returns the low `bits` bits of the form.
    pub(super) fn truncated(&self, bits: u32) -> Form {
        let bits = bits.min(self.bits);
        Form {
            bits,
            base: self.base.truncated(bits),
            coefficients: self.coefficients.each_ref().map(|sum| sum.truncated(bits)),
            conditions: self.conditions.clone(),
        }
    }

    /// Returns `self + scale * other`. `base` returns a base for the case that the sum of the bases has too many terms.
    /// The result is `None` if a coefficient has too many terms or there are too many conditions.
    pub(super) fn plus(&self, other: &Form, scale: i64, base: impl Fn() -> Sum) -> Option<Form> {
        let bits = self.bits;
        let mut coefficients: [Sum; 3] = Default::default();
        for (axis, sum) in coefficients.iter_mut().enumerate() {
            *sum = self.coefficients[axis].plus(&other.coefficients[axis], scale, bits)?;
        }
        Some(Form {
            bits,
            base: self
                .base
                .plus(&other.base, scale, bits)
                .unwrap_or_else(base),
            coefficients,
            conditions: union(&self.conditions, &other.conditions)?,
        })
    }

    /// Returns the product of two forms, at least one of which must have no coefficients. `base` has the same meaning as
    /// for [`Form::plus`].
    pub(super) fn times(&self, other: &Form, base: impl Fn() -> Sum) -> Option<Form> {
        let (form, factor) = match (self.is_uniform(), other.is_uniform()) {
            (_, true) => (self, other),
            (true, _) => (other, self),
            _ => return None,
        };
        let bits = self.bits;
        let mut coefficients: [Sum; 3] = Default::default();
        for (sum, coefficient) in coefficients.iter_mut().zip(&form.coefficients) {
            *sum = coefficient.times(&factor.base, bits)?;
        }
        Some(Form {
            bits,
            base: form.base.times(&factor.base, bits).unwrap_or_else(base),
            coefficients,
            conditions: union(&self.conditions, &other.conditions)?,
        })
    }

    /// Returns the form with one more condition; `None` if there are too many.
    pub(super) fn under(mut self, condition: Condition) -> Option<Form> {
        self.conditions = union(&self.conditions, &smallvec![condition])?;
        Some(self)
    }
}

/// Returns all conditions of two lists; `None` if there are too many.
pub(super) fn union(a: &Conditions, b: &Conditions) -> Option<Conditions> {
    let mut all = a.clone();
    all.extend(b.iter().copied());
    all.sort_unstable();
    all.dedup();
    (all.len() <= MAX_CONDITIONS).then_some(all)
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.signed { "s" } else { "u" };
        write!(f, "{} in {sign}{}", self.value, self.bits)?;
        match self.test {
            ConditionTest::NoWrap => Ok(()),
            ConditionTest::AtMost(bound) => write!(f, " <= {bound}"),
            ConditionTest::AtLeast(bound) => write!(f, " >= {bound}"),
        }
    }
}

/// Writes ` if ` and the conditions, or nothing if there are none.
pub(super) fn write_conditions(
    f: &mut fmt::Formatter<'_>,
    conditions: &[Condition],
) -> fmt::Result {
    for (index, condition) in conditions.iter().enumerate() {
        let word = if index == 0 { " if" } else { "," };
        write!(f, "{word} {condition}")?;
    }
    Ok(())
}

impl Form {
    /// Writes the form without its conditions.
    pub(super) fn write_sums(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        for (sum, axis) in self.coefficients.iter().zip(["x", "y", "z"]) {
            match (sum.as_constant(), sum.terms().len()) {
                (Some(0), _) => {}
                (Some(1), _) => parts.push(format!("tid.{axis}")),
                (Some(-1), _) => parts.push(format!("-tid.{axis}")),
                (_, 1) => parts.push(format!("{sum}*tid.{axis}")),
                _ => parts.push(format!("({sum})*tid.{axis}")),
            }
        }
        if parts.is_empty() || !self.base.is_zero() {
            parts.push(self.base.to_string());
        }
        for (index, part) in parts.iter().enumerate() {
            match (index, part.strip_prefix('-')) {
                (0, _) => f.write_str(part)?,
                (_, Some(positive)) => write!(f, " - {positive}")?,
                (_, None) => write!(f, " + {part}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_sums(f)?;
        write_conditions(f, &self.conditions)
    }
}
