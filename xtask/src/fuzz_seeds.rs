//! `cargo xtask fuzz-seeds`: writes small seed corpora for the fuzz targets to `fuzz/corpus`.
//!
//! The seeds are inputs from the repository's own test data. Their number and sizes are small,
//! because a fuzzer makes progress faster with small inputs. `tests/tests/fuzz_corpora.rs` runs the
//! fuzz targets with all files of the corpora. Developers also add inputs that a fuzzer has found
//! to the corpora; this command therefore never removes a file.

use std::fs;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;

use crate::{Outcome, conformance, exec};

/// Maximum size of a seed in bytes. Larger inputs make a fuzzer slower and rarely find more errors.
const MAX_SEED: usize = 12_000;

/// A source of seeds: the data from which seeds are created.
enum Source {
    /// All files in a folder with a certain extension. The fields are the folder and the extension.
    Files(&'static str, &'static str),
    /// Every n-th text of a conformance set. The fields are the set and n.
    Texts(&'static str, usize),
    /// Pseudorandom byte sequences, which are the same on every machine. The field is their number.
    Bytes(usize),
    /// All sequences of two bytes: the first byte is in the range, and the second byte is in the list.
    Pairs(Range<u8>, &'static [u8]),
}

/// The fuzz targets, each with a source of its seeds.
const SOURCES: &[(&str, Source)] = &[
    ("driver_calls", Source::Bytes(16)),
    ("kernels", Source::Bytes(12)),
    ("large_kernels", Source::Pairs(0..16, &[8])),
    ("process_limits", Source::Pairs(0..9, &[0, 2, 4])),
    ("process_limits", Source::Pairs(80..110, &[1, 6])),
    ("container", Source::Files("frontend/tests/data", "fatbin")),
    ("container", Source::Files("frontend/tests/data", "cubin")),
    ("container", Source::Files("frontend/tests/data", "o")),
    ("lexer", Source::Texts("rejected", 12)),
    ("lexer", Source::Texts("modules", 12)),
    ("parser", Source::Texts("rejected", 5)),
    ("parser", Source::Texts("modules", 3)),
    ("lower", Source::Texts("modules", 4)),
    ("lower", Source::Files("tests/cuda/ptx", "ptx")),
];

/// A seed's file name and contents.
type Seed = (String, Vec<u8>);

pub(crate) fn run(_: &[String]) -> Outcome {
    let mut written = 0;
    for (target, source) in SOURCES {
        let corpus = exec::root().join("fuzz/corpus").join(target);
        fs::create_dir_all(&corpus).map_err(|e| format!("{}: {e}", corpus.display()))?;
        let seeds = match source {
            Source::Files(folder, extension) => files(&exec::root().join(folder), extension)?,
            Source::Texts(set, step) => texts(set, *step)?,
            Source::Bytes(count) => bytes(*count),
            Source::Pairs(first, second) => pairs(first.clone(), second),
        };
        for (name, bytes) in seeds.iter().filter(|(_, bytes)| bytes.len() <= MAX_SEED) {
            fs::write(corpus.join(name), bytes).map_err(|e| format!("{name}: {e}"))?;
            written += 1;
        }
    }
    println!("{written} seeds in fuzz/corpus");
    Ok(())
}

fn files(folder: &Path, extension: &str) -> Result<Vec<Seed>, String> {
    let paths = exec::entries(folder)?.into_iter();
    let chosen = paths.filter(|path| path.extension().is_some_and(|e| e == extension));
    let read = |path: std::path::PathBuf| {
        let name = path
            .file_name()
            .expect("a listed file has a name")
            .to_string_lossy()
            .into_owned();
        fs::read(&path)
            .map(|bytes| (name, bytes))
            .map_err(|e| format!("{}: {e}", path.display()))
    };
    chosen.map(read).collect()
}

fn texts(set: &str, step: usize) -> Result<Vec<Seed>, String> {
    let packed = exec::root().join(format!("tests/data/conformance/{set}.jsonl.gz"));
    let lines = conformance::read_gz(&packed)?;
    let seed = |line| {
        let record: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        match (record["file"].as_str(), record["text"].as_str()) {
            (Some(file), Some(text)) => Ok((file.to_owned(), text.as_bytes().to_vec())),
            _ => Err(format!("{set}: a record without file or text")),
        }
    };
    lines.lines().step_by(step).map(seed).collect()
}

/// Returns `count` pseudorandom byte sequences of growing length.
fn bytes(count: usize) -> Vec<Seed> {
    const STEP: usize = 24;
    let mut state: u32 = 0x1234_5678;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as u8
    };
    (1..=count)
        .map(|n| {
            (
                format!("calls-{n:02}"),
                (0..n * STEP).map(|_| next()).collect(),
            )
        })
        .collect()
}

fn pairs(first: Range<u8>, second: &[u8]) -> Vec<Seed> {
    first
        .flat_map(|a| second.iter().map(move |&b| (a, b)))
        .map(|(a, b)| (format!("pair-{a:03}-{b:03}"), vec![a, b]))
        .collect()
}
