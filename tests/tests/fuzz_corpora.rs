//! Replays the fuzz corpora on a stable compiler, and damages each seed a few times in fixed ways.
//!
//! A crash that the fuzzer finds is kept as one more file in `fuzz/corpus/TARGET`. The damage here is no
//! substitute for fuzzing; it notices at once when a change breaks something broadly.

use std::fs;
use std::path::PathBuf;

use margay_tests::fuzz::TARGETS;

/// Damaged copies of each seed, and with `MARGAY_FULL=1`.
const DAMAGED: u32 = 500;
const DAMAGED_FULL: u32 = 20_000;

/// The seeds of a target, with their names.
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

/// Xorshift: the same damage on every machine.
struct Random(u32);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 as usize % bound.max(1)
    }
}

/// A copy of `seed` with one to four changes: bytes set, removed, repeated or moved.
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

#[test]
fn every_target_has_seeds_and_survives_them() {
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "no seeds for {name}");
        for (file, bytes) in seeds {
            println!("{file}");
            target(&bytes);
        }
    }
}

#[test]
fn every_target_survives_damaged_seeds() {
    let full = std::env::var_os("MARGAY_FULL").is_some_and(|v| v == "1");
    let copies = if full { DAMAGED_FULL } else { DAMAGED };
    for (name, target) in TARGETS {
        let mut random = Random(0x2545_f491);
        for (file, bytes) in seeds(name) {
            println!("{file}");
            for _ in 0..copies {
                target(&damage(&bytes, &mut random));
            }
        }
    }
}
