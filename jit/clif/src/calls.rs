//! Calls of helpers, and of the function that applies an operation to each lane.

use cranelift_codegen::ir::{self, BlockArg, InstBuilder, SigRef, types};
use margay_ir::entity::{Inst, Value};
use margay_ops::meaning::Desc;
use margay_ops::types::{Kind, Type};

use crate::abi::{HELPER_TRAP, apply_signature, helper_signature};
use crate::apply::LaneCall;
use crate::group::{Registers, lane_bytes, scalar_type};
use crate::lower::Lower;
use crate::symbols::Symbol;
use crate::values::{Cells, frame};

/// Counts an operation by its name.
pub(crate) fn count(counts: &mut Vec<(&'static str, u32)>, name: &'static str) {
    match counts.iter_mut().find(|(known, _)| *known == name) {
        Some((_, count)) => *count += 1,
        None => counts.push((name, 1)),
    }
}

impl Lower<'_, '_> {
    /// Calls a helper with scalars, and returns its status and the address of its results.
    fn call_helper(&mut self, number: usize, args: &[ir::Value]) -> (ir::Value, ir::Value) {
        let helper = &self.function.helpers[number].signature;
        let signature = helper_signature(helper, self.convention());
        let signature = self.code.b.import_signature(signature);
        let slot = self.scratch(16 * helper.returns.len().max(1) as u32);
        let b = &mut *self.code.b;
        let results = b.ins().stack_addr(types::I64, slot, 0);
        let mut passed = Vec::new();
        for &arg in args {
            match b.func.dfg.value_type(arg) == types::I128 {
                true => {
                    let (low, high) = b.ins().isplit(arg);
                    passed.extend([low, high]);
                }
                false => passed.push(arg),
            }
        }
        passed.push(results);
        let call = self.call_symbol(Symbol::Helper(number as u32), signature, &passed);
        (self.code.b.inst_results(call)[0], results)
    }

    fn convention(&self) -> cranelift_codegen::isa::CallConv {
        self.code.b.func.signature.call_conv
    }

    fn call_symbol(&mut self, symbol: Symbol, signature: SigRef, args: &[ir::Value]) -> ir::Inst {
        let address = symbol.address(self.code.b);
        self.code.b.ins().call_indirect(signature, address, args)
    }

    /// Loads result `index` of a helper.
    fn helper_result(&mut self, results: ir::Value, index: usize, kind: Kind) -> ir::Value {
        let offset = 16 * index as i32;
        let b = &mut *self.code.b;
        let bits = b.ins().load(scalar_type(kind), frame(), results, offset);
        match kind {
            Kind::Pred => b.ins().band_imm_u(bits, 1),
            _ => bits,
        }
    }

    pub(crate) fn call(&mut self, inst: Inst) {
        let function = self.function;
        let args: Vec<ir::Value> = function
            .args(inst)
            .iter()
            .map(|&value| self.scalar(value))
            .collect();
        let (status, results) = self.call_helper(self.number(inst) as usize, &args);
        self.code.b.ins().trapnz(status, HELPER_TRAP);
        for (index, &result) in function.results(inst).iter().enumerate() {
            let bits = self.helper_result(results, index, self.kind(result));
            self.define(result, [bits].as_slice());
        }
    }

    /// Calls a helper in a loop over the lanes of the mask. Operands and results are in the stack frame.
    pub(crate) fn call_lanes(&mut self, inst: Inst) {
        let function = self.function;
        let (args, results) = (function.args(inst), function.results(inst));
        let Some((&mask, args)) = args.split_first() else {
            return;
        };
        let lanes = self.lanes(inst);
        let active = self.ballot(mask);
        let inputs: Vec<(ir::Value, Kind)> = args.iter().map(|&v| self.in_cells(v)).collect();
        let mut outputs = Vec::new();
        for &result in results {
            let ty = self.in_frame(self.kind(result), lanes);
            let zeros = self.zero(ty);
            outputs.push((self.spilled(&zeros), ty));
        }

        let [head, body, end] = std::array::from_fn(|_| self.code.b.create_block());
        let left = self.code.b.append_block_param(head, types::I64);
        self.code.b.ins().jump(head, &[BlockArg::Value(active)]);
        self.code.b.switch_to_block(head);
        self.code.b.ins().brif(left, body, &[], end, &[]);
        self.code.b.switch_to_block(body);
        let number = self.code.b.ins().ctz(left);
        let operands: Vec<ir::Value> = inputs
            .iter()
            .map(|&(address, kind)| {
                let cell = self.cell(address, kind, number);
                let lane = (self.code.b.ins()).load(Self::lane_type(kind), frame(), cell, 0);
                self.narrowed(lane, kind)
            })
            .collect();
        let (status, from) = self.call_helper(self.number(inst) as usize, &operands);
        self.trap_of_lane(inst, status, number, lanes);
        for (index, &((_, address), ty)) in outputs.iter().enumerate() {
            let bits = self.helper_result(from, index, ty.kind());
            let lane = self.widened(bits, ty.kind());
            let cell = self.cell(address, ty.kind(), number);
            self.code.b.ins().store(frame(), lane, cell, 0);
        }
        let below = self.code.b.ins().iadd_imm_s(left, -1);
        let rest = self.code.b.ins().band(left, below);
        self.code.b.ins().jump(head, &[BlockArg::Value(rest)]);
        self.code.b.switch_to_block(end);
        for (&result, ((cells, _), ty)) in results.iter().zip(outputs) {
            let registers = self.reload(ty, cells);
            let registers = match lanes {
                1 => [self.extract(&registers, ty.kind(), 0)].as_slice().into(),
                _ => registers,
            };
            self.define(result, registers);
        }
    }

    /// Returns the type of the vector that holds the lanes of a value in the stack frame; that of a scalar has two lanes.
    fn in_frame(&self, kind: Kind, lanes: u32) -> Type {
        Type::vector(kind, lanes.max(2)).expect("the number of lanes is that of a type")
    }

    /// Stores the lanes of a value in the stack frame, and returns their address and kind.
    fn in_cells(&mut self, value: Value) -> (ir::Value, Kind) {
        let (kind, lanes) = (self.kind(value), self.ty(value).lanes());
        let registers = match lanes {
            1 => {
                let group = self.splat(self.scalar(value), kind);
                group.iter().copied().collect()
            }
            _ => self.get(value),
        };
        (self.spilled(&registers).1, kind)
    }

    /// Traps with the lane `number` as the origin if the helper ended the program. There is one trap instruction for each
    /// lane.
    fn trap_of_lane(&mut self, inst: Inst, status: ir::Value, number: ir::Value, lanes: u32) {
        let [ended, goes_on] = std::array::from_fn(|_| self.code.b.create_block());
        self.code.b.ins().brif(status, ended, &[], goes_on, &[]);
        self.code.b.set_cold_block(ended);
        self.code.b.switch_to_block(ended);
        let traps: Vec<ir::Block> = (0..lanes).map(|_| self.code.b.create_block()).collect();
        let calls: Vec<ir::BlockCall> = traps
            .iter()
            .map(|&block| {
                let pool = &mut self.code.b.func.dfg.value_lists;
                ir::BlockCall::new(block, std::iter::empty::<BlockArg>(), pool)
            })
            .collect();
        let table = ir::JumpTableData::new(calls[0], &calls);
        let table = self.code.b.create_jump_table(table);
        let index = self.code.b.ins().ireduce(types::I32, number);
        self.code.b.ins().br_table(index, table);
        for (lane, block) in (0..).zip(traps) {
            self.code.b.set_cold_block(block);
            self.code.b.switch_to_block(block);
            self.mark(inst, lane);
            self.code.b.ins().trap(HELPER_TRAP);
        }
        self.code.b.switch_to_block(goes_on);
        self.mark(inst, 0);
    }

    /// Applies an operation to each lane by a call, and returns its results.
    pub(crate) fn applied(
        &mut self,
        desc: Desc,
        lanes: u32,
        args: &[(Type, Registers)],
        results: &[Kind],
    ) -> Vec<Registers> {
        let call = LaneCall {
            desc,
            lanes,
            operands: args.iter().map(|&(ty, _)| ty).collect(),
            results: results.to_vec(),
        };
        count(&mut self.report.fallbacks, desc.opcode.name());
        let operands = self.scratch(call.operand_bytes().max(16) as u32);
        let outputs = self.scratch(call.result_bytes().max(16) as u32);
        let mut start = 0;
        for (ty, registers) in args {
            let cells = Cells {
                slot: operands,
                start,
            };
            match ty.lanes() {
                1 => self.store_cell(ty.kind(), registers[0], cells),
                _ => self.spill_lanes(*ty, registers, cells),
            }
            start += LaneCall::bytes(*ty) as u32;
        }
        let number = self.number_of(call);
        let b = &mut *self.code.b;
        let addresses = [operands, outputs].map(|slot| b.ins().stack_addr(types::I64, slot, 0));
        let desc = Symbol::LaneCall(number).address(b);
        let signature = apply_signature(b.func.signature.call_conv);
        let signature = b.import_signature(signature);
        self.call_symbol(
            Symbol::Apply,
            signature,
            &[desc, addresses[0], addresses[1]],
        );
        let mut start = 0;
        results
            .iter()
            .map(|&kind| {
                let ty = Type::vector(kind, lanes).expect("the number of lanes is that of a type");
                let cells = Cells {
                    slot: outputs,
                    start,
                };
                start += LaneCall::bytes(ty) as u32;
                match lanes {
                    1 => [self.load_cell(kind, cells)].as_slice().into(),
                    _ => self.reload_lanes(ty, cells),
                }
            })
            .collect()
    }

    /// Returns the number of a description in the report.
    fn number_of(&mut self, call: LaneCall) -> u32 {
        let calls = &mut self.report.lane_calls;
        let known = calls.iter().position(|known| *known == call);
        let number = known.unwrap_or_else(|| {
            calls.push(call);
            calls.len() - 1
        });
        number as u32
    }

    /// Stores a scalar in the form of a lane.
    fn store_cell(&mut self, kind: Kind, scalar: ir::Value, at: Cells) {
        let lane = self.widened(scalar, kind);
        self.store_frame(lane, at);
    }

    fn load_cell(&mut self, kind: Kind, at: Cells) -> ir::Value {
        let lane = self.load_frame(Self::lane_type(kind), at);
        self.narrowed(lane, kind)
    }

    /// Stores the registers of a vector that contain lanes.
    fn spill_lanes(&mut self, ty: Type, registers: &[ir::Value], at: Cells) {
        let count = Self::used_registers(ty);
        self.spill(&registers[..count], at);
    }

    /// Loads the registers of a vector that contain lanes. The other registers of a group repeat them.
    fn reload_lanes(&mut self, ty: Type, from: Cells) -> Registers {
        let count = Self::used_registers(ty);
        let all = crate::group::register_types(ty).count();
        let of = crate::group::vector_type(ty.kind());
        let mut registers: Registers = (0..count)
            .map(|index| {
                let start = from.start + 16 * index as u32;
                self.load_frame(of, Cells { start, ..from })
            })
            .collect();
        registers.resize(all, registers[0]);
        registers
    }

    fn used_registers(ty: Type) -> usize {
        (ty.lanes() * lane_bytes(ty.kind())).div_ceil(16) as usize
    }
}
