//! Finds loops that terminate regardless of what other threads write to memory, and loops that poll memory.
//!
//! A loop is counted if every iteration executes an exit test that compares two values. One value changes by the same
//! step in every iteration, and the other does not change. The other value may change if the counter approaches it
//! ([`approach`]). The test may be in any block that every iteration executes, and the loop may have other exits. The
//! test may also be one of several conditions that must all hold for the loop to continue.
//!
//! A loop is also counted if its exits do not depend on memory: every iteration executes all exits, and the condition of
//! every exit is computed by pure operations from values that are computed in the same way in the previous iteration, or
//! that do not change in the loop. Such a loop runs the same number of iterations whatever other threads do, for example
//! `for (n = 256; n != 0; n /= 2) sum += shared[n];`.

mod approach;

use std::cell::Cell;

use rustc_hash::FxHashSet;

use crate::analysis::dominators::Extent;
use crate::analysis::{Cfg, Dominators, Loops};
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::{Function, ValueDef};
use margay_ops::mods::BoolOp;
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::OpType;

use super::{Wait, wait_of};

/// How a loop ends, as far as the analysis can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The loop is counted and does not poll.
    Counted,
    /// The loop polls: it has an exit for which [`Test::is_polled`] returns true.
    Polls,
    /// The analysis proves neither. A loop without any operation with which it may wait always has
    /// this kind.
    Unknown,
}

/// Returns the kind of each loop. The step of a counted loop may be a constant or a loop-invariant value.
pub(super) fn find(
    function: &Function,
    cfg: &Cfg,
    loops: &Loops,
    waits: &[Option<Wait>],
) -> Vec<Kind> {
    let dominators = Dominators::new(cfg);
    let latches: Vec<Option<Extent>> = (0..loops.loops.len())
        .map(|number| latches(cfg, &dominators, loops, number))
        .collect();
    let all_steps = Cell::new(MOST_STEPS_OF_ALL);
    let mut homes: SecondaryMap<Inst, Option<Block>> = SecondaryMap::default();
    for &block in cfg.rpo() {
        for &inst in function.insts(block) {
            homes[inst] = Some(block);
        }
    }
    let tests: Vec<Test<'_>> = (0..loops.loops.len())
        .map(|number| Test {
            function,
            cfg,
            homes: &homes,
            loops,
            number,
            wait: waits[number],
            steps: Cell::new(MOST_STEPS),
            all_steps: &all_steps,
        })
        .collect();
    let is_in_every_iteration = |block: Block, number: usize| {
        let passes = |latches| dominators.dominates_all(cfg, block, latches);
        latches[number].is_some_and(passes)
    };
    let mut counted = vec![false; loops.loops.len()];
    let complete = exits(function, cfg, loops, |block, number, exit| {
        let Some((condition, value)) = exit else {
            return;
        };
        if waits[number].is_some() && !counted[number] && is_in_every_iteration(block, number) {
            counted[number] = tests[number].bounds(condition, value, DEPTH);
        }
    });
    if !complete {
        return vec![Kind::Unknown; loops.loops.len()];
    }
    // Whether the exits examined so far are independent of memory; `None` for a loop without exits. If some iterations
    // skip an exit, memory may decide which iterations these are.
    let mut independent: Vec<Option<bool>> = vec![None; loops.loops.len()];
    exits(function, cfg, loops, |block, number, exit| {
        if waits[number].is_some() && !counted[number] && independent[number] != Some(false) {
            let computed = is_in_every_iteration(block, number)
                && exit.is_some_and(|(condition, _)| tests[number].is_computed(condition));
            independent[number] = Some(computed);
        }
    });
    for (counted, independent) in counted.iter_mut().zip(independent) {
        *counted |= independent == Some(true);
    }
    let kind = |&counted: &bool| {
        if counted {
            Kind::Counted
        } else {
            Kind::Unknown
        }
    };
    let mut kinds: Vec<Kind> = counted.iter().map(kind).collect();
    exits(function, cfg, loops, |_, number, exit| {
        let Some((condition, _)) = exit else {
            return;
        };
        // A loop with stronger accesses needs this test only if it is counted: otherwise it waits, whether or not it
        // polls.
        let decided = |wait: &Wait| match kinds[number] {
            Kind::Polls => true,
            Kind::Counted => false,
            Kind::Unknown => *wait == Wait::Strong,
        };
        if let Some(wait) = waits[number].filter(|wait| !decided(wait))
            && tests[number].is_polled(condition, wait, DEPTH)
        {
            kinds[number] = Kind::Polls;
        }
    });
    kinds
}

