//! Converts operands to shapes, which contain the properties of the operands that the matcher of
//! the syntax table needs.

use margay_ops::types::OpType;
use margay_ptx::{Nested, OperandShape, OperandShapes};

use super::special::Special;
use super::symbol::{Lookup, Symbol, register_type, state_space};
use crate::ast::{
    Constant, List, Module, Name, Operand, OperandKind, Prefix, StateSpace, Variable, VectorSize,
};

/// The state of the conversion of an instruction's operands to [`OperandShape`]s.
pub(super) struct Shaper<'a, L: ?Sized> {
    pub(super) module: &'a Module,
    pub(super) lookup: &'a L,
    pub(super) shapes: &'a mut OperandShapes,
    /// Whether at least one name in the operands that have been converted is undeclared.
    pub(super) missing: bool,
}

impl<L: Lookup + ?Sized> Shaper<'_, L> {
    /// Appends the shapes of an instruction's operands to `shapes`. If an operand is invalid, returns its index and the
    /// reason.
    pub(super) fn operands(&mut self, operands: List<Operand>) -> Result<(), (usize, String)> {
        let module = self.module;
        for (index, operand) in module[operands].iter().enumerate() {
            let shape = self.operand(operand).map_err(|reason| (index, reason))?;
            self.shapes.top.push(shape);
        }
        Ok(())
    }

    fn look_up(&mut self, name: Name) -> Option<Symbol> {
        let found = self.lookup.lookup(name);
        self.missing |= found.is_none();
        found
    }

    fn operand(&mut self, operand: &Operand) -> Result<OperandShape, String> {
        Ok(match operand.kind {
            OperandKind::Name(name) => self.name(name),
            OperandKind::Component { base, selector } => self.component(base, selector)?,
            OperandKind::Prefixed {
                prefix,
                base,
                selector,
            } => self.prefixed(prefix, base, selector)?,
            OperandKind::Sink => OperandShape::Sink,
            OperandKind::Constant(constant) => constant_shape(constant),
            OperandKind::Offset { base, .. } => match self.name(base) {
                OperandShape::Symbol(space) => OperandShape::SymbolOffset(space),
                other => other,
            },
            OperandKind::Element { base, register, .. } => self.array_element(base, register)?,
            OperandKind::Memory { base, .. } => self.memory(base)?,
            OperandKind::MemoryAt(_) => OperandShape::MemoryAt,
            OperandKind::MemoryTuple(list) => OperandShape::Tuple(self.nested(list)?),
            OperandKind::Vector(list) => OperandShape::Vector(self.nested(list)?),
            OperandKind::Pair(list) => OperandShape::Pair(self.nested(list)?),
            OperandKind::Group(list) => OperandShape::Group(self.nested(list)?),
        })
    }

    fn nested(&mut self, list: List<Operand>) -> Result<Nested, String> {
        let module = self.module;
        // Collect the parts before adding them to `nested`, because a part can add its own nested parts. So the parts
        // of each operand are contiguous.
        let mut parts = smallvec::SmallVec::<[OperandShape; 8]>::new();
        for part in &module[list] {
            parts.push(self.operand(part)?);
        }
        let start = self.shapes.nested.len() as u32;
        self.shapes.nested.extend_from_slice(&parts);
        Ok(Nested {
            start,
            len: parts.len() as u32,
        })
    }

    fn name(&mut self, name: Name) -> OperandShape {
        match self.look_up(name) {
            None => OperandShape::Unknown,
            Some(Symbol::Register { variable, .. }) => {
                let variable = &self.module[variable];
                match variable.vector {
                    VectorSize::Scalar => OperandShape::Register(register_type(variable.scalar)),
                    vector => self.vector_register(variable, vector),
                }
            }
            Some(Symbol::Special(special)) => self.special(special),
            Some(Symbol::Variable(variable)) => {
                let variable = &self.module[variable];
                if variable.scalar.is_opaque() || variable.space == StateSpace::Tex {
                    OperandShape::Reference
                } else {
                    OperandShape::Symbol(state_space(variable.space))
                }
            }
            Some(Symbol::Function(_)) => OperandShape::Function,
            Some(Symbol::Label) => OperandShape::Label,
            Some(Symbol::Targets(_) | Symbol::Prototype(_)) => OperandShape::List,
        }
    }

    /// Returns the shape of a special register that is used without a component. The shape of a
    /// register with components, such as `%tid`, is a vector of four components.
    fn special(&mut self, special: &Special) -> OperandShape {
        if !special.vector {
            return OperandShape::Special(special.ty);
        }
        let start = self.shapes.nested.len() as u32;
        let components = [OperandShape::Special(special.ty); 4];
        self.shapes.nested.extend_from_slice(&components);
        OperandShape::Vector(Nested { start, len: 4 })
    }

    /// Returns the shape of a register that is declared with `.v2` or `.v4`. It is the same as the
    /// shape of a vector operand `{...}` with the register's elements.
    fn vector_register(&mut self, variable: &Variable, vector: VectorSize) -> OperandShape {
        let start = self.shapes.nested.len() as u32;
        let len = vector.count();
        let element = OperandShape::Register(register_type(variable.scalar));
        self.shapes
            .nested
            .extend(std::iter::repeat_n(element, len as usize));
        OperandShape::Vector(Nested { start, len })
    }

    fn component(&mut self, base: Name, selector: Name) -> Result<OperandShape, String> {
        let text = self.module.text(selector);
        match self.look_up(base) {
            None => Ok(OperandShape::Unknown),
            Some(Symbol::Register { variable, .. }) => {
                let variable = &self.module[variable];
                let ty = register_type(variable.scalar);
                if variable.vector != VectorSize::Scalar {
                    return match element(text) {
                        Some(index) if index < variable.vector.count() => {
                            Ok(OperandShape::Register(ty))
                        }
                        _ => Err(format!("a vector register has no element `.{text}`")),
                    };
                }
                selected(ty, text)
            }
            Some(Symbol::Special(special)) if special.vector && element(text).is_some() => {
                Ok(OperandShape::Special(special.ty))
            }
            Some(_) => Err(format!("`{}` has no `.{text}`", self.module.text(base))),
        }
    }

    fn prefixed(
        &mut self,
        prefix: Prefix,
        base: Name,
        selector: Option<Name>,
    ) -> Result<OperandShape, String> {
        let operand = match selector {
            Some(selector) => self.component(base, selector)?,
            None => self.name(base),
        };
        match (prefix, operand) {
            (_, OperandShape::Unknown) => Ok(OperandShape::Unknown),
            (Prefix::Not, OperandShape::Register(ty)) => Ok(OperandShape::Not(ty)),
            (Prefix::Minus, OperandShape::Register(ty) | OperandShape::Selected(ty)) => {
                Ok(OperandShape::Minus(ty))
            }
            (Prefix::Not, _) => Err("`!` goes before a predicate register only".into()),
            (Prefix::Minus, _) => Err("`-` goes before a register only".into()),
        }
    }

    fn array_element(&mut self, base: Name, index: Option<Name>) -> Result<OperandShape, String> {
        let text = |name| self.module.text(name);
        let space = match self.look_up(base) {
            None => return Ok(OperandShape::Unknown),
            Some(Symbol::Variable(id)) if !self.module[id].dimensions.is_empty() => {
                state_space(self.module[id].space)
            }
            Some(_) => return Err(format!("`{}` is not an array", text(base))),
        };
        match index.map(|index| (index, self.look_up(index))) {
            Some((index, Some(Symbol::Register { variable, .. })))
                if !is_index(register_type(self.module[variable].scalar))
                    || self.module[variable].vector != VectorSize::Scalar =>
            {
                Err(format!("`{}` is not an integer register", text(index)))
            }
            None | Some((_, None | Some(Symbol::Register { .. }))) => {
                Ok(OperandShape::Element(space))
            }
            Some((index, _)) => Err(format!("`{}` is not a register", text(index))),
        }
    }

    fn memory(&mut self, base: Name) -> Result<OperandShape, String> {
        match self.name(base) {
            OperandShape::Register(ty) => Ok(OperandShape::MemoryRegister(ty)),
            OperandShape::Symbol(space) => Ok(OperandShape::MemorySymbol(space)),
            OperandShape::Reference => Ok(OperandShape::MemoryReference),
            OperandShape::Unknown => Ok(OperandShape::Unknown),
            _ => Err(format!("`{}` is not an address", self.module.text(base))),
        }
    }
}

