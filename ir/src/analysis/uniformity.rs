//! Which values are the same for a launch, a CTA or a warp, which are affine in the lane, and which
//! vary (execution-model sections 1 and 2).
//!
//! A class is about the threads that execute one instance of an instruction: a uniform value in a
//! branch that half of a warp takes is the same for that half. An affine value is
//! `base + stride * lane` in the value's own width, wrapping, with a base that is the same for the
//! warp.
//!
//! What makes a value differ although its operands do not ([`control`] finds where):
//!
//! - *control dependence*: threads that a branch sends different ways meet again at a block that
//!   takes parameters; those are at most as uniform as the branch's condition;
//! - *loops that threads leave in different turns*: what is defined inside is, outside, at most as
//!   uniform as the condition of the exit.
//!
//! # Rules
//!
//! | value | class |
//! |---|---|
//! | constants, addresses of parameters, variables and functions | launch |
//! | special registers | as [`SpecialReg::uniformity`]; `%laneid` is affine |
//! | `%tid` | varying, unless each row of threads fills whole warps ([`Assumptions`]): then `%tid.x` is affine and `%tid.y`, `%tid.z` are the same for the warp |
//! | pure operations | that of the least uniform operand; a sum, difference or product with a constant of affine ones is affine; anything else of an affine one varies |
//! | widening an affine value | affine if it cannot wrap inside a warp: the base is known to be a multiple of a power of two that the lanes do not reach beyond |
//! | weak loads from a uniform address | of constants, parameters and `.nc`: that of the address; elsewhere warp, since other threads may write between two warps' loads; of local memory, or in a loop that may give way: varying |
//! | strong and volatile loads, atomics | varying: each lane makes its own access |
//! | `vote`, `redux`, `match.all` with a uniform mask | warp |
//! | `shfl`, `match.any`, `elect`'s predicate, `activemask`, clocks | varying; a shuffle whose source has exited gives each lane its own value |
//! | `bar.red` of all threads with a uniform barrier | CTA |
//! | results of calls, parameters of device functions | varying |
//!
//! Generic addresses of shared memory differ from CTA to CTA, those of local memory from thread to
//! thread.
//!
//! Invariant: a class never promises more than holds; in doubt a value varies.

mod control;
mod transfer;

use std::fmt;

use rustc_hash::FxHashSet;

use crate::analysis::{Cfg, Dominators};
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::Function;
use crate::print::Notes;
use control::Control;
#[allow(unused_imports, reason = "named by the documentation")]
use margay_ops::sreg::SpecialReg;

/// How a value differs between threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// The same for all threads of a launch.
    Launch,
    /// The same for the threads of a CTA.
    Cta,
    /// The same for the lanes of a warp.
    Warp,
    /// `base + stride * lane`; the stride is not 0.
    Affine(i64),
    /// Any.
    Varying,
}

impl Class {
    /// Whether all lanes of a warp have the same value.
    pub fn is_uniform(self) -> bool {
        self <= Class::Warp
    }

    /// The class of a value that is one of two, the same one for all threads that get it.
    fn or(self, other: Class) -> Class {
        match (self, other) {
            (a, b) if a == b => a,
            (a, b) if a.is_uniform() && b.is_uniform() => a.max(b),
            _ => Class::Varying,
        }
    }

    /// The class where threads of different `level`s may have got different ones of several values.
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

/// What is known of the launch's shape, and how many lanes are looked at together.
///
/// Classes speak of slices: `width` neighbouring lanes of a warp, the first of which has a number that is
/// a multiple of `width`. Where the rest of this module says warp, it is a slice if `width` is less than 32.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Assumptions {
    /// Lanes of a slice: a power of two up to 32.
    pub width: u32,
    /// The block's x extent is a multiple of `width`, or the block has one row: lane 0 of each slice has an
    /// x index that is a multiple of `width`, and a slice lies in one row.
    pub whole_rows: bool,
    /// Zero bits at the end of `%ntid.x`; more than 5 make no difference.
    pub ntid_x_zeros: u32,
}

impl Default for Assumptions {
    /// Nothing but that warps have 32 lanes.
    fn default() -> Assumptions {
        Assumptions {
            width: 32,
            whole_rows: false,
            ntid_x_zeros: 0,
        }
    }
}

impl Assumptions {
    /// What a kernel's `.reqntid` promises.
    pub fn of(function: &Function) -> Assumptions {
        let shape = function.kernel.as_ref().and_then(|kernel| kernel.reqntid);
        shape.map_or_else(Assumptions::default, Assumptions::of_block)
    }

