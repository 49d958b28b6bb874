//! f32 sums, products and fused products, rounded towards zero, down or up, on whole vectors.
//!
//! [`crate::emit::fast`] contains the scalar lowering, which explains the method: the exact result is a sum of two f64
//! values, and the f32 nearest to the first of them is either the result of directed rounding or the adjacent f32 on
//! the other side of the exact result. A vector of four f32 lanes becomes two vectors of f64 lanes.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ops::mods::Rounding;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

use super::ops::{Tried, bail};
use super::{Lanes, Slice};

/// Four lanes as f64, in two vectors.
type Wide = [ir::Value; 2];

/// An exact real number for each lane: the sum of an f64 and the rounding error of this f64.
struct Exact {
    sum: Wide,
    rest: Wide,
}

/// Returns whether `data` is an f32 operation with directed rounding: towards zero, down or up.
pub(super) fn is_directed(data: &InstData) -> bool {
    let rounding = data.mods.rounding();
    let directed = matches!(rounding, Rounding::Rz | Rounding::Rm | Rounding::Rp);
    let known = matches!(
        data.opcode,
        Opcode::Add | Opcode::Sub | Opcode::Mul | Opcode::Fma
    );
    let plain = data.ty == OpType::F32 && data.src == OpType::None && !data.mods.relu();
    directed && known && plain
}

impl Slice<'_, '_> {
    /// Emits an operation for which [`is_directed`] is true.
    pub(super) fn directed(&mut self, inst: Inst, data: &InstData) -> Tried {
        let how = (types::F32X4, data.mods.ftz());
        let mut operands: Vec<Lanes> = Vec::new();
        for index in 0..self.lane.function.dfg.args(inst).len() {
            operands.push(bail!(self.float_operand(inst, index, how)?));
        }
        let rounding = data.mods.rounding();
        let lanes: Lanes = (0..operands[0].len())
            .map(|i| {
                let mut wide: Vec<Wide> = operands.iter().map(|v| self.wide(v[i])).collect();
                let exact = match data.opcode {
                    Opcode::Mul | Opcode::Fma => {
                        let product = self.wide2(wide[0], wide[1], |b, x, y| b.ins().fmul(x, y));
                        match wide.get(2) {
                            Some(&c) => self.exact_sum(product, c, rounding),
                            None => {
                                let zero = self.constant(types::F64X2, 0);
                                Exact {
                                    sum: product,
                                    rest: [zero; 2],
                                }
                            }
                        }
                    }
                    opcode => {
                        if opcode == Opcode::Sub {
                            wide[1] = wide[1].map(|x| self.lane.b.ins().fneg(x));
                        }
                        self.exact_sum(wide[0], wide[1], rounding)
                    }
                };
                self.rounded(&exact, rounding)
            })
            .collect();
        self.finish(inst, data, types::F32X4, lanes)
    }

