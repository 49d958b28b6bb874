//! Operations that run lane by lane. The code is unrolled if the operation is short, and either the operation is pure
//! or all lanes execute it. All other operations run in a loop over the active lanes, with operands and results in
//! memory.

use std::mem::offset_of;

use cranelift_codegen::ir::{self, InstBuilder, StackSlotData, StackSlotKind, types};
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ops::types::Kind;

use super::{Lanes, Slice, vector_type};
use crate::abi::NativeContext;
use crate::emit::lane::{EmitError, host};
use crate::fallback::Fallback;

/// An operand that is not uniform.
struct Operand {
    value: Value,
    kind: Kind,
    /// The operand's lanes; `None` if the code computes each lane from the scalar of the first lane.
    lanes: Option<Lanes>,
    /// The Cranelift value of the operand for the first lane, which is restored after the operation; `None` if the
    /// operand has no such value.
    kept: Option<ir::Value>,
}

impl Slice<'_, '_> {
    /// Returns the operands that are not uniform. If `told` is true, no vectors are computed for operands whose lanes
    /// can be computed from the first lane.
    fn operands(&mut self, inst: Inst, told: bool) -> Result<Vec<Operand>, EmitError> {
        let function = self.lane.function;
        let mut values = function.dfg.args(inst).to_vec();
        values.sort_unstable();
        values.dedup();
        let mut operands = Vec::new();
        for value in values {
            if self.is_uniform(value) {
                continue;
            }
            let told = told && self.is_told(value);
            let lanes = if told { None } else { Some(self.get(value)?) };
            let scalar = self.view.uniformity.class(value) != Class::Varying
                || self.view.speculative.stride(value).is_some();
            operands.push(Operand {
                value,
                kind: function.dfg.ty(value).kind(),
                lanes,
                kept: scalar.then(|| self.lane.get(value)),
            });
        }
        Ok(operands)
    }

    /// Returns whether each lane of a value can be computed from the first lane.
    fn is_told(&self, value: Value) -> bool {
        self.class(value) != Class::Varying || self.is_guarded(value)
    }

    /// Emits the computation of one lane of a value for which [`Slice::is_told`] is true.
    fn of_lane(&mut self, value: Value, number: ir::Value) -> Result<ir::Value, EmitError> {
        let stride = match self.class(value) {
            Class::Affine(stride) => stride,
            Class::Varying if self.in_memory(value) => return self.lane_in_memory(value, number),
            Class::Varying => return self.lane_again(value, number),
            _ => return Ok(self.lane.get(value)),
        };
        let first = self.lane.get(value);
        Ok(self.moved(first, number, stride))
    }

    /// Emits the computation of `first + stride * number` in the type of `first`.
    pub(super) fn moved(&mut self, first: ir::Value, number: ir::Value, stride: i64) -> ir::Value {
        let b = &mut *self.lane.b;
        let ty = b.func.dfg.value_type(first);
        let number = if ty == types::I64 {
            number
        } else {
            b.ins().ireduce(ty, number)
        };
        let step = b.ins().imul_imm_s(number, stride);
        b.ins().iadd(first, step)
    }

    /// Emits once more, for the lane `number`, the operation that defines a speculatively affine
    /// value.
    fn lane_again(&mut self, value: Value, number: ir::Value) -> Result<ir::Value, EmitError> {
        let function = self.lane.function;
        let first = self.lane.get(value);
        let Some(inst) = function.dfg.def_inst(value) else {
            return Ok(first);
        };
        let mut args = function.dfg.args(inst).to_vec();
        args.sort_unstable();
        args.dedup();
        let kept: Vec<ir::Value> = args.iter().map(|&arg| self.lane.get(arg)).collect();
        let mine: Vec<ir::Value> = args
            .iter()
            .map(|&arg| self.of_lane(arg, number))
            .collect::<Result<_, _>>()?;
        for (&arg, &bits) in args.iter().zip(&mine) {
            self.lane.set(arg, bits);
        }
        self.lane.operation_of_one(inst)?;
        let bits = self.lane.get(value);
        for (&arg, &bits) in args.iter().zip(&kept) {
            self.lane.set(arg, bits);
        }
        self.lane.set(value, first);
        Ok(bits)
    }

