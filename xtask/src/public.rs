//! `cargo xtask public FOLDER [--only PART] [--missing] [--once] [--as-built]`: runs public CUDA programs on
//! `libcuda.so.1`.
//!
//! The programs belong to other projects and are not part of this repository. FOLDER contains the
//! programs, with device code that NVIDIA's compiler has compiled to PTX, and `programs.toml`,
//! which describes how to run them:
//!
//! ```toml
//! [[program]]
//! name = "suite/program"
//! tier = 1                  # 1 to 5, by the CUDA features that it uses
//! binary = "built/program"  # relative to FOLDER, like `folder`
//! folder = "src/program"    # where it runs
//! args = ["1024", "1"]
//! pass = ["^PASS"]          # each pattern must match a line of the output
//! fail = ["FAIL"]           # no pattern may match a line
//! limit = 300               # seconds
//! ```
//!
//! Each program runs alternately with one worker and with two workers, three times with each number
//! of workers (only once if a run takes long). For each number of workers, only the shortest time
//! counts. With `--once` each program runs once with each number of workers. A program passes if it
//! ends with exit code 0 and its own check succeeds. With two workers, a program may be slower than
//! with one worker by at most 5 % plus 20 ms. `--as-built` does not build Margay first.
//!
//! `findings.json` in FOLDER stores the results, so that the command can run a few programs again; the command writes
//! the page `docs/public-programs.md` from this file. `--missing` runs only programs without a result. `--only PART`
//! runs only programs whose names contain PART.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use regex_lite::Regex;
use serde::{Deserialize, Serialize};

use crate::e2e::process::{Ended, Process};
use crate::{Outcome, exec};

/// Number of runs with each number of workers.
const RUNS: u32 = 3;
/// A program that takes longer than this time with one worker runs only once with each number of workers, unless the
/// time with two workers exceeds the allowed slowdown.
const LONG: Duration = Duration::from_secs(5);
/// The allowed slowdown with two workers is this share of the time with one worker, plus [`SLACK`].
const SHARE: f64 = 0.05;
/// The constant part of the allowed slowdown with two workers.
const SLACK: Duration = Duration::from_millis(20);
/// Default time limit of a program, in seconds.
const LIMIT: u64 = 300;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    program: Vec<Program>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    name: String,
    tier: u32,
    binary: PathBuf,
    folder: PathBuf,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    pass: Vec<String>,
    #[serde(default)]
    fail: Vec<String>,
    limit: Option<u64>,
}

/// The results of all runs of a program.
#[derive(Clone, Deserialize, Serialize)]
struct Finding {
    name: String,
    tier: u32,
    /// The shortest times with one and with two workers; `None` if a run failed.
    times: [Option<Duration>; 2],
    /// The reason why the program failed; `None` if it passed.
    cause: Option<String>,
}

impl Finding {
    fn is_slower(&self) -> bool {
        matches!(self.times, [Some(one), Some(two)] if slower(one, two))
    }
}

fn slower(one: Duration, two: Duration) -> bool {
    two > one.mul_f64(1.0 + SHARE) + SLACK
}

pub(crate) fn run(args: &[String]) -> Outcome {
    let (mut folder, mut only, mut runs) = (None, None, RUNS);
    let (mut build, mut again) = (true, true);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--only" => only = args.next(),
            "--once" => runs = 1,
            "--as-built" => build = false,
            "--missing" => again = false,
            flag if flag.starts_with('-') => return Err(format!("no option {flag}")),
            path => folder = Some(PathBuf::from(path)),
        }
    }
    let folder = folder.ok_or("the folder of the programs is missing")?;
    let path = folder.join("programs.toml");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let list: List = toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    if build {
        exec::build_programs()?;
    }
    let chosen = |program: &&Program| only.is_none_or(|part| program.name.contains(part));
    let kept = folder.join("findings.json");
    let mut findings: BTreeMap<String, Finding> = match fs::read_to_string(&kept) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| format!("{}: {e}", kept.display()))?,
        Err(_) => BTreeMap::new(),
    };
    for program in list.program.iter().filter(chosen) {
        if !again && findings.contains_key(&program.name) {
            continue;
        }
        let finding = examine(&folder, program, runs);
        println!("{}", row(&finding));
        findings.insert(program.name.clone(), finding);
        let text = serde_json::to_string_pretty(&findings).map_err(|e| e.to_string())?;
        fs::write(&kept, text).map_err(|e| format!("{}: {e}", kept.display()))?;
    }
    let findings: Vec<Finding> = list
        .program
        .iter()
        .filter_map(|program| findings.get(&program.name).cloned())
        .collect();
    let path = exec::root().join("docs/public-programs.md");
    fs::write(&path, page(&findings)).map_err(|e| format!("{}: {e}", path.display()))?;
    judge(&findings)
}

