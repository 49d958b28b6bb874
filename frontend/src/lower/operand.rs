//! Emits the code that reads and writes the operands of instructions.

use margay_ir::builder::Variable;
use margay_ir::entity::Value;
use margay_ir::function::symbol_payload;
use margay_ops::meaning::Desc;
use margay_ops::mods::{Mode, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{OpType, Type};
use smallvec::SmallVec;

use super::env::Binding;
use super::function::FunctionLowering;
use super::{Lowered, data, unknown, wrong_kind};
use crate::Span;
use crate::ast::{COMPONENTS, Constant, Name, Operand, OperandKind, Prefix};
use crate::resolve::shapes::element;
use crate::resolve::special;

/// The place to which an instruction writes a result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Destination {
    /// `_`
    Sink,
    /// A register.
    Register(Variable),
}

/// Returns the untyped operation type with the width of `ty`.
pub(super) fn bits_type(ty: Type) -> OpType {
    match ty.lane_bits() {
        1 => OpType::Pred,
        8 => OpType::B8,
        16 => OpType::B16,
        32 => OpType::B32,
        64 => OpType::B64,
        _ => OpType::B128,
    }
}

/// Returns the narrowest unsigned type with at least this number of bits, or `B128` for more than 64 bits.
pub(super) fn unsigned(bits: u32) -> OpType {
    match bits {
        0..=8 => OpType::U8,
        9..=16 => OpType::U16,
        17..=32 => OpType::U32,
        33..=64 => OpType::U64,
        _ => OpType::B128,
    }
}

impl FunctionLowering<'_, '_> {
    /// Emits a constant as a value of type `ty`.
    pub(super) fn constant(&mut self, constant: Constant, ty: OpType) -> Value {
        let bits = data::constant_bits(constant, ty);
        if ty.bits() == 128 {
            let low = self.b.constant(Type::B64, bits as u64);
            let high = self.b.constant(Type::B64, (bits >> 64) as u64);
            let desc = Desc {
                opcode: Opcode::Pack,
                ty: OpType::B128,
                src: OpType::B64,
                mods: Mods::NONE,
            };
            return self.b.op(desc, &[low, high], Type::B128);
        }
        if ty == OpType::Pred {
            return self.b.constant(Type::PRED, u64::from(bits != 0));
        }
        self.b.constant(ty.held(), bits as u64)
    }

    /// Returns the value of an operand, as a value of the IR type for `ty`. If the operand is a
    /// register of another width, returns all bits of the register as an untyped value.
    pub(super) fn read(&mut self, operand: &Operand, ty: OpType) -> Lowered<Value> {
        match operand.kind {
            OperandKind::Constant(constant) => Ok(self.constant(constant, ty)),
            OperandKind::Name(name) => self.read_name(name, operand.span, ty),
            OperandKind::Offset { base, offset } => self.address_of(base, offset, operand.span, ty),
            OperandKind::Component { base, selector } => {
                self.read_component(base, selector, operand.span, ty)
            }
            OperandKind::Prefixed {
                prefix: Prefix::Not,
                base,
                selector: None,
            } => {
                let value = self.read_name(base, operand.span, OpType::Pred)?;
                Ok(self.b.simple(Opcode::Not, OpType::Pred, &[value]))
            }
            OperandKind::Prefixed {
                prefix: Prefix::Minus,
                base,
                selector: None,
            } => self.read_name(base, operand.span, ty),
            OperandKind::Prefixed {
                base,
                selector: Some(_),
                ..
            } => self.read_name(base, operand.span, ty),
            OperandKind::Element {
                base,
                register,
                offset,
            } => {
                let address = self.element_address(base, register, offset, operand.span)?;
                let address = self.in_own_space(base, address);
                Ok(self.address_as(address, ty))
            }
            OperandKind::Sink => Ok(self.b.constant(ty.held(), 0)),
            _ => Err(wrong_kind(
                operand.span,
                "this operand cannot be read as a value",
            )),
        }
    }

    fn read_name(&mut self, name: Name, span: Span, ty: OpType) -> Lowered<Value> {
        let text = self.ast.text(name);
        if let Some(register) = SpecialReg::from_name(text) {
            return Ok(self.special(register, ty));
        }
        match self.find(name) {
            Some(Binding::Register(variable) | Binding::Value(variable, _)) => {
                let value = self.b.read(variable);
                Ok(self.held_as(value, ty))
            }
            Some(_) => self.address_of(name, 0, span, ty),
            None => self.read_unbound(name, span, ty),
        }
    }

