//! The project's development commands: `cargo xtask COMMAND`.
//!
//! Each command is a module with a function `run`, listed in [`COMMANDS`]. This crate depends
//! neither on the compiler nor on the runtime, so that it can be built in seconds. Commands that
//! need the compiler or the runtime build and start other programs of the workspace, such as
//! `margay`.
#![allow(
    clippy::print_stdout,
    reason = "a command line program talks on its standard output"
)]

mod bench;
mod book;
mod ci;
mod clients;
mod conformance;
mod demo;
mod dependencies;
mod e2e;
mod exec;
mod fuzz_seeds;
mod generate;
mod guards;
mod imports;
mod mutants;
mod public;
mod soak;
mod support;
mod sweep;
mod toolchain;
mod wheel;

use std::process::ExitCode;

/// The result of a command. An error is a message that is printed for the user.
type Outcome = Result<(), String>;

/// A command's name, its description, and its function, which receives the arguments after the name.
type Command = (&'static str, &'static str, fn(&[String]) -> Outcome);

const COMMANDS: &[Command] = &[
    (
        "demo",
        "build everything, run CUDA kernels on the CPU and check their results",
        demo::run,
    ),
    (
        "ci",
        "what .ci/run does, step by step; --full also runs every conformance form",
        ci::run,
    ),
    (
        "e2e",
        "build CUDA programs with NVIDIA's compiler and run them on libcuda.so.1",
        e2e::run,
    ),
    (
        "bench",
        "measure everything and write the tables of BENCHMARKING.md; --check, --print",
        bench::run,
    ),
    (
        "book",
        "check the documentation and build it as a book in target/book; --check only checks",
        book::run,
    ),
    (
        "clients",
        "real clients on libcuda.so.1, and docs/clients.md; --all, --quick, --no-suites, NAME ...",
        clients::run,
    ),
    (
        "toolchain",
        "put NVIDIA's compiler into .cache/cuda and print its path",
        toolchain::run,
    ),
    (
        "support",
        "write docs/support-*.md; --check fails when they are stale",
        support::run,
    ),
    (
        "dependencies",
        "check that each declared dependency is used",
        dependencies::run,
    ),
    (
        "imports",
        "check that the modules of every crate import in one direction",
        imports::run,
    ),
    (
        "mutants",
        "change reference functions at single places and check that a test fails; --count N, --seed S, --all, --only PATH, --list",
        mutants::run,
    ),
    (
        "generate",
        "run random kernels on every engine and compare; --count N, --seed S, --one KERNEL, --print KERNEL",
        generate::run,
    ),
    (
        "public",
        "run public CUDA programs from a folder and write docs/public-programs.md; FOLDER, --only PART, --once",
        public::run,
    ),
    (
        "guards",
        "measure what guard pages and fault handling cost; the number of rounds",
        guards::run,
    ),
    (
        "sweep",
        "numeric instructions over all inputs, and docs/accuracy.md; --threads N, --only PART, --sample N",
        sweep::run,
    ),
    (
        "soak",
        "threads with random calls whose results are checked; --seconds N (600), --threads N (64), --devices N, --seed S",
        soak::run,
    ),
    (
        "wheel",
        "the wheel with program and libraries, in target/wheels; --try installs it and runs a program with it",
        wheel::run,
    ),
    (
        "fuzz-seeds",
        "write the seed corpora of fuzz/",
        fuzz_seeds::run,
    ),
    (
        "import-conformance",
        "pack conformance data from a folder into tests/data/conformance",
        conformance::run,
    ),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(command) = args
        .first()
        .and_then(|name| COMMANDS.iter().find(|c| c.0 == name))
    else {
        return usage(args.first().map(String::as_str));
    };
    match (command.2)(&args[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask {}: {message}", command.0);
            ExitCode::FAILURE
        }
    }
}

/// Prints the list of commands. Returns an error unless the user requested help.
fn usage(asked: Option<&str>) -> ExitCode {
    println!("usage: cargo xtask COMMAND [ARGUMENTS]\n");
    for (name, about, _) in COMMANDS {
        println!("  {name:<20} {about}");
    }
    match asked {
        Some("--help" | "-h" | "help") => ExitCode::SUCCESS,
        Some(other) => {
            eprintln!("\nno command '{other}'");
            ExitCode::FAILURE
        }
        None => ExitCode::FAILURE,
    }
}
