//! An order of blocks in which lanes that took different ways can be run one way after the other.
//!
//! The lanes of a slice go through all blocks in this order under masks. Every edge leads forwards, or
//! back to the header of a loop that holds its source; the blocks of a loop stand together, its header
//! first. Edges behind synchronisation points count, though lanes stop there: a block that a loop goes through
//! only by a point is in the loop, and its turn comes before the loop goes round, while the values that its lanes
//! save are those of their turn. Loops may be entered at any of their blocks (behind a point, for instance), so
//! nothing is assumed of headers but that they come first.

use rustc_hash::FxHashSet;

use crate::analysis::Cfg;
use crate::entity::{Block, SecondaryMap};
use crate::function::Function;
use crate::ops::Opcode;

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
    /// Blocks by position.
    pub order: Vec<Block>,
    /// Loops, outer ones before inner ones.
    pub loops: Vec<Span>,
    position: SecondaryMap<Block, u32>,
}

const NOWHERE: u32 = u32::MAX;

/// Successors of a block that lanes reach without stopping.
pub fn onward(function: &Function, block: Block) -> impl Iterator<Item = Block> + '_ {
    let stops = function.insts(block).iter().any(|&inst| {
        function.effects(inst).is_point() && function.dfg.insts[inst].opcode != Opcode::Yield
    });
    let calls = if stops {
        &[][..]
    } else {
        function.successors(block)
    };
    calls.iter().map(|call| call.block)
}

/// Successors of a block, also those that lie behind a point.
fn successors(function: &Function, block: Block) -> impl Iterator<Item = Block> + '_ {
    function.successors(block).iter().map(|call| call.block)
}

impl Linear {
    /// The order of a function's reachable blocks.
    pub fn new(function: &Function, cfg: &Cfg) -> Linear {
        let mut linear = Linear {
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
                && !successors(function, one).any(|next| next == one)
            {
                self.order.push(one);
                continue;
            }
            let components = components(function, &members);
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

/// The strongly connected components of some blocks, each before those that lead to it.
fn components(function: &Function, members: &[Block]) -> Vec<Vec<Block>> {
    let mut search = Search {
        function,
        inside: members.iter().copied().collect(),
        index: SecondaryMap::with_default(NOWHERE),
        low: SecondaryMap::default(),
        open: SecondaryMap::default(),
        path: Vec::new(),
        next: 0,
        found: Vec::new(),
    };
    for &root in members.iter().rev() {
        if search.index[root] == NOWHERE {
            search.run(root);
        }
    }
    search.found
}

/// Tarjan's search, with a stack of its own.
struct Search<'a> {
    function: &'a Function,
    inside: FxHashSet<Block>,
    index: SecondaryMap<Block, u32>,
    low: SecondaryMap<Block, u32>,
    open: SecondaryMap<Block, bool>,
    path: Vec<Block>,
    next: u32,
    found: Vec<Vec<Block>>,
}

impl Search<'_> {
    fn enter(&mut self, block: Block) -> (Block, Vec<Block>) {
        self.index[block] = self.next;
        self.low[block] = self.next;
        self.open[block] = true;
        self.next += 1;
        self.path.push(block);
        let within = successors(self.function, block).filter(|b| self.inside.contains(b));
        (block, within.collect())
    }

    fn run(&mut self, root: Block) {
        let mut stack = vec![self.enter(root)];
        while let Some((block, rest)) = stack.last_mut() {
            let block = *block;
            match rest.pop() {
                Some(to) if self.index[to] == NOWHERE => {
                    let entered = self.enter(to);
                    stack.push(entered);
                }
                Some(to) if self.open[to] => {
                    self.low[block] = self.low[block].min(self.index[to]);
                }
                Some(_) => {}
                None => {
                    stack.pop();
                    self.close(block);
                    if let Some(&(parent, _)) = stack.last() {
                        self.low[parent] = self.low[parent].min(self.low[block]);
                    }
                }
            }
        }
    }

    fn close(&mut self, block: Block) {
        if self.low[block] != self.index[block] {
            return;
        }
        let mut component = Vec::new();
        while let Some(member) = self.path.pop() {
            self.open[member] = false;
            component.push(member);
            if member == block {
                break;
            }
        }
        self.found.push(component);
    }
}
