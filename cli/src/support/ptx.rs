//! The table of PTX instructions: a row is one form of an instruction.
//!
//! The table is generated from the syntax table and from the coverage of the file tests. The test
//! `tests/tests/support_ptx.rs` fails if the table is out of date. Invariant: every line of the
//! syntax table has a row in this table.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::output::{Paint, paint};

/// The table in CSV format. Its columns are: head, shape, version, target, runs, reason, test.
const PTX: &str = include_str!("../../../docs/support-ptx.csv");

struct Row {
    head: &'static str,
    shape: &'static str,
    version: &'static str,
    target: &'static str,
    /// Whether the form runs: `yes`, `interpreter` (not as native code) or `no`.
    runs: &'static str,
    reason: &'static str,
    test: &'static str,
}

fn rows() -> Vec<Row> {
    PTX.lines().skip(1).filter_map(row).collect()
}

fn row(line: &'static str) -> Option<Row> {
    let mut fields = line.split(',');
    Some(Row {
        head: fields.next()?,
        shape: fields.next()?,
        version: fields.next()?,
        target: fields.next()?,
        runs: fields.next()?,
        reason: fields.next()?,
        test: fields.next()?,
    })
}

fn by_head(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|a, b| a.head == b.head)
}

fn running(rows: &[Row]) -> usize {
    rows.iter().filter(|row| row.runs != "no").count()
}

/// Returns all rows as JSON.
pub(super) fn json() -> Value {
    let row = |row: &Row| {
        json!({
            "head": row.head,
            "shape": row.shape,
            "version": row.version,
            "target": row.target,
            "runs": row.runs,
            "reason": row.reason,
            "test": row.test,
        })
    };
    Value::Array(rows().iter().map(row).collect())
}

/// Returns the page that `docs/support-ptx.md` contains: first the forms that run, grouped by instruction, and then the
/// other forms, grouped by the reason why they do not run.
pub(super) fn markdown() -> String {
    let rows = rows();
    let mut text = String::from("# PTX\n\n");
    let _ = writeln!(
        text,
        "`cargo xtask support` writes this page from the syntax table (`frontend/ptx/tables`). A row is one way to write an \
         instruction. Of {} rows, {} run: each of these has a file test in `tests/ptx`, named in the last column \
         (`meanings/...`: literal cases in `ir/ops/tests/meanings`). These rows run in native code and in \
         the interpreter, except those marked *interpreter*, which run in the interpreter only. The other rows are \
         listed under [Left out](#left-out): a module that contains them loads, and a launch of a kernel that reaches \
         one fails with an error that names it.\n\n\
         In a shape, braces enclose what may be missing, and `a|b` is a choice. The order of modifiers is mostly free.",
        rows.len(),
        running(&rows),
    );
    let mut left_out: Vec<&Row> = Vec::new();
    for head in by_head(&rows) {
        let (good, bad): (Vec<&Row>, Vec<&Row>) = head.iter().partition(|row| row.runs != "no");
        left_out.extend(bad);
        if good.is_empty() {
            continue;
        }
        let _ = writeln!(
            text,
            "\n## {}\n\n| shape | PTX | target | runs | test |\n|---|---|---|---|---|",
            head[0].head
        );
        for row in good {
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} | {} |",
                row.shape.replace('|', "\\|"),
                row.version,
                row.target,
                row.runs,
                row.test
            );
        }
    }
    text.push_str(
        "\n## Left out\n\n| because of | instructions | ways to write them |\n|---|---|---|\n",
    );
    left_out.sort_by_key(|row| row.reason);
    for family in left_out.chunk_by(|a, b| a.reason == b.reason) {
        let mut heads: Vec<String> = family.iter().map(|row| format!("`{}`", row.head)).collect();
        heads.sort();
        heads.dedup();
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            family[0].reason,
            heads.join(" "),
            family.len()
        );
    }
    text
}

/// Returns, for each instruction, the number of forms that run. Instructions share one line of the
/// result if all of their forms run.
pub(super) fn summary() -> String {
    let rows = rows();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: {} of {} ways to write an instruction run",
        paint("PTX", Paint::Heading),
        running(&rows),
        rows.len()
    );
    let complete: Vec<&str> = by_head(&rows)
        .filter(|head| running(head) == head.len())
        .map(|head| head[0].head)
        .collect();
    let _ = writeln!(text, "  {}", paint(&complete.join(" "), Paint::Good));
    for head in by_head(&rows).filter(|head| running(head) < head.len()) {
        let mut reasons: Vec<&str> = head.iter().map(|row| row.reason).collect();
        reasons.sort_unstable();
        reasons.dedup();
        reasons.retain(|reason| !reason.is_empty());
        let _ = writeln!(
            text,
            "  {:<24} {:>4} of {:>4}  left out: {}",
            head[0].head,
            running(head),
            head.len(),
            reasons.join(", ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_row() {
        let rows = rows();
        assert_eq!(rows.len(), PTX.lines().count() - 1);
        assert!(
            rows.iter()
                .all(|row| matches!(row.runs, "yes" | "interpreter" | "no"))
        );
        assert!(
            rows.iter()
                .all(|row| (row.runs == "no") == row.test.is_empty() || !row.reason.is_empty())
        );
        let add = rows.iter().find(|row| row.head == "add");
        assert!(add.is_some_and(|row| row.runs == "yes"));
    }
}
