//! Control flow, barriers and operations of a warp.

use margay::observe::TextOperandKind;

use super::Subject;
use super::step::{Steps, bare, chain, one, reading, step};

/// Returns the lines of an instruction for control flow or synchronisation.
pub(super) fn steps(subject: &Subject<'_>) -> Option<Steps> {
    let op = &subject.words;
    Some(match op.head {
        "bra" => bare("BRA"),
        "brx" => reading("BRX"),
        "call" => call(subject),
        "ret" if subject.in_kernel => bare("EXIT"),
        "ret" => bare("RET.REL.NODEC"),
        "exit" => bare("EXIT"),
        "trap" => bare("BPT.TRAP"),
        "brkpt" => bare("BPT"),
        "nanosleep" => reading("NANOSLEEP"),
        "pmevent" => bare("PMTRIG"),
        "bar" if op.first() == "warp" => reading("WARPSYNC"),
        "barrier" if op.first() == "cluster" => return None,
        "bar" | "barrier" => barrier(subject),
        "activemask" => one("VOTE.ANY"),
        "vote" => one(match () {
            () if op.has("all") => "VOTE.ALL",
            () if op.has("uni") => "VOTE.EQ",
            () => "VOTE.ANY",
        }),
        "match" if op.has("all") => one("MATCH.ALL"),
        "match" => one("MATCH.ANY"),
        "redux" if subject.architecture.is_ampere() => one("REDUX"),
        "redux" => chain(&[
            "SHFL.BFLY",
            "IADD3",
            "SHFL.BFLY",
            "IADD3",
            "SHFL.BFLY",
            "IADD3",
            "SHFL.BFLY",
            "IADD3",
            "SHFL.BFLY",
            "IADD3",
        ]),
        "shfl" => one(match () {
            () if op.has("up") => "SHFL.UP",
            () if op.has("down") => "SHFL.DOWN",
            () if op.has("bfly") => "SHFL.BFLY",
            () => "SHFL.IDX",
        }),
        "elect" => one("VOTE.ANY"),
        "setmaxnreg" => bare("NOP"),
        _ => return None,
    })
}

fn call(subject: &Subject<'_>) -> Steps {
    let is_indirect = subject
        .operands
        .iter()
        .any(|operand| operand.kind == TextOperandKind::Register);
    bare(if is_indirect {
        "CALL.ABS.NOINC"
    } else {
        "CALL.REL.NOINC"
    })
}

fn barrier(subject: &Subject<'_>) -> Steps {
    let op = &subject.words;
    match () {
        () if op.has("arrive") => bare("BAR.ARV"),
        () if op.has("red") => {
            let mut steps = reading("BAR.RED");
            steps.push(step("B2R"));
            steps
        }
        () => bare("BAR.SYNC"),
    }
}
