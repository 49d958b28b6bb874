//! Extents: what a whole CTA decides of the conditions and checks of its slices.
//!
//! A 32-bit value that is a sum of what is the same for the CTA and of multiples of the thread's coordinates is least and
//! greatest in corners of the block. So in front of the loop over slices it is found out once whether a comparison
//! gives the same for all threads of the CTA, and whether an index stays inside of its type; most CTAs decide all guards
//! of a kernel, and its slices then only look at the answer.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use margay_ir::analysis::guarded::Check;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::{Function, payload_sreg};
use margay_ir::mods::{BoolOp, Half};
use margay_ir::ops::Opcode;
use margay_ir::sreg::SpecialReg;
use margay_ir::types::{Kind, OpType};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use super::View;
use super::decide::on_wide;
use crate::abi::NativeContext;
use crate::emit::cta_form::field;
use crate::emit::lane::Lane;
use crate::fast::integer_condition;

/// Sums with more terms than this are not followed.
const MAX_TERMS: usize = 6;
/// Operations that lead to a value, at most.
const MAX_DEPTH: u32 = 12;
/// Comparisons and checks that a kernel's CTAs make beforehand, at most.
const MAX_QUESTIONS: usize = 16;

/// A constant times values that are the same for the CTA.
#[derive(Clone, Debug)]
struct Term {
    times: i64,
    factors: SmallVec<[Value; 2]>,
}

/// A sum of terms, modulo 2^32.
type Terms = SmallVec<[Term; 2]>;

/// What is the same for the CTA, and what each coordinate of the thread is multiplied by.
#[derive(Clone, Debug, Default)]
struct Sum {
    base: Terms,
    along: [Terms; 3],
}

impl Sum {
    fn constant(value: i64) -> Sum {
        Sum {
            base: smallvec![Term {
                times: value,
                factors: SmallVec::new(),
            }],
            ..Sum::default()
        }
    }

    fn is_uniform(&self) -> bool {
        self.along.iter().all(|terms| terms.is_empty())
    }

    fn parts(&self) -> impl Iterator<Item = &Terms> {
        std::iter::once(&self.base).chain(&self.along)
    }

    fn zip(&self, other: &Sum, join: impl Fn(&Terms, &Terms) -> Terms) -> Option<Sum> {
        let sum = Sum {
            base: join(&self.base, &other.base),
            along: std::array::from_fn(|axis| join(&self.along[axis], &other.along[axis])),
        };
        let few = sum.parts().map(|terms| terms.len()).sum::<usize>() <= MAX_TERMS;
        few.then_some(sum)
    }

    fn plus(&self, other: &Sum, sign: i64) -> Option<Sum> {
        self.zip(other, |a, b| {
            let scaled = b.iter().map(|term| Term {
                times: term.times.wrapping_mul(sign),
                factors: term.factors.clone(),
            });
            a.iter().cloned().chain(scaled).collect()
        })
    }

    /// A product; one factor is to be the same for the CTA.
    fn times(&self, other: &Sum) -> Option<Sum> {
        let (sum, factor) = match (self.is_uniform(), other.is_uniform()) {
            (_, true) => (self, &other.base),
            (true, _) => (other, &self.base),
            _ => return None,
        };
        sum.zip(&Sum::default(), |terms, _| {
            let products = terms.iter().flat_map(|a| {
                factor.iter().map(|b| Term {
                    times: a.times.wrapping_mul(b.times),
                    factors: a.factors.iter().chain(&b.factors).copied().collect(),
                })
            });
            products.collect()
        })
    }
}

/// What is known of a condition before the slices run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<T> {
    /// Whether it holds for all threads of the CTA.
    pub(crate) all: Option<T>,
    /// Whether it holds for none.
    pub(crate) none: Option<T>,
}

const NOTHING: Answer<ir::Value> = Answer {
    all: None,
    none: None,
};

/// The questions that a kernel's CTAs answer beforehand.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    conditions: Vec<Value>,
    guards: Vec<(Inst, Value, bool)>,
    answers: FxHashMap<Value, Answer<Variable>>,
    stays: FxHashMap<Inst, Variable>,
}

/// What the questions are asked of.
#[derive(Clone, Copy)]
struct Asked<'a> {
    function: &'a Function,
    /// Values that are computed in front.
    known: &'a FxHashSet<Value>,
}

