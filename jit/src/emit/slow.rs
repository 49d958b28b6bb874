//! Calls of the host for reference functions and system calls, and calls of device functions.

use std::mem::offset_of;

use cranelift_codegen::ir::{self, AbiParam, InstBuilder, StackSlotData, StackSlotKind, types};
use cranelift_codegen::isa::CallConv;
use margay_ir::entity::{FuncId, Inst, SigId, Value};
use margay_ir::function::InstData;
use margay_ir::observe::ObservedAccess;
use margay_ir::syscall::Syscall;
use margay_ops::meaning::Desc;
use margay_ops::mods::{MemOrder, StateSpace};

use super::clif_type;
use super::lane::{EmitError, Lane, fixed, host};
use crate::abi::{CheckedLane, FunctionEntry, Helpers, NativeContext, status};
use crate::addresses::Target;
use crate::fallback::Fallback;

/// Number of cells, of 16 bytes each, in each of the shared stack slots for operands and results.
const SHARED_CELLS: usize = 16;

/// Maximum number of nested native calls. A deeper call ends the launch with a stack overflow.
const MAX_DEPTH: i64 = 2048;

impl Lane<'_, '_> {
    /// Emits a call of a host function.
    pub(crate) fn helper(
        &mut self,
        name: &'static str,
        offset: usize,
        args: &[ir::Value],
        result: Option<ir::Type>,
    ) -> Option<ir::Value> {
        let table = self.field(types::I64, offset_of!(NativeContext, helpers));
        let target = self.b.ins().load(types::I64, fixed(), table, offset as i32);
        let sig = match self.signatures.get(name) {
            Some(&sig) => sig,
            None => {
                let mut sig = ir::Signature::new(CallConv::SystemV);
                sig.params.extend(
                    args.iter()
                        .map(|&v| AbiParam::new(self.b.func.dfg.value_type(v))),
                );
                sig.returns.extend(result.map(AbiParam::new));
                let sig = self.b.import_signature(sig);
                self.signatures.insert(name, sig);
                sig
            }
        };
        let call = self.b.ins().call_indirect(sig, target, args);
        self.b.inst_results(call).first().copied()
    }

