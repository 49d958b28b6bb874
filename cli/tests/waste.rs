//! Runs the programs of `tests/abi/waste.c` under `margay waste`. The tests cover each option, and each kind of finding
//! with the line numbers in its text.

#[path = "common/built.rs"]
mod built;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

fn source() -> PathBuf {
    built::source("waste.c")
}

/// Returns the path of the compiled program.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let options = ["-DUNIMPLEMENTED=cuTensorMapReplaceAddress"];
        built::program("waste", "waste", &options)
    })
}

fn command(options: &str, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
    command
        .arg("waste")
        .args(options.split_whitespace())
        .arg(program())
        .args(arguments.split_whitespace())
        .env("MARGAY_LIBCUDA", built::library())
        .env("XDG_RUNTIME_DIR", program().parent().unwrap())
        .env("MARGAY_CACHE", "0");
    command
}

/// The exit code and the output of a run.
struct Run {
    status: i32,
    out: String,
    /// The lines on standard error; the path of the source is replaced by `waste.c`.
    lines: Vec<String>,
}

fn run(options: &str, arguments: &str) -> Run {
    let output = command(options, arguments).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let errors = errors.replace(source().to_str().unwrap(), "waste.c");
    Run {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        lines: errors.lines().map(str::to_owned).collect(),
    }
}

/// Returns the text `file waste.c, line N`, where N is the number of the source line that ends with
/// the mark `mark`.
fn at(mark: &str) -> String {
    let text = fs::read_to_string(source()).unwrap();
    let end = format!("// @{mark}");
    let line = text.lines().position(|line| line.ends_with(&end));
    format!("file waste.c, line {}", line.unwrap() + 1)
}

/// Runs a program and compares the findings. The exit code must be the program's own code, 5. `wanted` contains, for
/// each line, the texts that must occur in this order.
#[track_caller]
fn finds(options: &str, arguments: &str, wanted: &[&[&str]]) -> Run {
    let run = run(options, arguments);
    assert_eq!(run.lines.len(), wanted.len(), "{:#?}", run.lines);
    for (line, parts) in run.lines.iter().zip(wanted) {
        let mut rest = line.as_str();
        for part in *parts {
            let found = rest.find(part);
            let found = found.unwrap_or_else(|| panic!("no `{part}` in `{rest}` of `{line}`"));
            rest = &rest[found + part.len()..];
        }
        assert!(
            rest.is_empty() || rest == ".",
            "`{line}` ends with `{rest}`"
        );
    }
    assert_eq!(run.status, 5, "{}", run.out);
    run
}

/// Returns the texts that must occur in a finding about a changed red zone.
fn changed<'a>(side: &'a str, alloc: &'a str, place: &'a str) -> [&'a str; 5] {
    [side, ". Pointer 0x", " was allocated in ", alloc, place]
}

const HEADER: &str = "Overwrite of CUDA memory block header";
const FOOTER: &str = "Overwrite of CUDA memory block footer";

#[test]
fn clean_programs_have_no_findings() {
    let run = finds("", "clean", &[]);
    assert_eq!(run.out, "de de de\n".repeat(3) + "PASS\n");
    let run = finds("-b=65", "clean", &[]);
    assert!(run.out.starts_with("41 41 41\n"), "{}", run.out);
    let run = finds("--padding-byte=0x7f", "clean", &[]);
    assert!(run.out.starts_with("7f 7f 7f\n"), "{}", run.out);
}

#[test]
fn changed_zones_are_found_at_each_call() {
    let alloc = at("alloc");
    for (what, side, mark) in [
        ("footer", FOOTER, "copy"),
        ("set", FOOTER, "set"),
        ("source", HEADER, "source"),
        ("async", FOOTER, "async"),
        ("header", HEADER, "free"),
        ("context", HEADER, "end"),
    ] {
        let place = format!(
            ". This check was performed during a CUDA call in {}",
            at(mark)
        );
        let zone = changed(side, &alloc, &place);
        let unfreed = [
            "Unfreed CUDA memory block. ",
            " was allocated in ",
            &alloc,
            ". Size 100 bytes",
            "Found when its context ended",
        ];
        let wanted: &[&[&str]] = match what {
            "context" => &[&unfreed, &zone],
            _ => &[&zone],
        };
        finds("", &format!("zones {what}"), wanted);
    }
    let zone = changed(HEADER, &alloc, ". This check was performed at program exit");
    let unfreed = ["Unfreed CUDA memory block. "];
    let run = run("", "zones exit");
    assert_eq!(run.lines.len(), 2, "{:#?}", run.lines);
    assert!(
        run.lines
            .iter()
            .any(|line| line.starts_with(zone[0]) && line.ends_with(&format!("{}.", zone[4])))
    );
    assert!(run.lines.iter().any(|line| line.starts_with(unfreed[0])));
}

