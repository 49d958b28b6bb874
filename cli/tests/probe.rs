//! Runs `tests/abi/timeline.c` and `tests/abi/profile.c` under `margay probe`.
//!
//! `profile.c` launches a kernel of 2 blocks of 64 threads, whose odd threads store 4 bytes. `timeline.c` launches a
//! kernel of 64 threads six times, twice of them by a graph; each thread loads and stores 4 bytes.

#[path = "common/built.rs"]
mod built;
#[path = "common/command.rs"]
mod command;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use margay_probe::Trace;

/// A new folder with a compiled program.
fn folder(program: &str, name: &str) -> PathBuf {
    command::folder(program, &format!("probe-{name}"))
}

/// The exit code, the standard output and the standard error of `margay probe`.
fn probe(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    command::run(folder, "probe", arguments)
}

/// The entries of a folder, in alphabetical order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

/// The only folder of results in `traces`.
fn results(traces: &Path) -> PathBuf {
    let found = entries(traces);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

/// The little-endian number of 8 bytes at an offset.
fn word(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(*bytes[offset..].first_chunk().unwrap())
}

#[test]
fn each_launch_writes_a_result_and_calls_the_callback() {
    let folder = folder("profile", "bytes");
    let run = [
        "-p",
        "gmem_bytes",
        "--tracedir",
        "out",
        "--",
        "./profile",
        "2",
    ];
    let (status, out, errors) = probe(&folder, &run);
    let sums = "threads: 128, loads and stores: 256 bytes, asynchronous copies: 0 bytes\n";
    assert_eq!((status, out), (3, format!("{sums}{sums}1\n")), "{errors}");
    let results = results(&folder.join("out"));
    assert!(errors.contains(&format!(
        "margay: {}: the folder of results",
        results.display()
    )));
    let files = entries(&results.join("result"));
    assert_eq!(files.len(), 2);
    for file in &files {
        let bytes = fs::read(file).unwrap();
        let trace = Trace::read(&bytes).unwrap();
        assert_eq!(
            (trace.launch.grid, trace.launch.block),
            ([2, 1, 1], [64, 1, 1])
        );
        for slot in 0..128 {
            let stored = if slot % 2 == 1 { 4 } else { 0 };
            assert_eq!(word(trace.slot(0, slot).unwrap(), 0), stored);
        }
    }
    let kernels = entries(&results.join("kernel"));
    assert_eq!(kernels.len(), 1);
    let info = fs::read_to_string(kernels[0].join("kernel.info")).unwrap();
    assert_eq!(info, "columns\n1\n1\n0,8\n");
    let text = |name: &str| fs::read_to_string(kernels[0].join(name)).unwrap();
    assert!(!text("original.ptx").contains("param_GMEMBytes"));
    assert!(text("probed.ptx").contains("param_GMEMBytes"));
    let log = fs::read_to_string(results.join("event.log")).unwrap();
    for line in [
        "[exec] grid 2 1 1 block 64 1 1 shared 0",
        "[exec] grid 2 block 64 probe 8 total 1056",
        "[exec] succeed 0",
        "[callback] succeed",
        "[mem] cuMemAlloc_v2 0 dptr",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
}

#[test]
fn maps_without_a_capacity_hold_what_launches_and_graphs_save() {
    let folder = folder("timeline", "dynamic");
    let run = ["-p", "dmat", "--callback", "none.py", "--", "./timeline"];
    let (status, _, errors) = probe(&folder, &run);
    assert!(status != 0 || errors.contains("none.py"), "{errors}");
    let run = ["-p", "dmat", "--", "./timeline"];
    let (status, out, errors) = probe(&folder, &run);
    assert_eq!(status, 0, "{errors}");
    assert!(out.ends_with("6 5\n"), "{out}");
    assert_eq!(out.matches("accesses: 128, pages: 1,").count(), 6, "{out}");
    let results = results(&folder.join("trace"));
    let files = entries(&results.join("result"));
    let pictures = files
        .iter()
        .filter(|file| file.extension().unwrap() == "svg");
    assert_eq!((files.len(), pictures.count()), (12, 6));
    let mut bases = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.extension().unwrap() == "bin")
    {
        let bytes = fs::read(file).unwrap();
        let trace = Trace::read(&bytes).unwrap();
        assert_eq!(trace.sections[0].slot_bytes, 32);
        let address = |slot, record: usize| word(trace.slot(0, slot).unwrap(), 16 * record + 8);
        bases.push(address(0, 0));
        for slot in 0..64 {
            let expected = bases[0] + 4 * slot;
            assert_eq!([address(slot, 0), address(slot, 1)], [expected, expected]);
        }
    }
    // The generated reader counts the same records.
    let read = Command::new("python3")
        .arg(results.join("read.py"))
        .arg(&files[0])
        .output()
        .unwrap();
    let text = String::from_utf8(read.stdout).unwrap();
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("DMAT 0 "))
            .count(),
        64,
        "{text}"
    );
}

