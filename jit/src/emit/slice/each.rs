//! Operations that run lane by lane: unrolled where they are short and have no effect, else in a loop over
//! the active lanes with operands and results in memory.

use std::mem::offset_of;

use cranelift_codegen::ir::{self, InstBuilder, StackSlotData, StackSlotKind, types};
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ir::types::Kind;

use super::{Lanes, Slice, vector_type};
use crate::abi::NativeContext;
use crate::emit::lane::{Unsupported, host};

/// An operand that differs from lane to lane.
struct Operand {
    value: Value,
    kind: Kind,
    lanes: Lanes,
    /// What the scalar translator held for it.
    kept: Option<ir::Value>,
}

impl Slice<'_, '_> {
    /// The operands of an instruction that are not the same for the slice.
    fn operands(&mut self, inst: Inst) -> Result<Vec<Operand>, Unsupported> {
        let function = self.lane.function;
        let mut values = function.dfg.args(inst).to_vec();
        values.sort_unstable();
        values.dedup();
        let mut operands = Vec::new();
        for value in values {
            if self.is_uniform(value) {
                continue;
            }
            let lanes = self.get(value)?;
            let scalar = self.view.uniformity.class(value) != Class::Varying
                || self.view.guarded.stride(value).is_some();
            operands.push(Operand {
                value,
                kind: function.dfg.ty(value).kind(),
                lanes,
                kept: scalar.then(|| self.lane.get(value)),
            });
        }
        Ok(operands)
    }

    /// Results that vary, with their kinds and vector types.
    fn varying_results(&self, inst: Inst) -> Result<Vec<(Value, Kind, ir::Type)>, Unsupported> {
        let function = self.lane.function;
        function
            .dfg
            .results(inst)
            .iter()
            .filter(|&&value| self.view.uniformity.class(value) == Class::Varying)
            .map(|&value| {
                let ty = function.dfg.ty(value);
                Ok((value, ty.kind(), vector_type(ty)?))
            })
            .collect()
    }

    fn restore(&mut self, operands: &[Operand]) {
        for operand in operands {
            if let Some(bits) = operand.kept {
                self.lane.set(operand.value, bits);
            }
        }
    }

    /// An operation for each lane, active or not: a pure one, or one of a slice all of whose lanes run.
    pub(super) fn unrolled(&mut self, inst: Inst) -> Result<(), Unsupported> {
        let operands = self.operands(inst)?;
        let results = self.varying_results(inst)?;
        let mut found: Vec<Vec<ir::Value>> = vec![Vec::new(); results.len()];
        let first = self.lane.here;
        for lane in 0..self.view.width {
            self.mark(inst, lane);
            for operand in &operands {
                let bits = self.extract(&operand.lanes, operand.kind, lane);
                self.lane.set(operand.value, bits);
            }
            self.lane.here = self.here(lane);
            let done = self.lane.operation(inst);
            self.lane.here = first;
            done?;
            for (&(value, kind, _), found) in results.iter().zip(&mut found) {
                let bits = self.lane.get(value);
                found.push(self.widened(bits, kind));
            }
        }
        self.restore(&operands);
        for (&(value, _, ty), scalars) in results.iter().zip(&found) {
            let lanes = self.gathered(scalars, ty);
            self.set(value, &lanes)?;
        }
        Ok(())
    }

    /// Stack space for the lanes of a vector type.
    fn cells(&mut self, ty: ir::Type) -> ir::Value {
        let bytes = self.view.width * ty.lane_type().bytes();
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
        let slot = self.lane.b.create_sized_stack_slot(data);
        self.lane.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Any operation, for each active lane in turn.
    pub(super) fn each_lane(&mut self, inst: Inst) -> Result<(), Unsupported> {
        let operands = self.operands(inst)?;
        let results = self.varying_results(inst)?;
        let active = self.active_bits();
        let mut inputs = Vec::new();
        for operand in &operands {
            let ty = self.lane.b.func.dfg.value_type(operand.lanes[0]);
            let cells = self.cells(ty);
            for (i, &vector) in operand.lanes.iter().enumerate() {
                let at = 16 * i as i32;
                self.lane.b.ins().store(host(), vector, cells, at);
            }
            inputs.push((cells, ty.lane_type()));
        }
        let outputs: Vec<ir::Value> = results.iter().map(|&(_, _, ty)| self.cells(ty)).collect();
        let rest = self.lane.b.declare_var(types::I32);
        self.lane.b.def_var(rest, active);
        let [head, body, end] = std::array::from_fn(|_| self.lane.b.create_block());
        self.lane.b.ins().jump(head, &[]);
        self.lane.b.switch_to_block(head);
        let left = self.lane.b.use_var(rest);
        self.lane.b.ins().brif(left, body, &[], end, &[]);

        self.lane.b.switch_to_block(body);
        let b = &mut *self.lane.b;
        let left = b.use_var(rest);
        let number = b.ins().ctz(left);
        let below = b.ins().iadd_imm_s(left, -1);
        let left = b.ins().band(left, below);
        b.def_var(rest, left);
        let wide = b.ins().uextend(types::I64, number);
        let first = self.lane.here;
        let mut here = first;
        here.thread = b.ins().iadd(first.thread, number);
        here.lane = b.ins().iadd(first.lane, wide);
        let at = offset_of!(NativeContext, thread) as i32;
        b.ins().store(host(), here.thread, self.lane.fixed.ctx, at);
        for (operand, &(cells, ty)) in operands.iter().zip(&inputs) {
            let b = &mut *self.lane.b;
            let offset = b.ins().imul_imm_s(wide, i64::from(ty.bytes()));
            let at = b.ins().iadd(cells, offset);
            let bits = b.ins().load(ty, host(), at, 0);
            let bits = self.unwidened(bits, operand.kind);
            self.lane.set(operand.value, bits);
        }
        self.lane.here = here;
        let done = self.lane.operation(inst);
        self.lane.here = first;
        done?;
        for (&(value, kind, ty), &cells) in results.iter().zip(&outputs) {
            let bits = self.lane.get(value);
            let bits = self.widened(bits, kind);
            let b = &mut *self.lane.b;
            let offset = b.ins().imul_imm_s(wide, i64::from(ty.lane_type().bytes()));
            let at = b.ins().iadd(cells, offset);
            b.ins().store(host(), bits, at, 0);
        }
        self.lane.b.ins().jump(head, &[]);

        self.lane.b.switch_to_block(end);
        let first = self.lane.here.thread;
        let at = offset_of!(NativeContext, thread) as i32;
        let ctx = self.lane.fixed.ctx;
        self.lane.b.ins().store(host(), first, ctx, at);
        self.restore(&operands);
        for (&(value, _, ty), &cells) in results.iter().zip(&outputs) {
            let lanes: Lanes = (0..self.count(ty))
                .map(|i| {
                    let at = 16 * i as i32;
                    self.lane.b.ins().load(ty, host(), cells, at)
                })
                .collect();
            self.set(value, &lanes)?;
        }
        Ok(())
    }
}
