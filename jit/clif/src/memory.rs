//! Memory accesses.
//!
//! [`whole`] accesses groups of contiguous lanes with whole registers, and this module all others lane by lane in
//! ascending order. The access of an inactive lane goes to a spare cell of the stack frame instead, so that groups with
//! active and inactive lanes need no branches.

mod whole;

use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use margay_ir::entity::{Inst, Value};
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::data::{Access, Data};

use crate::group::{Group, LANES, Registers, groups, register_types, scalar_type};
use crate::lower::Lower;

/// Where the lanes of an access are in memory.
#[derive(Clone)]
enum Places {
    /// At `base + displacement + stride * lane`.
    Strided { base: ir::Value },
    /// At `base + displacement + stride * offset`, with an offset of a kind for each lane.
    Indexed {
        base: ir::Value,
        offsets: Registers,
        kind: Kind,
    },
}

/// An access of an instruction, and the kind of its values.
#[derive(Clone)]
struct Operation {
    inst: Inst,
    access: Access,
    kind: Kind,
    lanes: u32,
    places: Places,
    /// The lanes that access memory; `None` if all do.
    mask: Option<Registers>,
}

/// Which of the two spare cells inactive lanes access.
#[derive(Clone, Copy)]
enum Spare {
    /// The cell that is zero.
    Zero = 0,
    /// The cell whose contents nothing uses.
    Sink = 1,
}

/// Returns the flags of an access to the program's memory, which may fault and have any alignment.
fn device() -> MemFlagsData {
    MemFlagsData::new()
}

/// Returns the type of an element in memory.
fn element_type(memory: OpType) -> ir::Type {
    match memory {
        OpType::F32 => types::F32,
        OpType::F64 => types::F64,
        _ => ir::Type::int(memory.bits() as u16).unwrap_or(types::I8),
    }
}

impl Lower<'_, '_> {
    /// Returns the access of an instruction, with `fixed` operands before the optional mask.
    fn operation(&self, inst: Inst, value: Value, places: Places, fixed: usize) -> Operation {
        let mask = self.function.args(inst).get(fixed);
        Operation {
            inst,
            access: self.access(inst),
            kind: self.kind(value),
            lanes: self.lanes(inst),
            places,
            mask: mask.map(|&mask| self.get(mask)),
        }
    }

    fn access(&self, inst: Inst) -> Access {
        match self.function.insts[inst].data {
            Data::Access(access) => access,
            _ => Access::new(OpType::B8, 0),
        }
    }

    fn strided(&self, inst: Inst) -> Places {
        Places::Strided {
            base: self.scalar(self.function.args(inst)[0]),
        }
    }

    fn indexed(&self, inst: Inst) -> Places {
        let args = self.function.args(inst);
        Places::Indexed {
            base: self.scalar(args[0]),
            offsets: self.get(args[1]),
            kind: self.kind(args[1]),
        }
    }

    pub(crate) fn load(&mut self, inst: Inst) {
        let result = self.result(inst);
        let operation = self.operation(inst, result, self.strided(inst), 1);
        let registers = self.loaded(&operation);
        self.define(result, registers);
    }

    pub(crate) fn gather(&mut self, inst: Inst) {
        let result = self.result(inst);
        let operation = self.operation(inst, result, self.indexed(inst), 2);
        let registers = self.loaded(&operation);
        self.define(result, registers);
    }

    pub(crate) fn store(&mut self, inst: Inst) {
        let value = self.function.args(inst)[1];
        let operation = self.operation(inst, value, self.strided(inst), 2);
        self.stored(&operation, value);
    }

    pub(crate) fn scatter(&mut self, inst: Inst) {
        let value = self.function.args(inst)[2];
        let operation = self.operation(inst, value, self.indexed(inst), 3);
        self.stored(&operation, value);
    }

    fn loaded(&mut self, operation: &Operation) -> Registers {
        if operation.lanes == 1 {
            let at = self.place(operation, 0);
            return [self.load_scalar(operation, at)].as_slice().into();
        }
        let is_one =
            matches!(operation.places, Places::Strided { .. }) && operation.access.stride == 0;
        if is_one && operation.mask.is_none() {
            let at = self.place(operation, 0);
            let scalar = self.load_scalar(operation, at);
            let ty = Type::vector(operation.kind, operation.lanes);
            return self.splat_all(scalar, ty.expect("the number of lanes is that of a type"));
        }
        let contiguous = self.is_contiguous(operation);
        (0..groups(operation.lanes) as u32)
            .flat_map(|group| match contiguous {
                true => self.load_group(operation, group).to_vec(),
                false => self.load_each(operation, group).to_vec(),
            })
            .collect()
    }

    fn stored(&mut self, operation: &Operation, value: Value) {
        let registers = self.get(value);
        if operation.lanes == 1 {
            let at = self.place(operation, 0);
            return self.store_scalar(operation, registers[0], at);
        }
        let contiguous = self.is_contiguous(operation);
        for group in 0..groups(operation.lanes) as u32 {
            match contiguous {
                true => self.store_group(operation, &registers, group),
                false => self.store_each(operation, &registers, group),
            }
        }
    }

    /// Returns the numbers of the lanes of a group.
    fn lanes_of(operation: &Operation, group: u32) -> std::ops::Range<u32> {
        let first = group * LANES;
        first..operation.lanes.min(first + LANES)
    }

