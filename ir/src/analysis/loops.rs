//! Finds the loops of a function and their nesting.
//!
//! The header of a loop is the target of an edge that goes backwards in reverse postorder. The loop
//! consists of the header and of each block from which a path leads to such an edge, if no block of
//! the path comes before the header in reverse postorder. Two loops either have no block in common,
//! or one of them contains the other. A loop that is entered only at its header is *natural*.
//!
//! The search visits every edge once (Havlak: "Nesting of Reducible and Irreducible Loops", with Ramalingam's treatment
//! of irreducible loops: "Identifying Loops in Almost Linear Time"). The search goes through the
//! blocks from the last to the first. When it finds a loop, it replaces the blocks of the loop by
//! the loop's header. An edge that does not go backwards is considered when the search reaches the
//! closest common ancestor of its two blocks in the depth-first tree, because a loop contains both
//! blocks only if its header is that ancestor or an ancestor of it.
//!
//! Invariant: the memory of the analysis is proportional to the number of blocks and edges. The time is, too, apart
//! from at most a logarithmic factor for the disjoint sets. Neither depends on the nesting depth.

use crate::analysis::Cfg;
use crate::body::Body;
use crate::entity::{Block, SecondaryMap};

/// The blocks of a loop, which are at the positions `start..end` of [`Loops::order`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The position of the loop's header, its first block.
    pub start: u32,
    /// The position after the loop's last block.
    pub end: u32,
}

impl Span {
    /// Returns whether the block at a position of [`Loops::order`] is in the loop.
    pub fn contains(self, position: u32) -> bool {
        (self.start..self.end).contains(&position)
    }
}

/// The loops of a function, and an order of the reachable blocks in which the blocks of each loop are contiguous, with
/// the header first. In this order every edge leads either forwards, or back to the header of a loop that contains the
/// edge's source.
#[derive(Clone, Debug)]
pub struct Loops {
    /// The reachable blocks, in an order in which the blocks of each loop are contiguous.
    pub order: Vec<Block>,
    /// The loops, sorted by the positions of their headers; outer loops therefore come before inner loops.
    pub loops: Vec<Span>,
    position: SecondaryMap<Block, u32>,
    /// For each loop, the index of the innermost loop that contains it, or `None` for an outermost
    /// loop.
    outer: Vec<Option<u32>>,
    /// For each position of `order`, the index of the innermost loop that contains the block at
    /// this position.
    innermost: Vec<Option<u32>>,
}

const NOWHERE: u32 = u32::MAX;

impl Loops {
    /// Finds the loops of a function, which must have a body.
    pub fn new(function: &impl Body, cfg: &Cfg) -> Loops {
        let graph = Graph::new(function, cfg);
        let (around, is_header) = graph.nest();
        let mut loops = Loops {
            order: Vec::with_capacity(cfg.rpo().len()),
            loops: Vec::new(),
            position: SecondaryMap::with_default(NOWHERE),
            outer: Vec::new(),
            innermost: Vec::with_capacity(cfg.rpo().len()),
        };
        loops.place(cfg, &around, &is_header);
        loops
    }

    /// Computes `order`, and the positions of each loop in this order. For each block, `around`
    /// contains the header of the innermost loop that contains the block; for a header, this is the
    /// header of the loop around its own loop. Blocks are numbered in reverse postorder.
    fn place(&mut self, cfg: &Cfg, around: &[u32], is_header: &[bool]) {
        let count = around.len();
        // For each loop, a list that is linked through `next` contains the blocks and loops directly inside it. One
        // additional list, the last, contains the blocks and loops that are in no loop.
        let mut first = vec![NOWHERE; count + 1];
        let mut next = vec![NOWHERE; count];
        for number in (0..count).rev() {
            let list = match around[number] {
                NOWHERE => count,
                header => header as usize,
            };
            next[number] = first[list];
            first[list] = number as u32;
        }
        let mut at = first[count];
        let mut open: Vec<(u32, u32)> = Vec::new();
        loop {
            if at == NOWHERE {
                let Some((number, after)) = open.pop() else {
                    break;
                };
                self.loops[number as usize].end = self.order.len() as u32;
                at = after;
                continue;
            }
            let (here, after) = (at as usize, next[at as usize]);
            let block = cfg.rpo()[here];
            let start = self.order.len() as u32;
            self.position[block] = start;
            self.order.push(block);
            at = after;
            if is_header[here] {
                let number = self.loops.len() as u32;
                self.loops.push(Span { start, end: start });
                self.outer.push(open.last().map(|&(outer, _)| outer));
                open.push((number, after));
                at = first[here];
            }
            self.innermost.push(open.last().map(|&(number, _)| number));
        }
    }

    /// Returns the position of a block in [`Loops::order`], or `None` if the block is unreachable.
    pub fn position(&self, block: Block) -> Option<u32> {
        let position = self.position[block];
        (position != NOWHERE).then_some(position)
    }

    /// Returns the index of the loop whose header is at the position `start` of [`Loops::order`],
    /// or `None` if there is no such loop.
    pub fn loop_at(&self, start: u32) -> Option<usize> {
        let number = (*self.innermost.get(start as usize)?)? as usize;
        (self.loops[number].start == start).then_some(number)
    }

    /// Returns the index of the loop whose header is `block`, or `None` if there is no such loop.
    pub fn headed_by(&self, block: Block) -> Option<usize> {
        self.loop_at(self.position(block)?)
    }

