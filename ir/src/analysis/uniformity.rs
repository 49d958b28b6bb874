//! Classifies values by how they differ between threads. A value is equal for all threads of a launch, a CTA or a warp,
//! or affine in the lane's number, or varying.
//!
//! A class describes the threads that execute one instance of an instruction. If half of a warp takes a branch, a
//! uniform value in that branch is equal for all threads of that half. An affine value is `base + stride * lane`, with
//! wrapping arithmetic in the value's width and a base that is equal for the warp.
//!
//! For two reasons, a value may differ between threads although its operands do not ([`control`] finds where this
//! happens):
//!
//! - *Control dependence*: threads that take different sides of a branch meet again at a block with parameters. The
//!   parameters are at most as uniform as the branch's condition.
//! - *Loops that threads leave in different iterations*: outside of the loop, a value that is defined inside the loop
//!   is at most as uniform as the condition of the exit.
//!
//! # Rules
//!
//! - Constants, and the addresses of parameters, variables and functions: equal for the launch.
//! - Special registers: the class that [`SpecialReg::uniformity`] returns; `%laneid` is affine.
//! - `%tid`: varying, unless each warp is inside one row of the block ([`Assumptions::whole_rows`]). Then `%tid.x`
//!   is affine, and `%tid.y` and `%tid.z` are equal for the warp.
//! - Pure operations: the class of the least uniform operand. If an operand is affine, these results are affine: a sum,
//!   a difference, a negation, a product with a constant, a left shift by a constant, a narrowing, a bitcast between
//!   integers, and a selection with a uniform condition between values with equal strides. A difference or sum whose
//!   strides cancel is equal for the warp. Any other result of an affine operand varies, except the conversions below.
//! - Widening of an affine value: affine if no lane wraps. No lane wraps if the base is a multiple of a power of two
//!   that is larger than `stride * lane` of the last lane.
//! - Weak loads from a uniform address: loads of constant or parameter memory and loads with `.nc` have the class of
//!   the address. Loads of local memory, and loads in loops that contain a `yield` or `nanosleep`,
//!   vary. Other loads are equal for the warp, but not for the CTA, because other threads may write
//!   between the loads of two warps.
//! - Strong and volatile loads, and atomics: varying, because each lane makes its own access.
//! - `vote`, `redux` and the first result of `match.all`, with a uniform member mask: equal for the warp. The predicate
//!   of `match.all`, and these ops without `.sync`: varying.
//! - `shfl`, `match.any`, `elect`, `activemask`, clocks: varying. A shuffle varies even if all lanes read the same
//!   source lane: if that lane has exited, the result of each lane is its own operand.
//! - `bar.red` in which all threads of the CTA take part, with a uniform barrier operand: equal for
//!   the CTA.
//! - Results of calls, and parameters of device functions: varying.
//!
//! Generic addresses of shared memory differ between CTAs. Generic addresses of local memory differ between
//! threads.
//!
//! Invariant: classes are conservative. A value has the class [`Class::Varying`] unless the
//! analysis proves another class.

pub(super) mod control;
pub(super) mod transfer;

use std::fmt;

use crate::analysis::{Cfg, Dominators, Loops};
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::Function;
use crate::print::Notes;
use control::Control;
#[allow(unused_imports, reason = "named by the documentation")]
use margay_ops::sreg::SpecialReg;

/// How a value differs between threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// The value is equal for all threads of a launch.
    Launch,
    /// The value is equal for all threads of a CTA.
    Cta,
    /// The value is equal for all lanes of a warp.
    Warp,
    /// The value is equal to `base + stride * lane`. The field is the stride, which is not 0.
    Affine(i64),
    /// Any other value.
    Varying,
}

impl Class {
    /// Returns whether all lanes of a warp have the same value.
    pub fn is_uniform(self) -> bool {
        self <= Class::Warp
    }