/// Returns an error if fewer than 95 % of the programs pass, or if a program exceeds the allowed
/// slowdown with two workers.
fn judge(findings: &[Finding]) -> Outcome {
    let failed: Vec<&str> = findings
        .iter()
        .filter(|f| f.cause.is_some())
        .map(|f| f.name.as_str())
        .collect();
    let slow: Vec<&str> = findings
        .iter()
        .filter(|f| f.is_slower())
        .map(|f| f.name.as_str())
        .collect();
    println!(
        "{} of {} pass",
        findings.len() - failed.len(),
        findings.len()
    );
    if failed.len() * 20 > findings.len() || !slow.is_empty() {
        return Err(format!(
            "failed: {}; slower with two workers: {}",
            failed.join(" "),
            slow.join(" ")
        ));
    }
    Ok(())
}

fn examine(folder: &Path, program: &Program, runs: u32) -> Finding {
    let mut finding = Finding {
        name: program.name.clone(),
        tier: program.tier,
        times: [None; 2],
        cause: None,
    };
    for turn in 0..runs {
        let long = finding.times[0].is_some_and(|time| time > LONG);
        if turn > 0 && long && !finding.is_slower() {
            break;
        }
        for (at, workers) in ["1", "2"].into_iter().enumerate() {
            match try_once(folder, program, workers) {
                Ok(time) => {
                    let least = finding.times[at].map_or(time, |known| known.min(time));
                    finding.times[at] = Some(least);
                }
                Err(cause) => {
                    finding.times = [None; 2];
                    finding.cause = Some(format!("{workers} worker(s): {cause}"));
                    return finding;
                }
            }
        }
    }
    finding
}

fn try_once(folder: &Path, program: &Program, workers: &str) -> Result<Duration, String> {
    let folder = fs::canonicalize(folder).map_err(|e| e.to_string())?;
    let mut command = Command::new(exec::release_dir().join("margay"));
    command
        .arg("run")
        .arg("--")
        .arg(folder.join(&program.binary))
        .args(&program.args)
        .current_dir(folder.join(&program.folder))
        .env("MARGAY_WORKERS", workers);
    let limit = Duration::from_secs(program.limit.unwrap_or(LIMIT));
    let started = Instant::now();
    let ended = Process::start(&mut command)?.wait(limit, None)?;
    let took = started.elapsed();
    verdict(program, &ended)?;
    Ok(took)
}

fn verdict(program: &Program, ended: &Ended) -> Outcome {
    if ended.code != Some(0) {
        let last = ended.stderr.lines().last().unwrap_or_default();
        return Err(format!("ended with {} {last}", ended.how()));
    }
    let matches = |pattern: &String| -> Result<bool, String> {
        let regex = Regex::new(pattern).map_err(|e| format!("bad pattern {pattern}: {e}"))?;
        let mut lines = ended.stdout.lines().chain(ended.stderr.lines());
        Ok(lines.any(|line| regex.is_match(line)))
    };
    for pattern in &program.pass {
        if !matches(pattern)? {
            return Err(format!("no line matches {pattern}"));
        }
    }
    for pattern in &program.fail {
        if matches(pattern)? {
            return Err(format!("a line matches {pattern}"));
        }
    }
    Ok(())
}

