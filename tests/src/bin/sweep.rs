//! Runs numeric instructions with very many inputs and checks their results: `sweep [--sample N]
//! [--only PART] [--seed S] [--threads N] [--page FILE]`.
//!
//! `cargo xtask sweep` builds and starts this program. Without `--sample`, every input runs, which takes an hour on one
//! core. With `--sample`, the program prints a hash of each row's results at the end, so that a caller can compare runs
//! with different numbers of lanes.
#![allow(
    clippy::print_stdout,
    reason = "a command line program talks on its standard output"
)]

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use margay::EngineChoice;
use margay_tests::conformance::sample_seed;
use margay_tests::sweep::report::{self, Finding};
use margay_tests::sweep::{Depth, Machine, Row, rows};

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            eprintln!("sweep: {wrong} instructions have wrong results");
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("sweep: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The options of the command line.
struct Options {
    depth: Depth,
    only: String,
    seed: u64,
    threads: usize,
    page: Option<String>,
}

impl Options {
    fn parse() -> Result<Options, String> {
        let mut options = Options {
            depth: Depth::Full,
            only: String::new(),
            seed: sample_seed(),
            threads: 1,
            page: None,
        };
        let args: Vec<String> = std::env::args().skip(1).collect();
        for pair in args.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("{} needs a value", pair[0]));
            };
            let number = || {
                value
                    .parse()
                    .map_err(|_| format!("`{value}` is not a number"))
            };
            match name.as_str() {
                "--sample" => options.depth = Depth::Sample(number()?),
                "--seed" => options.seed = number()? as u64,
                "--threads" => options.threads = number()?,
                "--only" => options.only.clone_from(value),
                "--page" => options.page = Some(value.clone()),
                other => return Err(format!("no option {other}")),
            }
        }
        Ok(options)
    }
}

/// Runs the rows that the options select; returns the number of rows with wrong results.
fn run() -> Result<usize, String> {
    let options = Options::parse()?;
    let chosen = rows()
        .into_iter()
        .filter(|row| row.name().contains(&options.only));
    let waiting: Mutex<VecDeque<(usize, Row)>> = Mutex::new(chosen.enumerate().collect());
    let findings = Mutex::new(Vec::new());
    let work = || -> Result<(), String> {
        let machine = Machine::new(EngineChoice::Native, options.seed);
        let machine = machine.map_err(|error| error.to_string())?;
        while let Some((at, row)) = next(&waiting) {
            let finding = examine(&machine, row, options.depth)?;
            findings.lock().expect("nobody panics").push((at, finding));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.threads).map(|_| scope.spawn(work)).collect();
        let mut ends = threads
            .into_iter()
            .map(|t| t.join().expect("nobody panics"));
        ends.try_for_each(|end| end)
    })?;
    let mut findings = findings.into_inner().expect("nobody panics");
    findings.sort_by_key(|(at, _)| *at);
    let findings: Vec<Finding> = findings.into_iter().map(|(_, finding)| finding).collect();
    if let Depth::Sample(_) = options.depth {
        for finding in &findings {
            println!("hash {} {:#018x}", finding.row.name(), finding.tally.hash);
        }
    }
    if let Some(file) = options.page {
        std::fs::write(&file, report::page(&findings)).map_err(|e| format!("{file}: {e}"))?;
    }
    Ok(findings
        .iter()
        .filter(|finding| finding.tally.wrong_count > 0)
        .count())
}

fn next(waiting: &Mutex<VecDeque<(usize, Row)>>) -> Option<(usize, Row)> {
    waiting.lock().expect("nobody panics").pop_front()
}

fn examine(machine: &Machine, row: Row, depth: Depth) -> Result<Finding, String> {
    let started = Instant::now();
    let tally = machine.run(&row, depth);
    let tally = tally.map_err(|error| format!("{}: {error}", row.name()))?;
    let finding = Finding { row, tally };
    let line = report::line(&finding, started.elapsed());
    println!("{line}{}", report::wrong(&finding.tally));
    Ok(finding)
}
