//! Tests the program as a child process: exit codes and output.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const SAXPY: &str = "\
.version 7.0
.target sm_52
.address_size 64
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
    .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f<4>; .reg .b64 %d<4>;
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r0, %r1, %r2;
    ld.param.u32 %r4, [n];
    setp.ge.u32 %p, %r3, %r4;
    @%p ret;
    ld.param.f32 %f0, [a]; ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y];
    mul.wide.u32 %d2, %r3, 4;
    add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
    ld.global.f32 %f1, [%d0]; ld.global.f32 %f2, [%d1];
    fma.rn.f32 %f3, %f0, %f1, %f2;
    st.global.f32 [%d1], %f3;
    ret;
}
.visible .entry endless() { L: bra L; }
.visible .entry wild(.param .u64 p)
{
    .reg .b64 %d; .reg .b32 %r;
    ld.param.u64 %d, [p]; ld.global.u32 %r, [%d]; st.global.u32 [%d], %r; ret;
}
";

/// The folder of one test, which is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("k.ptx"), SAXPY).unwrap();
        Folder(path)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
        // The library can be an empty file, because the started program does not load it.
        std::fs::write(self.0.join("libcuda.so"), "").unwrap();
        command
            .args(args)
            .current_dir(&self.0)
            .env("XDG_RUNTIME_DIR", &self.0)
            .env("MARGAY_LIBCUDA", self.0.join("libcuda.so"))
            .env("MARGAY_WORKERS", "2");
        command
    }

    fn margay(&self, args: &str) -> Output {
        let args: Vec<&str> = args.split_whitespace().collect();
        self.command(&args).output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const ARGS: &str = "launch k.ptx -k saxpy --grid 2 --block 4 -a u32:5 -a f32:2 -a iota:f32:6";

#[test]
fn launch_prints_and_compares() {
    let folder = Folder::new("launch");
    for engine in ["native", "interpreter"] {
        let good = folder.margay(&format!(
            "{ARGS} -a fill:f32:6:0.5 --print 3 --expect 3=[0.5,2.5,4.5,6.5,8.5,0.5] --engine {engine}"
        ));
        assert_eq!(good.status.code(), Some(0), "{}", err(&good));
        let printed = "3: f32[6] 0.5 2.5 4.5 6.5 8.5 0.5\n3: all 6 values agree\n";
        assert_eq!(out(&good), printed);
    }
    let bad = folder.margay(&format!("{ARGS} -a zeros:f32:6 --expect 3=[0,2,5,6,9,0]"));
    assert_eq!(bad.status.code(), Some(1));
    let said = "3: 2 of 6 values are wrong, first at 2: 4, expected 5\n";
    assert_eq!(out(&bad), said);
    let near = folder.margay(&format!(
        "{ARGS} -a zeros:f32:6 --expect 3=[0,2,4.01,6,8,0] --tolerance 0.01"
    ));
    assert_eq!(near.status.code(), Some(0), "{}", out(&near));
}

#[test]
fn launch_reads_and_writes_files() {
    let folder = Folder::new("files");
    let written = folder.margay(&format!("{ARGS} -a out:f32:2x3:y.npy"));
    assert_eq!(written.status.code(), Some(0), "{}", err(&written));
    let again = folder.margay(&format!(
        "{ARGS} -a inout:y.npy --expect 3=[0,4,8,12,16,0] --save 3=y.raw"
    ));
    assert_eq!(
        again.status.code(),
        Some(0),
        "{}{}",
        out(&again),
        err(&again)
    );
    let raw = std::fs::read(folder.0.join("y.raw")).unwrap();
    assert_eq!(raw[16..24], [0, 0, 0x80, 0x41, 0, 0, 0, 0]);
    let json = folder.margay(&format!("{ARGS} -a raw:f32:y.raw --print 3 --json"));
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["buffers"][0]["values"][4], 24.0);
    let same = folder.margay(&format!("{ARGS} -a in:y.npy --expect 3=y.npy"));
    assert_eq!(same.status.code(), Some(1), "y has grown again");
}