fn row(finding: &Finding) -> String {
    let time = |at: usize| {
        finding.times[at].map_or_else(|| "-".to_owned(), |t| format!("{:.2}", t.as_secs_f64()))
    };
    let result = match &finding.cause {
        Some(_) => "fails",
        None if finding.is_slower() => "passes, slower with two",
        None => "passes",
    };
    let cause = finding.cause.as_deref().unwrap_or_default();
    format!(
        "| {} | {} | {result} | {} | {} | {} |",
        finding.name,
        finding.tier,
        time(0),
        time(1),
        cause.replace('|', "\\|")
    )
}

fn page(findings: &[Finding]) -> String {
    let passed = findings.iter().filter(|f| f.cause.is_none()).count();
    let slow = findings.iter().filter(|f| f.is_slower()).count();
    let mut text = String::from(HEAD);
    for tier in 1..=5 {
        let of_tier = || findings.iter().filter(|f| f.tier == tier);
        let passed = of_tier().filter(|f| f.cause.is_none()).count();
        if of_tier().count() > 0 {
            let _ = writeln!(text, "| {tier} | {} | {passed} |", of_tier().count());
        }
    }
    let _ = writeln!(
        text,
        "| all | {} | {passed} |\n\nSlower with two workers than with one by more than 5 % and 20 ms: {slow}.\n",
        findings.len()
    );
    text += "| program | tier | result | 1 worker, s | 2 workers, s | cause |\n|---|---|---|---|---|---|\n";
    for finding in findings {
        let _ = writeln!(text, "{}", row(finding));
    }
    text
}

const HEAD: &str = "# Public CUDA programs

`cargo xtask public` writes this page. The programs come from public suites, check their own results, and fail this check if no kernel runs. `nvcc`
compiled them to PTX for compute_80, with their device code unmodified. `margay run` ran each with one worker and with two. Problem sizes are
small (PolyBench's are reduced at compile time). The programs are not part of this repository.

A time is that of the whole process, with its host code: the shortest of up to three runs, on a machine that did other work at the same time. The times
serve to compare one worker with two, and nothing else. If a column is empty, the program ran to its end with two workers only. Tiers order the
programs by the CUDA features that they use.

| tier | programs | pass |
|---|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(name: &str, cause: Option<&str>, times: [u64; 2]) -> Finding {
        Finding {
            name: name.to_owned(),
            tier: 1,
            times: times.map(|ms| Some(Duration::from_millis(ms))),
            cause: cause.map(str::to_owned),
        }
    }

    #[test]
    fn slower_means_by_five_percent_and_twenty_milliseconds() {
        let ms = Duration::from_millis;
        assert!(!slower(ms(1000), ms(1069)));
        assert!(slower(ms(1000), ms(1072)));
        assert!(!slower(ms(2), ms(21)));
        assert!(slower(ms(2), ms(23)));
    }

    #[test]
    fn one_failure_in_twenty_is_allowed_and_no_slow_program() {
        let good = || finding("good", None, [10, 10]);
        let mut findings: Vec<Finding> = (0..19).map(|_| good()).collect();
        findings.push(finding("bad", Some("exit code 1"), [0, 0]));
        assert!(judge(&findings).is_ok());
        findings.pop();
        findings.pop();
        findings.push(finding("bad", Some("exit code 1"), [0, 0]));
        assert!(judge(&findings).is_err());
        assert!(judge(&[good(), finding("slow", None, [10, 100])]).is_err());
    }

    #[test]
    fn a_verdict_needs_the_program_to_say_so() {
        let program = |script: &str| Program {
            name: "shell".into(),
            tier: 1,
            binary: "sh".into(),
            folder: ".".into(),
            args: vec!["-c".into(), script.into()],
            pass: vec!["^PASS".into()],
            fail: vec!["FAIL".into()],
            limit: None,
        };
        let says = |script: &str| {
            let program = program(script);
            let mut command = Command::new("sh");
            let process = Process::start(command.args(&program.args)).expect("starts");
            let ended = process.wait(Duration::from_secs(60), None).expect("waits");
            verdict(&program, &ended).is_ok()
        };
        assert!(says("echo PASS"));
        assert!(!says("echo nothing"));
        assert!(!says("echo PASS; exit 3"));
        assert!(!says("echo PASS; echo FAIL >&2"));
    }
}
