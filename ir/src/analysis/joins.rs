//! Finds the blocks that need a block parameter for a variable. These are the blocks of the
//! iterated dominance frontier of the variable's writes in which the variable is live (Sreedhar and
//! Gao: "A Linear Time Algorithm for Placing phi-Nodes").
//!
//! The dominance frontiers themselves are not computed, because for nested loops their total size is quadratic in the
//! number of loops. Instead, a walk over the dominator tree starts at each write and at each block that has been found.
//! A walk ends at a block where the variable is dead. If the variable is live again in a descendant of that block in
//! the tree, a write lies between the two blocks, and the walk that starts at this write visits the descendant.
//!
//! Invariant: a query ([`Joins::of`]) visits only blocks that write the variable and blocks where the variable is live,
//! each once. Its time is proportional to the number of these blocks and their edges, apart from a logarithmic factor
//! for the queue.

use std::collections::BinaryHeap;

use crate::analysis::{Cfg, Dominators};
use crate::entity::Block;

/// The edges of a control-flow graph and of its dominator tree, in tables for the queries
/// ([`Joins::of`]). Blocks are numbered in reverse postorder.
#[derive(Debug)]
pub struct Joins {
    /// For each block, its depth in the dominator tree.
    level: Vec<u32>,
    /// For each block, the blocks that it immediately dominates.
    children: Vec<Vec<u32>>,
    /// For each block, its successors that it does not immediately dominate.
    joins: Vec<Vec<u32>>,
    /// For each block, the number of the last query that added the block to its queue. In
    /// `visited`, it is the number of the last query that visited the block. Each query has a
    /// different number, so the tables need not be cleared between two queries.
    queued: Vec<u32>,
    visited: Vec<u32>,
    question: u32,
}

impl Joins {
    /// Creates the tables for queries about a control-flow graph.
    pub fn new(cfg: &Cfg, dominators: &Dominators) -> Joins {
        let count = cfg.rpo().len();
        let mut joins = Joins {
            level: vec![0; count],
            children: vec![Vec::new(); count],
            joins: vec![Vec::new(); count],
            queued: vec![0; count],
            visited: vec![0; count],
            question: 0,
        };
        for (number, &block) in cfg.rpo().iter().enumerate() {
            let parent = dominators.idom(cfg, block);
            let parent = parent.and_then(|parent| cfg.number(parent));
            if let Some(parent) = parent {
                joins.level[number] = joins.level[parent as usize] + 1;
                joins.children[parent as usize].push(number as u32);
            }
            for pred in cfg.preds(block).iter().filter_map(|&pred| cfg.number(pred)) {
                if Some(pred) != parent {
                    joins.joins[pred as usize].push(number as u32);
                }
            }
        }
        joins
    }

