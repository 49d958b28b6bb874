//! `cargo xtask clients [--all|--quick] [--no-suites|--resume|--collect] [NAME ...]`: tests clients
//! (published Python packages that use CUDA), with their default installation, on Margay.
//!
//! `tests/clients/manifest.toml` lists the clients. For each client, the folder `.cache/clients`
//! contains a Python virtual environment with fixed versions of the client's wheels. The client's
//! minimal programs run under `margay run` and check their own results. If the client has a test
//! suite, the suite runs as well. The command writes the results of the last run of each client to
//! `docs/clients.csv`, and a readable list of them to `docs/clients.md`.
//!
//! A test suite may be split into pieces. The command stores the results of each piece in the
//! folder `reports` of the environment. With `--resume`, a piece does not run again if its stored
//! results are newer than the driver library. With `--collect`, the command runs no program and no
//! suite; it uses the stored results, however old they are. The table then states how many pieces
//! have results.
//!
//! `--quick` runs the first program of each client that the manifest marks as `quick`, and the programs of others that
//! read what Margay's tools write (`readers`). It writes nothing. CI uses this option. If neither a name nor `--all` is given, clients whose wheels are
//! larger than a gigabyte in total do not run. The environment variable `MARGAY_CLIENTS` contains
//! the path of the folder for the virtual environments. The command fails if a minimal program
//! fails, if a test fails unexpectedly, or if a known failure does not occur.

mod junit;
mod manifest;
mod readers;
mod samples;
mod table;
mod venv;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::e2e::process::Process;
use crate::{Outcome, exec};
use manifest::{Client, Suite};
use table::{Row, Table};
use venv::Venv;

/// Maximum running time of a client's minimal program. It is sufficient for every program even on a
/// slow machine.
const PROGRAM_LIMIT: Duration = Duration::from_secs(600);
/// The time limit of a suite is its cost in the manifest (in minutes) times this factor.
const PATIENCE: u32 = 6;
/// The message about a known failure that did not occur.
const GONE: &str = "no failure any more";
/// The reason of a known failure begins with this prefix if Margay does not cause the failure. The table counts such
/// failures separately from other failures.
const APART: &str = "apart:";
/// Minimum time limit of a piece of a suite, in seconds.
const SHORTEST: u64 = 1200;

/// The options of the command line.
#[derive(Default)]
struct Options {
    quick: bool,
    all: bool,
    no_suites: bool,
    resume: bool,
    collect: bool,
    names: Vec<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        for arg in args {
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--all" => options.all = true,
                "--no-suites" => options.no_suites = true,
                "--resume" => options.resume = true,
                "--collect" => options.collect = true,
                flag if flag.starts_with('-') => return Err(format!("no option {flag}")),
                name => options.names.push(name.to_owned()),
            }
        }
        Ok(options)
    }

    fn wants(&self, client: &Client) -> bool {
        if !self.names.is_empty() {
            return self.names.contains(&client.name);
        }
        match self.quick {
            true => client.quick,
            false => self.all || !client.large,
        }
    }
}

/// Returns the folder that contains the manifest and the clients' programs.
fn here() -> PathBuf {
    exec::root().join("tests/clients")
}

pub(crate) fn run(args: &[String]) -> Outcome {
    let options = Options::parse(args)?;
    let clients = manifest::load(&here())?;
    let known = |name: &&String| clients.iter().all(|client| client.name != **name);
    if let Some(name) = options.names.iter().find(known) {
        return Err(format!("no client {name} in tests/clients/manifest.toml"));
    }
    if !options.collect {
        exec::build_programs()?;
    }
    let mut table = Table::load()?;
    let mut wrong = Vec::new();
    for client in clients.iter().filter(|client| options.wants(client)) {
        let tried = try_client(client, &options, &mut table);
        if let Err(what) = tried {
            println!("{:<18} {what}", client.name);
            wrong.push(format!("{}: {what}", client.name));
        }
    }
    match options.quick {
        true => wrong.extend(readers::run()),
        false => table.store(&clients)?,
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("\n  {}", wrong.join("\n  "))),
    }
}

