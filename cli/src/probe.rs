//! `margay probe`: runs a program with Neutrino's probes in its kernels.
//!
//! The options are those of Neutrino's own command. Environment variables pass the settings to the driver library
//! (`margay_trace::probe`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use margay_probe::Faults;

use crate::check::{exit_code, signals};
use crate::output::{Failure, Outcome, Report, note};
use crate::run;

const EXAMPLES: &str = "\
Examples:
  margay probe -p block_sched -- ./vector_add
  margay probe -p dmat --tracedir out -k vecadd -- python train.py
  margay probe -p my_probe.py --callback analyse.py -- ./vector_add

docs/probe.md explains probe files and results.";

/// The arguments of `margay probe`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    run: run::Options,
    /// Probe file: TOML, a Python program (.py), or the name of a shipped one: block_sched, dmat, gmem_bytes,
    /// program_progress, tensorop or warp_sched.
    #[arg(short, long, value_name = "PROBE")]
    probe: PathBuf,
    /// Folder that gets the folder of results.
    #[arg(long, value_name = "FOLDER", default_value = "./trace", value_hint = clap::ValueHint::DirPath)]
    tracedir: PathBuf,
    /// Real driver library. Margay is the driver, so this option of Neutrino has no effect.
    #[arg(long, value_name = "LIBRARY", hide_short_help = true)]
    driver: Option<PathBuf>,
    /// Python interpreter that runs the callback.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// Do not probe kernels whose name contains one of these texts, which colons separate.
    #[arg(long, value_name = "NAMES")]
    filter: Option<String>,
    /// Probe only kernels whose name contains one of these texts, which colons separate.
    #[arg(short, long, value_name = "NAMES")]
    kernel: Option<String>,
    /// Python program that gets the path of each result file.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    callback: Option<PathBuf>,
    /// Write no results: run each kernel also without probes, and log both times.
    #[arg(long, conflicts_with = "memusage")]
    benchmark: bool,
    /// Write no results: log how much memory the maps need, and run kernels without probes.
    #[arg(long)]
    memusage: bool,
    /// Probe in the manner of the original engine, with its limits.
    #[arg(long)]
    compat: bool,
    /// Keep one trait of the original engine: points are compared with any part of an instruction (substring), ADDR
    /// omits constant offsets (base), text after a branch does not run if the branch is taken (behind).
    #[arg(long, value_name = "TRAIT", conflicts_with = "compat",
          value_parser = clap::builder::PossibleValuesParser::new(["substring", "base", "behind"]))]
    quirk: Vec<String>,
    #[command(flatten)]
    program: run::Program,
}

/// Runs the program, and names the folders of results.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let probe = probe(&arguments.probe, arguments.compat)?;
    if arguments.driver.is_some() {
        note("margay: --driver has no effect");
    }
    let folder = absolute("--tracedir", &arguments.tracedir)?;
    let mut command = run::command(&arguments.run, &arguments.program.words)?;
    command
        .env("MARGAY_PROBE", probe)
        .env("MARGAY_PROBE_DIR", &folder)
        .env("MARGAY_PROBE_PYTHON", &arguments.python);
    let mode = match (arguments.benchmark, arguments.memusage) {
        (true, _) => "benchmark",
        (_, true) => "memory",
        _ => "results",
    };
    command.env("MARGAY_PROBE_MODE", mode);
    let texts = [
        ("MARGAY_PROBE_KERNELS", arguments.kernel.clone()),
        ("MARGAY_PROBE_KERNELS_EXCLUDED", arguments.filter.clone()),
        ("MARGAY_PROBE_QUIRKS", Some(arguments.quirk.join(","))),
        (
            "MARGAY_PROBE_COMPAT",
            arguments.compat.then(|| "1".to_owned()),
        ),
    ];
    for (name, value) in texts {
        match value.filter(|value| !value.is_empty()) {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    match &arguments.callback {
        Some(callback) => command.env("MARGAY_PROBE_CALLBACK", callback),
        None => command.env_remove("MARGAY_PROBE_CALLBACK"),
    };
    let before = folders(&folder);
    let failed = |error| run::cannot_run(&arguments.program.words, &error);
    let (_, status) = signals::run(&mut command).map_err(failed)?;
    let new: Vec<PathBuf> = folders(&folder).difference(&before).cloned().collect();
    if new.is_empty() {
        note("margay: the program did not use CUDA, so there are no results");
    }
    for folder in new {
        note(&format!(
            "margay: {}: the folder of results",
            folder.display()
        ));
    }
    Ok(Report {
        text: String::new(),
        status: exit_code(status),
    })
}

/// Reads the probe file, so that its errors appear before the program starts. Returns its path, or its name if it is a
/// shipped one.
fn probe(path: &Path, compat: bool) -> Result<PathBuf, Failure> {
    let name = path.display().to_string();
    let faults = match compat {
        true => Faults::Original,
        false => Faults::Fixed,
    };
    let text = match fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(_) if margay_probe::tool(&name).is_some() => None,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(format!("{name}: {error}").into()),
    };
    let loaded = margay_probe::load(&name, text.as_deref(), faults);
    loaded.map_err(|error| error.to_string())?;
    match text {
        Some(_) => absolute("--probe", path),
        None => Ok(path.to_owned()),
    }
}

fn absolute(option: &str, path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| format!("{option}: {error}").into())
}

/// Returns the folders in a folder.
fn folders(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}
