//! Counts runs of instructions and accesses of a chunk in the counters of the native call ([`crate::counters`]).

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ops::types::Kind;

use super::Slice;
use crate::abi::Helpers;
use crate::counters::{PERIOD, Pattern, WARPS, run};
use crate::emit::lane::{EmitError, host};

/// A group of accesses: its index, the index of its word, and whether its addresses have 32 bits.
#[derive(Clone, Copy)]
struct CountedGroup {
    group: u32,
    at: usize,
    narrow: bool,
}

impl Slice<'_, '_> {
    /// Emits code that counts a run of instructions, whose first word has the index `at`, and that adds `instructions`
    /// to the count of the warp.
    pub(super) fn count_run(
        &mut self,
        inst: Inst,
        (at, instructions): (usize, u64),
    ) -> Result<(), EmitError> {
        let area = self.lane.counters_of_call();
        let active = self.count_active(area, at);
        if let &[operand] = self.lane.function.dfg.args(inst) {
            self.count_chosen(operand, area, at, active)?;
        }
        if instructions != 0 && self.lane.counters.counts_warps() {
            self.count_warp(area, instructions);
        }
        Ok(())
    }

    /// Emits code that counts the lanes that reach a run. Returns the mask of the active lanes, if not all of the warp's
    /// lanes are known to be active.
    fn count_active(&mut self, area: ir::Value, at: usize) -> Option<ir::Value> {
        if self.mask.is_none() && self.view.width == 32 {
            self.lane.count_constant(area, at + run::WHOLE, 1);
            return None;
        }
        let active = self.active_bits();
        self.lane.count_constant(area, at + run::PARTS, 1);
        let lanes = self.lane.b.ins().popcnt(active);
        self.lane.count(area, at + run::ACTIVE, lanes);
        Some(active)
    }

    /// Emits code that counts the lanes that execute a run with a guard. `operand` is not 0 in these lanes.
    fn count_chosen(
        &mut self,
        operand: Value,
        area: ir::Value,
        at: usize,
        active: Option<ir::Value>,
    ) -> Result<(), EmitError> {
        let active = active.unwrap_or_else(|| self.active_bits());
        let guard = self.lane.counters.guard(operand);
        if let Some(guard) = guard.filter(|&guard| self.is_uniform(guard)) {
            let lanes = self.lane.b.ins().popcnt(active);
            let none = self.lane.int(types::I32, 0);
            let guard = self.lane.get(guard);
            let lanes = self.lane.b.ins().select(guard, lanes, none);
            self.lane.count(area, at + run::EXECUTED, lanes);
            return Ok(());
        }
        let decided = guard.and_then(|guard| self.decide(guard));
        let Some(decided) = decided else {
            let chosen = self.chosen(operand, guard)?;
            self.count_mask(chosen, area, at, active);
            return Ok(());
        };
        let [all, not_all, unknown, done] = std::array::from_fn(|_| self.lane.b.create_block());
        let b = &mut *self.lane.b;
        b.ins().brif(decided.all, all, &[], not_all, &[]);
        b.switch_to_block(not_all);
        b.ins().brif(decided.none, done, &[], unknown, &[]);
        b.switch_to_block(all);
        let lanes = b.ins().popcnt(active);
        self.lane.count(area, at + run::EXECUTED, lanes);
        self.lane.b.ins().jump(done, &[]);
        self.lane.b.switch_to_block(unknown);
        let made = self.made.clone();
        let chosen = self.chosen(operand, guard)?;
        self.count_mask(chosen, area, at, active);
        self.made = made;
        self.lane.b.ins().jump(done, &[]);
        self.lane.b.switch_to_block(done);
        Ok(())
    }

    /// Returns the mask of the lanes in which the guard of a run is true. Inactive lanes can be in the mask.
    fn chosen(&mut self, operand: Value, guard: Option<Value>) -> Result<ir::Value, EmitError> {
        match guard {
            Some(guard) => {
                let lanes = self.get(guard)?;
                let lanes = self.narrow_mask(lanes);
                Ok(self.bits(&lanes))
            }
            None => {
                let bits = self.chosen_bits(operand)?;
                Ok(self.lane.b.ins().ireduce(types::I32, bits))
            }
        }
    }

    /// Emits code that counts the lanes that are in `chosen` and in `active`.
    fn count_mask(&mut self, chosen: ir::Value, area: ir::Value, at: usize, active: ir::Value) {
        let b = &mut *self.lane.b;
        let chosen = b.ins().band(chosen, active);
        let lanes = b.ins().popcnt(chosen);
        let some = b.ins().icmp_imm_s(IntCC::NotEqual, chosen, 0);
        let not_all = b.ins().icmp(IntCC::NotEqual, chosen, active);
        let split = b.ins().band(some, not_all);
        self.lane.count(area, at + run::EXECUTED, lanes);
        self.lane.count(area, at + run::SPLIT, split);
    }

    /// Emits code that adds `instructions` to the count of the warp in the current CTA.
    fn count_warp(&mut self, area: ir::Value, instructions: u64) {
        let b = &mut *self.lane.b;
        // The index of the warp times the size of a word.
        let warp = b.ins().ushr_imm_u(self.lane.here.thread, 5);
        let warp = b.ins().uextend(types::I64, warp);
        let warp = b.ins().ishl_imm_u(warp, 3);
        let word = b.ins().iadd(area, warp);
        self.lane.count_constant(word, WARPS, instructions as i64);
    }