    /// Returns the class of a selection between two values with classes `self` and `other`, if all threads that execute
    /// the selection make the same choice.
    fn or(self, other: Class) -> Class {
        match (self, other) {
            (a, b) if a == b => a,
            (a, b) if a.is_uniform() && b.is_uniform() => a.max(b),
            _ => Class::Varying,
        }
    }

    /// Returns the class of a value that each thread selects among several values of class `self`. `level` is the class
    /// of the condition that determines which value a thread selects. For example, if each
    /// iteration of a loop computes a new value, the iteration in which a thread leaves the loop
    /// determines which of these values the thread uses after the loop.
    fn at_most(self, level: Class) -> Class {
        match level {
            Class::Launch => self,
            Class::Cta | Class::Warp => self.max(level),
            _ => Class::Varying,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::Launch => f.write_str("launch"),
            Class::Cta => f.write_str("cta"),
            Class::Warp => f.write_str("warp"),
            Class::Affine(stride) => write!(f, "affine {stride}"),
            Class::Varying => f.write_str("varying"),
        }
    }
}

/// Assumptions about the number of threads of a block in each dimension, and the number of lanes of
/// a chunk.
///
/// Classes describe chunks: `width` neighbouring lanes of a warp, the first of which has a number that is a
/// multiple of `width`. If `width` is less than 32, "warp" in the rest of this module means such a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Assumptions {
    /// Number of lanes of a chunk: a power of two, at most 32.
    pub width: u32,
    /// Whether the number of threads of a block in x is a multiple of `width`, or the block has only one row. In both
    /// cases each chunk is inside one row, and the x index of its first lane is a multiple of `width`.
    pub whole_rows: bool,
    /// Number of trailing zero bits of `%ntid.x`. A number above 5 has the same effect as 5.
    pub ntid_x_zeros: u32,
    /// Whether lanes of a warp that load from the same address are assumed to get the same value, even if a loop around
    /// the load waits for other threads. This is not always true, so code must not depend on it.
    pub loads_agree: bool,
    /// Whether code runs several chunks of a CTA together. A branch whose condition is equal only for the lanes of a
    /// chunk then counts as a branch at which lanes diverge.
    pub chunks_together: bool,
}

impl Default for Assumptions {
    /// Assumes only that warps have 32 lanes.
    fn default() -> Assumptions {
        Assumptions {
            width: 32,
            whole_rows: false,
            ntid_x_zeros: 0,
            loads_agree: false,
            chunks_together: false,
        }
    }
}

impl Assumptions {
    /// Returns the assumptions that follow from the block size that a kernel requires with
    /// `.reqntid`.
    pub fn of(function: &Function) -> Assumptions {
        let shape = function.kernel.as_ref().and_then(|kernel| kernel.reqntid);
        shape.map_or_else(Assumptions::default, Assumptions::of_block)
    }

    /// Returns the assumptions for warps in blocks that have `shape[i]` threads in dimension `i`.
    pub fn of_block(shape: [u32; 3]) -> Assumptions {
        Assumptions::of_slices(shape, 32)
    }

    /// Returns the assumptions for chunks of `width` lanes in blocks of `x` by `y` by `z` threads.
    pub fn of_slices([x, y, z]: [u32; 3], width: u32) -> Assumptions {
        Assumptions {
            width,
            whole_rows: x > 0 && x % width == 0 || y == 1 && z == 1,
            ntid_x_zeros: x.trailing_zeros().min(5),
            loads_agree: false,
            chunks_together: false,
        }
    }
}

/// The facts about a value: its class, and a lower bound of the number of trailing zero bits of the value in the
/// first lane of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fact {
    pub(super) class: Class,
    pub(super) zeros: u32,
}

impl Fact {
    const VARYING: Fact = Fact {
        class: Class::Varying,
        zeros: 0,
    };
}

/// The classes of a function's values.
#[derive(Clone, Debug)]
pub struct Uniformity {
    facts: SecondaryMap<Value, Option<Fact>>,
    control: Control,
    /// Blocks in a loop that contains a `yield` or `nanosleep`, where other threads may run between two iterations.
    yielding: SecondaryMap<Block, bool>,
    assumptions: Assumptions,
}

