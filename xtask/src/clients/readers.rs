//! Programs of others that read what Margay's tools write.
//!
//! The message classes of Perfetto's Python package decode timelines, and the frameworks of oneAPI deliver events of XPTI
//! to a subscriber. Both come from PyPI wheels with fixed versions.

use std::process::Command;
use std::time::Instant;

use super::venv::Venv;
use crate::{Outcome, exec};

/// A reader: its name and the function that runs its checks.
type Reader = (&'static str, fn() -> Outcome);

const READERS: &[Reader] = &[("perfetto", perfetto), ("xpti", xpti)];

/// Runs all readers. Returns the failures.
pub(super) fn run() -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, check) in READERS {
        let started = Instant::now();
        let checked = check();
        let seconds = started.elapsed().as_secs_f64();
        let verdict = if checked.is_ok() { "ok" } else { "WRONG" };
        println!("{name:<18} {:<20} {verdict:<6} {seconds:>6.1} s", "reader");
        wrong.extend(checked.err().map(|what| format!("{name}: {what}")));
    }
    wrong
}

/// Decodes the timelines of an example and of a program with the driver library.
fn perfetto() -> Outcome {
    let tests = exec::root().join("trace/timeline/tests");
    let venv = Venv::of("perfetto", &tests.join("requirements.txt"), None)?;
    // With --workspace, Cargo uses what it has built for the tests.
    let build = "build --release --workspace --example write_timeline";
    exec::run(exec::cargo().args(build.split(' ')))?;
    let files = ["perfetto", "chrome"].map(|format| (format, venv.folder().join(format)));
    for (format, file) in &files {
        let example = exec::release_dir().join("examples/write_timeline");
        exec::run(Command::new(example).arg(format).arg(file))?;
    }
    let decode = tests.join("decode.py");
    exec::run(
        Command::new(venv.python())
            .arg(decode)
            .args(files.map(|(_, file)| file)),
    )?;
    exec::run(
        Command::new(venv.python())
            .arg(tests.join("program.py"))
            .arg(exec::release_dir())
            .arg(exec::root().join("tests/abi")),
    )
}

/// Runs the tests of XPTI with the published frameworks.
fn xpti() -> Outcome {
    let script = exec::root().join("trace/xpti/tests/with-framework.sh");
    exec::run(Command::new("bash").arg(script))
}
