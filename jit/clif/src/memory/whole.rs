//! Accesses of contiguous lanes with whole registers.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use margay_ops::types::Kind;

use super::{Operation, Places, device};
use crate::code::Mode;
use crate::group::{Group, LANES, lane_bytes, vector_type};
use crate::lower::Lower;

/// What becomes of a group, depending on which of its lanes access memory.
struct Paths {
    all: ir::Block,
    some: ir::Block,
    join: ir::Block,
}

impl Lower<'_, '_> {
    /// Returns whether the lanes of an access are contiguous, and are accessed with whole registers.
    pub(super) fn is_contiguous(&self, operation: &Operation) -> bool {
        let bytes = i64::from(operation.access.memory.bits() / 8);
        let is_run =
            matches!(operation.places, Places::Strided { .. }) && operation.access.stride == bytes;
        is_run && (operation.kind != Kind::B128 || operation.access.memory.bits() == 128)
    }

    /// Branches by the lanes of a group that access memory, and continues where all do. If none does, the code behind
    /// `join` continues with zeros of the types `types`.
    fn branch_on_mask(
        &mut self,
        operation: &Operation,
        mask: ir::Value,
        group_types: &[ir::Type],
    ) -> Paths {
        let [all, other, some, join] = std::array::from_fn(|_| self.code.b.create_block());
        for &ty in group_types {
            self.code.b.append_block_param(join, ty);
        }
        let are_all = match operation.lanes {
            ..LANES => {
                let bits = self.code.b.ins().vhigh_bits(types::I32, mask);
                let bits = self.code.b.ins().band_imm_u(bits, 3);
                self.code.b.ins().icmp_imm_s(IntCC::Equal, bits, 3)
            }
            _ => self.code.b.ins().vall_true(mask),
        };
        self.code.b.ins().brif(are_all, all, &[], other, &[]);
        self.code.b.switch_to_block(other);
        let any = self.code.b.ins().vany_true(mask);
        let zeros: Vec<BlockArg> = group_types
            .iter()
            .map(|&ty| {
                let zero = self.code.vector_constant(types::I32, |_| 0);
                BlockArg::Value(self.code.cast(zero, ty))
            })
            .collect();
        self.code.b.ins().brif(any, some, &[], join, &zeros);
        self.code.b.switch_to_block(all);
        Paths { all, some, join }
    }

    /// Loads the lanes of a group.
    pub(super) fn load_group(&mut self, operation: &Operation, group: u32) -> Group {
        let Some(mask) = &operation.mask else {
            return self.load_whole(operation, group);
        };
        let group_types = Self::group_types(operation);
        let paths = self.branch_on_mask(operation, mask[group as usize], &group_types);
        let pass = |lower: &mut Self, group: Group| {
            let args: Vec<BlockArg> = group.iter().map(|&r| BlockArg::Value(r)).collect();
            lower.code.b.ins().jump(paths.join, &args);
        };
        debug_assert_eq!(self.code.b.current_block(), Some(paths.all));
        let loaded = self.load_whole(operation, group);
        pass(self, loaded);
        self.code.b.switch_to_block(paths.some);
        let loaded = self.load_each(operation, group);
        pass(self, loaded);
        self.code.b.switch_to_block(paths.join);
        Group::new(self.code.b.block_params(paths.join))
    }

    /// Stores the lanes of a group.
    pub(super) fn store_group(&mut self, operation: &Operation, values: &[ir::Value], group: u32) {
        let Some(mask) = &operation.mask else {
            return self.store_whole(operation, values, group);
        };
        let paths = self.branch_on_mask(operation, mask[group as usize], &[]);
        self.store_whole(operation, values, group);
        self.code.b.ins().jump(paths.join, &[]);
        self.code.b.switch_to_block(paths.some);
        self.store_each(operation, values, group);
        self.code.b.ins().jump(paths.join, &[]);
        self.code.b.switch_to_block(paths.join);
    }

    fn load_whole(&mut self, operation: &Operation, group: u32) -> Group {
        let (memory, kind) = (operation.access.memory, operation.kind);
        let lanes = operation.lanes.min(LANES);
        let bits = memory.bits();
        if bits == 8 * lane_bytes(kind) {
            let bytes = lane_bytes(kind) * lanes;
            return self.load_registers(operation, group, vector_type(kind), bytes);
        }
        let words = match bits {
            32 => self.load_registers(operation, group, types::I32X4, 4 * lanes),
            _ => self.load_narrow(operation, group, bits),
        };
        self.code.mode = Mode::Vector;
        match lane_bytes(kind) {
            8 => self.code.widen(words, memory.is_signed()),
            _ => self.cleared(words[0], kind).into(),
        }
    }

