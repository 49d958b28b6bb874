//! Checks the exports of the built `libcuda.so` and the results of `cuGetProcAddress`.
//!
//! `data/procaddress.txt` is generated from NVIDIA's headers. Each line contains a symbol, the CUDA
//! version that introduced the export, and the name of the export. If the export uses the default
//! stream of each thread, the line also contains a suffix (`ptsz` or `ptds`). The built library
//! must contain the export of each line and, for each line without a suffix, `cuGetProcAddress`
//! must return the export's address.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char, c_int, c_void};

use common::Driver;

struct Fact {
    symbol: &'static str,
    since: i32,
    suffix: &'static str,
    export: &'static str,
}

fn facts() -> Vec<Fact> {
    let lines = include_str!("data/procaddress.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let (since, suffix) = fields[1].split_once(':').unwrap_or((fields[1], ""));
            Fact {
                symbol: fields[0],
                since: since.parse().expect("a version"),
                suffix,
                export: fields[2],
            }
        })
        .collect()
}

/// Exports that `data/procaddress.txt` does not contain, because `cudaTypedefs.h` does not declare
/// them: those of the headers for the profiler and VDPAU.
const OTHERS: &[&str] = &[
    "cuProfilerInitialize",
    "cuProfilerStart",
    "cuProfilerStop",
    "cuVDPAUGetDevice",
    "cuVDPAUCtxCreate",
    "cuVDPAUCtxCreate_v2",
    "cuGraphicsVDPAURegisterVideoSurface",
    "cuGraphicsVDPAURegisterOutputSurface",
];

#[test]
fn the_table_is_the_list_of_the_headers() {
    let wanted: BTreeSet<&str> = facts().iter().map(|fact| fact.export).collect();
    let wanted: BTreeSet<&str> = wanted.into_iter().chain(OTHERS.iter().copied()).collect();
    let rows: Vec<&str> = cuda::api_rows().map(|row| row.export).collect();
    let have: BTreeSet<&str> = rows.iter().copied().collect();
    assert_eq!(rows.len(), have.len(), "a name stands twice in the table");
    let missing: Vec<_> = wanted.difference(&have).collect();
    assert!(
        missing.is_empty(),
        "not in the table of entry points: {missing:?}"
    );
    let unknown: Vec<_> = have.difference(&wanted).collect();
    assert!(
        unknown.is_empty(),
        "neither in tests/data/procaddress.txt nor in OTHERS: {unknown:?}"
    );
}

#[test]
fn versions_and_suffixes_are_those_of_the_headers() {
    let rows: BTreeMap<&str, &cuda::ApiRow> =
        cuda::api_rows().map(|row| (row.export, row)).collect();
    for fact in facts() {
        let row = rows[fact.export];
        assert_eq!(row.symbol(), fact.symbol);
        assert_eq!(row.since as i32, fact.since, "{}", fact.export);
        assert_eq!(row.stream_suffix, fact.suffix, "{}", fact.export);
    }
}

#[test]
fn the_library_exports_the_table_and_nothing_else() {
    let output = std::process::Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(common::library_path())
        .output()
        .expect("nm runs");
    let text = String::from_utf8(output.stdout).expect("names");
    let exported: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(|name| name.split('@').next().unwrap_or(name))
        .collect();
    let rows = cuda::api_rows().map(|row| row.export);
    // The plugin for pytest calls the first function, clients of NVTX call the others.
    const OTHER: [&str; 3] = [
        "margay_settle",
        "InitializeInjectionNvtx2",
        "cuNvtxGetInjectionInitializer",
    ];
    let wanted: BTreeSet<&str> = rows.chain(OTHER).collect();
    assert_eq!(exported, wanted);
}

#[test]
fn the_library_is_linked_as_a_driver() {
    let output = std::process::Command::new("readelf")
        .arg("-d")
        .arg(common::library_path())
        .output()
        .expect("readelf runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("[libcuda.so.1]"), "soname\n{text}");
    assert!(text.contains("SYMBOLIC"), "-Bsymbolic\n{text}");
    assert!(text.contains("NODELETE"), "-z nodelete\n{text}");
}

type GetV1 = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> u32;
type GetV2 = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut u32) -> u32;

struct Asker {
    driver: Driver,
    get_v1: GetV1,
    get_v2: GetV2,
}

impl Asker {
    fn new() -> Asker {
        let driver = Driver::load();
        Asker {
            // SAFETY: the export has this type.
            get_v1: unsafe { driver.function("cuGetProcAddress") },
            // SAFETY: the export has this type.
            get_v2: unsafe { driver.function("cuGetProcAddress_v2") },
            driver,
        }
    }