    /// Returns the value of an operand whose name has no binding in the function: the address of a
    /// function, or the value of an environment register (`%envreg`).
    fn read_unbound(&mut self, name: Name, span: Span, ty: OpType) -> Lowered<Value> {
        let text = self.ast.text(name);
        if let Some(&func) = self.m.functions.get(&name) {
            return Ok(self
                .b
                .payload(Opcode::FuncAddr, OpType::U64, u64::from(func.0), Type::B64));
        }
        match text {
            _ if text.starts_with("%envreg") => Ok(self.special(SpecialReg::EnvregOther, ty)),
            _ => Err(unknown(span, text)),
        }
    }

    /// Returns the value of a special register, truncated or extended to the width of `ty`.
    fn special(&mut self, register: SpecialReg, ty: OpType) -> Value {
        let value = self.b.sreg(register);
        let from = register.ty();
        if from.held().lane_bits() == ty.held().lane_bits() || from == OpType::Pred {
            return self.held_as(value, ty);
        }
        let to = unsigned(ty.bits());
        let value = self.convert(value, unsigned(from.bits()), to);
        self.held_as(value, ty)
    }

    /// Emits the conversion of an integer of type `from` to type `to`.
    pub(super) fn convert(&mut self, value: Value, from: OpType, to: OpType) -> Value {
        let desc = Desc {
            opcode: Opcode::Cvt,
            ty: to,
            src: from,
            mods: Mods::NONE,
        };
        self.b.op(desc, &[value], to.held())
    }

    /// Returns the bits of a value as a value of the IR type for `ty`. If the widths differ,
    /// returns the bits as an untyped value of the same width as `value`.
    pub(super) fn held_as(&mut self, value: Value, ty: OpType) -> Value {
        let (from, to) = (self.b.function.dfg.ty(value), ty.held());
        if from == to || from.lane_bits() != to.lane_bits() {
            // Untyped bits are needed so that the operation can use the low bits.
            let bits = Type::bits_of(from.lane_bits()).unwrap_or(from);
            return if from == to {
                value
            } else {
                self.b.bitcast(value, bits)
            };
        }
        self.b.bitcast(value, to)
    }

    fn read_component(
        &mut self,
        base: Name,
        selector: Name,
        span: Span,
        ty: OpType,
    ) -> Lowered<Value> {
        match self.find(base) {
            Some(Binding::Vector(parts)) => {
                let part = element(self.ast.text(selector)).and_then(|i| parts.get(i as usize));
                let part = part.ok_or_else(|| unknown(span, self.ast.text(selector)))?;
                let value = self.b.read(*part);
                Ok(self.held_as(value, ty))
            }
            // The selector is a video selector, which is a modifier of the op and does not change the value.
            Some(Binding::Register(variable)) => {
                let value = self.b.read(variable);
                Ok(self.held_as(value, ty))
            }
            Some(_) => Err(wrong_kind(span, "only registers have components")),
            None => {
                let index = element(self.ast.text(selector));
                let index = index.ok_or_else(|| unknown(span, self.ast.text(selector)))?;
                self.special_component(base, index, span, ty)
            }
        }
    }

    /// Returns the value of the component with the given index of a special register, such as
    /// `%tid.x`.
    fn special_component(
        &mut self,
        base: Name,
        index: u32,
        span: Span,
        ty: OpType,
    ) -> Lowered<Value> {
        let base = self.ast.text(base);
        let component = COMPONENTS.get(index as usize).copied();
        match special::value(base, component) {
            Some(special::Value::Register(register)) => Ok(self.special(register, ty)),
            Some(special::Value::Zero) => Ok(self.b.constant(ty.held(), 0)),
            None => Err(unknown(span, base)),
        }
    }

    /// Returns the sum of `offset` and the address of a variable in the variable's state space,
    /// truncated to the width of `ty`. The address of a parameter of a device function is in local
    /// memory (PTX ISA, `mov`).
    fn address_of(&mut self, base: Name, offset: i64, span: Span, ty: OpType) -> Lowered<Value> {
        let (address, _) = self.variable_address(base, offset, span)?;
        let address = self.in_own_space(base, address);
        Ok(self.address_as(address, ty))
    }

