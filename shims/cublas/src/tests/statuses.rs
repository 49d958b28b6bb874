//! Compares the answers to wrong arguments with those of NVIDIA's library.
//!
//! `tests/data/statuses.txt` contains calls that differ in one or two parameters from a correct call. In a correct call,
//! dimensions and leading dimensions are 4, increments 1, batches have 2 items, and addresses are valid.

use std::collections::HashMap;

use super::raw::{Buffer, MOST, call, entry};
use crate::entry::{Entry, WRONG};

const STATUSES: &str = include_str!("../../tests/data/statuses.txt");

/// Calls for which the documentation says something else than what NVIDIA's library does, or for which that depends on the
/// device; the documented status is tested in `calls`.
const DIFFERENT: &[(&str, &str)] = &[
    // m, n and batchCount must not be negative.
    ("gemvBatched", "=-1 0"),
    ("gemvStridedBatched", "=-1 0"),
    ("gemv_v2", "=-1 0"),
    ("gemv_v2", "m=-1 lda=0 0"),
    ("gemvBatched", "m=-1 lda=0 0"),
    ("gemvStridedBatched", "m=-1 lda=0 0"),
    ("BatchedEx", "batchCount=-1 0"),
    // An unknown compute type is not supported.
    ("GemmBatchedEx", "computeType=99 7"),
    ("GemmStridedBatchedEx", "computeType=99 7"),
    // A number that belongs to no algorithm.
    ("Ex", "algo=16 15"),
];

/// Returns the value of a parameter in a correct call.
fn correct(entry: &Entry, name: &str, kind: &str, places: &Places) -> usize {
    let function = entry.name;
    match kind {
        "int" if name.starts_with("inc") => 1,
        "int" if name == "kl" || name == "ku" || name == "group_count" => 1,
        "int" if name.starts_with("batch") => 2,
        "int" if name == "k" && (function.contains("bmv") || function.contains("bsv")) => 1,
        "int" => 4,
        "op" | "uplo" | "side" | "diag" => 0,
        "i64" => 16,
        "i32" if name == "computeType" => 68,
        "i32" if name == "algo" => -1_i32 as usize,
        "i32" if name.ends_with("_bias") || name == "C_shift" => 0,
        "i32" if name == "C_mult" => 1,
        "i32" if function.starts_with("cublasC") || function == "cublasDotcEx" => 4,
        "i32" => 0,
        "&f64" | "&c64" => places.one_double.as_ptr().expose_provenance(),
        "&f16" => places.one_half.as_ptr().expose_provenance(),
        kind if kind.starts_with('&') => places.one.as_ptr().expose_provenance(),
        "*void" | "*c32" | "*f32" if matches!(name, "alpha" | "beta" | "c" | "s") => {
            places.one.as_ptr().expose_provenance()
        }
        "*f32" | "*void" if name.ends_with("_array") => places.one.as_ptr().expose_provenance(),
        "ints" => places.fours.as_ptr().expose_provenance(),
        "*i32" if name.starts_with("trans") => places.zeros.as_ptr().expose_provenance(),
        kind if kind.starts_with("**") || kind.starts_with("@@") => places.addresses.address(),
        kind if kind.starts_with(['*', '@', '=']) => places.memory.address(),
        other => panic!("no value for {other}"),
    }
}

struct Places {
    one: [f32; 4],
    one_double: [f64; 2],
    one_half: [u16; 2],
    fours: [i32; 4],
    zeros: [i32; 4],
    memory: Buffer,
    addresses: Buffer,
}

/// Returns the names of the parameters of each function, which the tables do not contain.
fn names() -> HashMap<String, Vec<String>> {
    let lists = [
        margay_cublas_api::Library::Cublas,
        margay_cublas_api::Library::CublasLt,
    ];
    let all = lists.into_iter().flat_map(margay_cublas_api::entries);
    let names = |entry: margay_cublas_api::Entry| {
        let parameters = entry.parameters.into_iter().map(|parameter| parameter.name);
        (entry.name, parameters.collect())
    };
    all.map(names).collect()
}

#[test]
fn wrong_arguments_get_the_answers_of_nvidias_library() {
    let places = Places {
        one: [1.0, 0.0, 0.0, 0.0],
        one_double: [1.0, 0.0],
        one_half: [0x3c00, 0],
        fours: [4; 4],
        zeros: [0; 4],
        memory: Buffer::of_addresses(),
        addresses: Buffer::of_addresses(),
    };
    let names = names();
    let mut handle = 0_usize;
    let mut arguments = [0; MOST];
    arguments[0] = (&raw mut handle).expose_provenance();
    assert_eq!(call(entry("cublasCreate_v2"), &arguments, 0.0), 0);
    let mut wrong = Vec::new();
    let mut compared = 0;
    for line in STATUSES.lines().filter(|line| !line.starts_with('#')) {
        if DIFFERENT
            .iter()
            .any(|(name, rest)| line.contains(name) && line.ends_with(rest))
        {
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let entry = entry(words[0]);
        let changes: Vec<(&str, &str)> = words
            .iter()
            .filter_map(|word| word.split_once('='))
            .collect();
        let status: usize = words[1 + changes.len()].parse().expect("a status");
        let mut arguments = [0; MOST];
        arguments[0] = handle;
        for (index, (name, kind)) in names[words[0]]
            .iter()
            .zip(entry.kinds.split_whitespace())
            .enumerate()
        {
            let change = changes.iter().find(|(changed, _)| changed == name);
            arguments[index + 1] = match change {
                Some((_, "null")) => 0,
                Some((_, value)) => value.parse::<isize>().expect("a number") as usize,
                None => correct(entry, name, kind, &places),
            };
        }
        let got = call(entry, &arguments, 0.0) & 0xffff_ffff;
        compared += 1;
        let number = words.get(2 + changes.len());
        let number: Option<u32> = number.map(|number| number.parse().expect("a number"));
        // NVIDIA's library counts the parameters of `trmm` as BLAS does, which has no third matrix.
        let same_number =
            words[0].contains("trmm") || number.is_none_or(|number| number == WRONG.get());
        if got != status || !same_number {
            wrong.push(format!("{line}: {got} {}", WRONG.get()));
        }
    }
    assert!(compared > 2000, "{compared}");
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
