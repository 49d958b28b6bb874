//! Endpoint tests: the results of a comparison for the first and the last lane of a chunk decide a branch for all
//! lanes.
//!
//! If an affine value does not wrap within a chunk, the result of its ordered comparison with a uniform value changes
//! at most once from the first lane to the last. If the comparison gives the same result for the first and the last
//! lane, it gives this result for all lanes. For `==` and `!=`, the test decides only that the uniform value is outside
//! the range from the first to the last lane. If the test decides nothing, the code computes the comparison for each
//! lane.

use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Block, Inst, Value};
use margay_ops::mods::BoolOp;
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType};
use rustc_hash::FxHashMap;

use super::Slice;
use crate::emit::fast::integer_condition;

/// Maximum depth of a condition that an endpoint test decides ([`Slice::decide`] is recursive).
const MAX_DEPTH: u32 = 64;

/// Result of an endpoint test of a condition. If the test decides nothing, both fields are zero.
#[derive(Clone, Copy)]
pub(super) struct Decided {
    /// Nonzero if the condition is proved for all lanes.
    pub(super) all: ir::Value,
    /// Nonzero if the condition is disproved for all lanes.
    pub(super) none: ir::Value,
}

/// An ordered comparison of an affine value with a uniform bound.
struct Ordered {
    value: Value,
    bound: Value,
    stride: i64,
    ty: OpType,
    condition: IntCC,
}

impl Slice<'_, '_> {
    /// Finds the conditions whose lanes are computed only if an endpoint test decides nothing. The only use of such a
    /// condition is by a branch or by another such condition.
    pub(super) fn find_conditions(&mut self) {
        let function = self.lane.function;
        let mut uses: FxHashMap<Value, (u32, Block)> = FxHashMap::default();
        for &block in &self.view.linear.order {
            let mut note = |value: Value, weight: u32| {
                let known = uses.entry(value).or_insert((0, block));
                known.0 += weight;
                known.1 = block;
            };
            for &inst in function.insts(block) {
                let opcode = function.dfg.insts[inst].opcode;
                let waits = matches!(
                    opcode,
                    Opcode::Brif | Opcode::And | Opcode::Or | Opcode::Not
                );
                let counted = self.lane.counters.guard_of(function, inst);
                let is_here = |value| self.view.uniformity.home(value) == Some(block);
                for &arg in function.dfg.args(inst) {
                    // The code that counts a run makes an endpoint test of its guard.
                    let is_tested = counted.is_some_and(|guard| guard == arg && is_here(guard));
                    if !is_tested {
                        note(arg, if waits { 1 } else { 2 });
                    }
                }
                for call in function.dfg.targets(inst) {
                    call.args.iter().for_each(|&arg| note(arg, 2));
                }
                if function.effects(inst).is_sync_point() {
                    let behind = self.lane.behind(inst).unwrap_or_default();
                    behind.iter().for_each(|&value| note(value, 2));
                }
            }
        }
        let decidable = self.decidable();
        let once = uses.iter().filter(|&(value, &(count, block))| {
            count == 1
                && self.view.uniformity.home(*value) == Some(block)
                && self.view.uniformity.class(*value) == Class::Varying
                && decidable.contains_key(value)
        });
        self.conditions = once.map(|(&value, _)| value).collect();
    }

    /// Returns the conditions that an endpoint test may decide, and the depth of each: 1 for a comparison, and 1 more
    /// than the depth of its operands for a combination of conditions.
    fn decidable(&self) -> FxHashMap<Value, u32> {
        let dfg = &self.lane.function.dfg;
        let mut found: FxHashMap<Value, u32> = FxHashMap::default();
        for &block in &self.view.linear.order {
            for &inst in self.lane.function.insts(block) {
                let &[value] = dfg.results(inst) else {
                    continue;
                };
                let depth = match dfg.insts[inst].opcode {
                    Opcode::Setp => self.ordered(inst, block).map(|_| 1),
                    Opcode::And | Opcode::Or | Opcode::Not
                        if dfg.ty(value).kind() == Kind::Pred =>
                    {
                        let args = dfg.args(inst).iter();
                        let args =
                            args.filter(|&&arg| self.view.uniformity.home(arg) == Some(block));
                        let deepest = args.filter_map(|arg| found.get(arg)).max();
                        deepest.map(|depth| depth + 1)
                    }
                    _ => None,
                };
                if let Some(depth) = depth.filter(|&depth| depth <= MAX_DEPTH) {
                    found.insert(value, depth);
                }
            }
        }
        found
    }

