//! Runs `tests/abi/timeline.c` and `tests/abi/profile.c` under `margay trace`, `tests/abi/tools.c` under all tools, and
//! `tests/abi/activity.c`, a client of `libcupti`, under `margay run`.

#[path = "common/built.rs"]
mod built;
#[path = "common/command.rs"]
mod command;
#[path = "common/xpti_library.rs"]
mod xpti_library;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A new folder with a compiled program.
fn folder(program: &str, name: &str) -> PathBuf {
    command::folder(program, &format!("trace-{name}"))
}

/// The exit code, the standard output and the standard error of `margay trace`.
fn trace(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    command::run(folder, "trace", arguments)
}

#[test]
fn instruction_traces_are_written_shown_counted_and_compared() {
    let folder = folder("profile", "accelsim");
    let run = [
        "--accelsim",
        "traces",
        "--raw",
        "--sm",
        "70",
        "--",
        "./profile",
        "2",
    ];
    let (status, out, errors) = trace(&folder, &run);
    assert_eq!((status, out.as_str()), (3, "1\n"), "{errors}");
    // Each of 2 launches has 2 blocks of 2 warps. A warp executes ld.param (2 lines), mov, mul.wide, add (2 lines), and,
    // setp, bra, st and ret.
    assert!(
        errors.contains("margay: traces: 2 of 2 launches, 88 warp instructions"),
        "{errors}"
    );
    let (status, out, _) = trace(&folder, &["stats", "traces"]);
    assert_eq!(status, 0);
    // Half of the lanes store; those that branch have no store. The branch has the lanes that take it.
    let threads = 2 * 128 * 9 + 2 * 64 * 2;
    assert!(
        out.ends_with(&format!(
            "2 kernels: 88 warp instructions, {threads} thread instructions\n"
        )),
        "{out}"
    );
    let (_, out, _) = trace(
        &folder,
        &[
            "show", "traces", "--kernel", "1", "--cta", "1,0,0", "--warp", "0",
        ],
    );
    assert_eq!(
        out.lines().filter(|line| line.contains("STG.E")).count(),
        1,
        "{out}"
    );
    let (status, out, _) = trace(
        &folder,
        &["compare", "traces/kernel-1.trace", "traces/kernel-1.traceg"],
    );
    assert_eq!(
        (status, out.as_str()),
        (0, "equal: 1 kernels, 2 CTAs, 4 warps, 44 instructions\n")
    );
    let (status, out, _) = trace(
        &folder,
        &[
            "compare",
            "traces/kernel-1.traceg",
            "traces/kernel-2.traceg",
        ],
    );
    assert_eq!(status, 1, "{out}");
    // Grouping the raw traces writes the same files.
    let direct = fs::read(folder.join("traces/kernel-2.traceg")).unwrap();
    let (status, out, errors) = trace(&folder, &["group", "traces"]);
    assert_eq!(
        (status, out.as_str()),
        (0, "2 kernels grouped\n"),
        "{errors}"
    );
    assert_eq!(
        fs::read(folder.join("traces/kernel-2.traceg")).unwrap(),
        direct
    );
    // A damaged file is an error with its line.
    fs::write(folder.join("kernel-9.traceg"), &direct[..direct.len() / 2]).unwrap();
    let (status, _, errors) = trace(&folder, &["stats", "kernel-9.traceg"]);
    assert!(
        status == 1 && errors.contains("kernel-9.traceg:"),
        "{errors}"
    );
}

