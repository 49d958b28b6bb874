//! The scopes of a module, which find the symbol (the declaration) to which a name refers at a
//! position in the text.
//!
//! The caller declares the items of a module and passes the statements of each function body to
//! [`Scopes::pass`], in the order of the text. After each statement, [`Lookup::lookup`] returns the
//! symbol of a name at this position of the text.
//!
//! The scope rules of PTX:
//!
//! - Braces open scopes, and inner declarations hide outer declarations.
//! - Parameters belong to the body's outermost scope.
//! - A name must be declared before its use. The only exception is a label: it may be declared
//!   after its use, if the scope that contains the declaration is already open at the use.
//! - A label, a variable and a list of targets in the same scope cannot have the same name.
//! - `%r<3>` declares `%r0` to `%r2`. The number of such a register consists of all digits at the
//!   end of the name and may have leading zeros.
//!
//! Invariant: `leave`, which closes a scope, removes exactly the declarations since the call of
//! `enter` that opened the scope.

use std::cell::Cell;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::special;
use super::symbol::{Lookup, Symbol};
use crate::ast::{Function, Id, Ident, Module, Name, StateSpace, Statement, Variable};
use crate::source::Span;

/// The error for a name that is already declared in the same scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Duplicate {
    /// The name of the later declaration.
    pub name: Ident,
    /// The source range of the earlier declaration's name. If PTX predefines the name, this is the
    /// source range of `name`.
    pub earlier: Span,
}

#[derive(Clone, Copy, Debug)]
struct Binding {
    symbol: Symbol,
    depth: u32,
    span: Span,
}

#[derive(Clone, Copy, Debug)]
struct RangeBinding {
    variable: Id<Variable>,
    count: u64,
    depth: u32,
    span: Span,
}

/// A declaration of a single name, not a range, that ends with a number.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    number: u64,
    depth: u32,
    span: Span,
}

/// A record of one declaration, which states how the declaration is removed at the end of its
/// scope. `Name` contains a name and its earlier binding, which is then restored. `Range` contains
/// the base name of a range, which is then removed.
#[derive(Debug)]
enum Hidden {
    Name(Name, Option<Binding>),
    Range(Name),
}

/// The result of splitting a name into base and trailing number. [`Scopes`] caches it for each
/// name.
#[derive(Clone, Copy, Debug)]
enum Split {
    Unknown,
    NoNumber,
    Number(Name, u64),
}

/// The scopes that are open at a position in the text, with their declarations.
#[derive(Debug)]
pub struct Scopes<'m> {
    module: &'m Module,
    names: Vec<Option<Binding>>,
    /// For each base name, the ranges of registers with this base name in open scopes, innermost
    /// scope last. An inner range hides only those members of an outer range whose numbers are also
    /// in the inner range.
    ranges: FxHashMap<Name, SmallVec<[RangeBinding; 1]>>,
    splits: Vec<Cell<Split>>,
    /// For each base name, the single names in open scopes that consist of this base name and a
    /// number, innermost scope last.
    numbered: FxHashMap<Name, Vec<Numbered>>,
    hidden: Vec<Hidden>,
    /// For each open scope except the scope of the module: the length of `hidden` when the scope
    /// was opened, and the labels in the scope.
    open: Vec<(usize, Vec<Name>)>,
    /// For each name, the number of open scopes that contain a label of this name, before or after the current
    /// position.
    labels: FxHashMap<Name, u32>,
    /// A list of labels for each scope of the current body that has not been opened yet. The scope
    /// that opens next is last.
    label_lists: Vec<Vec<Name>>,
    /// A cache of the symbols of names, because most names are used many times. An entry is valid if its first field
    /// equals `era`.
    found: Vec<Cell<(u32, Symbol)>>,
    /// The number of the current generation of the cache `found`. A new generation, which
    /// invalidates all entries, starts when the symbols of several names can change: at the end of
    /// a scope and at the declaration of a range. The declaration of a single name only invalidates
    /// the entry of this name. Opening a scope invalidates no entry: it can only add labels for
    /// names without a symbol, which are not cached.
    era: u32,
}

