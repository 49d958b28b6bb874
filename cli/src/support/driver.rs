//! The support table of the driver API: the status of each entry point (`works`, `refuses` or `unsupported`).
//!
//! `cargo xtask support` generates the table from the list in the driver library, and this program embeds the table. A
//! test of `ffi` fails if the table is out of date. Invariant: every entry point of the list has a
//! row in the table.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::output::{Paint, paint};

/// The table in CSV format. Its columns are: family, export, symbol, since, stream, status, result, parameters.
const DRIVER: &str = include_str!("../../../docs/support-driver.csv");

struct Row {
    family: &'static str,
    export: &'static str,
    since: &'static str,
    /// The status of the entry point: `works`, `refuses` or `unsupported`.
    status: &'static str,
    /// For a `refuses` row, the result that every call returns; empty if the result differs between calls.
    result: &'static str,
}

fn rows() -> Vec<Row> {
    DRIVER.lines().skip(1).filter_map(row).collect()
}

/// Parses a row; the family is quoted and may contain commas.
fn row(line: &'static str) -> Option<Row> {
    let (family, rest) = line.strip_prefix('"')?.split_once("\",")?;
    let mut fields = rest.split(',');
    let export = fields.next()?;
    let (_symbol, since, _stream) = (fields.next()?, fields.next()?, fields.next()?);
    Some(Row {
        family,
        export,
        since,
        status: fields.next()?,
        result: fields.next()?,
    })
}

/// Returns all rows as JSON.
pub(super) fn json() -> Value {
    Value::Array(rows().iter().map(to_json).collect())
}

fn to_json(row: &Row) -> Value {
    json!({
        "family": row.family,
        "export": row.export,
        "since": row.since,
        "status": row.status,
        "result": row.result,
    })
}

/// Groups the rows by family, in the table's order.
fn families(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|a, b| a.family == b.family)
}

fn count(rows: &[Row], status: &str) -> usize {
    rows.iter().filter(|row| row.status == status).count()
}

/// Returns the page that `docs/support-driver.md` contains.
pub(super) fn markdown() -> String {
    let rows = &rows();
    let mut text = String::from("# Driver API\n\n");
    let _ = writeln!(
        text,
        "`cargo xtask support` writes this page from the table of entry points (`ffi/src/api`). The table has {} rows, one \
         for each function that the library exports.\n\n\
         - **works** ({}): the function is implemented, and calls can succeed.\n\
         - **refuses** ({}): the function checks its arguments, but no call succeeds, because the device lacks the feature. \
         Where every call has the same result, the table names it.\n\
         - **unsupported** ({}): the function is not implemented. Every call returns `CUDA_ERROR_NOT_SUPPORTED`, and the first one \
         prints a warning.\n\n\
         A test calls every function marked **refuses** or **unsupported** and compares the result.",
        rows.len(),
        count(rows, "works"),
        count(rows, "refuses"),
        count(rows, "unsupported"),
    );
    for family in families(rows) {
        let _ = writeln!(
            text,
            "\n## {}\n\n| entry point | since | status |\n|---|---|---|",
            family[0].family
        );
        for row in family {
            let (export, since) = (row.export, row.since);
            let status = match row.result {
                "" => row.status.to_owned(),
                result => format!("{}: `{result}`", row.status),
            };
            let _ = writeln!(text, "| `{export}` | {since} | {status} |");
        }
    }
    text
}

/// Returns, for each family, the number of entry points that work.
pub(super) fn summary() -> String {
    let rows = &rows();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: {} of {} entry points work",
        paint("Driver API", Paint::Heading),
        count(rows, "works"),
        rows.len()
    );
    for family in families(rows) {
        let (good, all) = (count(family, "works"), family.len());
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
        let known = ["works", "refuses", "unsupported"];
        assert!(rows.iter().all(|row| known.contains(&row.status)));
        let launch = rows.iter().find(|row| row.export == "cuLaunchKernel");
        assert!(launch.is_some_and(|row| row.status == "works"));
    }
}