#[test]
fn launch_names_what_is_wrong() {
    let folder = Folder::new("wrong");
    let cases = [
        ("launch k.ptx -k saxpy", "0 arguments, saxpy takes 4"),
        (
            "launch k.ptx",
            "select one with --kernel: saxpy, endless, wild",
        ),
        ("launch k.ptx -k other", "no kernel other; the kernels are "),
        ("launch none.ptx", "none.ptx: No such file"),
        (
            "launch k.ptx -k wild -a u32:1",
            "argument 0 has 4 bytes, the parameter 8",
        ),
        (
            "launch k.ptx -k wild -a u64:x",
            "argument 0: `x` is not a value of type u64",
        ),
        ("launch k.ptx -k wild -a z9:1", "`z9` is neither a type nor"),
        (
            "launch k.ptx -k wild -a u64:1 --print 0",
            "argument 0 is a scalar",
        ),
        (
            "launch k.ptx -k wild -a u64:64",
            "illegal memory access in kernel wild",
        ),
        (
            "launch k.ptx -k endless --time-limit 0.2",
            "time limit exceeded in kernel endless",
        ),
    ];
    for (args, expected) in cases {
        let output = folder.margay(args);
        assert_eq!(output.status.code(), Some(1), "{args}");
        assert!(err(&output).contains(expected), "{args}: {}", err(&output));
    }
    std::fs::write(
        folder.0.join("bad.ptx"),
        SAXPY.replace("ld.global.f32 %f1", "ld.global.f32 %q1"),
    )
    .unwrap();
    let output = folder.margay("launch bad.ptx -k saxpy");
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("bad.ptx:15"), "{}", err(&output));
}

#[test]
fn interrupting_ends_an_endless_kernel() {
    let folder = Folder::new("interrupt");
    let args = ["launch", "k.ptx", "-k", "endless"];
    let mut child = folder.command(&args).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert!(child.try_wait().unwrap().is_none(), "the kernel is endless");
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let start = Instant::now();
    let status = child.wait().unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(status.signal(), Some(2));
}

#[test]
fn run_passes_the_exit_code_and_sets_the_environment() {
    let folder = Folder::new("run");
    let seven = folder.command(&["run", "--", "sh", "-c", "exit 7"]);
    assert_eq!({ seven }.status().unwrap().code(), Some(7));
    let script = "echo $LD_LIBRARY_PATH; readlink ${LD_LIBRARY_PATH%%:*}/libcuda.so.1; \
                  echo $MARGAY_WORKERS $MARGAY_ORDER $MARGAY_TIME_LIMIT $MARGAY_ENGINE $MARGAY_TRACE_API; \
                  echo $MARGAY_DEVICES $MARGAY_MEMORY $MARGAY_SMS $MARGAY_DRIVER_VERSION $MARGAY_DEVICE_NAME";
    let mut shown = folder.command(&[
        "run",
        "--workers",
        "3",
        "--reverse",
        "--time-limit",
        "2.5",
        "--engine",
        "interpreter",
        "--trace-api",
        "--devices",
        "2",
        "--memory",
        "3G",
        "--sms",
        "40",
        "--driver-version",
        "12080",
        "--device-name",
        "My device",
        "sh",
        "-c",
        script,
    ]);
    let shown = out(&shown
        .env("LD_LIBRARY_PATH", "/first:/second")
        .output()
        .unwrap());
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].ends_with(":/first:/second"), "{shown}");
    assert_eq!(
        Path::new(lines[1]),
        folder.0.join("libcuda.so").canonicalize().unwrap()
    );
    assert_eq!(lines[2], "3 reverse 2.5 interpreter 1");
    assert_eq!(lines[3], "2 3G 40 12080 My device");
    for wrong in [
        "run --devices 0 true",
        "run --memory 3X true",
        "run --memory 0 true",
    ] {
        assert_eq!(folder.margay(wrong).status.code(), Some(2), "{wrong}");
    }
}

