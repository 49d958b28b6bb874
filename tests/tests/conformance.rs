//! Tests the front end with the conformance sets: valid programs must parse, invalid programs must be rejected with an
//! error on the right line, and the number of forms that are lowered to IR must not decrease.
//!
//! `tests/data/conformance/counts.txt` contains the number of successful programs for each set in
//! which not all programs succeed. If a count is below the recorded count, the test fails. `BLESS=1
//! cargo test ... -- --test-threads 1` updates the file if counts are higher. The test prints the
//! kinds of the remaining failures.
#![allow(
    clippy::print_stdout,
    reason = "the counts are for people who run this test"
)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use margay_frontend::resolve::{check, resolve};
use margay_frontend::{Diagnostic, Parsed, SourceFile, parse};
use margay_tests::conformance::{forms, module_forms, modules, rejected};

/// The counts that `counts.txt` contains, by name.
struct Records {
    counts: BTreeMap<String, usize>,
}

impl Records {
    fn path() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/conformance/counts.txt")
    }

    fn read() -> Self {
        let text = fs::read_to_string(Self::path()).unwrap_or_default();
        let row = |line: &str| {
            let (name, count) = line.split_once(" = ")?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        Records {
            counts: text.lines().filter_map(row).collect(),
        }
    }

    /// Fails if `count` is below the recorded count. With `BLESS=1`, records `count` if it is
    /// higher.
    fn check(mut self, name: &str, count: usize, of: usize) {
        println!("{name}: {count} of {of}");
        let record = self.counts.get(name).copied().unwrap_or(0);
        assert!(
            count >= record,
            "{name}: {count}, but it was {record} before"
        );
        if count > record && std::env::var_os("BLESS").is_some_and(|v| v == "1") {
            self.counts.insert(name.to_owned(), count);
            let mut text = String::new();
            for (name, count) in &self.counts {
                writeln!(text, "{name} = {count}").expect("text grows");
            }
            fs::write(Self::path(), text).expect("the records can be written");
        }
    }
}

/// The kinds of failures, each with its number of failures and one example. The most frequent kind
/// is printed first.
#[derive(Default)]
struct Kinds {
    kinds: BTreeMap<String, (usize, String)>,
}

impl Kinds {
    fn add(&mut self, kind: &str, example: &str) {
        let entry = self
            .kinds
            .entry(kind.to_owned())
            .or_insert_with(|| (0, example.to_owned()));
        entry.0 += 1;
    }

    fn print(self) {
        let mut rows: Vec<_> = self.kinds.into_iter().collect();
        rows.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        for (kind, (count, example)) in rows {
            println!("{count:>6} {kind:<28} {example}");
        }
    }
}

fn parsed(name: &str, text: &str) -> Parsed {
    parse(SourceFile::new(name, text))
}

/// Returns all errors of a program that are found before it is lowered: syntax errors, and errors
/// in names, declarations and forms.
fn errors(parsed: &Parsed) -> Vec<Diagnostic> {
    let mut all: Vec<Diagnostic> = parsed.diagnostics.clone();
    all.extend(check(parsed));
    all.retain(Diagnostic::is_error);
    all
}

#[test]
fn every_form_parses() {
    for form in forms() {
        let parsed = parsed(&form.id, &form.module);
        if let Some(error) = parsed.diagnostics.iter().find(|d| d.is_error()) {
            panic!("{}\n{}", form.text, error.summary(&parsed.source));
        }
    }
}

#[test]
fn every_form_is_valid() {
    let forms = forms();
    let total = forms.len();
    let mut valid = 0;
    let mut kinds = Kinds::default();
    for form in forms {
        let parsed = parsed(&form.id, &form.module);
        match errors(&parsed).first() {
            None => valid += 1,
            Some(error) => {
                let example = format!("{}  {}", form.text, error.summary(&parsed.source));
                kinds.add(&format!("refused {}", form.opcode), &example);
            }
        }
    }
    kinds.print();
    Records::read().check("forms that are valid", valid, total);
}

