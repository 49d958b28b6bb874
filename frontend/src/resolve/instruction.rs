//! Selects, for each instruction, the form in the syntax table that the instruction matches.

use margay_ops::meaning::Desc;
use margay_ops::types::OpType;
use margay_ptx::{
    Action, FormError, FormErrorKind, Forms, Matched, OperandPattern, OperandShape, OperandShapes,
    Role, Roles, Shape, Spelling, Target, Version, fit,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

use super::call;
use super::shapes::Shaper;
use super::symbol::{Lookup, Symbol, register_type};
use super::video::{self, Part};
use crate::ast::{Function, Instruction, Module, Name, OperandKind, Prefix, StateSpace};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// The syntax form of an instruction and the roles of its operands.
#[derive(Clone, Debug)]
pub struct ResolvedInstruction {
    matched: Matched,
}

impl ResolvedInstruction {
    /// Returns the form of the instruction together with the modifiers and types that the instruction specifies.
    pub fn spelling(&self) -> &Spelling {
        self.matched.get()
    }

    /// Returns the IR operation of the instruction. Its opcode is only meaningful if [`ResolvedInstruction::action`] is
    /// `Becomes`. Its types and modifiers are those of the instruction for every action.
    pub fn desc(&self) -> Desc {
        self.spelling().desc
    }

    /// Returns how the instruction is lowered: to one op of the op table, to control flow, to a
    /// call, to several ops, or to nothing. The action also states whether the instruction is
    /// unsupported.
    pub fn action(&self) -> Action {
        self.spelling().form.action
    }

    /// Returns the role of each operand, in the order of [`Instruction::operands`].
    pub fn roles(&self) -> &Roles {
        &self.matched.roles
    }

    /// Whether `other` has the same form and roles as this instruction. Both must have the same opcode and modifiers.
    fn is(&self, other: &Matched) -> bool {
        let same = |(a, b): (&Role, &Role)| a.ty == b.ty && std::ptr::eq(a.pattern, b.pattern);
        let roles = &self.matched.roles;
        self.matched.index == other.index
            && roles.len() == other.roles.len()
            && roles.iter().zip(&other.roles).all(same)
    }
}

type Spelled = Result<Arc<[Spelling]>, FormError>;

/// The cache entry for an opcode with its modifiers: the forms that match them, and the results for
/// the operands that have occurred with them.
struct Seen {
    spelled: Spelled,
    uses: Uses,
    /// Whether the result depends on the values of constant operands, because a form restricts the
    /// range of an operand.
    ranged: bool,
    found: SmallVec<[Found; 1]>,
}

/// A cached result: the shapes of the operands, and the selected form.
struct Found {
    shapes: OperandShapes,
    resolved: Arc<ResolvedInstruction>,
}

impl Seen {
    /// The maximum number of combinations of operand shapes that are cached for an opcode with its
    /// modifiers.
    const LIMIT: usize = 16;

    fn new(spelled: Spelled, opcode: &str) -> Seen {
        let forms = spelled.iter().flat_map(|spellings| spellings.iter());
        Seen {
            ranged: forms.flat_map(|s| &s.form.operands).any(is_ranged),
            uses: Uses::of(opcode),
            spelled,
            found: SmallVec::new(),
        }
    }

    fn known(&self, shapes: &OperandShapes) -> Option<Arc<ResolvedInstruction>> {
        let alike = |a: &OperandShape, b: &OperandShape| match (a, b) {
            (OperandShape::Int(_), OperandShape::Int(_)) if !self.ranged => true,
            (a, b) => a == b,
        };
        let all_alike = |a: &[OperandShape], b: &[OperandShape]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
        };
        let mut found = self.found.iter();
        let known = found.find(|known| {
            all_alike(&known.shapes.top, &shapes.top)
                && all_alike(&known.shapes.nested, &shapes.nested)
        })?;
        Some(Arc::clone(&known.resolved))
    }
}

fn is_ranged(pattern: &OperandPattern) -> bool {
    let parts = match &pattern.shape {
        Shape::Tuple(parts) => parts.as_slice(),
        _ => &[],
    };
    pattern.range.is_some() || parts.iter().any(is_ranged)
}

/// The additional check that an instruction with a certain opcode needs after its form has been
/// selected.
#[derive(Clone, Copy)]
enum Uses {
    Call,
    Store,
    Specials,
    Selectors,
    Nothing,
}

impl Uses {
    fn of(opcode: &str) -> Uses {
        match opcode {
            "call" => Uses::Call,
            "st" => Uses::Store,
            "mov" | "cvt" => Uses::Specials,
            _ if opcode.starts_with('v') => Uses::Selectors,
            _ => Uses::Nothing,
        }
    }
}

