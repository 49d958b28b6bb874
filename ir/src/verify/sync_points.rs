//! Checks sync points after [`crate::pass::sync_points`]: only a jump follows a sync point in its block, and no other
//! branch leads to the target of the jump.

use super::{Report, Rule};
use crate::analysis::Cfg;
use crate::entity::Inst;
use crate::function::Function;
use margay_ops::ops::Opcode;

pub(super) fn check(function: &Function, report: &mut Report) {
    let cfg = Cfg::new(function);
    for &block in function.blocks() {
        let insts = function.insts(block);
        for (index, &inst) in insts.iter().enumerate() {
            if function.effects(inst).is_sync_point() {
                if index + 2 == insts.len() {
                    check_jump(function, &cfg, inst, insts[index + 1], report);
                } else {
                    report.inst(
                        inst,
                        Rule::SyncPoint,
                        "is not the last instruction before a jump",
                    );
                }
            }
        }
    }
}

fn check_jump(function: &Function, cfg: &Cfg, sync_point: Inst, jump: Inst, report: &mut Report) {
    let dfg = &function.dfg;
    let [call] = dfg.targets(jump) else {
        return report.inst(sync_point, Rule::SyncPoint, "is not followed by a jump");
    };
    if dfg.insts[jump].opcode != Opcode::Jump {
        report.inst(sync_point, Rule::SyncPoint, "is not followed by a jump");
    }
    if !call.args.is_empty() || !dfg.blocks[call.block].params.is_empty() {
        report.inst(
            sync_point,
            Rule::SyncPoint,
            "passes arguments to its continuation",
        );
    }
    if cfg.preds(call.block).len() > 1 {
        let message = format!("continues at {}, which has other predecessors", call.block);
        report.inst(sync_point, Rule::SyncPoint, message);
    }
}
