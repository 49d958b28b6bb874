//! Control flow: branches, sync points, calls and structural operations.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use margay_exec::SyncPoint;
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::{
    BlockCall, InstData, payload_func, payload_sig, payload_slot, split_symbol_payload,
};
use margay_ops::ops::Opcode;
use margay_ops::types::Kind;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::lane::{EmitError, Lane, fixed, host};
use crate::abi::{CHECKED_TURN, NativeContext, WAITING_TURN, status};

/// Returns the edges of a branch table without repetitions, and for each entry of the table the index of its edge. Many
/// entries of a table can lead to the same block, with the same arguments.
pub(crate) fn distinct(targets: &[BlockCall]) -> (Vec<&BlockCall>, Vec<usize>) {
    let mut edges = Vec::new();
    let mut known: FxHashMap<&BlockCall, usize> = FxHashMap::default();
    let entries = targets.iter().map(|call| {
        *known.entry(call).or_insert_with(|| {
            edges.push(call);
            edges.len() - 1
        })
    });
    let entries = entries.collect();
    (edges, entries)
}

impl Lane<'_, '_> {
    pub(crate) fn terminate(&mut self, inst: Inst) -> Result<(), EmitError> {
        let data = self.function.dfg.insts[inst];
        let targets = self.function.dfg.targets(inst);
        match data.opcode {
            Opcode::Jump => self.jump_to(&targets[0]),
            Opcode::Brif => {
                let cond = self.arg(inst, 0);
                let [then, other] = [0, 1].map(|which| self.block(targets[which].block));
                let [for_then, for_other] = [0, 1].map(|which| self.passed(&targets[which]));
                let brif = self.b.ins();
                brif.brif(cond, then, &for_then, other, &for_other);
            }
            Opcode::BrTable => self.branch_table(inst, targets),
            Opcode::Exit => self.stop(SyncPoint::EXIT),
            Opcode::Ret => self.leave_function(inst),
            Opcode::Trap => self.abort(status::TRAP),
            Opcode::InvalidPc => {
                let handle = self.arg(inst, 0);
                self.abort_call(handle);
            }
            _ => self.abort(status::UNREACHABLE),
        }
        Ok(())
    }

    /// Returns the Cranelift block to which a branch jumps for an IR edge: the block of the target or, if the edge
    /// passes arguments, a new block that passes them to the target.
    fn edge(&mut self, call: &BlockCall) -> ir::Block {
        if call.args.is_empty() {
            self.block(call.block)
        } else {
            self.b.create_block()
        }
    }

    fn fill_edge(&mut self, edge: ir::Block, call: &BlockCall) {
        if !call.args.is_empty() {
            self.b.switch_to_block(edge);
            self.jump_to(call);
        }
    }

    fn jump_to(&mut self, call: &BlockCall) {
        let args = self.passed(call);
        let target = self.block(call.block);
        self.b.ins().jump(target, &args);
    }

    /// Returns the arguments that an IR edge passes to its target.
    fn passed(&mut self, call: &BlockCall) -> SmallVec<[BlockArg; 8]> {
        let args = call.args.iter();
        args.map(|&arg| BlockArg::Value(self.get(arg))).collect()
    }

    fn branch_table(&mut self, inst: Inst, targets: &[BlockCall]) {
        let (calls, entries) = distinct(targets);
        let edges: Vec<ir::Block> = calls.iter().map(|call| self.edge(call)).collect();
        let table: Vec<ir::Block> = entries.iter().map(|&entry| edges[entry]).collect();
        let index = self.function.dfg.args(inst)[0];
        self.table_jump(index, &table);
        for (&edge, call) in edges.iter().zip(calls) {
            self.fill_edge(edge, call);
        }
    }

    /// Emits a jump to `edges[index + 1]`, or to `edges[0]` if the index is out of range.
    pub(crate) fn table_jump(&mut self, index: Value, edges: &[ir::Block]) {
        let index = self.get(index);
        let calls: Vec<ir::BlockCall> = edges
            .iter()
            .map(|&edge| {
                let pool = &mut self.b.func.dfg.value_lists;
                ir::BlockCall::new(edge, std::iter::empty::<BlockArg>(), pool)
            })
            .collect();
        let table = ir::JumpTableData::new(calls[0], &calls[1..]);
        let table = self.b.create_jump_table(table);
        let ty = self.b.func.dfg.value_type(index);
        let index = if ty == types::I32 {
            index
        } else {
            self.b.ins().ireduce(types::I32, index)
        };
        self.b.ins().br_table(index, table);
    }

    /// Emits the jump with which the lane stops at a sync point. The jump leads to `Leave::next` and passes the
    /// number of the sync point.
    pub(crate) fn stop(&mut self, sync_point: SyncPoint) {
        if !self.sync_points.contains(&sync_point) {
            self.sync_points.push(sync_point);
        }
        let number = self
            .b
            .ins()
            .iconst(types::I32, i64::from(sync_point.0 as i32));
        self.b
            .ins()
            .jump(self.leave.next, &[BlockArg::Value(number)]);
    }

