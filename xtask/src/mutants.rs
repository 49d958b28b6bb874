//! `cargo xtask mutants [--count N] [--seed S] [--all] [--only PATH] [--list]`: changes the source
//! code of reference functions of ops (meanings), one place at a time, and checks that a test fails
//! after each change.
//!
//! Such a change is a mutation: a small change of the source text of a file in `ir/ops/src/meaning`
//! ([`find`]). Each mutation is built in a workspace that contains only the crates of `ir` and
//! `frontend`, so that no code generator is compiled. First, the tests of the literal tables of
//! `margay-ops` run. If none of them fails, the file tests run in the interpreter, and then slower
//! tests of `margay-ops` ([`trial`]). The command fails if no test fails for a mutation, unless
//! [`EQUIVALENT`] lists the mutation with the reason why it does not change results. Without
//! `--all`, the command tries `--count` random mutations (default: 20), with `--seed` as the random
//! seed; CI uses the commit's hash. Currently, a test fails for every mutation that is not listed.
//! CI therefore fails only if a test becomes weaker or if a new meaning has too few tests.

mod find;
mod trial;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use crate::{Outcome, exec};
use find::Mutation;
use trial::{Verdict, Workspace};

/// The mutated folder, relative to the repository's root.
const SOURCES: &str = "ir/ops/src/meaning";

/// Files that are not mutated, because they contain no meaning. Each file contains a faster
/// implementation with the same results. A separate test compares this implementation with the
/// meaning. The meaning is used in cases that the implementation does not support, so most
/// mutations of the file would not change results.
const NO_MEANING: [&str; 3] = ["matrix/plan.rs", "plan/vectors.rs", "float/host.rs"];

/// Mutations that do not change results. Each entry contains the file, the line, the change, and the reason.
const EQUIVALENT: &str = include_str!("mutants/equivalent.txt");

struct Options {
    count: Option<usize>,
    seed: u64,
    list: bool,
    /// Only files whose path contains this text are mutated.
    only: String,
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        count: Some(20),
        seed: 0,
        list: false,
        only: String::new(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--all" => options.count = None,
            "--list" => options.list = true,
            "--count" => {
                let text = value()?;
                options.count = Some(text.parse().map_err(|_| format!("not a number: {text}"))?);
            }
            "--seed" => options.seed = seed_of(value()?),
            "--only" => options.only.clone_from(value()?),
            _ => return Err(format!("unknown option {arg}")),
        }
    }
    if options.seed == 0 {
        options.seed = std::env::var("MARGAY_SEED").map_or(1, |text| seed_of(&text));
    }
    Ok(options)
}

/// Returns the random seed for a text such as a commit's hash.
fn seed_of(text: &str) -> u64 {
    text.bytes().fold(17, |seed: u64, byte| {
        seed.wrapping_mul(31).wrapping_add(u64::from(byte))
    })
}

/// Parses the entries of [`EQUIVALENT`]: file, the line's text, the change, the reason.
fn equivalents() -> Result<Vec<[&'static str; 5]>, String> {
    EQUIVALENT
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            let fields: Vec<&str> = line.split(" | ").collect();
            fields
                .try_into()
                .map_err(|_| format!("equivalent.txt: {line}"))
        })
        .collect()
}

/// Returns whether an entry of [`EQUIVALENT`] describes a mutation.
fn names([file, source, from, to, _]: &[&str; 5], mutation: &Mutation) -> bool {
    mutation.file.ends_with(file)
        && mutation.line_text.trim() == *source
        && (mutation.from.trim(), mutation.to.trim()) == (*from, *to)
}

/// Returns all mutations that a test must detect: those that [`EQUIVALENT`] does not list. Returns
/// an error if an entry of [`EQUIVALENT`] describes no mutation.
fn noticeable() -> Result<Vec<Mutation>, String> {
    let mut all = find::all(&exec::root().join(SOURCES), Path::new(SOURCES))?;
    all.retain(|mutation| !NO_MEANING.iter().any(|file| mutation.file.ends_with(file)));
    let equivalents = equivalents()?;
    if let Some(stale) = equivalents
        .iter()
        .find(|entry| !all.iter().any(|mutation| names(entry, mutation)))
    {
        return Err(format!("equivalent.txt: stale: {}", stale.join(" | ")));
    }
    all.retain(|mutation| !equivalents.iter().any(|entry| names(entry, mutation)));
    Ok(all)
}

/// Returns the mutations in a random order that `seed` determines. The caller tries the first
/// mutations of the result.
fn choose(mut all: Vec<Mutation>, seed: u64) -> Vec<Mutation> {
    let mut state = seed;
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    for last in (1..all.len()).rev() {
        all.swap(last, (next() % (last as u64 + 1)) as usize);
    }
    all
}

pub(crate) fn run(args: &[String]) -> Outcome {
    let options = options(args)?;
    let mut all = noticeable()?;
    all.retain(|mutation| mutation.file.contains(&options.only));
    if options.list {
        for mutation in &all {
            println!("{mutation}");
        }
        println!("{} mutations", all.len());
        return Ok(());
    }
    let total = all.len();
    let wanted = options.count.unwrap_or(total).min(total);
    let queue = match options.count {
        Some(_) => choose(all, options.seed),
        None => all,
    };
    let workspace = Workspace::new()?;
    println!("{wanted} of {total} mutations");
    let started = Instant::now();
    let mut tally: BTreeMap<Verdict, usize> = BTreeMap::new();
    let mut survivors = Vec::new();
    for mutation in queue {
        let tried: usize = tally
            .iter()
            .filter(|(v, _)| **v != Verdict::DoesNotBuild)
            .map(|(_, n)| n)
            .sum();
        if tried == wanted {
            break;
        }
        let verdict = workspace.try_out(&mutation)?;
        *tally.entry(verdict).or_default() += 1;
        println!(
            "{:>6.0} s  {:<22} {mutation}",
            started.elapsed().as_secs_f64(),
            verdict.text()
        );
        if verdict == Verdict::Survived {
            survivors.push(mutation);
        }
    }
    for (verdict, count) in &tally {
        println!("{count:>6} {}", verdict.text());
    }
    if survivors.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = survivors
        .iter()
        .map(|mutation| format!("  {mutation}"))
        .collect();
    Err(format!(
        "no test notices these: add literal cases, or name them in xtask/src/mutants/equivalent.txt\n{}",
        lines.join("\n")
    ))
}
