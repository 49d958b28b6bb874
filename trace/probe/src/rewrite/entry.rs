//! Inserts the probes of one kernel.

use margay_frontend::ast::{Function, FunctionKind, Id, Instruction, List, Name, Statement};
use margay_frontend::lexer::{Lexer, Token};
use margay_frontend::resolve::Scopes;
use rustc_hash::FxHashMap;

use super::Module;
use super::bind::{Binder, Bound};
use super::edits::Edits;
use super::expand::Expansion;
use super::prologue::Parameters;
use super::value::Code;
use crate::error::Error;
use crate::model::{Capacity, Point, Probe};
use crate::options::AfterTransfer;
use crate::point::Texts;
use crate::snippet::{Helper, Snippet};

/// A probe's text at an instruction.
struct Visit<'v> {
    probe: usize,
    snippet: &'v Snippet,
    /// Whether the text runs behind the instruction.
    is_behind: bool,
    /// Whether the text runs here because the kernel ends.
    is_end: bool,
}

/// A kernel while its probes are inserted.
struct Entry<'e, 'm> {
    module: &'e Module<'m>,
    id: Id<Function>,
    function: &'e Function,
    scopes: Scopes<'m>,
    labels: FxHashMap<Name, u64>,
    /// The number of texts that were inserted.
    count: usize,
}

impl<'m> Module<'m> {
    /// Adds the insertions for one kernel, and returns the number of inserted probe texts.
    pub(super) fn entry(&self, id: Id<Function>, edits: &mut Edits) -> Result<usize, Error> {
        let module = &self.parsed.module;
        let function = &module[id];
        let Some(body) = function.body else {
            return Ok(0);
        };
        let parameters = self.parameters(id, edits)?;
        let mut scopes = Scopes::new(module);
        // Names that are declared twice are errors, which the caller has refused.
        for (other, _) in module.variables() {
            let _ = scopes.declare_variable(other);
        }
        for (other, function) in module.functions() {
            let symbol = margay_frontend::resolve::Symbol::Function(other);
            let _ = scopes.declare(function.name, symbol);
        }
        let _ = scopes.enter_function(function);
        let mut entry = Entry {
            module: self,
            id,
            function,
            scopes,
            labels: labels(self, body),
            count: 0,
        };
        entry.start(&parameters, edits)?;
        for statement in body.ids() {
            let _ = entry.scopes.pass(&module[statement]);
            if let Statement::Instruction(instruction) = &module[statement] {
                entry.instruction(statement, instruction, edits)?;
            }
        }
        entry.fall_through(body, edits)?;
        Ok(entry.count)
    }

    /// Adds the parameters of the maps to the kernel and to its declarations.
    fn parameters(&self, id: Id<Function>, edits: &mut Edits) -> Result<Parameters, Error> {
        let module = &self.parsed.module;
        let kernel = &module[id];
        let mut taken: Vec<String> = module[kernel.parameters]
            .iter()
            .map(|parameter| module.text(parameter.name.name).to_owned())
            .collect();
        let mut unique = |name: String| {
            let mut chosen = name.clone();
            let mut number = 1;
            while taken.contains(&chosen) || module.names.get(&chosen).is_some() {
                number += 1;
                chosen = format!("{name}_{number}");
            }
            taken.push(chosen.clone());
            chosen
        };
        let maps = &self.file.maps;
        let pointers: Vec<String> = maps
            .iter()
            .map(|map| unique(format!("param_{}", map.name)))
            .collect();
        let sizes: Vec<Option<String>> = maps
            .iter()
            .map(|map| {
                (map.capacity == Capacity::Dynamic).then(|| unique(format!("bytes_{}", map.name)))
            })
            .collect();
        let mut texts: Vec<String> = pointers
            .iter()
            .map(|name| format!(".param .u64 {name}"))
            .collect();
        texts.extend(
            sizes
                .iter()
                .flatten()
                .map(|name| format!(".param .u32 {name}")),
        );
        let same = module.functions().filter(|(_, function)| {
            function.kind == FunctionKind::Entry && function.name.name == kernel.name.name
        });
        for (_, function) in same {
            self.add_parameters(id, function, &texts, edits)?;
        }
        Ok(Parameters { pointers, sizes })
    }