fn try_client(client: &Client, options: &Options, table: &mut Table) -> Outcome {
    let venv = Venv::get(client, &here())?;
    let version = venv.version(&client.package)?;
    let mut wrong = Vec::new();
    let programs = match options.quick {
        true => &client.programs[..1],
        false if options.collect => &[],
        false => &client.programs[..],
    };
    for program in programs {
        let started = Instant::now();
        let ran = run_program(client, &venv, program);
        let seconds = started.elapsed().as_secs_f64();
        let verdict = if ran.is_ok() { "ok" } else { "WRONG" };
        println!(
            "{:<18} {program:<20} {verdict:<6} {seconds:>6.1} s",
            client.name
        );
        table.set(Row::of_program(client, &version, program, ran.is_ok()));
        wrong.extend(ran.err());
    }
    if let Some(suite) = client
        .suite
        .as_ref()
        .filter(|_| !options.quick && !options.no_suites)
    {
        match run_suite(client, suite, &venv, options) {
            Ok((row, news)) => {
                println!("{:<18} {}", client.name, row.summary());
                table.set(Row { version, ..row });
                wrong.extend(news);
            }
            Err(what) => wrong.push(format!("suite: {what}")),
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n    ")),
    }
}

/// Returns the command that runs the client's Python interpreter under `margay run`, with the
/// environment variables that the manifest states for the client.
fn command(client: &Client, venv: &Venv) -> Result<Command, String> {
    let mut command = Command::new(exec::release_dir().join("margay"));
    command
        .args(["run", "--time-limit", "1200", "--"])
        .arg(venv.python());
    for (name, value) in &client.environment {
        let value = value.replace("HERE", &here().to_string_lossy());
        let value = match value.contains("PACKAGES") {
            true => value.replace("PACKAGES", &venv.packages()?),
            false => value,
        };
        command.env(name, value);
    }
    Ok(command)
}

fn run_program(client: &Client, venv: &Venv, program: &str) -> Outcome {
    let mut command = command(client, venv)?;
    command.arg(here().join(&client.name).join(program));
    let ended = Process::start(&mut command)?.wait(PROGRAM_LIMIT, None)?;
    let passed = ended.stdout.lines().any(|line| line.starts_with("PASS "));
    if ended.code == Some(0) && passed {
        return Ok(());
    }
    let said: Vec<&str> = ended.stderr.lines().rev().take(8).collect();
    let said: Vec<&str> = said.into_iter().rev().collect();
    Err(format!(
        "{program} ended with {}: {}",
        ended.how(),
        said.join("\n        ")
    ))
}

/// Runs a suite piece by piece, or uses stored results. Returns the suite's row of the table, and
/// its problems ([`judge`]).
fn run_suite(
    client: &Client,
    suite: &Suite,
    venv: &Venv,
    options: &Options,
) -> Result<(Row, Vec<String>), String> {
    let sources = suite
        .sources
        .as_ref()
        .map(|[repository, revision]| venv::sources(repository, revision));
    let sources = sources.transpose()?.unwrap_or_default();
    if !options.collect {
        println!(
            "{:<18} suite, about {} minutes ...",
            client.name, suite.cost
        );
    }
    let (mut results, mut missing) = (junit::Results::default(), Vec::new());
    for piece in pieces(suite) {
        let report = report(venv, piece)?;
        if options.collect && !report.exists() {
            missing.push(piece);
            continue;
        }
        let fill = |text: &String| {
            text.replace("SOURCES", &sources.to_string_lossy())
                .replace("REPORT", &report.to_string_lossy())
                .replace("HERE", &here().to_string_lossy())
                .replace("PIECE", piece)
        };
        let keep = options.collect || (options.resume && is_fresh(&report));
        if !keep {
            let _ = std::fs::remove_file(&report);
            let mut command = command(client, venv)?;
            command.args(suite.command.iter().map(fill));
            let how = run_piece(command, suite, venv)?;
            if let Err(what) = junit::read(&report) {
                println!("{:<18} {piece}: {what}; it {how}", client.name);
            }
        }
        results.add(junit::read(&report).unwrap_or_else(|_| junit::Results::none(piece)));
    }
    let known = known_failures(&here().join(&client.name))?;
    let (mut row, mut news) = judge(client, &results, &known);
    if !missing.is_empty() {
        // A known failure may be in a piece without results. Known failures that do not occur are therefore not
        // reported.
        news.retain(|what| !what.starts_with(GONE));
        let (all, ran) = (pieces(suite).len(), pieces(suite).len() - missing.len());
        let missing = missing.join(" ");
        row.leave_out(&format!("{ran} of {all} pieces ran; without {missing}"));
    }
    Ok((row, news))
}

/// Returns the pieces of a suite. The suite's command runs once for each piece.
fn pieces(suite: &Suite) -> Vec<&str> {
    match suite.pieces.is_empty() {
        true => vec!["all"],
        false => suite.pieces.iter().map(String::as_str).collect(),
    }
}

/// Returns the path of the file that contains the results of a piece.
fn report(venv: &Venv, piece: &str) -> Result<PathBuf, String> {
    let folder = venv.folder().join("reports");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = piece.chars().map(plain).collect();
    Ok(folder.join(name).with_extension("xml"))
}

/// Returns whether the file of results `report` is newer than the driver library.
fn is_fresh(report: &Path) -> bool {
    let time = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    let library = time(&exec::release_dir().join("libcuda.so"));
    library
        .zip(time(report))
        .is_some_and(|(library, report)| report > library)
}

/// Runs a piece of a suite. Returns a text that states how the process ended and contains the last
/// lines of its error output.
fn run_piece(mut command: Command, suite: &Suite, venv: &Venv) -> Result<String, String> {
    command
        .current_dir(venv.folder())
        .env("MARGAY_LOG", "off")
        .env("MARGAY_QUIET", "1");
    let limit = 60 * u64::from(suite.cost * PATIENCE);
    let share = (limit / pieces(suite).len() as u64).max(SHORTEST);
    let ended = Process::start(&mut command)?.wait(Duration::from_secs(share), None)?;
    let last: Vec<&str> = ended.stderr.lines().rev().take(3).collect();
    Ok(format!("ended with {}: {}", ended.how(), last.join(" | ")))
}

/// The known failures of a suite. Each entry contains a part of a test's name, and the reason for
/// the failure.
type Known = Vec<(String, String)>;

fn known_failures(folder: &Path) -> Result<Known, String> {
    let path = folder.join("known-failures.txt");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Ok(Known::new());
    };
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (part, reason) = line
                .split_once(" | ")
                .ok_or_else(|| format!("{}: no reason in: {line}", path.display()))?;
            Ok((part.trim().to_owned(), reason.trim().to_owned()))
        })
        .collect()
}

