//! Tests that the findings of a case in the corpus of the checking tools do not depend on the
//! number of workers, the order of blocks, the engine, or the chunk width.
//!
//! Each case runs with a few combinations of these properties (settings), which a hash of the
//! case's name determines. `MARGAY_CHECKS_ALL=1` runs each case with all settings, which takes
//! almost an hour. `MARGAY_CHECKS_ONLY=TEXT` runs only the cases whose names (`FILE/CASE`) contain
//! TEXT.
//!
//! All kernels of a process have the same chunk width, so the test of a file starts a process for
//! each width ([`WIDTH`]). Each of these processes prints the findings of its cases, and the test
//! compares them.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};
use margay::EngineChoice;
use margay_tests::checks::{Setting, all_settings, files, read, reports};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = files().expect("tests/checks holds files").into_iter();
    let trials = trials.map(|path| {
        let name = path.file_stem().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        Trial::test(name.clone(), move || Ok(test(&path, &name)?))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// The chunk widths of native code (`MARGAY_LANES`). The compiler chooses the width if the text is empty.
const WIDTHS: [&str; 6] = ["", "1", "4", "8", "16", "32"];
/// The environment variable with the index in [`WIDTHS`] for a process that runs cases with this width.
const WIDTH: &str = "MARGAY_TEST_CHECKS_WIDTH";
/// The start of each printed line that contains the findings of a run.
const RUN: &str = "run\t";

/// Returns the settings with which a case runs, and for each setting the index of its chunk width.
/// Usually, these are two settings of native code and one setting of the interpreter. Different
/// cases use different settings, so that each setting is used for many cases. The interpreter has
/// no chunks, so it runs only with the first width.
fn settings(name: &str, races: bool) -> Vec<(Setting, usize)> {
    let widths = |setting: Setting| match setting.engine {
        EngineChoice::Interpreter => 0..1,
        _ => 0..WIDTHS.len(),
    };
    let all = all_settings(races).into_iter();
    let all: Vec<(Setting, usize)> = all
        .flat_map(|setting| widths(setting).map(move |width| (setting, width)))
        .collect();
    if std::env::var_os("MARGAY_CHECKS_ALL").is_some_and(|value| value == "1") {
        return all;
    }
    let mut hasher = DefaultHasher::new();
    (name, races).hash(&mut hasher);
    let first = hasher.finish() as usize;
    let is_native = |(setting, _): &(Setting, usize)| setting.engine == EngineChoice::Native;
    let (native, interpreter): (Vec<_>, Vec<_>) = all.into_iter().partition(is_native);
    vec![
        native[first % native.len()],
        interpreter[(first >> 8) % interpreter.len()],
        native[(first >> 16) % native.len()],
    ]
}

/// Runs the cases of a file that run with the chunk width at the index `width` in [`WIDTHS`], and
/// prints the texts of their findings.
fn print_reports(path: &Path, name: &str, width: usize) -> Result<(), String> {
    let text = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let cases = read(&text(path)?).map_err(|error| format!("{name}.cu: {error}"))?;
    let ptx = text(&path.with_extension("ptx"))?;
    let only = std::env::var("MARGAY_CHECKS_ONLY").unwrap_or_default();
    // The test harness may have begun a line.
    let mut printed = String::from("\n");
    for case in &cases {
        let full = format!("{name}/{}", case.name);
        if !full.contains(&only) {
            continue;
        }
        // Without the race detector, threads run in parallel, and the values that a race decides differ between runs.
        let is_racy = case.stated().any(|one| one.tool == "racecheck");
        for races in [true, false].into_iter().filter(|races| *races || !is_racy) {
            let settings = settings(&full, races).into_iter();
            for (setting, _) in settings.filter(|(_, of)| *of == width) {
                let found = reports(setting, &format!("{name}.cu"), &ptx, case);
                let lanes = WIDTHS[width];
                let run = format!("{full}, races {races}\t{setting:?} lanes {lanes:?}");
                let _ = writeln!(printed, "{RUN}{run}\t{found:?}");
            }
        }
    }
    let mut out = std::io::stdout().lock();
    out.write_all(printed.as_bytes())
        .map_err(|error| error.to_string())
}

fn test(path: &Path, name: &str) -> Result<(), String> {
    if let Ok(width) = std::env::var(WIDTH) {
        let width = width.parse().map_err(|_| format!("{WIDTH}={width}"))?;
        return print_reports(path, name, width);
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut first: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut wrong = String::new();
    let mut runs = 0;
    for (width, lanes) in WIDTHS.iter().enumerate() {
        let mut command = Command::new(&program);
        command
            .args([name, "--exact", "--nocapture"])
            .env(WIDTH, width.to_string());
        match lanes.is_empty() {
            true => command.env_remove("MARGAY_LANES"),
            false => command.env("MARGAY_LANES", lanes),
        };
        let output = command.output().map_err(|error| error.to_string())?;
        let printed = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{lanes} lanes: {printed}{errors}"));
        }
        for line in printed.lines().filter_map(|line| line.strip_prefix(RUN)) {
            let mut parts = line.splitn(3, '\t').map(str::to_owned);
            let (Some(case), Some(setting), Some(found)) =
                (parts.next(), parts.next(), parts.next())
            else {
                return Err(format!("not a run: {line}"));
            };
            runs += 1;
            let (other, expected) = first
                .entry(case.clone())
                .or_insert_with(|| (setting.clone(), found.clone()));
            if *expected != found {
                let _ = writeln!(wrong, "{case}\n  {other}:\n    {expected}");
                let _ = writeln!(wrong, "  {setting}:\n    {found}");
            }
        }
    }
    match wrong.is_empty() && (runs >= 2 * first.len()) {
        true => Ok(()),
        false => Err(format!("{runs} runs of {} cases\n{wrong}", first.len())),
    }
}
