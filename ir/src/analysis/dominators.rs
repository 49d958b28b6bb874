//! Computes the dominator tree (Lengauer, Tarjan: "A Fast Algorithm for Finding Dominators in a Flowgraph"; this is the
//! simple variant, without balanced trees). For `n` blocks and `m` edges, the time is O(m log n).

use crate::analysis::Cfg;
use crate::entity::Block;

/// The dominator tree of a function's reachable blocks.
#[derive(Clone, Debug)]
pub struct Dominators {
    /// For each block, its immediate dominator. Both blocks are represented by their positions in
    /// reverse postorder. The entry block is its own immediate dominator.
    idom: Vec<u32>,
    /// For each block, the step numbers (times) at which a depth-first walk over the tree enters
    /// and leaves the block. With these numbers, [`Dominators::dominates`] takes constant time.
    span: Vec<(u32, u32)>,
}

/// A range of step numbers (times) of a depth-first walk over the dominator tree. It represents the
/// blocks that the walk visits in these steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent(u32, u32);

impl Extent {
    /// Returns the smallest range that contains `self` and `other`.
    pub fn and(self, other: Extent) -> Extent {
        Extent(self.0.min(other.0), self.1.max(other.1))
    }
}

impl Dominators {
    /// Computes the dominator tree of a control-flow graph.
    pub fn new(cfg: &Cfg) -> Dominators {
        let idom = immediate_dominators(cfg);
        let span = tree_spans(&idom);
        Dominators { idom, span }
    }

    /// Returns the immediate dominator of a block, or `None` for the entry block and for
    /// unreachable blocks.
    pub fn idom(&self, cfg: &Cfg, block: Block) -> Option<Block> {
        let number = cfg.number(block)? as usize;
        (number != 0).then(|| cfg.rpo()[self.idom[number] as usize])
    }

    /// Returns the reachable blocks in the order in which a depth-first walk over the dominator tree enters them.
    pub fn preorder(&self, cfg: &Cfg) -> Vec<Block> {
        let mut numbers: Vec<usize> = (0..self.span.len()).collect();
        numbers.sort_unstable_by_key(|&number| self.span[number].0);
        numbers.iter().map(|&number| cfg.rpo()[number]).collect()
    }

    /// Returns whether `a` dominates `b`. Every reachable block dominates itself. If `a` or `b` is
    /// unreachable, returns false.
    pub fn dominates(&self, cfg: &Cfg, a: Block, b: Block) -> bool {
        let (Some(a), Some(b)) = (cfg.number(a), cfg.number(b)) else {
            return false;
        };
        let (a, b) = (self.span[a as usize], self.span[b as usize]);
        a.0 <= b.0 && b.1 <= a.1
    }

    /// Returns the range of steps from entering a block to leaving it in the depth-first walk over
    /// the dominator tree, or `None` if the block is unreachable.
    pub fn extent(&self, cfg: &Cfg, block: Block) -> Option<Extent> {
        let (first, last) = self.span[cfg.number(block)? as usize];
        Some(Extent(first, last))
    }

    /// Returns whether `block` dominates all blocks that `blocks` represents.
    pub fn dominates_all(&self, cfg: &Cfg, block: Block, blocks: Extent) -> bool {
        let here = self.extent(cfg, block);
        here.is_some_and(|here| here.and(blocks) == here)
    }
}

const NONE: u32 = u32::MAX;

/// Returns, for each block, its immediate dominator. Both blocks are represented by their positions
/// in reverse postorder.
fn immediate_dominators(cfg: &Cfg) -> Vec<u32> {
    let count = cfg.rpo().len();
    let search = Search::new(cfg);
    let mut forest = Forest {
        ancestor: vec![NONE; count],
        label: (0..count as u32).collect(),
        semi: (0..count as u32).collect(),
        path: Vec::new(),
    };
    // From here on, blocks are numbered in the order of the search. A list that is linked through `next` contains all
    // blocks with the same semidominator.
    let mut idom = vec![0u32; count];
    let mut first = vec![NONE; count];
    let mut next = vec![NONE; count];
    for here in (1..count).rev() {
        let block = cfg.rpo()[search.order[here] as usize];
        for pred in cfg.preds(block).iter().filter_map(|&pred| cfg.number(pred)) {
            let best = forest.best(search.number[pred as usize]);
            forest.semi[here] = forest.semi[here].min(forest.semi[best as usize]);
        }
        let semi = forest.semi[here] as usize;
        next[here] = first[semi];
        first[semi] = here as u32;
        let parent = search.parent[here];
        forest.ancestor[here] = parent;
        let mut other = std::mem::replace(&mut first[parent as usize], NONE);
        while other != NONE {
            let best = forest.best(other);
            let at = other as usize;
            let is_less = forest.semi[best as usize] < forest.semi[at];
            idom[at] = if is_less { best } else { parent };
            other = next[at];
        }
    }
    for here in 1..count {
        if idom[here] != forest.semi[here] {
            idom[here] = idom[idom[here] as usize];
        }
    }
    let mut by_position = vec![0; count];
    for here in 1..count {
        by_position[search.order[here] as usize] = search.order[idom[here] as usize];
    }
    by_position
}