    /// Loads `bytes` bytes to the registers of a group, which have the type `ty`.
    fn load_registers(
        &mut self,
        operation: &Operation,
        group: u32,
        ty: ir::Type,
        bytes: u32,
    ) -> Group {
        let first = group * LANES;
        if bytes == 8 {
            self.mark(operation.inst, first);
            let (base, offset) = self.address(operation, first);
            let b = &mut *self.code.b;
            let bits = b.ins().load(types::I64, device(), base, offset);
            let register = b.ins().scalar_to_vector(types::I64X2, bits);
            return self.code.cast(register, ty).into();
        }
        let lanes = operation.lanes.min(LANES);
        let per = lanes * 16 / bytes;
        let mut registers: Vec<ir::Value> = (0..bytes / 16)
            .map(|index| {
                let lane = first + index * per;
                self.mark(operation.inst, lane);
                let (base, offset) = self.address(operation, lane);
                self.code.b.ins().load(ty, device(), base, offset)
            })
            .collect();
        // A group of two lanes has as many registers as one of four.
        let count = registers.len() * (LANES / lanes) as usize;
        registers.resize(count, registers[0]);
        Group::new(&registers)
    }

    /// Loads integers of 8 or 16 bits and extends them to 32 bits.
    fn load_narrow(&mut self, operation: &Operation, group: u32, bits: u32) -> Group {
        let first = group * LANES;
        self.mark(operation.inst, first);
        let (base, offset) = self.address(operation, first);
        let size = bits * operation.lanes.min(LANES);
        let ty = ir::Type::int(size as u16).unwrap_or(types::I64);
        let b = &mut *self.code.b;
        let loaded = b.ins().load(ty, device(), base, offset);
        let register = match size {
            64 => b.ins().scalar_to_vector(types::I64X2, loaded),
            32 => b.ins().scalar_to_vector(types::I32X4, loaded),
            _ => {
                let word = b.ins().uextend(types::I32, loaded);
                b.ins().scalar_to_vector(types::I32X4, word)
            }
        };
        let signed = operation.access.memory.is_signed();
        let mut register = match bits {
            8 => self.code.cast(register, types::I8X16),
            _ => self.code.cast(register, types::I16X8),
        };
        let mut width = bits;
        while width < 32 {
            let ins = self.code.b.ins();
            register = match signed {
                true => ins.swiden_low(register),
                false => ins.uwiden_low(register),
            };
            width *= 2;
        }
        register.into()
    }

    fn store_whole(&mut self, operation: &Operation, values: &[ir::Value], group: u32) {
        let (memory, kind) = (operation.access.memory, operation.kind);
        let lanes = operation.lanes.min(LANES);
        let bits = memory.bits();
        let mut values = Self::group(values, kind, group as usize);
        if lane_bytes(kind) == 8 && bits < 64 {
            self.code.mode = Mode::Vector;
            values = self.code.low_words(values);
        }
        let bytes = bits / 8 * lanes;
        if bytes >= 16 {
            let per = lanes * 16 / bytes;
            for index in 0..bytes / 16 {
                let lane = group * LANES + index * per;
                self.mark(operation.inst, lane);
                let (base, offset) = self.address(operation, lane);
                let register = values[index as usize];
                self.code.b.ins().store(device(), register, base, offset);
            }
            return;
        }
        let register = match bits {
            // The low bytes of each word; the other places repeat the first byte.
            8 | 16 => {
                let part = (bits / 8) as u8;
                let bytes = (0..4).flat_map(|word| (0..part).map(move |byte| 4 * word + byte));
                let bytes = bytes.chain(std::iter::repeat(0)).take(16);
                self.code.shuffle(values[0], values[0], bytes, types::I32X4)
            }
            _ => values[0],
        };
        let ty = ir::Type::int(8 * bytes as u16).unwrap_or(types::I64);
        let vector = ty.by(128 / ty.bits()).unwrap_or(types::I64X2);
        let register = self.code.cast(register, vector);
        let first = group * LANES;
        self.mark(operation.inst, first);
        let (base, offset) = self.address(operation, first);
        let b = &mut *self.code.b;
        let part = b.ins().extractlane(register, 0);
        b.ins().store(device(), part, base, offset);
    }
}
