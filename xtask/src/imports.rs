//! `cargo xtask imports`: checks that the modules of every crate import only from lower layers of
//! the crate.
//!
//! `imports/layers.txt` lists the top-level modules of each crate, beginning with the lowest layer.
//! A module may import only modules that precede it in the list. Tests (files and modules under
//! `cfg(test)`) may import anything.
//!
//! Every path in code that begins with `crate::` counts as an import, both in `use` items
//! (including items with nested braces) and in expressions. An import of a name that the crate's
//! root re-exports counts as an import of the module that defines it.

mod layers;
mod paths;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use self::layers::Crate;
use crate::{Outcome, exec};

const LAYERS: &str = include_str!("imports/layers.txt");

/// An import: the importing module, the imported module, file and line.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Import {
    from: String,
    to: String,
    file: PathBuf,
    line: usize,
}

pub(crate) fn run(args: &[String]) -> Outcome {
    if !args.is_empty() {
        return Err("this command has no options".to_owned());
    }
    let crates = layers::parse(LAYERS)?;
    let mut wrong = missing_crates(&crates)?;
    for layers in &crates {
        let sources = exec::root().join(&layers.name).join("src");
        let imports = imports_of(&sources)?;
        wrong.extend(layers.faults(&modules_of(&sources)?, &imports));
    }
    if wrong.is_empty() {
        println!("{} crates: all imports lead down", crates.len());
        return Ok(());
    }
    Err(format!(
        "imports against the order of xtask/src/imports/layers.txt:\n{}",
        wrong.join("\n")
    ))
}

/// Crates whose modules import each other in cycles, so that no order exists yet: in `shims/blas`, `triangular`, `level3`
/// and `batched` do, `level1` and `vector_routines`, and `core` and `element`.
const CYCLIC: &[&str] = &["shims/blas"];

/// Returns the names of the workspace's crates that the list of layers does not contain.
fn missing_crates(crates: &[Crate]) -> Result<Vec<String>, String> {
    let members = exec::members()?;
    let unknown = members
        .iter()
        .filter(|name| !CYCLIC.contains(&name.as_str()))
        .filter(|name| !crates.iter().any(|known| known.name == **name));
    Ok(unknown
        .map(|name| format!("{name}: not in the list"))
        .collect())
}

/// Returns the top-level modules of a crate: the files and folders in the folder of the crate's root file.
fn modules_of(sources: &Path) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = exec::entries(sources)?
        .iter()
        .filter_map(|path| module_name(path))
        .filter(|name| !is_root(name) && !is_test(name) && name != "bin")
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn module_name(path: &Path) -> Option<String> {
    let is_module = path.is_dir() || path.extension().is_some_and(|ext| ext == "rs");
    let name = path.file_stem()?.to_str()?;
    is_module.then(|| name.to_owned())
}

fn is_root(name: &str) -> bool {
    matches!(name, "lib" | "main")
}

fn is_test(name: &str) -> bool {
    name == "tests" || name.ends_with("_tests")
}

/// Returns the imports between the top-level modules of a crate.
fn imports_of(sources: &Path) -> Result<Vec<Import>, String> {
    let modules = modules_of(sources)?;
    let mut exports = BTreeMap::new();
    for root in ["lib.rs", "main.rs"] {
        if let Ok(text) = fs::read_to_string(sources.join(root)) {
            exports.extend(paths::exports(&text));
        }
    }
    let mut found = Vec::new();
    for path in exec::entries(sources)? {
        let Some(from) = module_name(&path).filter(|name| modules.contains(name)) else {
            continue;
        };
        for file in files(&path)? {
            let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            for (line, name) in paths::of_crate(&text) {
                let to = exports.get(&name).unwrap_or(&name);
                if modules.contains(to) && *to != from {
                    found.push(Import {
                        from: from.clone(),
                        to: to.clone(),
                        file: file.clone(),
                        line,
                    });
                }
            }
        }
    }
    Ok(found)
}

/// Returns the source files at a path (a file or a folder), except files that contain tests.
fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut all = Vec::new();
    for entry in exec::entries(path)? {
        if module_name(&entry).is_some_and(|name| !is_test(&name)) {
            all.extend(files(&entry)?);
        }
    }
    Ok(all)
}
