//! Tests `margay check` as a child process: exit codes, reports and options.

mod common;

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{ARGS, Folder, err, limited};

/// Runs `margay check OPTIONS -- margay COMMAND`, and returns the exit code and the report.
fn check(folder: &Folder, options: &str, command: &str) -> (Option<i32>, String) {
    let margay = env!("CARGO_BIN_EXE_margay");
    let output = folder.margay(&format!("check {options} -- {margay} {command}"));
    (output.status.code(), err(&output))
}

const FINE: &str = "\
========= COMPUTE-SANITIZER
========= LEAK SUMMARY: 0 bytes leaked in 0 allocations
========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)
========= ERROR SUMMARY: 0 errors
";

#[test]
fn check_finds_what_is_undefined_and_says_so_by_its_exit_code() {
    let folder = Folder::new("check");
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/ptx/semantics/undefined.ptx"
    );
    let undefined = format!("launch {file} --kernel not_in_mask --block 32");
    let (code, said) = check(&folder, "", &undefined);
    assert_eq!(code, Some(1), "{said}");
    for line in [
        "========= Barrier error detected. Invalid arguments\n",
        "=========     shfl: the member mask does not contain the executing thread\n",
        "=========     at not_in_mask\n",
        "=========     by thread (3,0,0) in block (0,0,0), warp 0, lanes 0x00000008\n",
    ] {
        assert!(said.contains(line), "{line} in {said}");
    }
    assert!(
        said.ends_with("========= ERROR SUMMARY: 6 errors\n"),
        "{said}"
    );
    let code = |options: &str| check(&folder, options, &undefined).0;
    assert_eq!(code("--error-exitcode 9"), Some(9));
    assert_eq!(code("--error-exitcode 0"), Some(0));
    assert_eq!(code("--tool memcheck"), Some(0));
    let (code, said) = check(&folder, "", &format!("{ARGS} -a zeros:f32:6"));
    assert_eq!((code, said.as_str()), (Some(0), FINE));
}

#[test]
fn check_states_that_racecheck_ignores_the_reverse_order() {
    let folder = Folder::new("check_reverse");
    let stated = |options: &str| {
        check(&folder, options, ARGS)
            .1
            .contains("--reverse has no effect")
    };
    assert!(stated("--reverse"));
    assert!(!stated("--reverse --tool memcheck"));
    assert!(!stated(""));
}

// Regression test: without a runtime there was no report, so the run ended with "0 errors".
#[test]
fn check_reports_that_the_runtime_cannot_start() {
    let folder = Folder::new("check_start");
    let (code, said) = check(&folder, "--memory 1", ARGS);
    assert_eq!(code, Some(1), "{said}");
    for line in [
        "margay: checks of accesses need more device memory than the limit permits",
        "========= The runtime cannot start: out of memory",
        "========= ERROR SUMMARY: 1 error\n",
    ] {
        assert!(said.contains(line), "{line} in {said}");
    }
}

#[test]
fn check_passes_the_exit_code_of_the_program() {
    let folder = Folder::new("check_exit_code");
    let output = folder.margay("check -- false");
    assert_eq!(output.status.code(), Some(1));
    let line = "========= Target application returned an error (exit code 1)\n";
    assert!(err(&output).contains(line), "{}", err(&output));
    assert_eq!(
        folder.margay("check -- /no/such/program").status.code(),
        Some(127)
    );
    let without = folder.margay("check -- true");
    assert_eq!(without.status.code(), Some(1));
    let line =
        "========= Error: Target application terminated before first instrumented API call\n";
    assert!(err(&without).contains(line), "{}", err(&without));
    let need_not = folder.margay("check --require-cuda-init no -- true");
    assert_eq!(
        (need_not.status.code(), err(&need_not).as_str()),
        (Some(0), FINE)
    );
}

/// A launch in which threads 6 and 7 access memory after the end of two buffers of 6 elements: they read after both
/// buffers in PTX line 15, and write after one buffer in line 17.
const TOO_FAR: &str =
    "launch k.ptx -k saxpy --grid 2 --block 4 -a u32:8 -a f32:2 -a iota:f32:6 -a zeros:f32:6";

