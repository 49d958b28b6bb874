//! Size limits of functions that are compiled to native code.
//!
//! The time and memory of code generation grow with a function's size, in some parts faster than linearly. A function
//! beyond a limit runs in the interpreter. The limits are counts and not times, so that the load of the machine does
//! not decide whether a kernel gets native code.

use margay_ir::analysis::{Cfg, liveness};
use margay_ir::entity::Block;
use margay_ir::function::Function;
use serde::{Deserialize, Serialize};

use crate::error::CompileError;

/// Maximum number of instructions of a function, including inlined functions.
const MAX_INSTS: usize = 200_000;
/// Maximum number of blocks of a function.
const MAX_BLOCKS: usize = 50_000;
/// Maximum number of edges between blocks: the number of edges of [`MAX_BLOCKS`] blocks with two successors each. A
/// branch table may have many more edges, and the code generator can create a block for each of these edges.
const MAX_EDGES: usize = 2 * MAX_BLOCKS;
/// Maximum number of values that are live at the start of a block, summed over all blocks.
const MAX_LIVE: usize = 4_000_000;

/// Maximum number of values that branches pass to blocks, summed over all edges.
const MAX_PASSED: usize = 400_000;

/// Maximum number of values that branches pass to one block. The time of register allocation grows with the square of
/// this number.
const MAX_PARAMS: usize = 8_000;

/// The properties of a function's size that determine how long the function takes to compile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Shape {
    /// Number of edges that lead backwards in reverse postorder, which is about the number of
    /// loops.
    pub(crate) loops: usize,
    /// Number of values that are live at the start of a block, summed over all blocks.
    pub(crate) live: usize,
    /// Number of values that branches pass to blocks, summed over all edges.
    pub(crate) passed: usize,
}

impl Shape {
    /// Determines the size properties of a prepared function.
    ///
    /// # Errors
    /// Returns [`CompileError::Budget`] if the function is too large.
    pub(crate) fn of(function: &Function, cfg: &Cfg) -> Result<Shape, CompileError> {
        let blocks = cfg.rpo();
        let insts: usize = blocks.iter().map(|&b| function.insts(b).len()).sum();
        if insts > MAX_INSTS {
            return Err(over(MAX_INSTS, insts, "instructions"));
        }
        if blocks.len() > MAX_BLOCKS {
            return Err(over(MAX_BLOCKS, blocks.len(), "blocks"));
        }
        let edges: usize = blocks.iter().map(|&b| function.successors(b).len()).sum();
        if edges > MAX_EDGES {
            return Err(over(MAX_EDGES, edges, "edges between blocks"));
        }
        let params = blocks
            .iter()
            .map(|&b| function.dfg.blocks[b].params.len())
            .max();
        if let Some(params) = params.filter(|&params| params > MAX_PARAMS) {
            return Err(over(MAX_PARAMS, params, "values passed to one block"));
        }
        let Some(live) = liveness::total_length(function, cfg, MAX_LIVE) else {
            return Err(CompileError::Budget(format!(
                "more than {MAX_LIVE} values that are live at the start of blocks, summed over all blocks"
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
