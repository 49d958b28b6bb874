//! Computes an order of blocks in which diverged lanes can run, one path after the other.
//!
//! The lanes of a chunk pass all blocks in this order under masks. Every edge leads forwards, or back to the header
//! of a loop that contains the edge's source. The blocks of a loop are contiguous, with the header first. Lanes
//! stop at sync points and resume after them, so lanes may enter a loop at any of its blocks. The only property of
//! a header is that it comes first.
//!
//! The order covers the whole graph, including the edges after sync points, which no lane follows without stopping.
//! If lanes leave a loop in different iterations, lanes of different iterations must not meet in a block, because
//! [`super::Uniformity`] describes lanes of the same iteration.

use rustc_hash::FxHashSet;

use crate::analysis::Cfg;
use crate::entity::{Block, SecondaryMap};
use crate::function::Function;
use margay_ops::ops::Opcode;

/// The blocks of a loop: positions `start..end` in the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Position of the header.
    pub start: u32,
    /// Position after the last block.
    pub end: u32,
}

/// The order of the blocks and its loops.
#[derive(Clone, Debug)]
pub struct Linear {
    /// Whether all lanes of a warp run together, so that lanes do not stop at `converge`.
    whole_warps: bool,
    /// The blocks in order.
    pub order: Vec<Block>,
    /// The loops; outer loops come before inner loops.
    pub loops: Vec<Span>,
    position: SecondaryMap<Block, u32>,
}

const NOWHERE: u32 = u32::MAX;

/// Returns the successors of a block that lanes reach without stopping at a sync point. Lanes do not stop at
/// `yield`, and with `whole_warps` they do not stop at `converge` either.
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
    let stops = function.insts(block).iter().any(|&inst| {
        function.effects(inst).is_sync_point() && !passes(function.dfg.insts[inst].opcode)
    });
    let calls = if stops {
        &[][..]
    } else {
        function.successors(block)
    };
    calls.iter().map(|call| call.block)
}

impl Linear {
    /// Computes the order of a function's reachable blocks. `whole_warps` states whether all lanes of a warp run
    /// together, or only those of a chunk.
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

    /// Returns the successors of a block that lanes reach without stopping at a sync point.
    pub fn onward<'a>(
        &self,
        function: &'a Function,
        block: Block,
    ) -> impl Iterator<Item = Block> + use<'a> {
        onward(function, block, self.whole_warps)
    }

    /// Returns the position of a block in the order.
    pub fn position(&self, block: Block) -> Option<u32> {
        let position = self.position[block];
        (position != NOWHERE).then_some(position)
    }

    /// Returns the number of the loop whose header is at a position.
    pub fn loop_at(&self, start: u32) -> Option<usize> {
        self.loops.iter().position(|span| span.start == start)
    }

    /// Appends blocks to the order: the strongly connected components in topological order, and inside each loop
    /// again, without the edges to its header.
    fn place(&mut self, function: &Function, cfg: &Cfg, members: Vec<Block>) {
        let mut notes = Notes::default();
        // The stack holds lists of blocks to place, and loops whose end is to be recorded.
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
                // The members are a loop. The header is the block that comes first in reverse postorder.
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
            // `components` returns reverse topological order, and the stack reverses it again.
            tasks.extend(components.into_iter().map(Task::Place));
        }
    }
}

/// The search state of each block. It is reused by the next search, so that the cost of a search depends only on
/// the number of blocks searched.
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

/// Returns the strongly connected components of some blocks. Each component comes before the components with edges
/// to it.
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

/// Tarjan's search with an explicit stack instead of recursion.
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
