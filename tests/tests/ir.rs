//! Tests the IR of all PTX texts of a set that can be lowered. The verifier must accept the IR
//! after lowering and after each pass, and the text form of the IR must preserve all its content.
//!
//! The texts are a sample of the instruction forms (all with `MARGAY_FULL=1`), all module programs of the conformance
//! data, and the PTX of `tests/cuda`.

use std::io::Read;

use flate2::read::GzDecoder;
use margay_frontend::resolve::resolve;
use margay_frontend::{SourceFile, lower, parse};
use margay_ir::module::Module;
use margay_ir::pass;
use margay_ir::verify;
use margay_tests::conformance::{forms_sample, modules, sample_seed};

/// Calls `check` with the name and the IR of every text that can be lowered; returns the number of
/// these texts.
fn each_module(mut check: impl FnMut(&str, &Module)) -> usize {
    let mut count = 0;
    let mut one = |name: &str, text: &[u8]| {
        let parsed = parse(SourceFile::from_bytes(name, text));
        if parsed.has_errors() {
            return;
        }
        if let Ok(module) = lower(&parsed, &resolve(&parsed)) {
            count += 1;
            check(name, &module);
        }
    };
    for form in forms_sample(sample_seed(), 4000) {
        one(&form.text, form.module.as_bytes());
    }
    for case in modules() {
        one(&case.file, case.text.as_bytes());
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("cuda/ptx");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut text = std::fs::read(&path).unwrap();
        if path.extension().is_some_and(|e| e == "gz") {
            let packed = std::mem::take(&mut text);
            GzDecoder::new(&*packed).read_to_end(&mut text).unwrap();
        }
        one(&path.display().to_string(), &text);
    }
    count
}

#[test]
fn every_module_verifies_behind_every_pass() {
    let mut wrong = Vec::new();
    let count = each_module(|name, module| {
        let problems = verify::module(module);
        wrong.extend(problems.iter().map(|p| format!("{name}: lowered: {p}")));
        if !problems.is_empty() {
            return;
        }
        for (id, function) in module.functions.iter() {
            if !function.has_body() {
                continue;
            }
            pass::prepare_watched(module, id, None, |pass, _, function| {
                let problems = verify::function(module, function, pass.stage);
                let line = |p: &verify::Problem| format!("{name}: {}: {p}", pass.name);
                wrong.extend(problems.iter().map(line));
            });
        }
    });
    assert!(count > 3000, "{count}");
    let shown: Vec<_> = wrong.iter().take(40).cloned().collect();
    assert!(
        wrong.is_empty(),
        "{} problems:\n{}",
        wrong.len(),
        shown.join("\n")
    );
}

/// Returns a description of the first difference between the two texts of the module `name`.
fn difference(name: &str, printed: &str, again: &str) -> String {
    let mut lines = printed.lines().zip(again.lines());
    let at = lines.find(|(a, b)| a != b);
    let (a, b) = at.unwrap_or(("(one text is longer)", ""));
    format!("{name}:\n  {a}\n  {b}")
}

#[test]
fn printed_modules_parse_and_print_the_same() {
    let mut wrong = Vec::new();
    each_module(|name, module| {
        let printed = module.to_string();
        match margay_ir::parse::module(&printed) {
            Err(error) => wrong.push(format!("{name}: {error}")),
            Ok(parsed) => {
                let again = parsed.to_string();
                if again != printed {
                    wrong.push(difference(name, &printed, &again));
                }
                let problems = verify::module(&parsed);
                wrong.extend(problems.iter().map(|p| format!("{name}: parsed: {p}")));
                assert_eq!(parsed.by_name.len(), module.by_name.len());
                assert_eq!(parsed.symbols_by_name, module.symbols_by_name, "{name}");
            }
        }
        for (id, function) in module.functions.iter() {
            if function.has_body() {
                let prepared = pass::prepare(module, id, None).to_string();
                match margay_ir::parse::function(&prepared) {
                    Err(error) => wrong.push(format!("{name}: prepared: {error}")),
                    Ok(parsed) if parsed.to_string() == prepared => {}
                    Ok(parsed) => wrong.push(difference(name, &prepared, &parsed.to_string())),
                }
            }
        }
    });
    let shown: Vec<_> = wrong.iter().take(20).cloned().collect();
    assert!(
        wrong.is_empty(),
        "{} problems:\n{}",
        wrong.len(),
        shown.join("\n")
    );
}