    /// Returns the varying results of an instruction, with their kinds and vector types.
    fn varying_results(&self, inst: Inst) -> Result<Vec<(Value, Kind, ir::Type)>, EmitError> {
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

    /// Emits code that runs an operation for each lane, active or not. Either the operation must be pure or all lanes
    /// of the chunk must be active.
    pub(super) fn unrolled(&mut self, inst: Inst) -> Result<(), EmitError> {
        self.lane.fallbacks.note(Fallback::UnrolledLanes);
        let operands = self.operands(inst, false)?;
        let results = self.varying_results(inst)?;
        let mut found: Vec<Vec<ir::Value>> = vec![Vec::new(); results.len()];
        let first = self.lane.here;
        for lane in 0..self.view.width {
            self.mark(inst, lane);
            for operand in &operands {
                if let Some(lanes) = &operand.lanes {
                    let bits = self.extract(lanes, operand.kind, lane);
                    self.lane.set(operand.value, bits);
                }
            }
            self.lane.here = self.here(lane);
            let done = self.lane.operation_of_one(inst);
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

    /// Returns the address of the temporary stack array with index `index`, which has 8 bytes for each lane of the
    /// chunk. All instructions use the same arrays.
    fn cells(&mut self, index: usize) -> ir::Value {
        while self.cells.len() <= index {
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 8 * self.view.width, 4);
            let slot = self.lane.b.create_sized_stack_slot(data);
            self.cells.push(slot);
        }
        let slot = self.cells[index];
        self.lane.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Emits the load of the value of lane `number` from `cells`, an array with one value of type `ty` per lane.
    pub(super) fn load_lane(
        &mut self,
        cells: ir::Value,
        ty: ir::Type,
        number: ir::Value,
    ) -> ir::Value {
        let b = &mut *self.lane.b;
        let offset = b.ins().imul_imm_s(number, i64::from(ty.bytes()));
        let at = b.ins().iadd(cells, offset);
        b.ins().load(ty, host(), at, 0)
    }

    /// Emits a loop that runs an operation for each active lane in turn. The loop can run any operation.
    pub(super) fn each_lane(&mut self, inst: Inst) -> Result<(), EmitError> {
        self.lane.fallbacks.note(Fallback::LoopedLanes);
        let operands = self.operands(inst, true)?;
        let results = self.varying_results(inst)?;
        let active = self.active_bits();
        let mut inputs = Vec::new();
        let mut used = 0;
        for operand in &operands {
            let Some(lanes) = &operand.lanes else {
                inputs.push(None);
                continue;
            };
            let ty = self.lane.b.func.dfg.value_type(lanes[0]);
            let cells = self.cells(used);
            used += 1;
            for (i, &vector) in lanes.iter().enumerate() {
                let at = 16 * i as i32;
                self.lane.b.ins().store(host(), vector, cells, at);
            }
            inputs.push(Some((cells, ty.lane_type())));
        }
        let outputs: Vec<ir::Value> = (used..used + results.len())
            .map(|index| self.cells(index))
            .collect();
        // The mask of the lanes that have not run is a block parameter and not a variable, because the builder keeps a
        // value for each variable in each block.
        let [head, body, end] = std::array::from_fn(|_| self.lane.b.create_block());
        let left = self.lane.b.append_block_param(head, types::I32);
        self.lane.b.ins().jump(head, &[active.into()]);
        self.lane.b.switch_to_block(head);
        self.lane.b.ins().brif(left, body, &[], end, &[]);

        self.lane.b.switch_to_block(body);
        let b = &mut *self.lane.b;
        let number = b.ins().ctz(left);
        let below = b.ins().iadd_imm_s(left, -1);
        let left = b.ins().band(left, below);
        let wide = b.ins().uextend(types::I64, number);
        let first = self.lane.here;
        let mut here = first;
        here.thread = b.ins().iadd(first.thread, number);
        here.lane = b.ins().iadd(first.lane, wide);
        let at = offset_of!(NativeContext, thread) as i32;
        b.ins().store(host(), here.thread, self.lane.fixed.ctx, at);
        let mut mine = Vec::new();
        for (operand, input) in operands.iter().zip(&inputs) {
            mine.push(match *input {
                Some((cells, ty)) => {
                    let bits = self.load_lane(cells, ty, wide);
                    self.unwidened(bits, operand.kind)
                }
                None => self.of_lane(operand.value, wide)?,
            });
        }
        for (operand, &bits) in operands.iter().zip(&mine) {
            self.lane.set(operand.value, bits);
        }
        self.lane.here = here;
        let done = self.lane.operation_of_one(inst);
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
        self.restore(&operands);
        self.lane.b.ins().jump(head, &[left.into()]);

        self.lane.b.switch_to_block(end);
        let first = self.lane.here.thread;
        let at = offset_of!(NativeContext, thread) as i32;
        let ctx = self.lane.fixed.ctx;
        self.lane.b.ins().store(host(), first, ctx, at);
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
