//! Computes the control-flow graph of a function: the predecessors of the blocks, and a reverse
//! postorder.

use crate::body::Body;
use crate::entity::{Block, Entity, SecondaryMap};
use crate::function::{BlockCall, Function};

/// The predecessors of a function's blocks, and a reverse postorder of the blocks from the entry
/// block.
#[derive(Clone, Debug)]
pub struct Cfg {
    /// The predecessors of all blocks, one after another, with one entry for each edge.
    preds: Vec<Block>,
    /// For each entry of `preds`, which is one edge, the index of this edge in the predecessor's
    /// list of successors.
    edges: Vec<u32>,
    /// For each block, the start and the end of the range in `preds` and `edges` that contains the
    /// edges to the block.
    parts: SecondaryMap<Block, (u32, u32)>,
    rpo: Vec<Block>,
    number: SecondaryMap<Block, u32>,
}

const UNREACHABLE: u32 = u32::MAX;

impl Cfg {
    /// Computes the control-flow graph of a function, which must have a body. The graph does not
    /// contain unreachable blocks.
    pub fn new(function: &impl Body) -> Cfg {
        let count = function.blocks().len();
        Cfg::of(function.entry(), count, |block, index| {
            let call = function.successors(block).get(index)?;
            Some(call.block)
        })
    }

    /// Returns the graph with the edges reversed. Its entry is a new block, which is not in `function`; edges lead from
    /// it to all blocks without successors. The graph does not contain the blocks from which no path leads to such a
    /// block. [`Cfg::incoming`] must not be called for this graph.
    pub fn reversed(&self, function: &Function) -> Cfg {
        let exit = Block::new(function.dfg.blocks.len());
        let is_end = |block: &Block| function.successors(*block).is_empty();
        let ends: Vec<Block> = self.rpo.iter().copied().filter(is_end).collect();
        Cfg::of(exit, self.rpo.len() + 1, |block, index| {
            let successors = match block == exit {
                true => &ends,
                false => self.preds(block),
            };
            successors.get(index).copied()
        })
    }

    /// Computes the graph of the blocks that are reachable from `entry`. `successor` returns the successor of a block
    /// with an index. The graph has about `count` blocks.
    pub fn of(
        entry: Block,
        count: usize,
        successor: impl Fn(Block, usize) -> Option<Block>,
    ) -> Cfg {
        // The edges in the order of the search: target, source, and index in the source's list of successors.
        let mut found: Vec<(Block, Block, u32)> = Vec::with_capacity(2 * count);
        let mut parts: SecondaryMap<Block, (u32, u32)> = SecondaryMap::default();
        let mut postorder = Vec::with_capacity(count);
        let mut seen: SecondaryMap<Block, bool> = SecondaryMap::default();
        let mut stack = vec![(entry, 0usize)];
        seen[entry] = true;
        while let Some((block, next)) = stack.last_mut() {
            if let Some(to) = successor(*block, *next) {
                found.push((to, *block, *next as u32));
                parts[to].1 += 1;
                *next += 1;
                if !seen[to] {
                    seen[to] = true;
                    stack.push((to, 0));
                }
            } else {
                postorder.push(*block);
                stack.pop();
            }
        }
        postorder.reverse();
        let mut number = SecondaryMap::with_default(UNREACHABLE);
        for (i, &block) in postorder.iter().enumerate() {
            number[block] = i as u32;
        }
        let mut start = 0;
        for &block in &postorder {
            let count = parts[block].1;
            parts[block] = (start, start);
            start += count;
        }
        let mut preds = vec![entry; found.len()];
        let mut edges = vec![0; found.len()];
        for (to, from, edge) in found {
            let at = parts[to].1 as usize;
            parts[to].1 += 1;
            preds[at] = from;
            edges[at] = edge;
        }
        Cfg {
            preds,
            edges,
            parts,
            rpo: postorder,
            number,
        }
    }

    /// Returns the reachable blocks in the order of the program, in which sync points are numbered.
    /// If the function's list of blocks is in the order of the program, the result has the order of
    /// this list. Otherwise, the result is in reverse postorder.
    pub fn program_order<'a>(&'a self, function: &'a Function) -> impl Iterator<Item = Block> + 'a {
        let order = match function.layout.in_program_order {
            true => function.blocks(),
            false => self.rpo(),
        };
        let order = order.iter().copied();
        order.filter(|&block| self.is_reachable(block))
    }

    /// Returns the predecessors of a block, one for each edge from a reachable block.
    pub fn preds(&self, block: Block) -> &[Block] {
        let (start, end) = self.parts[block];
        &self.preds[start as usize..end as usize]
    }

    /// Returns the edges from reachable blocks to `block`. An edge is represented by its source
    /// block and by the branch target in the source block. The branches of `function` must not have
    /// changed since the call of [`Cfg::new`].
    pub fn incoming<'a>(
        &'a self,
        function: &'a impl Body,
        block: Block,
    ) -> impl Iterator<Item = (Block, &'a BlockCall)> + Clone + 'a {
        let (start, end) = self.parts[block];
        let edges = &self.edges[start as usize..end as usize];
        self.preds(block)
            .iter()
            .zip(edges)
            .filter_map(move |(&pred, &edge)| {
                let call = function.successors(pred).get(edge as usize)?;
                Some((pred, call))
            })
    }

    /// Returns the reachable blocks in reverse postorder.
    pub fn rpo(&self) -> &[Block] {
        &self.rpo
    }

    /// Returns the position of a block in reverse postorder, or `None` if the block is unreachable.
    pub fn number(&self, block: Block) -> Option<u32> {
        let number = self.number[block];
        (number != UNREACHABLE).then_some(number)
    }

    /// Returns whether the block is reachable from the entry block.
    pub fn is_reachable(&self, block: Block) -> bool {
        self.number[block] != UNREACHABLE
    }
}

/// Removes unreachable blocks from the function's list of blocks, and returns the control-flow
/// graph.
pub fn remove_unreachable(function: &mut impl Body) -> Cfg {
    let cfg = Cfg::new(function);
    function
        .blocks_mut()
        .retain(|&block| cfg.is_reachable(block));
    debug_assert_eq!(
        function.blocks().first().map(|b| b.index()),
        Some(cfg.rpo[0].index())
    );
    cfg
}
