//! Checks that every referenced entity exists, that the layout contains every block and instruction
//! at most once, and that every block ends with a valid terminator. The other checks rely on this.

use rustc_hash::FxHashSet;

use super::{ProblemSite, Report, Rule};
use crate::entity::{Block, Entity, Inst, Value};
use crate::function::Function;
use margay_ops::ops::{Effects, Targets};

pub(super) fn check(function: &Function, report: &mut Report) {
    let mut blocks = FxHashSet::default();
    for &block in function.blocks() {
        if block.index() >= function.dfg.blocks.len() {
            report.add(ProblemSite::Block(block), Rule::Structure, "does not exist");
        } else if !blocks.insert(block) {
            report.add(
                ProblemSite::Block(block),
                Rule::Structure,
                "is in the layout twice",
            );
        }
    }
    let mut seen = FxHashSet::default();
    for &block in &blocks {
        for &inst in function.insts(block) {
            if !seen.insert(inst) {
                report.inst(inst, Rule::Structure, "is in the layout twice");
            }
        }
    }
    let mut ordered: Vec<Block> = blocks.iter().copied().collect();
    ordered.sort_unstable();
    for block in ordered {
        check_block(function, &blocks, block, report);
    }
    check_entry(function, report);
}

fn check_block(function: &Function, blocks: &FxHashSet<Block>, block: Block, report: &mut Report) {
    for &param in &function.dfg.blocks[block].params {
        known_value(function, ProblemSite::Block(block), param, report);
    }
    let insts = function.insts(block);
    if insts.is_empty() {
        report.add(ProblemSite::Block(block), Rule::Structure, "is empty");
    }
    for (index, &inst) in insts.iter().enumerate() {
        if inst.index() >= function.dfg.insts.len() {
            report.inst(inst, Rule::Structure, "does not exist");
            continue;
        }
        let ends = function.effects(inst).contains(Effects::TERMINATOR);
        match (ends, index + 1 == insts.len()) {
            (true, false) => report.inst(
                inst,
                Rule::Structure,
                format!("ends {block} but is not its last instruction"),
            ),
            (false, true) => report.inst(
                inst,
                Rule::Structure,
                format!("is the last instruction of {block} but does not end it"),
            ),
            _ => {}
        }
        check_references(function, blocks, inst, report);
    }
}

fn check_references(
    function: &Function,
    blocks: &FxHashSet<Block>,
    inst: Inst,
    report: &mut Report,
) {
    let dfg = &function.dfg;
    for (list, what) in [
        (dfg.insts[inst].args, "operands"),
        (dfg.results[inst], "results"),
    ] {
        match dfg.pool.try_get(list) {
            None => report.inst(inst, Rule::Structure, format!("has no list of {what}")),
            Some(values) => {
                for &value in values {
                    known_value(function, ProblemSite::Inst(inst), value, report);
                }
            }
        }
    }
    let calls = dfg.targets(inst);
    let right = match dfg.insts[inst].opcode.shape().targets {
        Targets::Exactly(count) => calls.len() == count,
        Targets::AtLeastOne => !calls.is_empty(),
    };
    if !right {
        report.inst(
            inst,
            Rule::Structure,
            format!("has {} branch targets", calls.len()),
        );
    }
    for call in calls {
        if !blocks.contains(&call.block) {
            report.inst(
                inst,
                Rule::Structure,
                format!("branches to {}, which is not in the layout", call.block),
            );
        } else if call.block == function.entry() {
            report.inst(inst, Rule::Structure, "branches to the entry block");
        }
        for &value in &call.args {
            known_value(function, ProblemSite::Inst(inst), value, report);
        }
    }
}

fn known_value(function: &Function, place: ProblemSite, value: Value, report: &mut Report) {
    if value.index() >= function.dfg.values.len() {
        report.add(
            place,
            Rule::Structure,
            format!("refers to {value}, which does not exist"),
        );
    }
}

fn check_entry(function: &Function, report: &mut Report) {
    let entry = function.entry();
    let Some(data) = function.dfg.blocks.get(entry) else {
        return;
    };
    let wanted: &[_] = match &function.kernel {
        Some(_) => &[],
        None => &function.signature.params,
    };
    let types = data
        .params
        .iter()
        .map(|&v| function.dfg.values.get(v).map(|data| data.ty));
    if !types.eq(wanted.iter().map(|&ty| Some(ty))) {
        report.add(
            ProblemSite::Block(entry),
            Rule::Structure,
            "is the entry but its parameters are not the function's",
        );
    }
}