    /// Returns the blocks, in reverse postorder, at whose start different definitions of a variable meet. The variable
    /// is written in the blocks `writes` and at the start of the entry block; `live` returns whether the variable is
    /// live at the start of a block.
    pub fn of(&mut self, cfg: &Cfg, writes: &[Block], live: impl Fn(Block) -> bool) -> Vec<Block> {
        self.question += 1;
        let writes = writes.iter().filter_map(|&block| cfg.number(block));
        // The queue returns the deepest block of the dominator tree first. If several dominators of a block were
        // queued, the block is therefore visited from the deepest of them.
        let mut queue: BinaryHeap<(u32, u32)> = BinaryHeap::new();
        for number in writes.chain([0]) {
            queue.push((self.level[number as usize], number));
        }
        let mut found = Vec::new();
        let mut walk = Vec::new();
        while let Some((level, root)) = queue.pop() {
            walk.push(root);
            while let Some(number) = walk.pop() {
                let here = number as usize;
                if self.visited[here] == self.question {
                    continue;
                }
                self.visited[here] = self.question;
                for &join in &self.joins[here] {
                    let at = join as usize;
                    let seen = self.queued[at] == self.question;
                    if !seen && self.level[at] <= level && live(cfg.rpo()[at]) {
                        self.queued[at] = self.question;
                        found.push(join);
                        queue.push((self.level[at], join));
                    }
                }
                let children = self.children[here].iter().copied();
                walk.extend(children.filter(|&child| live(cfg.rpo()[child as usize])));
            }
        }
        found.sort_unstable();
        found.iter().map(|&join| cfg.rpo()[join as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::FunctionBuilder;
    use crate::entity::Entity;
    use crate::function::Function;
    use margay_ops::ops::Opcode;
    use margay_ops::types::Type;

    /// Creates a function with the blocks 1, 2, ..., which have these successors (at most two
    /// each), and a block 0, whose successor is block 1. Returns the function and its control-flow
    /// graph.
    fn graph(successors: &[&[usize]]) -> (Function, Cfg) {
        let mut b = FunctionBuilder::new(Function {
            kernel: Some(Default::default()),
            ..Default::default()
        });
        let blocks: Vec<Block> = successors.iter().map(|_| b.create_block()).collect();
        b.jump(blocks[0]);
        for (&block, targets) in blocks.iter().zip(successors) {
            b.switch_to(block);
            match targets {
                [] => {
                    b.end(Opcode::Exit, &[]);
                }
                [to] => b.jump(blocks[to - 1]),
                [then, other] => {
                    let condition = b.constant(Type::PRED, 1);
                    b.brif(condition, blocks[then - 1], blocks[other - 1]);
                }
                _ => unreachable!("two at most"),
            }
        }
        let function = b.function;
        let cfg = Cfg::new(&function);
        (function, cfg)
    }

    fn joins(cfg: &Cfg, writes: &[usize]) -> Vec<usize> {
        let mut joins = Joins::new(cfg, &Dominators::new(cfg));
        let writes: Vec<Block> = writes.iter().map(|&n| Block::new(n)).collect();
        let mut found: Vec<usize> = joins
            .of(cfg, &writes, |_| true)
            .iter()
            .map(|b| b.index())
            .collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn both_sides_of_a_branch_meet() {
        let (_function, cfg) = graph(&[&[2, 3], &[4], &[4], &[]]);
        assert_eq!(joins(&cfg, &[2]), [4]);
        assert_eq!(joins(&cfg, &[1]), [0; 0]);
        assert_eq!(joins(&cfg, &[4]), [0; 0]);
    }

    #[test]
    fn loops_meet_at_their_headers() {
        // Blocks 2 and 3 are the headers of two nested loops, block 4 is the body, and block 5 is the latch of the
        // outer loop.
        let (_function, cfg) = graph(&[&[2], &[3, 6], &[4, 5], &[3], &[2], &[]]);
        assert_eq!(joins(&cfg, &[4]), [2, 3]);
        assert_eq!(joins(&cfg, &[5]), [2]);
    }

    /// Compares the results with the definition of the iterated dominance frontier, for random
    /// graphs and random liveness. Block `b` is in the frontier of block `a` if `a` dominates a
    /// predecessor of `b` but does not strictly dominate `b`. The test computes the closure of this
    /// relation over all pairs of blocks, and keeps only blocks where the variable is live.
    #[test]
    fn random_graphs_agree_with_the_definition() {
        let mut state = 1u64;
        let mut random = move |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut met = 0;
        for _ in 0..2000 {
            let count = 2 + random(12);
            let targets: Vec<Vec<usize>> = (0..count)
                .map(|_| {
                    (0..(random(5) + 1).div_ceil(2).min(2))
                        .map(|_| 1 + random(count))
                        .collect()
                })
                .collect();
            let slices: Vec<&[usize]> = targets.iter().map(Vec::as_slice).collect();
            let (_function, cfg) = graph(&slices);
            let dominators = Dominators::new(&cfg);
            let pick = |random: &mut dyn FnMut(usize) -> usize| -> Vec<Block> {
                let number = 1 + random(3);
                let blocks = (0..number).map(|_| Block::new(1 + random(count)));
                blocks.filter(|&b| cfg.is_reachable(b)).collect()
            };
            let (writes, reads) = (pick(&mut random), pick(&mut random));
            let mut live = Vec::new();
            let mut work = reads;
            while let Some(block) = work.pop() {
                if !live.contains(&block) {
                    live.push(block);
                    let preds = cfg.preds(block).iter().copied();
                    work.extend(preds.filter(|pred| !writes.contains(pred)));
                }
            }
            let in_frontier = |of: Block, block: Block| {
                let mut preds = cfg.preds(block).iter();
                preds.any(|&pred| dominators.dominates(&cfg, of, pred))
                    && (of == block || !dominators.dominates(&cfg, of, block))
            };
            let mut closure: Vec<Block> = writes.clone();
            closure.push(cfg.rpo()[0]);
            let mut want = Vec::new();
            let mut next = 0;
            while let Some(&of) = closure.get(next) {
                next += 1;
                for &block in cfg.rpo() {
                    if in_frontier(of, block) && live.contains(&block) && !want.contains(&block) {
                        want.push(block);
                        closure.push(block);
                    }
                }
            }
            want.sort_unstable_by_key(|&block| cfg.number(block));
            met += want.len();
            let mut joins = Joins::new(&cfg, &dominators);
            let got = joins.of(&cfg, &writes, |block| live.contains(&block));
            assert_eq!(got, want, "{targets:?}, writes {writes:?}, live {live:?}");
        }
        assert!(met > 500, "{met} meetings");
    }
}
