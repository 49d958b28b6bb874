//! Classifies values by how they depend on the coordinates of a thread in its CTA.
//!
//! A value is equal for all threads of a launch or of a CTA, or *CTA-affine*, or varying. A CTA-affine value is
//! `base + x * %tid.x + y * %tid.y + z * %tid.z`, with wrapping arithmetic in the value's width. Base and coefficients
//! are [`Sum`]s: expressions over numbers that are equal for all threads of the CTA. A code generator that keeps these
//! numbers for each CTA can therefore compute the value of any thread at any time, and does not store the value for
//! each thread.
//!
//! [`Uniformity`](super::Uniformity) describes the lanes of a warp or chunk, and this analysis describes the threads of
//! a CTA. For values that vary in the CTA (such as `%laneid`, or `%tid.x & 31`), use the class of `Uniformity`, which
//! may be uniform or affine in a chunk.
//!
//! As in `Uniformity`, a class describes the threads that execute one instance of an instruction: those in the same
//! iteration of all loops around it. The expressions read SSA values. They are valid wherever the classified value is
//! valid, and read the numbers that these SSA values have there.
//!
//! # Control dependence
//!
//! The rules are those of `Uniformity`, with the CTA instead of the warp: a block parameter varies if threads of the
//! CTA may reach the block along different paths, and outside of a loop a value from inside varies unless all threads
//! of the CTA leave the loop in the same iteration.
//!
//! # Rules
//!
//! - Values that are equal for the launch or the CTA: the rules of `Uniformity`. In addition, differences of affine
//!   values with equal coefficients are equal for the CTA, and so are comparisons of such values for equality.
//! - `%tid.x`, `%tid.y`, `%tid.z`: affine with coefficient 1, or zero if the block has only one thread along this axis.
//!   `%ntid` is a constant if the shape of the block is known. `%laneid` and `%warpid` are affine only in blocks that
//!   are known to have at most 32 threads.
//! - Sums, differences, negations, complements, and products with at most one affine factor: affine. A left shift by a
//!   constant is a product. Also `mad`, and `mul24` and `mad24` without `.hi`.
//! - `or` and `xor`: the sum, if no bit can be one in both operands.
//! - Narrowing: affine in the narrow type. Bitcasts between integers: the same form.
//! - Widening, factors of `.wide` products and of 24-bit products: affine under the [`Condition`] that the narrow value
//!   does not wrap in the block. The condition is left out if the ranges of the numbers prove it. If the ranges
//!   disprove it, the result varies.
//! - `cvta` of global, constant and parameter memory: the same form. `cvta` of shared memory adds or subtracts the
//!   start of the CTA's window; only the low 32 bits of a shared address count, so there is a condition as for
//!   widenings. `cvta` of local memory: varying.
//! - `selp` and `slct` with a condition that is equal for the CTA, between affine values with equal coefficients:
//!   affine.
//! - `min` and `max` of an affine value and a uniform bound: affine under the condition that all threads of the CTA
//!   select the affine value.
//! - Block parameters: affine if all arguments have equal coefficients, their conditions are about values that are
//!   defined before the block, and all threads of the CTA reach the block along the same path. The base is that of the
//!   arguments if they have the same base; otherwise, the base is a number of its own ([`Factor::Base`]), such as the
//!   counter of a loop.
//! - All other results of affine operands: varying.
//!
//! # Guards
//!
//! A comparison of an affine value with a uniform bound is a [`Guard`]; [`Predicate`]s are conjunctions of guards and
//! of predicates that are equal for the CTA, or negations of such conjunctions. A test of the sign of `a | b` or `a & b`
//! is such a predicate, too. [`lanes`] finds the threads for which a guard holds.
//!
//! Invariant: a value is varying unless the analysis proves another class.

mod form;
mod guard;
pub mod lanes;
mod notes;
mod predicates;
mod ranges;
mod recipe;
mod rules;
mod sum;