    /// Emits code that leaves the native function with a status.
    pub(crate) fn abort(&mut self, code: i32) {
        self.note_place();
        let code = self.b.ins().iconst(types::I32, i64::from(code));
        self.b
            .ins()
            .jump(self.leave.abort, &[BlockArg::Value(code)]);
    }

    /// Emits code that leaves the native function because a handle does not belong to a callable
    /// function.
    pub(crate) fn abort_call(&mut self, handle: ir::Value) {
        let handle = self.wide(handle);
        let offset = offset_of!(NativeContext, ended_handle) as i32;
        self.b.ins().store(host(), handle, self.fixed.ctx, offset);
        self.abort(status::INVALID_PC);
    }

    /// Emits code that stores in the context the source position of the instruction that ends the native function.
    fn note_place(&mut self) {
        let words = [
            (offset_of!(NativeContext, ended_line), self.at.ptx_line),
            (offset_of!(NativeContext, ended_loc), self.at.loc),
        ];
        for (offset, word) in words {
            let word = self.b.ins().iconst(types::I32, i64::from(word));
            self.b
                .ins()
                .store(host(), word, self.fixed.ctx, offset as i32);
        }
    }

    /// Emits a test of the `code` that a helper returned. If `code` is zero, execution continues. Otherwise the native
    /// function returns `code`.
    pub(crate) fn check(&mut self, code: ir::Value) {
        let (bad, next) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(code, bad, &[], next, &[]);
        self.b.switch_to_block(bad);
        self.b.set_cold_block(bad);
        self.note_place();
        self.b
            .ins()
            .jump(self.leave.abort, &[BlockArg::Value(code)]);
        self.b.switch_to_block(next);
    }

    /// Emits a test of the `code` that a called function returned. If `code` is zero, execution continues. Otherwise
    /// the native function returns `code`. The callee has already stored the source position in the context.
    pub(crate) fn check_callee(&mut self, code: ir::Value) {
        let next = self.b.create_block();
        self.b
            .ins()
            .brif(code, self.leave.abort, &[BlockArg::Value(code)], next, &[]);
        self.b.switch_to_block(next);
    }

    fn leave_function(&mut self, inst: Inst) {
        let Some(to) = self.results_to else {
            return self.stop(SyncPoint::EXIT);
        };
        let values = self.function.dfg.args(inst).to_vec();
        for (i, value) in values.into_iter().enumerate() {
            let bits = self.get(value);
            self.store_wide(bits, to, 16 * i as i32);
        }
        self.stop(SyncPoint::EXIT);
    }

    /// Emits the code for a sync point: lanes continue, or store their live values and stop. Returns true if the
    /// emitted code ends the block.
    pub(crate) fn sync_point(&mut self, _block: Block, inst: Inst) -> Result<bool, EmitError> {
        let data = self.function.dfg.insts[inst];
        let sync_point = self.regions.and_then(|regions| regions.sync_point(inst));
        let Some(sync_point) = sync_point else {
            return match data.opcode {
                // Without frames, lanes cannot wait, so only operations that do not need to wait are supported.
                Opcode::Nanosleep => Ok(false),
                _ => self.refuse(&data),
            };
        };
        if data.opcode == Opcode::Yield {
            self.yield_when_due(inst, sync_point);
            return Ok(false);
        }
        self.save_behind(inst);
        self.stop(sync_point);
        Ok(true)
    }

    /// Emits code that stores to the frame the operands of a sync point and the values that are live after it.
    fn save_behind(&mut self, inst: Inst) {
        let results = self.function.dfg.results(inst);
        let behind = self.behind(inst).unwrap_or_default();
        for &value in behind.iter().filter(|value| !results.contains(value)) {
            if !self.keeps_in_frame(value) && !self.is_stored(inst, value) {
                self.store_value(value);
            }
        }
        for &value in self.function.dfg.args(inst) {
            if !behind.contains(&value) && self.function.dfg.constant(value).is_none() {
                self.store_value(value);
            }
        }
    }

    /// Emits code that counts the turns of one iteration of a waiting loop ([`NativeContext::turns`]), and that makes the
    /// lane yield when no turns are left.
    fn yield_when_due(&mut self, inst: Inst, sync_point: SyncPoint) {
        let go_on = self.count_turn(inst);
        self.save_behind(inst);
        self.stop(sync_point);
        self.b.switch_to_block(go_on);
    }

