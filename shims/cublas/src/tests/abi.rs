//! Compares the lists of entry points with the functions that NVIDIA's libraries export and that its headers declare.

use std::collections::{BTreeMap, BTreeSet};

use super::raw::entries;
use crate::entry::Entry;

const PROTOTYPES: &str = include_str!("../../tests/data/prototypes.txt");

/// Returns the classes of the result and of the parameters of an entry point.
fn classes(entry: &Entry) -> (String, String) {
    let wide = matches!(entry.form, "Wide" | "FreeWide" | "Xt");
    let legacy = entry.form == "Legacy";
    let value = |name: &str| match name {
        "f32" => "f",
        "f64" => "d",
        "c32" => "c",
        "c64" => "z",
        "index" => "i",
        other => panic!("no class for {other}"),
    };
    let mut result = "i".to_owned();
    if legacy {
        result = "v".to_owned();
    }
    let mut parameters = String::new();
    if matches!(entry.form, "Plain" | "Wide" | "Xt") {
        parameters.push('p');
    }
    for kind in entry.kinds.split_whitespace() {
        if let Some(name) = kind.strip_prefix('=').filter(|_| legacy) {
            result = value(name).to_owned();
            continue;
        }
        parameters.push_str(match kind {
            "int" if wide => "l",
            "int" | "i32" => "i",
            "i64" | "u64" => "l",
            "f32" => "f",
            "op" | "uplo" | "side" | "diag" if legacy => "b",
            "op" | "uplo" | "side" | "diag" => "i",
            "ptr" | "ints" => "p",
            // Handles, addresses and sizes.
            "usize" => "?",
            kind if legacy && kind.starts_with('&') => value(&kind[1..]),
            kind if kind.starts_with(['&', '*', '@', '=']) => "p",
            other => panic!("no class for {other}"),
        });
    }
    (result, parameters)
}

#[test]
fn parameters_are_those_of_the_headers() {
    let mut ours: BTreeMap<(&str, u32), &Entry> = BTreeMap::new();
    for entry in entries() {
        for toolkit in entry.toolkits {
            ours.insert((entry.name, *toolkit), entry);
        }
    }
    let mut seen = BTreeSet::new();
    for line in PROTOTYPES.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let toolkits = words.next().expect("toolkits");
        let name = words.next().expect("a name");
        let declared = words.next().zip(words.next());
        for toolkit in toolkits.split('+') {
            let toolkit: u32 = toolkit.parse().expect("a number");
            let entry = ours.get(&(name, toolkit));
            let entry = entry.unwrap_or_else(|| panic!("{name} is not listed for CUDA {toolkit}"));
            seen.insert((name, toolkit));
            let Some((result, parameters)) = declared.filter(|_| !entry.missing) else {
                continue;
            };
            let (our_result, our_parameters) = classes(entry);
            // Some functions return no status.
            if !matches!(result, "l" | "p") && name != "cublasXerbla" {
                assert_eq!(our_result, result, "the result of {name}");
            }
            let same = |(ours, theirs): (char, char)| match ours {
                '?' => matches!(theirs, 'p' | 'l'),
                ours => ours == theirs,
            };
            let parameters = parameters.trim_matches('-');
            let all = our_parameters.chars().zip(parameters.chars()).all(same);
            assert!(
                all && our_parameters.len() == parameters.len(),
                "{name}: {our_parameters} is not {parameters}"
            );
        }
    }
    let more: Vec<_> = ours.keys().filter(|key| !seen.contains(key)).collect();
    assert!(
        more.is_empty(),
        "functions that NVIDIA's libraries do not export: {more:?}"
    );
}

/// Compares the list of missing functions in the documentation with the lists of entry points. `BLESS=1` writes it.
#[test]
fn the_documentation_lists_the_missing_functions() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cublas.md");
    const BEGIN: &str = "with the tables of entry points -->\n";
    const END: &str = "<!-- end of missing -->";
    let page = std::fs::read_to_string(PAGE).expect("docs/cublas.md");
    let (before, rest) = page.split_once(BEGIN).expect("the list begins");
    let (_, after) = rest.split_once(END).expect("the list ends");
    let libraries = [
        margay_cublas_api::Library::Cublas,
        margay_cublas_api::Library::CublasLt,
    ];
    let families = libraries
        .into_iter()
        .flat_map(margay_cublas_api::missing_families);
    let list: String = families.map(|family| format!("- `{family}`\n")).collect();
    let expected = format!("{before}{BEGIN}\n{list}\n{END}{after}");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(PAGE, &expected).expect("docs/cublas.md");
    }
    assert!(
        page == expected || std::env::var_os("BLESS").is_some(),
        "docs/cublas.md is stale: BLESS=1"
    );
}
