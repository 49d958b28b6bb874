//! Computes `MARGAY_BUILD`, a digest of everything that determines the code generator. The digest is part of the cache
//! keys, so a build never runs code that another build has stored in the disk cache.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources that determine the generated code: this crate and the crates of the wide back end, the IR with its operations,
/// the CTA scheduler, the front end (the cache identifies some kernels by their PTX text), and the versions, features and
/// profiles of all dependencies. `tests/sources.rs` checks that no crate is missing.
const SOURCES: [&str; 22] = [
    "src",
    "build.rs",
    "Cargo.toml",
    "vectorise/src",
    "vectorise/Cargo.toml",
    "vir/src",
    "vir/Cargo.toml",
    "x64/src",
    "x64/Cargo.toml",
    "../Cargo.toml",
    "../ir/src",
    "../ir/Cargo.toml",
    "../ir/exec/src",
    "../ir/exec/Cargo.toml",
    "../ir/ops/src",
    "../ir/ops/Cargo.toml",
    "../frontend/src",
    "../frontend/Cargo.toml",
    "../frontend/ptx/src",
    "../frontend/ptx/tables",
    "../frontend/ptx/Cargo.toml",
    "../Cargo.lock",
];

/// Variables that Cargo sets for the target and the build options.
const SETTINGS: [&str; 6] = [
    "CARGO_PKG_VERSION",
    "TARGET",
    "OPT_LEVEL",
    "CARGO_CFG_DEBUG_ASSERTIONS",
    "CARGO_CFG_TARGET_FEATURE",
    "CARGO_ENCODED_RUSTFLAGS",
];

fn main() {
    let mut hasher = DefaultHasher::new();
    for name in SOURCES {
        let path = Path::new(name);
        if path.exists() {
            println!("cargo::rerun-if-changed={name}");
        }
        for (path, content) in files(path) {
            (path, content).hash(&mut hasher);
        }
    }
    for name in SETTINGS {
        (name, std::env::var_os(name)).hash(&mut hasher);
    }
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("-vV").output();
    version.map(|output| output.stdout).ok().hash(&mut hasher);
    println!("cargo::rustc-env=MARGAY_BUILD={:016x}", hasher.finish());
}

/// Reads all files at or below a path, in order of their paths. Returns nothing if the path does not exist.
fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    if let Ok(content) = std::fs::read(path) {
        return BTreeMap::from([(path.to_owned(), content)]);
    }
    let inside = std::fs::read_dir(path).into_iter().flatten().flatten();
    inside.flat_map(|entry| files(&entry.path())).collect()
}
