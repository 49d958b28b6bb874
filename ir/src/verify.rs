//! The verifier: whether modules and functions are as the rest of Margay takes them to be.
//!
//! It runs between passes in debug builds and in the tests. Problems are values, as many as are
//! found up to a limit. Invariant: no module makes it panic, however broken.
//!
//! # What is checked
//!
//! Structure ([`Rule::Structure`]):
//!
//! - every block, instruction, value and list that is referred to exists;
//! - a block is in the layout once, an instruction in one place of one block;
//! - the entry is the first block and no branch's target; its parameters are those of the signature,
//!   none for a kernel;
//! - a block ends with a terminator and holds no other;
//! - branches lead to blocks of the layout; a terminator has the number of targets of its op.
//!
//! Values ([`Rule::Value`], [`Rule::Dominance`], [`Rule::Argument`]):
//!
//! - a result or parameter knows the instruction or block that defines it, and its number there;
//! - what is used is a result or parameter: no alias, nothing pending;
//! - a definition dominates its uses (in blocks that the entry reaches);
//! - a branch passes as many arguments, of the same types, as its target has parameters.
//!
//! Operations ([`Rule::Type`], [`Rule::Operand`], [`Rule::Result`], [`Rule::Modifier`],
//! [`Rule::Payload`], [`Rule::Call`]):
//!
//! - types, operands, results and modifiers are those of the op's [`margay_ops::ops::Shape`];
//! - modifiers have no unknown bits;
//! - a constant fits its type; slots, symbols, functions, signatures, special registers, system
//!   calls and kernel parameters that are named exist;
//! - calls and returns agree with the signature.
//!
//! After [`crate::pass::points`] ([`Rule::Point`]): a point is followed only by a jump without
//! arguments, to a block that nobody else jumps to.
//!
//! Around the code ([`Rule::Slot`], [`Rule::Source`], [`Rule::Module`]): slots have a power of two
//! as alignment; source positions are in the module's tables; parameters lie in the kernel's buffer
//! and do not overlap; initial contents and addresses in them lie in their variables; names lead to
//! what bears them.

mod module;
mod ops;
mod points;
mod structure;
mod values;

use std::fmt;

use crate::entity::{Block, FuncId, Inst, Slot, SymbolId, Value};
use crate::function::Function;
use crate::module::Module;

/// So many problems of a function or module are reported.
pub const MAX_PROBLEMS: usize = 100;

/// What a function has been through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// Points may be anywhere.
    #[default]
    Lowered,
    /// [`crate::pass::points`] has run.
    Cut,
}

/// The invariant that does not hold; see the module's documentation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the module's documentation lists them")]
pub enum Rule {
    Structure,
    Value,
    Dominance,
    Argument,
    Type,
    Operand,
    Result,
    Modifier,
    Payload,
    Call,
    Point,
    Slot,
    Source,
    Module,
}

/// Where a problem is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each names the entity")]
pub enum ProblemSite {
    Module,
    Function,
    Block(Block),
    Inst(Inst),
    Value(Value),
    Slot(Slot),
    Symbol(SymbolId),
}

/// Something that is not as it must be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The function, when a whole module was checked.
    pub function: Option<FuncId>,
    /// The entity.
    pub place: ProblemSite,
    /// The invariant.
    pub rule: Rule,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(function) = self.function {
            write!(f, "{function}: ")?;
        }
        match self.place {
            ProblemSite::Module => write!(f, "module")?,
            ProblemSite::Function => write!(f, "function")?,
            ProblemSite::Block(block) => write!(f, "{block}")?,
            ProblemSite::Inst(inst) => write!(f, "{inst}")?,
            ProblemSite::Value(value) => write!(f, "{value}")?,
            ProblemSite::Slot(slot) => write!(f, "{slot}")?,
            ProblemSite::Symbol(symbol) => write!(f, "{symbol}")?,
        }
        write!(f, ": {}", self.message)
    }
}

/// Problems found so far.
#[derive(Debug, Default)]
struct Report {
    problems: Vec<Problem>,
}

impl Report {
    fn add(&mut self, place: ProblemSite, rule: Rule, message: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem {
                function: None,
                place,
                rule,
                message: message.into(),
            });
        }
    }

    fn inst(&mut self, inst: Inst, rule: Rule, message: impl Into<String>) {
        self.add(ProblemSite::Inst(inst), rule, message);
    }
}

/// The problems of a function of `module` (or of a changed copy of one).
pub fn function(module: &Module, function: &Function, stage: Stage) -> Vec<Problem> {
    let mut report = Report::default();
    module::function_data(module, function, &mut report);
    if !function.has_body() {
        return report.problems;
    }
    structure::check(function, &mut report);
    let sound = |problem: &Problem| problem.rule != Rule::Structure;
    if !report.problems.iter().all(sound) {
        // The other checks follow references.
        return report.problems;
    }
    values::check(function, &mut report);
    ops::check(module, function, &mut report);
    if stage == Stage::Cut {
        points::check(function, &mut report);
    }
    report.problems
}

/// The problems of a module as it was lowered, all functions included.
pub fn module(module: &Module) -> Vec<Problem> {
    let mut report = Report::default();
    module::check(module, &mut report);
    let mut problems = report.problems;
    for (id, body) in module.functions.iter() {
        let of_function = function(module, body, Stage::Lowered);
        problems.extend(of_function.into_iter().map(|problem| Problem {
            function: Some(id),
            ..problem
        }));
        if problems.len() >= MAX_PROBLEMS {
            problems.truncate(MAX_PROBLEMS);
            break;
        }
    }
    problems
}