    fn add_parameters(
        &self,
        id: Id<Function>,
        function: &Function,
        texts: &[String],
        edits: &mut Edits,
    ) -> Result<(), Error> {
        let module = &self.parsed.module;
        let origin = self.origin(id, None, function.name.span.start);
        let list = texts.join(",\n\t");
        if list.is_empty() {
            return Ok(());
        }
        if let Some(last) = module[function.parameters].last() {
            edits.insert(last.span.end, format!(",\n\t{list}"), origin);
            return Ok(());
        }
        let end = function.name.span.end;
        match self.token_at(end) {
            (Token::LeftParen, stop) => edits.insert(stop, format!("\n\t{list}\n"), origin),
            _ => edits.insert(end, format!("(\n\t{list}\n)"), origin),
        }
        Ok(())
    }

    /// Returns the kind and the end of the first token at or behind a byte offset.
    fn token_at(&self, offset: u32) -> (Token, u32) {
        let rest = self
            .parsed
            .source
            .text()
            .get(offset as usize..)
            .unwrap_or_default();
        let (token, span) = Lexer::new(rest).next_token();
        (token, offset + span.end)
    }

    /// Returns the byte offset behind the brace that opens the body of a kernel.
    fn body_start(&self, function: &Function) -> Option<u32> {
        let module = &self.parsed.module;
        let directives = module[function.directives]
            .iter()
            .map(|directive| directive.span.end);
        let parameters = module[function.parameters]
            .iter()
            .map(|parameter| parameter.span.end);
        let from = directives
            .chain(parameters)
            .chain([function.name.span.end])
            .max()?;
        let mut at = from.min(function.whole.end);
        loop {
            let (token, stop) = self.token_at(at);
            match token {
                Token::LeftBrace => return Some(stop),
                Token::End => return None,
                _ => at = stop,
            }
        }
    }
}

/// Numbers the instructions of a body, and returns for each label the number of the instruction behind it.
fn labels(module: &Module, body: List<Statement>) -> FxHashMap<Name, u64> {
    let mut found = FxHashMap::default();
    let mut number = 0;
    for statement in &module.parsed.module[body] {
        match statement {
            Statement::Label(label) => {
                found.entry(label.name).or_insert(number);
            }
            Statement::Instruction(_) => number += 1,
            _ => {}
        }
    }
    found
}

