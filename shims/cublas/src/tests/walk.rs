//! Calls every function with arguments of many kinds: null, wrong addresses, valid memory, numbers that are too small and
//! too large. No call may crash.
//!
//! Half of the calls have arguments that are mostly right, with operands at the ends of memory that lies between
//! inaccessible pages: a function that accesses more than it checks crashes.
//!
//! A child process, which runs the program of this test again, makes the calls of a part of the functions. A crash names
//! the function that was called last.

use std::io::Write;
use std::process::{Command, Stdio};

use super::raw::{BYTES, Buffer, MOST, call, entries, entry};
use crate::entry::Entry;

/// The environment variable that makes the test a child, with the number of calls of each function.
const CHILD: &str = "MARGAY_TEST_CUBLAS_WALK";

/// A generator of random numbers (xorshift).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize
    }

    pub(super) fn of(&mut self, choices: &[usize]) -> usize {
        choices[self.next() % choices.len()]
    }
}

/// Functions that keep an address of the program, which it must not make wrong.
const KEEPS_ADDRESS: &[&str] = &["LoggerSetFile", "SetLoggerCallback", "LoggerSetCallback"];
/// Functions that write to files.
const WRITES_FILES: &[&str] = &["LoggerConfigure", "LoggerOpenFile"];

fn is_called(entry: &Entry) -> bool {
    let name = entry.name;
    !KEEPS_ADDRESS
        .iter()
        .chain(WRITES_FILES)
        .any(|part| name.ends_with(part))
}

/// The offset of arrays of addresses in the memory.
const ADDRESSES: usize = 3 << 12;

struct Places {
    handles: Vec<usize>,
    memory: Buffer,
    descriptors: Vec<usize>,
}

/// Returns an argument for a parameter.
fn argument(random: &mut Random, kind: &str, entry: &Entry, places: &Places) -> usize {
    let arrays = entry.kinds.contains("**") || entry.kinds.contains("@@");
    const UNMAPPED: usize = 0x5a5a_5a58;
    let minus = -1_isize as usize;
    // The extents of matrices behind arrays of addresses are not known before they are read.
    let small = [0, 1, 2, 3, 4, 5, minus];
    let numbers = [
        0,
        1,
        2,
        3,
        4,
        16,
        64,
        minus,
        0x7fff_ffff,
        i64::MAX as usize,
        i64::MIN as usize,
        1 << 33,
    ];
    let memory = places.memory.address();
    // Arrays of addresses are where no function writes.
    let addresses = memory + ADDRESSES;
    match kind {
        "int" | "i64" | "u64" if arrays => random.of(&small),
        "int" | "i64" | "u64" => random.of(&numbers),
        "op" | "uplo" | "side" | "diag" => random.of(&[0, 1, 2, 3, minus]),
        "i32" => random.of(&[0, 1, 2, 3, 4, 5, 6, 8, 10, 14, 28, 68, 70, 72, 999, minus]),
        "f32" => 0,
        "usize" => {
            let mut choices = vec![0, 1, 64, 256, memory, UNMAPPED, usize::MAX];
            // A size that is too large must not make a function overwrite what follows a descriptor.
            if !entry.name.ends_with("Init_internal") {
                choices.extend(&places.descriptors);
                choices.extend(&places.handles);
            }
            random.of(&choices)
        }
        kind if kind.starts_with("**") || kind.starts_with("@@") => random.of(&[
            0,
            UNMAPPED,
            usize::MAX - 3,
            addresses,
            addresses,
            addresses + 8,
        ]),
        _ => random.of(&[
            0,
            UNMAPPED,
            usize::MAX - 3,
            memory,
            memory,
            memory + 64,
            memory + 8,
        ]),
    }
}

/// What the arguments of a call that is mostly right have in common.
struct Style {
    /// The type of most matrices.
    data: usize,
    compute: usize,
    /// The smallest leading dimension of most calls.
    least: usize,
}

impl Style {
    fn new(random: &mut Random) -> Style {
        // Types and computation in the same order.
        let (data, compute) = [
            (0, 68),
            (1, 70),
            (2, 64),
            (2, 68),
            (4, 68),
            (5, 70),
            (14, 68),
            (3, 72),
            (28, 68),
        ][random.next() % 9];
        Style {
            data,
            compute,
            least: random.next() % 8,
        }
    }
}