fn constant_shape(constant: Constant) -> OperandShape {
    match constant {
        Constant::Int { bits, .. } => OperandShape::Int(bits as i64),
        Constant::Double(_) => OperandShape::Double,
        Constant::Single(_) => OperandShape::Single,
    }
}

/// Returns the index of the vector element that a selector names: 0 for `x` or `r`, up to 3 for `w` or `a`.
pub(crate) fn element(text: &str) -> Option<u32> {
    match text {
        "x" | "r" => Some(0),
        "y" | "g" => Some(1),
        "z" | "b" => Some(2),
        "w" | "a" => Some(3),
        _ => None,
    }
}

/// Checks the form of a video selector, and returns the shape of an operand with this selector. A
/// selector is `b` or `h` and one digit, or several digits for SIMD video instructions on halves or
/// bytes. [`super::video::takes`] checks whether the instruction accepts the digits.
fn selected(ty: OpType, text: &str) -> Result<OperandShape, String> {
    let digits = text.strip_prefix(['b', 'h']).unwrap_or_default();
    let known = matches!(digits.len(), 1..=4) && digits.bytes().all(|d| (b'0'..=b'7').contains(&d));
    if known {
        Ok(OperandShape::Selected(ty))
    } else {
        Err(format!("unknown selector `.{text}`"))
    }
}

/// Whether a register of this type can be the index of an array element.
fn is_index(ty: OpType) -> bool {
    ty.is_integer() && ty.bits() <= 64
}
