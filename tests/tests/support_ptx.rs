//! Generates the support table of PTX (`docs/support-ptx.csv`), and checks that file tests cover it.
//!
//! A row of the support table is a line of the syntax table for one head (the instruction's name).
//! The file tests determine which engines run the form of a row, so `margay support` lists only
//! tested forms as supported. `BLESS=1 cargo nextest run -E 'binary(support_ptx)'` or `cargo xtask
//! support` writes the table.

use std::fmt::Write;
use std::path::Path;

use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use margay_ptx::{Action, Form, forms_of, heads};
use margay_tests::ptx_files::{Coverage, Runs, Shown};

/// Returns all lines of the syntax table, grouped by head.
fn forms() -> Vec<&'static Form> {
    let mut all: Vec<&'static str> = heads().collect();
    all.sort_unstable();
    all.into_iter()
        .flat_map(|head| forms_of(head).iter().copied())
        .collect()
}

/// Returns all lists of types that a form accepts.
fn type_lists(form: &Form) -> impl Iterator<Item = Vec<OpType>> {
    form.type_lists().into_iter().map(|list| {
        let types = list
            .iter()
            .map(|name| OpType::from_name(name).unwrap_or_default());
        types.collect()
    })
}

/// Checks that the launches of file tests execute each row of the op table, or fail with an error that names the row.
#[test]
fn every_row_of_the_op_table_has_a_file_test_or_literal_case() {
    let coverage = Coverage::of_all_files();
    let has_one = |row: &Opcode| {
        // Only checking runs and observed kernels contain these; `tests/checks` and `runtime/tests/observe.rs` have their
        // tests.
        if matches!(
            row,
            Opcode::CheckAccess | Opcode::CheckFence | Opcode::ObserveAccess | Opcode::ObserveEvent
        ) {
            return true;
        }
        coverage
            .rows
            .get(row)
            .is_some_and(|shown| shown.runs != Runs::Nobody || shown.why == row.name())
    };
    let missing: Vec<&str> = Opcode::ALL
        .iter()
        .filter(|row| !has_one(row))
        .map(|row| row.name())
        .collect();
    assert!(missing.is_empty(), "no file test shows {missing:?}");
}

#[test]
fn every_form_and_type_has_a_file_test_or_literal_case() {
    let coverage = Coverage::of_all_files();
    let mut missing = String::new();
    let (mut count, mut all) = (0, 0);
    for form in forms() {
        if matches!(form.action, Action::LeftOut(_)) {
            continue;
        }
        for types in type_lists(form) {
            all += 1;
            // Only modules with 32-bit addresses contain these forms; `tests/abi/narrow.c` has their tests.
            if form.head == "cvta" && types[0].bits() == 32 {
                continue;
            }
            if coverage.of_form(form, &types).is_none() {
                count += 1;
                let names: Vec<&str> = types.iter().map(|ty| ty.name()).collect();
                writeln!(missing, "{}  for {}", form.source, names.join(" ")).expect("grows");
            }
        }
    }
    assert!(count == 0, "{count} of {all} have no file test:\n{missing}");
}

/// Returns which engines run a form, the reason if no engine runs it, and the file test that shows
/// this. If the engines differ between the form's lists of types, returns the result for the list
/// that the fewest engines run.
fn judged(coverage: &Coverage, form: &Form) -> (&'static str, String, String) {
    if let Action::LeftOut(family) = form.action {
        return ("no", family.to_owned(), String::new());
    }
    let shown: Vec<&Shown> = type_lists(form)
        .filter_map(|types| coverage.of_form(form, &types))
        .collect();
    let Some(worst) = shown.iter().min_by_key(|shown| shown.runs) else {
        return ("no", "no file test".to_owned(), String::new());
    };
    match worst.runs {
        Runs::Nobody => ("no", worst.why.clone(), worst.file.clone()),
        Runs::Interpreter => ("interpreter", String::new(), worst.file.clone()),
        Runs::Both => ("yes", String::new(), worst.file.clone()),
    }
}

fn table() -> String {
    let coverage = Coverage::of_all_files();
    let mut text = String::from("head,shape,version,target,runs,reason,test\n");
    for form in forms() {
        let (runs, reason, test) = judged(&coverage, form);
        let version = match form.requirement.version.to_string() {
            none if none == "0.0" => String::new(),
            version => version,
        };
        let targets: Vec<String> = form
            .requirement
            .targets
            .iter()
            .map(ToString::to_string)
            .collect();
        writeln!(
            text,
            "{},{},{version},{},{runs},{reason},{test}",
            form.head,
            form.shape(),
            targets.join(" "),
        )
        .expect("strings take everything");
    }
    text
}

#[test]
fn the_table_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/support-ptx.csv");
    let table = table();
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &table).expect("docs/support-ptx.csv is written");
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        file == table,
        "docs/support-ptx.csv is stale: cargo xtask support"
    );
}
