//! `cargo xtask ci [--full]`: runs every check that a change must pass, one after another.
//!
//! `.ci/run` installs missing tools and calls this command. Every step before the last one ("tests,
//! checked") that compiles the code generator uses the release profile, so the tests and the
//! program share one build of it. If a step fails, the remaining steps still run. If any step has
//! failed, the exit code is not 0, and the last lines of the output list the failed steps. With
//! `--full`, the command runs every instruction form of the conformance data, every CUDA program in
//! all settings, and every benchmark once. Without `--full`, it runs no benchmarks, and random samples
//! of the forms and of the programs' settings, with the commit's hash as the random seed. The step
//! "tests, checked" then leaves out the packages that run no kernels.

use std::process::Command;
use std::time::Instant;

use crate::{Outcome, exec};

/// A check: its name, the arguments with which it starts cargo, and the environment variables that it
/// sets.
struct Step {
    name: &'static str,
    cargo: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// Whether only `--full` runs the check.
    only_full: bool,
}

impl Step {
    const fn new(name: &'static str, cargo: &'static [&'static str]) -> Self {
        Step {
            name,
            cargo,
            environment: &[],
            only_full: false,
        }
    }
}

const STEPS: &[Step] = &[
    Step::new("format", &["fmt", "--all", "--check"]),
    Step::new("build", exec::BUILD_PROGRAMS),
    Step::new("tests", TESTS),
    Step::new(
        "documentation tests",
        &["test", "--release", "--workspace", "--doc"],
    ),
    // The lints compile the benchmarks, so only their results are not checked without `--full`.
    Step {
        only_full: true,
        ..Step::new("benches", BENCHES)
    },
    Step::new(
        "lints",
        &[
            "clippy",
            "--release",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    ),
    Step {
        environment: &[(
            "RUSTDOCFLAGS",
            "-D warnings -A rustdoc::private_intra_doc_links",
        )],
        ..Step::new(
            "documentation",
            &[
                "doc",
                "--release",
                "--workspace",
                "--no-deps",
                "--document-private-items",
            ],
        )
    },
    Step::new("imports", &["xtask", "imports"]),
    Step::new("dependencies", &["xtask", "dependencies"]),
    Step::new("support tables", &["xtask", "support", "--check"]),
    Step::new("book", &["xtask", "book"]),
    // The random seed is the commit's hash, so different commits try different mutations.
    Step::new("mutants", &["xtask", "mutants", "--count", "6"]),
    // The random kernels also depend on the commit's hash.
    Step::new("random kernels", &["xtask", "generate", "--count", "150"]),
    // Short kernels are compiled for single lanes by default, so these steps request vector code.
    in_slices("random kernels, 16 lanes", RANDOM_KERNELS, LANES_16),
    in_slices("random kernels, 32 lanes", RANDOM_KERNELS, LANES_32),
    in_slices("file tests, 16 lanes", FILE_TESTS, LANES_16),
    in_slices("file tests, 32 lanes", FILE_TESTS, LANES_32),
    in_slices("file tests, AVX2", FILE_TESTS, AVX2),
    in_slices("file tests, 8 lanes, 128 bits", FILE_TESTS, NARROW_8),
    in_slices("file tests, 32 lanes, 128 bits", FILE_TESTS, NARROW_32),
    in_slices("faults, 32 lanes", FAULTS, &[("MARGAY_LANES", "32")]),
    in_slices("faults, 16 lanes", FAULTS, &[("MARGAY_LANES", "16")]),
    // This step runs the instructions with chunks of 1, 8 and 32 lanes.
    Step::new(
        "sweeps, sampled",
        &["xtask", "sweep", "--sample", "200000", "--threads", "2"],
    ),
    // A checking run must compute the same results as a normal run.
    Step {
        environment: &[("MARGAY_CHECK", "racecheck")],
        ..Step::new("PTX files, racecheck", FILE_TESTS)
    },
    Step::new("CUDA programs", CUDA_PROGRAMS),
    Step::new("clients", &["xtask", "clients", "--quick"]),
    // This step runs the tests with assertions, overflow checks and both verifiers.
    Step::new("tests, checked", CHECKED),
];

type Environment = &'static [(&'static str, &'static str)];

/// Variables that request vector code with 16 or 32 lanes, of the wide back end if the host has AVX2.
const LANES_16: Environment = &[("MARGAY_LANES", "16"), ("MARGAY_WIDE", "1")];
const LANES_32: Environment = &[("MARGAY_LANES", "32"), ("MARGAY_WIDE", "1")];
/// Variables that request code of the wide back end for AVX2.
const AVX2: Environment = &[("MARGAY_LANES", "32"), ("MARGAY_WIDE", "avx2")];
/// Variables that request vector code without the wide back end.
const NARROW_8: Environment = &[("MARGAY_LANES", "8"), ("MARGAY_WIDE", "0")];
const NARROW_32: Environment = &[("MARGAY_LANES", "32"), ("MARGAY_WIDE", "0")];

/// Returns a step that runs kernels in the vector code that environment variables request.
const fn in_slices(
    name: &'static str,
    cargo: &'static [&'static str],
    environment: Environment,
) -> Step {
    Step {
        environment,
        ..Step::new(name, cargo)
    }
}

const RANDOM_KERNELS: &[&str] = &["xtask", "generate", "--count", "100"];

/// The arguments that run the tests of the threads and positions that faults report.
const FAULTS: &[&str] = &[
    "test",
    "--release",
    "-p",
    "margay",
    "--test",
    "fault_places",
];

const FILE_TESTS: &[&str] = &["test", "--release", "--workspace", "--test", "file_tests"];

/// The cargo arguments that start `cargo xtask e2e` so that it runs both builds of every program,
/// most of them in only one setting. `cargo xtask e2e` without options and `cargo xtask ci --full`
/// run every program in all settings.
const CUDA_PROGRAMS: &[&str] = &["xtask", "e2e", "--sample"];

/// The arguments that run every Criterion benchmark once. In this mode, the benchmarks check their
/// results and measure no times.
const BENCHES: &[&str] = &[
    "test",
    "--release",
    "--workspace",
    "--bench",
    "stages",
    "--bench",
    "launch",
    "--bench",
    "kernels",
    "--bench",
    "recording",
];

/// The arguments that run all tests except documentation tests, which nextest does not support.
const TESTS: &[&str] = &[
    "nextest",
    "run",
    "--release",
    "--workspace",
    "--no-fail-fast",
];
/// The arguments that run the tests of [`TESTS`] if nextest is not installed.
const TESTS_WITHOUT_NEXTEST: &[&str] = &[
    "test",
    "--release",
    "--workspace",
    "--all-targets",
    "--no-fail-fast",
];

/// The arguments that run tests in the profile `checked`. The step adds [`CHECKED_PACKAGES`], or `--workspace` with
/// `--full`.
const CHECKED: &[&str] = &[
    "nextest",
    "run",
    "--cargo-profile",
    "checked",
    "--no-fail-fast",
];
const CHECKED_WITHOUT_NEXTEST: &[&str] = &[
    "test",
    "--profile",
    "checked",
    "--all-targets",
    "--no-fail-fast",
];
const WORKSPACE: &[&str] = &["--workspace"];
/// The packages that compile and run kernels, and the conformance data. The compilation of the other packages would
/// take a quarter of the time of this step.
const CHECKED_PACKAGES: &[&str] = &[
    "--package=margay",
    "--package=margay-clif",
    "--package=margay-exec",
    "--package=margay-ffi",
    "--package=margay-frontend",
    "--package=margay-ir",
    "--package=margay-jit",
    "--package=margay-ops",
    "--package=margay-profile",
    "--package=margay-ptx",
    "--package=margay-shadow",
    "--package=margay-tests",
    "--package=margay-vectorise",
    "--package=margay-vir",
    "--package=margay-x64",
];

pub(crate) fn run(args: &[String]) -> Outcome {
    let full = match args {
        [] => false,
        [flag] if flag == "--full" => true,
        _ => return Err("the only option is --full".to_owned()),
    };
    let seed = exec::output(Command::new("git").args(["rev-parse", "HEAD"])).unwrap_or_default();
    let nextest = exec::output(exec::cargo().args(["nextest", "--version"])).is_ok();
    let mut table = Vec::new();
    for step in STEPS.iter().filter(|step| full || !step.only_full) {
        println!("\n==== {}", step.name);
        let started = Instant::now();
        let arguments = match step.cargo {
            TESTS if !nextest => TESTS_WITHOUT_NEXTEST,
            CHECKED if !nextest => CHECKED_WITHOUT_NEXTEST,
            others => others,
        };
        let mut command = exec::cargo();
        command.args(arguments);
        if step.cargo == CHECKED {
            command.args(if full { WORKSPACE } else { CHECKED_PACKAGES });
        }
        command
            .envs(step.environment.iter().copied())
            .env("MARGAY_SEED", seed.trim());
        if full {
            command.env("MARGAY_FULL", "1");
        }
        let outcome = exec::run(&mut command);
        if let Err(error) = &outcome {
            println!("{error}");
        }
        table.push((step.name, started.elapsed(), outcome.is_ok()));
    }
    println!();
    for (name, took, ok) in &table {
        println!(
            "{:<26} {:<6} {:>6.0} s",
            name,
            if *ok { "ok" } else { "FAILED" },
            took.as_secs_f64()
        );
    }
    let failed: Vec<&str> = table
        .iter()
        .filter(|(.., ok)| !ok)
        .map(|(name, ..)| *name)
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("failed: {}", failed.join(", ")))
    }
}