/// Runs `margay check` with options for a command of `margay`, and returns the exit code and the report.
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
        said.contains("========= Error: The program could not write all findings"),
        "{said}"
    );
    assert!(
        said.ends_with("========= ERROR SUMMARY: 1 error\n"),
        "{said}"
    );
    let report = std::fs::read_to_string(folder.0.join("report.json")).unwrap();
    assert!(report.contains("\"complete\": false"), "{report}");
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

/// Starts `margay` in a shell with the limits that `ulimit` names.
fn limited(folder: &Folder, ulimit: &str, args: &str) -> Output {
    let margay = env!("CARGO_BIN_EXE_margay");
    let line = format!("ulimit {ulimit} && exec {margay} {args}");
    let mut command = Command::new("sh");
    let command = command.args(["-c", &line]).current_dir(&folder.0);
    command.output().unwrap()
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
    let lines: Vec<String> = (1..=8000).map(finding).collect();
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
    let options = format!("{options} --destroy-on-device-error nothing");
    let (code, said) = check(&folder, &options, TOO_FAR);
    assert_eq!(code, Some(9), "the program succeeds: {said}");
    assert!(said.contains("ERROR SUMMARY: 2 errors"), "{said}");
}

#[test]
fn run_names_what_is_missing() {
    let folder = Folder::new("missing");
    let none = folder.margay("run -- /no/such/program");
    assert_eq!(none.status.code(), Some(127));
    assert!(err(&none).contains("cannot run /no/such/program"));
    let data = folder.margay("run -- ./k.ptx");
    assert_eq!(data.status.code(), Some(126));
    let mut library = folder.command(&["run", "true"]);
    let library = library
        .env("MARGAY_LIBCUDA", "/no/lib.so")
        .output()
        .unwrap();
    assert_eq!(library.status.code(), Some(1));
    assert!(err(&library).contains("MARGAY_LIBCUDA: /no/lib.so"));
}

#[test]
fn doctor_reads_programs_and_the_machine() {
    let folder = Folder::new("doctor");
    let host = folder.margay("doctor -- /bin/true");
    assert_eq!(host.status.code(), Some(0), "{}", err(&host));
    assert!(out(&host).contains("no device code here"), "{}", out(&host));
    let facts = folder.margay("doctor --json");
    let facts: serde_json::Value = serde_json::from_slice(&facts.stdout).unwrap();
    assert_eq!(facts["workers"], 2);
    let text = folder.margay("doctor k.ptx");
    assert_eq!(text.status.code(), Some(1));
    assert!(err(&text).contains("k.ptx is not a 64-bit ELF file"));
}

