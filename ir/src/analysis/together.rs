//! Decides whether all threads of a CTA reach the sync points of a kernel together.
//!
//! Consider each branch that threads of the CTA can take differently, and its immediate post-dominator, which is the
//! block where the paths from the branch meet again. The threads reach the sync points together if no sync point is
//! between a branch and this block. If a thread can exit between the branch and this block, all sync points that other
//! threads can still reach count as being between the two.
//!
//! The branches that have a sync point between them and their immediate post-dominator are the iterated dominance
//! frontier of the sync points in the reversed control-flow graph. [`Joins`] computes it in nearly linear time.

use crate::analysis::joins::Joins;
use crate::analysis::uniformity::{Class, Uniformity};
use crate::analysis::{Cfg, Dominators};
use crate::entity::Block;
use crate::function::Function;

/// Considers the blocks for which `synchronises` is true. Returns whether all threads of a CTA
/// reach each of these blocks together. Returns false if the analysis cannot prove this.
pub fn meet_at(
    function: &Function,
    cfg: &Cfg,
    uniformity: &Uniformity,
    synchronises: impl Fn(Block) -> bool,
) -> bool {
    let reversed = cfg.reversed(function);
    if reversed.rpo().len() != cfg.rpo().len() + 1 {
        // From some block, no path leads to an end of the function.
        return false;
    }
    let blocks = cfg.rpo().iter().copied();
    let meetings: Vec<Block> = blocks.filter(|&block| synchronises(block)).collect();
    let mut joins = Joins::new(&reversed, &Dominators::new(&reversed));
    let branches = joins.of(&reversed, &meetings, |_| true);
    let mut branches = branches.into_iter();
    branches.all(|block| uniformity.branch(function, block) <= Class::Cta)
}
