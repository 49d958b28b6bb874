//! `cargo xtask e2e`: CUDA programs, built by NVIDIA's compiler and run unmodified on our `libcuda.so.1`.
//!
//! The programs and what to expect of them are in `tests/cuda/manifest.toml`, which says how to write it.
//! Each program is built twice, as one would and with `-G`, and run under `margay run` with several numbers
//! of workers and with blocks and warps in reverse order. A program's `PASS` line ends with a hash of the
//! bits it computed; unless the manifest calls the program order-dependent, the hash must not change.
//!
//! Options: names of programs (default all), `--quick` (one build, one run), `--sample` (both builds, all
//! settings for a few programs that `MARGAY_SEED` chooses and one for the others; everything with
//! `MARGAY_FULL=1`), `--bless-ptx` (compile the PTX that is checked in anew, and stop).

mod build;
mod manifest;
pub(crate) mod process;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use build::{Variant, compile_all};
use manifest::{Program, Run};
use process::{Ended, Process};

use crate::toolchain::Toolchain;
use crate::{Outcome, exec};

/// A name and the environment.
type Setting = (&'static str, &'static [(&'static str, &'static str)]);

/// Settings of the runtime under which the bits must be the same.
const SETTINGS: &[Setting] = &[
    ("all workers", &[]),
    ("1 worker", &[("MARGAY_WORKERS", "1")]),
    ("2 workers", &[("MARGAY_WORKERS", "2")]),
    ("3 workers", &[("MARGAY_WORKERS", "3")]),
    ("reverse order", &[("MARGAY_ORDER", "reverse")]),
];

/// See `Options::sample`.
const SAMPLE: u64 = 4;

/// A run that takes this many times its stated cost hangs. Slower machines must not fail.
const PATIENCE: u32 = 15;

/// What the command line asks for.
#[derive(Default)]
struct Options {
    quick: bool,
    /// One program in so many is tried in all settings.
    sample: Option<u64>,
    bless_ptx: bool,
    names: Vec<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Options::default();
        for arg in args {
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--sample" if std::env::var("MARGAY_FULL").is_ok_and(|v| v == "1") => {}
                "--sample" => options.sample = Some(SAMPLE),
                "--bless-ptx" => options.bless_ptx = true,
                flag if flag.starts_with('-') => return Err(format!("no option {flag}")),
                name => options.names.push(name.to_owned()),
            }
        }
        Ok(options)
    }

    /// The settings in which a program is tried.
    fn settings(&self, program: &Program) -> &'static [Setting] {
        let in_all = match self.sample {
            Some(sample) => is_sampled(program, sample),
            None => !self.quick,
        };
        if in_all { SETTINGS } else { &SETTINGS[..1] }
    }

    /// The manifest's programs that are asked for.
    fn programs(&self) -> Result<Vec<Program>, String> {
        let all = manifest::load()?;
        if let Some(unknown) = self
            .names
            .iter()
            .find(|n| all.iter().all(|p| p.name != **n))
        {
            return Err(format!("no program {unknown} in tests/cuda/manifest.toml"));
        }
        Ok(all
            .into_iter()
            .filter(|p| self.names.is_empty() || self.names.contains(&p.name))
            .collect())
    }
}

/// Whether the commit in `MARGAY_SEED` chooses a program.
fn is_sampled(program: &Program, sample: u64) -> bool {
    let mut hasher = DefaultHasher::new();
    let seed = std::env::var("MARGAY_SEED").unwrap_or_default();
    (seed, &program.name).hash(&mut hasher);
    hasher.finish().is_multiple_of(sample)
}