/// Returns the suite's row of the table, and its problems: unexpected failures, and known failures
/// that did not occur.
fn judge(client: &Client, results: &junit::Results, known: &Known) -> (Row, Vec<String>) {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let mut met = vec![false; known.len()];
    let mut news = Vec::new();
    for failed in &results.failed {
        match known
            .iter()
            .position(|(part, _)| failed.contains(part.as_str()))
        {
            Some(at) => {
                met[at] = true;
                *reasons.entry(known[at].1.as_str()).or_default() += 1;
            }
            None => news.push(format!("fails: {failed}")),
        }
    }
    let gone = known.iter().zip(met).filter(|(_, met)| !met);
    news.extend(gone.map(|((part, _), _)| format!("{GONE}: {part}")));
    let apart = reasons.iter().filter(|(why, _)| why.starts_with(APART));
    let apart = apart.map(|(_, count)| count).sum();
    let reasons = reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"));
    (
        Row::of_suite(client, results, apart, reasons.collect()),
        news,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_compared_with_the_known_ones() {
        let client = &manifest::load(&here()).unwrap()[0];
        let results = junit::Results {
            tests: 10,
            skipped: 1,
            failed: vec!["a.Test::one".into(), "a.Test::two".into()],
        };
        let known = vec![
            ("::one".to_owned(), "apart: needs SASS".to_owned()),
            ("::three".to_owned(), "needs SASS".to_owned()),
        ];
        let (row, news) = judge(client, &results, &known);
        assert_eq!((row.tests, row.passed, row.skipped), (10, 7, 1));
        assert_eq!((row.apart, row.notes.as_str()), (1, "1 apart: needs SASS"));
        assert_eq!(news, ["fails: a.Test::two", "no failure any more: ::three"]);
    }

    #[test]
    fn the_manifest_and_the_lists_of_failures_are_well_formed() {
        for client in manifest::load(&here()).unwrap() {
            assert!(!client.programs.is_empty(), "{}", client.name);
            for program in &client.programs {
                assert!(
                    here().join(&client.name).join(program).exists(),
                    "{program}"
                );
            }
            assert!(here().join(&client.name).join("requirements.txt").exists());
            known_failures(&here().join(&client.name)).unwrap();
        }
    }
}
