//! Probes in all PTX texts of the project's tests: the result has no error that the text has not, and can be lowered.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use margay_frontend::resolve::resolve;
use margay_frontend::{SourceFile, lower, parse};
use margay_probe::{Options, Outcome, ProbeFile, Selection, TOOLS, rewrite};
use support::{shipped, toml};

/// Longer texts repeat what shorter ones test.
const LONGEST: u64 = 25_000;

fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of the tests is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() && !entry.ends_with("rejected") {
            texts(&entry, found);
        } else if entry
            .extension()
            .is_some_and(|extension| extension == "ptx")
            && entry.metadata().is_ok_and(|data| data.len() < LONGEST)
        {
            found.push(entry);
        }
    }
}

/// Probes that use helpers at nearly all instructions with these opcodes.
fn curious() -> ProbeFile {
    let mut text = "regs = 4\n".to_owned();
    for (name, pos, values) in [
        ("loads", "ld:ldu", "OUT, ADDR"),
        ("stores", "st:red", "ADDR, IN1"),
        ("atomics", "atom", "ADDR, IN2"),
        (
            "sums",
            "add:sub:mul:mad:fma:min:max:and:or:xor:shl:shr",
            "OUT, IN1",
        ),
        ("moves", "cvt:neg:abs:not:selp:sqrt:rcp", "OUT, IN1"),
        ("tests", "setp", "OUT, IN2"),
        ("matrices", "mma:wmma", "OUT, 1"),
        ("copies", "cp.async.ca:cp.async.cg", "BYTES, ADDR"),
        ("jumps", "bra", "OUT, 2"),
        ("ends", "kernel", "%NR0, 3"),
    ] {
        text += &format!(
            "[probe.{name}]\npos = \"{pos}\"\nlevel = \"thread\"\nafter = \"SAVE [ M ] {{ {values} }};\"\n\
             [probe.{name}_warp]\npos = \"{pos}\"\nlevel = \"warp\"\nbefore = \"SAVE [ W ] {{ %laneid, %smid }};\"\n"
        );
    }
    text += "[map.M]\nlevel = \"thread\"\ntype = \"array\"\nsize = 16\ncap = 4\n[map.M.regs]\na = \"u64\"\nb = \"u64\"\n\
             [map.W]\nlevel = \"warp\"\ntype = \"array\"\nsize = 8\ncap = \"dynamic\"\n[map.W.regs]\na = \"u32\"\nb = \"u32\"\n";
    toml(&text)
}

/// The numbers of kernels that were probed and that no probe fits.
#[derive(Default)]
struct Count {
    probed: usize,
    failed: Vec<String>,
}

fn check(path: &Path, file: &ProbeFile, count: &mut Count) {
    let bytes = std::fs::read(path).expect("the text can be read");
    let parsed = parse(Arc::new(SourceFile::from_bytes(
        path.display().to_string(),
        &bytes,
    )));
    let Ok(done) = rewrite(&parsed, file, &Selection::default(), Options::default()) else {
        return;
    };
    for kernel in &done.kernels {
        match &kernel.outcome {
            Outcome::Probed(_) => count.probed += 1,
            Outcome::Failed(error) => count.failed.push(error.to_string()),
            Outcome::Excluded => {}
        }
    }
    let new = parse(Arc::new(SourceFile::new("probed.ptx", done.text)));
    let resolution = resolve(&new);
    assert!(
        !new.has_errors() && !resolution.has_errors(),
        "{}",
        path.display()
    );
    let before = lower(&parsed, &resolve(&parsed)).is_ok();
    assert_eq!(
        lower(&new, &resolution).is_ok(),
        before,
        "{}",
        path.display()
    );
}

fn all() -> Vec<PathBuf> {
    let mut found = Vec::new();
    texts(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests"),
        &mut found,
    );
    assert!(found.len() > 100, "{}", found.len());
    found
}

#[test]
fn shipped_probes_fit_all_texts() {
    let files: Vec<ProbeFile> = TOOLS.iter().map(|(name, _)| shipped(name)).collect();
    let mut count = Count::default();
    for (index, path) in all().iter().step_by(2).enumerate() {
        check(path, &files[index % files.len()], &mut count);
    }
    assert!(count.probed > 150, "{}", count.probed);
    assert_eq!(count.failed, Vec::<String>::new());
}

#[test]
fn helpers_fit_nearly_all_instructions() {
    let file = curious();
    let mut count = Count::default();
    for path in all().iter().step_by(9) {
        check(path, &file, &mut count);
    }
    // What has no value of at most 64 bits, or no address, is refused by name.
    count.failed.retain(|error| !error.contains("has no value"));
    assert_eq!(count.failed, Vec::<String>::new());
    assert!(count.probed > 20, "{}", count.probed);
}
