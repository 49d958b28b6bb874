//! Runs the fuzz targets with the inputs of the fuzz corpora, and with damaged copies of each
//! input. This test does not need the unstable compiler that fuzzing needs.
//!
//! If the fuzzer finds an input that causes a crash, the input is stored as a file in
//! `fuzz/corpus/TARGET`. The tests with damaged copies are no substitute for fuzzing, but they find
//! errors that many inputs cause.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

use margay_tests::fuzz::{TARGETS, Target};

/// Factor by which `MARGAY_FULL=1` multiplies the number of damaged copies.
const FULL: u32 = 40;

/// Returns the inputs in the corpus of a target, with their file names.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let listing = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut seeds: Vec<_> = listing
        .map(|entry| {
            let path = entry.expect("a readable folder").path();
            (
                path.display().to_string(),
                fs::read(&path).expect("a readable seed"),
            )
        })
        .collect();
    seeds.sort();
    seeds
}

/// A xorshift generator, so that the copies are damaged in the same way on every machine.
struct Random(u32);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 as usize % bound.max(1)
    }
}

/// Returns a copy of the input `seed` with one to four changes. A change sets, removes, repeats or
/// inserts bytes.
fn damage(seed: &[u8], random: &mut Random) -> Vec<u8> {
    const LIKELY: &[u8] = b"\0\xff\x7f\x80 \n\"'{}()[];:,.@%$_*/+-<>=0189afx";
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(40)).min(bytes.len());
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] = LIKELY[random.below(LIKELY.len())],
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 if at < end => drop(bytes.drain(at..end)),
            3 if at < end => bytes.extend_from_within(at..end),
            _ => bytes.insert(at, LIKELY[random.below(LIKELY.len())]),
        }
    }
    bytes
}

/// Runs a target with the input `bytes`. If the target panics, writes the input to a file and
/// prints the name of the file.
fn attempt(target: &Target, file: &str, copy: u32, bytes: &[u8]) {
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes)));
    if let Err(panic) = outcome {
        let path =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("crash-{}", target.name));
        fs::write(&path, bytes).expect("the input can be saved");
        eprintln!(
            "{}: copy {copy} of {file}, saved as {}",
            target.name,
            path.display()
        );
        resume_unwind(panic);
    }
}

fn replay(name: &str) {
    let target = TARGETS
        .iter()
        .find(|t| t.name == name)
        .expect("a target of that name");
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "no seeds for {name}");
    let full = std::env::var_os("MARGAY_FULL").is_some_and(|v| v == "1");
    let copies = target.damaged * if full { FULL } else { 1 };
    let mut random = Random(0x2545_f491);
    for (file, bytes) in seeds {
        attempt(target, &file, 0, &bytes);
        for copy in 1..=copies {
            attempt(target, &file, copy, &damage(&bytes, &mut random));
        }
    }
}

/// Defines one test for each fuzz target, so that the targets run in parallel and in separate
/// processes.
macro_rules! replay {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_replayed() {
            let replayed = [$(stringify!($name)),*];
            let names: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
            assert_eq!(names, replayed);
        }
    };
}

replay!(lexer parser lower container ir_text driver_calls image_sizes kernels large_kernels process_limits);

/// Runs the target for driver calls with random inputs. `MARGAY_SEED` is the random seed; with
/// `MARGAY_FULL=1`, more inputs run.
#[test]
fn random_driver_calls() {
    const CALLS: usize = 64;
    /// Number of random input bytes for each call. A call uses two bytes for the entry point and
    /// one byte for each argument.
    const BYTES: usize = 12;
    let seed = std::env::var("MARGAY_SEED").unwrap_or_default();
    let seed = seed.bytes().fold(0x9e37_79b9_u32, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let target = TARGETS.iter().find(|target| target.name == "driver_calls");
    let target = target.expect("a target");
    let mut random = Random(seed | 1);
    let count = if std::env::var_os("MARGAY_FULL").is_some() {
        40 * FULL
    } else {
        FULL
    };
    for copy in 0..count {
        let bytes: Vec<u8> = (0..CALLS * BYTES)
            .map(|_| random.below(256) as u8)
            .collect();
        attempt(target, "nothing", copy, &bytes);
    }
}
