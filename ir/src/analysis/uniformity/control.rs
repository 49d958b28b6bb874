//! Finds where diverged threads meet, and which loops they leave in different iterations.
//!
//! From each branch whose condition is not equal for all threads, a different label is propagated along each of its
//! edges, in reverse postorder. A block that two labels reach is a *join*: its parameters may differ between
//! threads. If different labels leave a loop or reach its header again, threads leave the *loop in different
//! iterations*. The exits of the loop are then treated like the edges of a branch, with new labels.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Class;
use crate::analysis::{Cfg, Dominators};
use crate::entity::{Block, SecondaryMap, Value};
use crate::function::{Function, ValueDef};
use margay_ops::ops::Opcode;

/// A loop: a header and the blocks on paths back to it.
#[derive(Clone, Debug)]
struct Loop {
    header: Block,
    /// Whether every path into the loop leads through the header.
    natural: bool,
    body: FxHashSet<Block>,
    /// The class of the conditions that decide in which iteration threads leave the loop.
    level: Class,
}

/// The joins and loops of a function, each with the class of the branches that cause divergence there.
#[derive(Clone, Debug)]
pub(super) struct Control {
    loops: Vec<Loop>,
    /// Whether all loops are natural.
    reducible: bool,
    /// Numbers of the loops around each block.
    around: SecondaryMap<Block, Vec<usize>>,
    joins: SecondaryMap<Block, Option<Class>>,
    branches: SecondaryMap<Block, Option<Class>>,
    /// The block that defines each value.
    homes: SecondaryMap<Value, Option<Block>>,
}

/// An edge of the control-flow graph.
type Edge = (Block, Block);

impl Control {
    pub(super) fn new(function: &Function, cfg: &Cfg) -> Control {
        let loops = find_loops(function, cfg);
        let mut around: SecondaryMap<Block, Vec<usize>> = SecondaryMap::default();
        for (number, one) in loops.iter().enumerate() {
            for &block in &one.body {
                around[block].push(number);
            }
        }
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
            reducible: loops.iter().all(|one| one.natural),
            loops,
            around,
            joins: SecondaryMap::default(),
            branches: SecondaryMap::default(),
            homes,
        }
    }

    /// Returns the blocks in loops that contain a `yield` or `nanosleep`.
    pub(super) fn yielding(&self, function: &Function) -> SecondaryMap<Block, bool> {
        let mut yielding: SecondaryMap<Block, bool> = SecondaryMap::default();
        let yields = |&block: &Block| {
            let insts = function.insts(block).iter();
            insts
                .map(|&inst| function.dfg.insts[inst].opcode)
                .any(|opcode| matches!(opcode, Opcode::Yield | Opcode::Nanosleep))
        };
        for one in &self.loops {
            if one.body.iter().any(yields) {
                for &block in &one.body {
                    yielding[block] = true;
                }
            }
        }
        yielding
    }

    /// Returns the class of the branches that decide on which path threads reach a block.
    pub(super) fn join(&self, block: Block) -> Class {
        self.joins[block].unwrap_or(Class::Launch)
    }

    /// Returns the class of the exits of all loops that contain a value's definition but not `block`.
    pub(super) fn leaving(&self, function: &Function, value: Value, block: Block) -> Class {
        debug_assert!(!matches!(
            function.dfg.values[value].def,
            ValueDef::Alias(_) | ValueDef::Pending
        ));
        let Some(home) = self.homes[value] else {
            return Class::Varying;
        };
        let left = self.around[home]
            .iter()
            .map(|&number| &self.loops[number])
            .filter(|one| !one.body.contains(&block));
        left.map(|one| one.level).fold(Class::Launch, Class::max)
    }

    /// Returns whether threads that have reached a block the same number of times are in the same iterations of the
    /// loops around it. This holds if every iteration of each of these loops passes the block, and if all threads
    /// run the same number of iterations of each loop but the outermost.
    pub(super) fn is_converged(&self, cfg: &Cfg, dominators: &Dominators, block: Block) -> bool {
        let around = || self.around[block].iter().map(|&number| &self.loops[number]);
        let passes = |one: &Loop| {
            let latches = cfg.preds(one.header).iter();
            let mut latches = latches.filter(|&latch| one.body.contains(latch));
            latches.all(|&latch| dominators.dominates(cfg, block, latch))
        };
        let outermost = around().map(|one| one.body.len()).max();
        let inner = |one: &Loop| Some(one.body.len()) < outermost;
        self.reducible && around().all(|one| passes(one) && (!inner(one) || one.level.is_uniform()))
    }

    /// Returns the block that defines a value.
    pub(super) fn home(&self, value: Value) -> Option<Block> {
        self.homes[value]
    }

    /// Returns the blocks of the smallest loop around a value's definition.
    pub(super) fn innermost(&self, value: Value) -> Option<&FxHashSet<Block>> {
        let around = &self.around[self.homes[value]?];
        let bodies = around.iter().map(|&number| &self.loops[number].body);
        bodies.min_by_key(|body| body.len())
    }

    /// Records that the branch at the end of `block` is only as uniform as `level`. Returns whether that changed
    /// anything.
    pub(super) fn branch(
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
        let inside = self.around[block].clone();
        let mut work = vec![(edges, inside)];
        let mut changed = false;
        while let Some((edges, inside)) = work.pop() {
            let spread = Spread::run(self, function, cfg, &edges, &inside);
            let (joins, turns) = (spread.joins, spread.turns);
            for join in joins {
                let known = self.joins[join];
                if known.is_none_or(|known| known < level) {
                    self.joins[join] = Some(level);
                    changed = true;
                }
            }
            for (number, labels) in turns {
                if labels.len() > 1 && self.loops[number].level < level {
                    self.loops[number].level = level;
                    changed = true;
                    work.push(self.exits(function, number));
                }
            }
        }
        changed
    }

    /// Returns the edges that leave a loop, and the loops around it.
    fn exits(&self, function: &Function, number: usize) -> (Vec<Edge>, Vec<usize>) {
        let one = &self.loops[number];
        let mut edges: Vec<Edge> = Vec::new();
        for &block in &one.body {
            let calls = function.successors(block).iter();
            let out = calls.filter(|call| !one.body.contains(&call.block));
            edges.extend(out.map(|call| (block, call.block)));
        }
        edges.sort_unstable();
        let around = self.around[one.header].iter().copied();
        (edges, around.filter(|&other| other != number).collect())
    }
}