    fn ask(&self, symbol: &str, version: c_int, flags: u64) -> (u32, usize, u32) {
        let name = CString::new(symbol).expect("a name");
        let (mut address, mut status) = (std::ptr::dangling_mut::<c_void>(), 99);
        // SAFETY: all pointers are valid.
        let code =
            unsafe { (self.get_v2)(name.as_ptr(), &mut address, version, flags, &mut status) };
        (code, address as usize, status)
    }

    fn export(&self, name: &str) -> usize {
        self.driver.symbol(name).expect("exported") as usize
    }
}

const FOUND: u32 = 0;
const UNKNOWN_SYMBOL: u32 = 1;
const TOO_NEW: u32 = 2;
const NOT_FOUND: u32 = 500;

#[test]
fn every_symbol_is_found_at_its_version() {
    let asker = Asker::new();
    for fact in facts() {
        if fact.suffix.is_empty() {
            let answer = asker.ask(fact.symbol, fact.since, 0);
            let wanted = (0, asker.export(fact.export), FOUND);
            assert_eq!(answer, wanted, "{} at {}", fact.symbol, fact.since);
        }
    }
}

#[test]
fn a_version_before_the_first_is_not_sufficient() {
    let asker = Asker::new();
    let mut first: BTreeMap<&str, i32> = BTreeMap::new();
    for fact in facts() {
        let since = first.entry(fact.symbol).or_insert(fact.since);
        *since = fact.since.min(*since);
    }
    for (symbol, since) in first {
        assert_eq!(asker.ask(symbol, since - 1, 0), (NOT_FOUND, 0, TOO_NEW));
    }
}

#[test]
fn the_newest_version_that_is_old_enough_is_taken() {
    let asker = Asker::new();
    let found = |symbol, version, flags| asker.ask(symbol, version, flags).1;
    assert_eq!(found("cuCtxCreate", 2000, 0), asker.export("cuCtxCreate"));
    assert_eq!(
        found("cuCtxCreate", 11039, 0),
        asker.export("cuCtxCreate_v2")
    );
    assert_eq!(
        found("cuCtxCreate", 12000, 0),
        asker.export("cuCtxCreate_v3")
    );
    assert_eq!(
        found("cuCtxCreate", 13050, 0),
        asker.export("cuCtxCreate_v4")
    );
    assert_eq!(found("cuMemAlloc", 3010, 0), asker.export("cuMemAlloc"));
    assert_eq!(found("cuMemAlloc", 3020, 0), asker.export("cuMemAlloc_v2"));
}

#[test]
fn the_flag_chooses_the_default_stream() {
    let asker = Asker::new();
    let found = |symbol, version, flags| asker.ask(symbol, version, flags).1;
    let per_thread = asker.export("cuMemcpyHtoD_v2_ptds");
    assert_eq!(found("cuMemcpyHtoD", 13050, 2), per_thread);
    let legacy = asker.export("cuMemcpyHtoD_v2");
    for flags in [0, 1] {
        assert_eq!(found("cuMemcpyHtoD", 13050, flags), legacy);
    }
    // The first call requests a version before per-thread streams, and the second call a function without variants.
    assert_eq!(found("cuMemcpyHtoD", 6050, 2), legacy);
    assert_eq!(found("cuMemAlloc", 13050, 2), asker.export("cuMemAlloc_v2"));
    let launch = asker.export("cuLaunchKernel_ptsz");
    assert_eq!(found("cuLaunchKernel", 7000, 2), launch);
    assert_eq!(asker.ask("cuLaunchKernel", 13050, 3).0, 1, "no such flag");
}

#[test]
fn versions_above_the_drivers_own_do_not_matter() {
    let asker = Asker::new();
    let answer = asker.ask("cuInit", 99_000, 0);
    assert_eq!(answer, (0, asker.export("cuInit"), FOUND));
}

#[test]
fn what_nobody_knows_is_not_found() {
    let asker = Asker::new();
    for symbol in ["", "cuNothing", "cuInit_v2", "cuMemAlloc_v2", "malloc"] {
        let answer = asker.ask(symbol, 13050, 0);
        assert_eq!(answer, (NOT_FOUND, 0, UNKNOWN_SYMBOL), "{symbol:?}");
    }
}

#[test]
fn the_first_form_answers_the_same_and_nulls_are_refused() {
    let asker = Asker::new();
    let name = c"cuInit".as_ptr();
    let mut address = std::ptr::null_mut();
    // SAFETY: all pointers are valid or null.
    unsafe {
        assert_eq!((asker.get_v1)(name, &mut address, 13050, 0), 0);
        assert_eq!(address as usize, asker.export("cuInit"));
        let status = std::ptr::null_mut();
        assert_eq!((asker.get_v2)(name, &mut address, 13050, 0, status), 0);
        assert_eq!((asker.get_v1)(name, std::ptr::null_mut(), 13050, 0), 1);
        assert_eq!((asker.get_v1)(std::ptr::null(), &mut address, 13050, 0), 1);
    }
}
