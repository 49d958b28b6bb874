//! `margay check`: runs a CUDA program with checks (`margay::checks`), prints a summary and sets an exit code for CI.
//!
//! The program runs as a child process, because this process counts the findings after the program ends.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::output::{Outcome, Report};
use crate::run;

const EXAMPLES: &str = "\
Examples:
  margay check -- ./reduction
  margay check --error-exitcode 0 --workers 1 -- python3 train.py

Findings go to standard error, each kind and place once. The exit code is the program's, if that is not 0; else
that of --error-exitcode when anything was found; remarks count for nothing. docs/checks.md lists what is looked for.";

/// The arguments of `margay check`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Exit code if the checks find something and the program itself exits with 0.
    #[arg(long, value_name = "N", default_value_t = 1)]
    error_exitcode: u8,
    #[command(flatten)]
    run: run::Arguments,
}

/// The file in which the program's checks record findings; dropping this value removes the file.
struct Log(PathBuf);

impl Log {
    fn new() -> std::io::Result<Log> {
        let name = format!("margay-check-{}.log", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::File::create(&path)?;
        Ok(Log(path))
    }

    /// Returns the number of findings and the number of remarks.
    fn lines(&self) -> (usize, usize) {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let findings = || text.lines().filter(|line| line.contains("\"kind\":"));
        let remark = |line: &&str| line.contains("\"severity\":\"info\"");
        let remarks = findings().filter(remark).count();
        (findings().count() - remarks, remarks)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs the program and counts the findings.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let log = Log::new().map_err(|e| format!("cannot make a file for what is found: {e}"))?;
    let mut command = run::command(&arguments.run)?;
    command
        .env("MARGAY_CHECK", "all")
        .env("MARGAY_CHECK_LOG", &log.0);
    let status = command
        .status()
        .map_err(|error| run::cannot_run(&arguments.run, &error))?;
    let (found, remarks) = log.lines();
    // If standard error is closed, the program cannot report the error.
    let _ = writeln!(io::stderr(), "margay: {}", summary(found, remarks));
    let status = match exit_code(status) {
        0 if found > 0 => arguments.error_exitcode,
        code => code,
    };
    Ok(Report {
        text: String::new(),
        status,
    })
}

/// Returns the summary line.
fn summary(found: usize, remarks: usize) -> String {
    let found = match found {
        0 => "check: nothing found".to_owned(),
        1 => "check: 1 place".to_owned(),
        n => format!("check: {n} places"),
    };
    match remarks {
        0 => found,
        1 => format!("{found}, 1 remark"),
        n => format!("{found}, {n} remarks"),
    }
}

/// Returns the exit code of a program, or 128 plus the signal number if a signal ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or(0);
    u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_counted_for_themselves() {
        let log = Log::new().expect("a file");
        fs::write(
            &log.0,
            "{\"kind\":\"a\",\"severity\":\"info\"}\n{\"kind\":\"b\",\"severity\":\"error\"}\n{\"event\":\"start\"}\n",
        )
        .expect("written");
        assert_eq!(log.lines(), (1, 1));
        assert_eq!(summary(0, 0), "check: nothing found");
        assert_eq!(summary(1, 1), "check: 1 place, 1 remark");
        assert_eq!(summary(0, 2), "check: nothing found, 2 remarks");
    }
}