/// Calls `f` with each exit of each loop: the block that branches, the index of the loop, the
/// condition of the branch, and the result of the condition with which the branch leaves the loop.
/// Condition and result are `None` for a branch that has more than two targets, and for a branch that always leaves the
/// loop. Stops and returns false after [`MOST_EXITS`] exits.
fn exits(
    function: &Function,
    cfg: &Cfg,
    loops: &Loops,
    mut f: impl FnMut(Block, usize, Option<(Value, bool)>),
) -> bool {
    let mut rest = MOST_EXITS;
    let mut exit = |block, number, exit| {
        let less = rest.checked_sub(1);
        rest = less.unwrap_or(0);
        if less.is_some() {
            f(block, number, exit);
        }
        less.is_some()
    };
    for &block in cfg.rpo() {
        let left = |to: Block| loops.around_only(block, to);
        let complete = match branch(function, block) {
            Some((condition, then, other)) => {
                // Each target's list of loops that the branch leaves begins with the loops that both targets leave.
                let both = left(then).zip(left(other)).count();
                [(then, true), (other, false)].iter().all(|&(to, value)| {
                    let one = Some((condition, value));
                    left(to).take(both).all(|number| exit(block, number, None))
                        && left(to).skip(both).all(|number| exit(block, number, one))
                })
            }
            None => function
                .successors(block)
                .iter()
                .all(|call| left(call.block).all(|number| exit(block, number, None))),
        };
        if !complete {
            return false;
        }
    }
    true
}

/// Returns whether an operation combines two conditions into one.
fn is_connective(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::And | Opcode::Or)
}

/// Returns the condition and the targets of a branch with two targets.
fn branch(function: &Function, block: Block) -> Option<(Value, Block, Block)> {
    let inst = function.layout.terminator(block)?;
    let [then, other] = function.dfg.targets(inst) else {
        return None;
    };
    let condition = *function.dfg.args(inst).first()?;
    (function.dfg.insts[inst].opcode == Opcode::Brif).then_some((
        condition,
        then.block,
        other.block,
    ))
}

/// Returns the smallest range of the dominator tree ([`Extent`]) that contains all blocks with an
/// edge back to a loop's header; `None` if the header does not dominate all of these blocks.
fn latches(cfg: &Cfg, dominators: &Dominators, loops: &Loops, number: usize) -> Option<Extent> {
    let header = loops.header(number);
    let latches = cfg.preds(header).iter();
    let latches = latches.filter(|&&pred| cfg.number(pred) >= cfg.number(header));
    let extents = latches.filter_map(|&latch| dominators.extent(cfg, latch));
    let extent = extents.reduce(Extent::and)?;
    dominators
        .dominates_all(cfg, header, extent)
        .then_some(extent)
}

/// Maximum depth of nested conditions and block parameters that the analysis follows.
const DEPTH: u32 = 4;

/// Maximum number of values that the analysis examines for a loop. If a loop needs more, the analysis does not classify
/// the loop as counted, and may classify it as a loop that polls.
const MOST_STEPS: u32 = 100_000;
/// Maximum number of values that the analysis examines for all loops of a function.
const MOST_STEPS_OF_ALL: u32 = 10_000_000;
/// Maximum number of values from which the condition of an exit is computed, for [`Test::is_computed`].
const MOST_COMPUTED: usize = 1_000;
/// Maximum number of exits that the analysis examines. A branch that leaves several loops counts as an exit of each of
/// them.
const MOST_EXITS: u32 = 20_000_000;

struct Test<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    homes: &'a SecondaryMap<Inst, Option<Block>>,
    loops: &'a Loops,
    /// Index of the loop that the analysis examines.
    number: usize,
    /// The strongest kind of operation with which the loop may wait.
    wait: Option<Wait>,
    /// Number of values that the analysis may still examine for this loop.
    steps: Cell<u32>,
    /// Number of values that the analysis may still examine for all loops.
    all_steps: &'a Cell<u32>,
}

