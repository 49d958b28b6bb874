//! Guards, which are comparisons of an affine value with a CTA-uniform bound, and predicates that consist of guards.
//!
//! A vectoriser turns a branch on such a predicate into a range of threads ([`super::lanes`]): full chunks run without
//! a mask, and only the chunks at the ends of the range run under a mask.

use std::fmt;

use smallvec::{SmallVec, smallvec};

use super::form::{Condition, Form, write_conditions};
use super::lanes::GuardLine;
use super::sum::{CtaValues, Sum, extended};
use crate::entity::Value;
use margay_ops::mods::{BoolOp, CmpOp};

/// Maximum number of tests of a predicate.
const MAX_TESTS: usize = 8;

/// A comparison of integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Relation {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Relation {
    /// Returns the relation of a comparison of integers, and whether the integers are signed; `None` if `cmp` does not
    /// compare integers. `signed` is the signedness of the type.
    pub(super) fn of(cmp: CmpOp, signed: bool) -> Option<(Relation, bool)> {
        Some(match cmp {
            CmpOp::Eq => (Relation::Equal, signed),
            CmpOp::Ne => (Relation::NotEqual, signed),
            CmpOp::Lt => (Relation::Less, signed),
            CmpOp::Le => (Relation::LessOrEqual, signed),
            CmpOp::Gt => (Relation::Greater, signed),
            CmpOp::Ge => (Relation::GreaterOrEqual, signed),
            CmpOp::Lo => (Relation::Less, false),
            CmpOp::Ls => (Relation::LessOrEqual, false),
            CmpOp::Hi => (Relation::Greater, false),
            CmpOp::Hs => (Relation::GreaterOrEqual, false),
            _ => return None,
        })
    }

    /// Returns whether the relation holds between two integers.
    pub fn holds(self, a: i128, b: i128) -> bool {
        match self {
            Relation::Equal => a == b,
            Relation::NotEqual => a != b,
            Relation::Less => a < b,
            Relation::LessOrEqual => a <= b,
            Relation::Greater => a > b,
            Relation::GreaterOrEqual => a >= b,
        }
    }

    /// Returns the relation that holds between `a` and `b` if and only if `self` holds between `b` and `a`.
    pub fn swapped(self) -> Relation {
        match self {
            Relation::Less => Relation::Greater,
            Relation::LessOrEqual => Relation::GreaterOrEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterOrEqual => Relation::LessOrEqual,
            same => same,
        }
    }

    /// Returns the relation that holds if and only if `self` does not hold.
    pub fn negated(self) -> Relation {
        match self {
            Relation::Equal => Relation::NotEqual,
            Relation::NotEqual => Relation::Equal,
            Relation::Less => Relation::GreaterOrEqual,
            Relation::LessOrEqual => Relation::Greater,
            Relation::Greater => Relation::LessOrEqual,
            Relation::GreaterOrEqual => Relation::Less,
        }
    }

    pub(super) fn is_order(self) -> bool {
        !matches!(self, Relation::Equal | Relation::NotEqual)
    }

    fn text(self) -> &'static str {
        match self {
            Relation::Equal => "==",
            Relation::NotEqual => "!=",
            Relation::Less => "<",
            Relation::LessOrEqual => "<=",
            Relation::Greater => ">",
            Relation::GreaterOrEqual => ">=",
        }
    }
}

/// A comparison of an affine value with a bound that is equal for all threads of the CTA. The comparison has the result
/// that the affine form predicts if the conditions of the form hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guard {
    /// The affine value. For an order comparison, one of its conditions states that it does not wrap, unless this is
    /// proved.
    pub form: Form,
    /// The bound.
    pub bound: Sum,
    /// The comparison between the affine value and the bound.
    pub relation: Relation,
    /// Whether both are signed integers.
    pub signed: bool,
}

/// A part of a [`Predicate`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Test {
    /// A comparison.
    Guard(Box<Guard>),
    /// A predicate that is equal for all threads of the CTA.
    Uniform {
        /// The predicate.
        value: Value,
        /// The content of the predicate for which the test holds.
        expected: bool,
    },
}

