//! Where threads that took different ways meet, and which loops they leave in different turns.
//!
//! From each branch whose condition is not the same for all threads, labels are sent along its edges
//! in reverse postorder. A block that two labels reach is a *join*: its parameters may be different
//! ones for different threads. Labels that leave a loop, or come back to its header, and are not all
//! one mean that threads leave the *loop in different turns*; then its exits are ways that threads
//! take apart, and labels are sent along them too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Class;
use crate::analysis::{Cfg, Dominators};
use crate::entity::{Block, SecondaryMap, Value};
use crate::function::{Function, ValueDef};
use margay_ops::ops::Opcode;

/// A loop: a header and the blocks from which it is reached again.
#[derive(Clone, Debug)]
struct Loop {
    header: Block,
    /// Whether every way into it leads through the header.
    natural: bool,
    body: FxHashSet<Block>,
    /// How uniformly threads leave it in the same turn.
    level: Class,
}

/// Joins and loops of a function, with how uniform the ways there are.
#[derive(Clone, Debug)]
pub(super) struct Control {
    loops: Vec<Loop>,
    /// Whether all loops are natural.
    reducible: bool,
    /// Numbers of the loops around a block.
    around: SecondaryMap<Block, Vec<usize>>,
    joins: SecondaryMap<Block, Option<Class>>,
    branches: SecondaryMap<Block, Option<Class>>,
    /// Home of each value.
    homes: SecondaryMap<Value, Option<Block>>,
}

/// An edge of the graph.
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

    /// Blocks in a loop that holds a `yield`.
    pub(super) fn yielding(&self, function: &Function) -> SecondaryMap<Block, bool> {
        let mut yielding: SecondaryMap<Block, bool> = SecondaryMap::default();
        let gives_way = |&block: &Block| {
            let insts = function.insts(block).iter();
            insts
                .map(|&inst| function.dfg.insts[inst].opcode)
                .any(|opcode| matches!(opcode, Opcode::Yield | Opcode::Nanosleep))
        };
        for one in &self.loops {
            if one.body.iter().any(gives_way) {
                for &block in &one.body {
                    yielding[block] = true;
                }
            }
        }
        yielding
    }

    /// How uniform the way is by which threads come to a block with its parameters.
    pub(super) fn join(&self, block: Block) -> Class {
        self.joins[block].unwrap_or(Class::Launch)
    }

    /// How uniformly the loops are left that lie between a value's definition and a use in `block`.
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

    /// Whether threads that come to a block equally often are then in the same turns of the loops around it:
    /// a thread that goes on in one of them comes by in each turn, and all take as many turns of the inner ones.
    pub(super) fn in_step(&self, cfg: &Cfg, dominators: &Dominators, block: Block) -> bool {
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

    /// The block that defines a value.
    pub(super) fn home(&self, value: Value) -> Option<Block> {
        self.homes[value]
    }

    /// The blocks of the smallest loop around a value's definition.
    pub(super) fn innermost(&self, value: Value) -> Option<&FxHashSet<Block>> {
        let around = &self.around[self.homes[value]?];
        let bodies = around.iter().map(|&number| &self.loops[number].body);
        bodies.min_by_key(|body| body.len())
    }

    /// Notes that the branch at the end of `block` is as uniform as `level`; whether that changed
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

    /// The edges that leave a loop, and the loops around it.
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

/// Labels on their way from the edges that threads take apart.
struct Spread<'a> {
    control: &'a Control,
    cfg: &'a Cfg,
    /// The loops that the edges' sources are in.
    inside: &'a [usize],
    labels: FxHashMap<Block, u32>,
    /// The first label that came back to a header.
    came_back: FxHashMap<Block, u32>,
    next: u32,
    work: BinaryHeap<Reverse<u32>>,
    joins: FxHashSet<Block>,
    /// Labels that leave a loop or come back to its header.
    turns: FxHashMap<usize, FxHashSet<u32>>,
}

impl<'a> Spread<'a> {
    /// Sends a label of its own along each edge, as far as there is more than one.
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
                // All ways have met, and no loop is left to come round.
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
            // Back to a header, where the next turn begins. One that was reached forwards too, with
            // another label, is the second entry of an irreducible loop.
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

/// The loops of a function: one for each target of a retreating edge. A block is in one if the header
/// dominates the edge's source and the block reaches it; where the header does not dominate it, all
/// blocks behind the header that reach the source count.
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