impl Test<'_> {
    fn is_inside(&self, block: Block) -> bool {
        self.loops.contains(self.number, block)
    }

    /// Returns whether a value is computed by pure operations from values that do not change in the loop and from
    /// parameters of the loop's header for which the loop passes such values. Parameters of other blocks do not count,
    /// because a branch that depends on memory can choose their values. For the same reason, all branches to the header
    /// must pass the same value.
    fn is_computed(&self, value: Value) -> bool {
        let dfg = &self.function.dfg;
        let header = self.loops.header(self.number);
        let mut seen = FxHashSet::from_iter([value]);
        let mut work = vec![value];
        while let Some(value) = work.pop() {
            if seen.len() > MOST_COMPUTED || !self.takes_step() {
                return false;
            }
            if self.is_invariant(value) {
                continue;
            }
            let mut add = |value: Value| {
                if seen.insert(value) {
                    work.push(value);
                }
            };
            match dfg.values[value].def {
                ValueDef::Param(block, index) if block == header => {
                    let mut passed = self.passed(block, index);
                    let Some(first) = passed.next() else {
                        return false;
                    };
                    if passed.any(|other| other != first) {
                        return false;
                    }
                    add(first);
                }
                ValueDef::Result(inst, _) if dfg.insts[inst].opcode.effects().is_pure() => {
                    dfg.args(inst).iter().for_each(|&arg| add(arg));
                }
                _ => return false,
            }
        }
        true
    }

    /// Returns whether `condition` is or contains an exit test as the documentation of this module describes. The loop
    /// exits if the condition has the result `value`.
    fn bounds(&self, condition: Value, value: bool, depth: u32) -> bool {
        let dfg = &self.function.dfg;
        let Some(inst) = dfg.def_inst(condition).filter(|_| depth > 0) else {
            return false;
        };
        let data = &dfg.insts[inst];
        let deeper = |v: Value, value| self.bounds(v, value, depth - 1);
        match (data.opcode, dfg.args(inst)) {
            // A comparison with an invariant value counts as an exit test regardless of whether the loop exits on true
            // or on false.
            (Opcode::Setp, &[a, b]) => self.compares(a, b) || self.approaches(inst, (a, b), value),
            // If the result that continues the loop requires both conditions, an exit test in one of the two conditions
            // is enough.
            (Opcode::Setp, &[a, b, c]) => {
                let one_is_enough = match data.mods.bool_op() {
                    BoolOp::And => !value,
                    BoolOp::Or => value,
                    _ => false,
                };
                let bounds = || self.compares(a, b) || self.approaches(inst, (a, b), value);
                one_is_enough && (bounds() || deeper(c, value))
            }
            (Opcode::And, &[a, b]) if data.ty == OpType::Pred && !value => {
                deeper(a, value) || deeper(b, value)
            }
            (Opcode::Or, &[a, b]) if data.ty == OpType::Pred && value => {
                deeper(a, value) || deeper(b, value)
            }
            (Opcode::Not, &[a]) if data.ty == OpType::Pred => deeper(a, !value),
            _ => false,
        }
    }

    /// Returns whether an exit with this condition polls memory that other threads can write, at an address that does
    /// not change in the loop. `wait` is the strongest kind of operation in the loop. An exit does not poll if it
    /// compares a value that changes by the same step in each iteration: a loop that waits compares a flag with a value
    /// that does not change, but a search compares its position with the best position found so far. If the loop only
    /// reads memory, an exit does not poll if its condition depends on a value that is computed from the same value in
    /// an earlier iteration. It does not poll either if its condition depends on a load whose address changes in the
    /// loop. (Such conditions are typical of searches and of numeric iterations, which compare a loaded value with a
    /// value that changes in each iteration.) If the analysis would need too many steps, this function returns true.
    fn is_polled(&self, condition: Value, wait: Wait, depth: u32) -> bool {
        let dfg = &self.function.dfg;
        let inst = dfg.def_inst(condition).filter(|_| depth > 0);
        let deeper = |value: Value| self.is_polled(value, wait, depth - 1);
        match inst.map(|inst| (&dfg.insts[inst], dfg.args(inst))) {
            Some((data, &[a, b])) if is_connective(data.opcode) && data.ty == OpType::Pred => {
                deeper(a) || deeper(b)
            }
            Some((data, &[a, b])) if data.opcode == Opcode::Setp => self.compares_read(a, b, wait),
            Some((data, &[a, b, c])) if data.opcode == Opcode::Setp => {
                self.compares_read(a, b, wait) || deeper(c)
            }
            Some((data, &[a])) if data.opcode == Opcode::Not && data.ty == OpType::Pred => {
                deeper(a)
            }
            _ => self.reads_again(&[condition], wait),
        }
    }

    /// Returns the result of [`Test::is_polled`] for an exit whose condition compares `a` with `b`.
    fn compares_read(&self, a: Value, b: Value, wait: Wait) -> bool {
        !self.steps(a) && !self.steps(b) && self.reads_again(&[a, b], wait)
    }

    /// Returns the result of [`Test::is_polled`] for an exit whose condition is computed from
    /// `values`.
    fn reads_again(&self, values: &[Value], wait: Wait) -> bool {
        let dfg = &self.function.dfg;
        let only_stays = wait == Wait::Reads;
        let header = self.loops.header(self.number);
        let (mut carried, mut again) = (false, false);
        let mut seen: FxHashSet<Value> = values.iter().copied().collect();
        let mut work = values.to_vec();
        let mut polls = false;
        while let Some(value) = work.pop() {
            if !self.takes_step() {
                return true;
            }
            if self.is_invariant(value) {
                continue;
            }
            let (polled, args) = match dfg.values[value].def {
                ValueDef::Param(block, index) => {
                    carried |= block == header;
                    (None, self.passed(block, index).collect())
                }
                ValueDef::Result(inst, _) => {
                    let (opcode, args) = (dfg.insts[inst].opcode, dfg.args(inst));
                    let reads = opcode.effects().contains(Effects::READS);
                    match opcode {
                        Opcode::Call | Opcode::CallIndirect => {
                            let stay = || args.iter().all(|&arg| self.stays(arg, DEPTH));
                            (Some(!only_stays || stay()), Vec::new())
                        }
                        _ if reads && wait_of(self.function, inst).is_some() => {
                            let stays = args.first().is_some_and(|&at| self.stays(at, DEPTH));
                            (Some(stays), Vec::new())
                        }
                        _ => (None, args.to_vec()),
                    }
                }
                _ => (None, Vec::new()),
            };
            match polled {
                Some(true) if !only_stays => return true,
                Some(false) if only_stays => return false,
                polled => polls |= polled == Some(true),
            }
            for value in args {
                if seen.insert(value) {
                    work.push(value);
                } else {
                    again |= !self.is_invariant(value);
                }
            }
        }
        // A value that is computed from its own value in an earlier iteration is found again through a parameter of the
        // header.
        if only_stays && carried && again {
            return false;
        }
        polls
    }

    /// Returns whether a value is the same in each iteration, provided that the memory does not
    /// change. The value is the same if it is invariant, or computed by pure instructions and loads
    /// from invariant values. The result of `check.access` is the address that it examines.
    fn stays(&self, value: Value, depth: u32) -> bool {
        let dfg = &self.function.dfg;
        let examined = |value: Value| {
            let inst = dfg.def_inst(value)?;
            let checks = dfg.insts[inst].opcode == Opcode::CheckAccess;
            dfg.args(inst).first().copied().filter(|_| checks)
        };
        let value = std::iter::successors(Some(value), |&value| examined(value)).last();
        let value = value.expect("the iterator begins with the value");
        self.is_invariant(value)
            || dfg.def_inst(value).is_some_and(|inst| {
                let (opcode, args) = (dfg.insts[inst].opcode, dfg.args(inst));
                let computes = opcode == Opcode::Ld || opcode.effects().is_pure();
                depth > 0 && computes && args.iter().all(|&arg| self.stays(arg, depth - 1))
            })
    }

    /// Counts a step of the analysis. Returns false if no steps are left.
    fn takes_step(&self) -> bool {
        [&self.steps, self.all_steps].into_iter().all(|steps| {
            let left = steps.get().checked_sub(1);
            steps.set(left.unwrap_or(0));
            left.is_some()
        })
    }

    fn compares(&self, a: Value, b: Value) -> bool {
        let fixed = |v: Value| self.is_invariant(v);
        self.steps(a) && fixed(b) || self.steps(b) && fixed(a)
    }

    fn is_invariant(&self, value: Value) -> bool {
        let function = self.function;
        match function.dfg.values[value].def {
            ValueDef::Param(block, _) => !self.is_inside(block),
            ValueDef::Result(inst, _) => {
                let inside = |block: Block| self.is_inside(block);
                function.dfg.insts[inst].opcode == Opcode::Const
                    || !self.homes[inst].is_some_and(inside)
            }
            _ => false,
        }
    }

    /// Returns whether a value is a parameter of the header that changes by the same step in each iteration. Also
    /// returns true for the result of an addition, a subtraction or a shift of this parameter by a loop-invariant
    /// amount, and for both of these values widened to a larger type.
    fn steps(&self, value: Value) -> bool {
        self.common_step(value).is_some()
    }

    /// Returns the step by which a value changes in each iteration, for the values of [`Test::steps`].
    fn common_step(&self, value: Value) -> Option<Step> {
        let dfg = &self.function.dfg;
        let header = self.loops.header(self.number);
        let of_header = |value: Value| match dfg.values[value].def {
            ValueDef::Param(block, index) if block == header => Some((value, index)),
            _ => None,
        };
        let value = self.before_widening(value);
        let stepped = || dfg.def_inst(value).and_then(|inst| self.step_of(inst));
        let param = of_header(value).or_else(|| of_header(stepped()?.0));
        let (param, index) = param?;
        let mut search = Search {
            param,
            step: None,
            found: FxHashSet::default(),
        };
        let mut next = |value: Value| self.is_next(value, &mut search, DEPTH);
        let all = self.passed(header, index).all(&mut next);
        search.step.filter(|_| all)
    }

    /// Returns the values that blocks of the loop pass to a block parameter.
    fn passed(&self, block: Block, index: u16) -> impl Iterator<Item = Value> {
        let incoming = self.cfg.incoming(self.function, block);
        incoming
            .filter(|&(pred, _)| self.is_inside(pred))
            .map(move |(_, call)| call.args[usize::from(index)])
    }

    /// Returns whether `value` is the result of applying the step of the search to the header's parameter, on every
    /// path that leads to the definition of `value`. If the search has no step yet, the first step that this function
    /// finds becomes its step.
    fn is_next(&self, value: Value, search: &mut Search, depth: u32) -> bool {
        if search.found.contains(&value) {
            return true;
        }
        if !self.takes_step() {
            return false;
        }
        let is_next = match self.function.dfg.values[value].def {
            ValueDef::Result(inst, _) => match self.step_of(inst) {
                Some((base, step)) if base == search.param => {
                    *search.step.get_or_insert(step) == step
                }
                _ => false,
            },
            ValueDef::Param(block, index)
                if depth > 0
                    && block != self.loops.header(self.number)
                    && self.is_inside(block) =>
            {
                let mut passed = self.passed(block, index);
                passed.all(|value| self.is_next(value, search, depth - 1))
            }
            _ => false,
        };
        if is_next {
            search.found.insert(value);
        }
        is_next
    }

    /// If a value is an integer converted to a wider type, returns the integer before the conversion. Otherwise returns
    /// the value itself.
    fn before_widening(&self, value: Value) -> Value {
        let dfg = &self.function.dfg;
        let Some(inst) = dfg.def_inst(value) else {
            return value;
        };
        let data = &dfg.insts[inst];
        let widens = data.opcode == Opcode::Cvt
            && data.ty.is_integer()
            && data.src.is_integer()
            && data.src.bits() < data.ty.bits();
        let arg = dfg.args(inst).first().copied();
        arg.filter(|&arg| widens && dfg.ty(arg).lane_bits() == data.src.bits())
            .unwrap_or(value)
    }

    /// Returns the operand to which `inst` applies a loop-invariant step, and the step. The step is not the constant
    /// zero.
    fn step_of(&self, inst: Inst) -> Option<(Value, Step)> {
        let dfg = &self.function.dfg;
        let data = &dfg.insts[inst];
        let step = |by: Value| {
            let usable = self.is_invariant(by) && dfg.constant(by) != Some(0);
            usable.then(|| match dfg.constant(by) {
                Some(bits) => Step::Constant(data.opcode, bits),
                None => Step::Value(data.opcode, by),
            })
        };
        match (data.opcode, dfg.args(inst)) {
            (Opcode::Add, &[a, b]) if data.ty.is_integer() => step(b)
                .map(|by| (a, by))
                .or_else(|| step(a).map(|by| (b, by))),
            (Opcode::Sub, &[a, b]) if data.ty.is_integer() => step(b).map(|by| (a, by)),
            (Opcode::Shr | Opcode::Shl, &[a, b]) => step(b).map(|by| (a, by)),
            _ => None,
        }
    }
}

/// The state of the search for the step by which a parameter of the loop's header changes in each
/// iteration.
struct Search {
    /// The parameter of the loop's header.
    param: Value,
    /// The step by which the parameter changes; `None` until the search finds a step.
    step: Option<Step>,
    /// Values that are the parameter plus the step.
    found: FxHashSet<Value>,
}

/// The step by which a value changes, with the op that applies it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Constant(Opcode, u64),
    Value(Opcode, Value),
}