pub use form::{Condition, ConditionTest, Conditions, Form};
pub use guard::{Guard, Predicate, Relation, Test};
pub use notes::CoordinateNotes;
pub use recipe::Recipe;
pub use sum::{CtaValues, Extension, Factor, Sum, Term};

use crate::analysis::reach::Reach;
use crate::analysis::uniformity::control::Control;
use crate::analysis::uniformity::transfer::Transfer;
use crate::analysis::uniformity::{Assumptions, Class};
use crate::analysis::{Cfg, Dominators, regions};
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::Function;
use margay_ops::types::Kind;
use ranges::Ranges;
use rules::View;

/// How a value depends on the coordinates of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CtaClass<'a> {
    /// The value is equal for all threads of a launch.
    Launch,
    /// The value is equal for all threads of a CTA.
    Cta,
    /// The value is affine in the coordinates, if the conditions of the form hold for the CTA.
    Affine(&'a Form),
    /// Any other value.
    Varying,
}

/// What is known about the number of threads of a block in each dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    known: Option<[u32; 3]>,
    most: [u32; 3],
}

impl Shape {
    /// Blocks of any shape that a device accepts (CUDA C++ Programming Guide, "Compute Capabilities").
    pub const ANY: Shape = Shape {
        known: None,
        most: [1024, 1024, 64],
    };

    /// Blocks of exactly this shape.
    pub const fn exactly(shape: [u32; 3]) -> Shape {
        Shape {
            known: Some(shape),
            most: shape,
        }
    }

    /// Returns what a kernel states with `.reqntid` or `.maxntid`.
    pub fn of(function: &Function) -> Shape {
        let kernel = function.kernel.as_ref();
        if let Some(shape) = kernel.and_then(|kernel| kernel.reqntid) {
            return Shape::exactly(shape.map(|length| length.max(1)));
        }
        // `.maxntid` limits the number of threads of a block, but not its length along an axis (PTX ISA, "maxntid").
        let most = kernel.and_then(|kernel| kernel.maxntid);
        let threads = most.map(|shape| {
            let lengths = shape.iter().map(|&length| length.max(1));
            lengths.fold(1, u32::saturating_mul)
        });
        Shape {
            known: None,
            most: Shape::ANY
                .most
                .map(|most| most.min(threads.unwrap_or(most))),
        }
    }

    /// Returns the number of threads in each dimension, if it is known.
    pub fn known(self) -> Option<[u32; 3]> {
        self.known
    }

    /// Returns the maximum number of threads in each dimension.
    pub fn most(self) -> [u32; 3] {
        self.most
    }
}

/// What the analysis has found about a value so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Fact {
    /// The definition of the value has not been visited.
    #[default]
    Unknown,
    /// The value has the class [`Class::Launch`] or [`Class::Cta`]. The sum is equal to the value if it is given;
    /// otherwise the value is a factor of its own.
    Uniform(Class, Option<Box<Sum>>),
    /// The value is affine.
    Affine(Box<Form>),
    /// The value varies.
    Varying,
}

type Facts = SecondaryMap<Value, Fact>;

/// The classes of a function's values.
#[derive(Clone, Debug)]
pub struct Coordinates {
    facts: Facts,
    predicates: SecondaryMap<Value, Option<Box<Predicate>>>,
    control: Control,
    /// Blocks in which all threads of the CTA that have reached the block the same number of times are in the same
    /// iteration of the loops around the block.
    converged: SecondaryMap<Block, bool>,
    /// Values that code computes again where they are used.
    rematerialised: SecondaryMap<Value, bool>,
}

impl Coordinates {
    /// Classifies the values of `function`, which must have a body.
    pub fn new(function: &Function, cfg: &Cfg, shape: Shape) -> Coordinates {
        let control = Control::new(function, cfg);
        let ranges = Ranges {
            function,
            reach: Reach::new(function),
            shape,
        };
        let mut search = Search {
            function,
            cfg,
            dominators: Dominators::new(cfg),
            yielding: control.yielding(function),
            ranges,
            control,
            facts: Facts::default(),
            rounds: 0,
            changed_in: SecondaryMap::default(),
            control_changed_in: 0,
        };
        for &param in &function.dfg.blocks[function.entry()].params {
            search.facts[param] = Fact::Varying;
        }
        // The loop terminates: in each round but the last, the fact about a block parameter or the class of a branch
        // becomes less precise, and there are finitely many of these.
        while search.round() {}
        search.finish()
    }

