//! Checks that all tests that docs/semantics.md names exist, and that the page names every test of
//! `tests/ptx/semantics` and `tests/tests/semantics`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the tests that the last column of the page's tables names in backquotes: a file and, if
/// the column names them, tests in this file.
fn named() -> Vec<(String, Option<String>)> {
    let mut named = Vec::new();
    for line in read(&root().join("docs/semantics.md")).lines() {
        let Some(row) = line.strip_prefix("| ") else {
            continue;
        };
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        let [_, tests] = cells[..] else {
            panic!("two columns: {line}");
        };
        for (index, part) in tests.split('`').enumerate() {
            if index % 2 == 1 {
                let mut words = part.split(' ');
                let file = words.next().expect("not empty").to_owned();
                let tests: Vec<&str> = words.collect();
                if tests.is_empty() {
                    named.push((file, None));
                } else {
                    let all = tests.into_iter().map(|test| Some(test.to_owned()));
                    named.extend(all.map(|test| (file.clone(), test)));
                }
            }
        }
        let is_head = tests == "tests" || tests.starts_with("---");
        assert!(
            is_head || tests.contains('`') || tests.starts_with("not built"),
            "no test: {line}"
        );
    }
    named
}

#[test]
fn every_test_that_is_named_exists() {
    let named = named();
    assert!(named.len() > 60, "{}", named.len());
    for (file, test) in named {
        let path = root().join(&file);
        let Some(test) = test else {
            assert!(path.exists(), "{file}");
            continue;
        };
        let text = read(&path);
        let kernel = format!("//@ kernel: {test}\n");
        let function = format!("fn {test}(");
        assert!(
            text.contains(&kernel) || text.contains(&function),
            "{file} has no {test}"
        );
    }
}

#[test]
fn every_test_of_these_rules_is_named() {
    let named: BTreeSet<(String, String)> = named()
        .into_iter()
        .filter_map(|(file, test)| Some((file, test?)))
        .collect();
    let files = |folder: &str| {
        let entries = fs::read_dir(root().join(folder)).expect(folder);
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("listed").path()).collect();
        paths.sort();
        paths
    };
    for folder in ["tests/ptx/semantics", "tests/tests/semantics"] {
        for path in files(folder) {
            let name = path.file_name().expect("a file").to_string_lossy();
            if name == "table.rs" {
                continue;
            }
            let file = format!("{folder}/{name}");
            let mut test_follows = false;
            for line in read(&path).lines() {
                let kernel = line.strip_prefix("//@ kernel: ");
                let function = line.strip_prefix("fn ").filter(|_| test_follows);
                let function = function.and_then(|rest| rest.split('(').next());
                test_follows = line == "#[test]";
                if let Some(test) = kernel.or(function) {
                    let known = named.contains(&(file.clone(), test.to_owned()));
                    assert!(known, "{file} {test} is not in docs/semantics.md");
                }
            }
        }
    }
}