/// Runs `margay check` with a shell script, sends it a signal when the script has printed a line, and returns its
/// output.
fn signalled(test: &str, signal: &str, script: &str) -> Output {
    let folder = Folder::new(test);
    let mut command = folder.command(&[
        "check",
        "--require-cuda-init",
        "no",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut ready = [0; 6];
    let output = child.stdout.as_mut().expect("a pipe");
    output.read_exact(&mut ready).expect("a line");
    // The command installs its handlers after it has started the script.
    std::thread::sleep(Duration::from_millis(300));
    let kill = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(kill.expect("kill").success());
    child.wait_with_output().expect("output")
}

#[test]
fn check_reports_after_a_signal() {
    let output = signalled("check-term", "-TERM", "echo ready; exec sleep 60");
    assert_eq!(output.status.code(), Some(128 + 15), "{}", err(&output));
    assert!(err(&output).contains("ERROR SUMMARY: 0 errors"));
    assert!(err(&output).contains("ended by signal 15"));
    // The command does not pass this signal on, because a terminal sends it to the program too.
    let script = "echo ready; sleep 1; exit 3";
    let output = signalled("check-interrupt", "-INT", script);
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    assert!(err(&output).contains("ERROR SUMMARY: 0 errors"));
}

#[test]
fn check_describes_accesses_behind_an_allocation() {
    let folder = Folder::new("check_access");
    let options = "--tool memcheck --destroy-on-device-error nothing --report r.json --report r.html --report r.sarif --save saved";
    let (code, said) = check(&folder, options, TOO_FAR);
    assert_eq!(code, Some(1), "{said}");
    for line in [
        "========= Invalid __global__ read of size 4 bytes\n=========     at saxpy\n=========     PTX line 15\n\
         =========     by thread (2,0,0) in block (1,0,0)\n=========     Address 0x",
        " is out of bounds\n=========     and is 0 bytes after device memory of 24 bytes allocated at ",
        "=========     and 3 further hits\n",
        "========= Invalid __global__ write of size 4 bytes\n=========     at saxpy\n=========     PTX line 17\n",
        "========= ERROR SUMMARY: 2 errors\n",
    ] {
        assert!(said.contains(line), "{line} in {said}");
    }
    let report = |name: &str| std::fs::read_to_string(folder.0.join(name)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&report("r.json")).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let lines: Vec<_> = findings.iter().map(|f| f["ptx_line"].as_u64()).collect();
    assert_eq!(lines, [Some(15), Some(17)]);
    assert_eq!(findings[0]["kind"], "out-of-bounds");
    assert_eq!(findings[0]["count"], 4);
    assert_eq!(json["summary"]["errors"], 2);
    let sarif: serde_json::Value = serde_json::from_str(&report("r.sarif")).unwrap();
    assert_eq!(sarif["runs"][0]["results"][1]["ruleId"], "out-of-bounds");
    assert!(report("r.html").contains("<h3>Kernel <code>saxpy</code></h3>"));
    // The saved findings are printed in the same way.
    let again = folder.margay("check --tool memcheck --read saved");
    assert_eq!((again.status.code(), err(&again)), (Some(1), said));
    // Regression test: a file without its last lines, or with half a line, was read as one without errors.
    let saved = report("saved");
    let lines: Vec<&str> = saved.lines().collect();
    let short = lines[..lines.len() - 1].join("\n");
    for part in ["", &short, &saved[..saved.len() - 9], &saved[..900]] {
        std::fs::write(folder.0.join("part"), part).unwrap();
        let output = folder.margay("check --tool memcheck --read part");
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        let error = "========= Error: The list of findings is incomplete";
        assert!(err(&output).contains(error), "{}", err(&output));
    }
}

#[test]
fn check_selects_launches_and_sums_processes() {
    let folder = Folder::new("check_launches");
    let (code, said) = check(
        &folder,
        "--tool memcheck --kernel-name-exclude kns=saxpy",
        TOO_FAR,
    );
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = check(&folder, "--tool memcheck --launch-skip 1", TOO_FAR);
    assert_eq!(code, Some(0), "{said}");
    let options = "--tool memcheck --dump-kernel-launches --kernel-name kne=saxpy";
    let (_, said) = check(&folder, options, TOO_FAR);
    let launch = "========= Info: Launch of saxpy with grid (2,1,1), block (4,1,1), 0 bytes of dynamic shared memory";
    assert!(said.contains(launch), "{said}");
    assert!(said.contains("ERROR SUMMARY: 2 errors"), "{said}");
    let margay = env!("CARGO_BIN_EXE_margay");
    let script = format!("{margay} {TOO_FAR}; {margay} {TOO_FAR}");
    let both = folder
        .command(&["check", "--tool", "memcheck", "--", "sh", "-c", &script])
        .output()
        .unwrap();
    let said = err(&both);
    for line in ["and 7 further hits\n", "and 3 further hits\n"] {
        assert!(said.contains(line), "{line} in {said}");
    }
    let only = [
        "check",
        "--tool",
        "memcheck",
        "--target-processes",
        "application-only",
        "--",
        "sh",
        "-c",
    ];
    let mut only = folder.command(&only);
    let only = only.arg(&script).output().unwrap();
    assert!(
        err(&only).ends_with("ERROR SUMMARY: 1 error\n"),
        "{}",
        err(&only)
    );
}

/// Runs a shell script in the folder of a test.
fn shell(folder: &Folder, script: &str) -> std::process::Output {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script]).current_dir(&folder.0);
    command.output().unwrap()
}

