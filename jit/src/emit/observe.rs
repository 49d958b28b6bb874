//! Calls of the host that record accesses and events of one lane for tools.

use std::mem::offset_of;

use cranelift_codegen::ir::{InstBuilder, types};
use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ir::observe::ObservedAccess;

use super::lane::{EmitError, Lane, host};
use crate::abi::{CheckedLanes, Helpers};
use crate::counters::Counted;

impl Lane<'_, '_> {
    /// Emits a call of the host, which records an access of this lane.
    pub(crate) fn observe_access(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        let Some(access) = ObservedAccess::of(data) else {
            return self.refuse(data);
        };
        let args = self.function.dfg.args(inst).to_vec();
        let cells: Vec<_> = args.iter().map(|&value| self.get(value)).collect();
        let cells: Vec<_> = cells.into_iter().map(|bits| self.wide(bits)).collect();
        // Cells have 16 bytes: the address, then the number of bytes of a copy.
        let addresses = self.put_args(&cells);
        let operands = self.b.ins().iadd_imm_s(addresses, 16);
        let shape = CheckedLanes {
            width: 1,
            operands: args.len() as u32 - 1,
            operand_bytes: 8,
            ..CheckedLanes::default()
        };
        let shape = self.int(types::I64, shape.to_bits() | 1);
        let thread = self.wide(self.here.thread);
        let thread = self.b.ins().ishl_imm_u(thread, CheckedLanes::THREAD);
        let shape = self.b.ins().bor(shape, thread);
        let what = self.int(types::I64, access.to_bits());
        let loc = self.function.dfg.locs[inst].to_bits();
        let loc = self.int(types::I64, loc);
        let args = [self.fixed.ctx, addresses, what, loc, operands, shape];
        let offset = offset_of!(Helpers, observe_lanes);
        self.helper("observe_lanes", offset, &args, None);
        Ok(())
    }

    /// Emits a call of the host, which records an event of this lane that is not a memory access, or code that counts the
    /// event.
    pub(crate) fn observe_event(&mut self, inst: Inst, data: &InstData) {
        if let Some(Counted::Run { at, .. }) = self.counters.get(inst) {
            return self.count_run(inst, at);
        }
        let args = self.function.dfg.args(inst).to_vec();
        let cells = self.area(0, args.len().max(1));
        for (index, &value) in args.iter().enumerate() {
            let bits = self.get(value);
            self.b.ins().store(host(), bits, cells, 4 * index as i32);
        }
        let shape = CheckedLanes {
            width: 1,
            operands: args.len() as u32,
            operand_bytes: 4,
            ..CheckedLanes::default()
        };
        let shape = self.int(types::I64, shape.to_bits() | 1);
        let thread = self.wide(self.here.thread);
        let thread = self.b.ins().ishl_imm_u(thread, CheckedLanes::THREAD);
        let shape = self.b.ins().bor(shape, thread);
        let payload = self.int(types::I64, data.payload());
        let loc = self.function.dfg.locs[inst].to_bits();
        let loc = self.int(types::I64, loc);
        let args = [self.fixed.ctx, payload, loc, cells, shape];
        let offset = offset_of!(Helpers, observe_event);
        self.helper("observe_event", offset, &args, None);
    }
}