impl<'m> Scopes<'m> {
    /// Creates the scopes for a module: only the scope of the module is open, and it contains no
    /// declarations.
    pub fn new(module: &'m Module) -> Self {
        Scopes {
            module,
            names: vec![None; module.names.len()],
            ranges: FxHashMap::default(),
            splits: vec![Cell::new(Split::Unknown); module.names.len()],
            numbered: FxHashMap::default(),
            hidden: Vec::new(),
            open: Vec::new(),
            labels: FxHashMap::default(),
            label_lists: Vec::new(),
            found: vec![Cell::new((0, Symbol::Label)); module.names.len()],
            era: 1,
        }
    }

    fn new_era(&mut self) {
        self.era = match self.era.checked_add(1) {
            Some(era) => era,
            None => {
                self.found.fill(Cell::new((0, Symbol::Label)));
                1
            }
        };
    }

    /// Returns the number of open scopes inside the module's scope.
    pub fn depth(&self) -> u32 {
        self.open.len() as u32
    }

    /// Opens the scope of a function and declares the function's parameters in this scope.
    ///
    /// # Errors
    ///
    /// Returns the parameters whose names repeat the name of an earlier parameter. The later
    /// parameter hides the earlier parameter.
    pub fn enter_function(&mut self, function: &Function) -> Result<(), Vec<Duplicate>> {
        self.label_lists = self.scope_labels(function);
        self.enter();
        let lists = [function.returns, function.parameters];
        let parameters = lists.into_iter().flat_map(|list| list.ids());
        let duplicates: Vec<_> = parameters
            .filter_map(|id| self.declare_variable(id).err())
            .collect();
        match duplicates.is_empty() {
            true => Ok(()),
            false => Err(duplicates),
        }
    }

    /// Closes the scope of the current function and all scopes inside it.
    pub fn leave_function(&mut self) {
        while !self.open.is_empty() {
            self.leave();
        }
    }

    /// Updates the scopes for the next statement of the text: opens a scope, closes a scope, or
    /// adds a declaration.
    ///
    /// # Errors
    ///
    /// Returns an error if the statement declares a name that is already declared in this scope.
    /// The new declaration hides the earlier declaration.
    pub fn pass(&mut self, statement: &Statement) -> Result<(), Duplicate> {
        match *statement {
            Statement::ScopeBegin(_) => self.enter(),
            Statement::ScopeEnd(_) => self.leave(),
            Statement::Variable(id) => return self.declare_variable(id),
            Statement::Label(label) => return self.declare(label, Symbol::Label),
            Statement::BranchTargets(id) | Statement::CallTargets(id) => {
                return self.declare(self.module[id].label, Symbol::Targets(id));
            }
            Statement::CallPrototype(id) => {
                return self.declare(self.module[id].label, Symbol::Prototype(id));
            }
            Statement::Instruction(_) | Statement::Pragma(_) => {}
        }
        Ok(())
    }

    fn enter(&mut self) {
        let labels = self.label_lists.pop().unwrap_or_default();
        for &label in &labels {
            *self.labels.entry(label).or_insert(0) += 1;
        }
        self.open.push((self.hidden.len(), labels));
    }

    fn leave(&mut self) {
        let Some((mark, labels)) = self.open.pop() else {
            return;
        };
        self.new_era();
        for label in labels {
            if let Some(count) = self.labels.get_mut(&label) {
                *count -= 1;
            }
        }
        while self.hidden.len() > mark
            && let Some(hidden) = self.hidden.pop()
        {
            match hidden {
                Hidden::Name(name, binding) => {
                    self.names[name.index()] = binding;
                    if let Some((base, _)) = self.compared_number(name) {
                        self.numbered.get_mut(&base).map(Vec::pop);
                    }
                }
                Hidden::Range(base) => {
                    self.ranges.get_mut(&base).map(SmallVec::pop);
                }
            }
        }
    }

    /// Declares a variable, a register or a range of registers in the innermost open scope.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is already declared in this scope.
    pub fn declare_variable(&mut self, id: Id<Variable>) -> Result<(), Duplicate> {
        let variable = &self.module[id];
        if let Some(count) = variable.range {
            return self.declare_range(id, variable.name, count);
        }
        let symbol = match variable.space {
            StateSpace::Reg => Symbol::Register {
                variable: id,
                index: 0,
            },
            _ => Symbol::Variable(id),
        };
        self.declare(variable.name, symbol)
    }