// Regression test: the system discarded the status of the program, so the findings were lost.
#[test]
fn check_reports_also_if_sigchld_is_ignored() {
    let folder = Folder::new("check_sigchld");
    let margay = env!("CARGO_BIN_EXE_margay");
    let script = format!(
        "trap '' CHLD; exec {margay} check --tool memcheck --destroy-on-device-error nothing -- {margay} {TOO_FAR}"
    );
    let output = shell(&folder, &script);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let end = "========= ERROR SUMMARY: 2 errors\n";
    assert!(err(&output).ends_with(end), "{}", err(&output));
}

// Regression test: SIGXFSZ ended the command without a message.
#[test]
fn check_reports_that_a_file_would_exceed_the_limit() {
    let folder = Folder::new("check_file_limit");
    let margay = env!("CARGO_BIN_EXE_margay");
    let script = format!("ulimit -f 1; exec {margay} check --report r.html -- {margay} {TOO_FAR}");
    let output = shell(&folder, &script);
    assert!(output.status.code().is_some(), "{:?}", output.status);
    let error = "r.html: File too large";
    assert!(err(&output).contains(error), "{}", err(&output));
}

// Regression test: with a full disk, the report stated 0 errors.
#[test]
fn check_reports_that_findings_could_not_be_written() {
    let folder = Folder::new("check_unwritten");
    let script = format!(
        "ulimit -f 0; exec {} {TOO_FAR}",
        env!("CARGO_BIN_EXE_margay")
    );
    let options = "check --tool memcheck --require-cuda-init no --report report.json -- sh -c";
    let words: Vec<&str> = options.split(' ').chain([script.as_str()]).collect();
    let output = folder.command(&words).output().unwrap();
    let said = err(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(
        said.matches("margay: cannot write findings to").count(),
        1,
        "{said}"
    );
    assert_eq!(
        said.matches("margay: memcheck: Invalid __global__").count(),
        2,
        "{said}"
    );
    assert!(
        said.contains("========= Error: The list of findings is incomplete"),
        "{said}"
    );
    assert!(
        said.ends_with("========= ERROR SUMMARY: 1 error\n"),
        "{said}"
    );
    let report = std::fs::read_to_string(folder.0.join("report.json")).unwrap();
    assert!(report.contains("\"complete\": false"), "{report}");
}

/// A PTX text in which a single thread writes at 1,000 addresses that are far from each other.
const FAR_AND_FAR: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry far(.param .u64 p)
{
    .reg .pred %again; .reg .b32 %i; .reg .b64 %p;
    ld.param.u64 %p, [p];
    mov.u32 %i, 0;
next:
    st.global.u32 [%p], %i;
    add.u64 %p, %p, 16384;
    add.u32 %i, %i, 1;
    setp.lt.u32 %again, %i, 1000;
    @%again bra next;
    ret;
}
";

// Regression test: the kernel ended only with its block, after all wrong accesses.
#[test]
fn a_wrong_access_ends_the_kernel_at_once() {
    let folder = Folder::new("check_at_once");
    std::fs::write(folder.0.join("far.ptx"), FAR_AND_FAR).unwrap();
    for engine in ["native", "interpreter"] {
        for (after, hits) in [("nothing", true), ("kernel", false), ("context", false)] {
            let options = format!("--tool memcheck --destroy-on-device-error {after}");
            let margay = env!("CARGO_BIN_EXE_margay");
            let words = format!(
                "check {options} -- env MARGAY_ENGINE={engine} {margay} launch far.ptx -k far --grid 1 --block 1 \
                 -a zeros:u32:8"
            );
            let said = err(&folder.margay(&words));
            let found = said.matches("Invalid __global__ write of size 4").count();
            assert!(found >= 1, "{engine}, {after}: {said}");
            assert_eq!(
                said.contains("further hits"),
                hits,
                "{engine}, {after}: {said}"
            );
        }
    }
}

// Regression test: without memcheck, accesses outside of device memory were suppressed, and nobody reported them.
#[test]
fn wild_accesses_end_the_kernel_without_memcheck() {
    let folder = Folder::new("check_wild");
    // The first argument is the number of elements, the others are addresses.
    let wild =
        "launch k.ptx -k saxpy --grid 1 --block 4 -a u32:4 -a f32:2 -a u64:4096 -a zeros:f32:4";
    for tool in ["racecheck", "initcheck", "memcheck"] {
        let (code, said) = check(&folder, &format!("--tool {tool}"), wild);
        assert_eq!(code, Some(1), "{tool}: {said}");
        assert!(said.contains("llegal memory access"), "{tool}: {said}");
    }
}

/// A kernel that stores outside of its local memory, and a kernel that frees memory that `malloc`
/// has not returned.
const WRONG_WITHOUT_MEMCHECK: &str = "\
.version 8.0
.target sm_80
.address_size 64
.extern .func free (.param .b64 pointer);
.visible .entry store()
{
    .local .align 4 .b8 own[64];
    .reg .b32 %at;
    mov.u32 %at, own;
    add.u32 %at, %at, 0x1000000;
    st.local.u32 [%at], %at;
    ret;
}
.visible .entry release()
{
    .param .b64 pointer;
    st.param.b64 [pointer], 4096;
    call free, (pointer);
    ret;
}
";

// Regression test: without memcheck, these kernels ended without an error and without a report.
#[test]
fn stray_local_accesses_and_frees_end_the_kernel_without_memcheck() {
    let folder = Folder::new("check_wrong");
    std::fs::write(folder.0.join("wrong.ptx"), WRONG_WITHOUT_MEMCHECK).unwrap();
    let cases = [
        ("store", "llegal memory access"),
        ("release", "free(0x1000)"),
    ];
    for (kernel, message) in cases {
        let launch = format!("launch wrong.ptx -k {kernel} --grid 1 --block 1");
        for tool in ["racecheck", "initcheck", "synccheck", "memcheck"] {
            let (code, said) = check(&folder, &format!("--tool {tool}"), &launch);
            assert_eq!(code, Some(1), "{kernel}, {tool}: {said}");
            assert!(
                said.contains(message) || tool == "memcheck",
                "{kernel}, {tool}: {said}"
            );
        }
    }
}

// Regression test: the findings of a process that outlived the command were in a file that nobody read or removed.
#[test]
fn processes_that_outlive_the_command_print_their_findings() {
    let folder = Folder::new("check_outlived");
    std::fs::create_dir(folder.0.join("temporary")).unwrap();
    let margay = env!("CARGO_BIN_EXE_margay");
    let options = "check --tool memcheck --require-cuda-init no -- sh -c";
    let script = format!("(sleep 1; {margay} {TOO_FAR}) & exit 0");
    let words: Vec<&str> = options.split(' ').chain([script.as_str()]).collect();
    let mut command = folder.command(&words);
    // The end of the output is the end of the last process.
    let output = command.env("TMPDIR", folder.0.join("temporary")).output();
    let said = err(&output.unwrap());
    let (summary, after) = said.split_once("ERROR SUMMARY: 0 errors\n").expect(&said);
    assert!(!summary.contains("Invalid"), "{said}");
    let found = after.matches("margay: memcheck: Invalid __global__");
    assert_eq!(found.count(), 2, "{said}");
    let left = std::fs::read_dir(folder.0.join("temporary")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn check_suppresses_what_it_has_saved() {
    let folder = Folder::new("check_suppressions");
    let (code, said) = check(
        &folder,
        "--tool memcheck --destroy-on-device-error nothing --xml --save known-%p-%q{NAME}.xml --log-file log",
        TOO_FAR,
    );
    assert_eq!((code, said.as_str()), (Some(1), ""));
    let log = std::fs::read_to_string(folder.0.join("log")).unwrap();
    assert!(
        log.ends_with("========= ERROR SUMMARY: 2 errors\n"),
        "{log}"
    );
    let files = std::fs::read_dir(&folder.0).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let known = names
        .into_iter()
        .find(|name| name.starts_with("known-"))
        .unwrap();
    assert!(known.ends_with("-.xml"), "{known}");
    let options =
        format!("--tool memcheck --destroy-on-device-error nothing --suppressions {known}");
    let (code, said) = check(&folder, &options, TOO_FAR);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("========= 2 reports suppressed\n"), "{said}");
}

// Regression test: the options read a file of any size into memory.
#[test]
fn check_reads_no_file_that_is_too_large() {
    let folder = Folder::new("check_large");
    let file = std::fs::File::create(folder.0.join("large")).unwrap();
    // No byte of the file uses space on the disk.
    file.set_len(margay_cli::input::MAX_FILE + 1).unwrap();
    for options in ["--read large", "--suppressions large -- true"] {
        let output = folder.margay(&format!("check {options}"));
        assert_eq!(output.status.code(), Some(1), "{options}");
        assert_eq!(
            err(&output),
            "error: large: the file has more than 2147483648 bytes, which is the limit\n"
        );
    }
}

// Regression test: the reports were built in memory, with 25 KB for each finding.
#[test]
fn json_reports_are_written_finding_by_finding() {
    let folder = Folder::new("check_report_memory");
    let finding = |line: usize| {
        format!(
            r#"{{"tool":"memcheck","kind":"null-pointer","severity":"error","message":"Invalid write","kernel":"k","file":"a.cu","line":{line},"host":[{{"function":"main","file":"a.c","line":4}}],"pids":[1]}}"#
        )
    };
    let lines = (1..=8000).map(finding);
    let lines: Vec<String> = lines.chain([r#"{"event":"end"}"#.to_owned()]).collect();
    std::fs::write(folder.0.join("saved"), lines.join("\n")).unwrap();
    for (report, list) in [("r.sarif", "/runs/0/results"), ("r.json", "/findings")] {
        let args = format!("check --read saved --print-limit 1 --report {report}");
        let output = limited(&folder, "-d 60000", &args);
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        let text = std::fs::read(folder.0.join(report)).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let list = document.pointer(list).unwrap().as_array();
        assert_eq!(list.map(Vec::len), Some(8000), "{report}");
    }
}

#[test]
fn check_names_options_that_are_wrong_or_have_no_effect() {
    let folder = Folder::new("check_options");
    for (options, message) in [
        (
            "--report a.txt",
            "error: --report a.txt: the name must end in .json, .html or .sarif\n",
        ),
        (
            "--log-file a%x",
            "error: a%x: %x is not supported; use %%, %p, %q{VARIABLE}\n",
        ),
        (
            "--suppressions none.xml",
            "error: none.xml: No such file or directory (os error 2)\n",
        ),
    ] {
        let output = folder.margay(&format!("check {options} -- touch started"));
        assert_eq!(output.status.code(), Some(1), "{options}");
        assert_eq!(err(&output), message);
    }
    assert!(!folder.0.join("started").exists());
    for wrong in [
        "check --tool x true",
        "check --xml true",
        "check",
        "check --read a true",
    ] {
        assert_eq!(folder.margay(wrong).status.code(), Some(2), "{wrong}");
    }
    let output = folder.margay("check --check-cache-control --require-cuda-init no -- true");
    let note = "margay: --check-cache-control has no effect: Margay simulates no caches\n";
    assert_eq!(err(&output), format!("{note}{FINE}"));
    let none = folder.margay("check --read none");
    assert_eq!(
        err(&none),
        "error: none: No such file or directory (os error 2)\n"
    );
}

#[test]
fn check_prints_in_the_form_that_options_select() {
    let folder = Folder::new("check_form");
    let (_, said) = check(
        &folder,
        "--tool memcheck --quiet --destroy-on-device-error nothing",
        TOO_FAR,
    );
    assert!(
        said.starts_with("========= Invalid __global__ read"),
        "{said}"
    );
    assert!(!said.contains("SUMMARY"), "{said}");
    let (_, said) = check(&folder, "--quiet", &format!("{ARGS} -a zeros:f32:6"));
    assert_eq!(said, "");
    let options = "--tool memcheck --destroy-on-device-error nothing --prefix ## --print-session-details --num-callers-host 1 --strip-paths yes";
    let (_, said) = check(&folder, options, TOO_FAR);
    assert!(
        said.starts_with("## COMPUTE-SANITIZER\n## Process "),
        "{said}"
    );
    assert!(said.lines().all(|line| line.starts_with("## ")), "{said}");
    let frames = said.matches("Host Frame: ").count();
    let stacks = said.matches("Saved host backtrace").count();
    assert_eq!(frames, stacks, "{said}");
    assert!(!said.contains(" in /"), "{said}");
}

#[test]
fn check_ends_what_an_option_names() {
    let folder = Folder::new("check_ends");
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/ptx/semantics/undefined.ptx"
    );
    let undefined = format!("launch {file} --kernel not_in_mask --block 32");
    for (option, fails) in [
        ("", false),
        ("--destroy-on-device-error kernel", false),
        ("--destroy-on-device-error context", true),
    ] {
        let options = format!("--tool synccheck --error-exitcode 9 {option}");
        let (code, said) = check(&folder, &options, &undefined);
        let expected = if fails { Some(1) } else { Some(9) };
        assert_eq!(code, expected, "{option}: {said}");
        assert!(said.contains("Barrier error detected"), "{said}");
    }
    let (code, said) = check(
        &folder,
        "--tool memcheck --destroy-on-device-error context --error-exitcode 9",
        TOO_FAR,
    );
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("illegal memory access"), "{said}");
}

#[test]
fn a_kernel_goes_on_after_a_wrong_access_and_then_calls_return_its_error() {
    let folder = Folder::new("check_error");
    let options = "--tool memcheck,apicheck --error-exitcode 9";
    let (code, said) = check(&folder, options, TOO_FAR);
    assert_eq!(code, Some(1), "the program fails: {said}");
    // The wrong write after the first wrong read is also reported. The call that then fails has no finding of its own.
    assert!(said.contains("Invalid __global__ write"), "{said}");
    assert!(said.contains("ERROR SUMMARY: 2 errors"), "{said}");
    assert!(!said.contains("did not run"), "{said}");
    let nothing = format!("{options} --destroy-on-device-error nothing");
    let (code, said) = check(&folder, &nothing, TOO_FAR);
    assert_eq!(code, Some(9), "the program succeeds: {said}");
    assert!(said.contains("ERROR SUMMARY: 2 errors"), "{said}");
}

/// In `sums`, each thread stores the sum of a row of 8 elements, and the branch at the head of the
/// loop decides whether the sum is stored. In `first`, each thread loads an element before a loop,
/// and stores it after the loop.
const SUMS: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry sums(.param .u64 in, .param .u64 out)
{
    .reg .pred %p; .reg .b32 %t, %i, %x, %sum; .reg .b64 %in, %out;
    ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x; mad.wide.u32 %in, %t, 32, %in; mad.wide.u32 %out, %t, 4, %out;
    mov.u32 %i, 0; mov.u32 %sum, 0;
head:
    setp.ge.u32 %p, %i, 8;
    @%p bra done;
    ld.global.u32 %x, [%in];
    add.u32 %sum, %sum, %x;
    add.u64 %in, %in, 4;
    add.u32 %i, %i, 1;
    bra head;
done:
    st.global.u32 [%out], %sum;
    ret;
}
.visible .entry first(.param .u64 in, .param .u64 out)
{
    .reg .pred %p; .reg .b32 %t, %i, %x; .reg .b64 %in, %out;
    ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x; mad.wide.u32 %in, %t, 32, %in; mad.wide.u32 %out, %t, 4, %out;
    mov.u32 %i, 0;
    ld.global.u32 %x, [%in+4];
head:
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 8;
    @%p bra head;
    st.global.u32 [%out], %x;
    ret;
}
";

// Regression test: a loaded value counted as needed only if the first evaluation of the condition of
// a loop led to its use.
#[test]
fn checks_do_not_change_values_that_loops_carry() {
    let folder = Folder::new("check_sums");
    std::fs::write(folder.0.join("sums.ptx"), SUMS).unwrap();
    let margay = env!("CARGO_BIN_EXE_margay");
    let cases = [
        ("sums", ["28", "92", "156", "220"]),
        ("first", ["1", "9", "17", "25"]),
    ];
    for (kernel, expected) in cases {
        let launch = format!(
            "launch sums.ptx -k {kernel} --grid 1 --block 4 -a iota:u32:32 -a zeros:u32:4 --print 1"
        );
        for tool in ["memcheck", "racecheck", "initcheck"] {
            let output = folder.margay(&format!("check --tool {tool} -- {margay} {launch}"));
            let printed = String::from_utf8_lossy(&output.stdout);
            let words: Vec<&str> = printed.split_whitespace().collect();
            assert!(words.ends_with(&expected), "{kernel}, {tool}: {printed}");
        }
    }
}

/// A kernel that reads unwritten memory, and that launches two more such kernels: one in the default
/// stream, and one in the tail stream.
const CHILD: &str = r"
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 buffer) cudaGetParameterBufferV2
    (.param .b64 function, .param .align 4 .b8 grid[12], .param .align 4 .b8 block[12], .param .b32 shared);
.extern .func (.param .b32 result) cudaLaunchDeviceV2(.param .b64 buffer, .param .b64 stream);
.global .u32 result;
.shared .u32 unwritten;
.visible .entry child() {
    .reg .b32 %r;
    ld.shared.u32 %r, [unwritten]; st.global.u32 [result], %r;
    ret;
}
.visible .entry tail() {
    .reg .b32 %r;
    ld.shared.u32 %r, [unwritten]; st.global.u32 [result], %r;
    ret;
}
.func launch(.reg .b64 %function, .reg .b64 %stream) {
    .reg .b64 %buffer; .reg .b32 %result;
    {
        .param .b64 f; .param .align 4 .b8 g[12]; .param .align 4 .b8 b[12]; .param .b32 s; .param .b64 r;
        st.param.b64 [f], %function; st.param.b32 [s], 0;
        st.param.b32 [g], 1; st.param.b32 [g+4], 1; st.param.b32 [g+8], 1;
        st.param.b32 [b], 1; st.param.b32 [b+4], 1; st.param.b32 [b+8], 1;
        call.uni (r), cudaGetParameterBufferV2, (f, g, b, s);
        ld.param.b64 %buffer, [r];
    }
    {
        .param .b64 f; .param .b64 s; .param .b32 r;
        st.param.b64 [f], %buffer; st.param.b64 [s], %stream;
        call.uni (r), cudaLaunchDeviceV2, (f, s);
        ld.param.b32 %result, [r];
    }
    ret;
}
.visible .entry parent() {
    .reg .b64 %f; .reg .b32 %r;
    ld.shared.u32 %r, [unwritten]; st.global.u32 [result], %r;
    mov.u64 %f, child;
    call.uni launch, (%f, 0);
    mov.u64 %f, tail;
    call.uni launch, (%f, 3);
    ret;
}
";

// Regression test: the report named frames of a thread of the library.
#[test]
fn findings_of_child_grids_name_the_launch_of_the_parent() {
    let folder = Folder::new("check_child");
    std::fs::write(folder.0.join("child.ptx"), CHILD).unwrap();
    let options = "--tool initcheck --report r.json";
    check(
        &folder,
        options,
        "launch child.ptx -k parent --grid 1 --block 1",
    );
    let text = std::fs::read(folder.0.join("r.json")).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let host = |kernel: &str| {
        let found = findings.iter().find(|finding| finding["kernel"] == kernel);
        &found.unwrap_or_else(|| panic!("no finding in {kernel}: {findings:#?}"))["host"]
    };
    let parent = host("parent");
    assert!(parent.as_array().is_some_and(|frames| !frames.is_empty()));
    assert_eq!(host("child"), parent);
    assert_eq!(host("tail"), parent);
}
