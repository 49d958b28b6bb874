//! Ops that move lanes to places that are not constants: through the stack frame, or by a byte shuffle within a group.

use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::{Inst, Value};
use margay_ops::types::{Kind, Type};

use crate::group::{LANES, Registers, groups, lane_bytes, registers, vector_type};
use crate::lower::Lower;
use crate::values::{Cells, frame};

impl Lower<'_, '_> {
    /// Lowers `permute` and `permute2`. The last operand contains the numbers of lanes.
    pub(crate) fn permute(&mut self, inst: Inst) {
        let (args, result) = (self.function.args(inst), self.result(inst));
        let Some((&numbers, sources)) = args.split_last() else {
            return;
        };
        let ty = self.ty(result);
        let numbers = self.get(numbers);
        let registers = match (ty.lanes(), sources) {
            (1, &[one]) => self.get(one),
            (1, _) => self.chosen(sources, numbers[0]),
            (..=LANES, &[one]) if registers(ty.kind()) == 1 => {
                let source = self.get(one)[0];
                let shuffled = self.shuffled(source, numbers[0], ty);
                [shuffled].as_slice().into()
            }
            _ => self.through_memory(sources, &numbers, ty),
        };
        self.define(result, registers);
    }

    /// Returns one of two scalars, by the lowest bit of a number.
    fn chosen(&mut self, sources: &[Value], number: ir::Value) -> Registers {
        let scalars: Vec<ir::Value> = sources.iter().map(|&value| self.scalar(value)).collect();
        let b = &mut *self.code.b;
        let is_second = b.ins().band_imm_u(number, 1);
        let chosen = b.ins().select(is_second, scalars[1], scalars[0]);
        [chosen].as_slice().into()
    }

    /// Shuffles lanes of 32 bits within a group.
    fn shuffled(&mut self, source: ir::Value, numbers: ir::Value, ty: Type) -> ir::Value {
        let last = u64::from(ty.lanes() - 1);
        let mask = self.code.vector_constant(types::I32, |_| last);
        let four = self.code.vector_constant(types::I32, |_| 0x0404_0404);
        let offsets = self.code.vector_constant(types::I32, |_| 0x0302_0100);
        let source = self.code.cast(source, types::I8X16);
        let b = &mut *self.code.b;
        let numbers = b.ins().band(numbers, mask);
        let first = b.ins().imul(numbers, four);
        let bytes = b.ins().iadd(first, offsets);
        let bytes = self.code.cast(bytes, types::I8X16);
        let shuffled = self.code.b.ins().swizzle(source, bytes);
        self.code.cast(shuffled, vector_type(ty.kind()))
    }

    /// Stores the lanes of all sources one after the other, and loads each lane from its place.
    fn through_memory(&mut self, sources: &[Value], numbers: &[ir::Value], ty: Type) -> Registers {
        let (kind, lanes) = (ty.kind(), ty.lanes());
        let bytes = lanes * lane_bytes(kind);
        let slot = self.scratch(2 * (bytes.max(16 * registers(kind) as u32)));
        for (index, &value) in (0..).zip(sources) {
            let registers = self.get(value);
            // The registers of two lanes of 32 bits may also contain lanes without meaning, which the next source
            // overwrites.
            let start = index * bytes;
            self.spill(&registers, Cells { slot, start });
        }
        let count = sources.len() as u64 * u64::from(lanes);
        let address = self.code.b.ins().stack_addr(types::I64, slot, 0);
        let found: Vec<ir::Value> = (0..lanes)
            .map(|lane| {
                let number = self.lane(numbers, Kind::B32, lane);
                let number = self.code.b.ins().band_imm_u(number, count as i64 - 1);
                let number = self.code.b.ins().uextend(types::I64, number);
                let cell = self.cell(address, kind, number);
                let ty = Self::lane_type(kind);
                self.code.b.ins().load(ty, frame(), cell, 0)
            })
            .collect();
        self.gathered(&found, kind)
    }

