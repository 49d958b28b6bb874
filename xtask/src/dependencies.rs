//! `cargo xtask dependencies`: checks that each declared dependency is used.
//!
//! A dependency counts as used if its name is a word in the crate's sources. The workspace's table
//! of dependencies must contain only dependencies that a crate of the workspace declares. [`BUILT`]
//! lists further dependencies that count as used: Cargo must build their libraries, although no
//! source code names them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use toml::{Table, Value};

use crate::{Outcome, exec};

/// Pairs of a crate and a dependency whose library cargo must build, because the crate loads or embeds it.
const BUILT: &[(&str, &str)] = &[
    ("cli", "margay-audit"),
    ("cli", "margay-cublas"),
    ("cli", "margay-cublas-12"),
    ("cli", "margay-cublas-13"),
    ("cli", "margay-cublas-lt-12"),
    ("cli", "margay-cublas-lt-13"),
    ("cli", "margay-cupti-12"),
    ("cli", "margay-cupti-13"),
    ("cli", "margay-ffi"),
    ("cli", "margay-nccl"),
    ("cli", "margay-nvml"),
    ("cli", "margay-ocelot"),
    ("tests", "margay-ffi"),
];

const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

pub(crate) fn run(args: &[String]) -> Outcome {
    if !args.is_empty() {
        return Err("this command has no options".to_owned());
    }
    let root = exec::root();
    let (mut used, mut wrong) = (BTreeSet::new(), Vec::new());
    for member in exec::members()? {
        let declared = declared(&exec::toml(&root.join(&member).join("Cargo.toml"))?);
        let mut words = BTreeSet::new();
        add_words(&root.join(&member), &mut words)?;
        wrong.extend(unused(&member, &declared, &words));
        used.extend(declared);
    }
    let manifest = exec::toml(&root.join("Cargo.toml"))?;
    let known = manifest["workspace"]["dependencies"].as_table();
    let known = known.ok_or("Cargo.toml has no dependencies")?;
    // A crate of the workspace may be listed in the table even if no crate depends on it.
    let others = known.keys().filter(|name| !name.starts_with("margay"));
    let idle = others.filter(|name| !used.contains(*name));
    wrong.extend(idle.map(|name| format!("Cargo.toml: no crate depends on {name}")));
    if wrong.is_empty() {
        println!("{} dependencies: all are used", used.len());
        return Ok(());
    }
    Err(format!("declared and not used:\n{}", wrong.join("\n")))
}

/// Returns the names of all dependencies in a crate's manifest, including those for particular
/// targets.
fn declared(manifest: &Table) -> BTreeSet<String> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values);
    let tables = targets.filter_map(Value::as_table).chain([manifest]);
    let of_table = |table: &Table| -> Vec<String> {
        let named = TABLES
            .iter()
            .filter_map(|name| table.get(*name)?.as_table());
        named.flat_map(|named| named.keys().cloned()).collect()
    };
    tables.flat_map(of_table).collect()
}

fn unused(member: &str, declared: &BTreeSet<String>, words: &BTreeSet<String>) -> Vec<String> {
    let idle = |name: &&String| {
        !words.contains(&name.replace('-', "_")) && !BUILT.contains(&(member, name.as_str()))
    };
    let idle = declared.iter().filter(idle);
    idle.map(|name| format!("{member}: {name}")).collect()
}

/// Adds to `words` the words of all source files below `folder`.
fn add_words(folder: &Path, words: &mut BTreeSet<String>) -> Outcome {
    for path in exec::entries(folder)? {
        if path.is_dir() {
            // A nested crate has its own dependencies, so its words do not count for this crate.
            if !path.join("Cargo.toml").exists() && !path.ends_with("target") {
                add_words(&path, words)?;
            }
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let text = read(&path)?;
            add_words_of(&text, words);
            // A file of another folder that is a module of this crate.
            for module in named_files(&text) {
                add_words_of(&read(&folder.join(module))?, words);
            }
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn add_words_of(text: &str, words: &mut BTreeSet<String>) {
    let all = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.extend(all.map(str::to_owned));
}

/// Returns the paths of the source files that attributes `#[path = "PATH"]` of a source file name. The attribute of a module
/// in braces names a folder.
fn named_files(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]"))
        .filter(|path| path.ends_with(".rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tables_of_a_manifest_count() {
        let manifest: Table =
            "[dependencies]\na-b = \"1\"\n[dev-dependencies]\nc.workspace = true\n\
            [target.'cfg(unix)'.dependencies]\nd = { version = \"1\" }\n[features]\ne = []"
                .parse()
                .unwrap();
        let declared = declared(&manifest);
        assert_eq!(Vec::from_iter(&declared), ["a-b", "c", "d"]);
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        assert_eq!(unused("x", &declared, &words("a_b c d")), [""; 0]);
        assert_eq!(unused("x", &declared, &words("a c")), ["x: a-b", "x: d"]);
    }

    #[test]
    fn attributes_name_files_of_modules() {
        let text = "#[path = \"../../a.rs\"]\npub mod a;\n    #[path = \"b/c.rs\"]\nmod c;\n#[path = \"../x\"]\nmod x {}\n// path = \"d.rs\"\n";
        assert_eq!(Vec::from_iter(named_files(text)), ["../../a.rs", "b/c.rs"]);
    }

    #[test]
    fn libraries_that_are_built_need_no_mention() {
        let declared = BTreeSet::from(["margay-ffi".to_owned()]);
        assert!(unused("tests", &declared, &BTreeSet::new()).is_empty());
        assert_eq!(unused("runtime", &declared, &BTreeSet::new()).len(), 1);
    }
}
