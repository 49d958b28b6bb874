//! Runs the file tests of `tests/ptx`, one test for each file; `margay_cli::filetest` describes the format.
//!
//! `BLESS=1` updates the text of expected diagnostics, and nothing else.

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use margay_cli::filetest::{Bench, bless_from_env, files};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("ptx");
    let trials = files(&root)
        .expect("tests/ptx holds files")
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).unwrap_or(&path);
            let name = name.with_extension("").display().to_string();
            Trial::test(name, move || {
                let bench = Bench::new(bless_from_env()).map_err(|e| e.to_string())?;
                let failures = bench.run(&path);
                if failures.is_empty() {
                    return Ok(());
                }
                let lines: Vec<String> = failures.iter().map(ToString::to_string).collect();
                Err(format!("{}\n{}", path.display(), lines.join("\n")).into())
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