    /// What is known of warps in blocks of this shape.
    pub fn of_block(shape: [u32; 3]) -> Assumptions {
        Assumptions::of_slices(shape, 32)
    }

    /// What is known of slices of `width` lanes in blocks of this shape.
    pub fn of_slices([x, y, z]: [u32; 3], width: u32) -> Assumptions {
        Assumptions {
            width,
            whole_rows: x > 0 && x % width == 0 || y == 1 && z == 1,
            ntid_x_zeros: x.trailing_zeros().min(5),
        }
    }
}

/// What is known of a value: its class, and how many of its low bits are zero in lane 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fact {
    class: Class,
    zeros: u32,
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
    /// Blocks in a loop in which a lane may give way to others.
    yielding: SecondaryMap<Block, bool>,
    assumptions: Assumptions,
}

impl Uniformity {
    /// Classifies the values of a function with a body.
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
        // Facts only get worse, and there are finitely many.
        while uniformity.round(function, &cfg) {}
        uniformity
    }

    /// The class of a value where it is defined. Values of unreachable code vary.
    pub fn class(&self, value: Value) -> Class {
        self.facts[value].map_or(Class::Varying, |fact| fact.class)
    }

    /// The class of a value where another block uses it.
    pub fn class_in(&self, function: &Function, value: Value, block: Block) -> Class {
        self.seen_from(function, value, block)
            .map_or(Class::Varying, |fact| fact.class)
    }

    /// How uniformly the threads that come to the end of a block go on; [`Class::Launch`] if there is
    /// only one way.
    pub fn branch(&self, function: &Function, block: Block) -> Class {
        let Some(inst) = function.layout.terminator(block) else {
            return Class::Launch;
        };
        match (function.dfg.targets(inst), function.dfg.args(inst)) {
            ([_, _, ..], [condition, ..]) => self.class_in(function, *condition, block),
            _ => Class::Launch,
        }
    }

    /// Whether threads may have left the loops between a value's definition and `block` in different
    /// turns, so that each must keep the value as it was when it left.
    pub fn leaves_apart(&self, function: &Function, value: Value, block: Block) -> bool {
        !self.control.leaving(function, value, block).is_uniform()
    }

    /// Whether threads that come to a block equally often always execute one instance of it.
    pub fn in_step(&self, cfg: &Cfg, dominators: &Dominators, block: Block) -> bool {
        self.control.in_step(cfg, dominators, block)
    }

    /// Whether threads may come to a block with parameters by different ways.
    pub fn joins_apart(&self, block: Block) -> bool {
        !self.control.join(block).is_uniform()
    }

    /// The block that defines a value.
    pub fn home(&self, value: Value) -> Option<Block> {
        self.control.home(value)
    }

    /// The blocks of the innermost loop around a value's definition.
    pub fn loop_of(&self, value: Value) -> Option<&FxHashSet<Block>> {
        self.control.innermost(value)
    }

    fn seen_from(&self, function: &Function, value: Value, block: Block) -> Option<Fact> {
        let fact = self.facts[value]?;
        let level = self.control.leaving(function, value, block);
        let class = fact.class.at_most(level);
        Some(Fact { class, ..fact })
    }

    /// Goes once over the code; whether anything changed.
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
            for &pred in cfg.preds(block) {
                let calls = function.successors(pred).iter();
                for call in calls.filter(|call| call.block == block) {
                    let arg = call.args.get(index);
                    let fact = arg.map(|&arg| self.seen_from(function, arg, block));
                    match (all, fact.unwrap_or(Some(Fact::VARYING))) {
                        (Some(a), Some(b)) => all = Some(either(a, b)),
                        (None, fact) => all = fact,
                        (_, None) => {}
                    }
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
                gives_way: self.yielding[block],
                assumptions: self.assumptions,
            };
            changed |= self.set(result, transfer.result(number));
        }
        changed
    }

    /// Makes a fact worse; whether that changed it.
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

/// What holds of a value that is one of two.
fn either(a: Fact, b: Fact) -> Fact {
    Fact {
        class: a.class.or(b.class),
        zeros: a.zeros.min(b.zeros),
    }
}

/// The classes as notes in a listing.
#[derive(Debug)]
pub struct UniformityNotes<'a> {
    /// The function.
    pub function: &'a Function,
    /// Its classes.
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
