//! `margay profile`: counts exactly what the kernels of a program do, and shows it as tables, as a web page, or as data.
//!
//! The program runs as a child process. It and its own children write their profiles to a folder ([`folder`]). This
//! process reads and merges them (`margay_profile`).

mod csv;
mod diff;
mod folder;
mod html;
mod table;
mod units;

use std::path::{Path, PathBuf};

use margay_cli::input;
use margay_profile::Profile;

use crate::check::{command_line, exit_code, files, signals};
use crate::output::{Failure, Outcome, Report, colours, note};
use crate::run;

const EXAMPLES: &str = "\
Examples:
  margay profile -- ./reduction
  margay profile --report profile.html --report profile.json -- python train.py
  margay profile --count reuse -- ./matmul
  margay profile show profile.json --lines 50
  margay profile diff before.json after.json

All numbers except times are properties of the program: they are the same on each machine. docs/profile.md explains
them.";

/// The arguments of `margay profile`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: run::Options,
    #[command(flatten)]
    output: Output,
    /// What to count: `launches` (as fast as without the profiler), `instructions`, `all` (also accesses and barriers),
    /// or `reuse` (also reuse distances, which takes longest).
    #[arg(long, value_name = "WHAT", default_value = "all")]
    count: Count,
    /// Write the profile to a file, whose name must end in .html, .json or .csv. May be repeated.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    report: Vec<PathBuf>,
    #[command(flatten)]
    program: run::Program,
}

/// What to do with profiles that were saved.
#[derive(clap::Subcommand)]
enum Action {
    /// Show a profile that was saved as JSON, or convert it.
    Show(Show),
    /// Compare two profiles that were saved as JSON.
    Diff(Diff),
}

#[derive(clap::Args)]
struct Show {
    /// The profile.
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    #[command(flatten)]
    output: Output,
    /// Write the profile to a file, whose name must end in .html, .json or .csv. May be repeated.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    report: Vec<PathBuf>,
}

#[derive(clap::Args)]
struct Diff {
    /// The profile before the change.
    #[arg(value_hint = clap::ValueHint::FilePath)]
    before: PathBuf,
    /// The profile after the change.
    #[arg(value_hint = clap::ValueHint::FilePath)]
    after: PathBuf,
}

/// What the tables contain.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Output {
    /// Show only kernels whose names contain this text. May be repeated.
    #[arg(long, value_name = "TEXT")]
    kernel: Vec<String>,
    /// The number of source lines to show for each kernel.
    #[arg(long, value_name = "N", default_value_t = 10)]
    lines: usize,
    /// The number of kernels to show.
    #[arg(long, value_name = "N", default_value_t = 20)]
    kernels: usize,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Count {
    Launches,
    Instructions,
    All,
    Reuse,
}

impl Count {
    /// Returns the value of `MARGAY_PROFILE_COUNTS`.
    fn name(self) -> &'static str {
        match self {
            Count::Launches => "launches",
            Count::Instructions => "instructions",
            Count::All => "all",
            Count::Reuse => "reuse",
        }
    }
}

/// The file format of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Html,
    Json,
    Csv,
}

impl Form {
    fn of(path: &Path) -> Result<Form, String> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("html") => Ok(Form::Html),
            Some("json") => Ok(Form::Json),
            Some("csv") => Ok(Form::Csv),
            _ => Err(format!(
                "--report {}: the name must end in .html, .json or .csv",
                path.display()
            )),
        }
    }
}

/// Runs the program and shows its profile, or shows or compares saved profiles.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.action {
        Some(Action::Show(show)) => {
            let forms = forms(&show.report)?;
            let profile = read(&show.file)?;
            write_reports(&profile, &forms)?;
            Ok(Report::of(table::text(
                &profile,
                &show.output,
                colours(&std::io::stdout()),
            )))
        }
        Some(Action::Diff(diff)) => {
            let [before, after] = [read(&diff.before)?, read(&diff.after)?];
            Ok(Report::of(diff::text(&before, &after)))
        }
        None => profile(arguments),
    }
}

fn forms(paths: &[PathBuf]) -> Result<Vec<(&PathBuf, Form)>, Failure> {
    let forms = paths.iter().map(|path| Ok((path, Form::of(path)?)));
    forms.collect()
}

fn read(path: &Path) -> Result<Profile, Failure> {
    let name = path.display();
    let bytes = input::read(path).map_err(|error| format!("{name}: {error}"))?;
    let profile = Profile::from_json(&bytes).map_err(|error| format!("{name}: {error}"))?;
    Ok(profile)
}

fn write_reports(profile: &Profile, forms: &[(&PathBuf, Form)]) -> Result<(), Failure> {
    for &(path, form) in forms {
        let text = match form {
            Form::Html => html::page(profile),
            Form::Json => profile.to_json() + "\n",
            Form::Csv => csv::text(profile),
        };
        files::write(path, &text)?;
    }
    Ok(())
}

fn profile(arguments: &Arguments) -> Outcome {
    let forms = forms(&arguments.report)?;
    let folder = folder::Folder::new()
        .map_err(|error| format!("cannot create a folder for the profiles: {error}"))?;
    let mut command = run::command(&arguments.run, &arguments.program.words)?;
    command
        .env("MARGAY_PROFILE", folder.path())
        .env("MARGAY_PROFILE_COUNTS", arguments.count.name());
    let failed = |error| run::cannot_run(&arguments.program.words, &error);
    let (_, status) = signals::run(&mut command).map_err(failed)?;
    match folder.read()? {
        Some(mut profile) => {
            profile.program = command_line(&arguments.program.words);
            // The program owns standard output, so the tables go to standard error.
            let text = table::text(&profile, &arguments.output, colours(&std::io::stderr()));
            note(text.trim_end());
            write_reports(&profile, &forms)?;
        }
        None => note("margay: the program did not use CUDA, so there is no profile"),
    }
    Ok(Report {
        text: String::new(),
        status: exit_code(status),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_decide_the_form_of_a_report() {
        assert_eq!(Form::of(Path::new("a.b.json")), Ok(Form::Json));
        assert_eq!(Form::of(Path::new("x/a.csv")), Ok(Form::Csv));
        assert_eq!(Form::of(Path::new("a.html")), Ok(Form::Html));
        for wrong in ["a.txt", "json", ".html"] {
            assert!(Form::of(Path::new(wrong)).is_err(), "{wrong}");
        }
    }
}
