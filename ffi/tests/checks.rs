//! Runs C programs with deliberate defects, and correct programs, in checking runs. The checking
//! run must report each defect as a finding that names the source line of the defective call.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/abi/checked.c")
}

/// Returns the path of the program whose only defects are wrong calls of the driver API.
fn calls() -> PathBuf {
    source().with_file_name("checked_calls.c")
}

/// The path of a folder for the library and the compiled C program; dropping this value removes the
/// folder.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("checks-{name}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let library = std::env::current_exe()
            .expect("a running test has a path")
            .with_file_name("libcuda.so");
        let link = folder.join("libcuda.so.1");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(library, link).expect("a link");
        Folder(folder)
    }

    /// Compiles the C program to test, and the shared library that the program uses. Returns the
    /// path of the program.
    fn compile(&self) -> PathBuf {
        let (program, library) = (self.0.join("checked"), self.0.join("libcublas.so.13"));
        let other = source().with_file_name("checked_library.c");
        self.build(&library, &other, &["-shared", "-fPIC"], &[]);
        self.build(&program, &source(), &[], &[&library]);
        program
    }

    fn build(&self, result: &Path, source: &Path, options: &[&str], libraries: &[&Path]) {
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let built = Command::new(compiler)
            .args([
                "-std=gnu11",
                "-g",
                "-O0",
                "-Wall",
                "-Werror",
                "-Wno-unused-function",
            ])
            .args(options)
            .arg("-o")
            .arg(result)
            .arg(source)
            .args(libraries)
            .arg(self.0.join("libcuda.so.1"))
            .status();
        assert!(built.expect("a compiler").success());
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the program with the checking tools in `tools`, and returns the findings.
fn findings(what: &str, tools: &str) -> Vec<Value> {
    findings_with(what, tools, &[])
}

/// Runs the program with the checking tools in `tools` and these environment variables, and returns
/// the findings.
fn findings_with(what: &str, tools: &str, variables: &[(&str, &str)]) -> Vec<Value> {
    let values: Vec<&str> = variables.iter().map(|(_, value)| *value).collect();
    let folder = Folder::new(&format!("{what} {}", values.join("-")).replace(' ', "-"));
    let mut command = Command::new(folder.compile());
    command.envs(variables.iter().copied());
    let (passes, found) = run(&folder, command.args(what.split(' ')), tools);
    assert!(passes, "{what} does not pass");
    found
}

/// Runs a program with the checking tools in `tools`. Returns whether the program printed `PASS`,
/// and the findings of the checking run.
fn run(folder: &Folder, command: &mut Command, tools: &str) -> (bool, Vec<Value>) {
    let log = folder.0.join("log");
    let output = command
        .env("LD_LIBRARY_PATH", &folder.0)
        .env("MARGAY_CHECK", tools)
        .env("MARGAY_CHECK_LOG", &log)
        .env("MARGAY_CACHE", "0")
        .output()
        .expect("a program");
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(&log).unwrap_or_default();
    let mut found: Vec<Value> = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        if line.get("kind").is_some() {
            found.push(line);
        } else if let Some(known) = found
            .iter_mut()
            .find(|known| known["id"] == line["id"] && known["pid"] == line["pid"])
        {
            known["count"] = line["count"].clone();
        }
    }
    (output.stdout.ends_with(b"PASS\n"), found)
}

/// Returns the number of the source line that ends with the comment `// @mark`.
fn line(mark: &str) -> u64 {
    line_of(&source(), mark)
}

fn line_of(source: &Path, mark: &str) -> u64 {
    let text = fs::read_to_string(source).expect("the source");
    let found = text
        .lines()
        .position(|line| line.ends_with(&format!("// @{mark}")));
    found.unwrap_or_else(|| panic!("no mark {mark}")) as u64 + 1
}

/// Removes from `findings`, and returns, the finding of this kind whose innermost host frame (stack
/// frame of the program) is at the line of `mark`, and whose message contains `text`.
#[track_caller]
fn take(findings: &mut Vec<Value>, kind: &str, mark: &str, text: &str) -> Value {
    let wanted = line(mark);
    let found = findings.iter().position(|finding| {
        let host = &finding["host"][0];
        finding["kind"] == kind
            && host["line"] == wanted
            && host["file"]
                .as_str()
                .is_some_and(|file| file.ends_with("checked.c"))
            && finding["message"]
                .as_str()
                .is_some_and(|message| message.contains(text))
    });
    let Some(found) = found else {
        panic!("no {kind} at {mark} (line {wanted}) with `{text}` in {findings:#?}");
    };
    let finding = findings.remove(found);
    let last = finding["host"].as_array().and_then(|frames| frames.last());
    assert_eq!(last.expect("frames")["function"], "main");
    finding
}

