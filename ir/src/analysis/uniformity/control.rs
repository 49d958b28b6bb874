//! Finds the blocks where diverged threads meet, and the loops that threads leave in different iterations.
//!
//! For each branch whose condition is not equal for all threads, the analysis propagates a different label along each
//! edge of the branch, in reverse postorder. A block that two labels reach is a *join*: its parameters may differ
//! between threads. If different labels leave a loop or reach its header again, threads leave the *loop in different
//! iterations*. The analysis then treats the exits of the loop like the edges of a branch, with new labels.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Class;
use crate::analysis::{Cfg, Dominators, Loops};
use crate::entity::{Block, SecondaryMap, Value};
use crate::function::{Function, ValueDef};
use margay_ops::ops::Opcode;

/// The joins and loops of a function, and for each of them the class of the conditions of the branches that cause the
/// divergence.
#[derive(Clone, Debug)]
pub(in crate::analysis) struct Control {
    loops: Loops,
    /// For each loop, the class of the conditions that determine in which iteration threads leave the loop.
    levels: Vec<Class>,
    /// Whether all loops are natural, which means that they are entered only at their headers.
    reducible: bool,
    joins: SecondaryMap<Block, Option<Class>>,
    branches: SecondaryMap<Block, Option<Class>>,
    /// The block that defines each value.
    homes: SecondaryMap<Value, Option<Block>>,
}

/// An edge of the control-flow graph.
type Edge = (Block, Block);

impl Control {
    pub(in crate::analysis) fn new(function: &Function, cfg: &Cfg) -> Control {
        let loops = Loops::new(function, cfg);
        let mut homes: SecondaryMap<Value, Option<Block>> = SecondaryMap::default();
        for &block in cfg.rpo() {
            for &param in &function.dfg.blocks[block].params {
                homes[param] = Some(block);
            }
            for &inst in function.insts(block) {
                for &result in function.dfg.results(inst) {
                    homes[result] = Some(block);
                }
            }
        }
        Control {
            reducible: is_reducible(cfg),
            levels: vec![Class::Launch; loops.loops.len()],
            loops,
            joins: SecondaryMap::default(),
            branches: SecondaryMap::default(),
            homes,
        }
    }

    /// Returns the blocks in loops that contain a `yield` or `nanosleep`.
    pub(in crate::analysis) fn yielding(&self, function: &Function) -> SecondaryMap<Block, bool> {
        let mut yielding: SecondaryMap<Block, bool> = SecondaryMap::default();
        let yields = |&block: &Block| {
            let insts = function.insts(block).iter();
            insts
                .map(|&inst| function.dfg.insts[inst].opcode)
                .any(|opcode| matches!(opcode, Opcode::Yield | Opcode::Nanosleep))
        };
        // If the outermost loop around a block contains a `yield` or `nanosleep`, the block is yielding.
        let mut end = 0;
        for (number, one) in self.loops.loops.iter().enumerate() {
            if one.start < end {
                continue;
            }
            end = one.end;
            if self.loops.body(number).iter().any(yields) {
                for &block in self.loops.body(number) {
                    yielding[block] = true;
                }
            }
        }
        yielding
    }

    /// Returns the class of the conditions that determine along which path threads reach a block.
    pub(in crate::analysis) fn join(&self, block: Block) -> Class {
        self.joins[block].unwrap_or(Class::Launch)
    }

    /// Considers the loops that contain the definition of `value` but not `block`. Returns the class of the conditions
    /// that determine in which iterations threads leave these loops.
    pub(in crate::analysis) fn leaving(
        &self,
        function: &Function,
        value: Value,
        block: Block,
    ) -> Class {
        debug_assert!(!matches!(
            function.dfg.values[value].def,
            ValueDef::Alias(_) | ValueDef::Pending
        ));
        // A constant is the same in all iterations.
        if function.dfg.constant(value).is_some() {
            return Class::Launch;
        }
        let Some(home) = self.homes[value] else {
            return Class::Varying;
        };
        let left = self.loops.around_only(home, block);
        left.map(|number| self.levels[number])
            .fold(Class::Launch, Class::max)
    }

    /// Returns whether the analysis proves that lanes of a warp which have reached a block the same number of times are
    /// in the same iterations of the loops around it. It proves this if the control flow is reducible, if every
    /// iteration of these loops that is followed by another iteration executes the block, and if all lanes run the same
    /// number of iterations of each of these loops except the outermost one. If `Assumptions::width` is less than 32,
    /// the result is about the lanes of a chunk.
    pub(in crate::analysis) fn is_converged(
        &self,
        cfg: &Cfg,
        dominators: &Dominators,
        block: Block,
    ) -> bool {
        let loops = &self.loops;
        let passes = |number: usize| {
            let latches = cfg.preds(loops.header(number)).iter();
            let mut latches = latches.filter(|&&latch| loops.contains(number, latch));
            latches.all(|&latch| dominators.dominates(cfg, block, latch))
        };
        let is_inner = |number: usize| loops.outer(number).is_some();
        let mut around = loops.and_around(loops.innermost(block));
        self.reducible
            && around.all(|number| {
                passes(number) && (!is_inner(number) || self.levels[number].is_uniform())
            })
    }

    /// Returns the block that defines a value.
    pub(in crate::analysis) fn home(&self, value: Value) -> Option<Block> {
        self.homes[value]
    }

    /// Returns the loops.
    pub(in crate::analysis) fn loops(&self) -> &Loops {
        &self.loops
    }

    /// Returns the index of the innermost loop that contains a value's definition; `None` if no
    /// loop contains it.
    pub(in crate::analysis) fn innermost(&self, value: Value) -> Option<usize> {
        self.loops.innermost(self.homes[value]?)
    }