    /// If `base` is an array parameter of a device function, converts `address`, a generic address
    /// in this array, to an address in local memory. Otherwise, returns `address` unchanged.
    fn in_own_space(&mut self, base: Name, address: Value) -> Value {
        let Some(Binding::Pointer(_)) = self.find(base) else {
            return address;
        };
        let mods = Mods::NONE.with_space(StateSpace::Local);
        let desc = Desc {
            opcode: Opcode::Cvta,
            ty: OpType::U64,
            src: OpType::None,
            mods: mods.with_mode(Mode::To),
        };
        self.b.op(desc, &[address], Type::B64)
    }

    /// Returns the address, truncated to the width of `ty` if `ty` has fewer than 64 bits.
    fn address_as(&mut self, address: Value, ty: OpType) -> Value {
        match ty.bits() {
            bits @ 8..64 => self.convert(address, OpType::U64, unsigned(bits)),
            _ => address,
        }
    }

    /// Returns the sum of `offset` and the address of a variable, and the state space to which the
    /// sum belongs. If `base` is a register, the address is the value of the register.
    pub(super) fn variable_address(
        &mut self,
        base: Name,
        offset: i64,
        span: Span,
    ) -> Lowered<(Value, StateSpace)> {
        let address = match self.find(base) {
            Some(Binding::Symbol(symbol)) => {
                let space = self.m.module.symbols[symbol].space;
                let near = i32::try_from(offset).ok();
                let payload = symbol_payload(symbol, near.unwrap_or(0));
                let address = self
                    .b
                    .payload(Opcode::SymbolAddr, OpType::U64, payload, Type::B64);
                let rest = if near.is_some() { 0 } else { offset };
                (self.offset_by(address, rest), space)
            }
            Some(Binding::Local(slot)) => {
                let address = self.slot_address(slot);
                (self.offset_by(address, offset), StateSpace::Local)
            }
            Some(Binding::KernelParam(at)) => {
                let payload = u64::from(at).wrapping_add(offset as u64);
                let address = self
                    .b
                    .payload(Opcode::ParamAddr, OpType::U64, payload, Type::B64);
                (address, StateSpace::Param)
            }
            Some(Binding::Pointer(variable)) => {
                let address = self.b.read(variable);
                (self.offset_by(address, offset), StateSpace::None)
            }
            Some(Binding::Register(variable)) => {
                let value = self.b.read(variable);
                (self.offset_by(value, offset), StateSpace::None)
            }
            _ => match self.m.functions.get(&base) {
                Some(&func) => {
                    let payload = u64::from(func.0);
                    (
                        self.b
                            .payload(Opcode::FuncAddr, OpType::U64, payload, Type::B64),
                        StateSpace::None,
                    )
                }
                None => return Err(unknown(span, self.ast.text(base))),
            },
        };
        Ok(address)
    }

    pub(super) fn slot_address(&mut self, slot: margay_ir::entity::Slot) -> Value {
        self.b
            .payload(Opcode::LocalAddr, OpType::U64, u64::from(slot.0), Type::B64)
    }

    /// Emits the addition of a constant to an address, with the width of the address, and returns
    /// the sum.
    pub(super) fn offset_by(&mut self, address: Value, offset: i64) -> Value {
        if offset == 0 {
            return address;
        }
        let ty = self.b.function.dfg.ty(address);
        let address = if ty.is_float() {
            self.b
                .bitcast(address, Type::bits_of(ty.lane_bits()).unwrap_or(Type::B64))
        } else {
            address
        };
        let ty = self.b.function.dfg.ty(address);
        let amount = self.b.constant(ty, offset as u64);
        self.b
            .simple(Opcode::Add, unsigned(ty.lane_bits()), &[address, amount])
    }

