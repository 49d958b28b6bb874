//! An order of blocks in which lanes that took different ways can be run one way after the other.
//!
//! The lanes of a slice go through all blocks in this order under masks. Every edge leads forwards, or
//! back to the header of a loop that holds its source; the blocks of a loop stand together, its header
//! first. Lanes stop at synchronisation points and begin behind them, so loops may be entered at any of
//! their blocks; nothing is assumed of headers but that they come first.
//!
//! The order is that of the whole graph, edges behind points included, although no lane takes those: a
//! loop that lanes leave in different turns must not bring lanes of different turns together in a block,
//! since [`super::Uniformity`] speaks of those that are in the same.

use rustc_hash::FxHashSet;

use crate::analysis::Cfg;
use crate::entity::{Block, SecondaryMap};
use crate::function::Function;
use margay_ops::ops::Opcode;

/// The blocks of a loop: positions `start..end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Position of the header.
    pub start: u32,
    /// Position behind the last block.
    pub end: u32,
}

/// The order.
#[derive(Clone, Debug)]
pub struct Linear {
    /// Whether whole warps run together, so that lanes need not stop to let others catch up.
    whole_warps: bool,
    /// Blocks by position.
    pub order: Vec<Block>,
    /// Loops, outer ones before inner ones.
    pub loops: Vec<Span>,
    position: SecondaryMap<Block, u32>,
}

const NOWHERE: u32 = u32::MAX;

/// Successors of a block that lanes reach without stopping; with `whole_warps`, lanes that run together do
/// not stop for each other.
fn onward(
    function: &Function,
    block: Block,
    whole_warps: bool,
) -> impl Iterator<Item = Block> + '_ {
    let passes = |opcode: Opcode| match opcode {
        Opcode::Yield => true,
        Opcode::Converge => whole_warps,
        _ => false,
    };
    let stops = function
        .insts(block)
        .iter()
        .any(|&inst| function.effects(inst).is_point() && !passes(function.dfg.insts[inst].opcode));
    let calls = if stops {
        &[][..]
    } else {
        function.successors(block)
    };
    calls.iter().map(|call| call.block)
}

impl Linear {
    /// The order of a function's reachable blocks, for lanes of slices or of whole warps.
    pub fn new(function: &Function, cfg: &Cfg, whole_warps: bool) -> Linear {
        let mut linear = Linear {
            whole_warps,
            order: Vec::with_capacity(cfg.rpo().len()),
            loops: Vec::new(),
            position: SecondaryMap::with_default(NOWHERE),
        };
        let all: Vec<Block> = cfg.rpo().to_vec();
        linear.place(function, cfg, all);
        for (position, &block) in linear.order.iter().enumerate() {
            linear.position[block] = position as u32;
        }
        linear
    }

    /// Successors of a block that lanes reach without stopping.
    pub fn onward<'a>(
        &self,
        function: &'a Function,
        block: Block,
    ) -> impl Iterator<Item = Block> + use<'a> {
        onward(function, block, self.whole_warps)
    }

    /// Where a block stands.
    pub fn position(&self, block: Block) -> Option<u32> {
        let position = self.position[block];
        (position != NOWHERE).then_some(position)
    }

    /// The number of the loop whose header stands at a position.
    pub fn loop_at(&self, start: u32) -> Option<usize> {
        self.loops.iter().position(|span| span.start == start)
    }

    /// Appends blocks, components of the graph in topological order, each loop without the edges to its
    /// header.
    fn place(&mut self, function: &Function, cfg: &Cfg, members: Vec<Block>) {
        let mut notes = Notes::default();
        // Work is a stack of lists still to be placed and of loops to be closed.
        enum Task {
            Place(Vec<Block>),
            Close(usize),
        }
        let mut tasks = vec![Task::Place(members)];
        while let Some(task) = tasks.pop() {
            let members = match task {
                Task::Close(number) => {
                    self.loops[number].end = self.order.len() as u32;
                    continue;
                }
                Task::Place(members) => members,
            };
            if let [one] = members[..]
                && !function
                    .successors(one)
                    .iter()
                    .any(|call| call.block == one)
            {
                self.order.push(one);
                continue;
            }
            let components = components(function, &members, &mut notes);
            if let [whole] = &components[..]
                && whole.len() == members.len()
            {
                // A loop: what is reached first is its header.
                let header = members.iter().copied().min_by_key(|&b| cfg.number(b));
                let Some(header) = header else { continue };
                let number = self.loops.len();
                let start = self.order.len() as u32;
                self.loops.push(Span { start, end: start });
                self.order.push(header);
                tasks.push(Task::Close(number));
                let rest: Vec<Block> = members.into_iter().filter(|&b| b != header).collect();
                if !rest.is_empty() {
                    tasks.push(Task::Place(rest));
                }
                continue;
            }
            // The stack takes the last first; components come in reverse topological order.
            tasks.extend(components.into_iter().map(Task::Place));
        }
    }
}

