//! Texture and surface accesses: one call of the host for all active lanes, with operands and results in memory.

use std::mem::offset_of;

use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, types};
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::Inst;
use margay_ops::types::{Kind, Type};

use super::{Lanes, Slice, vector_type};
use crate::abi::{Helpers, NativeContext};
use crate::emit::lane::{EmitError, host};

/// Number of rows in the stack memory that all accesses share. Each operand and result needs a row; an access that
/// needs more rows runs lane by lane.
const ROWS: usize = 20;

/// Returns whether the lanes of a value of this type can be passed to the host as a row.
fn has_row(ty: Type) -> bool {
    !matches!(ty.kind(), Kind::Pred | Kind::F64 | Kind::B128)
}

impl Slice<'_, '_> {
    /// Emits a texture or surface access for all active lanes.
    pub(super) fn texture(&mut self, inst: Inst, payload: u64) -> Result<(), EmitError> {
        let dfg = &self.lane.function.dfg;
        let (args, results) = (dfg.args(inst).to_vec(), dfg.results(inst).to_vec());
        let fits = args.len() + results.len() <= ROWS
            && args
                .iter()
                .chain(&results)
                .all(|&value| has_row(dfg.ty(value)));
        let class = |value| self.view.uniformity.class(value);
        if !fits || results.iter().any(|&value| class(value) != Class::Varying) {
            return self.each_lane(inst);
        }
        let active = self.active_bits();
        let stride = 8 * self.view.width as i32;
        let rows = self.rows();
        let mut uniform = 0u32;
        for (row, &arg) in args.iter().enumerate() {
            let at = row as i32 * stride;
            if self.is_uniform(arg) {
                uniform |= 1 << row;
                let bits = self.lane.get(arg);
                let bits = self.widened(bits, self.lane.function.dfg.ty(arg).kind());
                self.lane.b.ins().store(host(), bits, rows, at);
                continue;
            }
            for (i, &vector) in self.get(arg)?.iter().enumerate() {
                let at = at + 16 * i as i32;
                self.lane.b.ins().store(host(), vector, rows, at);
            }
        }
        let ctx = self.lane.fixed.ctx;
        let first = self.lane.here.thread;
        let at = offset_of!(NativeContext, thread) as i32;
        self.lane.b.ins().store(host(), first, ctx, at);
        let counts = args.len() as u64 | (results.len() as u64) << 8;
        let counts = counts | u64::from(self.view.width) << 16;
        let [counts, uniform] = [counts, uniform.into()].map(|n| self.lane.int(types::I32, n));
        let access = self.lane.int(types::I64, payload);
        let all = [ctx, access, rows, active, counts, uniform];
        let offset = offset_of!(Helpers, texture_lanes);
        let code = self
            .lane
            .helper("texture_lanes", offset, &all, Some(types::I32));
        if let Some(code) = code {
            self.lane.check(code);
        }
        for (i, &value) in results.iter().enumerate() {
            let ty = vector_type(self.lane.function.dfg.ty(value))?;
            let at = (args.len() + i) as i32 * stride;
            let lanes: Lanes = (0..self.count(ty) as i32)
                .map(|i| self.lane.b.ins().load(ty, host(), rows, at + 16 * i))
                .collect();
            self.set(value, &lanes)?;
        }
        Ok(())
    }

    /// Returns the address of the stack memory for the rows of one access.
    fn rows(&mut self) -> cranelift_codegen::ir::Value {
        let slot = *self.rows.get_or_insert_with(|| {
            let bytes = 8 * self.view.width * ROWS as u32;
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
            self.lane.b.create_sized_stack_slot(data)
        });
        self.lane.b.ins().stack_addr(types::I64, slot, 0)
    }
}