pub(crate) fn run(args: &[String]) -> Outcome {
    let options = Options::parse(args)?;
    let programs = options.programs()?;
    let toolchain = Toolchain::get()?;
    if options.bless_ptx {
        return build::bless_ptx(&toolchain, &programs);
    }
    exec::build_programs()?;
    let variants = if options.quick {
        &Variant::ALL[..1]
    } else {
        Variant::ALL
    };
    compile_all(&toolchain, &programs, variants)?;
    let mut failures = Vec::new();
    let mut runs = 0;
    for program in &programs {
        for variant in variants {
            let started = Instant::now();
            let settings = options.settings(program);
            let wrong = try_program(program, *variant, settings, &mut runs);
            let label = format!("{} ({})", program.name, variant.label());
            report(&label, started.elapsed(), &wrong);
            failures.extend(wrong.into_iter().map(|what| format!("{label}: {what}")));
        }
    }
    println!(
        "e2e: {runs} runs of {} programs, {} wrong",
        programs.len(),
        failures.len()
    );
    if failures.is_empty() {
        Ok(())
    } else {
        Err(format!("\n  {}", failures.join("\n  ")))
    }
}

fn report(label: &str, took: Duration, wrong: &[String]) {
    let verdict = if wrong.is_empty() { "ok" } else { "WRONG" };
    println!("{label:<36} {verdict:<6} {:>6.1} s", took.as_secs_f64());
    for what in wrong {
        println!("    {}", what.replace('\n', "\n    "));
    }
}

/// Runs one build of a program in every way; returns what went wrong.
fn try_program(
    program: &Program,
    variant: Variant,
    settings: &[Setting],
    runs: &mut usize,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for run in &program.runs {
        let mut first: Option<(&str, String)> = None;
        for (setting, environment) in settings {
            *runs += 1;
            match try_run(program, variant, run, environment) {
                Err(what) => wrong.push(format!("{setting}: {what}")),
                Ok(pass) if program.order => drop(pass),
                Ok(pass) => match &first {
                    None => first = Some((setting, pass)),
                    Some((_, bits)) if *bits == pass => {}
                    Some((other, bits)) => {
                        wrong.push(format!(
                            "not the same bits: {bits} with {other}, {pass} with {setting}"
                        ));
                    }
                },
            }
        }
    }
    wrong
}

/// One run; gives its PASS line, or "" when it has none.
fn try_run(
    program: &Program,
    variant: Variant,
    run: &Run,
    environment: &[(&str, &str)],
) -> Result<String, String> {
    let binary = build::binary(program, variant);
    // What a shell starts in the background ignores an interrupt, and so do all its children.
    let mut command = std::process::Command::new("env");
    command
        .arg("--default-signal=INT,QUIT")
        .arg(exec::release_dir().join("margay"))
        .arg("run")
        .args(&run.margay)
        .arg("--")
        .arg(binary)
        .args(&run.args);
    command.envs(environment.iter().copied());
    let limit = Duration::from_secs(u64::from(program.cost * PATIENCE));
    let ended = Process::start(&mut command)?.wait(limit, run.signal.as_deref())?;
    check(run, &ended).map_err(|what| {
        let line = exec::show(&command);
        format!(
            "{what}\n{line}\nstdout: {}\nstderr: {}",
            tail(&ended.stdout),
            tail(&ended.stderr)
        )
    })?;
    Ok(ended
        .stdout
        .lines()
        .find(|l| l.starts_with("PASS "))
        .unwrap_or_default()
        .to_owned())
}

/// Compares a run with what the manifest expects.
fn check(run: &Run, ended: &Ended) -> Outcome {
    if ended.code != Some(run.exit) {
        return Err(format!(
            "ended with {} instead of exit code {}",
            ended.how(),
            run.exit
        ));
    }
    manifest::expect_lines("stdout", &run.stdout, &ended.stdout)?;
    manifest::expect_lines("stderr", &run.stderr, &ended.stderr)
}

/// The end of a long output.
fn tail(text: &str) -> String {
    const LINES: usize = 12;
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(LINES);
    let mark = if skipped > 0 {
        format!("... {skipped} lines ...\n")
    } else {
        String::new()
    };
    mark + &lines[skipped..].join("\n")
}