    fn declare_range(
        &mut self,
        id: Id<Variable>,
        base: Ident,
        count: u64,
    ) -> Result<(), Duplicate> {
        let range = RangeBinding {
            variable: id,
            count,
            depth: self.depth(),
            span: base.span,
        };
        self.new_era();
        let ranges = self.ranges.entry(base.name).or_default();
        let earlier = ranges.last().copied();
        ranges.push(range);
        self.hidden.push(Hidden::Range(base.name));
        match earlier {
            Some(earlier) if earlier.depth == range.depth => Err(Duplicate {
                name: base,
                earlier: earlier.span,
            }),
            _ => match self.member_of(base.name, range) {
                Some(earlier) => Err(Duplicate {
                    name: base,
                    earlier,
                }),
                None => Ok(()),
            },
        }
    }

    /// If the name of a register in `range` is also declared as a single name in the same scope,
    /// returns the source range of the single name's declaration.
    fn member_of(&self, base: Name, range: RangeBinding) -> Option<Span> {
        let numbered = self.numbered.get(&base)?.iter().rev();
        let mut same_scope = numbered.take_while(|numbered| numbered.depth == range.depth);
        let member = same_scope.find(|numbered| numbered.number < range.count)?;
        Some(member.span)
    }

    /// Declares a name.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is already declared in this scope.
    pub fn declare(&mut self, name: Ident, symbol: Symbol) -> Result<(), Duplicate> {
        let depth = self.depth();
        let same_scope = self.declared_at(name.name, depth);
        let binding = Binding {
            symbol,
            depth,
            span: name.span,
        };
        if let Some((base, number)) = self.compared_number(name.name) {
            let numbered = Numbered {
                number,
                depth,
                span: name.span,
            };
            self.numbered.entry(base).or_default().push(numbered);
        }
        let earlier = self.names[name.name.index()].replace(binding);
        self.found[name.name.index()].set((0, Symbol::Label));
        self.hidden.push(Hidden::Name(name.name, earlier));
        match same_scope {
            Some(earlier) => Err(Duplicate { name, earlier }),
            None => Ok(()),
        }
    }

    /// Splits a name into its base and the number at its end, if the name is compared with later ranges. A name with
    /// leading zeros such as `z02` is not compared with later ranges `z<n>`, although it is a member of an earlier range.
    fn compared_number(&self, name: Name) -> Option<(Name, u64)> {
        let text = self.module.text(name);
        let digits = text.len() - text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        match self.split(name) {
            Split::Number(base, number) if number.to_string().len() == digits => {
                Some((base, number))
            }
            _ => None,
        }
    }

    /// Returns the source range of the declaration of `name` in the open scope at `depth`, or
    /// `None` if this scope does not declare the name.
    fn declared_at(&self, name: Name, depth: u32) -> Option<Span> {
        if let Some(binding) = self.names[name.index()].filter(|b| b.depth == depth) {
            return Some(binding.span);
        }
        let (range, _) = self.range_member(name)?;
        (range.depth == depth).then_some(range.span)
    }

    /// Splits a name into its base and the number at its end. The result is cached, because most
    /// registers are used many times.
    fn split(&self, name: Name) -> Split {
        let cell = &self.splits[name.index()];
        if let Split::Unknown = cell.get() {
            cell.set(self.find_split(name));
        }
        cell.get()
    }

    fn find_split(&self, name: Name) -> Split {
        let parts = split_number(self.module.text(name));
        let found = parts.and_then(|(base, n)| Some((self.module.names.get(base)?, n)));
        found.map_or(Split::NoNumber, |(base, n)| Split::Number(base, n))
    }

    fn range_member(&self, name: Name) -> Option<(RangeBinding, u64)> {
        let Split::Number(base, number) = self.split(name) else {
            return None;
        };
        let mut ranges = self.ranges.get(&base)?.iter().rev();
        let range = ranges.find(|range| number < range.count)?;
        Some((*range, number))
    }

