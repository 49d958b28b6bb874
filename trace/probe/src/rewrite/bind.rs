//! Binds helpers to the operands of an instruction.

use margay_frontend::ast::{
    Constant, Instruction, Name, Operand, OperandKind, Prefix, ScalarType, StateSpace,
};
use margay_frontend::resolve::special::{self, Special};
use margay_frontend::resolve::{Lookup, ResolvedInstruction, Scopes, Symbol};
use margay_ops::types::OpType;
use rustc_hash::FxHashMap;

use super::Module;
use super::value::{Code, widen};
use crate::options::Addresses;
use crate::snippet::Helper;

/// The values of helpers at an instruction: names of 64-bit registers, or numbers.
pub(super) type Bound = FxHashMap<Helper, String>;

/// An instruction whose operands are bound.
pub(super) struct Binder<'b, 'm> {
    pub(super) module: &'b Module<'m>,
    pub(super) scopes: &'b Scopes<'m>,
    pub(super) instruction: &'b Instruction,
    pub(super) form: Option<&'b ResolvedInstruction>,
    /// The numbers of the instructions behind the labels of the kernel.
    pub(super) labels: &'b FxHashMap<Name, u64>,
}

/// What a binding could not do, or the value.
type Value = Result<String, String>;

/// The distance of two instructions' program counters.
const PC_STEP: u64 = 16;

impl Binder<'_, '_> {
    /// Adds code that computes the value of a helper, and returns the value.
    ///
    /// # Errors
    ///
    /// Returns the reason why the instruction has no such value.
    pub(super) fn bind(&self, helper: Helper, code: &mut Code) -> Value {
        let to = self.module.names.register(&format!("h{}", helper as usize));
        match helper {
            Helper::Out => self.operand(0, &to, code),
            Helper::In1 => self.operand(1, &to, code),
            Helper::In2 => self.operand(2, &to, code),
            Helper::In3 => self.operand(3, &to, code),
            Helper::Addr => self.address(&to, code),
            Helper::Bytes => self.bytes(&to, code),
        }
    }

    fn operands(&self) -> &[Operand] {
        &self.module.parsed.module[self.instruction.operands]
    }

    fn text(&self, name: Name) -> &str {
        self.module.parsed.module.text(name)
    }

    fn has(&self, modifier: &str) -> bool {
        let module = &self.module.parsed.module;
        module[self.instruction.modifiers]
            .iter()
            .any(|m| module.text(m.name) == modifier)
    }

    fn operand(&self, index: usize, to: &str, code: &mut Code) -> Value {
        let Some(operand) = self.operands().get(index) else {
            let count = self.operands().len();
            return Err(format!("the instruction has only {count} operands"));
        };
        let roles = self.form.map(ResolvedInstruction::roles);
        let ty = roles
            .and_then(|roles| roles.get(index))
            .map_or(OpType::None, |role| role.ty);
        self.value(operand, ty, to, code)
    }

    fn value(&self, operand: &Operand, ty: OpType, to: &str, code: &mut Code) -> Value {
        match operand.kind {
            OperandKind::Name(name) => self.name(name, ty, to, code),
            OperandKind::Component { base, selector } => {
                self.component(base, selector, ty, to, code)
            }
            OperandKind::Prefixed {
                prefix,
                base,
                selector,
            } => self.prefixed((prefix, base, selector), ty, to, code),
            OperandKind::Sink => Ok("0".to_owned()),
            OperandKind::Constant(constant) => Ok(constant_text(constant, ty)),
            OperandKind::Offset { base, offset } => {
                code.line(format!("mov.u64 {to}, {}", self.text(base)));
                code.line(format!("add.s64 {to}, {to}, {offset}"));
                Ok(to.to_owned())
            }
            OperandKind::Memory { .. } | OperandKind::MemoryAt(_) | OperandKind::MemoryTuple(_) => {
                self.memory(operand, to, code)
            }
            OperandKind::Vector(list) | OperandKind::Pair(list) => {
                match self.module.parsed.module[list].first() {
                    Some(first) => self.value(first, ty, to, code),
                    None => Err("the operand is empty".to_owned()),
                }
            }
            OperandKind::Group(_) | OperandKind::Element { .. } => Err(format!(
                "the operand `{}` has no value",
                self.shown(operand)
            )),
        }
    }

    fn shown(&self, operand: &Operand) -> &str {
        self.module.parsed.source.slice(operand.span)
    }

