//! Checks the names, declarations, directives and instructions of a module in one pass over the
//! syntax tree.

use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

use super::declarations::{self, DeclarationSite};
use super::functions::{self, AliasEnds};
use super::header::{self, Header};
use super::initializers;
use super::instruction::{InstructionResolver, ResolvedInstruction};
use super::names::Names;
use super::pragma::{self, PragmaPlace};
use super::scope::Scopes;
use super::special;
use super::symbol::Symbol;
use crate::Parsed;
use crate::ast::{
    Alias, DirectiveKind, DwarfLine, Function, FunctionKind, Id, Ident, Item, Linkage, List,
    Module, Name, Prototype, Section, StateSpace, Statement, Variable,
};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// The results of [`resolve`] for a module.
#[derive(Debug)]
pub struct Resolution {
    /// The problems that [`resolve`] found, in the order of their positions. Syntax errors are not included.
    pub diagnostics: Vec<Diagnostic>,
    /// For each statement, its instruction with its form; the index is an [`Id<Statement>`]. The
    /// element is `None` for a statement that is not an instruction and for an instruction with a
    /// problem.
    instructions: Vec<Option<Arc<ResolvedInstruction>>>,
    narrow: bool,
}

impl Resolution {
    /// Whether the module uses 32-bit addresses. This is so if its `.address_size` is 32, or if an
    /// instruction has an operand that is a 32-bit address of global memory or a 32-bit generic
    /// address. The kernels of such a module can access only memory below 4 GiB.
    pub fn is_narrow(&self) -> bool {
        self.narrow
    }

    /// Returns the form of an instruction, or `None` if the statement is not an instruction or
    /// contains an error.
    pub fn instruction(&self, statement: Id<Statement>) -> Option<&Arc<ResolvedInstruction>> {
        self.instructions.get(statement.index())?.as_ref()
    }

    /// Whether there is at least one error (warnings do not count).
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Resolves a parsed module: checks its header, declarations, names and directives, and selects the syntax form of each
/// instruction.
pub fn resolve(parsed: &Parsed) -> Resolution {
    let mut sink = Sink::default();
    let header = header::check(parsed, &mut sink);
    let mut checker = Checker::new(parsed, header, sink);
    checker.module();
    let narrow =
        checker.resolver.is_narrow() || matches!(parsed.module.address_size, Some((32, _)));
    let mut diagnostics = checker.sink.diagnostics;
    diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
    Resolution {
        diagnostics,
        instructions: checker.instructions,
        narrow,
    }
}

/// Resolves the bodies of `functions`, which were parsed after the rest of the module, and adds the forms of their
/// instructions to `resolution`. Returns the problems in these bodies. The module outside the bodies has no errors.
pub(crate) fn resolve_bodies(
    parsed: &Parsed,
    resolution: &mut Resolution,
    functions: &[Id<Function>],
) -> Vec<Diagnostic> {
    let header = header::check(parsed, &mut Sink::default());
    let mut checker = Checker::new(parsed, header, Sink::default());
    checker.instructions = std::mem::take(&mut resolution.instructions);
    checker.bodies(functions);
    resolution.narrow |= checker.resolver.is_narrow();
    resolution.instructions = checker.instructions;
    let mut diagnostics = checker.sink.diagnostics;
    diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
    diagnostics
}

/// Returns the errors and warnings that [`resolve`] finds in a parsed module.
pub fn check(parsed: &Parsed) -> Vec<Diagnostic> {
    resolve(parsed).diagnostics
}

/// The maximum total size of a module's variables in constant memory, in bytes.
const MAX_CONSTANT_BYTES: u64 = 64 << 10;

/// Collects the errors and warnings that the checks find.
#[derive(Debug, Default)]
pub(super) struct Sink {
    diagnostics: Vec<Diagnostic>,
}

impl Sink {
    /// The number of problems at which the checks end.
    const LIMIT: usize = 100;

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    pub(super) fn is_full(&self) -> bool {
        self.diagnostics.len() >= Self::LIMIT
    }
}

struct Checker<'m> {
    module: &'m Module,
    names: Names<'m>,
    scopes: Scopes<'m>,
    header: Header,
    functions: FxHashMap<Name, Id<Function>>,
    variables: FxHashMap<Name, Id<Variable>>,
    aliases: FxHashMap<Name, Span>,
    files: FxHashMap<u64, Span>,
    section_labels: FxHashMap<Name, Span>,
    resolver: InstructionResolver<'m>,
    instructions: Vec<Option<Arc<ResolvedInstruction>>>,
    sink: Sink,
}

