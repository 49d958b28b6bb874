//! Makes speculative loads conditional again. A speculative load is unconditional in the PTX text,
//! although the source program executes it only under a condition.
//!
//! For `a && b`, nvcc often loads `b` in all threads if the address is known to be valid, and combines the two
//! conditions with `and` or `or`. For `a ? b : c`, it loads both values and selects one. In the source program, a
//! thread whose result does not depend on the loaded value does not execute the load. The load of this thread can
//! therefore neither race nor read uninitialised memory. The pass moves such a load into a separate block that only the
//! threads that need the value execute. The other threads execute a second load, of which only the address is checked,
//! because a GPU executes the load in all threads.
//!
//! The pass moves a load if two conditions hold. First, the loaded value, or a value computed from it by pure
//! operations of the same block, is used only by `and`, `or`, `selp` and `setp` with a third operand. Second, the other
//! condition that such an instruction uses does not depend on the load. The operations that compute these conditions
//! move in front of the load. The uses may also be in the block to which the load's block jumps, if the jump passes the
//! value. This occurs because nvcc loads a variable only in the threads that have not just stored to it. In this case,
//! the operations that compute the conditions are copied to the front of the load.
//!
//! The pass also treats a branch as such a condition if the value is used only in blocks that the
//! branch guards, and if the branch's condition can be computed in front of the load. Triton, for
//! example, loads a tensor in all threads of a block and stores the results in some of them.

