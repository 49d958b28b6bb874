//! Computes the dominator tree (Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm").

use crate::analysis::Cfg;
use crate::entity::Block;

/// The dominator tree of a function's reachable blocks.
#[derive(Clone, Debug)]
pub struct Dominators {
    /// Immediate dominator of each block, both as positions in reverse postorder; the entry block's is the entry
    /// block.
    idom: Vec<u32>,
    /// For each block the times at which a depth-first walk over the tree enters and leaves it, so that a query
    /// takes constant time.
    span: Vec<(u32, u32)>,
}

impl Dominators {
    /// Computes the dominator tree.
    pub fn new(cfg: &Cfg) -> Dominators {
        let idom = immediate_dominators(cfg);
        let span = tree_spans(&idom);
        Dominators { idom, span }
    }

    /// Returns the immediate dominator of a block; `None` for the entry block and for unreachable blocks.
    pub fn idom(&self, cfg: &Cfg, block: Block) -> Option<Block> {
        let number = cfg.number(block)? as usize;
        (number != 0).then(|| cfg.rpo()[self.idom[number] as usize])
    }

    /// Returns whether `a` dominates `b`. Every reachable block dominates itself.
    pub fn dominates(&self, cfg: &Cfg, a: Block, b: Block) -> bool {
        let (Some(a), Some(b)) = (cfg.number(a), cfg.number(b)) else {
            return false;
        };
        let (a, b) = (self.span[a as usize], self.span[b as usize]);
        a.0 <= b.0 && b.1 <= a.1
    }
}

fn immediate_dominators(cfg: &Cfg) -> Vec<u32> {
    const UNKNOWN: u32 = u32::MAX;
    let mut idom = vec![UNKNOWN; cfg.rpo().len()];
    idom[0] = 0;
    let mut changed = true;
    while changed {
        changed = false;
        for (number, &block) in cfg.rpo().iter().enumerate().skip(1) {
            let mut new = UNKNOWN;
            for pred in cfg.preds(block).iter().filter_map(|&pred| cfg.number(pred)) {
                if idom[pred as usize] != UNKNOWN {
                    new = if new == UNKNOWN {
                        pred
                    } else {
                        intersect(&idom, pred, new)
                    };
                }
            }
            if idom[number] != new {
                idom[number] = new;
                changed = true;
            }
        }
    }
    idom
}

fn intersect(idom: &[u32], mut a: u32, mut b: u32) -> u32 {
    while a != b {
        while a > b {
            a = idom[a as usize];
        }
        while b > a {
            b = idom[b as usize];
        }
    }
    a
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