    /// Returns the class of a value where it is defined. A value in unreachable code has the class
    /// [`CtaClass::Varying`].
    pub fn class(&self, value: Value) -> CtaClass<'_> {
        match &self.facts[value] {
            Fact::Uniform(Class::Launch, _) => CtaClass::Launch,
            Fact::Uniform(..) => CtaClass::Cta,
            Fact::Affine(form) => CtaClass::Affine(form),
            Fact::Unknown | Fact::Varying => CtaClass::Varying,
        }
    }

    /// Returns the class of a value where `block` uses it.
    pub fn class_in(&self, function: &Function, value: Value, block: Block) -> CtaClass<'_> {
        match (
            self.control.leaving(function, value, block),
            self.class(value),
        ) {
            (Class::Launch, class) => class,
            (Class::Cta, CtaClass::Launch) => CtaClass::Cta,
            (Class::Cta, class) => class,
            _ => CtaClass::Varying,
        }
    }

    /// Returns the form of an integer that is affine or equal for all threads of the CTA; `None` for other values.
    pub fn form(&self, function: &Function, value: Value) -> Option<Form> {
        let bits = integer_bits(function, value)?;
        match &self.facts[value] {
            Fact::Affine(form) => Some((**form).clone()),
            Fact::Uniform(_, Some(sum)) => Some(Form::uniform((**sum).clone(), bits)),
            Fact::Uniform(_, None) => Some(Form::uniform(Sum::factor(Factor::Value(value)), bits)),
            Fact::Unknown | Fact::Varying => None,
        }
    }

    /// Returns the tests of which a varying predicate consists; `None` for other values, and if the analysis finds no
    /// such tests.
    pub fn predicate(&self, value: Value) -> Option<&Predicate> {
        self.predicates[value].as_deref()
    }

    /// Returns the class of the condition that selects the successor of a block: [`CtaClass::Launch`] if the block has
    /// at most one successor.
    pub fn branch(&self, function: &Function, block: Block) -> CtaClass<'_> {
        match branch_condition(function, block) {
            Some(condition) => self.class_in(function, condition, block),
            None => CtaClass::Launch,
        }
    }

    /// Returns whether threads of a CTA may have left a loop that contains a value's definition, but not `block`, in
    /// different iterations.
    pub fn leaves_apart(&self, function: &Function, value: Value, block: Block) -> bool {
        self.control.leaving(function, value, block) > Class::Cta
    }

    /// Returns whether threads of a CTA may reach a block along different paths.
    pub fn joins_apart(&self, block: Block) -> bool {
        self.control.join(block) > Class::Cta
    }

    /// Returns whether the analysis proves that threads of a CTA which have reached `block` the same number of times
    /// are in the same iteration of every loop around the block.
    pub fn is_converged(&self, block: Block) -> bool {
        self.converged[block]
    }
}

/// Returns the number of bits of a value that is a scalar integer of 8 to 64 bits; `None` for other values.
fn integer_bits(function: &Function, value: Value) -> Option<u32> {
    let ty = function.dfg.ty(value);
    match ty.kind() {
        Kind::B8 | Kind::B16 | Kind::B32 | Kind::B64 if ty.lanes() == 1 => Some(ty.lane_bits()),
        _ => None,
    }
}

/// Returns a function that returns the base of a uniform value, if it is simple enough to be used instead of the value.
fn simple_base(value: Value) -> impl Fn(Form) -> Option<Box<Sum>> {
    move |form| {
        let is_own = form.base == Sum::factor(Factor::Base(value));
        let is_simple = form.is_unconditional() && form.base.is_simple() && !is_own;
        is_simple.then(|| Box::new(form.base))
    }
}

