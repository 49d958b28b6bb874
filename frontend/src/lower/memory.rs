//! Lowers loads, stores, atomics and address conversions.

use margay_ir::entity::{Slot, Value};
use margay_ops::meaning::Desc;
use margay_ops::mods::{Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};
use smallvec::SmallVec;

use super::env::Binding;
use super::function::FunctionLowering;
use super::operand::Destination;
use super::{Lowered, wrong_kind};
use crate::ast::{Operand, OperandKind};
use crate::resolve::ResolvedInstruction;

impl FunctionLowering<'_, '_> {
    /// Whether a slot in local memory belongs to a `.param` variable.
    pub(super) fn is_param_slot(&self, slot: Slot) -> bool {
        let name = &self.b.function.slots[slot].name;
        self.ast
            .names
            .get(name)
            .is_some_and(|name| self.is_param_name(name))
    }

    /// If the operand is the address of a `.param` variable whose value is in an SSA variable,
    /// returns this SSA variable and the declared type of the `.param` variable.
    fn whole_param(&mut self, operand: &Operand) -> Option<(margay_ir::builder::Variable, OpType)> {
        let OperandKind::Memory { base, offset: 0 } = operand.kind else {
            return None;
        };
        match self.find(base) {
            Some(Binding::Value(variable, ty)) => Some((variable, ty)),
            _ => None,
        }
    }

    /// Returns the address and the state space of a memory operand. If the operand names a
    /// variable, returns the state space of the variable. If the address is in a register, returns
    /// the state space of the instruction.
    pub(super) fn address(
        &mut self,
        operand: &Operand,
        space: StateSpace,
    ) -> Lowered<(Value, StateSpace)> {
        match operand.kind {
            OperandKind::Memory { base, offset } => {
                let (address, own) = self.variable_address(base, offset, operand.span)?;
                let is_register = matches!(self.find(base), Some(Binding::Register(_)));
                let space = if is_register { space } else { own };
                Ok((self.wide_address(address, space), space))
            }
            OperandKind::MemoryAt(at) => Ok((self.b.constant(Type::B64, at as u64), space)),
            OperandKind::Element {
                base,
                register,
                offset,
            } => {
                let address = self.element_address(base, register, offset, operand.span)?;
                Ok((address, space))
            }
            OperandKind::MemoryTuple(list) if list.len() == 1 => {
                let first = self.ast[list][0];
                self.address(&first, space)
            }
            _ => Err(wrong_kind(operand.span, "an address is needed here")),
        }
    }

    fn access(resolved: &ResolvedInstruction, opcode: Opcode, space: StateSpace) -> Desc {
        let mut desc = resolved.desc();
        desc.opcode = opcode;
        let space = match space {
            // A function parameter in an SSA variable or in local memory never has this state space here. The address
            // of any other function parameter is generic.
            StateSpace::ParamFunc => StateSpace::None,
            other => other,
        };
        desc.mods = desc.mods.with_space(space);
        if resolved.spelling().has("nc") {
            desc.mods = desc.mods.with_nc(true);
        }
        desc
    }

    pub(super) fn load(
        &mut self,
        resolved: &ResolvedInstruction,
        operands: &[Operand],
    ) -> Lowered<()> {
        let [to, address, ..] = operands else {
            return Ok(());
        };
        let ty = resolved.desc().ty;
        if let Some((variable, declared)) = self.whole_param(address) {
            let value = self.b.read(variable);
            let value = self
                .b
                .bitcast(value, Type::bits_of(declared.bits()).unwrap_or(Type::B64));
            let first = self.parts(to)[0];
            let place = self.place(&first)?;
            self.write(place, value, ty);
            return Ok(());
        }
        let (address, space) = self.address(address, resolved.desc().mods.space())?;
        let mut places: SmallVec<[Destination; 8]> = SmallVec::new();
        for part in self.parts(to) {
            places.push(self.place(&part)?);
        }
        let types: SmallVec<[Type; 8]> = places
            .iter()
            .map(|&place| self.loaded_type(place, ty))
            .collect();
        let mut desc = Self::access(resolved, Opcode::Ld, space);
        let results: SmallVec<[Value; 8]> = match self.used_elements(desc, places.len()) {
            Some(used) => self.load_elements(desc, address, &types, used),
            None => {
                desc.mods = desc.mods.with_vec_log2(places.len().trailing_zeros() as u8);
                let inst = self.b.inst(desc, &[address], &types);
                SmallVec::from_slice(self.b.function.dfg.results(inst))
            }
        };
        for (place, value) in places.into_iter().zip(results) {
            if let Destination::Register(variable) = place {
                let target = self.b.variable_type(variable);
                let value = self.b.bitcast(value, target);
                self.b.write(variable, value);
            }
        }
        Ok(())
    }