    fn wide2(
        &mut self,
        a: Wide,
        b: Wide,
        op: impl Fn(&mut cranelift_frontend::FunctionBuilder<'_>, ir::Value, ir::Value) -> ir::Value,
    ) -> Wide {
        [op(self.lane.b, a[0], b[0]), op(self.lane.b, a[1], b[1])]
    }

    fn wide(&mut self, four: ir::Value) -> Wide {
        let low = self.lane.b.ins().fvpromote_low(four);
        let upper = self.joined(four, four, [8, 12, 8, 12], types::F32X4);
        [low, self.lane.b.ins().fvpromote_low(upper)]
    }

    /// Emits the exact computation of `a + b`.
    fn exact_sum(&mut self, a: Wide, b: Wide, rounding: Rounding) -> Exact {
        let sum = self.wide2(a, b, |b, x, y| b.ins().fadd(x, y));
        let of_b = self.wide2(sum, a, |b, x, y| b.ins().fsub(x, y));
        let of_a = self.wide2(sum, of_b, |b, x, y| b.ins().fsub(x, y));
        let rest_a = self.wide2(a, of_a, |b, x, y| b.ins().fsub(x, y));
        let rest_b = self.wide2(b, of_b, |b, x, y| b.ins().fsub(x, y));
        let rest = self.wide2(rest_a, rest_b, |b, x, y| b.ins().fadd(x, y));
        if rounding != Rounding::Rm {
            return Exact { sum, rest };
        }
        // With rounding down, a zero sum of operands with opposite signs is -0.
        let sign = self.constant(types::F64X2, 1 << 63);
        let none = self.constant(types::F64X2, 0);
        let either = self.wide2(a, b, |b, x, y| b.ins().bor(x, y));
        let zeros = either.map(|x| self.lane.b.ins().band(x, sign));
        let vanishes = sum.map(|x| self.lane.b.ins().fcmp(FloatCC::Equal, x, none));
        let chosen = |s: &mut Self, i: usize| {
            let mask = s.cast_one(vanishes[i], types::F64X2);
            s.lane.b.ins().bitselect(mask, zeros[i], sum[i])
        };
        let sum = [chosen(self, 0), chosen(self, 1)];
        Exact { sum, rest }
    }

    fn rounded(&mut self, exact: &Exact, rounding: Rounding) -> ir::Value {
        let narrow = exact.sum.map(|x| self.lane.b.ins().fvdemote(x));
        let back = narrow.map(|x| self.lane.b.ins().fvpromote_low(x));
        let nearest = self.joined(narrow[0], narrow[1], [0, 4, 16, 20], types::F32X4);
        let bits = self.cast_one(nearest, types::I32X4);
        let bits = match rounding {
            Rounding::Rm => self.moved_if_beyond(bits, back, exact, false),
            Rounding::Rp => self.moved_if_beyond(bits, back, exact, true),
            _ => {
                let down = self.moved_if_beyond(bits, back, exact, false);
                let up = self.moved_if_beyond(bits, back, exact, true);
                let zero = self.constant(types::F64X2, 0);
                let positive = exact
                    .sum
                    .map(|x| self.lane.b.ins().fcmp(FloatCC::GreaterThan, x, zero));
                let positive = self.low_words(positive[0], positive[1]);
                self.lane.b.ins().bitselect(positive, down, up)
            }
        };
        self.cast_one(bits, types::F32X4)
    }

    /// Emits code that replaces the nearest f32 by the next f32 in the rounding direction, if the
    /// nearest f32 is on the other side of the exact value.
    fn moved_if_beyond(
        &mut self,
        bits: ir::Value,
        back: Wide,
        exact: &Exact,
        up: bool,
    ) -> ir::Value {
        let side = if up {
            FloatCC::LessThan
        } else {
            FloatCC::GreaterThan
        };
        let zero = self.constant(types::F64X2, 0);
        let beyond = |s: &mut Self, i: usize| {
            let b = &mut *s.lane.b;
            let past = b.ins().fcmp(side, back[i], exact.sum[i]);
            let level = b.ins().fcmp(FloatCC::Equal, back[i], exact.sum[i]);
            let lacking = b.ins().fcmp(side, zero, exact.rest[i]);
            let just_past = b.ins().band(level, lacking);
            b.ins().bor(past, just_past)
        };
        let masks = [beyond(self, 0), beyond(self, 1)];
        let mask = self.low_words(masks[0], masks[1]);
        // The step upwards increases the magnitude of a positive number and decreases that of a negative number.
        let one = self.constant(types::I32X4, 1);
        let none = self.constant(types::I32X4, 0);
        let least = self.constant(types::I32X4, if up { 1 } else { 0x8000_0001 });
        let shift = self.lane.int(types::I32, 31);
        let b = &mut *self.lane.b;
        let negative = b.ins().sshr(bits, shift);
        let delta = b.ins().bor(negative, one);
        let moved = if up {
            b.ins().iadd(bits, delta)
        } else {
            b.ins().isub(bits, delta)
        };
        // From +0 and from -0, the step upwards leads to the smallest positive subnormal, and the step downwards to its
        // negation.
        let magnitude = b.ins().iadd(bits, bits);
        let is_zero = b.ins().icmp(IntCC::Equal, magnitude, none);
        let moved = b.ins().bitselect(is_zero, least, moved);
        b.ins().bitselect(mask, moved, bits)
    }
}