    fn name(&self, name: Name, ty: OpType, to: &str, code: &mut Code) -> Value {
        let text = self.text(name);
        match self.scopes.lookup(name) {
            Some(Symbol::Register { variable, .. }) => {
                let variable = &self.module.parsed.module[variable];
                match variable.vector.count() {
                    1 => self.register(text, variable.scalar, ty, to, code),
                    // The first element of a vector.
                    _ => self.register(&format!("{text}.x"), variable.scalar, ty, to, code),
                }
            }
            Some(Symbol::Special(found)) => self.special(text, found, ty, to, code),
            Some(Symbol::Variable(_) | Symbol::Function(_)) => {
                code.line(format!("mov.u64 {to}, {text}"));
                Ok(to.to_owned())
            }
            Some(Symbol::Label) => match self.labels.get(&name) {
                Some(number) => Ok((PC_STEP * number).to_string()),
                None => Err(format!("the label `{text}` is not in the kernel")),
            },
            _ => Err(format!("the operand `{text}` has no value")),
        }
    }

    fn register(
        &self,
        text: &str,
        scalar: ScalarType,
        ty: OpType,
        to: &str,
        code: &mut Code,
    ) -> Value {
        let names = &self.module.names;
        match widen(code, names, to, text, scalar, ty.is_signed()) {
            true => Ok(to.to_owned()),
            false => Err(format!(
                "the register `{text}` has no value of at most 64 bits"
            )),
        }
    }

    fn special(&self, text: &str, found: &Special, ty: OpType, to: &str, code: &mut Code) -> Value {
        if found.vector && !text.contains('.') {
            return Err(format!("the register `{text}` is a vector"));
        }
        let (copy, scalar) = match found.ty {
            OpType::Pred => ("q7", ScalarType::Pred),
            ty if ty.bits() == 64 => ("t7", ScalarType::U64),
            _ => ("w6", ScalarType::U32),
        };
        let copy = self.module.names.register(copy);
        code.line(format!("mov.{} {copy}, {text}", scalar.word()));
        self.register(&copy, scalar, ty, to, code)
    }

    fn component(
        &self,
        base: Name,
        selector: Name,
        ty: OpType,
        to: &str,
        code: &mut Code,
    ) -> Value {
        let text = format!("{}.{}", self.text(base), self.text(selector));
        match self.scopes.lookup(base) {
            Some(Symbol::Special(found)) => self.special(&text, found, ty, to, code),
            Some(Symbol::Register { variable, .. }) => {
                let variable = &self.module.parsed.module[variable];
                if variable.vector.count() == 1 {
                    return Err(format!("the operand `{text}` selects bytes of a register"));
                }
                self.register(&text, variable.scalar, ty, to, code)
            }
            _ => Err(format!("the operand `{text}` has no value")),
        }
    }

    fn prefixed(
        &self,
        (prefix, base, selector): (Prefix, Name, Option<Name>),
        ty: OpType,
        to: &str,
        code: &mut Code,
    ) -> Value {
        if prefix == Prefix::Not {
            code.line(format!("selp.u64 {to}, 0, 1, {}", self.text(base)));
            return Ok(to.to_owned());
        }
        if selector.is_some() || !ty.is_integer() {
            return Err("a negated operand has no value".to_owned());
        }
        let value = self.name(base, ty, to, code)?;
        code.line(format!("neg.s64 {to}, {value}"));
        Ok(to.to_owned())
    }

    /// The address of the instruction's memory access. For copies, the address in global memory.
    fn address(&self, to: &str, code: &mut Code) -> Value {
        let opcode = self.text(self.instruction.opcode);
        let is_memory = |operand: &&Operand| {
            let kind = &operand.kind;
            matches!(
                kind,
                OperandKind::Memory { .. } | OperandKind::MemoryAt(_) | OperandKind::MemoryTuple(_)
            )
        };
        let mut memory = self.operands().iter().filter(is_memory);
        let (first, second) = (memory.next(), memory.next());
        let operand = match opcode {
            "cp" if !self.stores_to_global() => second.or(first),
            _ => first,
        };
        match operand {
            Some(operand) => self.memory(operand, to, code),
            None => Err("the instruction accesses no memory".to_owned()),
        }
    }

    /// Whether a copy is from shared to global memory.
    fn stores_to_global(&self) -> bool {
        let module = &self.module.parsed.module;
        let spaces = module[self.instruction.modifiers]
            .iter()
            .map(|m| module.text(m.name));
        let mut spaces = spaces.filter(|word| *word == "global" || word.starts_with("shared"));
        spaces.next() == Some("global")
    }

    fn memory(&self, operand: &Operand, to: &str, code: &mut Code) -> Value {
        let module = &self.module.parsed.module;
        match operand.kind {
            OperandKind::Memory { base, offset } => self.based(base, offset, to, code),
            OperandKind::MemoryAt(address) => Ok((address as u64).to_string()),
            OperandKind::MemoryTuple(list) => match module[list].first() {
                Some(first) => self.memory(first, to, code),
                None => Err("the operand is empty".to_owned()),
            },
            _ => Err(format!(
                "the operand `{}` is not an address",
                self.shown(operand)
            )),
        }
    }