#[track_caller]
fn is_clean(what: &str) {
    let found = findings(what, "memcheck,leakcheck,apicheck");
    assert!(found.is_empty(), "{found:#?}");
}

/// Regression test: without apicheck, each call after an allocation was listed with the address of the allocation.
#[test]
fn only_allocations_are_listed_with_an_address() {
    let folder = Folder::new("listed");
    let mut command = Command::new(folder.compile());
    command.env("MARGAY_CHECK_LIST_CALLS", "2");
    let (passes, _) = run(&folder, command.arg("no-leaks"), "memcheck");
    assert!(passes);
    let log = fs::read_to_string(folder.0.join("log")).expect("a log");
    let calls = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let results = |name: &str| -> Vec<String> {
        let named = calls.clone().filter(|call: &Value| call["name"] == name);
        named.map(|call| call["result"].to_string()).collect()
    };
    let allocated = results("cuMemAlloc_v2");
    assert!(!allocated.is_empty());
    for result in &allocated {
        assert!(result.contains("CUDA_SUCCESS, memory at 0x"), "{result}");
    }
    let freed = results("cuMemFree_v2");
    assert!(!freed.is_empty());
    assert!(
        freed.iter().all(|result| result == "\"CUDA_SUCCESS\""),
        "{freed:?}"
    );
}

