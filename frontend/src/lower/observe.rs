//! Emits ops that tell observing tools which PTX instructions are executed.

use margay_ir::entity::Value;
use margay_ir::module::{TextInstruction, TextOperand, TextOperandKind};
use margay_ir::observe::ObservedEvent;
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};
use margay_ptx::{Action, Lowering};

use super::data;
use super::env::Binding;
use super::function::FunctionLowering;
use crate::ast::{self, Name, Operand, OperandKind};
use crate::resolve::{ResolvedInstruction, special};

impl FunctionLowering<'_, '_> {
    /// Emits an `observe.event` for an instruction. Its operand is the value of the guard (0 or 1),
    /// if there is a guard. If the instruction is a `bra`, also emits an `observe.event` of the
    /// kind [`ObservedEvent::Branch`]. Emits nothing for unreachable code.
    pub(super) fn observe(
        &mut self,
        instruction: &ast::Instruction,
        resolved: &ResolvedInstruction,
        guard: Option<Value>,
    ) {
        let opcode = self.ast.spelling(instruction).into();
        let loc = self.b.loc();
        let operands = self.text_operands(instruction, resolved);
        let id = self.id;
        let known = self.m.instructions_of(id);
        let index = known.len() as u32;
        known.push(TextInstruction {
            opcode,
            loc,
            operands,
        });
        // After an unconditional branch or `exit`, the instructions before the next label are unreachable.
        if !self.b.is_open() {
            return;
        }
        let guard = guard.map(|guard| {
            let [one, zero] = [1, 0].map(|bits| self.b.constant(Type::B32, bits));
            let desc = Desc {
                opcode: Opcode::Selp,
                ty: OpType::B32,
                src: OpType::None,
                mods: Mods::NONE,
            };
            self.b.op(desc, &[one, zero, guard], Type::B32)
        });
        let function = id.0;
        self.observe_event(ObservedEvent::Instruction { function, index }, guard);
        if resolved.action() == Action::Lowers(Lowering::Branch) {
            self.observe_event(ObservedEvent::Branch, guard);
        }
    }

    /// Returns the operands of an instruction as tools see them.
    fn text_operands(
        &mut self,
        instruction: &ast::Instruction,
        resolved: &ResolvedInstruction,
    ) -> Box<[TextOperand]> {
        let ast = self.ast;
        let mut roles = resolved.roles().iter();
        let operands = ast[instruction.operands].iter().map(|operand| {
            let mut registers = Vec::new();
            self.registers_of(operand, &mut registers);
            TextOperand {
                kind: kind_of(ast, operand, !registers.is_empty()),
                is_written: roles.next().is_some_and(|role| role.pattern.is_dest()),
                registers: registers.into(),
            }
        });
        operands.collect()
    }

    /// Appends the registers that an operand names.
    fn registers_of(&mut self, operand: &Operand, registers: &mut Vec<(u32, u32)>) {
        match operand.kind {
            OperandKind::Name(name)
            | OperandKind::Component { base: name, .. }
            | OperandKind::Prefixed { base: name, .. }
            | OperandKind::Offset { base: name, .. }
            | OperandKind::Memory { base: name, .. } => self.register(name, registers),
            OperandKind::Element { base, register, .. } => {
                self.register(base, registers);
                if let Some(register) = register {
                    self.register(register, registers);
                }
            }
            OperandKind::Sink | OperandKind::Constant(_) | OperandKind::MemoryAt(_) => {}
            OperandKind::MemoryTuple(list)
            | OperandKind::Vector(list)
            | OperandKind::Pair(list)
            | OperandKind::Group(list) => {
                let ast = self.ast;
                for part in &ast[list] {
                    self.registers_of(part, registers);
                }
            }
        }
    }

    /// Appends the register, or the elements of the vector register, with a name, if there is one.
    fn register(&mut self, name: Name, registers: &mut Vec<(u32, u32)>) {
        let variables = match self.find(name) {
            Some(Binding::Register(variable)) => vec![variable],
            Some(Binding::Vector(variables)) => variables,
            _ => return,
        };
        for variable in variables {
            let bits = self.b.variable_type(variable).lane_bits();
            registers.push((variable.0, bits));
        }
    }

    fn observe_event(&mut self, event: ObservedEvent, operand: Option<Value>) {
        let desc = Desc {
            opcode: Opcode::ObserveEvent,
            ty: OpType::None,
            src: OpType::None,
            mods: Mods(event.to_payload()),
        };
        self.b.inst(desc, operand.as_slice(), &[]);
    }
}

/// Returns the kind of an operand. `has_registers` states whether the operand names registers of the program.
fn kind_of(ast: &ast::Module, operand: &Operand, has_registers: bool) -> TextOperandKind {
    match operand.kind {
        OperandKind::Name(name) if special::find(ast.text(name)).is_some() => {
            TextOperandKind::Special(ast.text(name).into())
        }
        OperandKind::Component { base, selector } if special::find(ast.text(base)).is_some() => {
            TextOperandKind::Special(format!("{}.{}", ast.text(base), ast.text(selector)).into())
        }
        OperandKind::Name(_)
        | OperandKind::Component { .. }
        | OperandKind::Prefixed { .. }
        | OperandKind::Pair(_)
            if has_registers =>
        {
            TextOperandKind::Register
        }
        OperandKind::Constant(constant) => {
            TextOperandKind::Constant(data::constant_bits(constant, OpType::B64) as u64)
        }
        OperandKind::Vector(_) => TextOperandKind::Vector,
        OperandKind::Memory { .. }
        | OperandKind::MemoryAt(_)
        | OperandKind::MemoryTuple(_)
        | OperandKind::Element { .. } => TextOperandKind::Address,
        OperandKind::Name(_)
        | OperandKind::Component { .. }
        | OperandKind::Prefixed { .. }
        | OperandKind::Pair(_)
        | OperandKind::Sink
        | OperandKind::Offset { .. }
        | OperandKind::Group(_) => TextOperandKind::Other,
    }
}