// Regression test: opening a pipe without a writer blocked forever.
#[test]
fn doctor_reads_no_pipes() {
    let folder = Folder::new("doctor_reads_no_pipes");
    let made = Command::new("mkfifo").arg(folder.0.join("pipe")).status();
    assert!(made.unwrap().success());
    let mut child = folder
        .command(&["doctor", "--", "./pipe"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(err(&output), "error: ./pipe: not a regular file\n");
}

// Regression test: a small stack of the main thread overflowed.
#[test]
fn commands_run_with_a_small_stack() {
    let folder = Folder::new("small_stack");
    for (args, code) in [("support", 0), ("--bad", 2), ("launch none.ptx", 1)] {
        let output = limited(&folder, "-s 64", args);
        assert_eq!(output.status.code(), Some(code), "{args}: {}", err(&output));
    }
}

// Regression test: the help stated that the interpreter runs kernels without native code, also for the native engine.
#[test]
fn the_native_engine_does_not_fall_back() {
    let folder = Folder::new("the_native_engine_does_not_fall_back");
    let text = ".version 7.3\n.target sm_52\n.address_size 64\n.visible .entry k(.param .u64 p)
        { .reg .b64 %d<4>; .reg .b32 %r; ld.param.u64 %d0, [p]; alloca.u64 %d1, %d0, 8;
        mov.u32 %r, 1; st.local.u32 [%d1], %r; ret; }";
    std::fs::write(folder.0.join("alloca.ptx"), text).unwrap();
    let any = folder.margay("launch alloca.ptx -a u64:64");
    assert_eq!(any.status.code(), Some(0), "{}", err(&any));
    let native = folder.margay("launch alloca.ptx -a u64:64 --engine native");
    assert_eq!(native.status.code(), Some(1));
    assert!(
        err(&native).contains("no native code for alloca"),
        "{}",
        err(&native)
    );
    for command in ["launch", "run", "check"] {
        let help = out(&folder.margay(&format!("{command} --help")));
        assert!(
            help.contains("a kernel without native code is an error"),
            "{help}"
        );
    }
}

#[test]
fn smi_and_doctor_say_which_devices_programs_see() {
    let folder = Folder::new("visible");
    let with = |list: &str, arguments: &[&str]| {
        let mut command = folder.command(arguments);
        let settings = [("MARGAY_DEVICES", "3"), ("CUDA_VISIBLE_DEVICES", list)];
        command.envs(settings).output().unwrap()
    };
    let json = |output: &Output| -> serde_json::Value {
        serde_json::from_slice(&output.stdout).expect("a document")
    };
    // `margay smi` shows all devices, with their CUDA ordinals.
    let smi = json(&with("2,0", &["smi", "--json"]));
    let ordinals: Vec<_> = smi["gpus"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gpu| gpu["cuda_ordinal"].as_u64())
        .collect();
    assert_eq!(ordinals, [Some(1), None, Some(0)]);
    assert_eq!(smi["cuda_visible_devices"], "2,0");
    assert_eq!(out(&with("", &["smi", "-L"])).lines().count(), 3);
    for (list, wanted) in [
        ("2,0", "Programs see GPU 2, 0: CUDA_VISIBLE_DEVICES=2,0 "),
        ("-1", "Programs see no GPU: CUDA_VISIBLE_DEVICES=-1 "),
    ] {
        let table = out(&with(list, &["smi"]));
        assert!(table.contains(wanted), "{table}");
    }
    let doctor = with("2,0", &["doctor", "--json"]);
    let facts = json(&doctor);
    assert_eq!(facts["devices"], 3);
    assert_eq!(facts["visible_devices"], serde_json::json!([2, 0]));
    assert!(facts["device"].as_str().unwrap().ends_with("#2"));
    let hidden = with("", &["doctor"]);
    assert_eq!(hidden.status.code(), Some(1));
    assert!(out(&hidden).contains("hides every device"));
    // `margay launch` also obeys `CUDA_VISIBLE_DEVICES`.
    let mut launch = folder.command(&ARGS.split_whitespace().collect::<Vec<_>>());
    let launch = launch.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    assert_eq!(launch.status.code(), Some(1));
    assert!(err(&launch).contains("no device is visible"));
}

#[test]
fn support_prints_tables() {
    let folder = Folder::new("support");
    let json = folder.margay("support --json");
    let rows: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let served = |name: &str| {
        let row = rows
            .as_array()
            .unwrap()
            .iter()
            .find(|r| r["export"] == name);
        row.unwrap()["status"] == "works"
    };
    assert!(served("cuLaunchKernel"));
    assert!(!served("cuVDPAUGetDevice"));
    assert!(out(&folder.margay("support")).contains("entry points work"));
}

const FILE_TEST: &str = "\
.version 7.0
.target sm_52
.address_size 64
//@ kernel: double
//@ cases: u32 = u32
//| 1 = 2
//| 0x80000000 = 0
.visible .entry double(.param .u64 x, .param .u64 y)
{
    .reg .b32 %r<2>; .reg .b64 %d<3>;
    mov.u32 %r0, %tid.x; mul.wide.u32 %d0, %r0, 4;
    ld.param.u64 %d1, [x]; add.u64 %d1, %d1, %d0; ld.global.u32 %r1, [%d1];
    shl.b32 %r1, %r1, 1;
    ld.param.u64 %d2, [y]; add.u64 %d2, %d2, %d0; st.global.u32 [%d2], %r1;
    ret;
}
";

#[test]
fn file_tests_pass_or_fail_with_the_place() {
    let folder = Folder::new("file_tests");
    std::fs::create_dir(folder.0.join("t")).unwrap();
    std::fs::write(folder.0.join("t/good.ptx"), FILE_TEST).unwrap();
    let output = folder.margay("test t");
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("1 of 1 files passed"));

    let wrong = FILE_TEST.replace("1 = 2", "1 = 3");
    std::fs::write(folder.0.join("t/wrong.ptx"), wrong).unwrap();
    let output = folder.margay("test t");
    assert_eq!(output.status.code(), Some(1));
    let text = out(&output);
    assert!(text.contains("1 of 2 files passed"), "{text}");
    let place = "line 4, kernel double (native, 3 worker(s), reverse): buffer 1: 1 of 2 wrong: \
                 element 0 is 0x00000002, expected 0x00000003";
    assert!(text.contains(place), "{text}");

    let output = folder.margay("test --json t");
    assert_eq!(output.status.code(), Some(1));
    let text = out(&output);
    assert!(
        text.contains(r#"{"failures":[],"file":"t/good.ptx"}"#),
        "{text}"
    );
    assert_eq!(text.matches("\"kernel\":\"double\"").count(), 6, "{text}");

    std::fs::write(folder.0.join("t/wrong.ptx"), "ret;\n").unwrap();
    let output = folder.margay("test t");
    assert!(out(&output).contains("the file expects nothing"));
    assert_eq!(folder.margay("test absent").status.code(), Some(1));
}

#[test]
fn blessing_writes_texts_and_no_lines() {
    let folder = Folder::new("bless");
    let source = FILE_TEST
        .replace(
            "//@ kernel: double\n//@ cases: u32 = u32\n",
            "//@ error: 13: old\n",
        )
        .replace("//| 1 = 2\n//| 0x80000000 = 0\n", "\n\n\n")
        .replace("shl.b32 %r1, %r1, 1;", "shl.b32 %r1, %r9, 1;");
    let path = folder.0.join("bad.ptx");
    std::fs::write(&path, &source).unwrap();
    let bless = |folder: &Folder| {
        folder
            .command(&["test", "bad.ptx"])
            .env("BLESS", "1")
            .output()
    };
    assert!(bless(&folder).unwrap().status.success());
    let blessed = std::fs::read_to_string(&path).unwrap();
    assert!(blessed.contains("//@ error: 13: E"), "{blessed}");
    assert!(folder.margay("test bad.ptx").status.success());

    let moved = source.replace("error: 13", "error: 12");
    std::fs::write(&path, &moved).unwrap();
    let output = bless(&folder).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains("problems in the lines [13], expected [12]"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), moved);
}

#[test]
fn dis_shows_ir_that_can_be_read_back() {
    let folder = Folder::new("dis");
    let module = folder.margay("dis k.ptx");
    assert_eq!(module.status.code(), Some(0), "{}", err(&module));
    let text = out(&module);
    assert!(text.starts_with("module version 7.0 target sm_52\n"));
    for line in [
        "fn0 = kernel @saxpy visible registers 14 {",
        "fma.f32{rn}",
        "fn1 = kernel @endless",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    std::fs::write(folder.0.join("a.ir"), &text).unwrap();
    assert_eq!(out(&folder.margay("dis a.ir")), text);
    let behind = out(&folder.margay("dis k.ptx -k saxpy --after sync-points"));
    assert!(behind.starts_with("// saxpy, after sync-points\nkernel @saxpy"));
    assert_eq!(
        out(&folder.margay("dis a.ir -k saxpy --after sync-points")),
        behind
    );
    assert!(!behind.contains("endless"));
}

#[test]
fn dis_shows_generated_code_and_times() {
    let folder = Folder::new("dis-code");
    let clif = out(&folder.margay("dis k.ptx -k saxpy --clif"));
    assert!(
        clif.starts_with("// saxpy, CTA form\nfunction u0:0"),
        "{clif}"
    );
    let asm = folder.margay("dis k.ptx -k saxpy --asm");
    assert!(out(&asm).contains("ret"), "{}", out(&asm));
    // A kernel with a barrier has sync points, so its regions are listed separately.
    std::fs::write(folder.0.join("bar.ptx"), BARRIER).unwrap();
    let regions = out(&folder.margay("dis bar.ptx --clif"));
    for title in [
        "k, CTA form",
        "k, warp form, region 0",
        "k, warp form, region 1",
    ] {
        assert!(regions.contains(title), "{regions}");
    }
    let times = folder.margay("dis k.ptx -k saxpy --time --json");
    let json: serde_json::Value = serde_json::from_str(&out(&times)).unwrap();
    let passes = json[0]["passes"].as_array().unwrap();
    assert_eq!(passes[0]["pass"], "inline");
    assert!(passes.iter().all(|p| p["instructions"].as_u64() > Some(5)));
}

const BARRIER: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
    .visible .entry k() { bar.sync 0; ret; }\n";

#[test]
fn dis_tells_what_lanes_share() {
    let folder = Folder::new("dis-uniformity");
    // The index differs between threads; if blocks consist of whole warps, the addresses are affine with a stride of 4
    // bytes, the size of a float.
    let class = |text: &str, code: &str| {
        let line = text.lines().find(|line| line.contains(code)).unwrap();
        line.rsplit("// ").next().unwrap().to_owned()
    };
    let unknown = out(&folder.margay("dis k.ptx -k saxpy --uniformity"));
    assert_eq!(class(&unknown, "sreg.u32 %ctaid.x"), "cta");
    assert_eq!(class(&unknown, "mul.u32{half:wide}"), "varying");
    assert_eq!(class(&unknown, "brif"), "varying");
    let known = out(&folder.margay("dis k.ptx -k saxpy --uniformity --block 256"));
    assert_eq!(class(&known, "sreg.u32 %tid.x"), "affine 1");
    assert_eq!(class(&known, "mul.u32{half:wide}"), "affine 4");
    assert_eq!(class(&known, "ld.f32{space:global"), "varying");
    let bad = folder.margay("dis k.ptx --uniformity --block 1,2,3,4");
    assert!(
        err(&bad).contains("at most three dimensions"),
        "{}",
        err(&bad)
    );
}

#[test]
fn dis_says_what_it_cannot_find() {
    let folder = Folder::new("dis-errors");
    let pass = folder.margay("dis k.ptx --after nothing");
    assert_eq!(pass.status.code(), Some(1));
    let said = err(&pass);
    assert!(
        said.contains("no pass `nothing`; the passes are inline, simplify, "),
        "{said}"
    );
    let kernel = folder.margay("dis k.ptx -k axpy");
    assert!(err(&kernel).contains("the functions are saxpy, endless, wild"));
    std::fs::write(
        folder.0.join("bad.ir"),
        "module version 7.0 target sm_52\nfrob",
    )
    .unwrap();
    let bad = folder.margay("dis bad.ir");
    assert_eq!(bad.status.code(), Some(1));
    assert!(
        err(&bad).contains("bad.ir:2:1: `file`, `loc`"),
        "{}",
        err(&bad)
    );
    let listed = out(&folder.margay("dis --passes"));
    assert!(listed.starts_with("inline             inlines calls\n"));
    let help = out(&folder.margay("dis --help"));
    assert!(help.contains("Examples:") && help.contains("--after"));
}