/// A predicate that consists of tests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Predicate {
    /// The tests.
    pub all: SmallVec<[Test; 1]>,
    /// Whether the predicate is false if all tests hold, and true otherwise.
    pub negated: bool,
}

impl Guard {
    /// Returns the guard that holds if and only if this guard does not hold.
    fn negated(&self) -> Guard {
        Guard {
            relation: self.relation.negated(),
            ..self.clone()
        }
    }

    /// Returns the numbers of the guard in one CTA.
    pub fn line(&self, values: &impl CtaValues) -> GuardLine {
        let bits = self.form.bits;
        let bound = extended(self.bound.evaluate(values), bits, self.signed);
        GuardLine {
            line: self.form.line(values, self.signed),
            bound: match self.signed {
                true => i128::from(bound as i64),
                false => i128::from(bound),
            },
            relation: self.relation,
            bits,
        }
    }
}

impl Test {
    fn negated(&self) -> Test {
        match self {
            Test::Guard(guard) => Test::Guard(Box::new(guard.negated())),
            &Test::Uniform { value, expected } => Test::Uniform {
                value,
                expected: !expected,
            },
        }
    }
}

impl Predicate {
    pub(super) fn of(test: Test) -> Predicate {
        Predicate {
            all: smallvec![test],
            negated: false,
        }
    }

    pub(super) fn not(mut self) -> Predicate {
        match self.all.as_slice() {
            [one] => Predicate::of(one.negated()),
            _ => {
                self.negated = !self.negated;
                self
            }
        }
    }

    /// Returns the conjunction of two predicates; `None` if the result is not a conjunction of tests.
    fn and(mut self, other: Predicate) -> Option<Predicate> {
        if self.negated || other.negated {
            return None;
        }
        self.all.extend(other.all);
        (self.all.len() <= MAX_TESTS).then_some(self)
    }

    /// Returns the combination of two predicates with `op`; `None` if the result is neither a conjunction of tests nor the negation
    /// of one.
    pub(super) fn combined(self, op: BoolOp, other: Predicate) -> Option<Predicate> {
        match op {
            BoolOp::And => self.and(other),
            BoolOp::Or => Some(self.not().and(other.not())?.not()),
            _ => None,
        }
    }

    /// Returns the conditions under which the predicate has the predicted value.
    pub fn conditions(&self) -> impl Iterator<Item = Condition> + '_ {
        self.all
            .iter()
            .flat_map(|test| match test {
                Test::Guard(guard) => guard.form.conditions.as_slice(),
                Test::Uniform { .. } => &[],
            })
            .copied()
    }

    /// Returns a mask of the lanes of a chunk for which the predicate is true. See [`GuardLine::chunk`] for the
    /// arguments. All conditions must hold.
    pub fn chunk(&self, values: &impl CtaValues, shape: [u32; 3], first: u32, width: u32) -> u64 {
        let threads = shape.iter().product::<u32>();
        let count = width.min(threads.saturating_sub(first));
        let lanes = 1u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1);
        let all = self.all.iter().fold(lanes, |mask, test| match test {
            Test::Guard(guard) => mask & guard.line(values).chunk(shape, first, width),
            &Test::Uniform { value, expected } => {
                match (values.value(value) & 1 != 0) == expected {
                    true => mask,
                    false => 0,
                }
            }
        });
        match self.negated {
            true => lanes & !all,
            false => all,
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.form.write_sums(f)?;
        let sign = if self.signed { "s" } else { "u" };
        write!(f, " {}{sign} {}", self.relation.text(), self.bound)
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negated {
            f.write_str("not (")?;
        }
        for (index, test) in self.all.iter().enumerate() {
            let and = if index == 0 { "" } else { " and " };
            match test {
                Test::Guard(guard) => write!(f, "{and}{guard}")?,
                Test::Uniform { value, expected } => {
                    let not = if *expected { "" } else { "not " };
                    write!(f, "{and}{not}{value}")?;
                }
            }
        }
        if self.negated {
            f.write_str(")")?;
        }
        let mut conditions: Vec<Condition> = self.conditions().collect();
        conditions.sort_unstable();
        conditions.dedup();
        write_conditions(f, &conditions)
    }
}
