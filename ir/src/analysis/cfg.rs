//! Computes the control-flow graph: predecessors and reverse postorder.

use crate::entity::{Block, Entity, SecondaryMap};
use crate::function::Function;

/// The predecessors of blocks and a reverse postorder from the entry block.
#[derive(Clone, Debug)]
pub struct Cfg {
    preds: SecondaryMap<Block, Vec<Block>>,
    rpo: Vec<Block>,
    number: SecondaryMap<Block, u32>,
}

const UNREACHABLE: u32 = u32::MAX;

impl Cfg {
    /// Computes the graph of a function with a body. Unreachable blocks have no number.
    pub fn new(function: &Function) -> Cfg {
        let mut preds: SecondaryMap<Block, Vec<Block>> = SecondaryMap::default();
        let mut postorder = Vec::with_capacity(function.blocks().len());
        let mut seen: SecondaryMap<Block, bool> = SecondaryMap::default();
        let mut stack = vec![(function.entry(), 0usize)];
        seen[function.entry()] = true;
        while let Some((block, next)) = stack.last_mut() {
            let successors = function.successors(*block);
            if let Some(call) = successors.get(*next) {
                *next += 1;
                let (from, to) = (*block, call.block);
                preds[to].push(from);
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
        Cfg {
            preds,
            rpo: postorder,
            number,
        }
    }

    /// Returns the predecessors of a block, one for each edge from a reachable block.
    pub fn preds(&self, block: Block) -> &[Block] {
        // A block without predecessors has the default value, an empty list.
        &self.preds[block]
    }

    /// Returns the reachable blocks in reverse postorder.
    pub fn rpo(&self) -> &[Block] {
        &self.rpo
    }

    /// Returns the position of a block in reverse postorder; `None` if the block is unreachable.
    pub fn number(&self, block: Block) -> Option<u32> {
        let number = self.number[block];
        (number != UNREACHABLE).then_some(number)
    }

    /// Returns whether the block is reachable from the entry block.
    pub fn is_reachable(&self, block: Block) -> bool {
        self.number[block] != UNREACHABLE
    }
}

/// Removes unreachable blocks from the layout, and returns the control-flow graph.
pub fn remove_unreachable(function: &mut Function) -> Cfg {
    let cfg = Cfg::new(function);
    function
        .layout
        .order
        .retain(|&block| cfg.is_reachable(block));
    debug_assert_eq!(
        function.layout.order.first().map(|b| b.index()),
        Some(cfg.rpo[0].index())
    );
    cfg
}
