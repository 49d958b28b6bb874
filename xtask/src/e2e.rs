//! `cargo xtask e2e`: runs unmodified CUDA programs, which NVIDIA's compiler has built, on Margay's
//! `libcuda.so.1`.
//!
//! `tests/cuda/manifest.toml` lists the programs with their expected output, and describes its own
//! format. Each program is built twice, with the usual options and with `-G` (for debuggers). Each
//! build runs under `margay run` in several settings: with different numbers of workers, and with
//! blocks and warps in reverse order. A program's `PASS` line ends with a hash of the bits that the
//! program computed; the hash must be the same in all runs, unless the manifest states that the
//! program's results depend on the order of execution.
//!
//! Options:
//!
//! - names of programs (default: all programs);
//! - `--quick`: only the optimised build, in one setting;
//! - `--sample`: both builds. A few programs run in all settings, and the other programs run in one setting.
//!   `MARGAY_SEED` is the random seed of this choice. With `MARGAY_FULL=1` all programs run in all settings;
//! - `--bless-ptx`: compiles the programs to the PTX files in `tests/cuda/ptx` and runs none of them.

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

/// The name of a setting and its environment variables.
type Setting = (&'static str, &'static [(&'static str, &'static str)]);

/// Settings of the runtime. A program must compute the same bits with each setting.
const SETTINGS: &[Setting] = &[
    ("all workers", &[]),
    ("1 worker", &[("MARGAY_WORKERS", "1")]),
    ("2 workers", &[("MARGAY_WORKERS", "2")]),
    ("3 workers", &[("MARGAY_WORKERS", "3")]),
    ("reverse order", &[("MARGAY_ORDER", "reverse")]),
];

/// With `--sample`, on average one program out of this number of programs runs in all settings
/// (`Options::sample`).
const SAMPLE: u64 = 4;

/// The time limit of a run is the program's cost in the manifest (in seconds) times this factor, so that programs also
/// finish on slower machines.
const PATIENCE: u32 = 15;

/// The options of the command line.
#[derive(Default)]
struct Options {
    quick: bool,
    /// On average, one program out of this number of programs runs in all settings.
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

    /// Returns the settings with which a program runs.
    fn settings(&self, program: &Program) -> &'static [Setting] {
        let in_all = match self.sample {
            Some(sample) => is_sampled(program, sample),
            None => !self.quick,
        };
        if in_all { SETTINGS } else { &SETTINGS[..1] }
    }

    /// Returns the programs of the manifest that the options select.
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

/// Returns whether the random sample, for which `MARGAY_SEED` is the seed, contains a program. The
/// sample contains on average one program out of `sample`.
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

/// Runs one build of a program with each of `settings`; returns the failures.
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

/// Runs a program once; returns the `PASS` line of its output, or an empty string if the output
/// contains none.
fn try_run(
    program: &Program,
    variant: Variant,
    run: &Run,
    environment: &[(&str, &str)],
) -> Result<String, String> {
    let binary = build::binary(program, variant);
    // If a shell started this program in the background, it ignores interrupts, and its children would ignore them too.
    // `env` restores the default handling.
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

/// Returns an error if the result of a run is not as the manifest states.
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

/// Returns the last part of a program's output.
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
