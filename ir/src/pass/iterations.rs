//! Keeps the lanes of a warp in the same iteration of a loop, as far as the program can observe this.
//!
//! `activemask`, and `shfl`, `vote` and `match` without `.sync`, act on the lanes that execute them together. On GPUs,
//! lanes that skip such an operation in one iteration wait for the others at the end of the iteration. Programs such as
//! `if (x == bin) atomicAggInc(&count[bin])` in a loop over bins rely on this: otherwise lanes would act together with
//! lanes of earlier or later iterations. The pass gives each loop with such an operation a single back edge with a sync
//! point. Lanes at this sync point continue when no lane waits at a lower sync point of the loop.

use crate::analysis::Cfg;
use crate::analysis::loops::Loops;
use crate::entity::{Block, Value};
use crate::function::Function;
use crate::sync_point::acts_on_present_lanes;
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

use super::copy::{jump, new_block};

pub(super) fn run(function: &mut Function) {
    let cfg = Cfg::new(function);
    let acts = |block: &Block| {
        let mut insts = function.insts(*block).iter();
        insts.any(|&inst| acts_on_present_lanes(&function.dfg.insts[inst].desc()))
    };
    let acting: Vec<Block> = cfg.rpo().iter().copied().filter(acts).collect();
    if acting.is_empty() {
        return;
    }
    let loops = Loops::new(function, &cfg);
    let mut around: Vec<usize> = acting
        .iter()
        .flat_map(|&block| loops.and_around(loops.innermost(block)))
        .collect();
    around.sort_unstable();
    around.dedup();
    for number in around {
        let header = loops.header(number);
        let preds = cfg.preds(header).iter().copied();
        let latches: Vec<Block> = preds
            .filter(|&block| loops.contains(number, block))
            .collect();
        let body = loops.body(number).to_vec();
        join(function, header, &latches, &body);
    }
}

/// Replaces the edges from `latches` to `header` by edges to a new block with a sync point, which jumps to `header`.
/// `body` contains the blocks of the loop.
fn join(function: &mut Function, header: Block, latches: &[Block], body: &[Block]) {
    let end = new_block(function);
    let types: Vec<Type> = (function.dfg.blocks[header].params.iter())
        .map(|&param| function.dfg.ty(param))
        .collect();
    let params: Vec<Value> = types
        .into_iter()
        .map(|ty| function.dfg.append_param(end, ty))
        .collect();
    let mut loc = None;
    for &latch in latches {
        let Some(&last) = function.insts(latch).last() else {
            continue;
        };
        loc = Some(function.dfg.locs[last]);
        for call in function.dfg.targets.get_mut(&last).into_iter().flatten() {
            if call.block == header {
                call.block = end;
            }
        }
    }
    // The result of this `activemask` is unused. `converge` would not suffice: lanes of a whole warp do not stop there.
    let desc = Desc {
        opcode: Opcode::ActiveMask,
        ty: OpType::B32,
        src: OpType::None,
        mods: Mods::NONE,
    };
    let inst = function.dfg.make_inst(desc, &[], &[Type::B32]);
    if let Some(loc) = loc {
        function.dfg.locs[inst] = loc;
    }
    function.append_inst(end, inst);
    jump(function, end, header, &params);
    let order = &mut function.layout.order;
    let after = order.iter().rposition(|block| body.contains(block));
    order.insert(after.map_or(order.len(), |at| at + 1), end);
}
