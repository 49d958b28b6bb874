//! `margay test`: runs PTX files whose comments state the expected results.
//!
//! [`margay_cli::filetest`] describes the format. Invariant: exit status 0 means that the command ran every file and
//! that every file met its expectations.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use margay_cli::filetest::driver::{Driver, Verdict};
use margay_cli::filetest::{Bench, bless_from_env, files};
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
  margay test --driver /usr/lib/x86_64-linux-gnu/libcuda.so.1 tests/ptx
  margay test --json tests/ptx | jq '.[] | select(.failures != [])'

The exit status is 1 if a file does not meet its expectations.";

/// The arguments of `margay test`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// PTX files, or folders that contain PTX files.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Run each launch once, through another driver library, such as a GPU's `libcuda.so.1`.
    #[arg(long, value_name = "PATH")]
    driver: Option<PathBuf>,
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
    let message = format!("running {} files", all.len());
    let run = runner(arguments.driver.as_deref())?;
    let results: Vec<(PathBuf, Verdict)> = with_progress(&message, || {
        all.into_iter()
            .map(|path| {
                let verdict = run(&path);
                (path, verdict)
            })
            .collect()
    });
    let good = results
        .iter()
        .all(|(_, verdict)| verdict.failures.is_empty());
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

/// A function that runs one file.
type Runner = Box<dyn Fn(&Path) -> Verdict>;

/// Returns the function that runs files: with the runtime and every setting, or with another driver.
fn runner(driver: Option<&Path>) -> Result<Runner, String> {
    if let Some(path) = driver {
        let driver = Driver::open(path)?;
        return Ok(Box::new(move |file| driver.run(file)));
    }
    let bench = Bench::new(bless_from_env()).map_err(|error| error.to_string())?;
    Ok(Box::new(move |file| Verdict {
        failures: bench.run(file),
        ..Verdict::default()
    }))
}

fn to_json((path, verdict): &(PathBuf, Verdict)) -> Value {
    let failures: Vec<Value> = verdict
        .failures
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
    let mut row = json!({"file": path.display().to_string(), "failures": failures});
    if verdict.judged + verdict.not_judged > 0 {
        row["judged"] = verdict.judged.into();
        row["not_judged"] = verdict.not_judged.into();
    }
    row
}

fn summary(results: &[(PathBuf, Verdict)]) -> String {
    let mut text = String::new();
    let wrong = |(_, verdict): &&(PathBuf, Verdict)| !verdict.failures.is_empty();
    for (path, verdict) in results.iter().filter(wrong) {
        let _ = writeln!(text, "{}", paint(&path.display().to_string(), Paint::Bad));
        for failure in &verdict.failures {
            let _ = writeln!(text, "  {failure}");
        }
    }
    let bad = results.iter().filter(wrong).count();
    let line = format!("{} of {} files passed", results.len() - bad, results.len());
    let colour = if bad == 0 { Paint::Good } else { Paint::Bad };
    let _ = writeln!(text, "{}", paint(&line, colour));
    let not_judged: usize = results.iter().map(|(_, verdict)| verdict.not_judged).sum();
    if not_judged > 0 {
        let _ = writeln!(
            text,
            "{not_judged} launches not judged: their expectations hold for Margay only, or they would never end"
        );
    }
    text
}