#[test]
fn each_process_has_its_own_traces() {
    let folder = folder("profile", "fork");
    let (status, _, errors) = trace(
        &folder,
        &["--accelsim", "t", "--xz", "--", "./profile", "1", "fork"],
    );
    assert_eq!(status, 3, "{errors}");
    assert!(folder.join("t/kernel-1.traceg.xz").is_file());
    let other = fs::read_dir(folder.join("t")).unwrap();
    let other = other.map(|entry| entry.unwrap().path());
    let other: Vec<PathBuf> = other.filter(|path| path.is_dir()).collect();
    assert_eq!(other.len(), 1);
    let files = [
        "t/kernel-1.traceg.xz".to_owned(),
        format!("{}/kernel-1.traceg.xz", other[0].display()),
    ];
    let (status, out, _) = trace(&folder, &["compare", &files[0], &files[1]]);
    assert!(status == 0 || out.contains("address"), "{out}");
    // Another run replaces the traces.
    let (status, _, errors) = trace(&folder, &["--accelsim", "t", "--", "./profile", "1"]);
    assert_eq!(status, 3, "{errors}");
    assert!(!folder.join("t/kernel-1.traceg.xz").exists() && !other[0].exists());
}

/// The events of a Chrome timeline with this phase, and a category that `wanted` accepts.
fn events<'a>(timeline: &'a Value, phase: &str, category: &str) -> Vec<&'a Value> {
    let all = timeline["traceEvents"].as_array().unwrap();
    all.iter()
        .filter(|event| event["ph"] == phase && event["cat"] == category)
        .collect()
}