#[test]
fn zones_have_the_size_of_the_option() {
    let alloc = at("alloc");
    let place = format!(
        ". This check was performed during a CUDA call in {}",
        at("free")
    );
    let (header, footer) = (
        changed(HEADER, &alloc, &place),
        changed(FOOTER, &alloc, &place),
    );
    finds("-s=8", "zones near", &[&header, &footer]);
    finds("--padding-size=8", "zones near", &[&header, &footer]);
    finds("-s=0", "zones set", &[]);
    // Red zones of 32 bytes also contain the addresses of the first two writes, so the fill reports these writes too.
    assert_eq!(run("", "zones near").lines.len(), 4);
}

#[test]
fn unfreed_blocks_name_their_allocation() {
    let alloc = at("alloc");
    let wanted = [
        "Unfreed CUDA memory block. Pointer 0x",
        " was allocated in ",
        &alloc,
        ". Size 12345 bytes, without padding. Found at program exit",
    ];
    finds("", "unfreed", &[&wanted]);
}

#[test]
fn invalid_frees_are_found() {
    let here = |mark| {
        format!(
            "This check was performed during a CUDA call in {}",
            at(mark)
        )
    };
    let [inside, twice, unknown, null] =
        ["free-interior", "free-twice", "free-unknown", "free-null"].map(here);
    let pointer = "Pointer to cudaFree(0x";
    finds(
        "",
        "frees",
        &[
            &[
                pointer,
                ") is invalid. The pointer is inside an allocation, not at its start. ",
                &inside,
            ],
            &[
                pointer,
                ") is invalid. The memory is freed already. ",
                &twice,
            ],
            &[
                pointer,
                "123000) is invalid. No memory is allocated there. ",
                &unknown,
            ],
            &[pointer, "0) is invalid. It is a null pointer. ", &null],
        ],
    );
}

#[test]
fn wrong_copies_and_fills_are_found() {
    let here = |mark| {
        format!(
            "This check was performed during a CUDA call in {}",
            at(mark)
        )
    };
    let places = [
        "reversed",
        "bad-source",
        "bad-destination",
        "unreadable",
        "long-copy",
        "long-set",
    ]
    .map(here);
    let [reversed, source, destination, unreadable, long, set] = &places;
    finds(
        "",
        "copies",
        &[
            &[
                "Source and destination pointers in cudaMemcpy(0x",
                ", 0x",
                ") are reversed in directionality. ",
                reversed,
            ],
            &[
                "The source of cudaMemcpy is 0x",
                ", where no memory is allocated. ",
                " freed at waste.c:",
                source,
            ],
            &[
                "The destination of cudaMemcpy is 0x",
                ", where no memory is allocated. ",
                destination,
            ],
            &[
                "The source 0x40 of cudaMemcpy is not accessible memory. ",
                unreadable,
            ],
            &[
                "The source of cudaMemcpy is 101 bytes at 0x",
                ", offset 0 of an allocation of 100 bytes. ",
                long,
            ],
            &[
                "The destination of cudaMemset is 102 bytes at 0x",
                ", offset 0 of an allocation of 100 bytes. ",
                set,
            ],
        ],
    );
}

#[test]
fn pointers_inside_blocks_need_an_option() {
    let here = |mark| {
        format!(
            "This check was performed during a CUDA call in {}",
            at(mark)
        )
    };
    let (copy, set) = (here("interior-copy"), here("interior-set"));
    let wanted: [&[&str]; 2] = [
        &[
            "The destination of cudaMemcpy is 0x",
            ", inside an allocation and not at its start: offset 10 of 100 bytes. ",
            &copy,
        ],
        &[
            "The destination of cudaMemset is 0x",
            ", inside an allocation and not at its start: offset 20 of 100 bytes. ",
            &set,
        ],
    ];
    assert_eq!(finds("", "interior", &wanted).out, "0\n0\n5\nPASS\n");
    assert_eq!(finds("-n", "interior", &[]).out, "0\n0\n5\nPASS\n");
    assert_eq!(
        finds("--non-standard-ptr", "interior", &[]).out,
        "0\n0\n5\nPASS\n"
    );
    // A skipped copy or fill returns 1 (`cudaErrorInvalidValue`), and the memory stays zero.
    assert_eq!(finds("-k", "interior", &wanted).out, "1\n1\n0\nPASS\n");
    assert_eq!(
        finds("--skip-on-error", "interior", &wanted).out,
        "1\n1\n0\nPASS\n"
    );
}