use margay_ops::meaning::Desc;
use margay_ops::mods::{BoolOp, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use super::flow::{Flow, Use};
use crate::analysis::regions::is_param_load;
use crate::analysis::{Cfg, Dominators, Loops};
use crate::entity::{Block, Inst, Value};
use crate::function::{BlockCall, Function, ValueDef};
use crate::pass::simplify::become_constant;

/// Maximum number of values that depend on a load, and of operations that move in front of it.
const MOST: usize = 16;

/// Maximum number of loads of a block that become conditional. Making one load conditional takes time proportional to
/// the length of the rest of the block.
const MOST_SPLITS: usize = 64;

/// A condition, and its value in threads for which the loaded value matters.
type Condition = (Value, bool);

/// The changes that make a load conditional.
struct Plan {
    /// The loaded value matters if one of these conditions holds.
    conditions: SmallVec<[Condition; 2]>,
    /// The operations after the load that the conditions need, in their order.
    hoisted: Vec<Inst>,
    /// The operations of later blocks that the conditions need, in their order.
    copied: Vec<Inst>,
    /// The parameters of the next block, with the values that the load's block passes for them.
    passed: Vec<(Value, Value)>,
}

/// The blocks of a function as they were before the pass split them.
struct Blocks {
    cfg: Cfg,
    dominators: Dominators,
    loops: Loops,
    /// For each block that the pass has created, the block of which it was a part.
    origin: FxHashMap<Block, Block>,
    /// For each block that the pass has split, its last part.
    last: FxHashMap<Block, Block>,
}

impl Blocks {
    fn new(function: &Function) -> Blocks {
        let cfg = Cfg::new(function);
        Blocks {
            dominators: Dominators::new(&cfg),
            loops: Loops::new(function, &cfg),
            cfg,
            origin: FxHashMap::default(),
            last: FxHashMap::default(),
        }
    }

    fn origin(&self, block: Block) -> Block {
        self.origin.get(&block).copied().unwrap_or(block)
    }

    fn last(&self, block: Block) -> Block {
        self.last.get(&block).copied().unwrap_or(block)
    }

    fn split(&mut self, block: Block, tail: Block) {
        let origin = self.origin(block);
        self.origin.insert(tail, origin);
        self.last.insert(origin, tail);
    }

    /// Returns whether `to`, a block to which `from` jumps, runs at most once between two executions of `from`: `to` is
    /// not the header of a loop around `from`, and every loop that contains `to` also contains `from` and is entered
    /// only at its header.
    fn run_together(&self, from: Block, to: Block) -> bool {
        let dominates = |a, b| self.dominators.dominates(&self.cfg, a, b);
        let innermost = self.loops.innermost(to);
        let mut around = self.loops.and_around(innermost);
        !dominates(to, from)
            && innermost == self.loops.innermost(from)
            && around.all(|number| dominates(self.loops.header(number), to))
    }

    /// Searches for a branch that decides whether the block `home` runs after one of the blocks
    /// `starts`, and whose condition is available at the load. Returns the condition of the branch
    /// that is nearest to `home`.
    fn guard(
        &self,
        function: &Function,
        (starts, home): ([Option<Block>; 2], Block),
        is_available: impl Fn(Value) -> bool,
    ) -> Option<Condition> {
        let mut at = self.origin(home);
        for _ in 0..MOST {
            if starts.contains(&Some(at)) {
                return None;
            }
            at = match *self.cfg.preds(at) {
                [before] => {
                    let branch = function.layout.terminator(self.last(before))?;
                    let dfg = &function.dfg;
                    let is_branch = dfg.insts[branch].opcode == Opcode::Brif;
                    if let (true, [taken, other]) = (is_branch, dfg.targets(branch))
                        && taken.block != other.block
                        && is_available(dfg.args(branch)[0])
                    {
                        return Some((dfg.args(branch)[0], taken.block == at));
                    }
                    before
                }
                _ => self.dominators.idom(&self.cfg, at)?,
            };
        }
        None
    }
}

/// Makes each load of a function conditional that meets the two conditions in the documentation of
/// this module. Returns the second loads, of which only the address is checked.
pub(super) fn run(function: &mut Function) -> FxHashSet<Inst> {
    crate::edit::resolve_aliases(function);
    let mut flow = Flow::new(function);
    let mut blocks = Blocks::new(function);
    let mut unneeded = FxHashSet::default();
    let mut order = Vec::with_capacity(function.blocks().len());
    for block in function.blocks().to_vec() {
        let mut here = block;
        order.push(here);
        for _ in 0..MOST_SPLITS {
            let Some((index, plan)) = next(function, (&flow, &blocks), here) else {
                break;
            };
            let Split {
                created,
                tail,
                unneeded: load,
            } = split(function, here, index, plan);
            order.extend(created);
            order.push(tail);
            unneeded.insert(load);
            blocks.split(here, tail);
            for &inst in function.insts(tail) {
                flow.home[inst] = Some(tail);
            }
            here = tail;
        }
    }
    function.layout.order = order;
    crate::edit::resolve_aliases(function);
    unneeded
}

/// Returns the position of the first load of a block that can become conditional, and the changes that make it
/// conditional.
fn next(
    function: &Function,
    (flow, blocks): (&Flow, &Blocks),
    block: Block,
) -> Option<(usize, Plan)> {
    let insts = function.insts(block);
    insts.iter().enumerate().find_map(|(index, &inst)| {
        let data = &function.dfg.insts[inst];
        let global = !matches!(
            data.mods.space(),
            StateSpace::Param | StateSpace::ParamFunc | StateSpace::Local | StateSpace::Const
        );
        let is_plain = data.opcode == Opcode::Ld && data.mods.is_weak() && global;
        if !is_plain || function.dfg.results(inst).is_empty() {
            return None;
        }
        Some((index, plan(function, (flow, blocks), (block, inst))?))
    })
}

/// Returns the changes that make a load conditional; `None` if its value may matter in all threads.
fn plan(
    function: &Function,
    (flow, blocks): (&Flow, &Blocks),
    (block, load): (Block, Inst),
) -> Option<Plan> {
    let dfg = &function.dfg;
    let mut work: Vec<Value> = dfg.results(load).to_vec();
    let mut derived: FxHashSet<Value> = work.iter().copied().collect();
    let mut conditions: SmallVec<[Condition; 2]> = SmallVec::new();
    let from = blocks.origin(block);
    // If the next block can run again before the load, the conditions of its first run do not decide
    // whether the value matters.
    let next = next_block(function, block).filter(|next| blocks.run_together(from, next.0));
    let is_next = |home: Option<Block>| home.is_some() && home == next.as_ref().map(|next| next.0);
    let starts = [Some(from), next.as_ref().map(|next| next.0)];
    let is_above = |home: Block| {
        blocks
            .dominators
            .dominates(&blocks.cfg, blocks.origin(home), from)
    };
    let is_defined = |home| is_next(Some(home)) || is_above(home);
    let is_available = |value| is_available(function, flow, is_defined, value);
    while let Some(value) = work.pop() {
        for user in flow.uses(value) {
            let inst = match *user {
                Use::Operand(inst) => inst,
                Use::Parameter(param) => {
                    let (_, passed) = next.as_ref()?;
                    if passed.iter().all(|&(known, _)| known != param) {
                        return None;
                    }
                    if derived.insert(param) {
                        work.push(param);
                    }
                    continue;
                }
            };
            let home = flow.home[inst]?;
            if home != block && !is_next(Some(home)) {
                match blocks.guard(function, (starts, home), is_available) {
                    Some(condition) => conditions.push(condition),
                    None if function.effects(inst).is_pure() => {
                        let new = dfg.results(inst).iter().filter(|&&v| derived.insert(v));
                        work.extend(new);
                    }
                    None => return None,
                }
                if derived.len() > MOST || conditions.len() > MOST {
                    return None;
                }
                continue;
            }
            let data = &dfg.insts[inst];
            let args = dfg.args(inst);
            let &[result] = dfg.results(inst) else {
                return None;
            };
            let condition = match (data.opcode, args) {
                (Opcode::And | Opcode::Or, &[a, b]) if data.ty == OpType::Pred => {
                    let other = if a == value { b } else { a };
                    Some((other, data.opcode == Opcode::And))
                }
                (Opcode::Selp, &[a, b, c]) if c != value && a != b => Some((c, a == value)),
                (Opcode::Setp, &[_, _, other]) if other != value => match data.mods.bool_op() {
                    BoolOp::And => Some((other, true)),
                    BoolOp::Or => Some((other, false)),
                    _ => None,
                },
                _ => None,
            };
            match condition {
                Some(condition) => conditions.push(condition),
                None if function.effects(inst).is_pure() => {
                    if derived.insert(result) {
                        work.push(result);
                    }
                }
                None => return None,
            }
            if derived.len() > MOST || conditions.len() > MOST {
                return None;
            }
        }
    }
    if conditions.is_empty() {
        return None;
    }
    let passed = next.as_ref().map_or(&[][..], |(_, passed)| passed);
    let (mut hoisted, mut copied) = (Vec::new(), Vec::new());
    let mut needed: Vec<Value> = conditions.iter().map(|&(value, _)| value).collect();
    while let Some(value) = needed.pop() {
        let value = match derived.contains(&value) {
            true => value,
            false => replaced(value, passed),
        };
        if derived.contains(&value) {
            return None;
        }
        let Some(inst) = dfg.def_inst(value) else {
            continue;
        };
        let is_before = flow.position[inst] < flow.position[load];
        let list = match flow.home[inst] {
            home if home == Some(block) && !is_before => &mut hoisted,
            Some(home) if is_next(Some(home)) || !is_above(home) => &mut copied,
            _ => continue,
        };
        if list.contains(&inst) {
            continue;
        }
        let moves = function.effects(inst).is_pure() || is_param_load(function, inst);
        if !moves || list.len() == MOST {
            return None;
        }
        list.push(inst);
        needed.extend_from_slice(dfg.args(inst));
    }
    hoisted.sort_by_key(|&inst| flow.position[inst]);
    copied.sort_by_key(|&inst| {
        let home = flow.home[inst].and_then(|home| blocks.cfg.number(blocks.origin(home)));
        (home, flow.position[inst])
    });
    Some(Plan {
        conditions,
        hoisted,
        copied,
        passed: passed.to_vec(),
    })
}

/// Returns whether a value is defined in one of the blocks `is_defined`, or can be computed from such
/// values by at most [`MOST`] pure operations of other blocks.
fn is_available(
    function: &Function,
    flow: &Flow,
    is_defined: impl Fn(Block) -> bool,
    value: Value,
) -> bool {
    let dfg = &function.dfg;
    let mut seen = FxHashSet::default();
    let mut work: SmallVec<[Value; 8]> = smallvec![value];
    while let Some(value) = work.pop() {
        let inst = match dfg.values[dfg.resolve(value)].def {
            ValueDef::Param(home, _) if is_defined(home) => continue,
            ValueDef::Result(inst, _) => inst,
            _ => return false,
        };
        match flow.home[inst] {
            Some(home) if is_defined(home) => {}
            Some(_) if function.effects(inst).is_pure() => {
                if seen.insert(inst) {
                    work.extend_from_slice(dfg.args(inst));
                }
                if seen.len() > MOST {
                    return false;
                }
            }
            _ => return false,
        }
    }
    true
}

/// If a block ends with a jump to another block, returns the other block and its parameters, with the values that the
/// jump passes for them.
fn next_block(function: &Function, block: Block) -> Option<(Block, Vec<(Value, Value)>)> {
    let inst = function.layout.terminator(block)?;
    let [call] = function.dfg.targets(inst) else {
        return None;
    };
    let is_jump = function.dfg.insts[inst].opcode == Opcode::Jump && call.block != block;
    is_jump.then(|| {
        let params = function.dfg.blocks[call.block].params.iter().copied();
        (call.block, params.zip(call.args.iter().copied()).collect())
    })
}

/// Returns the value that `by` lists as the replacement of `value`; returns `value` itself if `by` has no replacement.
fn replaced(value: Value, by: &[(Value, Value)]) -> Value {
    let known = by.iter().find(|&&(of, _)| of == value);
    known.map_or(value, |&(_, by)| by)
}

/// The blocks that a block was split into, in their order, without its first part.
struct Split {
    /// The blocks of the load and of the second load, which the other threads execute.
    created: [Block; 2],
    /// The block with the instructions after the load.
    tail: Block,
    /// The second load.
    unneeded: Inst,
}

/// Moves the load at position `index` of a block into a new block, and the instructions after the load into another new
/// block. The instructions that the conditions need move in front of the load. Also creates the block of the second
/// load.
fn split(function: &mut Function, block: Block, index: usize, plan: Plan) -> Split {
    let mut insts = std::mem::take(&mut function.layout.insts[block]);
    let mut rest = insts.split_off(index + 1);
    let load = insts.remove(index);
    rest.retain(|inst| !plan.hoisted.contains(inst));
    insts.extend(plan.hoisted);
    let mut stands = plan.passed;
    for inst in plan.copied {
        let desc = function.dfg.insts[inst].desc();
        let args = function.dfg.args(inst).iter();
        let args: Vec<Value> = args.map(|&arg| replaced(arg, &stands)).collect();
        let results = function.dfg.results(inst).to_vec();
        let types: Vec<_> = results.iter().map(|&v| function.dfg.ty(v)).collect();
        let copy = function.dfg.make_inst(desc, &args, &types);
        function.dfg.locs[copy] = function.dfg.locs[inst];
        stands.extend(results.into_iter().zip(function.dfg.results(copy).to_vec()));
        insts.push(copy);
    }
    let [on, off, tail] = std::array::from_fn(|_| function.dfg.blocks.push(Default::default()));
    let values = function.dfg.results(load).to_vec();
    let types: Vec<_> = values.iter().map(|&value| function.dfg.ty(value)).collect();
    let data = function.dfg.insts[load];
    let loc = function.dfg.locs[load];
    let make = |function: &mut Function, desc: Desc, args: &[Value], results: &[_]| {
        let inst = function.dfg.make_inst(desc, args, results);
        function.dfg.locs[inst] = loc;
        inst
    };
    let pred = |opcode| Desc {
        opcode,
        ty: OpType::Pred,
        src: OpType::None,
        mods: Mods::NONE,
    };
    let mut matters = None;
    for (condition, wanted) in plan.conditions {
        let mut holds = replaced(condition, &stands);
        let of = [function.dfg.ty(condition)];
        if !wanted {
            let not = make(function, pred(Opcode::Not), &[holds], &of);
            holds = function.dfg.results(not)[0];
            insts.push(not);
        }
        matters = Some(match matters {
            None => holds,
            Some(before) => {
                let or = make(function, pred(Opcode::Or), &[before, holds], &of);
                insts.push(or);
                function.dfg.results(or)[0]
            }
        });
    }
    let control = |opcode| Desc {
        ty: OpType::None,
        ..pred(opcode)
    };
    let mut nothing = Vec::with_capacity(types.len());
    for &ty in &types {
        let zero = make(function, control(Opcode::Const), &[], &[ty]);
        become_constant(function, zero, ty.kind(), 0);
        insts.push(zero);
        nothing.push(function.dfg.results(zero)[0]);
    }
    let args = function.dfg.args(load).to_vec();
    let loading = |function: &mut Function, values: Option<&[Value]>| {
        let again = make(function, data.desc(), &args, &types);
        let loaded = function.dfg.results(again).to_vec();
        let jump = make(function, control(Opcode::Jump), &[], &[]);
        let call = BlockCall {
            args: values.unwrap_or(&loaded).into(),
            ..BlockCall::to(tail)
        };
        function.dfg.targets.insert(jump, smallvec![call]);
        [again, jump]
    };
    function.layout.insts[on] = loading(function, None).to_vec();
    let unneeded = loading(function, Some(&nothing));
    function.layout.insts[off] = unneeded.to_vec();
    let branch = make(function, control(Opcode::Brif), matters.as_slice(), &[]);
    let calls = smallvec![BlockCall::to(on), BlockCall::to(off)];
    function.dfg.targets.insert(branch, calls);
    insts.push(branch);
    function.layout.insts[block] = insts;
    function.layout.insts[tail] = rest;
    for (value, ty) in values.into_iter().zip(types) {
        let param = function.dfg.append_param(tail, ty);
        function.dfg.values[value].def = ValueDef::Alias(param);
    }
    Split {
        created: [on, off],
        tail,
        unneeded: unneeded[0],
    }
}
