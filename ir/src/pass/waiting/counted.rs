//! Finds loops that end whatever other threads write.
//!
//! A loop is counted if each iteration passes an exit test that compares two values: one that changes by the same
//! step in every iteration, and one that does not change. The test may be at any place that all iterations pass,
//! and may be one of several exits. It may also be one of several conditions that must all hold for the loop to
//! continue.

use std::cell::Cell;

use rustc_hash::FxHashSet;

use super::Loop;
use crate::analysis::{Cfg, Dominators};
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::{Function, ValueDef};
use margay_ops::mods::BoolOp;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

/// Returns whether an exit that every iteration passes compares a value that changes by a constant or invariant
/// step in each iteration with a value that does not change.
pub(super) fn is_counted(
    function: &Function,
    cfg: &Cfg,
    dominators: &Dominators,
    homes: &SecondaryMap<Inst, Option<Block>>,
    one: &Loop,
) -> bool {
    let natural = |&latch: &Block| dominators.dominates(cfg, one.header, latch);
    if !one.latches.iter().all(natural) {
        return false;
    }
    let test = Test {
        function,
        cfg,
        homes,
        header: one.header,
        body: &one.body,
        steps: Cell::new(MOST_STEPS),
    };
    one.body.iter().any(|&block| {
        let every_turn = |&latch: &Block| dominators.dominates(cfg, block, latch);
        one.latches.iter().all(every_turn) && test.ends(block)
    })
}

/// Most levels of nested conditions and block parameters that are followed.
const DEPTH: u32 = 4;

/// Most values that are examined for a loop. A loop with more is not proved to be counted.
const MOST_STEPS: u32 = 100_000;

struct Test<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    homes: &'a SecondaryMap<Inst, Option<Block>>,
    header: Block,
    body: &'a FxHashSet<Block>,
    /// How many more values may be examined.
    steps: Cell<u32>,
}

