//! Every row in every width, with every option.

use super::{cases, check};
use crate::asm::encode::{Context, encode, encode_as};
use crate::asm::row::Row;
use crate::asm::{Features, Inst, Op, Width};

/// Instructions are at the position of their only label.
pub(super) fn context() -> Context<'static> {
    Context {
        features: Features::ALL,
        position: 0,
        labels: &[0],
    }
}

/// Checks a row, and that the encoder's choice among the rows is not longer. Returns the problems.
fn problems(op: Op, row: &Row, width: Width) -> Vec<String> {
    let mut problems = Vec::new();
    for inst in cases::of(op, row, width) {
        if let Err(problem) = problem(row, &inst) {
            problems.push(format!("{inst:?}\n    {problem}"));
        }
    }
    problems
}

fn problem(row: &Row, inst: &Inst) -> Result<(), String> {
    let own = encode_as(row, inst, &context()).map_err(|reason| reason.to_string())?;
    check::check(row, inst, &own.bytes[..own.len])?;
    let best = encode(inst, &context()).map_err(|error| error.to_string())?;
    if best.len > own.len {
        return Err(format!("{} bytes instead of {}", best.len, own.len));
    }
    Ok(())
}

#[test]
fn rows_decode_to_what_was_encoded() {
    let mut failed = Vec::new();
    for &op in Op::ALL {
        for row in op.rows() {
            let widths = Width::ALL.into_iter().filter(|&x| row.widths.contains(x));
            for width in widths {
                failed.extend(problems(op, row, width).into_iter().take(1));
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} rows fail\n{}",
        failed.len(),
        failed[..failed.len().min(20)].join("\n")
    );
}