    /// Returns the address of a lane as a base and an offset.
    fn address(&mut self, operation: &Operation, lane: u32) -> (ir::Value, i32) {
        let Access {
            stride,
            displacement,
            ..
        } = operation.access;
        match operation.places {
            Places::Strided { base } => {
                let distance = stride.wrapping_mul(i64::from(lane));
                let offset = distance.wrapping_add(i64::from(displacement));
                match i32::try_from(offset) {
                    Ok(offset) => (base, offset),
                    Err(_) => (self.code.b.ins().iadd_imm_s(base, offset), 0),
                }
            }
            Places::Indexed {
                base,
                ref offsets,
                kind,
            } => {
                let offset = match operation.lanes {
                    1 => offsets[0],
                    _ => self.lane(offsets, kind, lane),
                };
                let b = &mut *self.code.b;
                let offset = match kind {
                    Kind::B64 => offset,
                    _ => b.ins().sextend(types::I64, offset),
                };
                let distance = match stride {
                    1 => offset,
                    _ if stride > 0 && (stride as u64).is_power_of_two() => {
                        let by = i64::from(stride.trailing_zeros());
                        b.ins().ishl_imm_u(offset, by)
                    }
                    _ => b.ins().imul_imm_s(offset, stride),
                };
                (b.ins().iadd(base, distance), displacement)
            }
        }
    }

    /// Returns the address of a lane, or that of a spare cell if a mask does not contain the lane. Records the lane as the
    /// origin of the code that follows.
    fn place_or(&mut self, operation: &Operation, lane: u32, spare: Spare) -> (ir::Value, i32) {
        self.mark(operation.inst, lane);
        let (base, offset) = self.address(operation, lane);
        let Some(mask) = &operation.mask else {
            return (base, offset);
        };
        let condition = match operation.lanes {
            1 => mask[0],
            _ => self.lane(mask, Kind::Pred, lane),
        };
        let b = &mut *self.code.b;
        let address = match offset {
            0 => base,
            _ => b.ins().iadd_imm_s(base, i64::from(offset)),
        };
        let slots = self.spare.expect("the function has masked accesses");
        let other = b.ins().stack_addr(types::I64, slots[spare as usize], 0);
        (b.ins().select(condition, address, other), 0)
    }

    fn place(&mut self, operation: &Operation, lane: u32) -> (ir::Value, i32) {
        let spare = match self.function.results(operation.inst).is_empty() {
            true => Spare::Sink,
            false => Spare::Zero,
        };
        self.place_or(operation, lane, spare)
    }

    /// Loads a scalar.
    fn load_scalar(
        &mut self,
        operation: &Operation,
        (base, offset): (ir::Value, i32),
    ) -> ir::Value {
        let (element, ty) = (
            element_type(operation.access.memory),
            scalar_type(operation.kind),
        );
        let b = &mut *self.code.b;
        let bits = b.ins().load(element, device(), base, offset);
        match (element == ty, operation.access.memory.is_signed()) {
            (true, _) => bits,
            (false, true) => b.ins().sextend(ty, bits),
            (false, false) => b.ins().uextend(ty, bits),
        }
    }

    /// Stores a scalar.
    fn store_scalar(
        &mut self,
        operation: &Operation,
        scalar: ir::Value,
        (base, offset): (ir::Value, i32),
    ) {
        let element = element_type(operation.access.memory);
        let b = &mut *self.code.b;
        let bits = match b.func.dfg.value_type(scalar) == element {
            true => scalar,
            false => b.ins().ireduce(element, scalar),
        };
        b.ins().store(device(), bits, base, offset);
    }

    /// Loads the lanes of a group one by one.
    fn load_each(&mut self, operation: &Operation, group: u32) -> Group {
        let lanes: Vec<ir::Value> = Self::lanes_of(operation, group)
            .map(|lane| {
                let at = self.place(operation, lane);
                if operation.kind == Kind::B128 && operation.access.memory.bits() == 128 {
                    let (base, offset) = at;
                    return (self.code.b.ins()).load(types::I64X2, device(), base, offset);
                }
                let scalar = self.load_scalar(operation, at);
                self.widened(scalar, operation.kind)
            })
            .collect();
        let registers = self.gathered(&lanes, operation.kind);
        Group::new(&registers)
    }

    /// Stores the lanes of a group one by one.
    fn store_each(&mut self, operation: &Operation, registers: &[ir::Value], group: u32) {
        for lane in Self::lanes_of(operation, group) {
            let at = self.place(operation, lane);
            if operation.kind == Kind::B128 && operation.access.memory.bits() == 128 {
                let (base, offset) = at;
                let register = self.lane(registers, Kind::B128, lane);
                self.code.b.ins().store(device(), register, base, offset);
                continue;
            }
            let scalar = self.extract(registers, operation.kind, lane);
            self.store_scalar(operation, scalar, at);
        }
    }

    /// Returns the Cranelift types of the registers of a group.
    fn group_types(operation: &Operation) -> Vec<ir::Type> {
        let lanes = operation.lanes.min(LANES);
        let ty = Type::vector(operation.kind, lanes);
        register_types(ty.expect("the number of lanes is that of a type")).collect()
    }
}