#[test]
fn forms_lower_or_are_named() {
    let forms = forms();
    let total = forms.len();
    let (mut accepted, mut complete) = (0, 0);
    let mut kinds = Kinds::default();
    for form in forms {
        let parsed = parsed(&form.id, &form.module);
        match margay_frontend::lower(&parsed, &resolve(&parsed)) {
            Err(errors) => {
                let error = errors
                    .first()
                    .map(|e| e.summary(&parsed.source))
                    .unwrap_or_default();
                kinds.add(
                    &format!("refused {}", form.opcode),
                    &format!("{}  {error}", form.text),
                );
            }
            Ok(module) => {
                accepted += 1;
                let id = module.kernel(&form.id).expect("the form's kernel is there");
                match module.functions[id].unsupported.first() {
                    None => complete += 1,
                    Some((_, what)) => kinds.add(
                        &format!("left out {}", form.opcode),
                        &format!("{}  {what}", form.text),
                    ),
                }
            }
        }
    }
    kinds.print();
    Records::read().check("forms that load", accepted, total);
    Records::read().check("forms that lower completely", complete, total);
}

#[test]
fn invalid_programs_are_rejected_on_the_right_line() {
    let cases = rejected();
    let total = cases.len();
    let (mut caught, mut placed) = (0, 0);
    let mut kinds = Kinds::default();
    for case in cases {
        let parsed = parsed(&case.file, &case.text);
        let errors = errors(&parsed);
        let lines: Vec<usize> = errors
            .iter()
            .map(|e| e.position(&parsed.source).line as usize)
            .collect();
        let right = case.line == 0 || lines.contains(&case.line);
        caught += usize::from(!errors.is_empty());
        placed += usize::from(!errors.is_empty() && right);
        if errors.is_empty() || !right {
            let what = if errors.is_empty() {
                "accepted"
            } else {
                "wrong line"
            };
            let example = format!(
                "{} line {}: {} (ours: {lines:?})",
                case.file, case.line, case.offending
            );
            kinds.add(&format!("{what} {}", case.class), &example);
        }
    }
    kinds.print();
    Records::read().check("invalid programs rejected", caught, total);
    Records::read().check("invalid programs rejected on the right line", placed, total);
}

#[test]
fn directive_programs_are_accepted_or_rejected() {
    let cases = modules();
    let total = cases.len();
    let mut right = 0;
    let mut kinds = Kinds::default();
    for case in cases {
        let parsed = parsed(&case.file, &case.text);
        let errors = errors(&parsed);
        if errors.is_empty() == case.accepted {
            right += 1;
            continue;
        }
        let what = if case.accepted { "refused" } else { "accepted" };
        let error = errors
            .first()
            .map(|e| e.summary(&parsed.source))
            .unwrap_or_default();
        kinds.add(
            &format!("{what} {}", case.category),
            &format!("{} {error}", case.file),
        );
    }
    kinds.print();
    Records::read().check("directive programs judged rightly", right, total);
}

/// Checks that each program is accepted if and only if ptxas accepts it, and that accepted programs can be lowered.
#[test]
fn calls_declarations_and_directives_are_judged_as_by_ptxas() {
    let mut wrong = Vec::new();
    for form in module_forms() {
        // ptxas was run for 64-bit hosts. Margay accepts modules with 32-bit addresses (`tests/abi/narrow.c`).
        if form
            .message
            .contains("mismatches with .address_size of 32 bits")
        {
            continue;
        }
        let parsed = parsed("form", &form.text);
        let mut errors = errors(&parsed);
        if errors.is_empty() {
            let lowered = margay_frontend::lower(&parsed, &resolve(&parsed));
            errors.extend(lowered.err().into_iter().flatten());
        }
        if errors.is_empty() != form.accepted {
            let error = errors.first().map(|e| e.summary(&parsed.source));
            wrong.push(format!(
                "{} ({}): ours {:?}, ptxas {:?}\n{}",
                form.class,
                form.arch,
                error.unwrap_or_default(),
                form.message,
                form.text
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\n{} differ",
        wrong.join("\n"),
        wrong.len()
    );
}
