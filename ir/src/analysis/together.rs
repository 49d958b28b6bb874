//! Decides whether all threads of a CTA reach the sync points of a kernel together.
//!
//! Consider each branch that threads of the CTA can take differently, and its immediate post-dominator, which is the
//! block where the paths from the branch meet again. The threads reach the sync points together if no sync point is
//! between a branch and this block. If a thread can exit between the branch and this block, all sync points that other
//! threads can still reach count as being between the two.

use crate::analysis::Cfg;
use crate::analysis::uniformity::{Class, Uniformity};
use crate::entity::{Block, SecondaryMap};
use crate::function::Function;

/// A set of blocks, by their number in reverse postorder.
type BlockSet = Vec<u64>;

/// Considers the blocks for which `synchronises` is true. Returns whether all threads of a CTA
/// reach each of these blocks together. Returns false if the analysis cannot prove this.
pub fn meet_at(
    function: &Function,
    cfg: &Cfg,
    uniformity: &Uniformity,
    synchronises: impl Fn(Block) -> bool,
) -> bool {
    let Some(after) = post_dominators(function, cfg) else {
        return false;
    };
    let mut blocks = cfg.rpo().iter();
    blocks.all(|&block| {
        uniformity.branch(function, block) <= Class::Cta
            || !apart(function, cfg, &after, block)
                .into_iter()
                .any(&synchronises)
    })
}

/// Returns the blocks that threads may execute between the end of `block` and its immediate post-dominator.
fn apart(function: &Function, cfg: &Cfg, after: &[BlockSet], block: Block) -> Vec<Block> {
    let own = cfg.number(block).map_or(0, |number| number as usize);
    let meets = |other: u32| {
        other as usize != own && after[own][other as usize / 64] >> (other % 64) & 1 != 0
    };
    let mut seen: SecondaryMap<Block, bool> = SecondaryMap::default();
    let mut found = Vec::new();
    let mut work = vec![block];
    while let Some(from) = work.pop() {
        for call in function.successors(from) {
            let stops = cfg.number(call.block).is_some_and(meets);
            if !stops && !std::mem::replace(&mut seen[call.block], true) {
                found.push(call.block);
                work.push(call.block);
            }
        }
    }
    found
}

/// Returns, for each block, the blocks that all paths from this block to an end of the function visit, including the
/// block itself. Returns `None` if a block does not reach an end.
fn post_dominators(function: &Function, cfg: &Cfg) -> Option<Vec<BlockSet>> {
    let count = cfg.rpo().len();
    let words = count.div_ceil(64);
    // `None` until a path from the block to an end is known.
    let mut sets: Vec<Option<BlockSet>> = vec![None; count];
    let mut changed = true;
    while changed {
        changed = false;
        for (number, &block) in cfg.rpo().iter().enumerate().rev() {
            let successors = function.successors(block);
            let mut new = successors.is_empty().then(|| vec![0; words]);
            for next in successors.iter().filter_map(|call| cfg.number(call.block)) {
                let Some(next) = &sets[next as usize] else {
                    continue;
                };
                new = Some(match new {
                    None => next.clone(),
                    Some(all) => all.iter().zip(next).map(|(a, b)| a & b).collect(),
                });
            }
            if let Some(new) = &mut new {
                new[number / 64] |= 1 << (number % 64);
            }
            if new != sets[number] {
                sets[number] = new;
                changed = true;
            }
        }
    }
    sets.into_iter().collect()
}