    /// Emits code that counts a request of a group, whose first access is `inst`. If the request does not have the
    /// group's pattern, the host counts it.
    pub(super) fn count_group(
        &mut self,
        inst: Inst,
        (group, at): (u32, usize),
    ) -> Result<(), EmitError> {
        let address = self.lane.function.dfg.args(inst)[0];
        let kind = self.lane.function.dfg.ty(address).kind();
        let group = CountedGroup {
            group,
            at,
            narrow: kind == Kind::B32,
        };
        let speculative = self.view.speculative.stride(address);
        if let Some(stride) = speculative.filter(|_| self.is_guarded(address)) {
            let Some(holds) = self.holds(address) else {
                self.count_strided(group, address, stride);
                return Ok(());
            };
            let [even, uneven, done] = std::array::from_fn(|_| self.lane.b.create_block());
            self.lane.b.ins().brif(holds, even, &[], uneven, &[]);
            self.lane.b.switch_to_block(even);
            self.count_strided(group, address, stride);
            self.lane.b.ins().jump(done, &[]);
            self.lane.b.switch_to_block(uneven);
            let made = self.made.clone();
            self.count_each(group, address)?;
            self.made = made;
            self.lane.b.ins().jump(done, &[]);
            self.lane.b.switch_to_block(done);
            return Ok(());
        }
        match self.class(address) {
            Class::Varying => self.count_each(group, address)?,
            Class::Affine(stride) => self.count_strided(group, address, stride),
            _ => self.count_strided(group, address, 0),
        }
        Ok(())
    }

    /// Emits the load of the address of a group's pattern.
    fn pattern_of(&mut self, group: CountedGroup) -> ir::Value {
        let area = self.lane.counters_of_call();
        let at = 8 * group.at as i32;
        self.lane.b.ins().load(types::I64, host(), area, at)
    }

    /// Emits code that counts a request whose lanes have the distance `stride`.
    fn count_strided(&mut self, group: CountedGroup, address: Value, stride: i64) {
        let pattern = self.pattern_of(group);
        let first = self.lane.get(address);
        let first = self.lane.wide(first);
        let b = &mut *self.lane.b;
        let at = offset_of!(Pattern, stride) as i32;
        let known = b.ins().load(types::I64, host(), pattern, at);
        let same = b.ins().icmp_imm_s(IntCC::Equal, known, stride);
        self.count_if(same, group, (pattern, first), |s, at| {
            let b = &mut *s.lane.b;
            let stride = b.ins().iconst(types::I64, stride);
            b.ins().store(host(), first, at, 0);
            b.ins().store(host(), stride, at, 8);
            true
        });
    }

    /// Emits code that counts a request whose lanes have any addresses.
    fn count_each(&mut self, group: CountedGroup, address: Value) -> Result<(), EmitError> {
        let pattern = self.pattern_of(group);
        let lanes = self.get(address)?;
        let kind = self.lane.function.dfg.ty(address).kind();
        let first = self.extract(&lanes, kind, 0);
        let (ty, start) = match group.narrow {
            true => (types::I32X4, offset_of!(Pattern, narrow)),
            false => (types::I64X2, offset_of!(Pattern, distances)),
        };
        let b = &mut *self.lane.b;
        let splat = b.ins().splat(ty, first);
        let mut differs = None;
        for (index, &vector) in lanes.iter().enumerate() {
            let distance = b.ins().isub(vector, splat);
            let at = start as i32 + 16 * index as i32;
            let known = b.ins().load(ty, host(), pattern, at);
            let bits = b.ins().bxor(distance, known);
            differs = Some(match differs {
                None => bits,
                Some(others) => b.ins().bor(others, bits),
            });
        }
        let any = match differs {
            Some(differs) => b.ins().vany_true(differs),
            None => b.ins().iconst(types::I8, 1),
        };
        let same = b.ins().bxor_imm_u(any, 1);
        let first = self.lane.wide(first);
        self.count_if(same, group, (pattern, first), |s, at| {
            for (index, &vector) in lanes.iter().enumerate() {
                s.lane.b.ins().store(host(), vector, at, 16 * index as i32);
            }
            false
        });
        Ok(())
    }

    /// Emits code that counts a request with the address `first` of the first lane if `same` is not 0. Otherwise the
    /// emitted code calls the host with the addresses that `put` stores; `put` returns whether they are strided.
    fn count_if(
        &mut self,
        same: ir::Value,
        group: CountedGroup,
        (pattern, first): (ir::Value, ir::Value),
        put: impl FnOnce(&mut Self, ir::Value) -> bool,
    ) {
        let [hit, miss, done] = std::array::from_fn(|_| self.lane.b.create_block());
        self.lane.b.ins().brif(same, hit, &[], miss, &[]);
        self.lane.b.switch_to_block(miss);
        self.lane.b.set_cold_block(miss);
        let at = self.check_addresses();
        let is_strided = put(self, at);
        let number = self.lane.int(types::I32, group.group.into());
        let is_strided = self.lane.int(types::I32, is_strided.into());
        let (ctx, thread) = (self.lane.fixed.ctx, self.lane.here.thread);
        let args = [ctx, number, at, thread, is_strided];
        let offset = offset_of!(Helpers, observe_group);
        self.lane.helper("observe_group", offset, &args, None);
        let b = &mut *self.lane.b;
        b.ins().jump(done, &[]);
        b.switch_to_block(hit);
        let place = b.ins().band_imm_u(first, PERIOD as i64 - 1);
        let place = b.ins().ishl_imm_u(place, 3);
        let place = b.ins().iadd(pattern, place);
        let at = offset_of!(Pattern, counts) / 8;
        self.lane.count_constant(place, at, 1);
        self.lane.b.ins().jump(done, &[]);
        self.lane.b.switch_to_block(done);
    }

    /// Returns whether an operation only computes the operand of counted runs, which do not need it.
    pub(super) fn is_uncomputed(&self, inst: Inst) -> bool {
        let counters = self.lane.counters;
        counters.guard_of(self.lane.function, inst).is_some()
    }
}