impl Uniformity {
    /// Classifies the values of `function`, which must have a body.
    pub fn new(function: &Function, assumptions: Assumptions) -> Uniformity {
        let cfg = Cfg::new(function);
        let control = Control::new(function, &cfg);
        let mut uniformity = Uniformity {
            facts: SecondaryMap::default(),
            yielding: control.yielding(function),
            control,
            assumptions,
        };
        for &param in &function.dfg.blocks[function.entry()].params {
            uniformity.facts[param] = Some(Fact::VARYING);
        }
        // The loop terminates, because a fact only becomes less precise and there are finitely many facts.
        while uniformity.round(function, &cfg) {}
        uniformity
    }

    /// Returns the class of a value where it is defined. A value in unreachable code has the class
    /// [`Class::Varying`].
    pub fn class(&self, value: Value) -> Class {
        self.facts[value].map_or(Class::Varying, |fact| fact.class)
    }

    /// Returns the class of a value where `block` uses it.
    pub fn class_in(&self, function: &Function, value: Value, block: Block) -> Class {
        self.seen_from(function, value, block)
            .map_or(Class::Varying, |fact| fact.class)
    }

    /// Returns the class of the condition that selects the successor of a block; [`Class::Launch`] if the block has at
    /// most one successor.
    pub fn branch(&self, function: &Function, block: Block) -> Class {
        let Some(inst) = function.layout.terminator(block) else {
            return Class::Launch;
        };
        match (function.dfg.targets(inst), function.dfg.args(inst)) {
            ([_, _, ..], [condition, ..]) => match self.class_in(function, *condition, block) {
                Class::Warp if self.assumptions.chunks_together => Class::Varying,
                class => class,
            },
            _ => Class::Launch,
        }
    }

    /// Returns whether threads may have left a loop that contains a value's definition, but not `block`, in different
    /// iterations. Each thread must then keep the value of the iteration in which it left.
    pub fn leaves_apart(&self, function: &Function, value: Value, block: Block) -> bool {
        !self.control.leaving(function, value, block).is_uniform()
    }

    /// Returns whether the analysis proves that lanes of a warp (or of a chunk, if `Assumptions::width` is less than
    /// 32) which have reached `block` the same number of times are in the same iteration of every loop around the
    /// block.
    pub fn is_converged(&self, cfg: &Cfg, dominators: &Dominators, block: Block) -> bool {
        self.control.is_converged(cfg, dominators, block)
    }

    /// Returns whether threads of a warp may reach a block along different paths.
    pub fn joins_apart(&self, block: Block) -> bool {
        !self.control.join(block).is_uniform()
    }

    /// Returns the block that defines a value.
    pub fn home(&self, value: Value) -> Option<Block> {
        self.control.home(value)
    }

    /// Returns the loops of the function.
    pub fn loops(&self) -> &Loops {
        self.control.loops()
    }

    /// Returns the index of the innermost loop that contains a value's definition; `None` if no
    /// loop contains it.
    pub fn loop_of(&self, value: Value) -> Option<usize> {
        self.control.innermost(value)
    }

    fn seen_from(&self, function: &Function, value: Value, block: Block) -> Option<Fact> {
        let fact = self.facts[value]?;
        let level = self.control.leaving(function, value, block);
        let class = fact.class.at_most(level);
        Some(Fact { class, ..fact })
    }

    /// Updates all facts once, and returns whether any fact changed.
    fn round(&mut self, function: &Function, cfg: &Cfg) -> bool {
        let mut changed = false;
        for &block in cfg.rpo() {
            changed |= self.params(function, cfg, block);
            for &inst in function.insts(block) {
                changed |= self.results(function, block, inst);
            }
            if function.successors(block).len() > 1 {
                let known = function.layout.terminator(block).is_some_and(|inst| {
                    let condition = function.dfg.args(inst).first();
                    condition.is_some_and(|&v| self.facts[v].is_some())
                });
                if known {
                    let level = self.branch(function, block);
                    changed |= self.control.branch(function, cfg, block, level);
                }
            }
        }
        changed
    }

