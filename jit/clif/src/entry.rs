//! The start and the end of functions: the stack frame, arguments and results (see [`Layout`]).

use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::{Block, Inst};
use margay_ops::types::{Kind, Type};
use margay_vir::ops::Op;

use crate::abi::Layout;
use crate::group::{Registers, lane_bytes, register_types, scalar_type};
use crate::lower::Lower;
use crate::values::{Cells, frame};

/// Returns whether the lanes of a value are in memory as they are in registers: without gaps, in whole registers.
fn is_whole(ty: Type) -> bool {
    let bytes = ty.lane_bytes();
    bytes == lane_bytes(ty.kind())
        && ty.lanes() > 1
        && !is_mask(ty)
        && (ty.lanes() * bytes).is_multiple_of(16)
}

/// Returns whether a type is that of a mask, whose lanes are bits in memory.
fn is_mask(ty: Type) -> bool {
    ty.kind() == Kind::Pred && ty.lanes() > 1
}

impl Lower<'_, '_> {
    /// Emits the start of the function: loads the arguments and prepares the stack frame.
    pub(crate) fn prologue(&mut self, entry: Block) {
        let start = self.code.b.create_block();
        self.code.b.append_block_params_for_function_params(start);
        self.code.b.switch_to_block(start);
        let (arguments, results) = match *self.code.b.block_params(start) {
            [arguments, results, ..] => (arguments, results),
            _ => return,
        };
        self.results = results;
        self.create_slots();
        if self.has_masked_access() {
            let spare = [self.stack_slot(16), self.stack_slot(16)];
            let zero = self.code.vector_constant(ir::types::I64, |_| 0);
            let cells = Cells {
                slot: spare[0],
                start: 0,
            };
            self.store_frame(zero, cells);
            self.spare = Some(spare);
        }
        let params = &self.function.blocks[entry];
        let types: Vec<Type> = params.iter().map(|&param| self.ty(param)).collect();
        let layout = Layout::of(&types);
        for ((&param, ty), start) in params.iter().zip(types).zip(layout.offsets) {
            let registers = self.argument(ty, (arguments, start as i32));
            self.define(param, registers);
        }
    }

    fn has_masked_access(&self) -> bool {
        let mut insts = self.function.insts.iter();
        insts.any(|(inst, data)| {
            let unmasked = match data.op {
                Op::Load => 1,
                Op::Store | Op::Gather => 2,
                Op::Scatter => 3,
                _ => return false,
            };
            self.function.args(inst).len() > unmasked
        })
    }

    /// Loads an argument.
    fn argument(&mut self, ty: Type, (base, start): (ir::Value, i32)) -> Registers {
        if is_whole(ty) {
            let used = ty.lanes() * ty.lane_bytes() / 16;
            let mut all: Registers = (0..used as i32)
                .zip(register_types(ty))
                .map(|(index, ty)| {
                    self.code
                        .b
                        .ins()
                        .load(ty, frame(), base, start + 16 * index)
                })
                .collect();
            // A vector of two lanes also has registers without meaning.
            all.resize(register_types(ty).count(), all[0]);
            return all;
        }
        if is_mask(ty) {
            let bits = (self.code.b.ins()).load(types::I64, frame(), base, start);
            return self.mask_of(bits, ty.lanes());
        }
        let (kind, bytes) = (ty.kind(), ty.lane_bytes() as i32);
        let scalars: Vec<ir::Value> = (0..ty.lanes() as i32)
            .map(|lane| {
                let b = &mut *self.code.b;
                b.ins()
                    .load(scalar_type(kind), frame(), base, start + bytes * lane)
            })
            .collect();
        if ty.lanes() == 1 {
            return scalars.as_slice().into();
        }
        let lanes: Vec<ir::Value> = scalars
            .into_iter()
            .map(|scalar| self.widened(scalar, kind))
            .collect();
        self.gathered(&lanes, kind)
    }

    /// Stores the results and returns.
    pub(crate) fn ret(&mut self, inst: Inst) {
        let args = self.function.args(inst);
        let types: Vec<Type> = args.iter().map(|&value| self.ty(value)).collect();
        let layout = Layout::of(&types);
        for ((&value, ty), start) in args.iter().zip(types).zip(layout.offsets) {
            let registers = self.get(value);
            self.store_result(&registers, ty, start as i32);
        }
        self.code.b.ins().return_(&[]);
    }

    fn store_result(&mut self, registers: &[ir::Value], ty: Type, start: i32) {
        let (kind, bytes) = (ty.kind(), ty.lane_bytes());
        if is_whole(ty) {
            let used = (ty.lanes() * bytes / 16) as usize;
            for (index, &register) in (0..).zip(&registers[..used]) {
                let offset = start + 16 * index;
                let b = &mut *self.code.b;
                b.ins().store(frame(), register, self.results, offset);
            }
            return;
        }
        if is_mask(ty) {
            let bits = self.bits_of(registers, ty.lanes());
            let b = &mut *self.code.b;
            b.ins().store(frame(), bits, self.results, start);
            return;
        }
        for lane in 0..ty.lanes() {
            let scalar = match ty.lanes() {
                1 => registers[0],
                _ => self.extract(registers, kind, lane),
            };
            let offset = start + (bytes * lane) as i32;
            let b = &mut *self.code.b;
            b.ins().store(frame(), scalar, self.results, offset);
        }
    }
}