    /// Records that the condition of the branch at the end of `block` is only as uniform as `level`. Returns whether
    /// this changed the class of any block or loop.
    pub(in crate::analysis) fn branch(
        &mut self,
        function: &Function,
        cfg: &Cfg,
        block: Block,
        level: Class,
    ) -> bool {
        if level == Class::Launch || self.branches[block].is_some_and(|known| known >= level) {
            return false;
        }
        self.branches[block] = Some(level);
        let calls = function.successors(block).iter();
        let edges: Vec<Edge> = calls.map(|call| (block, call.block)).collect();
        let mut work = vec![(edges, self.loops.innermost(block))];
        let mut changed = false;
        while let Some((edges, inside)) = work.pop() {
            let spread = Spread::run(self, function, cfg, &edges, inside);
            let (joins, turns) = (spread.joins, spread.turns);
            for join in joins {
                let known = self.joins[join];
                if known.is_none_or(|known| known < level) {
                    self.joins[join] = Some(level);
                    changed = true;
                }
            }
            for (number, (_, others)) in turns {
                if others && self.levels[number] < level {
                    self.levels[number] = level;
                    changed = true;
                    work.push(self.exits(function, number));
                }
            }
        }
        changed
    }

    /// Returns the edges that leave a loop, and the innermost other loop that contains this loop.
    fn exits(&self, function: &Function, number: usize) -> (Vec<Edge>, Option<usize>) {
        let mut edges: Vec<Edge> = Vec::new();
        for &block in self.loops.body(number) {
            let calls = function.successors(block).iter();
            let out = calls.filter(|call| !self.loops.contains(number, call.block));
            edges.extend(out.map(|call| (block, call.block)));
        }
        edges.sort_unstable();
        (edges, self.loops.outer(number))
    }
}

/// The state of one propagation of labels, which starts at the edges where threads diverge.
struct Spread<'a> {
    control: &'a Control,
    cfg: &'a Cfg,
    /// The innermost loop that contains the sources of the edges at which the propagation starts.
    inside: Option<usize>,
    labels: FxHashMap<Block, u32>,
    /// For each loop header, the first label that reached the header along a back edge.
    came_back: FxHashMap<Block, u32>,
    next: u32,
    work: BinaryHeap<Reverse<u32>>,
    joins: FxHashSet<Block>,
    /// For each loop, the first label that leaves the loop or reaches its header again, and whether a second label also
    /// leaves the loop or reaches the header.
    turns: FxHashMap<usize, (u32, bool)>,
}

impl<'a> Spread<'a> {
    /// Propagates a different label along each edge, until no block is left or all paths have met at a block outside of
    /// the loops around the edges' sources.
    fn run(
        control: &'a Control,
        function: &Function,
        cfg: &'a Cfg,
        edges: &[Edge],
        inside: Option<usize>,
    ) -> Spread<'a> {
        let mut spread = Spread {
            control,
            cfg,
            inside,
            labels: FxHashMap::default(),
            came_back: FxHashMap::default(),
            next: edges.len() as u32,
            work: BinaryHeap::new(),
            joins: FxHashSet::default(),
            turns: FxHashMap::default(),
        };
        for (label, &(from, to)) in (0..).zip(edges) {
            spread.send(from, to, label);
        }
        while let Some(Reverse(number)) = spread.work.pop() {
            let block = cfg.rpo()[number as usize];
            let loops = &control.loops;
            let is_outside = || {
                loops
                    .and_around(inside)
                    .all(|number| !loops.contains(number, block))
            };
            if spread.work.is_empty() && control.reducible && is_outside() {
                // All paths have met at this block, which is outside of the loops around the edges' sources.
                break;
            }
            let label = spread.labels[&block];
            for call in function.successors(block) {
                spread.send(block, call.block, label);
            }
        }
        spread
    }

    fn send(&mut self, from: Block, to: Block, label: u32) {
        let loops = &self.control.loops;
        if let Some(inside) = self.inside {
            let inside = loops.loops[inside];
            let is_around = |&number: &usize| loops.loops[number].contains(inside.start);
            let left = loops.around_only(from, to);
            for number in left.chain(loops.headed_by(to)).filter(is_around) {
                let (first, others) = self.turns.entry(number).or_insert((label, false));
                *others |= *first != label;
            }
        }
        let (Some(source), Some(target)) = (self.cfg.number(from), self.cfg.number(to)) else {
            return;
        };
        if target <= source {
            // The edge leads back to a header, where a new iteration begins. If another label has reached the header on
            // a forward edge, the header is a second entry of an irreducible loop.
            let forwards = self.labels.get(&to).is_some_and(|&known| known != label);
            if forwards || *self.came_back.entry(to).or_insert(label) != label {
                self.joins.insert(to);
            }
            return;
        }
        match self.labels.get(&to) {
            None => {
                self.labels.insert(to, label);
                self.work.push(Reverse(target));
            }
            Some(&known) => {
                if known != label && self.joins.insert(to) {
                    self.labels.insert(to, self.next);
                    self.next += 1;
                }
            }
        }
    }
}

/// Returns whether every loop is entered only at its header: that is, whether each header dominates the sources of the
/// edges back to the header.
fn is_reducible(cfg: &Cfg) -> bool {
    let dominators = Dominators::new(cfg);
    cfg.rpo().iter().all(|&header| {
        let mut back = cfg.preds(header).iter();
        back.all(|&latch| {
            cfg.number(latch) < cfg.number(header) || dominators.dominates(cfg, header, latch)
        })
    })
}