/// The propagation of labels from the edges on which threads diverge.
struct Spread<'a> {
    control: &'a Control,
    cfg: &'a Cfg,
    /// The loops that contain the sources of the edges.
    inside: &'a [usize],
    labels: FxHashMap<Block, u32>,
    /// The first label that reached each header along a back edge.
    came_back: FxHashMap<Block, u32>,
    next: u32,
    work: BinaryHeap<Reverse<u32>>,
    joins: FxHashSet<Block>,
    /// For each loop the labels that leave it or reach its header again.
    turns: FxHashMap<usize, FxHashSet<u32>>,
}

impl<'a> Spread<'a> {
    /// Propagates a different label along each edge, until only one label is left.
    fn run(
        control: &'a Control,
        function: &Function,
        cfg: &'a Cfg,
        edges: &[Edge],
        inside: &'a [usize],
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
            let outside = |number: &usize| !control.loops[*number].body.contains(&block);
            if spread.work.is_empty() && control.reducible && inside.iter().all(outside) {
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
        for &number in self.inside {
            let one = &self.control.loops[number];
            let leaves = one.body.contains(&from) && !one.body.contains(&to);
            if leaves || to == one.header {
                self.turns.entry(number).or_default().insert(label);
            }
        }
        let (Some(source), Some(target)) = (self.cfg.number(from), self.cfg.number(to)) else {
            return;
        };
        if target <= source {
            // The edge leads back to a header, where the next iteration begins. If another label has reached the
            // header on a forward edge, the header is a second entry of an irreducible loop.
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

/// Returns the loops of a function, one for each target of a retreating edge. If the header dominates the edge's
/// source, the body consists of the blocks that reach the source without passing the header. Otherwise the loop is
/// irreducible, and the body consists of all blocks after the header, in reverse postorder, that reach the source.
fn find_loops(function: &Function, cfg: &Cfg) -> Vec<Loop> {
    let dominators = Dominators::new(cfg);
    let mut loops: Vec<Loop> = Vec::new();
    for (number, &block) in cfg.rpo().iter().enumerate() {
        for call in function.successors(block) {
            let header = call.block;
            let Some(at) = cfg.number(header) else {
                continue;
            };
            if at as usize > number {
                continue;
            }
            let natural = dominators.dominates(cfg, header, block);
            let mut body = FxHashSet::from_iter([header]);
            let mut work = vec![block];
            while let Some(block) = work.pop() {
                if body.insert(block) {
                    let preds = cfg.preds(block).iter().copied();
                    work.extend(preds.filter(|&p| natural || cfg.number(p) >= Some(at)));
                }
            }
            match loops.iter_mut().find(|one| one.header == header) {
                Some(one) => {
                    one.body.extend(body);
                    one.natural &= natural;
                }
                None => loops.push(Loop {
                    header,
                    natural,
                    body,
                    level: Class::Launch,
                }),
            }
        }
    }
    loops
}
