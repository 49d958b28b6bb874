//! Emits ops that tell observing tools which PTX instructions are executed.

use margay_ir::entity::Value;
use margay_ir::module::TextInstruction;
use margay_ir::observe::ObservedEvent;
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};
use margay_ptx::{Action, Lowering};

use super::function::FunctionLowering;
use crate::ast;
use crate::resolve::ResolvedInstruction;

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
        let id = self.id;
        let known = self.m.instructions_of(id);
        let index = known.len() as u32;
        known.push(TextInstruction { opcode, loc });
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