    /// Returns the index of the innermost loop that contains `block`, or `None` if no loop contains
    /// it.
    pub fn innermost(&self, block: Block) -> Option<usize> {
        let position = self.position(block)? as usize;
        self.innermost[position].map(|number| number as usize)
    }

    /// Returns the index of the innermost loop that contains the loop with index `number`, or
    /// `None` if no loop contains it.
    pub fn outer(&self, number: usize) -> Option<usize> {
        self.outer[number].map(|number| number as usize)
    }

    /// Returns the index `innermost` and the indices of all loops that contain this loop, from the
    /// innermost to the outermost. For `None`, returns no indices.
    pub fn and_around(&self, innermost: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(innermost, |&number| self.outer(number))
    }

    /// Returns the indices of the loops that contain `block` but not `other`, from the innermost to the outermost.
    pub fn around_only(&self, block: Block, other: Block) -> impl Iterator<Item = usize> + '_ {
        let all = self.and_around(self.innermost(block));
        all.take_while(move |&number| !self.contains(number, other))
    }

    /// Returns whether `block` is in the loop with index `number`.
    pub fn contains(&self, number: usize, block: Block) -> bool {
        self.loops[number].contains(self.position[block])
    }

    /// Returns the header of the loop with index `number`.
    pub fn header(&self, number: usize) -> Block {
        self.order[self.loops[number].start as usize]
    }

    /// Returns the blocks of the loop with index `number`; the header is the first.
    pub fn body(&self, number: usize) -> &[Block] {
        let Span { start, end } = self.loops[number];
        &self.order[start as usize..end as usize]
    }
}

/// The edges of a control-flow graph. Blocks are numbered in reverse postorder.
struct Graph {
    /// For each block, the sources of the edges to it that go backwards in reverse postorder.
    back: Vec<Vec<u32>>,
    /// All edges that do not go backwards. An edge is in the list of the closest common ancestor,
    /// in the depth-first tree, of its two blocks.
    forth: Vec<Vec<(u32, u32)>>,
}

impl Graph {
    /// Collects the edges with a depth-first search that visits the blocks in the same order as [`Cfg::new`].
    fn new(function: &impl Body, cfg: &Cfg) -> Graph {
        let count = cfg.rpo().len();
        let mut graph = Graph {
            back: vec![Vec::new(); count],
            forth: vec![Vec::new(); count],
        };
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Closed,
        }
        let mut state = vec![State::New; count];
        // A block is open while the search is inside its subtree of the depth-first tree, and closed afterwards. The
        // search merges a closed block into its parent in the tree, so every set contains at most one open block.
        let mut sets = Sets::new(count);
        let mut stack: Vec<(u32, usize)> = Vec::new();
        if count > 0 {
            state[0] = State::Open;
            stack.push((0, 0));
        }
        while let Some((from, next)) = stack.last_mut() {
            let here = *from;
            let successors = function.successors(cfg.rpo()[here as usize]);
            let Some(call) = successors.get(*next) else {
                stack.pop();
                state[here as usize] = State::Closed;
                if let Some(&(parent, _)) = stack.last() {
                    sets.merge(here, parent);
                }
                continue;
            };
            *next += 1;
            let Some(to) = cfg.number(call.block) else {
                continue;
            };
            match state[to as usize] {
                State::New => {
                    graph.forth[here as usize].push((here, to));
                    state[to as usize] = State::Open;
                    stack.push((to, 0));
                }
                State::Open => graph.back[to as usize].push(here),
                State::Closed => {
                    let ancestor = sets.find(to);
                    graph.forth[ancestor as usize].push((here, to));
                }
            }
        }
        graph
    }

    /// Returns two tables. For each block, the first table contains the header of the innermost loop that contains the
    /// block; for a header, this is the header of the loop around its own loop. The second table states which blocks
    /// are headers.
    fn nest(&self) -> (Vec<u32>, Vec<bool>) {
        let count = self.back.len();
        let mut around = vec![NOWHERE; count];
        let mut is_header = vec![false; count];
        // A set contains either a single block or all blocks of a loop; the header represents the loop.
        let mut sets = Sets::new(count);
        let mut preds: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut work: Vec<u32> = Vec::new();
        for header in (0..count as u32).rev() {
            let here = header as usize;
            for &(from, to) in &self.forth[here] {
                preds[sets.find(to) as usize].push(from);
            }
            if self.back[here].is_empty() {
                continue;
            }
            is_header[here] = true;
            work.extend_from_slice(&self.back[here]);
            while let Some(from) = work.pop() {
                let member = sets.find(from);
                if member != header {
                    around[member as usize] = header;
                    sets.merge(member, header);
                    work.append(&mut preds[member as usize]);
                }
            }
        }
        (around, is_header)
    }
}

/// Disjoint sets of numbers. One number of each set represents the set.
struct Sets(Vec<u32>);

impl Sets {
    fn new(count: usize) -> Sets {
        Sets((0..count as u32).collect())
    }

    fn find(&mut self, mut number: u32) -> u32 {
        loop {
            let up = self.0[number as usize];
            if up == number {
                return number;
            }
            self.0[number as usize] = self.0[up as usize];
            number = up;
        }
    }

    /// Merges the set that `number` represents into the set that `into` represents.
    fn merge(&mut self, number: u32, into: u32) {
        self.0[number as usize] = into;
    }
}