    /// For a weak load of a vector of `count` elements, returns a mask in which bit `i` states
    /// whether the program uses element `i`. Returns `None` if there is no pragma `used_bytes_mask`
    /// before the load, or if the pragma states that all elements are used.
    fn used_elements(&self, desc: Desc, count: usize) -> Option<u32> {
        let mask = self
            .used_bytes
            .filter(|_| desc.mods.is_weak() && count > 1)?;
        let bytes = desc.ty.bits() / 8;
        let is_used = |&at: &u32| {
            let element = mask.checked_shr(at * bytes).unwrap_or(0);
            element & ((1 << bytes) - 1) != 0
        };
        let used = (0..count as u32).filter(is_used);
        let used: u32 = used.fold(0, |used, at| used | 1 << at);
        (used.count_ones() < count as u32).then_some(used)
    }

    /// Emits a scalar load for each element of a vector for which the corresponding bit of `used`
    /// is set. The other elements are not loaded and become 0, because they may be beyond the end
    /// of a variable.
    fn load_elements(
        &mut self,
        desc: Desc,
        address: Value,
        types: &[Type],
        used: u32,
    ) -> SmallVec<[Value; 8]> {
        let desc = Desc {
            mods: desc.mods.with_vec_log2(0),
            ..desc
        };
        let width = self.address_type(address);
        let bytes = desc.ty.bits() / 8;
        let elements = (0u32..).zip(types).map(|(at, &ty)| {
            if used >> at & 1 == 0 {
                return self.b.constant(ty, 0);
            }
            let offset = self.b.constant(width.held(), u64::from(at * bytes));
            let address = self.b.simple(Opcode::Add, width, &[address, offset]);
            self.b.op(desc, &[address], ty)
        });
        elements.collect()
    }

    /// Returns the type of the value that a load of an element of type `ty` writes to `place`.
    fn loaded_type(&self, place: Destination, ty: OpType) -> Type {
        match place {
            Destination::Sink => ty.held(),
            Destination::Register(variable) => {
                let target = self.b.variable_type(variable);
                if target.lane_bits() == ty.held().lane_bits() {
                    target
                } else {
                    Type::bits_of(target.lane_bits()).unwrap_or(target)
                }
            }
        }
    }

    pub(super) fn store(
        &mut self,
        resolved: &ResolvedInstruction,
        operands: &[Operand],
    ) -> Lowered<()> {
        let [address, from, ..] = operands else {
            return Ok(());
        };
        let ty = resolved.desc().ty;
        if let Some((variable, declared)) = self.whole_param(address) {
            let value = self.read(from, ty)?;
            let value = self.cut_to(value, declared);
            self.write(Destination::Register(variable), value, declared);
            return Ok(());
        }
        let (address, space) = self.address(address, resolved.desc().mods.space())?;
        let mut args: SmallVec<[Value; 9]> = SmallVec::from_slice(&[address]);
        for part in self.parts(from) {
            args.push(self.read(&part, ty)?);
        }
        let mut desc = Self::access(resolved, Opcode::St, space);
        desc.mods = desc
            .mods
            .with_vec_log2((args.len() - 1).trailing_zeros() as u8);
        self.b.inst(desc, &args, &[]);
        Ok(())
    }

    /// Emits the conversion of a value to the IR type for `ty`. A value that is wider than `ty` is
    /// truncated; a narrower value keeps its width.
    pub(super) fn cut_to(&mut self, value: Value, ty: OpType) -> Value {
        let from = self.b.function.dfg.ty(value);
        if from.lane_bits() <= ty.held().lane_bits() {
            return self.held_as(value, ty);
        }
        let (source, target) = (
            super::operand::unsigned(from.lane_bits()),
            super::operand::unsigned(ty.bits()),
        );
        let plain = self.b.bitcast(value, source.held());
        self.convert(plain, source, target)
    }

    /// Emits a store of a value to local memory.
    pub(super) fn store_local(&mut self, ty: OpType, address: Value, value: Value) {
        let mods = Mods::NONE.with_space(StateSpace::Local);
        let desc = Desc {
            opcode: Opcode::St,
            ty,
            src: OpType::None,
            mods,
        };
        self.b.inst(desc, &[address, value], &[]);
    }

    /// Emits a load of a value from local memory.
    pub(super) fn load_local(&mut self, ty: OpType, address: Value) -> Value {
        let mods = Mods::NONE.with_space(StateSpace::Local);
        let desc = Desc {
            opcode: Opcode::Ld,
            ty,
            src: OpType::None,
            mods,
        };
        self.b.op(desc, &[address], ty.held())
    }