/// Returns the value that selects between the successors of a block; `None` if there is at most one successor.
fn branch_condition(function: &Function, block: Block) -> Option<Value> {
    let inst = function.layout.terminator(block)?;
    match (function.dfg.targets(inst), function.dfg.args(inst)) {
        ([_, _, ..], [condition, ..]) => Some(*condition),
        _ => None,
    }
}

/// The search for a fixed point.
struct Search<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    dominators: Dominators,
    yielding: SecondaryMap<Block, bool>,
    ranges: Ranges<'a>,
    control: Control,
    facts: Facts,
    /// The number of the current round, from 1.
    rounds: u32,
    /// The last round in which the fact about a value changed.
    changed_in: SecondaryMap<Value, u32>,
    /// The last round in which the class of a branch changed.
    control_changed_in: u32,
}

impl Search<'_> {
    fn view(&self, block: Block) -> View<'_> {
        View {
            function: self.function,
            facts: &self.facts,
            control: &self.control,
            ranges: self.ranges,
            block,
        }
    }

    /// Updates all facts once, and returns whether any fact changed.
    fn round(&mut self) -> bool {
        self.rounds += 1;
        let mut changed = false;
        for &block in self.cfg.rpo() {
            if block != self.function.entry() {
                for index in 0..self.function.dfg.blocks[block].params.len() {
                    changed |= self.param(block, index);
                }
            }
            for &inst in self.function.insts(block) {
                if !self.is_due(inst) {
                    continue;
                }
                for number in 0..self.function.dfg.results(inst).len() {
                    changed |= self.result(block, inst, number);
                }
            }
            if let Some(condition) = branch_condition(self.function, block)
                && self.facts[condition] != Fact::Unknown
            {
                let level = self.view(block).class(condition);
                if self.control.branch(self.function, self.cfg, block, level) {
                    self.control_changed_in = self.rounds;
                    changed = true;
                }
            }
        }
        changed
    }

    /// Returns whether the results of an instruction may have changed since the last round.
    fn is_due(&self, inst: Inst) -> bool {
        let is_recent = |round: u32| round + 1 >= self.rounds;
        let mut args = self.function.dfg.args(inst).iter();
        is_recent(self.control_changed_in) || args.any(|&arg| is_recent(self.changed_in[arg]))
    }

    fn set(&mut self, value: Value, fact: Fact) -> bool {
        let changed = self.facts[value] != fact;
        if changed {
            self.facts[value] = fact;
            self.changed_in[value] = self.rounds;
        }
        changed
    }

    fn param(&mut self, block: Block, index: usize) -> bool {
        let param = self.function.dfg.blocks[block].params[index];
        let old = &self.facts[param];
        if *old == Fact::Varying {
            return false;
        }
        let new = match self.control.join(block) {
            level if level <= Class::Cta => self.merged(block, index, param, level),
            _ => Fact::Varying,
        };
        // A fact never becomes more precise, so that the search ends.
        let fact = match (old, new) {
            (Fact::Unknown, new) => new,
            (Fact::Uniform(a, _), Fact::Uniform(b, sum)) => Fact::Uniform((*a).max(b), sum),
            (Fact::Affine(a), Fact::Affine(b)) => match self.weaker(a, &b, param) {
                Some(form) => Fact::Affine(Box::new(form)),
                None => Fact::Varying,
            },
            _ => Fact::Varying,
        };
        self.set(param, fact)
    }

    /// Returns the fact about a block parameter, from the arguments about which something is known.
    fn merged(&self, block: Block, index: usize, param: Value, level: Class) -> Fact {
        let view = self.view(block);
        let mut all = Fact::Unknown;
        for (_, call) in self.cfg.incoming(self.function, block) {
            let Some(&arg) = call.args.get(index) else {
                return Fact::Varying;
            };
            let arg = match &self.facts[arg] {
                Fact::Unknown => continue,
                Fact::Uniform(..) if view.is_current(arg) => {
                    Fact::Uniform(view.class(arg).max(level), None)
                }
                Fact::Affine(form) if view.is_current(arg) => Fact::Affine(form.clone()),
                _ => return Fact::Varying,
            };
            all = match (all, arg) {
                (Fact::Unknown, Fact::Affine(form)) if !self.keeps_conditions(&form, block) => {
                    return Fact::Varying;
                }
                (Fact::Unknown, fact) => fact,
                (Fact::Uniform(a, _), Fact::Uniform(b, _)) => Fact::Uniform(a.max(b), None),
                (Fact::Affine(a), Fact::Affine(b)) => match self.weaker(&a, &b, param) {
                    Some(form) => Fact::Affine(Box::new(form)),
                    None => return Fact::Varying,
                },
                _ => return Fact::Varying,
            };
        }
        all
    }

    /// Returns whether a parameter of `block` can have the conditions of an argument. The block must not compute the
    /// tested values again, because the conditions would then be about the new values.
    ///
    /// Base and coefficients need no such test: they are the same for all arguments, so they read values that are
    /// defined before all edges to the block, and therefore before the block.
    fn keeps_conditions(&self, form: &Form, block: Block) -> bool {
        let is_before = |value: Value| {
            let home = self.control.home(value);
            home.is_some_and(|home| {
                home != block && self.dominators.dominates(self.cfg, home, block)
            })
        };
        form.conditions
            .iter()
            .all(|condition| is_before(condition.value) && condition.bound().is_none_or(is_before))
    }

    /// Returns the form of a parameter that has the form `a` or the form of an argument `b`; `None` if there is none.
    fn weaker(&self, a: &Form, b: &Form, param: Value) -> Option<Form> {
        let block = self.control.home(param)?;
        let base = Sum::factor(Factor::Base(param));
        let merged = self.view(block).either(a, b, || base.clone())?;
        self.keeps_conditions(&merged, block).then_some(merged)
    }

    fn result(&mut self, block: Block, inst: Inst, number: usize) -> bool {
        let result = self.function.dfg.results(inst)[number];
        let view = self.view(block);
        let Some(args) = view.operand_facts(inst) else {
            return false;
        };
        let transfer = Transfer {
            function: self.function,
            inst,
            args: &args,
            yields: self.yielding[block],
            assumptions: Assumptions::default(),
        };
        let class = transfer.result(number).class;
        let form = view.result(inst).filter(|_| number == 0);
        let fact = match form {
            form if class <= Class::Cta => Fact::Uniform(class, form.and_then(simple_base(result))),
            Some(form) if form.is_uniform() && form.is_unconditional() => {
                let class = match form.base.as_constant() {
                    Some(_) => Class::Launch,
                    None => Class::Cta,
                };
                Fact::Uniform(class, simple_base(result)(form))
            }
            Some(form) => Fact::Affine(Box::new(form)),
            None if view.compares_equal_steps(inst) => Fact::Uniform(Class::Cta, None),
            None => Fact::Varying,
        };
        self.set(result, fact)
    }

    /// Computes the results that need the final facts.
    fn finish(self) -> Coordinates {
        let mut predicates: SecondaryMap<Value, Option<Box<Predicate>>> = SecondaryMap::default();
        let mut converged: SecondaryMap<Block, bool> = SecondaryMap::default();
        for &block in self.cfg.rpo() {
            let control = &self.control;
            converged[block] = control.is_converged(self.cfg, &self.dominators, block);
            let view = self.view(block);
            for &inst in self.function.insts(block) {
                for (number, &result) in self.function.dfg.results(inst).iter().enumerate() {
                    if self.facts[result] == Fact::Varying && view.is_predicate(result) {
                        let known = |value: Value| predicates[value].as_deref().cloned();
                        let predicate = view.predicate(inst, number, known);
                        predicates[result] = predicate.map(Box::new);
                    }
                }
            }
        }
        Coordinates {
            predicates,
            converged,
            rematerialised: regions::rematerialised(self.function, self.cfg),
            control: self.control,
            facts: self.facts,
        }
    }
}