#[test]
fn the_first_finding_can_end_the_program() {
    for option in ["-q", "--quit-on-error"] {
        let run = run(option, "interior");
        assert_eq!((run.status, run.lines.len()), (1, 1), "{:#?}", run.lines);
        assert_eq!(run.out, "");
    }
    // The output of the program before the finding is not lost.
    let at_exit = run("-q", "unfreed");
    assert_eq!((at_exit.status, at_exit.lines.len()), (1, 1));
    assert_eq!(at_exit.out, "PASS\n");
    assert_eq!(run("-q", "clean").status, 5);
}

#[test]
fn pointers_of_ended_contexts_are_stale() {
    let place = format!(
        "This check was performed during a CUDA call in {}",
        at("after-reset")
    );
    let alloc = at("alloc");
    finds(
        "",
        "reset",
        &[
            &[
                "Unfreed CUDA memory block. ",
                &alloc,
                "Found when its context ended",
            ],
            &[
                "The source of cudaMemcpy is 0x",
                "no memory is allocated. 0x",
                " freed with its context",
                &place,
            ],
        ],
    );
}

#[test]
fn unimplemented_functions_are_named_once() {
    let place = at("unimplemented");
    finds(
        "",
        "unimplemented",
        &[&["Unimplemented function cuTensorMapReplaceAddress. ", &place]],
    );
}

#[test]
fn calls_are_listed_by_level() {
    assert!(run("-t=0", "clean").lines.is_empty());
    let run1 = run("-t=1", "zones near");
    let alloc = format!("cudaMalloc called, {}. cuMemAlloc_v2(dptr=0x", at("alloc"));
    let first = &run1.lines[0];
    assert!(first.starts_with(&alloc), "{first}");
    assert!(
        first.contains("bytesize=100) = CUDA_SUCCESS, memory at 0x"),
        "{first}"
    );
    assert!(
        run1.lines
            .iter()
            .any(|line| line.starts_with(&format!("cudaFree called, {}", at("free"))))
    );
    assert!(!run1.lines.iter().any(|line| line.contains("cuDeviceGet")));
    let run2 = run("-t=2", "zones near");
    assert!(run2.lines.iter().any(|line| line.contains("cuDeviceGet(")));
    assert!(!run2.lines.iter().any(|line| line.ends_with(" us")));
    let run3 = run("-t=3", "zones near");
    assert!(run3.lines.iter().any(|line| line.ends_with(" us")));
}

#[test]
fn the_device_has_the_properties_of_the_options() {
    assert_eq!(
        finds("", "describe", &[]).out,
        "compute_20 stack 1024\nPASS\n"
    );
    assert_eq!(
        finds("-d compute_50", "describe", &[]).out,
        "compute_50 stack 1024\nPASS\n"
    );
    assert_eq!(
        finds("-e --device sm_90 -m=1 -c=4096", "describe", &[]).out,
        "compute_90 stack 4096\nPASS\n"
    );
    let large = run("-c=10485760", "describe");
    assert_eq!(large.out, "compute_20 stack 524288\nPASS\n");
    assert_eq!(
        large.lines,
        ["margay: -c=10485760 is too large, and 524288 bytes are used"]
    );
}

#[test]
fn a_debugger_gets_a_signal_before_the_first_call() {
    assert_eq!(run("-x", "traced").out, "stopped by SIGTRAP\nended\n");
    assert_eq!(run("", "traced").out, "ended\n");
    // Without a debugger, the program waits until one is attached.
    let mut child = command("-x", "describe")
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let process = line
        .strip_prefix("margay: process ")
        .and_then(|rest| rest.split(' ').next());
    let process = process.unwrap_or_else(|| panic!("{line}")).to_owned();
    assert!(line.contains("waits for a debugger"), "{line}");
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(child.try_wait().unwrap().is_none());
    let killed = Command::new("kill").args(["-KILL", &process]).status();
    assert!(killed.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(137));
}

#[test]
fn what_cannot_work_is_named() {
    let version = run("-v", "describe");
    assert_eq!(
        version.lines,
        [concat!("Version ", env!("CARGO_PKG_VERSION"))]
    );
    assert_eq!(version.status, 5);
    let alone = Command::new(env!("CARGO_BIN_EXE_margay"))
        .args(["waste", "--version"])
        .output();
    assert!(alone.unwrap().status.success());
    let forwarding = run("-ne", "describe");
    assert_eq!(forwarding.status, 1);
    assert_eq!(
        forwarding.lines,
        ["error: -ne is not supported: Margay forwards no calls to the driver of a GPU"]
    );
    let missing = Command::new(env!("CARGO_BIN_EXE_margay"))
        .args(["waste", "-q"])
        .output();
    assert_eq!(missing.unwrap().status.code(), Some(2));
}