/// What the search notes of blocks. It is kept from one search to the next, so that a search costs as much as the blocks
/// that it is for.
struct Notes {
    index: SecondaryMap<Block, u32>,
    low: SecondaryMap<Block, u32>,
    open: SecondaryMap<Block, bool>,
}

impl Default for Notes {
    fn default() -> Notes {
        Notes {
            index: SecondaryMap::with_default(NOWHERE),
            low: SecondaryMap::default(),
            open: SecondaryMap::default(),
        }
    }
}

/// The strongly connected components of some blocks, each before those that lead to it.
fn components(function: &Function, members: &[Block], notes: &mut Notes) -> Vec<Vec<Block>> {
    for &block in members {
        notes.index[block] = NOWHERE;
    }
    let mut search = Search {
        function,
        inside: members.iter().copied().collect(),
        notes,
        path: Vec::new(),
        next: 0,
        found: Vec::new(),
    };
    for &root in members.iter().rev() {
        if search.notes.index[root] == NOWHERE {
            search.run(root);
        }
    }
    search.found
}

/// Tarjan's search, with a stack of its own.
struct Search<'a> {
    function: &'a Function,
    inside: FxHashSet<Block>,
    notes: &'a mut Notes,
    path: Vec<Block>,
    next: u32,
    found: Vec<Vec<Block>>,
}

impl Search<'_> {
    fn enter(&mut self, block: Block) -> (Block, Vec<Block>) {
        self.notes.index[block] = self.next;
        self.notes.low[block] = self.next;
        self.notes.open[block] = true;
        self.next += 1;
        self.path.push(block);
        let calls = self.function.successors(block).iter();
        let onward = calls
            .map(|call| call.block)
            .filter(|b| self.inside.contains(b));
        (block, onward.collect())
    }

    fn run(&mut self, root: Block) {
        let mut stack = vec![self.enter(root)];
        while let Some((block, rest)) = stack.last_mut() {
            let block = *block;
            match rest.pop() {
                Some(to) if self.notes.index[to] == NOWHERE => {
                    let entered = self.enter(to);
                    stack.push(entered);
                }
                Some(to) if self.notes.open[to] => {
                    self.notes.low[block] = self.notes.low[block].min(self.notes.index[to]);
                }
                Some(_) => {}
                None => {
                    stack.pop();
                    self.close(block);
                    if let Some(&(parent, _)) = stack.last() {
                        self.notes.low[parent] = self.notes.low[parent].min(self.notes.low[block]);
                    }
                }
            }
        }
    }

    fn close(&mut self, block: Block) {
        if self.notes.low[block] != self.notes.index[block] {
            return;
        }
        let mut component = Vec::new();
        while let Some(member) = self.path.pop() {
            self.notes.open[member] = false;
            component.push(member);
            if member == block {
                break;
            }
        }
        self.found.push(component);
    }
}
