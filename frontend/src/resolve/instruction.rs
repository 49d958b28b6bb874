//! Which form an instruction has: the syntax table applied to the tree.

use margay_ir::forms::{
    Action, FormError, FormErrorKind, Forms, Matched, OperandShapes, Role, Roles, Spelling, Target,
    Version, fit,
};
use margay_ir::meaning::Desc;
use margay_ir::types::OpType;
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

/// An instruction with its form.
#[derive(Clone, Debug)]
pub struct ResolvedInstruction {
    matched: Matched,
}

impl ResolvedInstruction {
    /// The form with the modifiers and types chosen.
    pub fn spelling(&self) -> &Spelling {
        self.matched.get()
    }

    /// The operation. Meaningful when [`ResolvedInstruction::action`] is `Becomes`.
    pub fn desc(&self) -> Desc {
        self.spelling().desc
    }

    /// What the instruction becomes.
    pub fn action(&self) -> Action {
        self.spelling().form.action
    }

    /// The role of each operand, in the order of [`Instruction::operands`].
    pub fn roles(&self) -> &Roles {
        &self.matched.roles
    }

    /// Whether this is what another instruction of the same opcode and modifiers matched.
    fn is(&self, other: &Matched) -> bool {
        let same = |(a, b): (&Role, &Role)| a.ty == b.ty && std::ptr::eq(a.pattern, b.pattern);
        let roles = &self.matched.roles;
        self.matched.index == other.index
            && roles.len() == other.roles.len()
            && roles.iter().zip(&other.roles).all(same)
    }
}

type Spelled = Result<Arc<[Spelling]>, FormError>;

/// The forms of an opcode with its modifiers, and the instructions found of them.
struct Seen {
    spelled: Spelled,
    found: SmallVec<[Arc<ResolvedInstruction>; 1]>,
}

/// Resolves the instructions of one module.
pub struct InstructionResolver<'m> {
    module: &'m Module,
    version: Version,
    target: Target,
    forms: Forms,
    /// By opcode and modifiers: a module of a million instructions has a few hundred spellings, each
    /// with operands of a few kinds.
    seen: FxHashMap<SmallVec<[Name; 8]>, Seen>,
    shapes: OperandShapes,
}

impl<'m> InstructionResolver<'m> {
    /// A resolver for a module; a missing or unknown version or target (reported elsewhere) counts
    /// as the newest.
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
            seen: FxHashMap::default(),
            shapes: OperandShapes::default(),
        }
    }

    /// The instruction's form. What is wrong is reported, except names without a declaration, which
    /// are taken to fit.
    pub fn resolve<L: Lookup + ?Sized>(
        &mut self,
        function: &Function,
        instruction: &Instruction,
        lookup: &L,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Arc<ResolvedInstruction>> {
        let guard = self.check_guard(instruction, lookup);
        let result = guard.and_then(|()| self.form(instruction, lookup));
        let checked = result.and_then(|resolved| {
            self.check_uses(function, instruction, lookup)?;
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

    fn check_guard<L: Lookup + ?Sized>(
        &self,
        instruction: &Instruction,
        lookup: &L,
    ) -> Result<(), Box<Diagnostic>> {
        let Some(guard) = instruction.guard else {
            return Ok(());
        };
        let register = self.module[guard].register;
        let predicate = match lookup.lookup(register.name) {
            None => true,
            Some(Symbol::Register { variable, .. }) => {
                register_type(self.module[variable].scalar) == OpType::Pred
            }
            Some(_) => false,
        };
        if predicate {
            return Ok(());
        }
        let message = format!(
            "the guard `{}` is no predicate register",
            self.module.text(register.name)
        );
        Err(error(Code::GUARD, register.span, message))
    }

    fn form<L: Lookup + ?Sized>(
        &mut self,
        instruction: &Instruction,
        lookup: &L,
    ) -> Result<Arc<ResolvedInstruction>, Box<Diagnostic>> {
        let key = self.key(instruction);
        if !self.seen.contains_key(&key) {
            let spelled = self.forms.spelled(&self.module.spelling(instruction));
            let found = SmallVec::new();
            self.seen.insert(key.clone(), Seen { spelled, found });
        }
        let seen = &self.seen[&key];
        let spelling = match &seen.spelled {
            Ok(spelling) => Arc::clone(spelling),
            Err(problem) => return Err(self.explain(instruction, problem)),
        };
        self.shapes.clear();
        let mut shaper = Shaper {
            module: self.module,
            lookup,
            shapes: &mut self.shapes,
        };
        shaper
            .operands(instruction.operands)
            .map_err(|(index, reason)| {
                let span = self.module[instruction.operands][index].span;
                error(Code::OPERAND_KIND, span, reason)
            })?;
        let matched = fit(spelling, &self.shapes).map_err(|e| self.explain(instruction, &e))?;
        let known = seen.found.iter().find(|known| known.is(&matched));
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        let resolved = Arc::new(ResolvedInstruction { matched });
        if let Some(seen) = self.seen.get_mut(&key) {
            seen.found.push(Arc::clone(&resolved));
        }
        Ok(resolved)
    }

    fn key(&self, instruction: &Instruction) -> SmallVec<[Name; 8]> {
        let modifiers = &self.module[instruction.modifiers];
        let names = modifiers.iter().map(|modifier| modifier.name);
        std::iter::once(instruction.opcode).chain(names).collect()
    }

    /// Checks that need more than operand types: calls, and writes to parameters.
    fn check_uses<L: Lookup + ?Sized>(
        &self,
        function: &Function,
        instruction: &Instruction,
        lookup: &L,
    ) -> Result<(), Box<Diagnostic>> {
        let opcode = self.module.text(instruction.opcode);
        match opcode {
            "call" => call::check(self.module, instruction, lookup),
            "st" => self.check_store(function, instruction, lookup),
            "mov" | "cvt" => self.check_specials(instruction, lookup),
            _ if opcode.starts_with('v') => self.check_selectors(opcode, instruction),
            _ => Ok(()),
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

    /// `vmad` can negate its product or its addend, not both.
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

    /// A function's own input parameters are read-only.
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

    /// Special registers, too, came with a version and a target.
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
