//! `margay check`: runs a CUDA program with checks (`margay::checks`), reports the findings and sets an exit code for
//! CI.
//!
//! The program runs as a child process. It and its own children append their findings to one file ([`record`]), which
//! this process reads after the program has ended. [`filter`] selects the findings that count; [`frame`], [`json`],
//! [`html`], [`sarif`] and [`suppressions`] write these findings. Invariant: reports depend only on the findings and
//! not on their order in the file.

mod accepted;
pub(crate) mod files;
mod filter;
mod frame;
pub(crate) mod html;
mod json;
mod options;
pub(crate) mod record;
pub(crate) mod runtime_api;
mod sarif;
pub(crate) mod signals;
pub(crate) mod source;
mod summary;
mod suppressions;
pub(crate) mod words;
pub(crate) mod xml;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use margay::checks::Tool;
use margay_cli::input;

use crate::output::{Failure, Outcome, Report, colours, note};
use crate::run;
use filter::{Choice, Selection};
use frame::{Content, Style};
use options::{Options, Processes, YesNo};
use record::Log;
use summary::Summary;
use suppressions::Suppressions;

const EXAMPLES: &str = "\
Examples:
  margay check -- ./reduction
  margay check --tool memcheck,racecheck --report findings.html -- ./reduction
  margay check --report findings.sarif --error-exitcode 3 -- pytest tests
  margay check --xml --save known.xml -- ./reduction
  margay check --suppressions known.xml -- ./reduction

The report is printed on standard error when the program has ended; each kind and place is reported once. The exit code
is the program's, if that is not 0; else that of --error-exitcode if there are errors. docs/checks.md lists the
checks.";

/// The arguments of `margay check`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    run: run::Options,
    #[command(flatten)]
    options: Options,
    /// The program and its arguments.
    #[arg(
        required_unless_present = "read",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM",
        value_hint = clap::ValueHint::CommandWithArguments
    )]
    program: Vec<OsString>,
}

/// The findings and the exit status of a program that has ended, or the findings of an earlier run
/// that `--save` saved.
struct Ended {
    log: Log,
    pid: u32,
    /// The exit status of the program; `None` if `--read` has read the findings from a file.
    status: Option<ExitStatus>,
}

/// The file format of a report.
#[derive(Clone, Copy)]
enum Form {
    Json,
    Html,
    Sarif,
}

impl Form {
    fn of(path: &Path) -> Result<Form, String> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("json") => Ok(Form::Json),
            Some("html") => Ok(Form::Html),
            Some("sarif") => Ok(Form::Sarif),
            _ => Err(format!(
                "--report {}: the name must end in .json, .html or .sarif",
                path.display()
            )),
        }
    }
}

/// Runs the program, or reads the findings of an earlier run (`--read`), and reports the findings.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let options = &arguments.options;
    crate::output::survive_limits().map_err(|error| format!("cannot handle signals: {error}"))?;
    // Errors of options are reported before the program runs.
    let mut reports = Vec::new();
    for path in &options.output.report {
        reports.push((path, Form::of(path)?));
    }
    for name in [&options.output.log_file, &options.output.save]
        .into_iter()
        .flatten()
    {
        files::expand(name, 0)?;
    }
    let mut suppressions = Suppressions::default();
    for path in &options.output.suppressions {
        suppressions.read(path)?;
    }
    for text in options.notes() {
        note(&format!("margay: {text}"));
    }
    if arguments.run.reverse && options.tools().contains(&Tool::Race) {
        note("margay: --reverse has no effect, because racecheck runs blocks and warps in order");
    }
    let ended = match &options.output.read {
        Some(name) => read(name)?,
        None => execute(arguments)?,
    };
    let launches = &ended.log.launches;
    let selection = filter::select(
        ended.log.records.clone(),
        &Choice {
            tools: options.tools(),
            spaces: options.initcheck_address_space,
            copies: options.check_api_memory_access == YesNo::Yes,
            races: options.race_level(),
        },
        &suppressions,
    );
    let summary = Summary {
        damaged: ended.log.damaged,
        incomplete: ended.log.incomplete,
        one_order: ended.log.one_order,
        leaks_unexamined: ended.log.leaks_unexamined,
        kernels_skipped: ended.log.kernels_skipped,
        not_initialised: is_uninitialised(options, &ended, &selection),
        ..Summary::of(&selection)
    };
    let content = Content {
        records: &selection.records,
        launches,
        summary,
        end: ended.status.and_then(|status| end_of(options, status)),
        session: (options.output.print_session_details && ended.status.is_some())
            .then(|| (ended.pid, command_line(&arguments.program))),
    };
    print(&content, options, ended.pid)?;
    save(options, &ended, &selection)?;
    let program = command_line(&arguments.program);
    for (path, form) in reports {
        let records = &selection.records;
        match form {
            Form::Json => files::write_json(path, &json::report(records, &summary)),
            Form::Html => files::write(path, &html::report(records, &summary, &program)),
            Form::Sarif => {
                let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
                files::write_json(path, &sarif::report(records, &folder))
            }
        }?;
    }
    let status = match ended.status.map_or(0, exit_code) {
        0 if summary.all_errors() > 0 => options.output.error_exitcode,
        code => code,
    };
    Ok(Report {
        text: String::new(),
        status,
    })
}

/// Reads the findings that an earlier run has saved.
fn read(name: &str) -> Result<Ended, Failure> {
    let pid = std::process::id();
    let path = files::expand(name, pid)?;
    let bytes = input::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    if bytes.trim_ascii_start().starts_with(b"<") {
        let text = "--read reads files that --save has written without --xml";
        return Err(Failure::from(format!("{}: {text}", path.display())));
    }
    let mut log = record::parse(&bytes, None);
    log.incomplete |= !log.has_end;
    Ok(Ended {
        log,
        pid,
        status: None,
    })
}