    pub(super) fn atomic(
        &mut self,
        opcode: Opcode,
        resolved: &ResolvedInstruction,
        operands: &[Operand],
    ) -> Lowered<()> {
        let mut places: SmallVec<[(Destination, OpType); 4]> = SmallVec::new();
        let mut args: SmallVec<[Value; 6]> = SmallVec::new();
        let mut space = resolved.desc().mods.space();
        let ty = resolved.desc().ty;
        for (operand, role) in operands.iter().zip(resolved.roles()) {
            match role.pattern.name {
                "d" => {
                    for part in self.parts(operand) {
                        places.push((self.place(&part)?, ty));
                    }
                }
                "a" => {
                    let (address, own) = self.address(operand, space)?;
                    space = own;
                    args.push(address);
                }
                "policy" => {}
                _ => {
                    for part in self.parts(operand) {
                        let value = self.read(&part, ty)?;
                        args.push(self.held_as(value, ty));
                    }
                }
            }
        }
        let desc = Self::access(resolved, opcode, space);
        let types: SmallVec<[Type; 4]> = places.iter().map(|_| ty.held()).collect();
        let inst = self.b.inst(desc, &args, &types);
        let results: SmallVec<[Value; 4]> = SmallVec::from_slice(self.b.function.dfg.results(inst));
        for ((place, ty), value) in places.into_iter().zip(results) {
            self.write(place, value, ty);
        }
        Ok(())
    }

    pub(super) fn copy_async(
        &mut self,
        resolved: &ResolvedInstruction,
        operands: &[Operand],
    ) -> Lowered<()> {
        let mut target = None;
        let mut source = None;
        let mut size = None;
        let mut length = None;
        let mut skip = None;
        for (operand, role) in operands.iter().zip(resolved.roles()) {
            match role.pattern.name {
                "dst" => target = Some(self.address(operand, StateSpace::Shared)?.0),
                "src" => source = Some(self.address(operand, StateSpace::Global)?.0),
                "size" => size = Some(self.read(operand, OpType::U32)?),
                "length" => length = Some(self.read(operand, OpType::U32)?),
                "skip" => skip = Some(self.read(operand, OpType::Pred)?),
                _ => {}
            }
        }
        let (Some(target), Some(source), Some(size)) = (target, source, size) else {
            return Ok(());
        };
        let length = match (length, skip) {
            (Some(length), _) => length,
            (None, Some(skip)) => {
                let zero = self.b.constant(Type::B32, 0);
                let desc = Desc {
                    opcode: Opcode::Selp,
                    ty: OpType::B32,
                    src: OpType::None,
                    mods: Mods::NONE,
                };
                self.b.op(desc, &[zero, size, skip], Type::B32)
            }
            (None, None) => size,
        };
        let mut desc = resolved.desc();
        desc.opcode = Opcode::CpAsync;
        self.b.inst(desc, &[target, source, size, length], &[]);
        Ok(())
    }

    pub(super) fn cvta(
        &mut self,
        resolved: &ResolvedInstruction,
        operands: &[Operand],
    ) -> Lowered<()> {
        let [to, from, ..] = operands else {
            return Ok(());
        };
        let ty = resolved.desc().ty;
        let (value, is_pointer) = match from.kind {
            OperandKind::Name(base) | OperandKind::Offset { base, .. } => {
                let offset = if let OperandKind::Offset { offset, .. } = from.kind {
                    offset
                } else {
                    0
                };
                let pointer = matches!(self.find(base), Some(Binding::Pointer(_)));
                let is_register = matches!(self.find(base), Some(Binding::Register(_)));
                let value = if is_register {
                    self.read(from, ty)?
                } else {
                    self.variable_address(base, offset, from.span)?.0
                };
                (value, pointer)
            }
            _ => (self.read(from, ty)?, false),
        };
        let mut desc = resolved.desc();
        desc.opcode = Opcode::Cvta;
        if ty.bits() == 32 {
            let to_space = resolved.spelling().has("to");
            let value = self.narrow_cvta(value, desc.mods.space(), to_space);
            let place = self.place(to)?;
            self.write(place, value, ty);
            return Ok(());
        }
        if is_pointer {
            // The address is already generic.
            desc.mods = desc.mods.with_space(StateSpace::Global);
        }
        let value = self.b.op(desc, &[value], ty.held());
        let place = self.place(to)?;
        self.write(place, value, ty);
        Ok(())
    }
}