    /// Returns the source range of the declaration to which a name refers, or `None` if no open
    /// scope declares the name.
    pub fn declaration(&self, name: Name) -> Option<Span> {
        let direct = self.names[name.index()];
        let range = self.range_member(name);
        match (direct, range) {
            (Some(direct), Some((range, _))) if range.depth > direct.depth => Some(range.span),
            (Some(direct), _) => Some(direct.span),
            (None, range) => range.map(|(range, _)| range.span),
        }
    }

    /// Returns a list of labels for each scope of a function's body. The scopes are in the reverse
    /// order of their opening braces.
    fn scope_labels(&self, function: &Function) -> Vec<Vec<Name>> {
        let mut lists = vec![Vec::new()];
        let mut open = vec![0];
        let body = function.body.map_or(&[][..], |body| &self.module[body]);
        for statement in body {
            match *statement {
                Statement::ScopeBegin(_) => {
                    open.push(lists.len());
                    lists.push(Vec::new());
                }
                Statement::ScopeEnd(_) => {
                    open.pop();
                }
                Statement::Label(label) => {
                    if let Some(&scope) = open.last() {
                        lists[scope].push(label.name);
                    }
                }
                _ => {}
            }
        }
        lists.reverse();
        lists
    }
}

impl Lookup for Scopes<'_> {
    fn lookup(&self, name: Name) -> Option<Symbol> {
        let cell = &self.found[name.index()];
        let (era, symbol) = cell.get();
        if era == self.era {
            return Some(symbol);
        }
        let symbol = self.find(name)?;
        cell.set((self.era, symbol));
        Some(symbol)
    }
}

impl Scopes<'_> {
    fn find(&self, name: Name) -> Option<Symbol> {
        let direct = self.names.get(name.index()).copied().flatten();
        if let Some(binding) = direct
            && binding.depth == self.depth()
        {
            return Some(binding.symbol);
        }
        if let Some((range, index)) = self.range_member(name)
            && direct.is_none_or(|binding| binding.depth < range.depth)
        {
            let variable = range.variable;
            return Some(match self.module[variable].space {
                StateSpace::Reg => Symbol::Register { variable, index },
                _ => Symbol::Variable(variable),
            });
        }
        if let Some(binding) = direct {
            return Some(binding.symbol);
        }
        if let Some(special) = special::find(self.module.text(name)) {
            return Some(Symbol::Special(special));
        }
        let labelled = self.labels.get(&name).is_some_and(|&count| count > 0);
        labelled.then_some(Symbol::Label)
    }
}

