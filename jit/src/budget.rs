//! What a function may have to get native code.
//!
//! Code generation takes time and memory that grow with a function's size, some parts of it faster than that. What is over
//! a budget here runs in the interpreter. Budgets are counts, never times: a kernel has native code on a busy machine if
//! it has some on another.

use margay_ir::analysis::{Cfg, liveness};
use margay_ir::entity::Block;
use margay_ir::function::Function;

use crate::error::CompileError;

/// Most instructions of a function with all that is inlined into it.
const MAX_INSTS: usize = 200_000;
/// Most blocks.
const MAX_BLOCKS: usize = 50_000;
/// Most values that live at the start of a block, summed over all blocks.
const MAX_LIVE: usize = 4_000_000;

/// Most values that branches pass to blocks.
const MAX_PASSED: usize = 400_000;

/// How large a function is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// Branches back to a block that was there before: about as many as there are loops.
    pub(crate) loops: usize,
    /// Values that live at the start of a block, summed over all blocks.
    pub(crate) live: usize,
    /// Values that branches pass to blocks.
    pub(crate) passed: usize,
}

impl Shape {
    /// The shape of a prepared function.
    ///
    /// # Errors
    /// [`CompileError::Budget`] if it is too large.
    pub(crate) fn of(function: &Function, cfg: &Cfg) -> Result<Shape, CompileError> {
        let blocks = cfg.rpo();
        let insts: usize = blocks.iter().map(|&b| function.insts(b).len()).sum();
        if insts > MAX_INSTS {
            return Err(over(MAX_INSTS, insts, "instructions"));
        }
        if blocks.len() > MAX_BLOCKS {
            return Err(over(MAX_BLOCKS, blocks.len(), "blocks"));
        }
        let Some(live) = liveness::total_length(function, cfg, MAX_LIVE) else {
            return Err(CompileError::Budget(format!(
                "more than {MAX_LIVE} values that live in blocks, over all blocks"
            )));
        };
        let back = blocks.iter().map(|&block| {
            let targets = function.successors(block).iter();
            let before = |to| cfg.number(to) <= cfg.number(block);
            targets.filter(|call| before(call.block)).count()
        });
        let passed = |&block: &Block| {
            let targets = function.successors(block).iter();
            targets.map(|call| call.args.len()).sum::<usize>()
        };
        let passed = blocks.iter().map(passed).sum();
        if passed > MAX_PASSED {
            return Err(over(MAX_PASSED, passed, "values passed to blocks"));
        }
        Ok(Shape {
            loops: back.sum(),
            live,
            passed,
        })
    }
}

fn over(most: usize, number: usize, what: &str) -> CompileError {
    CompileError::Budget(format!("{number} {what}, more than {most}"))
}
