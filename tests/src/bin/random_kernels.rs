//! Runs many random kernels: `random_kernels [--count N] [--seed S] [--one KERNEL] [--print KERNEL]`.
//!
//! `cargo xtask generate` builds and starts this program. `--count` is the number of kernels
//! (default: 1000). Without `--seed`, `MARGAY_SEED` is the seed (in CI: the commit's hash). `--one
//! KERNEL` runs only the kernel with the seed KERNEL, which the report of a failure names, and
//! `--print KERNEL` prints the kernel's text.
#![allow(
    clippy::print_stdout,
    reason = "a command line program talks on its standard output"
)]

use std::process::ExitCode;
use std::time::Instant;

use margay_tests::conformance::sample_seed;
use margay_tests::random::machines::{Bench, Failure};
use margay_tests::random::{self, generate, write};

/// Number of kernels between two lines of output that show progress.
const STEP: usize = 1024;
/// Maximum number of failing kernels that are made as short as possible and printed.
const SHOWN: usize = 5;

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("random_kernels: {message}");
            ExitCode::FAILURE
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is not a number"))
}

fn run() -> Result<usize, String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (mut count, mut seed) = (1000, sample_seed());
    for pair in args.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("{} needs a number", pair[0]));
        };
        let value = number(value)?;
        match name.as_str() {
            "--count" => count = value as usize,
            "--seed" => seed = value,
            "--one" => return one(value),
            "--print" => {
                let text = write::kernel(&generate::kernel(value));
                println!("{}{text}", write::header(&text));
                return Ok(0);
            }
            other => return Err(format!("no option {other}")),
        }
    }
    many(count, seed)
}

fn bench() -> Result<Bench, String> {
    Bench::new().map_err(|error| error.to_string())
}

fn one(seed: u64) -> Result<usize, String> {
    let mut bench = bench()?;
    let kernel = generate::kernel(seed);
    let failures = bench.run(&[kernel]).map_err(|error| error.to_string())?;
    for failure in &failures {
        println!("{}", random::report(&mut bench, failure));
    }
    Ok(failures.len())
}

fn many(count: usize, seed: u64) -> Result<usize, String> {
    let mut bench = bench()?;
    let started = Instant::now();
    let mut failures: Vec<Failure> = Vec::new();
    let mut done = 0;
    while done < count {
        let step = STEP.min(count - done);
        let found = random::run(&mut bench, seed, done as u64, step);
        let found = found.map_err(|error| error.to_string())?;
        for failure in found {
            println!(
                "{:#018x} {}: {}",
                failure.kernel.seed, failure.setting, failure.what
            );
            if failures.len() < SHOWN {
                println!("{}", random::report(&mut bench, &failure));
            }
            failures.push(failure);
        }
        done += step;
        println!(
            "{done} kernels, {} failures, {:.0} s",
            failures.len(),
            started.elapsed().as_secs_f64()
        );
    }
    Ok(failures.len())
}