/// The result of a depth-first search of the control-flow graph. The tables use two indices for a
/// block: its position in reverse postorder, and its *number*, which is its position in the order
/// of the search.
struct Search {
    /// For each number, the position in reverse postorder of the block with this number.
    order: Vec<u32>,
    /// For each position in reverse postorder, the number of the block at this position.
    number: Vec<u32>,
    /// For each number, the number of the block's parent in the tree of the search.
    parent: Vec<u32>,
}

impl Search {
    fn new(cfg: &Cfg) -> Search {
        let count = cfg.rpo().len();
        let sources = |block| cfg.preds(block).iter().filter_map(|&pred| cfg.number(pred));
        // The targets of the edges from block `n` are between positions `starts[n]` and `starts[n + 1]`.
        let mut starts = vec![0usize; count + 2];
        for source in cfg.rpo().iter().flat_map(|&block| sources(block)) {
            starts[source as usize + 2] += 1;
        }
        for block in 2..starts.len() {
            starts[block] += starts[block - 1];
        }
        let mut targets = vec![0u32; starts[count + 1]];
        for (target, &block) in (0u32..).zip(cfg.rpo()) {
            for source in sources(block) {
                let start = &mut starts[source as usize + 1];
                targets[*start] = target;
                *start += 1;
            }
        }
        let mut search = Search {
            order: Vec::with_capacity(count),
            number: vec![NONE; count],
            parent: Vec::with_capacity(count),
        };
        let mut stack: Vec<(u32, usize)> = Vec::new();
        search.enter(0, 0);
        stack.push((0, starts[0]));
        while let Some((block, next)) = stack.last_mut() {
            let here = *block as usize;
            if *next == starts[here + 1] {
                stack.pop();
                continue;
            }
            let target = targets[*next];
            *next += 1;
            if search.number[target as usize] == NONE {
                search.enter(target, search.number[here]);
                stack.push((target, starts[target as usize]));
            }
        }
        search
    }

    fn enter(&mut self, block: u32, parent: u32) {
        self.number[block as usize] = self.order.len() as u32;
        self.order.push(block);
        self.parent.push(parent);
    }
}

/// The part of the search's tree that the algorithm has visited until now. This part is a set of
/// trees.
struct Forest {
    /// For each block, a visited ancestor: the parent or, after path compression, a block nearer to the root of the
    /// block's tree. It is [`NONE`] for the root of a tree.
    ancestor: Vec<u32>,
    /// For each block, the block with the least semidominator on the path from the block to
    /// `ancestor`.
    label: Vec<u32>,
    semi: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    /// Returns the block with the least semidominator on the path from `block` to the root of its tree. The path does
    /// not include the root. Returns `block` itself if `block` is a root.
    fn best(&mut self, block: u32) -> u32 {
        let mut up = block as usize;
        while self.ancestor[up] != NONE && self.ancestor[self.ancestor[up] as usize] != NONE {
            self.path.push(up as u32);
            up = self.ancestor[up] as usize;
        }
        while let Some(below) = self.path.pop() {
            let below = below as usize;
            let above = self.ancestor[below] as usize;
            let (here, there) = (self.label[below], self.label[above]);
            if self.semi[there as usize] < self.semi[here as usize] {
                self.label[below] = there;
            }
            self.ancestor[below] = self.ancestor[above];
        }
        self.label[block as usize]
    }
}

fn tree_spans(idom: &[u32]) -> Vec<(u32, u32)> {
    let mut children = vec![Vec::new(); idom.len()];
    for (node, &parent) in idom.iter().enumerate().skip(1) {
        children[parent as usize].push(node as u32);
    }
    let mut span = vec![(0, 0); idom.len()];
    let mut time = 0;
    let mut stack = vec![(0u32, 0usize)];
    while let Some((node, next)) = stack.last_mut() {
        let here = *node as usize;
        if *next == 0 {
            span[here].0 = time;
            time += 1;
        }
        if let Some(&child) = children[here].get(*next) {
            *next += 1;
            stack.push((child, 0));
        } else {
            span[here].1 = time;
            time += 1;
            stack.pop();
        }
    }
    span
}