/// Runs the program, and reads the findings of its processes.
fn execute(arguments: &Arguments) -> Result<Ended, Failure> {
    let file =
        files::LogFile::new().map_err(|e| format!("cannot create a file for the findings: {e}"))?;
    let mut command = run::command(&arguments.run, &arguments.program)?;
    command
        .envs(arguments.options.environment())
        .env("MARGAY_CHECK_LOG", file.path());
    if let Some(list) = arguments.options.preloaded() {
        command.env("LD_PRELOAD", list);
    }
    let failed = |error| run::cannot_run(&arguments.program, &error);
    let (pid, status) = signals::run(&mut command).map_err(failed)?;
    let bytes = fs::read(file.path()).unwrap_or_default();
    let only = match arguments.options.target_processes {
        Processes::All => None,
        Processes::ApplicationOnly => Some(u64::from(pid)),
    };
    let mut log = record::parse(&bytes, only);
    log.incomplete |= !file.is_complete();
    let is_running = |pid: &&u64| margay::memory::start_of(**pid as i32).is_some();
    for running in log.started.iter().filter(is_running) {
        log.incomplete = true;
        margay::files::tell(format_args!(
            "process {running} still runs; it prints the findings that it does not report here"
        ));
    }
    log.leaks_unexamined |= !log.exits.is_subset(&log.exited);
    Ok(Ended {
        log,
        pid,
        status: Some(status),
    })
}

/// Returns whether the program has not initialised CUDA although `--require-cuda-init` requires it.
fn is_uninitialised(options: &Options, ended: &Ended, selection: &Selection) -> bool {
    let must = options.require_cuda_init == YesNo::Yes && !options.tools().is_empty();
    let is_read = ended.status.is_none();
    let has_trace = !ended.log.started.is_empty() || !selection.records.is_empty();
    must && !is_read && !has_trace && !ended.log.incomplete
}

/// Prints the report to standard error, or to the file of `--log-file`.
fn print(content: &Content, options: &Options, pid: u32) -> Result<(), Failure> {
    let output = &options.output;
    let style = Style {
        tools: options.tools(),
        level: options.print_level(),
        limit: output.print_limit,
        races: output.racecheck_report,
        backtrace: output.show_backtrace,
        callers: [output.num_callers_host, output.num_callers_device].map(|number| match number {
            0 => usize::MAX,
            number => number,
        }),
        strips: output.strip_paths == YesNo::Yes,
        quiet: output.quiet,
        prefix: output.prefix.clone(),
        demangle: output.demangle,
        colours: output.log_file.is_none() && colours(&io::stderr()),
    };
    let text = frame::write(content, &style);
    match &output.log_file {
        Some(name) => files::write(&files::expand(name, pid)?, &text)?,
        None => {
            // If standard error is closed, this command cannot report the error.
            let _ = io::stderr().lock().write_all(text.as_bytes());
        }
    }
    Ok(())
}

/// Writes the file of `--save`.
fn save(options: &Options, ended: &Ended, selection: &Selection) -> Result<(), Failure> {
    let Some(name) = &options.output.save else {
        return Ok(());
    };
    let text = match options.output.xml {
        true => suppressions::to_xml(&selection.records),
        false => json::saved(&ended.log, &selection.records),
    };
    Ok(files::write(&files::expand(name, ended.pid)?, &text)?)
}

/// Returns a line for the report if a signal ended the program, or if the program's exit code is not 0 and
/// `--check-exit-code` is not `no`.
fn end_of(options: &Options, status: ExitStatus) -> Option<String> {
    let code = match options.output.check_exit_code {
        YesNo::Yes => status.code(),
        YesNo::No => None,
    };
    match (status.signal(), code) {
        (Some(signal), _) => Some(format!(
            "Error: Target application was ended by signal {signal}"
        )),
        (None, Some(code)) if code != 0 => Some(format!(
            "Target application returned an error (exit code {code})"
        )),
        _ => None,
    }
}

/// Returns the exit code of a program, or 128 plus the signal number if a signal ended it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or(0);
    u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(u8::MAX)
}

/// Returns the program and its arguments in one line.
pub(crate) fn command_line(program: &[OsString]) -> String {
    let words: Vec<_> = program.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_programs_are_told() {
        let options = options::tests::options("");
        let exit = ExitStatus::from_raw;
        assert_eq!(end_of(&options, exit(0)), None);
        assert_eq!(
            end_of(&options, exit(3 << 8)).as_deref(),
            Some("Target application returned an error (exit code 3)")
        );
        assert_eq!(
            end_of(&options, exit(11)).as_deref(),
            Some("Error: Target application was ended by signal 11")
        );
        assert_eq!(
            [exit(0), exit(3 << 8), exit(11)].map(exit_code),
            [0, 3, 139]
        );
        let quiet = options::tests::options("--check-exit-code no");
        assert_eq!(end_of(&quiet, exit(3 << 8)), None);
    }

    #[test]
    fn names_decide_the_form_of_a_report() {
        assert!(matches!(Form::of(Path::new("a.b.json")), Ok(Form::Json)));
        assert!(matches!(Form::of(Path::new("x/a.sarif")), Ok(Form::Sarif)));
        assert!(matches!(Form::of(Path::new("a.html")), Ok(Form::Html)));
        for wrong in ["a.txt", "json", ".html"] {
            assert!(Form::of(Path::new(wrong)).is_err(), "{wrong}");
        }
    }
}