#[test]
fn the_manner_of_the_original_counts_first() {
    let folder = folder("timeline", "compat");
    // A captured launch has no counting run, so the graph runs without probes. The others add 1 twice.
    let run = ["--compat", "-p", "dmat", "--", "./timeline"];
    let (status, out, errors) = probe(&folder, &run);
    assert_eq!(status, 0, "{errors}");
    assert!(out.ends_with("10 9\n"), "{out}");
    let files = entries(&results(&folder.join("trace")).join("result"));
    let saved = files
        .iter()
        .filter(|file| file.extension().unwrap() == "bin");
    let saved: Vec<_> = saved.collect();
    assert_eq!(saved.len(), 4);
    for file in saved {
        // 64 threads with two records of 16 bytes, after the header and one entry of the table.
        assert_eq!(fs::metadata(file).unwrap().len(), 32 + 16 + 64 * 32);
    }
    let run = [
        "--compat",
        "-p",
        "gmem_bytes",
        "--tracedir",
        "g",
        "--",
        "./timeline",
    ];
    let (status, out, errors) = probe(&folder, &run);
    assert_eq!(status, 0, "{errors}");
    let sums = "threads: 64, loads and stores: 512 bytes, asynchronous copies: 0 bytes\n";
    assert_eq!(out, format!("{}6 5\n", sums.repeat(6)));
}

#[test]
fn modes_write_no_results() {
    let folder = folder("timeline", "modes");
    let run = |mode: &str, to: &str| {
        let run = ["-p", "dmat", mode, "--tracedir", to, "--", "./timeline"];
        let (status, out, errors) = probe(&folder, &run);
        assert_eq!(
            (status, out.as_str()),
            (
                0,
                if mode == "--benchmark" {
                    "10 9\n"
                } else {
                    "6 5\n"
                }
            ),
            "{errors}"
        );
        let results = results(&folder.join(to));
        assert!(entries(&results.join("result")).is_empty());
        fs::read_to_string(results.join("event.log")).unwrap()
    };
    // One first chunk for each of 64 threads: 16 bytes and 4 records of 16 bytes; and the header.
    let log = run("--memusage", "m");
    let needs = 64 * (16 + 64) + 32;
    assert_eq!(
        log.matches(&format!("[exec] probe-mem {needs} (bytes)"))
            .count(),
        6,
        "{log}"
    );
    let log = run("--benchmark", "b");
    // The launches of the graph run only with probes.
    assert_eq!(log.matches("[benchmark] prologue").count(), 4, "{log}");
}

#[test]
fn kernels_are_selected_by_name() {
    let folder = folder("profile", "select");
    for (option, name, count) in [
        ("-k", "col:x", 1),
        ("-k", "rows", 0),
        ("--filter", "umn", 0),
    ] {
        let to = format!("{}{count}{name}", option.trim_matches('-'));
        let run = [
            "-p",
            "tensorop",
            option,
            name,
            "--tracedir",
            &to,
            "--",
            "./profile",
            "1",
        ];
        let (status, out, errors) = probe(&folder, &run);
        assert_eq!((status, out.as_str()), (3, "1\n"), "{errors}");
        let results = results(&folder.join(&to));
        assert_eq!(entries(&results.join("result")).len(), count);
        let log = fs::read_to_string(results.join("event.log")).unwrap();
        assert_eq!(
            log.matches("[exec] backup 2 1 1").count(),
            1 - count,
            "{log}"
        );
    }
}

#[test]
fn wrong_probe_files_are_refused_before_the_program_starts() {
    let folder = folder("profile", "wrong");
    let (status, out, errors) = probe(&folder, &["-p", "nothing", "--", "./profile"]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(errors.contains("warp_sched"), "{errors}");
    fs::write(
        folder.join("bad.toml"),
        "regs = 1\n[probe.a]\nlevel = \"grid\"\n",
    )
    .unwrap();
    let (status, out, errors) = probe(&folder, &["-p", "bad.toml", "--", "./profile"]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(errors.contains("bad.toml:"), "{errors}");
}
