//! Vectors of addresses that differ between lanes only by known numbers, or by known multiples of one scalar.
//!
//! Such addresses are those of a matrix whose elements are numbered by the lanes: the row and the column of lane `n` are
//! a quotient and a remainder of `n`, and the distance between rows is a scalar.

use margay_ir::entity::Value;
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::linear::{Forms, Linear, factor};
use crate::constants::{self, signed_number};
use crate::data::{Data, lanes_of};
use crate::function::Function;
use crate::meaning::{self, Lanes};
use crate::ops::Op;
use crate::passes::simplify::is_whole_integer;

/// The maximum number of operations that lead from known lanes to a pattern.
const DEEPEST: u32 = 24;

/// A number for each lane.
pub(super) type Numbers = SmallVec<[i64; 32]>;

/// The lanes of a vector of `b64`: lane `n` is `base + known[n] + scaled[n] * factor`, modulo 2^64.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pattern {
    /// The form of the base; `None` if it has too many terms.
    pub(super) base: Option<Linear>,
    pub(super) known: Numbers,
    /// The scalar that differs between lanes by its known factors, with these.
    pub(super) scaled: Option<(Value, Numbers)>,
    /// The length of the longest chain of operations that lead to the vector.
    steps: u32,
}

impl Pattern {
    fn uniform(base: Linear, lanes: usize) -> Pattern {
        Pattern {
            base: Some(base),
            known: SmallVec::from_elem(0, lanes),
            scaled: None,
            steps: 0,
        }
    }

    /// Returns the number of the first lanes that the other lanes repeat, a power of two.
    pub(super) fn period(&self) -> usize {
        let lanes = self.known.len();
        let repeats = |numbers: &[i64], period: usize| {
            let shifted = numbers.iter().zip(numbers.iter().skip(period));
            shifted.clone().all(|(a, b)| a == b)
        };
        let periods = (0..).map(|log2| 1 << log2).take_while(|&n| n < lanes);
        let mut found = periods.filter(|&period| {
            let scaled = self.scaled.as_ref();
            repeats(&self.known, period) && scaled.is_none_or(|(_, by)| repeats(by, period))
        });
        found.next().unwrap_or(lanes)
    }

    /// Returns the form of lane 0; `None` if it has too many terms.
    pub(super) fn first(&self) -> Option<Linear> {
        let known = Linear::constant(self.known[0]);
        let first = self.base.as_ref()?.plus(&known, 1)?;
        match &self.scaled {
            Some((value, by)) => first.plus(&Linear::of(*value), by[0]),
            None => Some(first),
        }
    }

    /// Returns `self + sign * other`; `None` if the sum is no pattern.
    fn plus(&self, other: &Pattern, sign: i64) -> Option<Pattern> {
        let sum = |a: &[i64], b: &[i64]| -> Numbers {
            let pairs = a.iter().zip(b);
            pairs
                .map(|(a, b)| a.wrapping_add(b.wrapping_mul(sign)))
                .collect()
        };
        let scaled = match (&self.scaled, &other.scaled) {
            (None, None) => None,
            (Some(scaled), None) => Some(scaled.clone()),
            (None, Some((value, by))) => {
                let none = Numbers::from_elem(0, by.len());
                Some((*value, sum(&none, by)))
            }
            (Some((a, first)), Some((b, second))) if a == b => Some((*a, sum(first, second))),
            _ => return None,
        };
        let bases = self.base.as_ref().zip(other.base.as_ref());
        Some(Pattern {
            base: bases.and_then(|(base, other)| base.plus(other, sign)),
            known: sum(&self.known, &other.known),
            scaled,
            steps: self.steps.max(other.steps),
        })
    }

    /// Returns `by * self`.
    fn times(&self, by: i64) -> Pattern {
        let product = |numbers: &Numbers| numbers.iter().map(|n| n.wrapping_mul(by)).collect();
        Pattern {
            base: self.base.as_ref().map(|base| base.times(by)),
            known: product(&self.known),
            scaled: self
                .scaled
                .as_ref()
                .map(|(value, numbers)| (*value, product(numbers))),
            steps: self.steps,
        }
    }

    /// Returns `value * self`, where `value` is a scalar; `None` if the lanes are not known numbers.
    fn times_scalar(&self, value: Value) -> Option<Pattern> {
        let base = self.base.as_ref().filter(|base| base.terms.is_empty())?;
        if self.scaled.is_some() {
            return None;
        }
        let constant = base.constant;
        let numbers: Numbers = self
            .known
            .iter()
            .map(|n| n.wrapping_add(constant))
            .collect();
        let base = Linear::of(value).times(numbers[0]);
        // Equal lanes are part of the base.
        let differs = numbers.iter().any(|&n| n != numbers[0]);
        let mut result = Pattern {
            steps: self.steps,
            ..Pattern::uniform(base, numbers.len())
        };
        if differs {
            result.base = Some(Linear::default());
            result.scaled = Some((value, numbers));
        }
        Some(result)
    }
}

