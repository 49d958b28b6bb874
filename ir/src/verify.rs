//! The verifier: checks that modules and functions have the properties on which the rest of Margay relies.
//!
//! The verifier runs between passes in debug builds and in tests. It returns at most [`MAX_PROBLEMS`] of the problems
//! that it finds. Invariant: the verifier does not panic on any module.
//!
//! # What is checked
//!
//! Structure ([`Rule::Structure`]):
//!
//! - every block, instruction, value and list to which another entity refers exists;
//! - a block occurs at most once in the layout, and an instruction occurs at most once in all blocks;
//! - the entry block is the first block and no branch leads to it; its parameters are the parameters of the signature,
//!   and a kernel's entry block has none;
//! - a block ends with a terminator and contains no other terminator;
//! - branches lead to blocks of the layout;
//! - a terminator has as many targets as its op requires.
//!
//! Values ([`Rule::Value`], [`Rule::Dominance`], [`Rule::Argument`]):
//!
//! - a result or parameter records the instruction or block that defines it, and its index among the results or
//!   parameters;
//! - every used value is a result or a parameter, not an alias and not undefined;
//! - a definition dominates its uses (in reachable blocks);
//! - a branch passes one argument, of the same type, for each parameter of its target.
//!
//! Operations ([`Rule::Type`], [`Rule::Operand`], [`Rule::Result`], [`Rule::Modifier`],
//! [`Rule::Payload`], [`Rule::Call`]):
//!
//! - types, operands, results and modifiers match the op's [`margay_ops::ops::Shape`];
//! - modifiers have no unknown bits;
//! - a constant fits its type;
//! - the slots, symbols, functions, signatures, special registers, system calls and texture accesses to which payloads
//!   refer exist;
//! - `param.addr` occurs in kernels only;
//! - calls and returns match the signature.
//!
//! After [`crate::pass::sync_points`] ([`Rule::SyncPoint`]): a jump without arguments follows each sync point, and no
//! other branch leads to the target of the jump.
//!
//! Data outside of the code ([`Rule::Slot`], [`Rule::Source`], [`Rule::Module`]): the alignment of a slot is a power of
//! two. Source positions refer to existing entries of the module's tables. Parameters are inside the kernel's parameter
//! buffer and do not overlap. Initial contents, and the addresses in them, are inside their variables. Each name in the
//! module's tables of names refers to a function or variable with this name.

mod module;
mod ops;
mod structure;
mod sync_points;
mod values;

use std::fmt;

use crate::body::Body;
use crate::entity::{Block, FuncId, Inst, Slot, SymbolId, Value};
use crate::function::Function;
use crate::module::Module;
use margay_ops::meaning::Desc;
use margay_ops::types::Type;

/// Maximum number of problems that the verifier reports for a function or module.
pub const MAX_PROBLEMS: usize = 100;

/// How far the passes have processed a function. The stage determines which invariants the verifier checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// Sync points may be anywhere in a block.
    #[default]
    Lowered,
    /// [`crate::pass::sync_points`] has run, so only a jump follows each sync point in its block.
    Cut,
}

/// The invariant that a problem violates; the documentation of this module lists the invariants.
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
    SyncPoint,
    Slot,
    Source,
    Module,
}

/// The location of a problem in the IR.
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

/// A violated invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The function with the problem; `None` if the verifier checked only one function, or if the problem is outside of
    /// functions.
    pub function: Option<FuncId>,
    /// The location of the problem in the IR.
    pub place: ProblemSite,
    /// The violated invariant.
    pub rule: Rule,
    /// Description of the problem.
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

/// The problems that the verifier has found so far.
#[derive(Debug, Default)]
struct Report {
    /// The first [`MAX_PROBLEMS`] problems.
    problems: Vec<Problem>,
    /// Whether the verifier has found a problem of [`Rule::Structure`], which `problems` contains only if it had room.
    is_unsound: bool,
}

impl Report {
    fn add(&mut self, place: ProblemSite, rule: Rule, message: impl Into<String>) {
        self.is_unsound |= rule == Rule::Structure;
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

/// Returns the problems of `function`, which is a function of `module` or a changed copy of such a function.
pub fn function(module: &Module, function: &Function, stage: Stage) -> Vec<Problem> {
    let mut report = Report::default();
    module::function_data(module, function, &mut report);
    if !function.has_body() {
        return report.problems;
    }
    structure::check(function, &mut report);
    if report.is_unsound {
        // The other checks require that all references are valid.
        return report.problems;
    }
    values::check(function, &mut report);
    ops::check(module, function, &mut report);
    if stage == Stage::Cut {
        sync_points::check(function, &mut report);
    }
    report.problems
}

/// Returns the problems of the values of a function: of their definitions and uses, and of the arguments that branches
/// pass. All blocks, instructions and values to which the function refers must exist.
pub fn values(function: &impl Body) -> Vec<Problem> {
    let mut report = Report::default();
    values::check(function, &mut report);
    report.problems
}

/// Returns a problem of an instruction that performs the operation `desc` on scalar operands with the types `args` and has
/// scalar results with the types `results`; `None` if there is no problem. The op must have no payload.
pub fn operation(desc: Desc, args: &[Type], results: &[Type]) -> Option<String> {
    let mut function = Function::default();
    let block = function.append_block();
    let args: Vec<Value> = args
        .iter()
        .map(|&ty| function.dfg.append_param(block, ty))
        .collect();
    let inst = function.dfg.make_inst(desc, &args, results);
    function.append_inst(block, inst);
    let mut report = Report::default();
    ops::check(&Module::default(), &function, &mut report);
    let first = report.problems.into_iter().next();
    first.map(|problem| problem.message)
}

/// Returns the problems of a module on which no pass has run, including the problems of its functions.
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
