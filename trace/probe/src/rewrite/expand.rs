//! Turns a snippet into PTX text for one place in a kernel.

use margay_frontend::resolve::Scopes;

use super::Module;
use super::bind::Bound;
use super::prologue::declaration;
use super::value::Code;
use crate::model::Level;
use crate::snippet::{Declared, Guard, Piece, Snippet, Statement, StatementKind};

/// A place at which a probe's text is inserted.
pub(super) struct Expansion<'e, 'm> {
    pub(super) module: &'e Module<'m>,
    pub(super) scopes: &'e Scopes<'m>,
    /// The index of the probe.
    pub(super) probe: usize,
    pub(super) snippet: &'e Snippet,
    /// The guard of the instruction without its `@`, such as `!%p1`.
    pub(super) guard: Option<&'e str>,
    /// Whether the place is the start of the kernel. There, all lanes run also the probes of warps, except `SAVE`.
    pub(super) is_start: bool,
    /// A number that no other place of the module has.
    pub(super) number: usize,
}

impl Expansion<'_, '_> {
    /// Adds the snippet's code.
    ///
    /// # Errors
    ///
    /// Returns the reason why the snippet does not fit here.
    pub(super) fn expand(&self, bound: &Bound, code: &mut Code) -> Result<(), String> {
        let names = &self.module.names;
        let level = self.module.file.probes[self.probe].level;
        let guard = match (level, self.guard) {
            (Level::Warp, _) if self.is_start => None,
            (Level::Thread, guard) => guard.map(str::to_owned),
            (Level::Warp, None) => Some(names.register("leader")),
            (Level::Warp, Some(guard)) => {
                let joint = names.register("joint");
                code.line(format!(
                    "setp.eq.and.u32 {joint}, {}, 0, {guard}",
                    names.register("lane")
                ));
                Some(joint)
            }
        };
        if guard.is_none() || !self.snippet.needs_branch() {
            return self.statements(guard.as_deref(), bound, code);
        }
        let skip = names.label(&format!("skip{}", self.number));
        let inverse = guard.map(|guard| match guard.strip_prefix('!') {
            Some(guard) => guard.to_owned(),
            None => format!("!{guard}"),
        });
        code.guarded(inverse.as_deref(), format!("bra {skip}"));
        self.statements(None, bound, code)?;
        code.raw(format!("{skip}:"));
        Ok(())
    }

    fn statements(
        &self,
        guard: Option<&str>,
        bound: &Bound,
        code: &mut Code,
    ) -> Result<(), String> {
        for statement in &self.snippet.statements {
            self.statement(statement, guard, bound, code)?;
        }
        Ok(())
    }

    fn statement(
        &self,
        statement: &Statement,
        guard: Option<&str>,
        bound: &Bound,
        code: &mut Code,
    ) -> Result<(), String> {
        let own = statement.guard.as_ref().map(|guard| self.guard_text(guard));
        let guard = own.as_deref().or(guard);
        match &statement.kind {
            StatementKind::Open => code.raw("{"),
            StatementKind::Close => code.raw("}"),
            StatementKind::Label(label) => code.raw(format!("{}:", self.label(label))),
            StatementKind::Declare(registers) => {
                for declared in registers {
                    code.line(declaration(
                        &self.module.names.declared(&declared.name),
                        declared,
                    ));
                }
            }
            StatementKind::Instruction(_, pieces) => {
                let text: String = pieces
                    .iter()
                    .map(|piece| self.piece(piece, bound))
                    .collect();
                code.guarded(guard, text);
            }
            StatementKind::Save(save) => {
                let mut inner = Code::default();
                self.save(save, guard, bound, &mut inner)?;
                // The registers of the fields are declared in a scope of their own.
                code.raw("{");
                code.append(&inner);
                code.raw("}");
            }
        }
        Ok(())
    }

    fn guard_text(&self, guard: &Guard) -> String {
        let register = match &guard.register {
            Piece::Name(name) => self.renamed(name),
            Piece::Scratch(number) => self.module.names.register(&format!("nr{number}")),
            Piece::Helper(helper) => helper.word().to_owned(),
            Piece::Text(text) => text.clone(),
        };
        format!("{}{register}", if guard.negated { "!" } else { "" })
    }

    fn piece(&self, piece: &Piece, bound: &Bound) -> String {
        match piece {
            Piece::Text(text) => text.clone(),
            Piece::Scratch(number) => self.module.names.register(&format!("nr{number}")),
            Piece::Helper(helper) => match bound.get(helper) {
                Some(text) => text.clone(),
                None => helper.word().to_owned(),
            },
            Piece::Name(name) => self.renamed(name),
        }
    }

    /// Returns the declaration of a register by this snippet, or by another one outside braces.
    pub(super) fn declared(&self, name: &str) -> Option<&Declared> {
        let own = self.snippet.declared.iter();
        let probes = self.module.file.probes.iter();
        let all = probes.flat_map(|probe| [&probe.before, &probe.after].into_iter().flatten());
        let shared = all.flat_map(|snippet| snippet.declared.iter().filter(|d| d.is_shared));
        own.chain(shared).find(|declared| declared.declares(name))
    }

    /// Returns the name in the kernel of a register or label of the snippet. All other names stay.
    pub(super) fn renamed(&self, name: &str) -> String {
        let is_label = self.snippet.statements.iter().any(
            |statement| matches!(&statement.kind, StatementKind::Label(label) if label == name),
        );
        match self.declared(name) {
            _ if is_label => self.label(name),
            Some(_) => self.module.names.declared(name),
            None => name.to_owned(),
        }
    }

    fn label(&self, label: &str) -> String {
        let label = label.trim_start_matches(['%', '$']);
        self.module
            .names
            .label(&format!("l{}_{label}", self.number))
    }
}
