//! Tests that the digest of the code generator, which is part of the keys of the disk cache, covers all crates of the
//! workspace that determine the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose code and dependencies determine native code and the kernels in the cache.
const ROOTS: [&str; 2] = ["margay-jit", "margay-frontend"];

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the folder of a crate, relative to the folder of the workspace; `None` if the crate is not in the workspace.
fn folder_of(workspace: &str, name: &str) -> Option<String> {
    let mut lines = workspace.lines();
    let rest = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" = { path = \""))?;
    rest.split_once('"').map(|(path, _)| path.to_owned())
}

/// Returns the names in the sections of a manifest that list what the library and its build script depend on.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut is_listed = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_listed = line.ends_with("dependencies]")
                && !line.trim_start_matches('[').starts_with("dev-");
        } else if is_listed && let Some(end) = line.find(['.', ' ', '=']) {
            names.push(line[..end].to_owned());
        }
    }
    names
}

/// Returns the folders of the crates of the workspace that determine the code, relative to the folder of the workspace.
fn crates() -> BTreeSet<String> {
    let workspace = read(folder().join("../Cargo.toml"));
    let mut found = BTreeSet::new();
    let mut work: Vec<String> = ROOTS.iter().map(|&name| name.to_owned()).collect();
    while let Some(name) = work.pop() {
        if let Some(path) = folder_of(&workspace, &name)
            && found.insert(path.clone())
        {
            work.extend(dependencies(&read(
                folder().join("..").join(path).join("Cargo.toml"),
            )));
        }
    }
    found
}

#[test]
fn the_digest_covers_every_crate_that_determines_code() {
    let script = read(folder().join("build.rs"));
    let crates = crates();
    for needed in [
        "jit/x64",
        "jit/vir",
        "jit/vectorise",
        "ir/ops",
        "frontend/ptx",
    ] {
        assert!(crates.contains(needed), "{needed}: {crates:?}");
    }
    for path in crates {
        let near = match path.strip_prefix("jit") {
            Some("") => String::new(),
            Some(inner) => format!("{}/", &inner[1..]),
            None => format!("../{path}/"),
        };
        for source in ["src", "Cargo.toml"] {
            let entry = format!("\"{near}{source}\"");
            assert!(
                script.contains(&entry),
                "`SOURCES` in jit/build.rs lacks {entry}"
            );
        }
    }
}