/// Returns an argument that is probably right.
fn likely(random: &mut Random, kind: &str, places: &Places, style: &Style) -> usize {
    let memory = places.memory.address();
    match kind {
        "int" | "i64" | "u64" => match random.next() % 8 {
            0 => -(1 + (random.next() % 3) as isize) as usize,
            1 | 2 => random.next() % (style.least + 1),
            3 => 1,
            _ => style.least + random.next() % 4,
        },
        "op" => random.next() % 3,
        "uplo" | "side" | "diag" => random.next() % 2,
        "i32" => random.of(&[style.data, style.data, style.compute, 0, 10]),
        _ => {
            // Distances from both ends, of operands of all sizes.
            let distance = random.next() % (1 << (random.next() % 13)) / 4 * 4;
            match random.next() % 3 {
                0 => memory + distance,
                _ => memory + BYTES - (distance + 4).min(BYTES),
            }
        }
    }
}

#[test]
fn child() {
    let Ok(rounds) = std::env::var(CHILD) else {
        return;
    };
    let rounds: usize = rounds.parse().expect("a number");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut out = std::io::stdout();
    for entry in entries().filter(|entry| is_called(entry)) {
        writeln!(out, "\n{}", entry.name).expect("a pipe");
        for _ in 0..rounds {
            let places = places();
            walk(entry, &mut random, &places);
        }
    }
    writeln!(out, "\ncublasLt").expect("a pipe");
    let places = places();
    for _ in 0..rounds * 100 {
        super::walk_lt::walk(&mut random, places.handles[1], places.memory.address());
    }
    writeln!(out, "\nend").expect("a pipe");
}

fn places() -> Places {
    let mut handles = Vec::new();
    let make = |name: &str, rest: &[usize]| {
        let mut place = 0_usize;
        let mut arguments = [0; MOST];
        arguments[0] = (&raw mut place).expose_provenance();
        arguments[1..=rest.len()].copy_from_slice(rest);
        assert_eq!(call(entry(name), &arguments, 0.0) as i32, 0);
        place
    };
    for name in ["cublasCreate_v2", "cublasLtCreate", "cublasXtCreate"] {
        handles.push(make(name, &[]));
    }
    let descriptors = vec![
        make("cublasLtMatrixLayoutCreate", &[0, 4, 4, 4]),
        make("cublasLtMatmulDescCreate", &[68, 0]),
        make("cublasLtMatmulPreferenceCreate", &[]),
        make("cublasLtMatrixTransformDescCreate", &[0]),
    ];
    let _ = call(entry("cublasInit"), &[0; MOST], 0.0);
    let memory = Buffer::of_addresses();
    crate::fake::restrict(memory.address(), BYTES);
    Places {
        handles,
        memory,
        descriptors,
    }
}

fn walk(entry: &Entry, random: &mut Random, places: &Places) {
    let mut arguments = [0; MOST];
    let mut index = 0;
    match entry.form {
        "Plain" | "Wide" => {
            (arguments[0], index) = (random.of(&[places.handles[0], places.handles[0], 0, 64]), 1)
        }
        "Xt" => {
            (arguments[0], index) = (random.of(&[places.handles[2], places.handles[2], 0, 64]), 1)
        }
        _ => {}
    }
    let style = Style::new(random);
    let arrays = entry.kinds.contains("**") || entry.kinds.contains("@@");
    let is_likely = !arrays && random.next().is_multiple_of(2);
    if is_likely && index == 1 {
        arguments[0] = places.handles[if entry.form == "Xt" { 2 } else { 0 }];
    }
    for kind in entry.kinds.split_whitespace() {
        arguments[index] = match kind {
            "usize" | "f32" => argument(random, kind, entry, places),
            _ if is_likely => likely(random, kind, places, &style),
            _ => argument(random, kind, entry, places),
        };
        index += 1;
    }
    if entry.name.starts_with("cublasLtMatmul") || entry.name == "cublasLtMatrixTransform" {
        arguments[0] = random.of(&[places.handles[1], arguments[0]]);
    }
    let number = random.of(&[0, 1, 3]) as f64;
    call(entry, &arguments, number);
}

#[test]
fn no_arguments_crash_a_function() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let child = Command::new(program)
        .args([
            "tests::walk::child",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(
            CHILD,
            std::env::var_os("MARGAY_TEST_CUBLAS_ROUNDS").unwrap_or("20".into()),
        )
        .env("MARGAY_QUIET", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .output()
        .expect("the child runs");
    let said = String::from_utf8_lossy(&child.stdout);
    let names = said
        .lines()
        .filter(|line| line.starts_with("cublas") || *line == "end");
    let last = names.last().unwrap_or("nothing");
    assert!(
        child.status.success() && last == "end",
        "{:?} after {last}",
        child.status
    );
}
