//! Creates the text of the page `docs/accuracy.md` after a full sweep, and the lines that are
//! printed during a sweep.

use std::fmt::Write as _;
use std::time::Duration;

use super::rows::{Inputs, Row};
use super::tally::{Region, Tally, Unit, Worst};

/// A row and the results of its sweep.
pub struct Finding {
    /// The row of the table of swept instructions.
    pub row: Row,
    /// The largest errors and the wrong results of the row.
    pub tally: Tally,
}

/// Returns the text of a bound or of an error, with its unit.
fn amount(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Ulp => format!("{value:.3} ulp"),
        Unit::Size => format!("{value}"),
        _ if value == 0.0 => "0".to_owned(),
        Unit::Relative => format!("2^{:.2} relative", value.log2()),
        Unit::Absolute => format!("2^{:.2} absolute", value.log2()),
    }
}

fn bound(region: &Region) -> String {
    let text = match region.unit {
        Unit::Ulp => format!("{} ulp", region.bound),
        unit => amount(unit, region.bound),
    };
    if region.stated {
        text
    } else {
        format!("none stated; ours {text}")
    }
}

/// Returns the text of operands: their encodings and, for `f32` and `f64`, their values.
fn operands(row: &Row, worst: &Worst) -> String {
    let words = row.instruction.operands.iter().zip(worst.at);
    let shown: Vec<String> = words
        .map(|(held, bits)| match (held.bytes(), row.inputs) {
            (_, Inputs::Halves | Inputs::HalfPairs) => format!("`0x{bits:04x}`"),
            (8, _) => format!("`0d{bits:016x}` ({:e})", f64::from_bits(bits)),
            _ => format!("`0f{bits:08x}` ({:e})", f32::from_bits(bits as u32)),
        })
        .collect();
    shown.join(", ")
}

fn inputs(row: &Row, tally: &Tally) -> String {
    match row.inputs {
        Inputs::Every(_) => "all 2^32".to_owned(),
        Inputs::Halves | Inputs::HalfPairs => "all 2^16".to_owned(),
        _ => format!("{:.1} million", tally.checked as f64 / 1e6),
    }
}

/// Returns the result of the sweep of one instruction as one line of text.
pub fn line(finding: &Finding, took: Duration) -> String {
    let Finding { row, tally } = finding;
    let worst: Vec<String> = tally
        .regions
        .iter()
        .zip(&tally.worst)
        .map(|(region, worst)| {
            let error = amount(region.unit, worst.error);
            format!("{}: {error} at {}", region.about, operands(row, worst))
        })
        .collect();
    format!(
        "{:<34} {:>11} inputs, {} wrong, {:.1} s {}",
        row.name(),
        tally.checked,
        tally.wrong_count,
        took.as_secs_f64(),
        worst.join("; ")
    )
}

/// Returns a text with one line for each recorded wrong result of a row.
pub fn wrong(tally: &Tally) -> String {
    let mut text = String::new();
    for wrong in &tally.wrong {
        let inputs: Vec<String> = wrong.inputs.iter().map(|x| format!("{x:#x}")).collect();
        let _ = write!(
            text,
            "\n    {} gives {:#x}: {}",
            inputs.join(", "),
            wrong.got,
            wrong.why
        );
    }
    text
}

/// Formats the page.
pub fn page(findings: &[Finding]) -> String {
    let mut text = String::from(HEAD);
    for Finding { row, tally } in findings {
        for (region, worst) in tally.regions.iter().zip(&tally.worst) {
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} | {} | {} |",
                row.name(),
                region.about.replace('|', "\\|"),
                bound(region),
                amount(region.unit, worst.error),
                operands(row, worst),
                inputs(row, tally)
            );
        }
    }
    text += EXACT;
    for Finding { row, tally } in findings.iter().filter(|f| f.tally.regions.is_empty()) {
        let (inputs, wrong) = (inputs(row, tally), tally.wrong_count);
        let _ = writeln!(text, "| `{}` | {inputs} | {wrong} |", row.name());
    }
    text
}

const HEAD: &str = "# Accuracy

`cargo xtask sweep` writes this page. It runs each instruction through native code over the inputs that the tables name. CI runs samples of
them. `tests/src/sweep` holds the table of instructions and the references.

## Approximate functions

The tables show the largest error, the operand that causes it, and the bound of the PTX ISA. The references are the host's `f64` functions (error below
2^-50). An infinite result counts as the power of two above the largest number. Special operands (infinities, zeros, NaN, negative numbers under
roots, subnormal numbers with `.ftz`) are compared with the ISA's tables. If 2^19 consecutive operands have one result, it is compared at 130 of
them, both ends included, because the function is monotonic there.

| instruction | operands | bound | worst error | at | inputs |
|---|---|---|---|---|---|
";

const EXACT: &str = "
## Results defined bit by bit

A square root, reciprocal or quotient of `f32` is checked by the reverse computation: the result must lie between two bounds, which depend on the
rounding mode and are the result itself, an adjacent number, or the midpoint to it. Each bound is squared, or multiplied by the divisor, exactly,
and compared with the operand. Conversions are checked by comparing the operand with the adjacent numbers, or by shifts of its digits. Other arithmetic is compared with `rustc_apfloat`. If not all inputs ran, these ran: every
exponent with the fractions at its ends and middle, every rounding boundary of a format of at most 16 bits with its neighbours, near ties of
quotients and products, cancelling sums, and random or evenly spaced operands.

| instruction | inputs | wrong |
|---|---|---|
";