    fn based(&self, base: Name, offset: i64, to: &str, code: &mut Code) -> Value {
        let offset = match self.module.options.addresses {
            Addresses::Effective => offset,
            Addresses::Base => 0,
        };
        let text = self.text(base);
        match self.scopes.lookup(base) {
            Some(Symbol::Register { variable, .. }) => {
                let scalar = self.module.parsed.module[variable].scalar;
                if scalar.bytes() == Some(4) && offset != 0 {
                    let word = self.module.names.register("w6");
                    code.line(format!("add.s32 {word}, {text}, {}", offset as i32));
                    return self.register(&word, ScalarType::U32, OpType::None, to, code);
                }
                self.register(text, scalar, OpType::None, to, code)?;
            }
            Some(Symbol::Variable(variable)) => {
                let variable = &self.module.parsed.module[variable];
                if variable.space == StateSpace::Param && self.is_local(base) {
                    // The parameters of a call have no address in PTX.
                    return Ok((offset as u64).to_string());
                }
                code.line(format!("mov.u64 {to}, {text}"));
            }
            _ => return Err(format!("`{text}` is not an address")),
        }
        if offset != 0 {
            code.line(format!("add.s64 {to}, {to}, {offset}"));
        }
        Ok(to.to_owned())
    }

    /// Whether the kernel's body declares this parameter, so that it is a parameter of a call.
    fn is_local(&self, name: Name) -> bool {
        let module = &self.module.parsed.module;
        let is_parameter = |function: &margay_frontend::ast::Function| {
            function.whole.start <= self.instruction.span.start
                && self.instruction.span.start < function.whole.end
                && module[function.parameters]
                    .iter()
                    .any(|p| p.name.name == name)
        };
        !module
            .functions()
            .any(|(_, function)| is_parameter(function))
    }

    /// The bytes of the instruction's memory access, in each thread.
    fn bytes(&self, to: &str, code: &mut Code) -> Value {
        let opcode = self.text(self.instruction.opcode);
        match opcode {
            "ld" | "ldu" | "st" | "atom" | "red" => self.access_bytes(),
            "ldmatrix" => self.vector_bytes(0),
            "stmatrix" => self.vector_bytes(1),
            "wmma" if self.has("load") => self.vector_bytes(0),
            "wmma" if self.has("store") => self.vector_bytes(1),
            "cp" if self.has("async") && self.operands().len() > 2 => self.operand(2, to, code),
            _ => Err("the instruction has no size of a memory access".to_owned()),
        }
    }

    fn access_bytes(&self) -> Value {
        let module = &self.module.parsed.module;
        let words = || {
            module[self.instruction.modifiers]
                .iter()
                .map(|m| module.text(m.name))
        };
        let vector = words().find_map(|word| match word {
            "v2" => Some(2),
            "v4" => Some(4),
            "v8" => Some(8),
            _ => None,
        });
        let mut types = words().rev().filter_map(OpType::from_name);
        match types.next() {
            Some(ty) => Ok((vector.unwrap_or(1) * ty.bits() / 8).to_string()),
            None => Err("the instruction names no type".to_owned()),
        }
    }

    /// The bytes of the registers in the vector operand `index`.
    fn vector_bytes(&self, index: usize) -> Value {
        let module = &self.module.parsed.module;
        let list = match self.operands().get(index).map(|operand| operand.kind) {
            Some(OperandKind::Vector(list)) => &module[list],
            Some(_) => &self.operands()[index..=index],
            None => return Err("the instruction has no registers".to_owned()),
        };
        let bytes = list.iter().filter_map(|operand| match operand.kind {
            OperandKind::Name(name) => match self.scopes.lookup(name)? {
                Symbol::Register { variable, .. } => module[variable].scalar.bytes(),
                _ => None,
            },
            _ => None,
        });
        Ok(bytes.sum::<u32>().to_string())
    }
}

/// The bits of a constant, sign-extended or zero-extended from the type with which the instruction uses it.
fn constant_text(constant: Constant, ty: OpType) -> String {
    let bits = match constant {
        Constant::Int { bits, .. } => match ty.bits() {
            width @ 1..64 if ty.is_signed() => {
                ((bits << (64 - width)) as i64 >> (64 - width)) as u64
            }
            width @ 1..64 => bits & ((1 << width) - 1),
            _ => bits,
        },
        Constant::Double(bits) if ty.bits() == 32 => {
            u64::from((f64::from_bits(bits) as f32).to_bits())
        }
        Constant::Double(bits) => bits,
        Constant::Single(bits) => u64::from(bits),
    };
    format!("{bits}U")
}

/// Returns the type of a special register without its component.
pub(super) fn special_type(name: &str) -> Option<OpType> {
    let base = name.split('.').next().unwrap_or(name);
    special::find(base).map(|found| found.ty)
}
