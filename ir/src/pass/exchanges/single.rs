//! Finds blocks that at most one lane of a warp executes.

use crate::analysis::{Cfg, Uniformity};
use crate::entity::{Block, Value};
use crate::function::Function;
use margay_ops::mods::CmpOp;
use margay_ops::ops::Opcode;

/// Maximum number of branches that the analysis follows backwards.
const MOST_BRANCHES: usize = 4;
/// Maximum number of operations in sequence that combine conditions.
const MOST_OPERATIONS: usize = 4;

/// Returns whether a block runs only after a branch that lets one lane through, such as one on `%tid.x == 0`. The analysis
/// does not find all such blocks.
pub(super) fn is_single_lane<'a>(
    function: &Function,
    cfg: &Cfg,
    uniformity: impl Fn() -> &'a Uniformity,
    block: Block,
) -> bool {
    let mut block = block;
    for _ in 0..MOST_BRANCHES {
        let &[pred] = cfg.preds(block) else {
            return false;
        };
        let [then, other] = function.successors(pred) else {
            block = pred;
            continue;
        };
        if then.block != other.block
            && let Some(&condition) = function
                .layout
                .terminator(pred)
                .and_then(|branch| function.dfg.args(branch).first())
            && lets_one_through(
                function,
                &uniformity,
                condition,
                then.block == block,
                MOST_OPERATIONS,
            )
        {
            return true;
        }
        block = pred;
    }
    false
}

/// Returns whether a condition has the value `wanted` for at most one lane: a comparison of a value that depends on the lane
/// with a value that does not, the lane that `elect` selects, or a combination of such a condition with others.
fn lets_one_through<'a>(
    function: &Function,
    uniformity: &impl Fn() -> &'a Uniformity,
    condition: Value,
    wanted: bool,
    operations: usize,
) -> bool {
    let (Some(def), Some(operations)) =
        (function.dfg.def_inst(condition), operations.checked_sub(1))
    else {
        return false;
    };
    let data = &function.dfg.insts[def];
    let args = function.dfg.args(def);
    // The second result of a comparison is the inverse of the first one.
    let is_first = function.dfg.results(def).first() == Some(&condition);
    let depends = |value: Value| !uniformity().class(value).is_uniform();
    let any = |wanted: bool| {
        let mut args = args.iter();
        args.any(|&arg| lets_one_through(function, uniformity, arg, wanted, operations))
    };
    match (data.opcode, data.mods.cmp(), args) {
        (Opcode::Setp, CmpOp::Eq, &[a, b]) => wanted == is_first && depends(a) != depends(b),
        (Opcode::Setp, CmpOp::Ne, &[a, b]) => wanted != is_first && depends(a) != depends(b),
        (Opcode::Elect, ..) => wanted,
        (Opcode::Not, ..) => any(!wanted),
        (Opcode::And, ..) => wanted && any(true),
        (Opcode::Or, ..) => !wanted && any(false),
        _ => false,
    }
}