impl<'m> Entry<'_, 'm> {
    fn error(&self, probe: usize, offset: u32, message: String) -> Error {
        let error = self.module.error(offset, message);
        error.about(&self.module.file.probes[probe].name)
    }

    fn probes(&self) -> impl Iterator<Item = (usize, &Probe)> {
        self.module.file.probes.iter().enumerate()
    }

    /// Inserts the prologue and the texts at the start of the kernel.
    fn start(&mut self, parameters: &Parameters, edits: &mut Edits) -> Result<(), Error> {
        let place = self.function.name.span.start;
        let Some(start) = self.module.body_start(self.function) else {
            return Err(self.module.error(place, "the kernel has no body"));
        };
        let prologue = self.module.prologue(parameters);
        edits.insert(
            start,
            prologue.into_text(),
            self.module.origin(self.id, None, place),
        );
        let at_start =
            |probe: &&Probe| probe.points.contains(&Point::Kernel) && probe.before.is_some();
        let probes: Vec<usize> = self
            .probes()
            .filter(|(_, probe)| at_start(probe))
            .map(|(index, _)| index)
            .collect();
        for probe in probes {
            let file = self.module.file;
            let Some(snippet) = &file.probes[probe].before else {
                continue;
            };
            self.without_helpers(probe, snippet, place)?;
            let mut code = Code::default();
            let expansion = self.expansion(probe, snippet, None, true);
            let done = expansion.expand(&Bound::default(), &mut code);
            done.map_err(|message| self.error(probe, place, message))?;
            self.put(code, start, probe, place, edits);
        }
        Ok(())
    }

    fn without_helpers(&self, probe: usize, snippet: &Snippet, place: u32) -> Result<(), Error> {
        match snippet.helpers().first() {
            None => Ok(()),
            Some(helper) => {
                let message = format!(
                    "{} has no value at the start or end of a kernel",
                    helper.word()
                );
                Err(self.error(probe, place, message))
            }
        }
    }

    fn expansion<'x>(
        &'x self,
        probe: usize,
        snippet: &'x Snippet,
        guard: Option<&'x str>,
        is_start: bool,
    ) -> Expansion<'x, 'x> {
        Expansion {
            module: self.module,
            scopes: &self.scopes,
            probe,
            snippet,
            guard,
            is_start,
            number: (self.id.index() << 32) + self.count,
        }
    }

    fn put(&mut self, code: Code, offset: u32, probe: usize, place: u32, edits: &mut Edits) {
        self.count += 1;
        if !code.is_empty() {
            let origin = self.module.origin(self.id, Some(probe), place);
            edits.insert(offset, code.into_text(), origin);
        }
    }

    fn instruction(
        &mut self,
        statement: Id<Statement>,
        instruction: &Instruction,
        edits: &mut Edits,
    ) -> Result<(), Error> {
        let module = self.module;
        let texts = Texts::of(&module.parsed.module, &module.parsed.source, instruction);
        let opcode = module.parsed.module.text(instruction.opcode);
        let visits = self.visits(opcode, &texts);
        if visits.is_empty() {
            return Ok(());
        }
        let place = instruction.span.start;
        for visit in visits.iter().filter(|visit| visit.is_end) {
            self.without_helpers(visit.probe, visit.snippet, place)?;
        }
        let guard = texts.guard.trim_start_matches('@').trim_end().to_owned();
        let guard = (!guard.is_empty()).then_some(guard);
        let mut bound = Bound::default();
        let mut front = Code::default();
        let mut behind = Code::default();
        let behind_guard = self.kept_guard(instruction, guard.as_deref(), &visits, &mut front);
        self.bind(
            statement,
            instruction,
            &visits,
            (&mut bound, &mut front, &mut behind),
        )?;
        if !front.is_empty() {
            edits.insert(
                place,
                front.into_text(),
                module.origin(self.id, Some(visits[0].probe), place),
            );
        }
        let (token, stop) = module.token_at(instruction.span.end);
        let after = if token == Token::Semicolon {
            stop
        } else {
            instruction.span.end
        };
        if !behind.is_empty() {
            edits.insert(
                after,
                behind.into_text(),
                module.origin(self.id, Some(visits[0].probe), place),
            );
        }
        for visit in &visits {
            let ignores = module.file.probes[visit.probe].ignores_predicate;
            let (offset, guard) = match visit.is_behind {
                true => (after, behind_guard.as_deref()),
                false => (place, guard.as_deref()),
            };
            let guard = guard.filter(|_| !ignores);
            let mut code = Code::default();
            let done = self
                .expansion(visit.probe, visit.snippet, guard, false)
                .expand(&bound, &mut code);
            done.map_err(|message| self.error(visit.probe, place, message))?;
            self.put(code, offset, visit.probe, place, edits);
        }
        Ok(())
    }

    /// Returns the texts that run at an instruction, each once, in the order of the file.
    fn visits(&self, opcode: &str, texts: &Texts) -> Vec<Visit<'m>> {
        let file = self.module.file;
        let options = self.module.options;
        let is_end = matches!(opcode, "ret" | "exit");
        let is_behind = !leaves(opcode) || options.after_transfer == AfterTransfer::Behind;
        let mut visits = Vec::new();
        for (probe, one) in file.probes.iter().enumerate() {
            let selects = |point: &Point| match point {
                Point::Kernel => false,
                Point::Instruction(text) => texts.matches(text, options.matching),
            };
            let is_selected = one.points.iter().any(selects);
            let ends = is_end && one.points.contains(&Point::Kernel);
            let before = one.before.as_ref().filter(|_| is_selected);
            visits.extend(before.map(|snippet| Visit {
                probe,
                snippet,
                is_behind: false,
                is_end: false,
            }));
            let after = one.after.as_ref().filter(|_| is_selected || ends);
            visits.extend(after.map(|snippet| Visit {
                probe,
                snippet,
                is_behind: is_behind && !ends,
                is_end: ends,
            }));
        }
        visits
    }

    /// Returns the guard for the texts behind the instruction. If the instruction overwrites its own guard, this is a
    /// copy.
    fn kept_guard(
        &self,
        instruction: &Instruction,
        guard: Option<&str>,
        visits: &[Visit],
        front: &mut Code,
    ) -> Option<String> {
        let guard = guard?;
        let register = guard.trim_start_matches('!');
        let module = self.module;
        let operands = &module.parsed.module[instruction.operands];
        let mentions = operands.iter().any(|operand| {
            let text = module.parsed.source.slice(operand.span);
            text.split(|c: char| !(c.is_ascii_alphanumeric() || "%$_".contains(c)))
                .any(|word| word == register)
        });
        if !mentions || !visits.iter().any(|visit| visit.is_behind) {
            return Some(guard.to_owned());
        }
        let copy = module.names.register("guard");
        front.line(format!("mov.pred {copy}, {register}"));
        Some(match guard.starts_with('!') {
            true => format!("!{copy}"),
            false => copy,
        })
    }

    /// Adds the code that computes the helpers of the texts at an instruction: inputs in front of it, its result
    /// behind it.
    fn bind(
        &self,
        statement: Id<Statement>,
        instruction: &Instruction,
        visits: &[Visit],
        (bound, front, behind): (&mut Bound, &mut Code, &mut Code),
    ) -> Result<(), Error> {
        let form = self.module.resolution.instruction(statement);
        let binder = Binder {
            module: self.module,
            scopes: &self.scopes,
            instruction,
            form: form.map(|form| &**form),
            labels: &self.labels,
        };
        let writes = form.is_none_or(|form| {
            form.roles()
                .first()
                .is_some_and(|role| role.pattern.is_dest())
        });
        for visit in visits {
            for helper in visit.snippet.helpers() {
                let is_result = helper == Helper::Out && writes;
                if bound.contains_key(&helper) && !(is_result && visit.is_behind) {
                    continue;
                }
                let code = if is_result && visit.is_behind {
                    &mut *behind
                } else {
                    &mut *front
                };
                let value = binder.bind(helper, code).map_err(|message| {
                    let message = format!("{} has no value here: {message}", helper.word());
                    self.error(visit.probe, instruction.span.start, message)
                })?;
                bound.insert(helper, value);
            }
        }
        Ok(())
    }

    /// Inserts the texts at the end of a kernel that its last statement does not leave.
    fn fall_through(&mut self, body: List<Statement>, edits: &mut Edits) -> Result<(), Error> {
        let module = &self.module.parsed.module;
        let last = module[body]
            .iter()
            .rev()
            .find(|statement| matches!(statement, Statement::Instruction(_) | Statement::Label(_)));
        if let Some(Statement::Instruction(instruction)) = last
            && instruction.guard.is_none()
            && leaves(module.text(instruction.opcode))
        {
            return Ok(());
        }
        let Some(offset) = self.function.whole.end.checked_sub(1) else {
            return Ok(());
        };
        let file = self.module.file;
        for (probe, one) in file.probes.iter().enumerate() {
            let Some(snippet) = &one.after else {
                continue;
            };
            if one.points.contains(&Point::Kernel) {
                self.without_helpers(probe, snippet, offset)?;
                let mut code = Code::default();
                let done = self
                    .expansion(probe, snippet, None, false)
                    .expand(&Bound::default(), &mut code);
                done.map_err(|message| self.error(probe, offset, message))?;
                self.put(code, offset, probe, offset, edits);
            }
        }
        Ok(())
    }
}

/// Whether control does not continue behind an instruction with this opcode that has no guard.
fn leaves(opcode: &str) -> bool {
    matches!(opcode, "bra" | "brx" | "ret" | "exit" | "trap")
}
