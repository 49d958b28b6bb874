//! Guarded values: affine if a check holds, which is computed beside them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use cranelift_frontend::Variable;
use margay_ir::analysis::guarded::Check;
use margay_ir::entity::{Block, Inst, Value};
use rustc_hash::FxHashMap;

use super::{Lanes, Slice};
use crate::emit::lane::Unsupported;

impl Slice<'_, '_> {
    /// Finds the guarded values that no other block uses.
    pub(super) fn find_lazy(&mut self) {
        let function = self.lane.function;
        let mut home: FxHashMap<Value, Block> = FxHashMap::default();
        for &block in &self.view.linear.order {
            for &inst in function.insts(block) {
                if let &[result] = function.dfg.results(inst)
                    && self.view.guarded.stride(result).is_some()
                {
                    home.insert(result, block);
                }
            }
        }
        self.lazy = home.keys().copied().collect();
        for &block in &self.view.linear.order {
            for &inst in function.insts(block) {
                for arg in function.dfg.args(inst) {
                    if home.get(arg).is_some_and(|&known| known != block) {
                        self.lazy.remove(arg);
                    }
                }
                for call in function.dfg.targets(inst) {
                    for arg in &call.args {
                        self.lazy.remove(arg);
                    }
                }
                if function.effects(inst).is_point() {
                    for value in self.lane.behind(inst).unwrap_or_default() {
                        self.lazy.remove(value);
                    }
                }
            }
        }
    }

    /// Whether a value is guarded where the block being translated uses it.
    pub(super) fn is_guarded(&self, value: Value) -> bool {
        let function = self.lane.function;
        self.view.guarded.stride(value).is_some()
            && !self
                .view
                .uniformity
                .leaves_apart(function, value, self.block)
    }

    pub(super) fn holds_var(&mut self, value: Value) -> Variable {
        match self.holds.get(&value) {
            Some(&var) => var,
            None => {
                let var = self.lane.b.declare_var(types::I8);
                self.holds.insert(value, var);
                var
            }
        }
    }

    /// Whether a value is affine, as far as that has to be checked; `None` if it always is.
    pub(super) fn holds(&mut self, value: Value) -> Option<ir::Value> {
        if !self.is_guarded(value) {
            return None;
        }
        let var = self.holds_var(value);
        Some(self.lane.b.use_var(var))
    }

    /// Computes the first lane and the check of a guarded result.
    pub(super) fn guard(&mut self, inst: Inst, result: Value) -> Result<(), Unsupported> {
        self.lane.operation(inst)?;
        let args = self.lane.function.dfg.args(inst).to_vec();
        let mut holds: Option<ir::Value> = None;
        let mine = self.view.guarded.check(inst);
        let mine = mine.map(|check| self.checked(check));
        for arg in args {
            let other = self.holds(arg);
            holds = match (holds, other) {
                (Some(a), Some(b)) => Some(self.lane.b.ins().band(a, b)),
                (a, b) => a.or(b),
            };
        }
        let holds = match (holds, mine) {
            (Some(a), Some(b)) => self.lane.b.ins().band(a, b),
            (a, b) => match a.or(b) {
                Some(holds) => holds,
                None => self.lane.b.ins().iconst(types::I8, 1),
            },
        };
        let var = self.holds_var(result);
        self.lane.b.def_var(var, holds);
        Ok(())
    }

    /// The first and the last lane of an affine operand of 32 bits, as 64-bit numbers, and whether the
    /// last is one of the operand's type.
    pub(super) fn ends_of(
        &mut self,
        value: Value,
        stride: i64,
        signed: bool,
    ) -> (ir::Value, ir::Value, ir::Value) {
        let first = self.lane.get(value);
        let reach = stride.wrapping_mul(i64::from(self.view.width) - 1);
        let b = &mut *self.lane.b;
        let extend = |b: &mut cranelift_frontend::FunctionBuilder<'_>, word| {
            if signed {
                b.ins().sextend(types::I64, word)
            } else {
                b.ins().uextend(types::I64, word)
            }
        };
        let first = extend(b, first);
        let last = b.ins().iadd_imm_s(first, reach);
        let low = b.ins().ireduce(types::I32, last);
        let again = extend(b, low);
        let fits = b.ins().icmp(IntCC::Equal, again, last);
        (first, last, fits)
    }

    fn checked(&mut self, check: Check) -> ir::Value {
        match check {
            Check::NoWrap {
                value,
                stride,
                signed,
            } => self.ends_of(value, stride, signed).2,
            Check::Chosen {
                value,
                stride,
                signed,
                bound,
                is_min,
            } => {
                let (first, last, fits) = self.ends_of(value, stride, signed);
                let bound = self.lane.get(bound);
                let b = &mut *self.lane.b;
                let bound = if signed {
                    b.ins().sextend(types::I64, bound)
                } else {
                    b.ins().uextend(types::I64, bound)
                };
                let order = if is_min {
                    IntCC::SignedLessThanOrEqual
                } else {
                    IntCC::SignedGreaterThanOrEqual
                };
                let first = b.ins().icmp(order, first, bound);
                let last = b.ins().icmp(order, last, bound);
                let both = b.ins().band(first, last);
                b.ins().band(both, fits)
            }
        }
    }

    /// The lanes of a guarded value or a condition that were not made at its definition.
    pub(super) fn lazy_lanes(&mut self, value: Value) -> Result<Option<Lanes>, Unsupported> {
        let condition = self.conditions.contains(&value);
        if !condition && !self.lazy.contains(&value) {
            return Ok(None);
        }
        let function = self.lane.function;
        let Some(inst) = function.dfg.def_inst(value) else {
            return Ok(None);
        };
        let data = function.dfg.insts[inst];
        if condition {
            self.lanes_of(inst, &data)?;
        } else {
            let first = self.lane.get(value);
            self.lanes_of(inst, &data)?;
            self.lane.set(value, first);
        }
        let vars = self.vars(value)?;
        let lanes = self.use_vars(&vars);
        self.made.insert(value, lanes.clone());
        Ok(Some(lanes))
    }
}
