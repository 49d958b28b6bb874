//! Runs the file tests of `tests/ptx`, with one test for each file, and the file tests that
//! `margay_tests::literal` writes. `margay_cli::filetest` describes the format of the files.
//!
//! `BLESS=1` updates the text of expected diagnostics, and nothing else.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use margay_cli::filetest::{Bench, Failure, bless_from_env, files};
use margay_tests::literal::{LiteralTest, literal_tests};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("ptx");
    let mut trials: Vec<Trial> = files(&root)
        .expect("tests/ptx holds files")
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).unwrap_or(&path);
            let name = name.with_extension("").display().to_string();
            Trial::test(name, move || Ok(run(&path, |_| String::new())?))
        })
        .collect();
    trials.extend(literal_tests().into_iter().map(|test| {
        let name = format!("{} {}", test.name, test.target);
        Trial::test(name, move || Ok(literal(&test)?))
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs the tests in a file. If expectations of the file are not satisfied, returns a text that
/// describes each of them; `remark` returns an explanation that is added.
fn run(path: &Path, remark: impl Fn(&Failure) -> String) -> Result<(), String> {
    let bench = Bench::new(bless_from_env()).map_err(|e| e.to_string())?;
    let failures = bench.run(path);
    if failures.is_empty() {
        return Ok(());
    }
    let lines = failures
        .iter()
        .map(|failure| format!("{failure}{}", remark(failure)));
    let lines: Vec<String> = lines.collect();
    Err(format!("{}\n{}", path.display(), lines.join("\n")))
}

/// Writes the file test `test` to the folder for temporary files of tests, and runs it. The file is
/// not deleted, so that `margay test` can run it again.
fn literal(test: &LiteralTest) -> Result<(), String> {
    let name = format!("{}-{}.ptx", test.name.replace('/', "-"), test.target);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, &test.text).map_err(|e| format!("{}: {e}", path.display()))?;
    run(&path, |failure| {
        let kernel = failure.kernel.as_deref();
        let cases = test
            .cases
            .iter()
            .filter(|case| Some(case.kernel.as_str()) == kernel);
        cases.map(|case| format!("\n    {}", case.case)).collect()
    })
}
