//! Emits code that computes the least and the greatest value of sums at block corners, and that decides comparisons of
//! sums from these values.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, types};
use cranelift_frontend::FunctionBuilder;
use margay_ir::entity::Value;
use margay_ops::ops::Opcode;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::super::decide::on_wide;
use super::Answer;
use super::asked::Asked;
use super::sum::{Sum, Terms};
use crate::abi::NativeContext;
use crate::emit::cta_form::field;
use crate::emit::lane::Lane;

const NOTHING: Answer<ir::Value> = Answer {
    all: None,
    none: None,
};

/// The least and the greatest value of a sum among the threads of a CTA, computed as 64-bit numbers.
#[derive(Clone, Copy)]
pub(super) struct Range {
    low: ir::Value,
    high: ir::Value,
    /// Whether both numbers are representable in the sum's type, `s32` or `u32`.
    pub(super) fits: ir::Value,
}

/// Emits code that evaluates sums at block corners, and reuses values that it has already emitted.
pub(super) struct Corners {
    /// The greatest x, y and z coordinates of the threads of a CTA.
    pub(super) reach: Option<[ir::Value; 3]>,
    pub(super) found: FxHashMap<(Value, bool), Range>,
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

    /// Emits code that computes a sum of terms modulo 2^32.
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

    pub(super) fn range(
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

    pub(super) fn answer(
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

/// Emits code that decides a comparison of two sums from their ranges.
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
