//! How many lanes of a kernel run side by side.

use std::time::Duration;

use margay_ir::analysis::uniformity::{Assumptions, Class};
use margay_ir::analysis::{Cfg, Uniformity, liveness};
use margay_ir::entity::Block;
use margay_ir::function::Function;
use margay_ir::ops::{Effects, Opcode};
use margay_ir::types::Kind;

/// Most vector instructions of a native function, about; more take too long to compile.
const BUDGET: usize = 20_000;
/// Most vectors that live at once, about; the machine has 16 registers for them, and what is spilled costs
/// little as long as it is not much.
const MAX_LIVE: usize = 40;
/// Most blocks: the order of the masked code is found in time that grows with them and with their depth.
const MAX_BLOCKS: usize = 2_000;

/// Lanes of a function's slices; 1 where lanes run one by one. `asked` stands in for what suits the function
/// best, as far as the budget goes.
pub(crate) fn width(function: &Function, asked: Option<u32>) -> u32 {
    if asked == Some(1) {
        return 1;
    }
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
    let wanted = asked.unwrap_or(if meets { 32 } else { 16 });
    let live = match asked {
        None => live_words(function),
        Some(_) => 0,
    };
    // Both copies of the code count, and a vector instruction for every four lanes.
    let fits = |&width: &u32| {
        let vectors = width as usize / 4;
        width <= wanted && insts * vectors * 2 <= BUDGET && live * vectors <= MAX_LIVE.max(live)
    };
    [wanted, 16, 8, 4].into_iter().find(fits).unwrap_or(1)
}

/// Most 32-bit words of a lane that vary and live at the start of a block.
fn live_words(function: &Function) -> usize {
    let cfg = Cfg::new(function);
    let rows = Assumptions {
        width: 16,
        whole_rows: true,
        ntid_x_zeros: 4,
    };
    let uniformity = Uniformity::new(function, rows);
    let scalar = |value| uniformity.class(value) != Class::Varying;
    let live = liveness::live_in(function, &cfg, |_: Block| true, scalar);
    let words = |&block: &Block| -> usize {
        let values = live[block].iter();
        values
            .map(|&value| function.dfg.ty(value).lane_bytes().div_ceil(4) as usize)
            .sum()
    };
    cfg.rpo().iter().map(words).max().unwrap_or(0)
}

/// How long a kernel should have run lane by lane before slices are worth their compilation: about as
/// long as that takes.
pub(crate) fn patience(function: &Function, width: u32) -> Duration {
    let insts: usize = function
        .blocks()
        .iter()
        .map(|&block| function.insts(block).len())
        .sum();
    let vectors = insts * (width as usize / 4).max(1) * 2;
    Duration::from_micros(1000 + 4 * vectors as u64)
}
