//! `margay-bench`: measures everything once and writes the tables of `BENCHMARKING.md`.
//!
//! `cargo xtask bench` builds and starts it. Options: `--check` (small data, nothing is written), `--print` (the
//! tables go to the terminal alone), and names: only kernels whose name contains one of them, or one of the tables
//! `launches`, `starting` and `loading`, printed alone. With `--once` it measures one thing for another process of
//! itself.
#![allow(
    clippy::print_stdout,
    reason = "a command line program talks on its standard output"
)]

mod machine;
mod tables;

use std::process::ExitCode;

use margay_benches::case::Scale;
use margay_benches::start::{self, Once};

/// The file with the tables, and the lines around them.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../BENCHMARKING.md");
const BEGIN: &str = "<!-- begin: cargo xtask bench -->\n";
const END: &str = "<!-- end -->";

/// Writes a table.
type Make = fn() -> Result<String, String>;
/// The tables beside that of the kernels, by name.
const OTHERS: &[(&str, Make)] = &[
    ("launches", tables::launches),
    ("starting", tables::start),
    ("loading", tables::stages),
];

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("margay-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let args: Vec<String> = args.collect();
    if let [option, name] = args.as_slice()
        && option == start::OPTION
    {
        println!("{}", Once::answer(name)?);
        return Ok(());
    }
    let (flags, names): (Vec<String>, Vec<String>) =
        args.into_iter().partition(|a| a.starts_with('-'));
    let mut scale = Scale::Full;
    let mut write = names.is_empty();
    for flag in flags {
        match flag.as_str() {
            "--check" => (scale, write) = (Scale::Small, false),
            "--print" => write = false,
            other => return Err(format!("no option {other}")),
        }
    }
    let mut text = machine::facts();
    let (tables, kernels): (Vec<String>, Vec<String>) = names
        .into_iter()
        .partition(|name| OTHERS.iter().any(|(table, _)| table == name));
    if tables.is_empty() || !kernels.is_empty() {
        text += &format!("\n\n{}", tables::kernels(scale, &kernels)?);
    }
    for (name, make) in OTHERS {
        let all = tables.is_empty() && kernels.is_empty();
        if all || tables.iter().any(|wanted| wanted == name) {
            text += &format!("\n\n{}", make()?);
        }
    }
    println!("{text}");
    if write { replace(&text) } else { Ok(()) }
}

/// Puts the tables into the file, in the place of the last ones.
fn replace(tables: &str) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{FILE}: {error}");
    let file = std::fs::read_to_string(FILE).map_err(told)?;
    let parts = file.split_once(BEGIN);
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.ok_or_else(|| format!("{FILE} has no place for the tables"))?;
    std::fs::write(FILE, format!("{before}{BEGIN}\n{tables}\n{END}{after}")).map_err(told)
}