#[test]
fn what_is_not_freed_is_reported() {
    let mut found = findings("leaks", "leakcheck");
    for (mark, text) in [
        ("alloc", "Leaked 12,345 bytes at 0x"),
        ("managed", "Leaked 2,000 bytes of managed memory at 0x"),
        ("pinned", "Leaked 3,000 bytes of pinned memory at 0x"),
        ("pooled", "Leaked 5,000 bytes of a pool at 0x"),
    ] {
        let finding = take(&mut found, "leaked-memory", mark, text);
        assert_eq!(finding["severity"], "error");
    }
    for (mark, text) in [
        ("registered", "Registration of 4,096 bytes of host memory"),
        ("stream", "Stream 0x"),
        ("event", "Event 0x"),
        ("graph", "Graph 0x"),
        ("exec", "Executable graph 0x"),
        ("module", "Module 0x"),
    ] {
        let finding = take(&mut found, "leaked-object", mark, text);
        assert_eq!(finding["severity"], "warning");
        let objects = if mark == "event" { 3 } else { 1 };
        assert_eq!(finding["count"], objects, "{mark}");
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn what_is_freed_is_not_reported() {
    is_clean("no-leaks");
    is_clean("late");
    is_clean("clean-context");
    is_clean("fork");
}

#[test]
fn a_leak_is_reported_at_each_end() {
    let mut found = findings("context", "leakcheck");
    take(
        &mut found,
        "leaked-memory",
        "alloc",
        "Leaked 777 bytes at 0x",
    );
    assert!(found.is_empty(), "{found:#?}");
    let mut found = findings("exit", "leakcheck");
    take(
        &mut found,
        "leaked-memory",
        "alloc",
        "Leaked 100 bytes at 0x",
    );
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn wrong_calls_are_reported() {
    let mut found = findings("calls", "apicheck");
    let mut is = |kind, mark, text| take(&mut found, kind, mark, text);
    let failed = "Program hit CUDA_ERROR_OUT_OF_MEMORY (error 2) due to \"out of memory\" on CUDA API call to cuMemAlloc_v2.";
    is("failed-call", "too-much", failed);
    let twice = is("invalid-pointer", "twice", "is freed already");
    let place = format!(
        "0 bytes into device memory of 500 bytes freed at checked.c:{} (allocated at checked.c:{})",
        line("free"),
        line("alloc")
    );
    assert_eq!(twice["allocation"], Value::from(place));
    is("invalid-pointer", "interior", "inside an allocation");
    is("invalid-pointer", "unknown", "no memory is allocated there");
    is(
        "wrong-direction",
        "reversed",
        "are reversed in directionality",
    );
    is("wrong-direction", "host-source", "is host memory");
    is("wrong-direction", "device-source", "is device memory");
    is("outside-allocation", "outside", "is 2,000 bytes at 0x");
    is(
        "outside-allocation",
        "fill",
        "of cuMemsetD8_v2 is 1,001 bytes at 0x",
    );
    is(
        "invalid-pointer",
        "stale-copy",
        "where no memory is allocated",
    );
    let stale = format!(
        "which was destroyed at checked.c:{}",
        line("destroy-stream")
    );
    is("destroyed-handle", "stale-stream", &stale);
    is("destroyed-handle", "stale-event", "uses the event");
    is("destroyed-handle", "stale-module", "uses the module");
    let gone = is("invalid-pointer", "after-reset", "is freed already");
    let gone = gone["allocation"].as_str().expect("a description");
    assert!(
        gone.contains("freed with its context (allocated at checked.c:"),
        "{gone}"
    );
    assert!(found.is_empty(), "{found:#?}");
}

/// Runs the program whose defects are wrong calls of the driver API. Returns the kind, the source
/// line and the message of each finding.
fn found_calls(arguments: &str) -> Vec<(String, u64, String)> {
    let folder = Folder::new(&format!("calls {arguments}").replace(' ', "-"));
    let program = folder.0.join("calls");
    folder.build(&program, &calls(), &[], &[]);
    let mut command = Command::new(program);
    command.args(arguments.split(' '));
    let (passes, found) = run(&folder, &mut command, "apicheck");
    assert!(passes, "{arguments} does not pass");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let parts = found.iter().map(|finding| {
        let line = finding["host"][0]["line"].as_u64().unwrap_or_default();
        (text(&finding["kind"]), line, text(&finding["message"]))
    });
    parts.collect()
}

/// An expected finding: its kind, the mark of its source line (see [`line`]), and a part of its
/// message.
type Expected = (&'static str, &'static str, &'static str);

#[test]
fn ranges_host_memory_and_old_contexts_are_examined() {
    let tests: [(&str, &[Expected]); 3] = [
        (
            "ranges",
            &[
                (
                    "outside-allocation",
                    "unified",
                    "The destination of cuMemcpy is 401 bytes",
                ),
                (
                    "outside-allocation",
                    "rows",
                    "The source of cuMemcpy2D_v2 is 364 bytes",
                ),
                (
                    "outside-allocation",
                    "fill-rows",
                    "The destination of cuMemsetD2D32_v2 is 500",
                ),
                (
                    "outside-allocation",
                    "async",
                    "of cuMemcpyHtoDAsync_v2 is 500 bytes",
                ),
            ],
        ),
        (
            "host",
            &[
                (
                    "invalid-pointer",
                    "unreadable",
                    "The source 0x40 of cuMemcpyHtoD_v2 is not access",
                ),
                (
                    "invalid-pointer",
                    "unwritable",
                    "The destination 0x0 of cuMemcpyDtoH_v2 is no",
                ),
                (
                    "invalid-pointer",
                    "unregister-pinned",
                    "is not registered host memory",
                ),
                (
                    "invalid-pointer",
                    "unregister-inside",
                    "is inside registered memory",
                ),
                (
                    "invalid-pointer",
                    "unregister",
                    "the memory is not registered",
                ),
                (
                    "invalid-pointer",
                    "unregister-twice",
                    "is not registered any more",
                ),
                ("invalid-pointer", "free-host-twice", "is freed already"),
                (
                    "invalid-pointer",
                    "free-foreign",
                    "no memory is allocated there",
                ),
            ],
        ),
        (
            "reset",
            &[
                (
                    "invalid-pointer",
                    "copy-after-reset",
                    "where no memory is allocated",
                ),
                ("destroyed-handle", "stream-after-reset", "uses the stream"),
                ("destroyed-handle", "event-after-reset", "uses the event"),
                (
                    "destroyed-handle",
                    "launch-after-reset",
                    "uses the function",
                ),
                ("destroyed-handle", "unload-after-reset", "uses the module"),
            ],
        ),
    ];
    for (what, expected) in tests {
        let found = found_calls(what);
        assert_eq!(found.len(), expected.len(), "{what}: {found:#?}");
        for (one, (kind, mark, text)) in found.iter().zip(expected) {
            let line = line_of(&calls(), mark);
            assert_eq!((one.0.as_str(), one.1), (*kind, line), "{mark}: {one:?}");
            assert!(one.2.contains(text), "{mark}: {one:?}");
        }
        let clean = found_calls(&format!("{what} clean"));
        assert!(clean.is_empty(), "{what}: {clean:#?}");
    }
}

#[test]
fn copies_of_unwritten_memory_name_the_call_and_the_allocation() {
    let mut found = findings("unwritten", "initcheck");
    for mark in ["unwritten", "unwritten-unified"] {
        let text = "a copy of 1,000 bytes to the host reads 600 bytes of uninitialized memory, the first at offset 400";
        let copy = take(&mut found, "uninitialized-copy", mark, text);
        let place = format!(
            "400 bytes into device memory of 1,000 bytes allocated at checked.c:{}",
            line("alloc")
        );
        assert_eq!(copy["allocation"], Value::from(place));
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn correct_calls_are_not_reported() {
    is_clean("correct-calls");
}

#[test]
fn accesses_of_kernels_name_the_launch_and_the_allocation() {
    let mut found = findings("accesses", "memcheck");
    let (alloc, freed) = (line("alloc"), line("freed"));
    let finding = take(
        &mut found,
        "out-of-bounds",
        "launch",
        "Invalid __global__ write",
    );
    let place =
        format!("12 bytes after device memory of 4,096 bytes allocated at checked.c:{alloc}");
    let described = finding["allocation"].as_str().expect("a description");
    assert!(described.ends_with(&place), "{described}");
    let finding = take(
        &mut found,
        "use-after-free",
        "launch",
        "Invalid __global__ write",
    );
    let place = format!(
        "8 bytes into device memory of 4,096 bytes freed at checked.c:{freed} (allocated at checked.c:{alloc})"
    );
    let described = finding["allocation"].as_str().expect("a description");
    assert!(described.ends_with(&place), "{described}");
    let text = "Invalid __constant__ write";
    let finding = take(&mut found, "wrong-space", "overwrite", text);
    assert_eq!(
        finding["allocation"],
        "address is in a constant variable, which a kernel of its module cannot write: 4 bytes into variable table of \
         16 bytes"
    );
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn destroying_a_context_waits_for_copies_to_its_arrays() {
    let found = findings("destroyed-before-copy", "memcheck");
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn memory_of_graphs_is_allocated_from_its_allocation_node_to_its_free() {
    let all = "memcheck,initcheck,leakcheck,apicheck";
    let found = findings("graph-memory", all);
    assert!(found.is_empty(), "{found:#?}");
    for (what, offset) in [("before", 8), ("after", 12)] {
        let mut found = findings(&format!("graph-memory {what}"), all);
        let text = "Invalid __global__ write";
        let finding = take(&mut found, "use-after-free", "launch", text);
        let place = format!(
            "{offset} bytes into device memory of 1,000 bytes allocated at checked.c:{}, while its graph has not \
             allocated it",
            line("graph-memory")
        );
        let described = finding["allocation"].as_str().expect("a description");
        assert!(described.ends_with(&place), "{described}");
        assert!(found.is_empty(), "{found:#?}");
    }
    let mut found = findings("graph-memory unwritten", all);
    let text = "a copy of 8 bytes to the host reads 4 bytes of uninitialized memory, the first at offset 4";
    take(
        &mut found,
        "partly-uninitialized",
        "unwritten-graph-memory",
        text,
    );
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn unordered_uses_of_stream_ordered_memory_are_reported() {
    let both = |what: &str| {
        let found = findings(&format!("{what} unordered"), "memcheck");
        assert!(
            found
                .iter()
                .all(|finding| finding["missing"] == "stream order")
        );
        found
    };
    let mut found = both("use-before");
    let text = "Use of stream-ordered memory before its allocation by kernel poke";
    take(&mut found, "use-before-allocation", "launch", text);
    let text = "Free of stream-ordered memory that kernel poke may still use";
    take(&mut found, "use-after-stream-free", "free-too-early", text);
    assert!(found.is_empty(), "{found:#?}");
    let mut found = both("fill-before");
    let text = "Use of stream-ordered memory before its allocation by a fill";
    take(&mut found, "use-before-allocation", "fill-before", text);
    assert!(found.is_empty(), "{found:#?}");
    let mut found = both("free-before");
    take(
        &mut found,
        "free-before-allocation",
        "free-before",
        "Free of stream-ordered memory",
    );
    assert!(found.is_empty(), "{found:#?}");
    let mut found = both("free-during");
    let text = "Free of stream-ordered memory that kernel poke may still use";
    take(&mut found, "use-after-stream-free", "free-during", text);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn ordered_uses_of_stream_ordered_memory_are_not_reported() {
    is_clean("ordered");
}

#[test]
fn one_kind_of_stream_order_can_be_selected() {
    let found = |selected| {
        let variables = [("MARGAY_CHECK_STREAM_ORDER", selected)];
        let found = findings_with("use-before unordered", "memcheck", &variables);
        found
            .iter()
            .map(|f| f["kind"].to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(found("use-before-alloc"), ["\"use-before-allocation\""]);
    assert_eq!(found("use-after-free"), ["\"use-after-stream-free\""]);
    assert_eq!(found("all").len(), 2);
    assert!(found("no").is_empty());
}

#[test]
fn memory_that_nobody_writes_is_reported_if_wanted() {
    assert!(findings("unused", "initcheck").is_empty());
    let found = |threshold| {
        let variables = [
            ("MARGAY_CHECK_UNUSED_MEMORY", "1"),
            ("MARGAY_CHECK_UNUSED_THRESHOLD", threshold),
        ];
        findings_with("unused", "initcheck", &variables)
    };
    let mut all = found("0");
    let half = take(&mut all, "unused-memory", "alloc", "of size 1,000 bytes");
    let text = "Not written 500 bytes, the first at offset 500; 50% of the allocation";
    assert_eq!(half["explanation"], text);
    assert_eq!(half["severity"], "warning");
    take(&mut all, "unused-memory", "alloc", "of size 64 bytes");
    assert!(all.is_empty(), "{all:#?}");
    assert_eq!(found("50").len(), 2);
    assert_eq!(found("51").len(), 1);
}

#[test]
fn a_wrong_access_ends_what_the_option_says() {
    for (what, ends, engine) in [
        ("ends-nothing", "continue", "native"),
        ("ends-kernel", "kernel", "native"),
        ("ends-kernel", "kernel", "interpreter"),
        ("ends-context", "context", "native"),
        ("ends-context", "context", "interpreter"),
    ] {
        let variables = [
            ("MARGAY_CHECK_AFTER_ERROR", ends),
            ("MARGAY_ENGINE", engine),
        ];
        let found = findings_with(what, "memcheck", &variables);
        let [finding] = &found[..] else {
            panic!("{what}, {engine}: {found:#?}");
        };
        assert_eq!(finding["kind"], "out-of-bounds");
    }
}

/// After a fault of a kernel, all later calls of the program fail. Without a finding for the fault
/// itself, the run would report only the next call, or nothing if the program makes no later call.
#[test]
fn a_fault_of_a_kernel_is_reported_once_with_its_place() {
    for engine in ["native", "interpreter"] {
        for what in ["trap", "trap-at-end", "bad-call"] {
            let variables = [("MARGAY_ENGINE", engine)];
            let mut found = findings_with(what, "all", &variables);
            found.retain(|finding| finding["tool"] != "leakcheck");
            let (kernel, thread, block, ptx_line, text) = match what {
                "bad-call" => ("call", [0, 0, 0], [0, 0, 0], 16, "invalid program counter"),
                _ => ("stop", [5, 0, 0], [1, 0, 0], 8, "trap"),
            };
            let text = format!("Kernel fault: {text}");
            let finding = take(&mut found, "kernel-fault", "faults", &text);
            assert_eq!(finding["tool"], "memcheck", "{what}, {engine}");
            assert_eq!(finding["severity"], "error");
            assert_eq!(finding["kernel"], kernel);
            assert_eq!(finding["thread"], serde_json::json!(thread));
            assert_eq!(finding["block"], serde_json::json!(block));
            assert_eq!(finding["ptx_line"], ptx_line);
            assert!(found.is_empty(), "{what}, {engine}: {found:#?}");
        }
    }
}

#[test]
fn without_memcheck_the_call_that_fails_is_reported() {
    let mut found = findings("trap", "synccheck,apicheck");
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found.remove(0)["kind"], "failed-call");
}

#[test]
fn a_fault_of_a_kernel_that_is_not_examined_is_not_reported() {
    let variables = [("MARGAY_CHECK_KERNELS", "kernel_name=other")];
    assert!(findings_with("trap", "memcheck", &variables).is_empty());
}

#[test]
fn the_time_limit_causes_no_finding_about_the_kernel() {
    let variables = [("MARGAY_TIME_LIMIT", "1")];
    assert!(findings_with("endless", "memcheck", &variables).is_empty());
}

#[test]
fn launches_block_if_wanted() {
    let variables = [("MARGAY_CHECK_BLOCKING", "1")];
    assert!(findings_with("blocking", "memcheck", &variables).is_empty());
}

#[test]
fn failed_calls_are_selected_by_level() {
    let found = |level| {
        let variables = [("MARGAY_CHECK_API_ERRORS", level)];
        let mut found = findings_with("levels", "apicheck", &variables);
        take(&mut found, "failed-call", "too-much-here", "cuMemAlloc_v2");
        found
            .iter()
            .map(|f| f["message"].to_string())
            .collect::<Vec<_>>()
    };
    assert!(found("explicit").is_empty());
    let [library] = &found("extended")[..] else {
        panic!("one call of a library");
    };
    assert!(library.contains("call to cuMemAlloc_v2"), "{library}");
    let all = found("all");
    assert!(
        all.iter().any(|text| text.contains("cuGetProcAddress")),
        "{all:?}"
    );
}

#[test]
fn frames_of_python_code_replace_those_of_the_interpreter() {
    for lock in ["held", "released"] {
        let folder = Folder::new(&format!("python-{lock}"));
        let script = source().with_file_name("checked.py");
        let mut command = Command::new("python3");
        let (knows, found) = run(&folder, command.arg(&script).arg(lock), "leakcheck");
        let [finding] = &found[..] else {
            panic!("{found:#?}");
        };
        let text = fs::read_to_string(&script).expect("the script");
        let line = |part: &str| {
            let found = text.lines().position(|line| line.contains(part));
            Value::from(found.expect("a line") as u64 + 1)
        };
        let frames = finding["host"].as_array().expect("frames");
        let python: Vec<_> = frames
            .iter()
            .filter(|frame| {
                frame["file"]
                    .as_str()
                    .is_some_and(|file| file.ends_with(".py"))
            })
            .map(|frame| (frame["function"].clone(), frame["line"].clone()))
            .collect();
        if !knows {
            continue;
        }
        let expected = [
            ("allocate", "assert cuda.cuMemAlloc_v2("),
            ("Model.build", "allocate(1000)"),
            ("<module>", "Model().build()"),
        ];
        let expected = expected.map(|(name, part)| (Value::from(name), line(part)));
        assert_eq!(python, expected, "{lock}: {frames:#?}");
        assert_eq!(
            frames.last(),
            frames.iter().rfind(|frame| frame["function"] == "<module>")
        );
    }
}

/// Runs the compiled program under memcheck and leakcheck without a log, and returns the text on
/// standard error. `after` states what an error ends (`MARGAY_CHECK_AFTER_ERROR`).
fn said(folder: &Folder, program: &Path, what: &str, after: &str) -> String {
    let output = Command::new(program)
        .arg(what)
        .env("LD_LIBRARY_PATH", &folder.0)
        .env("MARGAY_CHECK", "memcheck,leakcheck")
        .env("MARGAY_CHECK_AFTER_ERROR", after)
        .env("MARGAY_CACHE", "0")
        .output()
        .expect("a program");
    assert!(output.stdout.ends_with(b"PASS\n"), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn memory_is_not_examined_for_leaks_after_an_error_that_ends_its_context() {
    let folder = Folder::new("unexamined-leaks");
    let program = folder.compile();
    for (what, after, times) in [
        ("ends-context", "context", 1),
        ("ends-nothing", "continue", 0),
    ] {
        let said = said(&folder, &program, what, after);
        let text = "leakcheck: memory was not examined";
        assert_eq!(said.matches(text).count(), times, "{what}: {said}");
    }
}

#[test]
fn kernels_that_do_not_run_after_an_error_are_reported_once() {
    let folder = Folder::new("skipped-kernels");
    let program = folder.compile();
    for (what, times) in [
        ("skipped-queued", 1),
        ("skipped-refused", 1),
        ("ends-context", 0),
    ] {
        let said = said(&folder, &program, what, "context");
        let text = "after an error did not run";
        assert_eq!(said.matches(text).count(), times, "{what}: {said}");
    }
}

#[test]
fn findings_are_printed_if_the_log_cannot_be_written() {
    let folder = Folder::new("unwritable-log");
    let program = folder.compile();
    for log in ["/dev/full", "/no-such-folder/log", "/"] {
        let output = Command::new(&program)
            .arg("leaks")
            .env("LD_LIBRARY_PATH", &folder.0)
            .env("MARGAY_CHECK", "leakcheck")
            .env("MARGAY_CHECK_LOG", log)
            .env("MARGAY_CACHE", "0")
            .output()
            .expect("a program");
        let said = String::from_utf8_lossy(&output.stderr);
        let warning = format!("margay: cannot write findings to {log} (MARGAY_CHECK_LOG)");
        assert_eq!(said.matches(&warning).count(), 1, "{said}");
        assert!(said.contains("margay: leakcheck: Leaked "), "{said}");
    }
}
