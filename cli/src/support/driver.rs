//! The table of the driver API's entry points.
//!
//! It is generated from the library's own list (a test of `ffi` fails when it is stale) and built into this
//! program. Invariant: every entry point of the list is a row.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::output::{Paint, paint};

/// Columns: family, export, symbol, since, stream, served, parameters.
const DRIVER: &str = include_str!("../../../docs/support-driver.csv");

struct Row {
    family: &'static str,
    export: &'static str,
    since: &'static str,
    served: bool,
}

fn rows() -> Vec<Row> {
    DRIVER.lines().skip(1).filter_map(row).collect()
}

/// The family is quoted and may hold commas.
fn row(line: &'static str) -> Option<Row> {
    let (family, rest) = line.strip_prefix('"')?.split_once("\",")?;
    let mut fields = rest.split(',');
    let export = fields.next()?;
    let (_symbol, since, _stream) = (fields.next()?, fields.next()?, fields.next()?);
    Some(Row {
        family,
        export,
        since,
        served: fields.next()? == "yes",
    })
}

/// All rows.
pub(super) fn json() -> Value {
    Value::Array(rows().iter().map(to_json).collect())
}

fn to_json(row: &Row) -> Value {
    json!({
        "family": row.family,
        "export": row.export,
        "since": row.since,
        "served": row.served,
    })
}

/// Rows of each family, in the table's order.
fn families(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|a, b| a.family == b.family)
}

fn served(rows: &[Row]) -> usize {
    rows.iter().filter(|row| row.served).count()
}

/// A page for the documentation.
pub(super) fn markdown() -> String {
    let rows = &rows();
    let mut text = String::from("# Driver API\n\nWritten by `cargo xtask support`.\n\n");
    let _ = writeln!(
        text,
        "{} of {} entry points are served; the others return `CUDA_ERROR_NOT_SUPPORTED`.",
        served(rows),
        rows.len()
    );
    for family in families(rows) {
        let _ = writeln!(
            text,
            "\n## {}\n\n| entry point | since | served |\n|---|---|---|",
            family[0].family
        );
        for row in family {
            let word = if row.served { "yes" } else { "no" };
            let _ = writeln!(text, "| `{}` | {} | {word} |", row.export, row.since);
        }
    }
    text
}

/// How much of each family works.
pub(super) fn summary() -> String {
    let rows = &rows();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: {} of {} entry points are served",
        paint("Driver API", Paint::Heading),
        served(rows),
        rows.len()
    );
    for family in families(rows) {
        let (good, all) = (served(family), family.len());
        let line = format!("  {:<40} {good:>4} of {all:>4}", family[0].family);
        let line = if good == all {
            paint(&line, Paint::Good)
        } else {
            line
        };
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_row() {
        let rows = rows();
        assert_eq!(rows.len(), DRIVER.lines().count() - 1);
        let launch = rows.iter().find(|row| row.export == "cuLaunchKernel");
        assert!(launch.is_some_and(|row| row.served));
    }
}
