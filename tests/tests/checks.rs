//! Runs the corpus of the checking tools, with one test for each file of `tests/checks`.
//! `margay_tests::checks` describes the format of the files.
//!
//! `MARGAY_CHECKS_TABLE=1` prints the results of each class of cases, and the cases whose findings
//! differ from their directives. `MARGAY_CHECKS_ONLY=TEXT` runs only the cases whose names
//! (`FILE/CASE`) contain TEXT. `BLESS=1` rewrites the list of pending cases.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use margay_tests::checks::{Table, files, folder, pending, read, run};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = files().expect("tests/checks holds files").into_iter();
    let trials = trials.map(|path| {
        let name = path.file_stem().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        Trial::test(name.clone(), move || Ok(test(&path, &name)?))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| value == "1")
}

fn test(path: &Path, name: &str) -> Result<(), String> {
    let text = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let cases = read(&text(path)?).map_err(|error| format!("{name}.cu: {error}"))?;
    let ptx = text(&path.with_extension("ptx"))?;
    let known = pending(&text(&folder().join("pending.txt"))?);
    let only = std::env::var("MARGAY_CHECKS_ONLY").unwrap_or_default();

    let mut table = Table::default();
    let (mut details, mut wrong) = (String::new(), String::new());
    let (mut ran, mut failing) = (BTreeSet::new(), BTreeSet::new());
    for case in &cases {
        let full = format!("{name}/{}", case.name);
        if !full.contains(&only) {
            continue;
        }
        let difference = run(&format!("{name}.cu"), &ptx, case);
        table.add(case, &difference);
        let line = format!("{full} (line {})\n{difference}", case.line);
        match (difference.is_empty(), known.contains(&full)) {
            (true, true) => {
                let _ = writeln!(wrong, "{full} passes: remove it from pending.txt");
            }
            (false, false) => wrong.push_str(&line),
            _ => {}
        }
        if !difference.is_empty() {
            details.push_str(&line);
            failing.insert(full.clone());
        }
        ran.insert(full);
    }
    let prefix = format!("{name}/");
    if only.is_empty() {
        for gone in known.iter().filter(|full| full.starts_with(&prefix)) {
            if !ran.contains(gone) {
                let _ = writeln!(wrong, "{gone} is in pending.txt, but there is no such case");
            }
        }
    }
    if is_set("MARGAY_CHECKS_TABLE") {
        let report = format!("{name}\n{table}{details}\n");
        let _ = std::io::stderr().lock().write_all(report.as_bytes());
    }
    if is_set("BLESS") && only.is_empty() {
        return bless(&prefix, &failing).map_err(|error| error.to_string());
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong),
    }
}

/// Replaces the cases of one file in the list of pending cases by `failing`. A lock ensures that
/// only one test process at a time changes the list.
fn bless(prefix: &str, failing: &BTreeSet<String>) -> std::io::Result<()> {
    let mut file = File::options()
        .read(true)
        .write(true)
        .open(folder().join("pending.txt"))?;
    file.lock()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let comments = text.lines().filter(|line| line.starts_with('#'));
    let mut lines: Vec<String> = comments.map(str::to_owned).collect();
    let mut names = pending(&text);
    names.retain(|name| !name.starts_with(prefix));
    names.extend(failing.iter().cloned());
    lines.extend(names);
    file.rewind()?;
    file.set_len(0)?;
    file.write_all((lines.join("\n") + "\n").as_bytes())
}