impl Asked<'_> {
    fn sum(self, value: Value, depth: u32) -> Option<Sum> {
        let dfg = &self.function.dfg;
        if dfg.ty(value).kind() != Kind::B32 || depth == 0 {
            return None;
        }
        if let Some(bits) = dfg.constant(value) {
            return Some(Sum::constant(i64::from(bits as u32 as i32)));
        }
        if self.known.contains(&value) {
            let term = Term {
                times: 1,
                factors: smallvec![value],
            };
            return Some(Sum {
                base: smallvec![term],
                ..Sum::default()
            });
        }
        let inst = dfg.def_inst(value)?;
        let (data, args) = (&dfg.insts[inst], dfg.args(inst));
        let axis = |axis: usize| {
            let mut sum = Sum::default();
            sum.along[axis].push(Term {
                times: 1,
                factors: SmallVec::new(),
            });
            sum
        };
        if data.opcode == Opcode::SReg {
            return match payload_sreg(data.payload())? {
                SpecialReg::TidX => Some(axis(0)),
                SpecialReg::TidY => Some(axis(1)),
                SpecialReg::TidZ => Some(axis(2)),
                _ => None,
            };
        }
        let plain = data.ty.is_integer()
            && data.ty.bits() == 32
            && data.ty.elements() == 1
            && !data.mods.sat();
        let low = !matches!(data.mods.half(), Half::Hi | Half::Wide);
        let of = |index: usize| self.sum(args[index], depth - 1);
        match (data.opcode, args.len()) {
            (Opcode::Add, 2) if plain => of(0)?.plus(&of(1)?, 1),
            (Opcode::Sub, 2) if plain => of(0)?.plus(&of(1)?, -1),
            (Opcode::Mul, 2) if plain && low => of(0)?.times(&of(1)?),
            (Opcode::Mad, 3) if plain && low => of(0)?.times(&of(1)?)?.plus(&of(2)?, 1),
            (Opcode::Shl, 2) => match dfg.constant(args[1]) {
                Some(count) if count < 31 => of(0)?.times(&Sum::constant(1 << count)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The comparison of 32-bit integers that a condition is: its operands, whether they are signed, and the order.
    fn compared(self, condition: Value) -> Option<(Sum, Sum, bool, IntCC)> {
        let dfg = &self.function.dfg;
        let inst = dfg.def_inst(condition)?;
        let data = &dfg.insts[inst];
        let ty = match data.src {
            OpType::None => data.ty,
            src => src,
        };
        let (&[_], &[a, b]) = (dfg.results(inst), dfg.args(inst)) else {
            return None;
        };
        let plain = data.opcode == Opcode::Setp && data.mods.bool_op() == BoolOp::None;
        if !plain || !ty.is_integer() || ty.bits() != 32 || ty.elements() != 1 {
            return None;
        }
        let order = integer_condition(data.mods.cmp(), ty.is_signed())?;
        let (a, b) = (self.sum(a, MAX_DEPTH)?, self.sum(b, MAX_DEPTH)?);
        Some((a, b, ty.is_signed(), order))
    }

    /// Operands of a condition made of others.
    fn parts(self, condition: Value) -> Option<(Opcode, &'static [usize])> {
        let dfg = &self.function.dfg;
        let inst = dfg.def_inst(condition)?;
        if dfg.ty(condition).kind() != Kind::Pred {
            return None;
        }
        match dfg.insts[inst].opcode {
            Opcode::Not => Some((Opcode::Not, &[0])),
            opcode @ (Opcode::And | Opcode::Or) => Some((opcode, &[0, 1])),
            _ => None,
        }
    }

    /// Number of comparisons that a condition asks for; `None` if one of its parts cannot be told.
    fn questions(self, condition: Value, depth: u32) -> Option<usize> {
        if self.known.contains(&condition) {
            return Some(0);
        }
        if self.compared(condition).is_some() {
            return Some(1);
        }
        let (_, parts) = self.parts(condition)?;
        let inst = self.function.dfg.def_inst(condition)?;
        let args = self.function.dfg.args(inst);
        let depth = depth.checked_sub(1)?;
        parts
            .iter()
            .map(|&part| self.questions(args[part], depth))
            .sum()
    }
}

impl Extents {
    /// Finds what can be asked; `known` are the values that are computed in front.
    pub(crate) fn new(function: &Function, view: View<'_>, known: &FxHashSet<Value>) -> Extents {
        let asked = Asked { function, known };
        let mut extents = Extents::default();
        let mut left = MAX_QUESTIONS;
        for &block in &view.linear.order {
            for &inst in function.insts(block) {
                if function.dfg.insts[inst].opcode == Opcode::Brif {
                    let condition = function.dfg.args(inst)[0];
                    let varies =
                        view.uniformity.class_in(function, condition, block) == Class::Varying;
                    let questions = varies
                        .then(|| asked.questions(condition, MAX_DEPTH))
                        .flatten();
                    if let Some(questions) = questions
                        && questions <= left
                    {
                        left -= questions;
                        extents.conditions.push(condition);
                    }
                } else if let Some(Check::NoWrap { value, signed, .. }) = view.guarded.check(inst)
                    && left > 0
                    && asked.sum(value, MAX_DEPTH).is_some()
                {
                    left -= 1;
                    extents.guards.push((inst, value, signed));
                }
            }
        }
        extents
    }

    /// What is known of a condition.
    pub(crate) fn answer(&self, condition: Value) -> Option<Answer<Variable>> {
        self.answers.get(&condition).copied()
    }

    /// Whether the check at an instruction holds for all threads of the CTA, as far as that was asked.
    pub(crate) fn stays(&self, inst: Inst) -> Option<Variable> {
        self.stays.get(&inst).copied()
    }

    /// Asks, for the CTA whose values the lane in front of the slices has.
    pub(crate) fn ask(&mut self, lane: &mut Lane<'_, '_>, known: &FxHashSet<Value>) {
        let asked = Asked {
            function: lane.function,
            known,
        };
        let mut corners = Corners {
            reach: None,
            found: FxHashMap::default(),
        };
        for &condition in &self.conditions {
            let answer = corners.answer(lane, asked, condition);
            let mut kept = |value: Option<ir::Value>| {
                value.map(|value| {
                    let var = lane.b.declare_var(types::I8);
                    lane.b.def_var(var, value);
                    var
                })
            };
            let answer = Answer {
                all: kept(answer.all),
                none: kept(answer.none),
            };
            self.answers.insert(condition, answer);
        }
        for &(inst, value, signed) in &self.guards {
            let Some(sum) = asked.sum(value, MAX_DEPTH) else {
                continue;
            };
            let range = corners.range(lane, &sum, Some(value), signed);
            let var = lane.b.declare_var(types::I8);
            lane.b.def_var(var, range.fits);
            self.stays.insert(inst, var);
        }
    }
}

/// The least and the greatest value in a CTA, as 64-bit numbers, and whether all are ones of the type.
#[derive(Clone, Copy)]
struct Range {
    low: ir::Value,
    high: ir::Value,
    fits: ir::Value,
}

/// Code that evaluates sums in the corners of the block.
struct Corners {
    /// The greatest coordinates.
    reach: Option<[ir::Value; 3]>,
    found: FxHashMap<(Value, bool), Range>,
}

fn number(b: &mut FunctionBuilder<'_>, word: ir::Value, signed: bool) -> ir::Value {
    if signed {
        b.ins().sextend(types::I64, word)
    } else {
        b.ins().uextend(types::I64, word)
    }
}

impl Corners {
    fn reach(&mut self, lane: &mut Lane<'_, '_>) -> [ir::Value; 3] {
        let ctx = lane.fixed.ctx;
        let b = &mut *lane.b;
        *self.reach.get_or_insert_with(|| {
            std::array::from_fn(|axis| {
                let length = field(b, ctx, offset_of!(NativeContext, ntid) + 4 * axis);
                let last = b.ins().iadd_imm_s(length, -1);
                b.ins().uextend(types::I64, last)
            })
        })
    }

    /// A sum of terms as a word.
    fn word(lane: &mut Lane<'_, '_>, terms: &Terms) -> ir::Value {
        let mut sum = None;
        for term in terms {
            let mut product = None;
            for &factor in &term.factors {
                let factor = lane.get(factor);
                product = Some(match product {
                    None => factor,
                    Some(so_far) => lane.b.ins().imul(so_far, factor),
                });
            }
            let times = i64::from(term.times as i32);
            let product = match product {
                None => lane.b.ins().iconst(types::I32, times),
                Some(product) if times == 1 => product,
                Some(product) => lane.b.ins().imul_imm_s(product, times),
            };
            sum = Some(match sum {
                None => product,
                Some(so_far) => lane.b.ins().iadd(so_far, product),
            });
        }
        sum.unwrap_or_else(|| lane.b.ins().iconst(types::I32, 0))
    }

    fn range(
        &mut self,
        lane: &mut Lane<'_, '_>,
        sum: &Sum,
        of: Option<Value>,
        signed: bool,
    ) -> Range {
        if let Some(value) = of
            && let Some(&known) = self.found.get(&(value, signed))
        {
            return known;
        }
        let base = Self::word(lane, &sum.base);
        let base = number(lane.b, base, signed);
        let (mut low, mut high) = (base, base);
        for (axis, terms) in sum.along.iter().enumerate() {
            if terms.is_empty() {
                continue;
            }
            let reach = self.reach(lane)[axis];
            let step = Self::word(lane, terms);
            let b = &mut *lane.b;
            let step = b.ins().sextend(types::I64, step);
            let way = b.ins().imul(step, reach);
            let zero = b.ins().iconst(types::I64, 0);
            let down = b.ins().smin(way, zero);
            let up = b.ins().smax(way, zero);
            low = b.ins().iadd(low, down);
            high = b.ins().iadd(high, up);
        }
        let b = &mut *lane.b;
        let inside = |b: &mut FunctionBuilder<'_>, end: ir::Value| {
            let word = b.ins().ireduce(types::I32, end);
            let again = number(b, word, signed);
            b.ins().icmp(IntCC::Equal, again, end)
        };
        let (first, last) = (inside(b, low), inside(b, high));
        let range = Range {
            low,
            high,
            fits: b.ins().band(first, last),
        };
        if let Some(value) = of {
            self.found.insert((value, signed), range);
        }
        range
    }

    fn answer(
        &mut self,
        lane: &mut Lane<'_, '_>,
        asked: Asked<'_>,
        condition: Value,
    ) -> Answer<ir::Value> {
        if asked.known.contains(&condition) {
            let all = lane.get(condition);
            return Answer {
                all: Some(all),
                none: Some(lane.b.ins().bxor_imm_u(all, 1)),
            };
        }
        let dfg = &asked.function.dfg;
        let Some(inst) = dfg.def_inst(condition) else {
            return NOTHING;
        };
        if let Some((a, b, signed, order)) = asked.compared(condition) {
            let args = dfg.args(inst);
            let a = self.range(lane, &a, Some(args[0]), signed);
            let b = self.range(lane, &b, Some(args[1]), signed);
            return compare(lane.b, order, a, b);
        }
        let Some((opcode, parts)) = asked.parts(condition) else {
            return NOTHING;
        };
        let args = dfg.args(inst);
        let parts: SmallVec<[Answer<ir::Value>; 2]> = parts
            .iter()
            .map(|&part| self.answer(lane, asked, args[part]))
            .collect();
        let b = &mut *lane.b;
        let mut both = |a: Option<ir::Value>, c: Option<ir::Value>| Some(b.ins().band(a?, c?));
        match (opcode, parts.as_slice()) {
            (Opcode::Not, [a]) => Answer {
                all: a.none,
                none: a.all,
            },
            (Opcode::And, [a, c]) => {
                let all = both(a.all, c.all);
                Answer {
                    all,
                    none: either(b, a.none, c.none),
                }
            }
            (_, [a, c]) => {
                let none = both(a.none, c.none);
                Answer {
                    all: either(b, a.all, c.all),
                    none,
                }
            }
            _ => NOTHING,
        }
    }
}

fn either(
    b: &mut FunctionBuilder<'_>,
    x: Option<ir::Value>,
    y: Option<ir::Value>,
) -> Option<ir::Value> {
    match (x, y) {
        (Some(x), Some(y)) => Some(b.ins().bor(x, y)),
        (x, y) => x.or(y),
    }
}

/// What two ranges tell of a comparison.
fn compare(b: &mut FunctionBuilder<'_>, order: IntCC, x: Range, y: Range) -> Answer<ir::Value> {
    let order = on_wide(order);
    let fits = b.ins().band(x.fits, y.fits);
    let mut when = |order: IntCC, x: ir::Value, y: ir::Value| {
        let holds = b.ins().icmp(order, x, y);
        b.ins().band(holds, fits)
    };
    use IntCC::{
        Equal, NotEqual, SignedGreaterThan, SignedGreaterThanOrEqual, SignedLessThan,
        SignedLessThanOrEqual,
    };
    match order {
        Equal | NotEqual => {
            let below = when(SignedLessThan, x.high, y.low);
            let above = when(SignedGreaterThan, x.low, y.high);
            let apart = Some(b.ins().bor(below, above));
            match order {
                Equal => Answer {
                    all: None,
                    none: apart,
                },
                _ => Answer {
                    all: apart,
                    none: None,
                },
            }
        }
        SignedLessThan | SignedLessThanOrEqual => Answer {
            all: Some(when(order, x.high, y.low)),
            none: Some(when(order.complement(), x.low, y.high)),
        },
        SignedGreaterThan | SignedGreaterThanOrEqual => Answer {
            all: Some(when(order, x.low, y.high)),
            none: Some(when(order.complement(), x.high, y.low)),
        },
        _ => NOTHING,
    }
}
