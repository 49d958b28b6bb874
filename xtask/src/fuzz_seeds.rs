//! `cargo xtask fuzz-seeds`: small seed corpora for the fuzz targets, in `fuzz/corpus`.
//!
//! The seeds are real inputs from the repository's own test data, cut to a size that a fuzzer can mutate
//! usefully. `tests/tests/fuzz_corpora.rs` replays whatever is in the folders.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Outcome, exec};

/// Larger files teach a fuzzer little and slow it down.
const MAX_SEED: u64 = 12_000;
/// Seeds taken from each source.
const PER_SOURCE: usize = 24;

/// Which files seed which target: target, folder, extension.
const SOURCES: &[(&str, &str, &str)] = &[
    ("container", "frontend/tests/data", "fatbin"),
    ("container", "frontend/tests/data", "cubin"),
    ("container", "frontend/tests/data", "o"),
    ("lexer", "tests/cuda/ptx", "ptx"),
    ("parser", "tests/cuda/ptx", "ptx"),
];

pub(crate) fn run(_: &[String]) -> Outcome {
    let mut written = 0;
    for (target, folder, extension) in SOURCES {
        let corpus = exec::root().join("fuzz/corpus").join(target);
        fs::create_dir_all(&corpus).map_err(|e| format!("{}: {e}", corpus.display()))?;
        for file in seeds(&exec::root().join(folder), extension)? {
            let name = file.file_name().expect("a listed file has a name");
            fs::copy(&file, corpus.join(name)).map_err(|e| format!("{}: {e}", file.display()))?;
            written += 1;
        }
    }
    println!("{written} seeds in fuzz/corpus");
    Ok(())
}

/// The first small files with `extension` in `folder`, in order of their names.
fn seeds(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let listing = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let small =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() <= MAX_SEED);
    let mut files: Vec<PathBuf> = listing
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .filter(small)
        .collect();
    files.sort();
    files.truncate(PER_SOURCE);
    Ok(files)
}