    /// Returns the address of the array element that an operand such as `g[1]`, `g[%r]` or
    /// `g[%r+1]` names.
    pub(super) fn element_address(
        &mut self,
        base: Name,
        register: Option<Name>,
        offset: i64,
        span: Span,
    ) -> Lowered<Value> {
        let size = self.scopes.element_bytes(base);
        let size = size.or_else(|| self.m.element_bytes.get(&base).copied());
        let size = i64::from(size.unwrap_or(1));
        let (address, _) = self.variable_address(base, offset.wrapping_mul(size), span)?;
        let Some(register) = register else {
            return Ok(address);
        };
        let index = self.read_name(register, span, OpType::U32)?;
        let bits = self.b.function.dfg.ty(index).lane_bits();
        let index = if bits == 64 {
            index
        } else {
            self.convert(index, unsigned(bits), OpType::U64)
        };
        let scale = self.b.constant(Type::B64, size as u64);
        let desc = Desc {
            opcode: Opcode::Mul,
            ty: OpType::U64,
            src: OpType::None,
            mods: Mods::NONE.with_half(margay_ops::mods::Half::Lo),
        };
        let moved = self.b.op(desc, &[index, scale], Type::B64);
        Ok(self.b.simple(Opcode::Add, OpType::U64, &[address, moved]))
    }

    /// Returns the destination that an operand specifies.
    pub(super) fn place(&mut self, operand: &Operand) -> Lowered<Destination> {
        match operand.kind {
            OperandKind::Sink => Ok(Destination::Sink),
            OperandKind::Name(name) => match self.find(name) {
                Some(Binding::Register(variable) | Binding::Value(variable, _)) => {
                    Ok(Destination::Register(variable))
                }
                Some(_) => Err(wrong_kind(operand.span, "a destination must be a register")),
                None => Err(unknown(operand.span, self.ast.text(name))),
            },
            OperandKind::Component { base, selector } => {
                let text = self.ast.text(selector);
                match self.find(base) {
                    Some(Binding::Vector(parts)) => {
                        let part = element(text).and_then(|i| parts.get(i as usize)).copied();
                        let part = part.ok_or_else(|| unknown(operand.span, text))?;
                        Ok(Destination::Register(part))
                    }
                    Some(Binding::Register(variable)) => Ok(Destination::Register(variable)),
                    _ => Err(unknown(operand.span, self.ast.text(base))),
                }
            }
            _ => Err(wrong_kind(operand.span, "a destination must be a register")),
        }
    }

    /// Writes `value`, a value of type `ty`, to `place`. A wider register receives the
    /// sign-extended or zero-extended value, depending on `ty`. If [`FunctionLowering::guard`] is
    /// set, the register keeps its old value in threads whose guard is false.
    pub(super) fn write(&mut self, place: Destination, value: Value, ty: OpType) {
        let Destination::Register(variable) = place else {
            return;
        };
        let target = self.b.variable_type(variable);
        let from = self.b.function.dfg.ty(value);
        let value = if from.lane_bits() == target.lane_bits() {
            self.b.bitcast(value, target)
        } else {
            let source = if ty.is_signed() && ty.held().lane_bits() == from.lane_bits() {
                ty
            } else {
                unsigned(from.lane_bits())
            };
            let bits = Type::bits_of(from.lane_bits()).unwrap_or(from);
            let plain = self.b.bitcast(value, bits);
            let wide = self.convert(plain, source, unsigned(target.lane_bits()));
            self.b.bitcast(wide, target)
        };
        let value = match self.guard {
            Some(guard) => {
                let old = self.b.read(variable);
                let ty = bits_type(target);
                let desc = Desc {
                    opcode: Opcode::Selp,
                    ty,
                    src: OpType::None,
                    mods: Mods::NONE,
                };
                self.b.op(desc, &[value, old, guard], target)
            }
            None => value,
        };
        self.b.write(variable, value);
    }

    /// Returns the parts of a vector operand: the elements of `{...}` or the components of a vector
    /// register. For any other operand, the only part is the operand itself.
    pub(super) fn parts(&mut self, operand: &Operand) -> SmallVec<[Operand; 4]> {
        let base = match operand.kind {
            OperandKind::Vector(list) => return SmallVec::from_slice(&self.ast[list]),
            OperandKind::Name(base) => base,
            _ => return SmallVec::from_slice(&[*operand]),
        };
        let count = match self.find(base) {
            Some(Binding::Vector(parts)) => parts.len(),
            None if special::find(self.ast.text(base)).is_some_and(|s| s.vector) => 4,
            _ => return SmallVec::from_slice(&[*operand]),
        };
        let selectors = COMPONENTS.iter().take(count);
        let names = selectors.filter_map(|selector| self.ast.names.get(selector));
        let component = |selector| Operand {
            kind: OperandKind::Component { base, selector },
            span: operand.span,
        };
        names.map(component).collect()
    }
}
