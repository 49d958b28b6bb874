//! What the syntax table must know of an instruction's operands.

use margay_ir::forms::{Nested, OperandShape};
use margay_ir::mods::StateSpace;
use margay_ir::sreg::SpecialReg;
use margay_ir::types::OpType;

use super::env::Binding;
use super::function::FunctionLowering;
use crate::ast::{Constant, Name, Operand, OperandKind, Prefix};

impl FunctionLowering<'_, '_> {
    /// Describes the operands into `self.shapes`.
    pub(super) fn describe(&mut self, operands: &[Operand]) {
        let mut shapes = std::mem::take(&mut self.shapes);
        shapes.clear();
        for operand in operands {
            let shape = self.shape(operand, &mut shapes.nested);
            shapes.top.push(shape);
        }
        self.shapes = shapes;
    }

    fn shape(&mut self, operand: &Operand, nested: &mut Vec<OperandShape>) -> OperandShape {
        match operand.kind {
            OperandKind::Name(name) => self.name_shape(name),
            OperandKind::Component { base, selector } => {
                let whole = format!("{}.{}", self.ast.text(base), self.ast.text(selector));
                match SpecialReg::from_name(&whole) {
                    Some(register) => OperandShape::Special(register.ty()),
                    None => match self.find(base) {
                        Some(Binding::Vector(_, ty)) => OperandShape::Register(ty),
                        Some(Binding::Register(_, ty)) => OperandShape::Selected(ty),
                        _ => OperandShape::Special(OpType::U32),
                    },
                }
            }
            OperandKind::Prefixed { prefix, base, .. } => {
                let ty = self.register_type(base);
                match (prefix, ty) {
                    (_, None) => OperandShape::Unknown,
                    (Prefix::Not, Some(ty)) => OperandShape::Not(ty),
                    (Prefix::Minus, Some(ty)) => OperandShape::Minus(ty),
                }
            }
            OperandKind::Sink => OperandShape::Sink,
            OperandKind::Constant(constant) => match constant {
                Constant::Int { bits, .. } => OperandShape::Int(bits as i64),
                Constant::Single(_) => OperandShape::Single,
                Constant::Double(_) => OperandShape::Double,
            },
            OperandKind::Offset { base, .. } => OperandShape::Symbol(self.space_of(base)),
            OperandKind::Element { base, .. } => self.memory_shape(base),
            OperandKind::Memory { base, .. } => match self.register_type(base) {
                Some(ty) => OperandShape::MemoryRegister(ty),
                None => self.memory_shape(base),
            },
            OperandKind::MemoryAt(_) => OperandShape::MemoryAt,
            OperandKind::MemoryTuple(list) => {
                let parts = self.ast[list].to_vec();
                OperandShape::Tuple(self.nest(&parts, nested))
            }
            OperandKind::Vector(list) => {
                let parts = self.ast[list].to_vec();
                OperandShape::Vector(self.nest(&parts, nested))
            }
            OperandKind::Pair(list) => {
                let parts = self.ast[list].to_vec();
                OperandShape::Pair(self.nest(&parts, nested))
            }
            OperandKind::Group(list) => {
                let parts = self.ast[list].to_vec();
                OperandShape::Group(self.nest(&parts, nested))
            }
        }
    }

    fn nest(&mut self, parts: &[Operand], nested: &mut Vec<OperandShape>) -> Nested {
        let shapes: Vec<OperandShape> = parts.iter().map(|part| self.shape(part, nested)).collect();
        let start = nested.len() as u32;
        nested.extend(shapes);
        Nested {
            start,
            len: parts.len() as u32,
        }
    }

    fn register_type(&mut self, name: Name) -> Option<OpType> {
        match self.find(name) {
            Some(Binding::Register(_, ty) | Binding::Vector(_, ty)) => Some(ty),
            _ => None,
        }
    }

    fn name_shape(&mut self, name: Name) -> OperandShape {
        let text = self.ast.text(name);
        if let Some(register) = SpecialReg::from_name(text) {
            return OperandShape::Special(register.ty());
        }
        match self.find(name) {
            Some(Binding::Register(_, ty)) => OperandShape::Register(ty),
            Some(Binding::Vector(..)) => OperandShape::Unknown,
            Some(Binding::Symbol(_)) if self.is_opaque(name) => OperandShape::Reference,
            Some(Binding::Prototype(_) | Binding::Targets(_)) => OperandShape::List,
            Some(_) => OperandShape::Symbol(self.space_of(name)),
            None if self.scopes.label(name).is_some() => OperandShape::Label,
            None if self.m.functions.contains_key(&name) => OperandShape::Function,
            None if text == "WARP_SZ" => OperandShape::Int(32),
            None if text.starts_with("%envreg") => OperandShape::Special(OpType::B32),
            None => OperandShape::Unknown,
        }
    }

    fn memory_shape(&mut self, base: Name) -> OperandShape {
        match self.find(base) {
            Some(Binding::Symbol(_)) if self.is_opaque(base) => OperandShape::MemoryReference,
            Some(_) => OperandShape::MemorySymbol(self.space_of(base)),
            None => OperandShape::Unknown,
        }
    }

    fn is_opaque(&self, name: Name) -> bool {
        self.ast
            .variables()
            .any(|(_, v)| v.name.name == name && v.scalar.is_opaque())
    }

    fn space_of(&mut self, name: Name) -> StateSpace {
        match self.find(name) {
            Some(Binding::Symbol(symbol)) => self.m.module.symbols[symbol].space,
            Some(Binding::KernelParam(_)) => StateSpace::Param,
            Some(Binding::Value(..) | Binding::Pointer(_)) => StateSpace::Param,
            Some(Binding::Local(slot)) => {
                if self.is_param_slot(slot) {
                    StateSpace::Param
                } else {
                    StateSpace::Local
                }
            }
            _ => StateSpace::None,
        }
    }
}
