//! `margay test`: PTX files that say in comments what they must do.
//!
//! The format is described in [`margay_cli::filetest`]. Invariant: exit status 0 means that every file was
//! run and did what it says.

use std::fmt::Write;
use std::path::PathBuf;

use margay_cli::filetest::{Bench, Failure as Wrong, bless_from_env, files};
use serde_json::{Value, json};

use crate::output::{Outcome, Paint, Report, paint, with_progress};

const EXAMPLES: &str = "\
A file is PTX with directives in comments:
  //@ kernel: double
  //@ cases: u32 = u32
  //| 1 = 2
  //| 0x80000000 = 0

Each launch runs in the interpreter and in native code, forward with one worker and in reverse
order with three. BLESS=1 writes the text of expected diagnostics, and nothing else.

Examples:
  margay test kernel.ptx
  margay test tests/ptx
  margay test --json tests/ptx | jq '.[] | select(.failures != [])'

The exit status is 1 when a file does not do what it says.";

/// The arguments of `margay test`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// PTX files, or folders of them.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the files.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut all = Vec::new();
    for path in &arguments.paths {
        all.extend(files(path)?);
    }
    let bench = Bench::new(bless_from_env())?;
    let message = format!("running {} files", all.len());
    let results: Vec<(PathBuf, Vec<Wrong>)> = with_progress(&message, || {
        all.into_iter()
            .map(|path| {
                let failures = bench.run(&path);
                (path, failures)
            })
            .collect()
    });
    let good = results.iter().all(|(_, failures)| failures.is_empty());
    let text = if arguments.json {
        let rows: Vec<Value> = results.iter().map(to_json).collect();
        format!("{}\n", Value::Array(rows))
    } else {
        summary(&results)
    };
    Ok(Report {
        text,
        status: u8::from(!good),
    })
}

fn to_json((path, failures): &(PathBuf, Vec<Wrong>)) -> Value {
    let failures: Vec<Value> = failures
        .iter()
        .map(|failure| {
            json!({
                "line": failure.line,
                "kernel": failure.kernel,
                "setting": failure.setting.map(|setting| setting.to_string()),
                "what": failure.what,
            })
        })
        .collect();
    json!({"file": path.display().to_string(), "failures": failures})
}

fn summary(results: &[(PathBuf, Vec<Wrong>)]) -> String {
    let mut text = String::new();
    let mut bad = 0;
    for (path, failures) in results.iter().filter(|(_, failures)| !failures.is_empty()) {
        bad += 1;
        let _ = writeln!(text, "{}", paint(&path.display().to_string(), Paint::Bad));
        for failure in failures {
            let _ = writeln!(text, "  {failure}");
        }
    }
    let line = format!(
        "{} of {} files are right",
        results.len() - bad,
        results.len()
    );
    let colour = if bad == 0 { Paint::Good } else { Paint::Bad };
    let _ = writeln!(text, "{}", paint(&line, colour));
    text
}