/// Splits the name of a register into its base and the number at its end: `%r12` into `%r` and 12.
pub fn split_number(text: &str) -> Option<(&str, u64)> {
    let base = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &text[base.len()..];
    if digits.is_empty() || base.is_empty() {
        return None;
    }
    Some((base, digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parsed, SourceFile, parse};

    fn parsed(body: &str) -> Parsed {
        let text = format!(
            ".version 8.0\n.target sm_80\n.global .b32 g;\n.entry k(.param .b32 n) {{\n{body}\n}}"
        );
        let parsed = parse(SourceFile::new("t", text));
        assert!(!parsed.has_errors(), "{:?}", parsed.diagnostics);
        parsed
    }

    /// Returns a short word for the symbol to which `name` refers at each instruction of a body.
    fn meanings(name: &str, body: &str) -> Vec<String> {
        let parsed = parsed(body);
        let module = &parsed.module;
        let mut scopes = Scopes::new(module);
        let mut meanings = Vec::new();
        for (_, function) in module.functions() {
            scopes.enter_function(function).expect("no duplicates");
            for statement in &module[function.body.expect("a body")] {
                if let Statement::Instruction(_) = statement {
                    let symbol = module.names.get(name).and_then(|name| scopes.lookup(name));
                    meanings.push(match symbol {
                        Some(Symbol::Register { variable, index }) => {
                            format!("{}{index}", module[variable].scalar)
                        }
                        Some(Symbol::Variable(id)) => module[id].space.to_string(),
                        Some(Symbol::Label) => "label".to_owned(),
                        Some(Symbol::Special(_)) => "special".to_owned(),
                        Some(_) => "other".to_owned(),
                        None => "-".to_owned(),
                    });
                }
                scopes.pass(statement).expect("no duplicates");
            }
            scopes.leave_function();
        }
        meanings
    }

    #[test]
    fn inner_declarations_hide_outer_ones() {
        let body = "ret; .reg .b32 x; ret; { ret; .reg .f32 x; ret; } ret;";
        assert_eq!(
            meanings("x", body),
            ["-", ".b320", ".b320", ".f320", ".b320"]
        );
        assert_eq!(
            meanings("n", "ret; { .reg .b64 n; ret; }"),
            [".param", ".b640"]
        );
    }

    #[test]
    fn labels_may_come_later_in_an_open_scope() {
        assert_eq!(meanings("L", "{ ret; } ret; L: ret;"), ["label"; 3]);
        assert_eq!(meanings("L", "ret; { L: ret; } ret;"), ["-", "label", "-"]);
        assert_eq!(meanings("L", "{ L: ret; } { ret; L: }"), ["label", "label"]);
        // An existing declaration takes precedence over a later label.
        assert_eq!(
            meanings("L", ".reg .b32 L; { ret; L: ret; }"),
            [".b320", "label"]
        );
    }

    #[test]
    fn ranges_have_members_by_number() {
        let body = ".reg .b32 r<3>; ret; { .reg .f32 r<2>; ret; }";
        assert_eq!(
            meanings("r", &format!("{body} .reg .u32 q; ret;")),
            ["-", "-", "-"]
        );
        let uses = "{ .reg .b64 r1; .reg .b64 r02; .reg .b64 r3; .reg .b64 r2; }";
        let body = format!("{body} {uses}");
        assert_eq!(meanings("r1", &body), [".b321", ".f321"]);
        assert_eq!(meanings("r02", &body), [".b322", ".b322"]);
        assert_eq!(meanings("r3", &body), ["-", "-"]);
    }

    #[test]
    fn special_registers_can_be_redeclared() {
        assert_eq!(
            meanings("%tid", "mov.u32 %tid, 1; .reg .b32 %tid; ret;"),
            ["special", ".b320"]
        );
    }

    #[test]
    fn a_hidden_range_comes_back() {
        let body = ".reg .b32 r<3>; { .reg .b64 r1; ret; } mov.b32 r1, 1;";
        assert_eq!(meanings("r1", body), [".b640", ".b321"]);
    }

    #[test]
    fn numbers_are_all_digits_at_the_end() {
        assert_eq!(split_number("%r12"), Some(("%r", 12)));
        assert_eq!(split_number("z02"), Some(("z", 2)));
        assert_eq!(split_number("r1x"), None);
        assert_eq!(split_number("r99999999999999999999"), None);
    }

    #[test]
    fn duplicates_are_found_in_one_scope_only() {
        let duplicates = |body: &str| {
            let parsed = parsed(body);
            let module = &parsed.module;
            let mut scopes = Scopes::new(module);
            let function = module.functions().next().expect("a function").1;
            scopes.enter_function(function).expect("no duplicates");
            module[function.body.expect("a body")]
                .iter()
                .filter_map(|statement| scopes.pass(statement).err())
                .map(|d| parsed.source.slice(d.name.span).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(duplicates(".reg .b32 a, a;"), ["a"]);
        assert_eq!(duplicates(".reg .b32 n;"), ["n"]);
        assert_eq!(duplicates("{ .reg .b32 n; } .reg .b32 g;"), [""; 0]);
        assert_eq!(duplicates(".reg .b32 z<3>, z02;"), ["z02"]);
        assert_eq!(
            duplicates(".reg .b32 z02; .reg .b32 z<3>; .reg .b32 z3, z;"),
            [""; 0]
        );
        assert_eq!(duplicates(".reg .b32 z<3>; .reg .f32 z<5>;"), ["z"]);
        assert_eq!(
            duplicates(".reg .b32 z1; { .reg .b32 z02; } .reg .b32 z<3>;"),
            ["z"]
        );
        assert_eq!(duplicates("L: L: ret;"), ["L"]);
        assert_eq!(duplicates("x: .reg .b32 x;"), ["x"]);
        assert_eq!(duplicates("x: { .reg .b32 x; x1: }"), [""; 0]);
    }
}
