//! The reports of a case do not depend on the number of workers, the order of blocks, or the engine.
//!
//! Each case runs in a few settings, which its name selects. `MARGAY_CHECKS_ALL=1` runs each case in all settings,
//! which takes several minutes. `MARGAY_CHECKS_ONLY=TEXT` runs only the cases whose names (`FILE/CASE`) contain TEXT.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use margay_tests::checks::{Setting, all_settings, files, read, reports};

/// Number of settings in which each case runs, with and without the race detector.
const SAMPLES: usize = 2;

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

/// Returns the settings in which a case runs. Each setting runs for many cases.
fn settings(name: &str, races: bool) -> Vec<Setting> {
    let mut all = all_settings(races);
    if std::env::var_os("MARGAY_CHECKS_ALL").is_some_and(|value| value == "1") {
        return all;
    }
    let mut hasher = DefaultHasher::new();
    (name, races).hash(&mut hasher);
    let first = hasher.finish() as usize;
    let sample = (0..SAMPLES).map(|at| all.swap_remove((first >> (8 * at)) % all.len()));
    sample.collect()
}

fn test(path: &Path, name: &str) -> Result<(), String> {
    let text = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let cases = read(&text(path)?).map_err(|error| format!("{name}.cu: {error}"))?;
    let ptx = text(&path.with_extension("ptx"))?;
    let only = std::env::var("MARGAY_CHECKS_ONLY").unwrap_or_default();
    let mut wrong = String::new();
    for case in &cases {
        let full = format!("{name}/{}", case.name);
        if !full.contains(&only) {
            continue;
        }
        // Without the race detector, threads run in parallel, and the values that a race decides differ between runs.
        let is_racy = case.stated().any(|one| one.tool == "racecheck");
        for races in [true, false].into_iter().filter(|races| *races || !is_racy) {
            let mut first = None;
            for setting in settings(&full, races) {
                let found = reports(setting, &format!("{name}.cu"), &ptx, case);
                let (other, expected) = first.get_or_insert_with(|| (setting, found.clone()));
                if *expected != found {
                    let _ = writeln!(wrong, "{full}\n  {other:?}:");
                    let _ = writeln!(wrong, "    {expected:#?}\n  {setting:?}:\n    {found:#?}");
                }
            }
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong),
    }
}