/// The patterns of the vectors of a function, which are found on demand.
#[derive(Default)]
pub(super) struct Patterns {
    lanes: FxHashMap<Value, Option<Lanes>>,
    patterns: FxHashMap<Value, Option<Pattern>>,
}

impl Patterns {
    /// Returns the pattern of a vector of `b64`; `None` if it has none.
    pub(super) fn of(
        &mut self,
        (function, forms): (&Function, &Forms),
        value: Value,
    ) -> Option<Pattern> {
        let lanes = function.ty(value).lanes() as usize;
        self.find((function, forms), value, (lanes, DEEPEST))
    }

    fn find(
        &mut self,
        (function, forms): (&Function, &Forms),
        value: Value,
        (lanes, depth): (usize, u32),
    ) -> Option<Pattern> {
        let ty = function.ty(value);
        if ty == Type::B64 {
            return Some(Pattern::uniform(forms.scalar(value), lanes));
        }
        if ty.kind() != Kind::B64 || depth == 0 {
            return None;
        }
        if let Some(found) = self.patterns.get(&value) {
            return found.clone();
        }
        let found = match self.known(function, value, depth) {
            Some(known) => Some(Pattern {
                known: known.iter().map(|&bits| bits as i64).collect(),
                ..Pattern::uniform(Linear::default(), lanes)
            }),
            None => {
                let found = self.computed((function, forms), value, (lanes, depth - 1));
                let longer = found.map(|pattern| Pattern {
                    steps: pattern.steps + 1,
                    ..pattern
                });
                longer.filter(|pattern| pattern.steps <= DEEPEST)
            }
        };
        self.patterns.insert(value, found.clone());
        found
    }

    /// Returns the pattern of the result of an operation.
    fn computed(
        &mut self,
        (function, forms): (&Function, &Forms),
        value: Value,
        (lanes, depth): (usize, u32),
    ) -> Option<Pattern> {
        let inst = function.def_inst(value)?;
        let data = &function.insts[inst];
        let args = function.args(inst);
        let desc = match (data.op, data.data) {
            (Op::Splat, _) => return Some(Pattern::uniform(forms.scalar(args[0]), lanes)),
            (Op::Affine, number) => {
                let stride = signed_number(Type::B64, &number);
                let numbers = (0..lanes as i64).map(|n| n.wrapping_mul(stride));
                return Some(Pattern {
                    known: numbers.collect(),
                    ..Pattern::uniform(forms.scalar(args[0]), lanes)
                });
            }
            (Op::Map, Data::Lane(desc)) if is_whole_integer(&desc, Type::B64) => desc,
            _ => return None,
        };
        let &[a, b] = args else {
            return None;
        };
        let mut of = |value: Value| self.find((function, forms), value, (lanes, depth));
        match (desc.opcode, function.constant(b)) {
            (Opcode::Add, _) => of(a)?.plus(&of(b)?, 1),
            (Opcode::Sub, _) => of(a)?.plus(&of(b)?, -1),
            (opcode @ (Opcode::Mul | Opcode::Shl), Some(by)) => {
                Some(of(a)?.times(factor(opcode, by)?))
            }
            (Opcode::Mul, None) => match (scalar_of(function, a), scalar_of(function, b)) {
                (None, Some(scalar)) => of(a)?.times_scalar(scalar),
                (Some(scalar), None) => of(b)?.times_scalar(scalar),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the lanes of a value if they are known.
    pub(super) fn known(&mut self, function: &Function, value: Value, depth: u32) -> Option<Lanes> {
        if let Some(lanes) = constants::lanes(function, value) {
            return Some(lanes);
        }
        let inst = function.def_inst(value)?;
        let data = function.insts[inst];
        let (Op::Map, Data::Lane(desc)) = (data.op, data.data) else {
            return None;
        };
        let depth = depth.checked_sub(1)?;
        if let Some(found) = self.lanes.get(&value) {
            return found.clone();
        }
        let args: Option<SmallVec<[Lanes; 4]>> = function
            .args(inst)
            .iter()
            .map(|&arg| self.known(function, arg, depth))
            .collect();
        let found = match (args, function.results(inst)) {
            (Some(args), [_]) => {
                let mut results = meaning::map(&desc, lanes_of(data.ty), &args, 1);
                results.pop()
            }
            _ => None,
        };
        self.lanes.insert(value, found.clone());
        found
    }
}

/// Returns the scalar of type `b64` whose value all lanes have; `None` if there is none.
fn scalar_of(function: &Function, value: Value) -> Option<Value> {
    if function.ty(value) == Type::B64 {
        return Some(value);
    }
    let inst = function.def_inst(value)?;
    (function.insts[inst].op == Op::Splat).then(|| function.args(inst)[0])
}

/// Returns the difference of adjacent numbers, if it is the same everywhere.
pub(super) fn difference(numbers: &[i64]) -> Option<i64> {
    let &[first, second, ..] = numbers else {
        return Some(0);
    };
    let step = second.wrapping_sub(first);
    let mut pairs = numbers.windows(2);
    let is_affine = pairs.all(|pair| pair[1].wrapping_sub(pair[0]) == step);
    is_affine.then_some(step)
}