/// Selects the forms of the instructions of one module.
pub struct InstructionResolver<'m> {
    module: &'m Module,
    version: Version,
    target: Target,
    forms: Forms,
    /// A cache of the selected forms. Even a module of a million instructions has only a few
    /// hundred combinations of opcode and modifiers, and each of them occurs with only a few
    /// combinations of operand shapes.
    seen: Vec<Seen>,
    /// For each opcode with its modifiers, the index of its entry in `seen`.
    seen_at: FxHashMap<SmallVec<[Name; 8]>, usize>,
    shapes: OperandShapes,
    missing: bool,
    /// Whether at least one instruction has an operand that is a 32-bit address of global memory or
    /// a 32-bit generic address.
    narrow: bool,
}

impl<'m> InstructionResolver<'m> {
    /// Creates an [`InstructionResolver`] for a module. If the version is missing, or the target is
    /// missing or unknown, the resolver assumes version 99.0 or target `sm_120`. Another check adds
    /// the error to the diagnostics.
    pub fn new(module: &'m Module) -> Self {
        let version = module.version.map_or(Version::new(99, 0), |(version, _)| {
            let part = |n: u32| u16::try_from(n).unwrap_or(99).min(99);
            Version::new(part(version.major), part(version.minor))
        });
        let target = module
            .target
            .as_ref()
            .and_then(|target| module[target.words].first())
            .and_then(|word| Target::parse(module.text(word.name)))
            .unwrap_or(Target::base(120));
        InstructionResolver {
            module,
            version,
            target,
            forms: Forms::new(version, target),
            seen: Vec::new(),
            seen_at: FxHashMap::default(),
            shapes: OperandShapes::default(),
            missing: false,
            narrow: false,
        }
    }

    /// Whether at least one instruction has an operand that is a 32-bit address of global memory or
    /// a 32-bit generic address.
    pub fn is_narrow(&self) -> bool {
        self.narrow
    }

    /// Whether the module may contain 32-bit addresses of global memory and 32-bit generic
    /// addresses. This is so if `.address_size` is 32 or absent. The directive is optional, and PTX
    /// before 2.3 does not have it.
    fn may_be_narrow(&self) -> bool {
        self.module.address_size.is_none_or(|(bits, _)| bits == 32)
    }

