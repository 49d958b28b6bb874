//! Speculatively affine values, which are affine if a check holds. The code that computes such a value also computes
//! its check.
//!
//! If the check holds, the code needs only the value of the first lane. If it does not hold, the code needs the values
//! of all lanes. If no other block needs a value, the lanes of the value are computed where they are used. The lanes of
//! other values are kept in memory. Code for whole chunks writes this memory only if the check does not hold; masked
//! code always writes it.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, StackSlotData, StackSlotKind, types};
use cranelift_frontend::Variable;
use margay_ir::analysis::speculative::Check;
use margay_ir::entity::{Block, Inst, Value};
use rustc_hash::FxHashMap;

use super::{Lanes, Slice, vector_type};
use crate::emit::lane::{EmitError, host};

impl Slice<'_, '_> {
    /// Finds the speculatively affine values that no other block needs: no other block uses the value or gets it as an
    /// argument.
    pub(super) fn find_lazy(&mut self) {
        let function = self.lane.function;
        let mut home: FxHashMap<Value, Block> = FxHashMap::default();
        for &block in &self.view.linear.order {
            for &inst in function.insts(block) {
                if let &[result] = function.dfg.results(inst)
                    && self.view.speculative.stride(result).is_some()
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
                if function.effects(inst).is_sync_point() {
                    for value in self.lane.behind(inst).unwrap_or_default() {
                        self.lazy.remove(value);
                    }
                }
            }
        }
    }