    /// Returns the address of stack memory for `count` cells of 16 bytes, for operands (`which` is 0) or results
    /// (`which` is 1). No two instructions use such memory at the same time, so all instructions
    /// with few cells share one slot for operands and one slot for results.
    pub(crate) fn area(&mut self, which: usize, count: usize) -> ir::Value {
        let shared = count <= SHARED_CELLS;
        let known = if shared { self.areas[which] } else { None };
        let slot = known.unwrap_or_else(|| {
            let bytes = 16 * count.max(SHARED_CELLS) as u32;
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
            self.b.create_sized_stack_slot(data)
        });
        if shared {
            self.areas[which] = Some(slot);
        }
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Emits the store of a value, zero-extended to 16 bytes.
    pub(crate) fn store_wide(&mut self, bits: ir::Value, to: ir::Value, offset: i32) {
        let bits = self.as_int(bits);
        if self.b.func.dfg.value_type(bits) == types::I128 {
            self.b.ins().store(host(), bits, to, offset);
            return;
        }
        let wide = self.wide(bits);
        let zero = self.b.ins().iconst(types::I64, 0);
        self.b.ins().store(host(), wide, to, offset);
        self.b.ins().store(host(), zero, to, offset + 8);
    }

    /// Emits the load of a value from a cell of 16 bytes.
    pub(crate) fn load_wide(&mut self, value: Value, from: ir::Value, offset: i32) -> ir::Value {
        let ty = clif_type(self.function.dfg.ty(value));
        self.b.ins().load(ty, host(), from, offset)
    }

    pub(crate) fn put_args(&mut self, values: &[ir::Value]) -> ir::Value {
        let area = self.area(0, values.len());
        for (i, &bits) in values.iter().enumerate() {
            self.store_wide(bits, area, 16 * i as i32);
        }
        area
    }

    pub(crate) fn take_results(&mut self, inst: Inst, area: ir::Value) {
        for (i, value) in self
            .function
            .dfg
            .results(inst)
            .to_vec()
            .into_iter()
            .enumerate()
        {
            let bits = self.load_wide(value, area, 16 * i as i32);
            self.set(value, bits);
        }
    }

    /// Emits the address of an op description as a constant. The compiled function owns the description.
    pub(crate) fn desc(&mut self, desc: Desc) -> ir::Value {
        Target::Desc(self.descs.number_of(desc)).emit(self.b)
    }

    /// Emits a call of the reference function that computes a pure operation.
    pub(crate) fn slow_pure(&mut self, inst: Inst, data: &InstData) {
        self.fallbacks.note(Fallback::SlowOperation);
        let args: Vec<ir::Value> = self
            .function
            .dfg
            .args(inst)
            .to_vec()
            .into_iter()
            .map(|v| self.get(v))
            .collect();
        let results = self.function.dfg.results(inst).len();
        let counts = args.len() as i64 | (results as i64) << 16;
        let args = self.put_args(&args);
        let out = self.area(1, results);
        let desc = self.desc(data.desc());
        let counts = self.b.ins().iconst(types::I32, counts);
        self.helper(
            "pure",
            offset_of!(Helpers, pure_op),
            &[desc, args, out, counts],
            None,
        );
        self.take_results(inst, out);
    }

    pub(crate) fn isspacep(&mut self, inst: Inst, data: &InstData) {
        let address = self.arg(inst, 0);
        let address = self.wide(address);
        let space = self.b.ins().iconst(types::I32, data.mods.space() as i64);
        let offset = offset_of!(Helpers, in_space);
        let args = [self.fixed.ctx, space, address];
        if let Some(inside) = self.helper("in_space", offset, &args, Some(types::I32)) {
            let bit = self.b.ins().ireduce(types::I8, inside);
            self.result(inst, bit);
        }
    }

    pub(crate) fn copy_async(&mut self, inst: Inst) {
        let target = self.arg(inst, 0);
        let target = self.host_address(target, StateSpace::Shared);
        let mut args = vec![self.fixed.ctx, target];
        for i in 1..4 {
            let value = self.arg(inst, i);
            args.push(self.wide(value));
        }
        if let Some(code) = self.helper("copy", offset_of!(Helpers, copy), &args, Some(types::I32))
        {
            self.check(code);
        }
    }

    pub(crate) fn syscall(&mut self, inst: Inst, payload: u64) {
        let values: Vec<ir::Value> = self
            .function
            .dfg
            .args(inst)
            .to_vec()
            .into_iter()
            .map(|v| self.get(v))
            .collect();
        let args = self.put_args(&values);
        let results = Syscall::from_payload(payload).map_or(0, |call| call.results().len());
        let out = self.area(1, results);
        let which = self.b.ins().iconst(types::I32, payload as i64);
        let all = [self.fixed.ctx, which, args, out];
        if let Some(code) = self.helper(
            "syscall",
            offset_of!(Helpers, syscall),
            &all,
            Some(types::I32),
        ) {
            self.check(code);
        }
        self.take_results(inst, out);
    }

    /// Emits a call of a host helper, which performs a texture or surface access.
    pub(crate) fn texture(&mut self, inst: Inst, payload: u64) {
        let values = self.function.dfg.args(inst).to_vec();
        let values: Vec<ir::Value> = values.into_iter().map(|v| self.get(v)).collect();
        let results = self.function.dfg.results(inst).len();
        let counts = values.len() as i64 | (results as i64) << 16;
        let args = self.put_args(&values);
        let out = self.area(1, results);
        let access = self.b.ins().iconst(types::I64, payload as i64);
        let counts = self.b.ins().iconst(types::I32, counts);
        let all = [self.fixed.ctx, access, args, out, counts];
        let offset = offset_of!(Helpers, texture);
        if let Some(code) = self.helper("texture", offset, &all, Some(types::I32)) {
            self.check(code);
        }
        self.take_results(inst, out);
    }

    pub(crate) fn call(&mut self, inst: Inst, callee: FuncId) -> Result<(), EmitError> {
        self.fallbacks.note(Fallback::DeviceCall);
        let table = self.field(types::I64, offset_of!(NativeContext, functions));
        let offset = u64::from(callee.0) * size_of::<FunctionEntry>() as u64;
        let offset = i32::try_from(offset + offset_of!(FunctionEntry, code) as u64)
            .map_err(|_| EmitError::Unsupported("more functions than code can address".into()))?;
        let target = self.b.ins().load(types::I64, host(), table, offset);
        let base = self.field(types::I64, offset_of!(NativeContext, function_base));
        let handle = self.b.ins().iadd_imm_s(base, 16 * i64::from(callee.0));
        self.call_native(inst, target, handle, 0);
        Ok(())
    }

    pub(crate) fn call_indirect(&mut self, inst: Inst, signature: SigId) -> Result<(), EmitError> {
        self.fallbacks.note(Fallback::DeviceCall);
        let handle = self.arg(inst, 0);
        let handle = self.wide(handle);
        let base = self.field(types::I64, offset_of!(NativeContext, function_base));
        let distance = self.b.ins().isub(handle, base);
        // Handles are multiples of 16. If a handle is misaligned, the rotation results in an index that is out of
        // range.
        let index = self.b.ins().rotr_imm_u(distance, 4);
        let count = self.field(types::I64, offset_of!(NativeContext, function_count));
        let bad = self.b.ins().icmp(
            ir::condcodes::IntCC::UnsignedGreaterThanOrEqual,
            index,
            count,
        );
        self.abort_call_if(bad, handle);
        let table = self.field(types::I64, offset_of!(NativeContext, functions));
        let offset = self
            .b
            .ins()
            .imul_imm_s(index, size_of::<FunctionEntry>() as i64);
        let entry = self.b.ins().iadd(table, offset);
        let Some(&number) = self.called_signatures.get(&signature) else {
            return Err(EmitError::Unsupported("a call without a signature".into()));
        };
        let signature = offset_of!(FunctionEntry, signature) as i32;
        let signature = self.b.ins().load(types::I64, host(), entry, signature);
        let other =
            self.b
                .ins()
                .icmp_imm_u(ir::condcodes::IntCC::NotEqual, signature, number as i64);
        self.abort_call_if(other, handle);
        let code = offset_of!(FunctionEntry, code) as i32;
        let target = self.b.ins().load(types::I64, host(), entry, code);
        self.call_native(inst, target, handle, 1);
        Ok(())
    }

    /// Emits the check of an access, which computes the address that the thread must access. The host examines accesses
    /// that generated code cannot examine itself.
    pub(crate) fn check_access(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        let Some(access) = ObservedAccess::of(data) else {
            return self.refuse(data);
        };
        let address = self.arg(inst, 0);
        let base = self.window(access.space);
        let at = self.host_address(address, access.space);
        let what = self.int(types::I64, access.to_bits());
        let loc = self.function.dfg.locs[inst].to_bits();
        let loc = self.int(types::I64, loc);
        let operands = self.function.dfg.args(inst)[1..].to_vec();
        let operands: Vec<ir::Value> = operands.into_iter().map(|v| self.get(v)).collect();
        let number = self.range_number(self.function.dfg.args(inst)[0]);
        let join = self.needs_no_call(access, (at, base), number).map(|ok| {
            let [ask, join] = std::array::from_fn(|_| self.b.create_block());
            self.b.append_block_param(join, types::I64);
            self.b.ins().brif(ok, join, &[at.into()], ask, &[]);
            self.b.switch_to_block(ask);
            self.b.set_cold_block(ask);
            join
        });
        let fixed = CheckedLane {
            thread: 0,
            operands: operands.len() as u16,
            range: number as u16,
        };
        let fixed = self.int(types::I64, fixed.to_bits());
        let cells = self.put_args(&operands);
        let thread = self.wide(self.here.thread);
        let lane = self.b.ins().bor(thread, fixed);
        let args = [self.fixed.ctx, at, what, loc, cells, lane];
        let offset = offset_of!(Helpers, check_access);
        let Some(mut checked) = self.helper("check_access", offset, &args, Some(types::I64)) else {
            return self.refuse(data);
        };
        if let Some(join) = join {
            self.b.ins().jump(join, &[checked.into()]);
            self.b.switch_to_block(join);
            checked = self.b.block_params(join)[0];
        }
        let result = match base {
            Some(base) => self.b.ins().isub(checked, base),
            None => checked,
        };
        let result = match self.b.func.dfg.value_type(address) {
            types::I32 => self.b.ins().ireduce(types::I32, result),
            _ => result,
        };
        self.result(inst, result);
        Ok(())
    }

    /// Emits a call of a host helper, which reports a `check.group` to the checking tools.
    pub(crate) fn check_group(&mut self, inst: Inst, data: &InstData) {
        let mode = self.b.ins().iconst(types::I32, data.mods.mode() as i64);
        let count = match self.function.dfg.args(inst).is_empty() {
            true => self.b.ins().iconst(types::I32, 0),
            false => self.arg(inst, 0),
        };
        let args = [self.fixed.ctx, mode, count, self.here.thread];
        self.helper("check_group", offset_of!(Helpers, check_group), &args, None);
    }

    /// Emits a call of a host helper, which reports a fence to the checking tools.
    pub(crate) fn check_fence(&mut self, data: &InstData) {
        let scope = self.b.ins().iconst(types::I32, data.mods.scope() as i64);
        let is_sc = i64::from(data.mods.order() == MemOrder::Sc);
        let is_sc = self.b.ins().iconst(types::I32, is_sc);
        let args = [self.fixed.ctx, is_sc, scope, self.here.thread];
        self.helper("check_fence", offset_of!(Helpers, check_fence), &args, None);
    }

    /// Emits code that leaves the native function if a local address is beyond the part of local memory that stack
    /// frames may occupy ([`NativeContext::stack_limit`]).
    pub(crate) fn check_stack(&mut self, inst: Inst) {
        let end = self.arg(inst, 0);
        let end = match self.b.func.dfg.value_type(end) {
            types::I32 => end,
            _ => self.b.ins().ireduce(types::I32, end),
        };
        let limit = self.field(types::I32, offset_of!(NativeContext, stack_limit));
        let beyond = ir::condcodes::IntCC::UnsignedGreaterThan;
        let full = self.b.ins().icmp(beyond, end, limit);
        self.abort_if(full, status::STACK);
    }

    /// Emits code that leaves the native function with a status if a condition holds.
    fn abort_if(&mut self, cond: ir::Value, code: i32) {
        let (bad, good) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(cond, bad, &[], good, &[]);
        self.b.switch_to_block(bad);
        self.b.set_cold_block(bad);
        self.abort(code);
        self.b.switch_to_block(good);
    }

    /// Emits code that leaves the native function if `cond` is true, because the function with this handle cannot be
    /// called.
    fn abort_call_if(&mut self, cond: ir::Value, handle: ir::Value) {
        let (bad, good) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(cond, bad, &[], good, &[]);
        self.b.switch_to_block(bad);
        self.b.set_cold_block(bad);
        self.abort_call(handle);
        self.b.switch_to_block(good);
    }

    /// Emits a call of a device function. Its arguments are the operands of an instruction without the first `skip`
    /// operands.
    fn call_native(&mut self, inst: Inst, target: ir::Value, handle: ir::Value, skip: usize) {
        let missing = self
            .b
            .ins()
            .icmp_imm_s(ir::condcodes::IntCC::Equal, target, 0);
        self.abort_call_if(missing, handle);
        let offset = offset_of!(NativeContext, depth) as i32;
        let depth = self
            .b
            .ins()
            .load(types::I32, host(), self.fixed.ctx, offset);
        let full = self.b.ins().icmp_imm_s(
            ir::condcodes::IntCC::UnsignedGreaterThanOrEqual,
            depth,
            MAX_DEPTH,
        );
        self.abort_if(full, status::STACK);
        let deeper = self.b.ins().iadd_imm_s(depth, 1);
        self.b.ins().store(host(), deeper, self.fixed.ctx, offset);
        let values: Vec<ir::Value> = self.function.dfg.args(inst)[skip..]
            .iter()
            .map(|&v| self.get(v))
            .collect();
        let results = self.function.dfg.results(inst).len();
        let area = self.area(0, values.len().max(results));
        for (i, &bits) in values.iter().enumerate() {
            self.store_wide(bits, area, 16 * i as i32);
        }
        let size = margay_ir::analysis::slots::layout(self.function).1;
        let local = self.b.ins().iadd_imm_s(self.here.local, i64::from(size));
        let sig = match self.signatures.get("device") {
            Some(&sig) => sig,
            None => {
                let sig = self.b.import_signature(super::device::signature());
                self.signatures.insert("device", sig);
                sig
            }
        };
        let args = [self.fixed.ctx, self.here.thread, local, area];
        let call = self.b.ins().call_indirect(sig, target, &args);
        let code = self.b.inst_results(call)[0];
        self.b.ins().store(host(), depth, self.fixed.ctx, offset);
        self.check_callee(code);
        self.take_results(inst, area);
    }
}
