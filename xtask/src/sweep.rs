//! `cargo xtask sweep [--threads N]`: compares the results of the numeric instructions in `tests/src/sweep/rows.rs`
//! with independent references.
//!
//! A run over all inputs takes an hour on one core and writes `docs/accuracy.md`, unless `--only` selects a part of the
//! instructions. `--sample N` runs about N inputs of each instruction three times: with code that processes 1, 8 and 32
//! lanes of a warp at once. With this option, the command also checks that the three runs have the same results, bit
//! for bit.

use std::process::Command;

use crate::{Outcome, exec};

/// The chunk widths in lanes (1: single lanes). The results must have the same bits for every width.
const LANES: &[&str] = &["1", "8", "32"];

pub(crate) fn run(args: &[String]) -> Outcome {
    exec::build_programs()?;
    if !args.iter().any(|arg| arg == "--sample") {
        let page = exec::root().join("docs/accuracy.md");
        let whole = !args.iter().any(|arg| arg == "--only");
        let mut command = sweep(args);
        if whole {
            command.arg("--page").arg(page);
        }
        return exec::run(&mut command);
    }
    let mut first: Option<Vec<String>> = None;
    for lanes in LANES {
        let output = exec::output(sweep(args).env("MARGAY_LANES", lanes))?;
        let hashes: Vec<String> = lines(&output, "hash ");
        println!("{} instructions with {lanes} lane(s)", hashes.len());
        let known = first.get_or_insert_with(|| hashes.clone());
        if let Some((one, other)) = known.iter().zip(&hashes).find(|(a, b)| a != b) {
            return Err(format!(
                "not the same bits: {one}, with {lanes} lanes {other}"
            ));
        }
    }
    Ok(())
}

fn sweep(args: &[String]) -> Command {
    let mut command = Command::new(exec::release_dir().join("sweep"));
    command.args(args);
    command
}

fn lines(text: &str, prefix: &str) -> Vec<String> {
    let found = text.lines().filter(|line| line.starts_with(prefix));
    found.map(str::to_owned).collect()
}