    fn params(&mut self, function: &Function, cfg: &Cfg, block: Block) -> bool {
        let mut changed = false;
        if block == function.entry() {
            return false;
        }
        let level = self.control.join(block);
        for (index, &param) in function.dfg.blocks[block].params.iter().enumerate() {
            let mut all: Option<Fact> = None;
            for (_, call) in cfg.incoming(function, block) {
                let arg = call.args.get(index);
                let fact = arg.map(|&arg| self.seen_from(function, arg, block));
                match (all, fact.unwrap_or(Some(Fact::VARYING))) {
                    (Some(a), Some(b)) => all = Some(either(a, b)),
                    (None, fact) => all = fact,
                    (_, None) => {}
                }
            }
            if let Some(fact) = all {
                let class = fact.class.at_most(level);
                changed |= self.set(param, Fact { class, ..fact });
            }
        }
        changed
    }

    fn results(&mut self, function: &Function, block: Block, inst: Inst) -> bool {
        let results = function.dfg.results(inst);
        if results.is_empty() {
            return false;
        }
        let args: Option<Vec<Fact>> = function
            .dfg
            .args(inst)
            .iter()
            .map(|&arg| self.seen_from(function, arg, block))
            .collect();
        let Some(args) = args else { return false };
        let mut changed = false;
        for (number, &result) in results.iter().enumerate() {
            let transfer = transfer::Transfer {
                function,
                inst,
                args: &args,
                yields: self.yielding[block] && !self.assumptions.loads_agree,
                assumptions: self.assumptions,
            };
            changed |= self.set(result, transfer.result(number));
        }
        changed
    }

    /// Merges a fact into the fact of a value, and returns whether the value's fact changed.
    fn set(&mut self, value: Value, fact: Fact) -> bool {
        let new = match self.facts[value] {
            Some(old) => either(old, fact),
            None => fact,
        };
        let changed = self.facts[value] != Some(new);
        self.facts[value] = Some(new);
        changed
    }
}

/// Returns the fact about the result of a selection between two values, if all threads select the
/// same value. `a` and `b` are the facts about the two values.
fn either(a: Fact, b: Fact) -> Fact {
    Fact {
        class: a.class.or(b.class),
        zeros: a.zeros.min(b.zeros),
    }
}

/// Adds the classes of a function's values as comments to a listing of the function.
#[derive(Debug)]
pub struct UniformityNotes<'a> {
    /// The function.
    pub function: &'a Function,
    /// The classes of the function's values.
    pub uniformity: &'a Uniformity,
}

impl Notes for UniformityNotes<'_> {
    fn inst(&self, inst: Inst) -> Option<String> {
        let results = self.function.dfg.results(inst);
        if let ([_, _, ..], [condition, ..]) = (
            self.function.dfg.targets(inst),
            self.function.dfg.args(inst),
        ) {
            let block = self.function.blocks().iter().copied();
            let mut home = block.filter(|&b| self.function.layout.terminator(b) == Some(inst));
            let class = home.next().map_or(Class::Varying, |block| {
                self.uniformity.class_in(self.function, *condition, block)
            });
            return Some(class.to_string());
        }
        (!results.is_empty()).then(|| self.classes(results))
    }

    fn block(&self, block: Block) -> Option<String> {
        let params = &self.function.dfg.blocks[block].params;
        (!params.is_empty()).then(|| self.classes(params))
    }
}

impl UniformityNotes<'_> {
    fn classes(&self, values: &[Value]) -> String {
        let texts: Vec<String> = values
            .iter()
            .map(|&value| self.uniformity.class(value).to_string())
            .collect();
        texts.join(", ")
    }
}