impl Test<'_> {
    /// Returns whether a block ends with an exit test of a counted loop.
    fn ends(&self, block: Block) -> bool {
        let dfg = &self.function.dfg;
        let Some(inst) = self.function.layout.terminator(block) else {
            return false;
        };
        let [then, other] = dfg.targets(inst) else {
            return false;
        };
        if dfg.insts[inst].opcode != Opcode::Brif {
            return false;
        }
        let leaves = [then, other].map(|call| !self.body.contains(&call.block));
        let condition = dfg.args(inst)[0];
        match leaves {
            [true, false] => self.bounds(condition, true, DEPTH),
            [false, true] => self.bounds(condition, false, DEPTH),
            _ => false,
        }
    }

    /// Returns whether a condition certainly has the result `value` in some iteration.
    fn bounds(&self, condition: Value, value: bool, depth: u32) -> bool {
        let dfg = &self.function.dfg;
        let Some(inst) = dfg.def_inst(condition).filter(|_| depth > 0) else {
            return false;
        };
        let data = &dfg.insts[inst];
        let deeper = |v: Value, value| self.bounds(v, value, depth - 1);
        match (data.opcode, dfg.args(inst)) {
            // The comparison is accepted for both results.
            (Opcode::Setp, &[a, b]) => self.compares(a, b),
            // If the opposite result requires both conditions, a test of one of them is enough.
            (Opcode::Setp, &[a, b, c]) => {
                let one_is_enough = match data.mods.bool_op() {
                    BoolOp::And => !value,
                    BoolOp::Or => value,
                    _ => false,
                };
                one_is_enough && (self.compares(a, b) || deeper(c, value))
            }
            (Opcode::And, &[a, b]) if data.ty == OpType::Pred && !value => {
                deeper(a, value) || deeper(b, value)
            }
            (Opcode::Or, &[a, b]) if data.ty == OpType::Pred && value => {
                deeper(a, value) || deeper(b, value)
            }
            (Opcode::Not, &[a]) if data.ty == OpType::Pred => deeper(a, !value),
            _ => false,
        }
    }

    fn compares(&self, a: Value, b: Value) -> bool {
        let fixed = |v: Value| self.is_invariant(v);
        self.steps(a) && fixed(b) || self.steps(b) && fixed(a)
    }

    fn is_invariant(&self, value: Value) -> bool {
        let function = self.function;
        match function.dfg.values[value].def {
            ValueDef::Param(block, _) => !self.body.contains(&block),
            ValueDef::Result(inst, _) => {
                let inside = |block: Block| self.body.contains(&block);
                function.dfg.insts[inst].opcode == Opcode::Const
                    || !self.homes[inst].is_some_and(inside)
            }
            _ => false,
        }
    }

    /// Returns whether a value is a parameter of the header that changes by the same step in each iteration. The
    /// value may also be this parameter plus a step, or either of these in a wider type.
    fn steps(&self, value: Value) -> bool {
        let dfg = &self.function.dfg;
        let of_header = |value: Value| match dfg.values[value].def {
            ValueDef::Param(block, index) if block == self.header => Some((value, index)),
            _ => None,
        };
        let value = self.before_widening(value);
        let stepped = || dfg.def_inst(value).and_then(|inst| self.step_of(inst));
        let param = of_header(value).or_else(|| of_header(stepped()?.0));
        let Some((param, index)) = param else {
            return false;
        };
        let mut known = None;
        let next = |value: Value| self.is_next(value, param, &mut known, DEPTH);
        self.passed(self.header, index).all(next)
    }

    /// Returns the values that blocks of the body pass to a parameter.
    fn passed(&self, block: Block, index: u16) -> impl Iterator<Item = Value> {
        let preds = self.cfg.preds(block).iter();
        let inside = preds.filter(|pred| self.body.contains(pred));
        inside
            .flat_map(|&pred| self.function.successors(pred))
            .filter(move |call| call.block == block)
            .map(move |call| call.args[usize::from(index)])
    }

    /// Returns whether a value is `param` plus the known step, on all paths that lead to it. The first step that is
    /// found becomes the known step.
    fn is_next(&self, value: Value, param: Value, known: &mut Option<Step>, depth: u32) -> bool {
        let Some(left) = self.steps.get().checked_sub(1) else {
            return false;
        };
        self.steps.set(left);
        match self.function.dfg.values[value].def {
            ValueDef::Result(inst, _) => match self.step_of(inst) {
                Some((base, step)) if base == param => *known.get_or_insert(step) == step,
                _ => false,
            },
            ValueDef::Param(block, index)
                if depth > 0 && block != self.header && self.body.contains(&block) =>
            {
                let mut passed = self.passed(block, index);
                passed.all(|value| self.is_next(value, param, known, depth - 1))
            }
            _ => false,
        }
    }

    /// Returns the integer of which a value is a conversion to a wider type; the value itself if it is no such
    /// conversion.
    fn before_widening(&self, value: Value) -> Value {
        let dfg = &self.function.dfg;
        let Some(inst) = dfg.def_inst(value) else {
            return value;
        };
        let data = &dfg.insts[inst];
        let widens = data.opcode == Opcode::Cvt
            && data.ty.is_integer()
            && data.src.is_integer()
            && data.src.bits() < data.ty.bits();
        let arg = dfg.args(inst).first().copied();
        arg.filter(|&arg| widens && dfg.ty(arg).lane_bits() == data.src.bits())
            .unwrap_or(value)
    }

    /// Returns the operand that `inst` changes by an invariant non-zero step, and the step.
    fn step_of(&self, inst: Inst) -> Option<(Value, Step)> {
        let dfg = &self.function.dfg;
        let data = &dfg.insts[inst];
        let step = |by: Value| {
            let usable = self.is_invariant(by) && dfg.constant(by) != Some(0);
            usable.then(|| match dfg.constant(by) {
                Some(bits) => Step::Constant(data.opcode, bits),
                None => Step::Value(data.opcode, by),
            })
        };
        match (data.opcode, dfg.args(inst)) {
            (Opcode::Add, &[a, b]) if data.ty.is_integer() => step(b)
                .map(|by| (a, by))
                .or_else(|| step(a).map(|by| (b, by))),
            (Opcode::Sub, &[a, b]) if data.ty.is_integer() => step(b).map(|by| (a, by)),
            (Opcode::Shr | Opcode::Shl, &[a, b]) => step(b).map(|by| (a, by)),
            _ => None,
        }
    }
}

/// The step by which a value changes, with the op that applies it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Constant(Opcode, u64),
    Value(Opcode, Value),
}