    /// Returns the lanes of a mask as integers of 64 bits that are 0 or 1.
    fn mask_bits(&mut self, mask: &[ir::Value], lanes: u32) -> Vec<ir::Value> {
        (0..lanes)
            .map(|lane| {
                let word = self.lane(mask, Kind::Pred, lane);
                let bit = self.code.b.ins().ushr_imm_u(word, 31);
                self.code.b.ins().uextend(types::I64, bit)
            })
            .collect()
    }

    /// Stores each lane at the next place, and advances only behind the lanes of the mask.
    pub(crate) fn compress(&mut self, inst: Inst) {
        let (args, result) = (self.function.args(inst), self.result(inst));
        let (kind, lanes) = (self.kind(result), self.ty(result).lanes());
        let (values, mask) = (self.get(args[0]), self.get(args[1]));
        if lanes == 1 {
            return self.keep_if(inst, mask[0], values[0]);
        }
        let ty = self.ty(result);
        let zeros = self.zero(ty);
        let slot = self.scratch(16 * values.len() as u32 + 16);
        self.spill(&zeros, Cells { slot, start: 0 });
        let bits = self.mask_bits(&mask, lanes);
        let mut at = self.code.b.ins().stack_addr(types::I64, slot, 0);
        let shift = i64::from(lane_bytes(kind).trailing_zeros());
        for (lane, bit) in (0..lanes).zip(bits) {
            let value = self.lane(&values, kind, lane);
            let b = &mut *self.code.b;
            b.ins().store(frame(), value, at, 0);
            let step = b.ins().ishl_imm_u(bit, shift);
            at = b.ins().iadd(at, step);
        }
        // The place behind the last lane of the mask contains a lane that is not in the mask, or is behind all lanes.
        let zero = self.lane(&zeros, kind, 0);
        self.code.b.ins().store(frame(), zero, at, 0);
        let found = self.reload(ty, Cells { slot, start: 0 });
        self.define(result, found);
    }

    /// Loads each lane of the mask from the next place.
    pub(crate) fn expand(&mut self, inst: Inst) {
        let (args, result) = (self.function.args(inst), self.result(inst));
        let (kind, lanes) = (self.kind(result), self.ty(result).lanes());
        let (values, mask) = (self.get(args[0]), self.get(args[1]));
        if lanes == 1 {
            return self.keep_if(inst, mask[0], values[0]);
        }
        let (_, mut at) = self.spilled(&values);
        let bits = self.mask_bits(&mask, lanes);
        let shift = i64::from(lane_bytes(kind).trailing_zeros());
        let ty = Self::lane_type(kind);
        let found: Vec<ir::Value> = bits
            .into_iter()
            .map(|bit| {
                let b = &mut *self.code.b;
                let lane = b.ins().load(ty, frame(), at, 0);
                let step = b.ins().ishl_imm_u(bit, shift);
                at = b.ins().iadd(at, step);
                lane
            })
            .collect();
        let found = self.gathered(&found, kind);
        let found = self.or_zero(&mask, &found, self.ty(result));
        self.define(result, found);
    }

    /// Replaces the lanes that are not in the mask by zero.
    pub(crate) fn or_zero(
        &mut self,
        mask: &[ir::Value],
        values: &[ir::Value],
        ty: Type,
    ) -> Registers {
        let zeros = self.zero(ty);
        self.code.mode = Self::mode(ty.lanes());
        let kind = ty.kind();
        (0..groups(ty.lanes()))
            .flat_map(|index| {
                let mask = Self::group(mask, Kind::Pred, index);
                let (value, zero) = match ty.lanes() {
                    1 => (values[0].into(), zeros[0].into()),
                    _ => (
                        Self::group(values, kind, index),
                        Self::group(&zeros, kind, index),
                    ),
                };
                self.code.select(mask, value, zero).to_vec()
            })
            .collect()
    }

    /// Defines the result, a scalar, as `value` if the condition is true and as zero otherwise.
    fn keep_if(&mut self, inst: Inst, condition: ir::Value, value: ir::Value) {
        let result = self.result(inst);
        let zero = self.zero(self.ty(result))[0];
        let kept = self.code.b.ins().select(condition, value, zero);
        self.define(result, [kept].as_slice());
    }
}