#[test]
fn the_timeline_has_the_calls_the_work_and_the_arrows() {
    let folder = folder("timeline", "chrome");
    let run = [
        "--chrome",
        "t.json",
        "--perfetto",
        "t.pftrace",
        "--",
        "./timeline",
    ];
    let (status, out, errors) = trace(&folder, &run);
    assert_eq!((status, out.as_str()), (0, "6 5\n"), "{errors}");
    let timeline: Value =
        serde_json::from_slice(&fs::read(folder.join("t.json")).unwrap()).unwrap();
    let kernels = events(&timeline, "X", "kernel");
    assert_eq!(kernels.len(), 6);
    assert!(
        kernels
            .iter()
            .all(|kernel| kernel["name"] == "increment" && kernel["args"]["grid"][0] == 1)
    );
    let copies = events(&timeline, "X", "gpu_memcpy");
    // The file contains each track piece by piece, so the order in the file has no meaning.
    let mut names: Vec<&str> = copies
        .iter()
        .map(|copy| copy["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["Memcpy DtoD", "Memcpy DtoH", "Memcpy HtoD"]);
    let calls = events(&timeline, "X", "cuda_driver");
    let of = |name: &str| calls.iter().filter(|call| call["name"] == name).count();
    assert_eq!(
        [
            of("cuLaunchKernel"),
            of("cuMemAlloc_v2"),
            of("cuGraphLaunch")
        ],
        [6, 2, 1]
    );
    assert_eq!(events(&timeline, "X", "cuda_sync").len(), 2);
    assert_eq!(events(&timeline, "i", "diagnostic").len(), 1);
    // Each piece of work has an arrow from its call, and arrows along the order of the streams and the graph.
    assert_eq!(events(&timeline, "s", "ac2g").len(), 9);
    assert_eq!(events(&timeline, "f", "ac2g").len(), 9);
    let arrows = events(&timeline, "s", "dep");
    let of = |name: &str| arrows.iter().filter(|arrow| arrow["name"] == name).count();
    assert_eq!([of("stream_order"), of("event"), of("graph")], [4, 1, 2]);
    // Slices begin before they end, and calls contain the beginnings of their arrows.
    let time = |event: &Value, key: &str| event[key].as_f64().unwrap();
    for arrow in events(&timeline, "s", "ac2g") {
        let at = time(arrow, "ts");
        let holds =
            |call: &&&Value| time(call, "ts") <= at && at <= time(call, "ts") + time(call, "dur");
        assert!(calls.iter().any(|call| holds(&call)), "{arrow}");
    }
    let live: Vec<i64> = timeline["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "C")
        .map(|event| event["args"]["live"].as_i64().unwrap())
        .collect();
    assert_eq!(live, [512, 0]);
    assert!(fs::metadata(folder.join("t.pftrace")).unwrap().len() > 1000);
}

#[test]
fn annotations_of_the_program_are_in_the_timeline() {
    let folder = folder("nvtx", "nvtx");
    // Without a tool, the initialisation of NVTX fails, so that the client calls no function of it.
    let status = Command::new(folder.join("nvtx"))
        .arg("0")
        .env("LD_LIBRARY_PATH", &folder)
        .status();
    assert!(status.unwrap().success());
    let (status, out, errors) = trace(&folder, &["--chrome", "n.json", "--", "./nvtx", "1"]);
    assert_eq!((status, out.as_str()), (0, ""), "{errors}");
    let timeline: Value =
        serde_json::from_slice(&fs::read(folder.join("n.json")).unwrap()).unwrap();
    let pushed = events(&timeline, "B", "NVTX");
    let names: Vec<&str> = pushed
        .iter()
        .map(|event| event["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["outer", "inner"]);
    let marks = events(&timeline, "i", "NVTX");
    let names: Vec<&str> = marks
        .iter()
        .map(|event| event["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["mark \"with\" quotes", "widé"]);
    let library = events(&timeline, "B", "library");
    assert_eq!(library.len(), 1);
    assert_eq!(library[0]["name"], "registered");
    assert_eq!(library[0]["args"]["category"], "phase");
    assert_eq!(library[0]["args"]["payload"], 1.5);
    assert_eq!(events(&timeline, "b", "library").len(), 1);
    assert_eq!(events(&timeline, "e", "library").len(), 1);
}

#[test]
fn a_program_without_cuda_has_no_traces() {
    let folder = folder("profile", "none");
    let run = [
        "--accelsim",
        "a",
        "--chrome",
        "t.json",
        "--",
        "./profile",
        "0",
        "none",
    ];
    let (status, _, errors) = trace(&folder, &run);
    assert_eq!(status, 7);
    assert!(
        errors.contains("so there are no traces") && errors.contains("so there is no timeline"),
        "{errors}"
    );
    let (status, _, errors) = trace(&folder, &["--", "./profile"]);
    assert!(status == 2 && errors.contains("--accelsim"), "{errors}");
}

/// Runs `tools` with the commands `before` and with these environment variables. Returns the exit code, the standard
/// output and the standard error.
fn run_tools(
    folder: &Path,
    before: &[&str],
    variables: &[(&str, &Path)],
) -> (i32, Vec<u8>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_margay"))
        .args(before)
        .arg("./tools")
        .current_dir(folder)
        .env("MARGAY_LIBCUDA", built::library())
        .env("XDG_RUNTIME_DIR", folder)
        .env("MARGAY_CACHE", "0")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), output.stdout, errors)
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

#[test]
fn all_tools_observe_one_run_and_change_no_output() {
    let folder = folder("tools", "all");
    let (status, plain, errors) = run_tools(&folder, &["run", "--"], &[]);
    assert_eq!(status, 0, "{errors}");
    assert_eq!(plain.iter().filter(|byte| **byte == b'\n').count(), 257);
    let margay = env!("CARGO_BIN_EXE_margay");
    let before = [
        ["check", "--report", "check.json", "--", margay].as_slice(),
        &["trace", "--perfetto", "t.pftrace", "--chrome", "t.json"],
        &["--accelsim", "traces", "--", margay],
        &["profile", "--report", "profile.json", "--"],
    ]
    .concat();
    let framework = xpti_library::library(&folder, "framework.c", &[]);
    let subscriber = xpti_library::library(&folder, "subscriber.c", &[]);
    let log = folder.join("xpti.log");
    let variables = [
        ("XPTI_FRAMEWORK_DISPATCHER", framework.as_path()),
        ("XPTI_SUBSCRIBERS", &subscriber),
        ("MARGAY_XPTI_MODE", Path::new("log")),
        ("MARGAY_XPTI_LOG", &log),
    ];
    let (status, out, errors) = run_tools(&folder, &before, &variables);
    assert_eq!(status, 0, "{errors}");
    assert!(out == plain, "{}", String::from_utf8_lossy(&out));
    let report = json(&folder.join("check.json"));
    assert_eq!(report["findings"], Value::Array(Vec::new()), "{report}");
    let profile = json(&folder.join("profile.json"));
    let kernel = &profile["kernels"][0];
    assert_eq!(
        (&kernel["name"], &kernel["launches"]),
        (&"mix".into(), &2.into())
    );
    // 2 launches of 4 blocks of 2 warps, and each warp executes one atomic operation.
    let rows = kernel["accesses"].as_array().unwrap();
    let atomic = rows.iter().find(|row| row["kind"] == "atomic").unwrap();
    assert_eq!(
        (&atomic["requests"], &atomic["threads"]),
        (&16.into(), &512.into())
    );
    let timeline = json(&folder.join("t.json"));
    assert_eq!(events(&timeline, "X", "kernel").len(), 2);
    assert_eq!(events(&timeline, "X", "gpu_memcpy").len(), 3);
    assert!(fs::metadata(folder.join("t.pftrace")).unwrap().len() > 1000);
    let (status, stats, _) = trace(&folder, &["stats", "traces"]);
    assert_eq!(status, 0);
    assert!(stats.contains("\n2 kernels: "), "{stats}");
    let log = fs::read_to_string(log).unwrap();
    assert!(log.lines().last().unwrap().starts_with("checked "), "{log}");
    assert!(!log.contains("violation"), "{log}");
    // 2 kernels and 3 copies begin.
    let begins = log.lines().filter(|line| line.starts_with("t=10 "));
    assert_eq!(begins.count(), 5, "{log}");
}

#[test]
fn variables_alone_request_all_tools() {
    let folder = folder("tools", "variables");
    let variables = [
        ("MARGAY_CHECK", Path::new("all")),
        ("MARGAY_CHECK_LOG", Path::new("findings.log")),
        ("MARGAY_PROFILE", Path::new("profiles/new")),
        ("MARGAY_TRACE_CHROME", Path::new("timelines/new")),
        ("MARGAY_TRACE_ACCELSIM", Path::new("traces/new")),
    ];
    let (status, _, errors) = run_tools(&folder, &["run", "--"], &variables);
    assert_eq!(status, 0, "{errors}");
    let findings = fs::read_to_string(folder.join("findings.log")).unwrap();
    assert!(findings.contains("\"event\":\"exits\"") && !findings.contains("\"kind\""));
    for (below, rows) in [
        ("profiles/new", "kernels"),
        ("timelines/new", "traceEvents"),
    ] {
        let files: Vec<PathBuf> = fs::read_dir(folder.join(below))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(files.len(), 1, "{files:?}");
        assert!(!json(&files[0])[rows].as_array().unwrap().is_empty());
    }
    assert!(folder.join("traces/new/kernel-2.traceg").is_file());
}

/// Runs the client of `libcupti` with the library of a toolkit. If `place` is a folder, the client loads the library by
/// its path in this folder.
fn activity(toolkit: &str, place: Option<&Path>) {
    let name = format!("activity-{toolkit}-{}", place.is_some());
    let program = built::program("activity", &name, &["-ldl"]);
    let output = Command::new(env!("CARGO_BIN_EXE_margay"))
        .args(["run", "--"])
        .arg(&program)
        .arg(toolkit)
        .args(place)
        .env("MARGAY_LIBCUDA", built::library())
        .env("XDG_RUNTIME_DIR", program.parent().unwrap())
        .env("MARGAY_CACHE", "0")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "PASS\n");
}

#[test]
fn clients_of_libcupti_receive_records_and_callbacks() {
    activity("12", None);
    activity("13", None);
}

/// As profilers do that are installed with NVIDIA's library in a wheel.
#[test]
fn libcupti_is_replaced_where_it_is_loaded_by_its_path() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cupti-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("libcupti.so.12"), "NVIDIA's").unwrap();
    activity("12", Some(&folder));
}