    /// Returns whether a value is speculatively affine where the block being translated uses it.
    pub(super) fn is_guarded(&self, value: Value) -> bool {
        let function = self.lane.function;
        self.view.speculative.stride(value).is_some()
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

    /// Finds the speculatively affine values that need no check in the code for a chunk, because the checks of the
    /// value and of its operands are computed once per CTA, before the loop over chunks (CTA range analysis).
    pub(super) fn find_assured(&mut self) {
        let function = self.lane.function;
        let guarded = self.view.speculative;
        for &block in &self.view.linear.order {
            for &inst in function.insts(block) {
                let known = guarded.check(inst).is_none() || self.hoisted.extents().assures(inst);
                let sure =
                    |&arg: &Value| guarded.stride(arg).is_none() || self.assured.contains(&arg);
                if let &[result] = function.dfg.results(inst)
                    && known
                    && guarded.stride(result).is_some()
                    && function.dfg.args(inst).iter().all(sure)
                {
                    self.assured.insert(result);
                }
            }
        }
    }

    /// Returns whether a value is proved affine in the code being emitted. Such code runs only if CTA range analysis
    /// has proved the value's checks.
    pub(super) fn is_assured(&self, value: Value) -> bool {
        self.sure && self.assured.contains(&value) && self.is_guarded(value)
    }

    /// Returns the Cranelift value that is nonzero if the check of a value holds; `None` if the value needs no check.
    pub(super) fn holds(&mut self, value: Value) -> Option<ir::Value> {
        if !self.is_guarded(value) || self.is_assured(value) {
            return None;
        }
        let var = self.holds_var(value);
        Some(self.lane.b.use_var(var))
    }

    /// Emits the conjunction of `check`, if given, and of the checks of `values`. Returns `None` if there is no check
    /// at all.
    pub(super) fn all_hold(
        &mut self,
        values: &[Value],
        check: Option<ir::Value>,
    ) -> Option<ir::Value> {
        values
            .iter()
            .fold(check, |holds, &value| match (holds, self.holds(value)) {
                (Some(a), Some(b)) => Some(self.lane.b.ins().band(a, b)),
                (a, b) => a.or(b),
            })
    }

    /// Returns whether the lanes of a value are kept in memory for the case that its check does not hold.
    pub(super) fn in_memory(&self, value: Value) -> bool {
        self.view.speculative.stride(value).is_some() && !self.lazy.contains(&value)
    }

    fn memory_of(&mut self, value: Value) -> Result<(ir::Value, ir::Type), EmitError> {
        let ty = vector_type(self.lane.function.dfg.ty(value))?;
        let slot = match self.memory.get(&value) {
            Some(&slot) => slot,
            None => {
                let bytes = 16 * self.count(ty) as u32;
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
                let slot = self.lane.b.create_sized_stack_slot(data);
                self.memory.insert(value, slot);
                slot
            }
        };
        Ok((self.lane.b.ins().stack_addr(types::I64, slot, 0), ty))
    }

    pub(super) fn keep_in_memory(&mut self, value: Value, lanes: &Lanes) -> Result<(), EmitError> {
        let (at, _) = self.memory_of(value)?;
        for (i, &vector) in lanes.iter().enumerate() {
            self.lane.b.ins().store(host(), vector, at, 16 * i as i32);
        }
        Ok(())
    }

    /// Returns the lanes of a value that has memory for its lanes. The emitted code computes them from the first lane
    /// if the check holds, otherwise it loads them.
    pub(super) fn lanes_in_memory(&mut self, value: Value) -> Result<Lanes, EmitError> {
        let stride = self.view.speculative.stride(value).unwrap_or_default();
        let first = self.lane.get(value);
        if self.is_assured(value) {
            let lanes = self.affine(value, first, stride)?;
            self.made.insert(value, lanes.clone());
            return Ok(lanes);
        }
        let var = self.holds_var(value);
        let holds = self.lane.b.use_var(var);
        let [affine, apart, join] = std::array::from_fn(|_| self.lane.b.create_block());
        self.lane.b.ins().brif(holds, affine, &[], apart, &[]);
        self.lane.b.switch_to_block(affine);
        let lanes = self.affine(value, first, stride)?;
        let args: Vec<ir::BlockArg> = lanes.iter().map(|&vector| vector.into()).collect();
        self.lane.b.ins().jump(join, &args);
        self.lane.b.switch_to_block(apart);
        let (at, ty) = self.memory_of(value)?;
        let args: Vec<ir::BlockArg> = (0..self.count(ty) as i32)
            .map(|i| self.lane.b.ins().load(ty, host(), at, 16 * i).into())
            .collect();
        self.lane.b.ins().jump(join, &args);
        self.lane.b.switch_to_block(join);
        let lanes: Lanes = args
            .iter()
            .map(|_| self.lane.b.append_block_param(join, ty))
            .collect();
        self.made.insert(value, lanes.clone());
        Ok(lanes)
    }

    /// Returns one lane of a value whose lanes may be in memory.
    pub(super) fn lane_in_memory(
        &mut self,
        value: Value,
        number: ir::Value,
    ) -> Result<ir::Value, EmitError> {
        let stride = self.view.speculative.stride(value).unwrap_or_default();
        let var = self.holds_var(value);
        let holds = self.lane.b.use_var(var);
        let first = self.lane.get(value);
        let affine = self.moved(first, number, stride);
        let (at, ty) = self.memory_of(value)?;
        let apart = self.load_lane(at, ty.lane_type(), number);
        Ok(self.lane.b.ins().select(holds, affine, apart))
    }

    /// Calls `code` to emit code, and emits a branch that skips this code if the check `holds`.
    pub(super) fn unless(
        &mut self,
        holds: ir::Value,
        code: impl FnOnce(&mut Self) -> Result<(), EmitError>,
    ) -> Result<(), EmitError> {
        let [apart, join] = std::array::from_fn(|_| self.lane.b.create_block());
        self.lane.b.ins().brif(holds, join, &[], apart, &[]);
        let made = self.made.clone();
        self.lane.b.switch_to_block(apart);
        code(self)?;
        self.lane.b.ins().jump(join, &[]);
        self.lane.b.switch_to_block(join);
        self.made = made;
        Ok(())
    }

    /// Emits the computation of the first lane and the check of a speculatively affine result. If
    /// the lanes are kept in memory, also emits code that computes and stores them if the check
    /// does not hold.
    pub(super) fn guarded_result(&mut self, inst: Inst, result: Value) -> Result<(), EmitError> {
        self.made.remove(&result);
        self.guard(inst, result)?;
        if self.lazy.contains(&result) || self.is_assured(result) {
            return Ok(());
        }
        let var = self.holds_var(result);
        let holds = self.lane.b.use_var(var);
        let data = self.lane.function.dfg.insts[inst];
        let first = self.lane.get(result);
        self.unless(holds, |s| {
            s.lanes_of(inst, &data)?;
            s.lane.set(result, first);
            Ok(())
        })
    }

    /// Emits the computation of the first lane and the check of a speculatively affine result.
    fn guard(&mut self, inst: Inst, result: Value) -> Result<(), EmitError> {
        self.lane.operation(inst)?;
        let args = self.lane.function.dfg.args(inst);
        let mine = self.view.speculative.check(inst);
        let mine = mine.filter(|_| !(self.sure && self.hoisted.extents().assures(inst)));
        let mine = mine.map(|check| match self.hoisted.extents().stays(inst) {
            Some(stays) => self.checked_unless(stays, check),
            None => self.checked(check),
        });
        let holds = self.all_hold(args, mine);
        let holds = holds.unwrap_or_else(|| self.lane.b.ins().iconst(types::I8, 1));
        let var = self.holds_var(result);
        self.lane.b.def_var(var, holds);
        Ok(())
    }

    /// Returns the first and the last lane of an affine 32-bit operand as 64-bit integers, and a value that is nonzero
    /// if the operand's type can represent the last lane.
    pub(super) fn ends_of(
        &mut self,
        value: Value,
        stride: i64,
        signed: bool,
    ) -> (ir::Value, ir::Value, ir::Value) {
        let first = self.lane.get(value);
        let reach = stride.wrapping_mul(i64::from(self.view.width) - 1);
        let first = self.as_64_bits(first, signed);
        let last = self.lane.b.ins().iadd_imm_s(first, reach);
        let low = self.lane.b.ins().ireduce(types::I32, last);
        let again = self.as_64_bits(low, signed);
        let fits = self.lane.b.ins().icmp(IntCC::Equal, again, last);
        (first, last, fits)
    }

    /// Emits the extension of a 32-bit integer to 64 bits, which can represent signed and unsigned
    /// 32-bit integers.
    pub(super) fn as_64_bits(&mut self, word: ir::Value, signed: bool) -> ir::Value {
        if signed {
            self.lane.b.ins().sextend(types::I64, word)
        } else {
            self.lane.b.ins().uextend(types::I64, word)
        }
    }

    /// Emits code that computes a check, except if `known` is nonzero, which means that the check is proved to hold.
    fn checked_unless(&mut self, known: Variable, check: Check) -> ir::Value {
        let [look, join] = std::array::from_fn(|_| self.lane.b.create_block());
        let known = self.lane.b.use_var(known);
        self.lane
            .b
            .ins()
            .brif(known, join, &[known.into()], look, &[]);
        self.lane.b.switch_to_block(look);
        self.lane.b.set_cold_block(look);
        let holds = self.checked(check);
        self.lane.b.ins().jump(join, &[holds.into()]);
        self.lane.b.switch_to_block(join);
        self.lane.b.append_block_param(join, types::I8)
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
                let bound = self.as_64_bits(bound, signed);
                let b = &mut *self.lane.b;
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

    /// Returns the lanes of a speculatively affine value or of a condition, if the lanes were not
    /// computed at the definition of the value.
    pub(super) fn lazy_lanes(&mut self, value: Value) -> Result<Option<Lanes>, EmitError> {
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