impl<'m> Checker<'m> {
    fn new(parsed: &'m Parsed, header: Header, sink: Sink) -> Checker<'m> {
        Checker {
            module: &parsed.module,
            names: Names::new(parsed),
            scopes: Scopes::new(&parsed.module),
            header,
            functions: FxHashMap::default(),
            variables: FxHashMap::default(),
            aliases: FxHashMap::default(),
            files: FxHashMap::default(),
            section_labels: FxHashMap::default(),
            resolver: InstructionResolver::new(&parsed.module),
            instructions: Vec::new(),
            sink,
        }
    }

    /// Checks the bodies of `functions`. A name in a body refers to a declaration before it, so the declarations of the
    /// module are added in their order.
    fn bodies(&mut self, functions: &[Id<Function>]) {
        let module = self.module;
        let functions: FxHashSet<Id<Function>> = functions.iter().copied().collect();
        let mut left = functions.len();
        for item in &module.items {
            if left == 0 || self.sink.is_full() {
                return;
            }
            match *item {
                // The names are known to be valid, because the module has been checked.
                Item::Variable(id) => {
                    let _ = self.scopes.declare_variable(id);
                }
                Item::Function(id) => {
                    let function = &module[id];
                    let symbol = Symbol::Function(id);
                    let _ = self.scopes.declare(function.name, symbol);
                    if functions.contains(&id) {
                        left -= 1;
                        self.body(function, function.body.unwrap_or_default());
                    }
                }
                _ => {}
            }
        }
    }

    fn module(&mut self) {
        let module = self.module;
        for item in &module.items {
            if self.sink.is_full() {
                return;
            }
            match *item {
                Item::Function(id) => self.function(id),
                Item::Variable(id) => self.module_variable(id),
                Item::Alias(id) => self.alias(&module[id]),
                Item::Pragma(strings) => self.pragma(strings, PragmaPlace::Module),
                Item::File(id) => self.file(module[id].index, module[id].span),
                Item::Section(id) => self.section(&module[id]),
                Item::Dwarf(_) => {}
            }
        }
        self.debug_information();
        self.constant_memory();
    }

    /// Checks that the `.const` variables of the module, laid out in order, take at most 64 KiB.
    /// Variables in constant banks other than bank 0 are not counted.
    fn constant_memory(&mut self) {
        let module = self.module;
        let in_bodies = module.functions().flat_map(|(_, function)| {
            let body = function.body.map_or(&[][..], |body| &module[body]);
            let read = body.iter().filter_map(|statement| match statement {
                Statement::Variable(id) => Some(*id),
                _ => None,
            });
            let unread = function.unread.iter();
            read.chain(unread.flat_map(|unread| unread.variables.ids()))
        });
        let at_module = module.items.iter().filter_map(|item| match item {
            Item::Variable(id) => Some(*id),
            _ => None,
        });
        let mut end = 0_u64;
        for id in at_module.chain(in_bodies) {
            let variable = &module[id];
            let is_bank = variable.bank.is_some_and(|bank| bank > 0);
            // An `.extern` declaration takes no space if the module also contains a definition or another declaration
            // of the variable.
            let earlier = self.variables.get(&variable.name.name);
            let is_repeated =
                variable.linkage == Linkage::Extern && earlier.is_some_and(|&known| known != id);
            if variable.space != StateSpace::Const || is_bank || is_repeated {
                continue;
            }
            let align = declarations::alignment_of(variable).max(1);
            let start = end.checked_next_multiple_of(align).unwrap_or(u64::MAX);
            let size = declarations::initialised_size(module, variable).unwrap_or(u64::MAX);
            end = start.saturating_add(size);
            if end > MAX_CONSTANT_BYTES {
                let message = format!(
                    "{end} bytes of constant memory; a module has at most {MAX_CONSTANT_BYTES}"
                );
                let span = variable.name.span;
                self.sink
                    .report(Diagnostic::error(Code::OBJECT_SIZE, span, message));
                return;
            }
        }
    }

    fn module_variable(&mut self, id: Id<Variable>) {
        let variable = &self.module[id];
        declarations::check(
            self.module,
            variable,
            DeclarationSite::Module,
            &self.header,
            &mut self.sink,
        );
        self.module_name(variable.name);
        let earlier = self.variables.get(&variable.name.name).copied();
        let replaces = match earlier {
            Some(earlier) => self.redeclared_variable(&self.module[earlier], variable),
            None => true,
        };
        let duplicate = self.scopes.declare_variable(id).err();
        if let (None, Some(duplicate)) = (earlier, duplicate) {
            let diagnostic = self.names.duplicate(&duplicate);
            self.sink.report(diagnostic);
        }
        if replaces {
            self.variables.insert(variable.name.name, id);
        }
        initializers::check(self.module, variable, &self.scopes, &mut self.sink);
    }

    /// Checks that a name that is declared at module scope is not a name that PTX predefines.
    fn module_name(&mut self, name: Ident) {
        let text = self.module.text(name.name);
        if special::find(text).is_some() {
            let message = format!("`{text}` is a special register");
            self.sink.report(Diagnostic::error(
                Code::DUPLICATE_SYMBOL,
                name.span,
                message,
            ));
        }
    }

    /// Checks whether `later` is a permitted repeated declaration of the variable `earlier` with
    /// the same name. Returns true if the check succeeds and `later` is the definition, which then
    /// replaces the declaration `earlier`.
    fn redeclared_variable(&mut self, earlier: &Variable, later: &Variable) -> bool {
        let (was_extern, is_extern) = (
            earlier.linkage == Linkage::Extern,
            later.linkage == Linkage::Extern,
        );
        let name = self.module.text(later.name.name);
        let (code, what) = if !was_extern && !is_extern {
            (Code::DUPLICATE_SYMBOL, "is declared twice")
        } else if !self.same_type(earlier, later) {
            (
                Code::PROTOTYPE_MISMATCH,
                "is declared with a different type or state space",
            )
        } else if was_extern && later.linkage == Linkage::Internal {
            (
                Code::LINKAGE,
                "is declared `.extern` but defined for this module alone",
            )
        } else {
            return !is_extern;
        };
        let diagnostic = Diagnostic::error(code, later.name.span, format!("`{name}` {what}"))
            .with_related(earlier.name.span, "the earlier declaration is here");
        self.sink.report(diagnostic);
        false
    }

    fn same_type(&self, a: &Variable, b: &Variable) -> bool {
        let (left, right) = (&self.module[a.dimensions], &self.module[b.dimensions]);
        let lengths_fit = left.iter().zip(right).all(|(a, b)| {
            let known = |length: Option<u64>| length.filter(|&length| length > 0);
            match (known(a.length), known(b.length)) {
                (Some(a), Some(b)) => a == b,
                _ => true,
            }
        });
        let shape = |v: &Variable| (v.space, v.scalar, v.vector, v.range);
        shape(a) == shape(b) && left.len() == right.len() && lengths_fit
    }

    fn function(&mut self, id: Id<Function>) {
        let module = self.module;
        let function = &module[id];
        functions::check(module, function, &self.header, &mut self.sink);
        self.parameters(function);
        self.module_name(function.name);
        for directive in &module[function.directives] {
            if let DirectiveKind::Pragma(strings) = directive.kind {
                self.pragma(strings, PragmaPlace::Head);
            }
        }
        let name = function.name.name;
        let earlier = self.functions.get(&name).copied();
        let replaces = earlier.is_none_or(|earlier| {
            functions::redeclared(module, &module[earlier], function, &mut self.sink)
        });
        if replaces {
            self.functions.insert(name, id);
            let duplicate = self
                .scopes
                .declare(function.name, Symbol::Function(id))
                .err();
            if let (None, Some(duplicate)) = (earlier, duplicate) {
                let diagnostic = self.names.duplicate(&duplicate);
                self.sink.report(diagnostic);
            }
        }
        if let Some(body) = function.body {
            self.body(function, body);
        }
    }

    fn parameters(&mut self, function: &Function) {
        let place = match function.kind {
            FunctionKind::Entry => DeclarationSite::EntryParameter,
            FunctionKind::Func => DeclarationSite::FuncParameter,
        };
        self.parameter_list(function.returns, place);
        self.parameter_list(function.parameters, place);
    }

    fn parameter_list(&mut self, list: List<Variable>, place: DeclarationSite) {
        for parameter in &self.module[list] {
            declarations::check(self.module, parameter, place, &self.header, &mut self.sink);
        }
    }

    fn body(&mut self, function: &Function, body: List<Statement>) {
        let mut problems = Vec::new();
        self.names.enter(function, &mut self.scopes, &mut problems);
        if let Some(last) = body.ids().next_back() {
            let needed = self.instructions.len().max(last.index() + 1);
            self.instructions.resize(needed, None);
        }
        for id in body.ids() {
            let statement = &self.module[id];
            if self.sink.is_full() {
                break;
            }
            self.statement(function, id, &mut problems);
            if let Err(duplicate) = self.scopes.pass(statement) {
                problems.push(self.names.duplicate(&duplicate));
            }
            for problem in problems.drain(..) {
                self.sink.report(problem);
            }
            self.declaring_statement(statement);
        }
        self.scopes.leave_function();
    }

    /// Selects the form of a statement that is an instruction, and checks that all names in the
    /// statement are declared. To save time, the names of an instruction are checked one by one
    /// only if the resolver found a problem or an undeclared name.
    fn statement(
        &mut self,
        function: &Function,
        id: Id<Statement>,
        problems: &mut Vec<Diagnostic>,
    ) {
        let statement = &self.module[id];
        let mut wrong = Vec::new();
        if let Statement::Instruction(instruction) = statement {
            let (resolver, scopes) = (&mut self.resolver, &self.scopes);
            let resolved = resolver.resolve(function, instruction, scopes, &mut wrong);
            let fine = resolved.is_some() && !resolver.missing_name();
            self.instructions[id.index()] = resolved;
            if fine {
                return;
            }
        }
        self.names.statement(statement, &self.scopes, problems);
        problems.append(&mut wrong);
    }

    fn declaring_statement(&mut self, statement: &Statement) {
        match *statement {
            Statement::Variable(id) => {
                let variable = &self.module[id];
                let header = &self.header;
                declarations::check(
                    self.module,
                    variable,
                    DeclarationSite::Body,
                    header,
                    &mut self.sink,
                );
                initializers::check(self.module, variable, &self.scopes, &mut self.sink);
            }
            Statement::CallPrototype(id) => {
                let prototype = &self.module[id];
                self.prototype(prototype);
                self.parameter_list(prototype.returns, DeclarationSite::Prototype);
                self.parameter_list(prototype.parameters, DeclarationSite::Prototype);
            }
            Statement::Pragma(strings) => self.pragma(strings, PragmaPlace::Body),
            _ => {}
        }
    }

    fn prototype(&mut self, prototype: &Prototype) {
        let (module, span) = (self.module, prototype.label.span);
        functions::returns(module, prototype.returns, span, &mut self.sink);
        let mut directives = module[prototype.directives].iter();
        let never_returns = directives.any(|d| d.kind == DirectiveKind::NoReturn);
        if never_returns && !prototype.returns.is_empty() {
            let message = "a function that never returns has no return parameters";
            self.sink
                .report(Diagnostic::error(Code::DIRECTIVE_PLACE, span, message));
        }
    }

    fn alias(&mut self, alias: &Alias) {
        let ends = AliasEnds {
            name: self.functions.get(&alias.name.name).copied(),
            target: self.functions.get(&alias.target.name).copied(),
        };
        functions::alias(self.module, alias, &ends, &self.header, &mut self.sink);
        if let Some(earlier) = self.aliases.insert(alias.name.name, alias.span) {
            let text = self.module.text(alias.name.name);
            let message = format!("`{text}` is an alias already");
            self.sink.report(
                Diagnostic::error(Code::ALIAS, alias.span, message)
                    .with_related(earlier, "the earlier alias is here"),
            );
        }
    }

    fn pragma(&mut self, strings: List<Ident>, place: PragmaPlace) {
        for string in &self.module[strings] {
            let text = self.module.text(string.name);
            if let Some(diagnostic) = pragma::check(text, string.span, place) {
                self.sink.report(diagnostic);
            }
        }
    }

    fn file(&mut self, index: u64, span: Span) {
        if let Some(earlier) = self.files.insert(index, span) {
            let message = format!("two files have the number {index}");
            self.sink.report(
                Diagnostic::error(Code::DUPLICATE_SYMBOL, span, message)
                    .with_related(earlier, "the first is here"),
            );
        }
    }

    fn section(&mut self, section: &Section) {
        for line in &self.module[section.lines] {
            let DwarfLine::Label(label) = line else {
                continue;
            };
            if let Some(earlier) = self.section_labels.insert(label.name, label.span) {
                let text = self.module.text(label.name);
                let message = format!("`{text}` is declared twice in the sections");
                self.sink.report(
                    Diagnostic::error(Code::DUPLICATE_SYMBOL, label.span, message)
                        .with_related(earlier, "first declared here"),
                );
            }
        }
    }

    /// Checks that a module with `.target debug` contains debugging information.
    fn debug_information(&mut self) {
        let items = &self.module.items;
        let present = |item: &Item| matches!(item, Item::Section(_) | Item::Dwarf(_));
        if let Some(target) = &self.module.target
            && self.header.debug
            && !items.iter().any(present)
        {
            let message = "`.target debug` without debugging information";
            let span = target.span;
            self.sink
                .report(Diagnostic::error(Code::MISSING_DEBUG, span, message));
        }
    }
}
