//! Lowers branches and returns.

use margay_ir::entity::{Block, Value};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use margay_ptx::{Action, Lowering};

use super::env::Binding;
use super::function::{FunctionLowering, ReturnPlace};
use super::{Lowered, wrong_kind};
use crate::ast::{Name, Operand, OperandKind};
use crate::{Code, Diagnostic, Span};

impl FunctionLowering<'_, '_> {
    pub(super) fn branch(&mut self, operands: &[Operand]) -> Lowered<()> {
        let target = self.branch_target(operands)?;
        self.b.jump(target);
        Ok(())
    }

    /// Emits a guarded `bra` as one conditional branch. Returns true if the instruction is a `bra`.
    /// Otherwise, emits nothing and returns false.
    pub(super) fn branch_guarded(
        &mut self,
        action: Action,
        guard: Value,
        operands: &[Operand],
    ) -> Lowered<bool> {
        if action != Action::Lowers(Lowering::Branch) {
            return Ok(false);
        }
        let target = self.branch_target(operands)?;
        let next = self.b.create_block();
        self.b.brif(guard, target, next);
        self.b.switch_to(next);
        Ok(true)
    }

    fn branch_target(&self, operands: &[Operand]) -> Lowered<Block> {
        match operands.first().map(|operand| (operand.kind, operand.span)) {
            Some((OperandKind::Name(name), span)) => self.label(name, span),
            Some((_, span)) => Err(wrong_kind(span, "a branch needs a label")),
            None => Err(wrong_kind(Span::at(0), "a branch needs a label")),
        }
    }

    fn label(&self, name: Name, span: Span) -> Lowered<Block> {
        self.scopes.label(name).ok_or_else(|| {
            let message = format!("the label `{}` is not in scope", self.ast.text(name));
            Diagnostic::error(Code::UNKNOWN_LABEL, span, message)
        })
    }

    pub(super) fn branch_indexed(&mut self, operands: &[Operand]) -> Lowered<()> {
        let [index, list] = operands else {
            return Ok(());
        };
        let OperandKind::Name(name) = list.kind else {
            return Err(wrong_kind(
                list.span,
                "`brx.idx` needs a list of branch targets",
            ));
        };
        let Some(Binding::Targets(id)) = self.find(name) else {
            return Err(wrong_kind(
                list.span,
                "`brx.idx` needs a list of branch targets",
            ));
        };
        let targets = self.ast[id].targets;
        let mut blocks = Vec::new();
        for target in &self.ast[targets] {
            match target.range {
                None => blocks.push(self.label(target.name.name, target.name.span)?),
                Some(count) => {
                    let base = self.ast.text(target.name.name);
                    for number in 0..count {
                        let text = format!("{base}{number}");
                        let name = self
                            .ast
                            .names
                            .get(&text)
                            .ok_or_else(|| super::unknown(target.name.span, &text))?;
                        blocks.push(self.label(name, target.name.span)?);
                    }
                }
            }
        }
        let index = self.read(index, OpType::U32)?;
        // An index beyond the end of the list is undefined behaviour. Here, it ends the launch with an error.
        let default = self.b.create_block();
        self.b.br_table(index, default, &blocks);
        self.b.switch_to(default);
        self.b.end(Opcode::Unreachable, &[]);
        Ok(())
    }

    /// Emits the IR for `ret`. In a kernel, `ret` ends the thread. In a device function, `ret`
    /// returns the results to the caller.
    pub(super) fn emit_ret(&mut self) {
        if self.b.function.kernel.is_some() {
            self.b.end(Opcode::Exit, &[]);
            return;
        }
        let values: Vec<Value> = self
            .returns
            .clone()
            .into_iter()
            .map(|(place, ty)| match place {
                ReturnPlace::Value(variable) => self.b.read(variable),
                ReturnPlace::Memory(slot) => {
                    let address = self.slot_address(slot);
                    self.load_local(ty, address)
                }
            })
            .collect();
        self.b.end(Opcode::Ret, &values);
    }
}
