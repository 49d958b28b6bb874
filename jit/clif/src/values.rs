//! Reads, writes and converts the lanes of values, which are in registers or in the stack frame.

use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, types};
use margay_ir::entity::Value;
use margay_ops::types::{Kind, Type};
use smallvec::SmallVec;

use crate::group::{Group, LANES, Registers, lane_bytes, registers, scalar_type, vector_type};
use crate::lower::Lower;

/// The lanes of a value in the stack frame. Each lane has [`lane_bytes`] bytes.
#[derive(Clone, Copy)]
pub(crate) struct Cells {
    pub(crate) slot: ir::StackSlot,
    /// The offset of the first lane.
    pub(crate) start: u32,
}

/// Returns the flags of an access to the stack frame.
pub(crate) fn frame() -> MemFlagsData {
    MemFlagsData::trusted()
}

impl Lower<'_, '_> {
    pub(crate) fn get(&self, value: Value) -> Registers {
        self.values[value].clone()
    }

    /// Returns the register of a scalar.
    pub(crate) fn scalar(&self, value: Value) -> ir::Value {
        self.values[value][0]
    }

    pub(crate) fn ty(&self, value: Value) -> Type {
        self.function.ty(value)
    }

    pub(crate) fn kind(&self, value: Value) -> Kind {
        self.function.ty(value).kind()
    }

    pub(crate) fn define(&mut self, value: Value, registers: impl Into<Registers>) {
        self.values[value] = registers.into();
    }

    /// Returns group `index` of a vector with lanes of the kind `kind`.
    pub(crate) fn group(values: &[ir::Value], kind: Kind, index: usize) -> Group {
        let count = registers(kind);
        Group::new(&values[index * count..][..count])
    }

    /// Returns a value of `ty` whose lanes are all zero.
    pub(crate) fn zero(&mut self, ty: Type) -> Registers {
        self.constant(ty, 0)
    }

    /// Returns a value of `ty` whose lanes have the bits `bits`.
    pub(crate) fn constant(&mut self, ty: Type, bits: u64) -> Registers {
        if ty.lanes() == 1 {
            return [self.scalar_constant(ty.kind(), bits)]
                .into_iter()
                .collect();
        }
        let (lane, bits) = match ty.kind() {
            Kind::Pred => (types::I32, (bits & 1).wrapping_neg()),
            Kind::B64 | Kind::F64 | Kind::B128 => (types::I64, bits),
            _ => (types::I32, bits),
        };
        let is_whole = ty.kind() != Kind::B128;
        let value = |n: u32| if is_whole || n == 0 { bits } else { 0 };
        let register = self.code.vector_constant(lane, value);
        let register = self.code.cast(register, vector_type(ty.kind()));
        let count = crate::group::register_types(ty).count();
        SmallVec::from_elem(register, count)
    }

    pub(crate) fn scalar_constant(&mut self, kind: Kind, bits: u64) -> ir::Value {
        match kind {
            Kind::B128 => {
                let low = self.code.scalar_constant(types::I64, bits);
                let high = self.code.scalar_constant(types::I64, 0);
                self.code.b.ins().iconcat(low, high)
            }
            Kind::F32 | Kind::F64 => {
                let ty = scalar_type(kind);
                let bits = self.code.scalar_constant(ty.as_int(), bits);
                self.code.cast(bits, ty)
            }
            _ => self.code.scalar_constant(scalar_type(kind), bits),
        }
    }

    /// Converts a scalar to the form that it has as a lane of a vector. A `b128` becomes a register.
    pub(crate) fn widened(&mut self, scalar: ir::Value, kind: Kind) -> ir::Value {
        let b = &mut *self.code.b;
        match kind {
            Kind::Pred => {
                let word = b.ins().uextend(types::I32, scalar);
                b.ins().ineg(word)
            }
            Kind::B8 | Kind::B16 => b.ins().uextend(types::I32, scalar),
            Kind::B128 => {
                let (low, high) = b.ins().isplit(scalar);
                let register = b.ins().scalar_to_vector(types::I64X2, low);
                b.ins().insertlane(register, high, 1)
            }
            _ => scalar,
        }
    }

    /// The inverse of [`Lower::widened`].
    pub(crate) fn narrowed(&mut self, lane: ir::Value, kind: Kind) -> ir::Value {
        let b = &mut *self.code.b;
        match kind {
            Kind::Pred => {
                let byte = b.ins().ireduce(types::I8, lane);
                b.ins().band_imm_u(byte, 1)
            }
            Kind::B8 | Kind::B16 => b.ins().ireduce(scalar_type(kind), lane),
            Kind::B128 => {
                let low = b.ins().extractlane(lane, 0);
                let high = b.ins().extractlane(lane, 1);
                b.ins().iconcat(low, high)
            }
            _ => lane,
        }
    }

    /// Returns lane `lane` of a vector as a scalar.
    pub(crate) fn extract(&mut self, values: &[ir::Value], kind: Kind, lane: u32) -> ir::Value {
        let lane = self.lane(values, kind, lane);
        self.narrowed(lane, kind)
    }