    /// Returns the comparison that an instruction makes, if an endpoint test may decide the comparison.
    fn ordered(&self, inst: Inst, block: Block) -> Option<Ordered> {
        let function = self.lane.function;
        let data = &function.dfg.insts[inst];
        let ty = match data.src {
            OpType::None => data.ty,
            src => src,
        };
        let (&[_], &[a, b]) = (function.dfg.results(inst), function.dfg.args(inst)) else {
            return None;
        };
        if data.mods.bool_op() != BoolOp::None || !ty.is_integer() || ty.bits() != 32 {
            return None;
        }
        let condition = integer_condition(data.mods.cmp(), ty.is_signed())?;
        let class = |value| self.view.uniformity.class_in(function, value, block);
        let of = |value, bound, condition| match (class(value), class(bound)) {
            (Class::Affine(stride), bound_class) if bound_class.is_uniform() => Some(Ordered {
                value,
                bound,
                stride,
                ty,
                condition,
            }),
            _ => None,
        };
        of(a, b, condition).or_else(|| of(b, a, condition.swap_args()))
    }

    /// Emits the endpoint test of a condition whose lanes have not been computed.
    pub(super) fn decide(&mut self, condition: Value) -> Option<Decided> {
        if self.is_uniform(condition) {
            let all = self.lane.get(condition);
            let none = self.lane.b.ins().bxor_imm_u(all, 1);
            return Some(Decided { all, none });
        }
        if !self.conditions.contains(&condition) {
            return None;
        }
        let function = self.lane.function;
        let inst = function.dfg.def_inst(condition)?;
        let args = function.dfg.args(inst);
        match function.dfg.insts[inst].opcode {
            Opcode::Setp => {
                let ordered = self.ordered(inst, self.block)?;
                Some(self.ends(&ordered))
            }
            Opcode::Not => {
                let Decided { all, none } = self.decide(args[0])?;
                Some(Decided {
                    all: none,
                    none: all,
                })
            }
            opcode => {
                let (a, b) = (self.decide(args[0])?, self.decide(args[1])?);
                let both = self.lane.b.ins();
                Some(if opcode == Opcode::And {
                    let all = both.band(a.all, b.all);
                    let none = self.lane.b.ins().bor(a.none, b.none);
                    Decided { all, none }
                } else {
                    let all = both.bor(a.all, b.all);
                    let none = self.lane.b.ins().band(a.none, b.none);
                    Decided { all, none }
                })
            }
        }
    }

    fn ends(&mut self, ordered: &Ordered) -> Decided {
        let &Ordered {
            value,
            bound,
            stride,
            ty,
            condition,
        } = ordered;
        let signed = ty.is_signed();
        let (first, last, fits) = self.ends_of(value, stride, signed);
        let bound = self.lane.get(bound);
        let bound = self.as_64_bits(bound, signed);
        let b = &mut *self.lane.b;
        let (all, none) = match condition {
            IntCC::Equal | IntCC::NotEqual => {
                let (low, high) = if stride < 0 {
                    (last, first)
                } else {
                    (first, last)
                };
                let below = b.ins().icmp(IntCC::SignedLessThan, bound, low);
                let above = b.ins().icmp(IntCC::SignedGreaterThan, bound, high);
                let apart = b.ins().bor(below, above);
                let never = b.ins().iconst(types::I8, 0);
                match condition {
                    IntCC::Equal => (never, apart),
                    _ => (apart, never),
                }
            }
            condition => {
                let order = on_wide(condition);
                // If the value increases with the lane, and `<` holds for a lane, then `<` also holds for all lower
                // lanes.
                let falls = matches!(order, IntCC::SignedLessThan | IntCC::SignedLessThanOrEqual);
                let (likely, unlikely) = if falls == (stride > 0) {
                    (first, last)
                } else {
                    (last, first)
                };
                let all = b.ins().icmp(order, unlikely, bound);
                (all, b.ins().icmp(order.complement(), likely, bound))
            }
        };
        Decided {
            all: b.ins().band(all, fits),
            none: b.ins().band(none, fits),
        }
    }
}

/// Converts a comparison of 32-bit integers to the comparison of these integers extended to 64 bits. The result is a
/// signed comparison, because 64-bit integers can represent all signed and unsigned 32-bit integers.
pub(super) fn on_wide(order: IntCC) -> IntCC {
    match order {
        IntCC::UnsignedLessThan => IntCC::SignedLessThan,
        IntCC::UnsignedLessThanOrEqual => IntCC::SignedLessThanOrEqual,
        IntCC::UnsignedGreaterThan => IntCC::SignedGreaterThan,
        IntCC::UnsignedGreaterThanOrEqual => IntCC::SignedGreaterThanOrEqual,
        order => order,
    }
}
