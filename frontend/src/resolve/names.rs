//! Creates the errors for undeclared names, for names that are declared twice, and for names of the
//! wrong kind in lists of branch or call targets.
//!
//! This module does not check whether a name in an instruction has the right kind, such as register
//! or label. The code that selects the form of an instruction checks this.

use super::scope::{Duplicate, Scopes};
use super::special;
use super::symbol::{Lookup, Symbol};
use crate::Parsed;
use crate::ast::{
    Function, FunctionKind, Id, Instruction, Item, Module, Name, Operand, OperandKind, Statement,
    Targets,
};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// The kind of the names in a list of targets: labels in `.branchtargets`, functions in
/// `.calltargets`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TargetKind {
    Labels,
    Functions,
}

/// Checks the names in the bodies of a module's functions.
pub(super) struct Names<'m> {
    parsed: &'m Parsed,
    module: &'m Module,
}

impl<'m> Names<'m> {
    pub(super) fn new(parsed: &'m Parsed) -> Self {
        Names {
            parsed,
            module: &parsed.module,
        }
    }

    /// Checks that the names that a statement uses are declared, and adds the errors to
    /// `diagnostics`. The caller must call this function before it passes the statement to
    /// [`Scopes::pass`].
    pub(super) fn statement(
        &self,
        statement: &Statement,
        scopes: &Scopes<'m>,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        match statement {
            Statement::Instruction(instruction) => {
                self.instruction(instruction, scopes, diagnostics);
            }
            Statement::BranchTargets(id) => {
                self.targets(&self.module[*id], TargetKind::Labels, scopes, diagnostics);
            }
            Statement::CallTargets(id) => {
                self.targets(
                    &self.module[*id],
                    TargetKind::Functions,
                    scopes,
                    diagnostics,
                );
            }
            _ => {}
        }
    }

    fn instruction(
        &self,
        instruction: &Instruction,
        scopes: &Scopes<'m>,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        if let Some(guard) = instruction.guard {
            let register = self.module[guard].register;
            if scopes.lookup(register.name).is_none() {
                diagnostics.push(self.unknown(register.name, register.span));
            }
        }
        for operand in &self.module[instruction.operands] {
            self.operand(operand, scopes, &mut |name, span| {
                let branch = self.module.text(instruction.opcode) == "bra";
                diagnostics.push(match branch {
                    true => self.unknown_label(name, span),
                    false => self.unknown(name, span),
                });
            });
        }
    }

    /// Calls `missing` for each undeclared name in an operand. Lists of operands are nested at most
    /// two levels deep, so the recursion is limited.
    fn operand(&self, operand: &Operand, scopes: &Scopes<'m>, missing: &mut dyn FnMut(Name, Span)) {
        let list = match operand.kind {
            OperandKind::Vector(list)
            | OperandKind::Pair(list)
            | OperandKind::Group(list)
            | OperandKind::MemoryTuple(list) => list,
            _ => {
                for name in names_of(operand.kind).into_iter().flatten() {
                    if scopes.lookup(name).is_none() {
                        missing(name, self.place(name, operand.span));
                    }
                }
                return;
            }
        };
        for member in &self.module[list] {
            self.operand(member, scopes, missing);
        }
    }

    /// Returns the source range of a name in the operand with the source range `within`. Returns
    /// `within` if the operand's text does not contain the name.
    fn place(&self, name: Name, within: Span) -> Span {
        let text = self.module.text(name);
        match self.parsed.source.slice(within).find(text) {
            Some(offset) => {
                let start = within.start + offset as u32;
                Span::new(start, start + text.len() as u32)
            }
            None => within,
        }
    }

    fn targets(
        &self,
        list: &Targets,
        kind: TargetKind,
        scopes: &Scopes<'m>,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        for target in &self.module[list.targets] {
            let Some(count) = target.range else {
                let symbol = scopes.lookup(target.name.name);
                let problem = self.target(symbol, kind, target.name.name, target.name.span);
                diagnostics.extend(problem);
                continue;
            };
            let base = self.module.text(target.name.name);
            // The search stops at the first missing name, so a huge count does not make it slow.
            let missing = (0..count).find_map(|number| {
                let text = format!("{base}{number}");
                match self.module.names.get(&text) {
                    Some(name) => self.target(scopes.lookup(name), kind, name, target.name.span),
                    None => Some(unknown_text(Code::UNKNOWN_LABEL, &text, target.name.span)),
                }
            });
            diagnostics.extend(missing);
        }
    }

    fn target(
        &self,
        symbol: Option<Symbol>,
        kind: TargetKind,
        name: Name,
        span: Span,
    ) -> Option<Diagnostic> {
        let is_func = |id: Id<Function>| self.module[id].kind == FunctionKind::Func;
        let wanted = match (kind, symbol) {
            (TargetKind::Labels, None) => return Some(self.unknown_label(name, span)),
            (TargetKind::Functions, None) => return Some(self.unknown(name, span)),
            (TargetKind::Labels, Some(Symbol::Label)) => return None,
            (TargetKind::Functions, Some(Symbol::Function(id))) if is_func(id) => return None,
            (TargetKind::Labels, _) => "label",
            (TargetKind::Functions, _) => "device function",
        };
        let message = format!("`{}` is not a {wanted}", self.module.text(name));
        Some(Diagnostic::error(Code::WRONG_SYMBOL_KIND, span, message))
    }

    /// Creates the error for a name that is not declared at its use. If the module declares the name later, the error
    /// refers to this declaration. Otherwise, the error suggests a special register with a similar name, if there is
    /// one.
    pub(super) fn unknown(&self, name: Name, span: Span) -> Diagnostic {
        let text = self.module.text(name);
        let diagnostic = unknown_text(Code::UNKNOWN_SYMBOL, text, span);
        if let Some(later) = self.later_declaration(name) {
            return diagnostic
                .with_related(later, "declared only here")
                .with_note("a name must be declared before its use");
        }
        match suggestion(text) {
            Some(known) => diagnostic.with_note(format!("a special register `{known}` exists")),
            None => diagnostic,
        }
    }

    fn unknown_label(&self, name: Name, span: Span) -> Diagnostic {
        let text = self.module.text(name);
        let message = format!("`{text}` is not a label in the scopes around this branch");
        Diagnostic::error(Code::UNKNOWN_LABEL, span, message)
            .with_note("a branch can leave a `{ }` block but not enter one")
    }

    /// Returns the position of the declaration of a module-scope function or variable with this name, anywhere in the
    /// text.
    fn later_declaration(&self, name: Name) -> Option<Span> {
        let idents = self.module.items.iter().filter_map(|item| match *item {
            Item::Function(id) => Some(self.module[id].name),
            Item::Variable(id) => Some(self.module[id].name),
            _ => None,
        });
        let mut idents = idents.filter(|ident| ident.name == name);
        idents.next().map(|ident| ident.span)
    }

    /// Creates the error for a name that its scope declares twice.
    pub(super) fn duplicate(&self, duplicate: &Duplicate) -> Diagnostic {
        let text = self.module.text(duplicate.name.name);
        Diagnostic::error(
            Code::DUPLICATE_SYMBOL,
            duplicate.name.span,
            format!("`{text}` is declared twice in this scope"),
        )
        .with_related(duplicate.earlier, "first declared here")
    }

    /// Opens the scope of a function, and declares the function's parameters. Adds an error to
    /// `diagnostics` for each parameter with the name of an earlier parameter.
    pub(super) fn enter(
        &self,
        function: &Function,
        scopes: &mut Scopes<'m>,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let Err(duplicates) = scopes.enter_function(function) else {
            return;
        };
        diagnostics.extend(duplicates.iter().map(|d| self.duplicate(d)));
    }
}

fn unknown_text(code: Code, text: &str, span: Span) -> Diagnostic {
    Diagnostic::error(code, span, format!("`{text}` is not declared"))
}

/// Returns the names in an operand, without the names in the operands that a list contains.
fn names_of(kind: OperandKind) -> [Option<Name>; 2] {
    match kind {
        OperandKind::Name(base)
        | OperandKind::Component { base, .. }
        | OperandKind::Prefixed { base, .. }
        | OperandKind::Offset { base, .. }
        | OperandKind::Memory { base, .. } => [Some(base), None],
        OperandKind::Element { base, register, .. } => [Some(base), register],
        _ => [None, None],
    }
}

/// Returns the name of a special register that is similar to `text`, or `None` if there is none.
fn suggestion(text: &str) -> Option<&'static str> {
    if !text.starts_with('%') {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let near = |known: &&special::Special| {
        let known = known.name;
        known == lower
            || (known.len() > 3 && lower.starts_with(known) && lower.len() <= known.len() + 1)
    };
    special::SPECIALS.iter().find(near).map(|s| s.name)
}
