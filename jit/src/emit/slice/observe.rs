//! Calls of the host that record accesses and events for tools. One call records all lanes of a chunk. If tools request
//! counts, most events are counted without a call ([`super::count`]).

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::InstData;
use margay_ir::observe::{ObservedAccess, ObservedEvent};
use margay_ops::types::Kind;

use super::Slice;
use crate::abi::{CheckedLanes, Helpers};
use crate::counters::Counted;
use crate::emit::lane::{EmitError, host};

impl Slice<'_, '_> {
    /// Emits a call of a host helper, which records an access of all active lanes.
    pub(super) fn observe_lanes(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        let Some(access) = ObservedAccess::of(data) else {
            return self.lane.refuse(data);
        };
        if self.mask.is_none() && self.view.width == 32 {
            match self.lane.counters.get(inst) {
                Some(Counted::First { group, at }) => return self.count_group(inst, (group, at)),
                Some(Counted::Other) => return Ok(()),
                Some(Counted::Run { .. }) | None => {}
            }
        }
        let args = self.lane.function.dfg.args(inst).to_vec();
        let Some((&address, operands)) = args.split_first() else {
            return self.lane.refuse(data);
        };
        if !self.fits(operands) {
            return self.each_lane(inst);
        }
        let strided = self.put_addresses(address)?;
        let (cells, operands, operand_bytes) = self.put_operands(operands)?;
        let shape = CheckedLanes {
            width: self.view.width,
            strided,
            narrow: self.lane.function.dfg.ty(address).kind() == Kind::B32,
            operands,
            operand_bytes,
            ..CheckedLanes::default()
        };
        let shape = self.observed_shape(shape);
        let what = self.lane.int(types::I64, access.to_bits());
        let loc = self.lane.function.dfg.locs[inst].to_bits();
        let loc = self.lane.int(types::I64, loc);
        let at = self.check_addresses();
        let args = [self.lane.fixed.ctx, at, what, loc, cells, shape];
        let offset = offset_of!(Helpers, observe_lanes);
        self.lane.helper("observe_lanes", offset, &args, None);
        Ok(())
    }

    /// Emits a call of a host helper, which records an event of all active lanes that is not a memory access.
    pub(super) fn observe_event(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        if let Some(Counted::Run { at, instructions }) = self.lane.counters.get(inst) {
            return self.count_run(inst, (at, instructions));
        }
        let args = self.lane.function.dfg.args(inst).to_vec();
        let event = ObservedEvent::from_payload(data.payload());
        let (narrow, (cells, operands, operand_bytes)) = match args[..] {
            [chosen] if event.is_some_and(ObservedEvent::is_choice) => {
                (true, (self.chosen_bits(chosen)?, 1, 4))
            }
            _ => (false, self.put_operands(&args)?),
        };
        let shape = CheckedLanes {
            width: self.view.width,
            narrow,
            operands,
            operand_bytes,
            ..CheckedLanes::default()
        };
        let shape = self.observed_shape(shape);
        let payload = self.lane.int(types::I64, data.payload());
        let loc = self.lane.function.dfg.locs[inst].to_bits();
        let loc = self.lane.int(types::I64, loc);
        let args = [self.lane.fixed.ctx, payload, loc, cells, shape];
        let offset = offset_of!(Helpers, observe_event);
        self.lane.helper("observe_event", offset, &args, None);
        Ok(())
    }

    /// Emits a word with one bit for each lane, which states whether the lane's operand is not 0.
    pub(super) fn chosen_bits(&mut self, operand: Value) -> Result<ir::Value, EmitError> {
        let lanes = self.get(operand)?;
        let zero = self.constant(types::I32X4, 0);
        let chosen = lanes
            .iter()
            .map(|&four| self.lane.b.ins().icmp(IntCC::NotEqual, four, zero))
            .collect();
        let bits = self.bits(&chosen);
        Ok(self.lane.b.ins().uextend(types::I64, bits))
    }

    /// Emits the packed form of `shape` with the active lanes and the thread of the first lane.
    fn observed_shape(&mut self, shape: CheckedLanes) -> ir::Value {
        let shape = self.lane.int(types::I64, shape.to_bits());
        let active = self.active_bits();
        let b = &mut *self.lane.b;
        let active = b.ins().uextend(types::I64, active);
        let thread = b.ins().uextend(types::I64, self.lane.here.thread);
        let thread = b.ins().ishl_imm_u(thread, CheckedLanes::THREAD);
        let shape = b.ins().bor(shape, active);
        b.ins().bor(shape, thread)
    }

    /// Emits stores of the lanes' addresses for the host. Returns whether the lanes are strided: the stored data is
    /// then the first address and the stride, otherwise the address of each lane.
    fn put_addresses(&mut self, address: Value) -> Result<bool, EmitError> {
        let at = self.check_addresses();
        let stride = match self.class(address) {
            Class::Varying => {
                for (i, vector) in self.get(address)?.into_iter().enumerate() {
                    let offset = 16 * i as i32;
                    self.lane.b.ins().store(host(), vector, at, offset);
                }
                return Ok(false);
            }
            Class::Affine(stride) => stride,
            _ => 0,
        };
        let first: ir::Value = self.lane.get(address);
        let first = self.lane.wide(first);
        let b = &mut *self.lane.b;
        let stride = b.ins().iconst(types::I64, stride);
        b.ins().store(host(), first, at, 0);
        b.ins().store(host(), stride, at, 8);
        Ok(true)
    }
}
