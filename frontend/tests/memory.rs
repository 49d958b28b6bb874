//! Checks how much memory the parser needs for a text, and what happens if there is not enough memory.
//!
//! Each measurement runs in a separate process: this test program starts itself with an environment variable that names
//! the case to measure.
#![allow(
    clippy::print_stdout,
    reason = "the process that measures tells the one that compares"
)]

use std::process::{Command, Output};

use margay_frontend::{Code, LazyModule, SourceFile, parse, resolve};

/// The environment variable that tells a measuring process the name of the case to measure.
const CASE: &str = "MARGAY_TEST_MEMORY_CASE";
/// The number of values in the initialiser of each case.
const VALUES: usize = 1_000_000;
/// An upper limit for the memory, in bytes, that parsing needs independently of the number of
/// values.
const CONSTANT: usize = 1 << 20;

/// Returns the PTX text of a case: it declares a variable whose initialiser has [`VALUES`] values.
fn text(case: &str) -> String {
    let (variable, value) = match case {
        "bytes" => ("b8 g[]", "0,"),
        "words" => ("u32 g[]", "123456,"),
        "floats" => ("f64 g[]", "1.5,"),
        "lists" => ("b8 g[][2]", "{0,1},"),
        "addresses" => ("u64 g[]", "a,"),
        _ => panic!("{case}"),
    };
    let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n.global .b8 a;\n");
    text.push_str(&format!(".visible .global .{variable} = {{"));
    text.push_str(&value.repeat(VALUES));
    text.pop();
    text.push_str("};\n");
    text
}

/// Returns the value of the field `field` in `/proc/self/status`, converted from KiB to bytes.
fn state(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a state");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number: Option<usize> =
        line.and_then(|line| line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().ok());
    1024 * number.unwrap_or_else(|| panic!("no {field}"))
}

/// This function does the work of the measuring process, and does nothing in other processes. It parses and lowers the
/// text of the case that [`CASE`] names, and prints how much memory this takes.
#[test]
fn measure() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    let text = text(&case);
    println!("size {}", state("VmPeak"));
    let before = state("VmRSS");
    let parsed = parse(SourceFile::new("k.ptx", text));
    let result = match parsed.has_errors() {
        true => Err(parsed.diagnostics),
        false => {
            let resolution = resolve::resolve(&parsed);
            LazyModule::new(parsed, resolution)
        }
    };
    match result {
        Ok(mut module) => {
            let contents = module.take_contents();
            let bytes: usize = contents.values().map(|symbol| symbol.init.len()).sum();
            println!("contents {bytes}");
        }
        Err(problems) => {
            assert!(problems.iter().any(|p| p.code == Code::OUT_OF_MEMORY));
            assert!(problems.iter().any(|p| p.needed_bytes().is_some()));
            println!("out of memory");
        }
    }
    println!("grown {}", state("VmHWM").saturating_sub(before));
}

/// Measures a case in a separate process whose address space is limited to `limit` bytes. Returns the output of the
/// process.
fn measured(case: &str, limit: Option<usize>) -> (Output, String) {
    let program = std::env::current_exe().expect("this program");
    let limit = limit.map_or("unlimited".to_owned(), |limit| (limit / 1024).to_string());
    let output = Command::new("sh")
        .arg("-c")
        .arg("ulimit -v $0 && exec \"$1\" --exact measure --nocapture --test-threads 1")
        .arg(limit)
        .arg(program)
        .env(CASE, case)
        // Use only one malloc arena, so that the size of the heap does not depend on threads.
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

/// Returns the number after `word` in the output of a measuring process.
fn number(text: &str, word: &str) -> usize {
    let words: Vec<&str> = text.split_whitespace().collect();
    let found = words.windows(2).find(|pair| pair[0] == word);
    let number = found.and_then(|pair| pair[1].parse().ok());
    number.unwrap_or_else(|| panic!("no {word} in {text}"))
}

// Regression test: each value took 32 bytes in a vector that was copied at the end, instead of a few bytes.
#[test]
fn values_of_initialisers_take_few_bytes() {
    for (case, contents, most) in [
        ("bytes", 1, 8),
        ("words", 4, 14),
        ("floats", 8, 28),
        ("lists", 2, 40),
        // A relocation has 32 bytes. The vector of relocations doubles its capacity when it is full, and during the
        // copy both allocations exist.
        ("addresses", 8, 32 + 64),
    ] {
        let (output, text) = measured(case, None);
        assert!(output.status.success(), "{case}: {output:?}");
        assert_eq!(number(&text, "contents"), contents * VALUES, "{case}");
        let each = number(&text, "grown").saturating_sub(CONSTANT) / VALUES;
        println!("{case}: {each} bytes for each value");
        assert!(each <= most, "{case}: {each} bytes for each value");
    }
}

// Regression test: a failed allocation aborted the process instead of returning an error.
#[test]
fn missing_memory_is_an_error() {
    let (_, text) = measured("addresses", None);
    let size = number(&text, "size");
    let mut errors = 0;
    for more in [8, 16, 24, 32, 48] {
        let (output, text) = measured("addresses", Some(size + (more << 20)));
        assert!(output.status.success(), "{more}: {output:?}");
        errors += usize::from(text.contains("out of memory"));
    }
    assert!(errors > 1, "memory was enough {errors}");
}