    /// Returns the instruction with its form. If there is an error, adds it to `diagnostics` and
    /// returns `None`. An undeclared name is not an error for this function: it matches every
    /// operand pattern, and afterwards [`InstructionResolver::missing_name`] returns true.
    pub fn resolve<L: Lookup + ?Sized>(
        &mut self,
        function: &Function,
        instruction: &Instruction,
        lookup: &L,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Arc<ResolvedInstruction>> {
        self.missing = false;
        let guard = self.check_guard(instruction, lookup);
        let result = guard.and_then(|()| self.form(instruction, lookup));
        let checked = result.and_then(|(resolved, uses)| {
            self.check_uses(uses, function, instruction, lookup)?;
            Ok(resolved)
        });
        match checked {
            Ok(resolved) => Some(resolved),
            Err(diagnostic) => {
                diagnostics.push(*diagnostic);
                None
            }
        }
    }

    /// Whether the instruction that was resolved last uses an undeclared name. If the instruction
    /// contains an error, the names after the error are not considered.
    pub fn missing_name(&self) -> bool {
        self.missing
    }

    fn check_guard<L: Lookup + ?Sized>(
        &mut self,
        instruction: &Instruction,
        lookup: &L,
    ) -> Result<(), Box<Diagnostic>> {
        let Some(guard) = instruction.guard else {
            return Ok(());
        };
        let register = self.module[guard].register;
        let predicate = match lookup.lookup(register.name) {
            None => {
                self.missing = true;
                true
            }
            Some(Symbol::Register { variable, .. }) => {
                register_type(self.module[variable].scalar) == OpType::Pred
            }
            Some(_) => false,
        };
        if predicate {
            return Ok(());
        }
        let message = format!(
            "the guard `{}` is not a predicate register",
            self.module.text(register.name)
        );
        Err(error(Code::GUARD, register.span, message))
    }

    fn form<L: Lookup + ?Sized>(
        &mut self,
        instruction: &Instruction,
        lookup: &L,
    ) -> Result<(Arc<ResolvedInstruction>, Uses), Box<Diagnostic>> {
        let at = self.seen_at(instruction);
        if let Err(problem) = &self.seen[at].spelled {
            return Err(self.explain(instruction, problem));
        }
        self.shapes.clear();
        let mut shaper = Shaper {
            module: self.module,
            lookup,
            shapes: &mut self.shapes,
            missing: false,
        };
        let shaped = shaper.operands(instruction.operands);
        self.missing |= shaper.missing;
        shaped.map_err(|(index, reason)| {
            let span = self.module[instruction.operands][index].span;
            error(Code::OPERAND_KIND, span, reason)
        })?;
        let seen = &self.seen[at];
        let uses = seen.uses;
        match seen.known(&self.shapes) {
            Some(known) => Ok((known, uses)),
            None => Ok((self.fit(at, instruction)?, uses)),
        }
    }

    /// Selects the form for operands whose combination of shapes is not in the cache. Adds the
    /// result to the cache if the cache entry has fewer than [`Seen::LIMIT`] results.
    fn fit(
        &mut self,
        at: usize,
        instruction: &Instruction,
    ) -> Result<Arc<ResolvedInstruction>, Box<Diagnostic>> {
        let seen = &self.seen[at];
        let spelled = seen.spelled.clone();
        let mut matched = spelled
            .clone()
            .and_then(|spelling| fit(spelling, &self.shapes));
        if matched.is_err() && self.may_be_narrow() {
            self.shapes.narrow = true;
            matched = spelled.and_then(|spelling| fit(spelling, &self.shapes));
            self.narrow |= matched.is_ok();
        }
        let matched = matched.map_err(|problem| self.explain(instruction, &problem))?;
        let mut found = seen.found.iter().map(|found| &found.resolved);
        let resolved = match found.find(|known| known.is(&matched)) {
            Some(known) => Arc::clone(known),
            None => Arc::new(ResolvedInstruction { matched }),
        };
        let found = &mut self.seen[at].found;
        if found.len() < Seen::LIMIT {
            found.push(Found {
                shapes: self.shapes.clone(),
                resolved: Arc::clone(&resolved),
            });
        }
        Ok(resolved)
    }

    /// Returns the index in `seen` of the entry for the instruction's opcode and modifiers. Adds an
    /// entry if there is none for them.
    fn seen_at(&mut self, instruction: &Instruction) -> usize {
        let key = self.key(instruction);
        if let Some(&at) = self.seen_at.get(&key) {
            return at;
        }
        let spelled = self.forms.spelled(&self.module.spelling(instruction));
        let opcode = self.module.text(instruction.opcode);
        self.seen.push(Seen::new(spelled, opcode));
        self.seen_at.insert(key, self.seen.len() - 1);
        self.seen.len() - 1
    }

    fn key(&self, instruction: &Instruction) -> SmallVec<[Name; 8]> {
        let modifiers = &self.module[instruction.modifiers];
        let names = modifiers.iter().map(|modifier| modifier.name);
        std::iter::once(instruction.opcode).chain(names).collect()
    }

    /// Performs the additional check `uses`: the signature of a call, stores to parameters,
    /// availability of special registers, or video selectors.
    fn check_uses<L: Lookup + ?Sized>(
        &self,
        uses: Uses,
        function: &Function,
        instruction: &Instruction,
        lookup: &L,
    ) -> Result<(), Box<Diagnostic>> {
        match uses {
            Uses::Call => call::check(self.module, function, instruction, lookup),
            Uses::Store => self.check_store(function, instruction, lookup),
            Uses::Specials => self.check_specials(instruction, lookup),
            Uses::Selectors => {
                self.check_selectors(self.module.text(instruction.opcode), instruction)
            }
            Uses::Nothing => Ok(()),
        }
    }

    fn check_selectors(
        &self,
        opcode: &str,
        instruction: &Instruction,
    ) -> Result<(), Box<Diagnostic>> {
        let operands = &self.module[instruction.operands];
        for (index, operand) in operands.iter().enumerate() {
            let (OperandKind::Component { selector, .. }
            | OperandKind::Prefixed {
                selector: Some(selector),
                ..
            }) = operand.kind
            else {
                continue;
            };
            let part = if index == 0 {
                Part::Result
            } else {
                Part::Source
            };
            let selector = self.module.text(selector);
            if !video::takes(opcode, part, selector) {
                let message = format!("`{opcode}` cannot select `.{selector}` here");
                return Err(error(Code::OPERAND_KIND, operand.span, message));
            }
        }
        self.check_signs(instruction)
    }

    /// Checks that a `vmad` instruction does not have minus signs for both its product and its
    /// addend.
    fn check_signs(&self, instruction: &Instruction) -> Result<(), Box<Diagnostic>> {
        let operands = &self.module[instruction.operands];
        let negative = |index: usize| {
            let kind = operands.get(index).map(|operand| operand.kind);
            let minus = Prefix::Minus;
            matches!(kind, Some(OperandKind::Prefixed { prefix, .. }) if prefix == minus)
        };
        if negative(1) != negative(2) && negative(3) {
            let message = "the product and the addend cannot both be negated";
            return Err(error(Code::OPERAND_KIND, operands[3].span, message));
        }
        Ok(())
    }

    /// Checks that a store does not write to an input parameter of the function that contains the
    /// store, because these parameters are read-only.
    fn check_store<L: Lookup + ?Sized>(
        &self,
        function: &Function,
        instruction: &Instruction,
        lookup: &L,
    ) -> Result<(), Box<Diagnostic>> {
        let operands = &self.module[instruction.operands];
        let Some(operand) = operands.first() else {
            return Ok(());
        };
        let OperandKind::Memory { base, .. } = operand.kind else {
            return Ok(());
        };
        let Some(Symbol::Variable(variable)) = lookup.lookup(base) else {
            return Ok(());
        };
        let is_input = self.module[variable].space == StateSpace::Param
            && function.parameters.ids().any(|id| id == variable);
        if is_input {
            let message = format!(
                "the parameter `{}` cannot be written",
                self.module.text(base)
            );
            return Err(error(Code::ADDRESS, operand.span, message));
        }
        Ok(())
    }

    /// Checks that the special registers that the instruction uses exist for the module's PTX
    /// version and target.
    fn check_specials<L: Lookup + ?Sized>(
        &self,
        instruction: &Instruction,
        lookup: &L,
    ) -> Result<(), Box<Diagnostic>> {
        for operand in &self.module[instruction.operands] {
            let (OperandKind::Name(name) | OperandKind::Component { base: name, .. }) =
                operand.kind
            else {
                continue;
            };
            let Some(Symbol::Special(special)) = lookup.lookup(name) else {
                continue;
            };
            let needed = if special.version > self.version {
                format!(".version {}", special.version)
            } else if !self.target.has(special.target) {
                format!(".target {}", special.target)
            } else {
                continue;
            };
            let message = format!("`{}` needs `{needed}` or later", self.module.text(name));
            return Err(error(Code::FEATURE_VERSION, operand.span, message));
        }
        Ok(())
    }

    fn explain(&self, instruction: &Instruction, problem: &FormError) -> Box<Diagnostic> {
        let modifiers = &self.module[instruction.modifiers];
        let operands = &self.module[instruction.operands];
        let opcode = self.module.opcode_span(instruction);
        let operand = |index: usize| operands.get(index).map_or(instruction.span, |o| o.span);
        let modifier = |index: usize| modifiers.get(index).map_or(opcode, |m| m.span);
        let (code, span) = match problem.kind {
            FormErrorKind::UnknownOpcode => (Code::UNKNOWN_OPCODE, opcode),
            FormErrorKind::UnknownModifier(index) => (Code::UNKNOWN_MODIFIER, modifier(index)),
            FormErrorKind::IllegalModifier(index) => {
                let is_type = modifiers
                    .get(index)
                    .is_some_and(|m| OpType::from_name(self.module.text(m.name)).is_some());
                let code = if is_type {
                    Code::INSTRUCTION_TYPE
                } else {
                    Code::ILLEGAL_MODIFIER
                };
                (code, modifier(index))
            }
            FormErrorKind::MissingType | FormErrorKind::MissingModifier => {
                (Code::MISSING_MODIFIER, opcode)
            }
            FormErrorKind::OperandCount { .. } => (Code::OPERAND_COUNT, instruction.span),
            FormErrorKind::Operand(index) => (Code::OPERAND_TYPE, operand(index)),
            FormErrorKind::StateSpace(index) => (Code::ADDRESS, operand(index)),
            FormErrorKind::Range(index) => (Code::IMMEDIATE_RANGE, operand(index)),
            FormErrorKind::Version(_) | FormErrorKind::Target(_) | FormErrorKind::Withdrawn => {
                (Code::FEATURE_VERSION, opcode)
            }
        };
        let spelling = self.module.spelling(instruction);
        let message = match problem.kind {
            FormErrorKind::OperandCount { .. }
            | FormErrorKind::Operand(_)
            | FormErrorKind::StateSpace(_)
            | FormErrorKind::Range(_) => format!("`{spelling}`: {problem}"),
            _ => problem.to_string(),
        };
        error(code, span, message)
    }
}

pub(super) fn error(code: Code, span: Span, message: impl Into<String>) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(code, span, message))
}
