//! Finds blocks that at most one lane of a warp executes.

use crate::analysis::{Cfg, Uniformity};
use crate::entity::{Block, Value};
use crate::function::Function;
use margay_ops::mods::CmpOp;
use margay_ops::ops::Opcode;

/// Maximum number of branches that the analysis follows backwards.
const MOST_BRANCHES: usize = 4;

/// Returns whether a block runs only after a branch that lets one lane through: a comparison of a value that depends on
/// the lane with a value that does not, such as `%tid.x == 0`. The analysis does not find all such blocks.
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
            && let Some((a, b, is_equal)) = comparison(function, pred)
            && is_equal == (then.block == block)
        {
            let depends = |value: Value| !uniformity().class(value).is_uniform();
            if depends(a) != depends(b) {
                return true;
            }
        }
        block = pred;
    }
    false
}

/// If a block ends with a branch on whether two values are equal, returns these values and whether the first target is
/// that of equal values.
fn comparison(function: &Function, block: Block) -> Option<(Value, Value, bool)> {
    let branch = function.layout.terminator(block)?;
    let condition = *function.dfg.args(branch).first()?;
    let def = function.dfg.def_inst(condition)?;
    let data = &function.dfg.insts[def];
    let &[a, b] = function.dfg.args(def) else {
        return None;
    };
    match (data.opcode, data.mods.cmp()) {
        (Opcode::Setp, CmpOp::Eq) => Some((a, b, true)),
        (Opcode::Setp, CmpOp::Ne) => Some((a, b, false)),
        _ => None,
    }
}
