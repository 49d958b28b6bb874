//! How many lanes of a kernel run side by side.

use margay_ir::function::Function;
use margay_ir::ops::{Effects, Opcode};
use margay_ir::types::Kind;

/// Most vector instructions of a native function, about; more take too long to compile.
const BUDGET: usize = 40_000;
/// Most blocks: the order of the masked code is found in time that grows with them and with their depth.
const MAX_BLOCKS: usize = 2_000;

/// Lanes of a function's slices; 1 where lanes run one by one.
pub(crate) fn width(function: &Function) -> u32 {
    let blocks = function.blocks();
    if blocks.len() > MAX_BLOCKS {
        return 1;
    }
    let mut insts = 0usize;
    let mut meets = false;
    for &block in blocks {
        for &inst in function.insts(block) {
            let data = &function.dfg.insts[inst];
            insts += 1;
            meets |= data.opcode.effects().contains(Effects::SYNC_WARP)
                && !matches!(data.opcode, Opcode::Mma);
            let results = function.dfg.results(inst).iter();
            let args = function.dfg.args(inst).iter();
            if results
                .chain(args)
                .any(|&value| function.dfg.ty(value).kind() == Kind::B128)
            {
                return 1;
            }
        }
    }
    let wanted = if meets { 32 } else { 16 };
    // Both copies of the code count, and a vector instruction for every four lanes.
    [wanted, 16, 8, 4]
        .into_iter()
        .find(|&width| width <= wanted && insts * (width as usize / 4) * 2 <= BUDGET)
        .unwrap_or(1)
}