    /// Emits code that subtracts the turns of one iteration of a waiting loop from the remaining turns. Returns the
    /// block in which the code continues if turns are left. After the call, the builder is in the block that runs if no
    /// turns are left, so that the lane must yield.
    pub(crate) fn count_turn(&mut self, inst: Inst) -> ir::Block {
        let offset = offset_of!(NativeContext, turns) as i32;
        let turns = self
            .b
            .ins()
            .load(types::I32, host(), self.fixed.ctx, offset);
        let only_reads = self.function.dfg.insts[inst].mods.flag();
        // The race detector needs microseconds for an iteration, so fewer iterations must pass between two yields.
        let cost = match (only_reads, self.request.order) {
            (true, false) => 1,
            (true, true) | (false, false) => WAITING_TURN,
            (false, true) => CHECKED_TURN,
        };
        let left = self.b.ins().iadd_imm_s(turns, -i64::from(cost));
        self.b.ins().store(host(), left, self.fixed.ctx, offset);
        let (due, go_on) = (self.b.create_block(), self.b.create_block());
        let over = self
            .b
            .ins()
            .icmp_imm_s(IntCC::SignedLessThanOrEqual, left, 0);
        self.b.ins().brif(over, due, &[], go_on, &[]);
        self.b.switch_to_block(due);
        self.b.set_cold_block(due);
        let rest = match only_reads {
            true => {
                let budget = offset_of!(NativeContext, turn_budget) as i32;
                self.b
                    .ins()
                    .load(types::I32, host(), self.fixed.ctx, budget)
            }
            // One turn is left, so after this lane has yielded, the lanes that run next yield in their first iteration.
            false => self.b.ins().iconst(types::I32, 1),
        };
        self.b.ins().store(host(), rest, self.fixed.ctx, offset);
        go_on
    }

    /// Emits an operation that has a payload instead of modifiers.
    pub(crate) fn structural(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        let payload = data.payload();
        match data.opcode {
            Opcode::Const => self.constant(inst, payload),
            Opcode::SReg => self.special_register(inst, payload)?,
            Opcode::Clock => self.clock(inst, payload),
            Opcode::ObserveEvent => self.observe_event(inst, data),
            Opcode::LocalAddr => {
                let offset = self.slots[payload_slot(payload)];
                let address = self.b.ins().iadd_imm_s(self.here.local, i64::from(offset));
                let wide = self.b.ins().uextend(types::I64, address);
                self.result_of_width(inst, wide);
            }
            Opcode::SymbolAddr => {
                let (symbol, addend) = split_symbol_payload(payload);
                let table = self.field(types::I64, offset_of!(NativeContext, symbols));
                let offset = i32::try_from(u64::from(symbol.0) * 8).map_err(|_| {
                    EmitError::Unsupported("more symbols than code can address".into())
                })?;
                let base = self.b.ins().load(types::I64, fixed(), table, offset);
                let address = self.b.ins().iadd_imm_s(base, i64::from(addend));
                self.result_of_width(inst, address);
            }
            Opcode::ParamAddr => {
                let base = self.field(types::I64, offset_of!(NativeContext, params));
                let address = self.b.ins().iadd_imm_s(base, payload as i64);
                self.result_of_width(inst, address);
            }
            Opcode::FuncAddr => {
                let base = self.field(types::I64, offset_of!(NativeContext, function_base));
                let handle = self
                    .b
                    .ins()
                    .iadd_imm_s(base, 16 * (payload & 0xffff_ffff) as i64);
                self.result_of_width(inst, handle);
            }
            Opcode::Call => self.call(inst, payload_func(payload))?,
            Opcode::CallIndirect => self.call_indirect(inst, payload_sig(payload))?,
            Opcode::Syscall => self.syscall(inst, payload),
            Opcode::Tex | Opcode::Txq | Opcode::Suld | Opcode::Sust | Opcode::Sured => {
                self.texture(inst, payload);
            }
            _ => return self.refuse(data),
        }
        Ok(())
    }

    fn constant(&mut self, inst: Inst, payload: u64) {
        let value = self.function.dfg.results(inst)[0];
        let bits = match self.function.dfg.ty(value).kind() {
            Kind::F32 => self.b.ins().f32const(f32::from_bits(payload as u32)),
            Kind::F64 => self.b.ins().f64const(f64::from_bits(payload)),
            Kind::B128 => {
                let (low, high) = (self.int(types::I64, payload), self.int(types::I64, 0));
                self.b.ins().iconcat(low, high)
            }
            kind => {
                let ty = super::clif_type(margay_ops::types::Type::scalar(kind));
                self.int(ty, payload)
            }
        };
        self.set(value, bits);
    }

    /// Sets the first result of an instruction to an address, which is truncated if the result has only 32 bits.
    pub(crate) fn result_of_width(&mut self, inst: Inst, wide: ir::Value) {
        let Some(&value) = self.function.dfg.results(inst).first() else {
            return;
        };
        let ty = super::clif_type(self.function.dfg.ty(value));
        let bits = if ty == types::I64 {
            wide
        } else {
            self.b.ins().ireduce(ty, wide)
        };
        self.set(value, bits);
    }
}

#[cfg(test)]
mod tests {
    use margay_ir::entity::Entity;

    use super::*;

    #[test]
    fn entries_of_a_table_share_equal_edges() {
        let call = |block: usize, args: &[u32]| BlockCall {
            block: Block::new(block),
            args: args.iter().copied().map(Value).collect(),
        };
        let table = [
            call(1, &[]),
            call(2, &[7, 8]),
            call(1, &[]),
            call(2, &[7, 9]),
            call(2, &[7, 8]),
        ];
        let (edges, entries) = distinct(&table);
        assert_eq!(edges, [&table[0], &table[1], &table[3]]);
        assert_eq!(entries, [0, 1, 0, 2, 1]);
    }
}