    /// Returns lane `lane` of a vector in the form that it has there.
    pub(crate) fn lane(&mut self, values: &[ir::Value], kind: Kind, lane: u32) -> ir::Value {
        let per = LANES / registers(kind) as u32;
        let register = values[(lane / per) as usize];
        match kind {
            Kind::B128 => register,
            _ => (self.code.b.ins()).extractlane(register, (lane % per) as u8),
        }
    }

    /// Replaces lane `lane` of a vector by a lane in the form that it has there.
    pub(crate) fn replace(
        &mut self,
        values: &mut [ir::Value],
        kind: Kind,
        lane: u32,
        with: ir::Value,
    ) {
        let per = LANES / registers(kind) as u32;
        let register = &mut values[(lane / per) as usize];
        *register = match kind {
            Kind::B128 => with,
            _ => (self.code.b.ins()).insertlane(*register, with, (lane % per) as u8),
        };
    }

    /// Returns the vector whose lanes are `lanes`, which have the form that they have there.
    pub(crate) fn gathered(&mut self, lanes: &[ir::Value], kind: Kind) -> Registers {
        if kind == Kind::B128 {
            let mut all: Registers = lanes.into();
            while !all.len().is_multiple_of(LANES as usize) {
                all.push(lanes[0]);
            }
            return all;
        }
        let ty = vector_type(kind);
        let per = ty.lane_count() as usize;
        let mut all = Registers::new();
        for chunk in lanes.chunks(per) {
            let mut register = self.code.b.ins().scalar_to_vector(ty, chunk[0]);
            for (index, &lane) in chunk.iter().enumerate().skip(1) {
                register = self.code.b.ins().insertlane(register, lane, index as u8);
            }
            all.push(register);
        }
        while !all.len().is_multiple_of(registers(kind)) {
            all.push(all[0]);
        }
        all
    }

    /// Returns a group whose lanes are all a scalar.
    pub(crate) fn splat(&mut self, scalar: ir::Value, kind: Kind) -> Group {
        let lane = self.widened(scalar, kind);
        if kind == Kind::B128 {
            return Group::new(&[lane; 4]);
        }
        let register = self.code.b.ins().splat(vector_type(kind), lane);
        Group::new(&[register; 4][..registers(kind)])
    }

    /// Returns a part of the stack frame that no other code of the instruction uses.
    pub(crate) fn scratch(&mut self, size: u32) -> ir::StackSlot {
        let size = size.next_multiple_of(16);
        let is_free = |&&mut (_, has, is_used): &&mut (ir::StackSlot, u32, bool)| {
            !is_used && (size..=4 * size).contains(&has)
        };
        if let Some((slot, _, is_used)) = self.scratch.iter_mut().find(is_free) {
            *is_used = true;
            return *slot;
        }
        let slot = self.stack_slot(size);
        self.scratch.push((slot, size, true));
        slot
    }

    /// Creates a part of the stack frame at a multiple of 16 bytes.
    pub(crate) fn stack_slot(&mut self, size: u32) -> ir::StackSlot {
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4);
        self.code.b.create_sized_stack_slot(data)
    }

    /// Stores a value in a part of the stack frame.
    pub(crate) fn store_frame(&mut self, value: ir::Value, at: Cells) {
        let offset = at.start as i32;
        let b = &mut *self.code.b;
        b.ins().stack_store(types::I64, value, at.slot, offset);
    }

    /// Loads a value from a part of the stack frame.
    pub(crate) fn load_frame(&mut self, ty: ir::Type, from: Cells) -> ir::Value {
        let offset = from.start as i32;
        let b = &mut *self.code.b;
        b.ins().stack_load(types::I64, ty, from.slot, offset)
    }

    /// Stores the registers of a value in a part of the stack frame.
    pub(crate) fn spill(&mut self, values: &[ir::Value], at: Cells) {
        for (index, &register) in (0..).zip(values) {
            let start = at.start + 16 * index;
            self.store_frame(register, Cells { start, ..at });
        }
    }

    /// Stores a vector in a new part of the stack frame, and returns its address.
    pub(crate) fn spilled(&mut self, values: &[ir::Value]) -> (Cells, ir::Value) {
        let slot = self.scratch(16 * values.len() as u32);
        let cells = Cells { slot, start: 0 };
        self.spill(values, cells);
        let address = self.code.b.ins().stack_addr(types::I64, slot, 0);
        (cells, address)
    }

    /// Loads a vector from a part of the stack frame.
    pub(crate) fn reload(&mut self, ty: Type, from: Cells) -> Registers {
        let types = crate::group::register_types(ty);
        (0..)
            .zip(types)
            .map(|(index, ty)| {
                let start = from.start + 16 * index;
                self.load_frame(ty, Cells { start, ..from })
            })
            .collect()
    }

    /// Returns the type of a lane of a vector in memory.
    pub(crate) fn lane_type(kind: Kind) -> ir::Type {
        match kind {
            Kind::B128 => types::I64X2,
            _ => vector_type(kind).lane_type(),
        }
    }

    /// Returns the address of lane `index`, an integer of 64 bits, of a vector in the stack frame.
    pub(crate) fn cell(&mut self, address: ir::Value, kind: Kind, index: ir::Value) -> ir::Value {
        let shift = i64::from(lane_bytes(kind).trailing_zeros());
        let offset = self.code.b.ins().ishl_imm_u(index, shift);
        self.code.b.ins().iadd(address, offset)
    }
}
