//! Runs the kernels of the instruction forms with a driver library, such as NVIDIA's driver for a
//! GPU, and records their results:
//!
//! - `forms_by_driver LIBRARY FILE [--shard I/N]` runs the kernels;
//! - `forms_by_driver --equal GPU MARGAY` compares two such files, and records in `tests/data/gpu/forms.txt.gz` the runs
//!   with equal results (`margay_tests::gpu`);
//! - `forms_by_driver --literal FOLDER TARGET VERSION` writes the file tests of `margay_tests::literal`.
//!
//! Each form runs twice, with different and with equal inputs of the threads
//! (`margay_tests::forms`). The program writes one line to FILE for each run: the form's name, `0`
//! or `1` (equal inputs), the result, and the words of 8 bytes that the kernel changed, with their
//! byte offsets. The buffer `aux` follows the buffer `out` in these offsets. The result is `ok`,
//! `timeout`, or the name of the driver's error. Only after `ok` does the line contain words.
//!
//! A fault can make all later calls of a process fail, so a child process runs the forms. After a
//! fault or a time-out, the child process ends, and a new child process continues with the next
//! form.
//!
//! `--literal` writes the file tests for a target and an ISA version such as `9.0`. `margay test --driver` runs them.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program talks on its standard streams"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use margay_cli::filetest::driver::{Driver, Stopped};
use margay_tests::conformance::{FormKernel, forms};
use margay_tests::forms::{BYTES, THREADS, changes, initial_aux, inputs, left_out, module_text};
use margay_tests::gpu::{self, Run};
use margay_tests::literal::literal_tests_for;

/// Maximum running time of one kernel.
const LIMIT: Duration = Duration::from_secs(4);
/// Exit code of a child process that must be replaced by a new child process.
const REPLACE: u8 = 99;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["--equal", gpu, margay] => record_equal(gpu, margay),
        ["--literal", folder, target, version] => write_literal(folder, target, version),
        ["--child", library, file, shard, from] => child(library, file, shard, from),
        [library, file] => record(library, file, "0/1"),
        [library, file, "--shard", shard] => record(library, file, shard),
        _ => Err("usage: forms_by_driver LIBRARY FILE [--shard I/N]".to_owned()),
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            eprintln!("forms_by_driver: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Records those runs that have the same result in the files `gpu` and `margay`, and prints how
/// many runs of each opcode have different results.
fn record_equal(gpu: &str, margay: &str) -> Result<ExitCode, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
    let (gpu, margay) = (read(gpu)?, read(margay)?);
    let results = |text| {
        let parts = |line: &'static str| {
            let (form, rest) = line.split_once(' ')?;
            let (set, result) = rest.split_once(' ')?;
            Some(((form, set), result))
        };
        let text: &'static str = String::leak(text);
        text.lines().filter_map(parts).collect::<BTreeMap<_, _>>()
    };
    let (gpu, margay) = (results(gpu), results(margay));
    let mut runs = Vec::new();
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for form in forms() {
        for set in ["0", "1"] {
            let key = (form.id.as_str(), set);
            let (Some(theirs), Some(ours)) = (gpu.get(&key), margay.get(&key)) else {
                continue;
            };
            if !theirs.starts_with("ok") {
                continue;
            }
            let count = counts.entry(form.opcode.clone()).or_default();
            if theirs == ours {
                count.0 += 1;
                runs.push(Run::new(&form, set == "1", ours));
            } else {
                count.1 += 1;
            }
        }
    }
    for (opcode, (equal, differ)) in &counts {
        println!("{opcode}: {equal} equal, {differ} not");
    }
    println!("{} runs are recorded", runs.len());
    gpu::write(&runs)?;
    Ok(ExitCode::SUCCESS)
}

fn write_literal(folder: &str, target: &str, version: &str) -> Result<ExitCode, String> {
    let number = |text: &str| text.parse::<u16>().map_err(|e| format!("{version}: {e}"));
    let (major, minor) = version.split_once('.').ok_or("VERSION is like 9.0")?;
    let target: &'static str = target.to_owned().leak();
    for test in literal_tests_for(&[target], (number(major)?, number(minor)?)) {
        let path = Path::new(folder).join(format!("{}.ptx", test.name.replace('/', "-")));
        fs::write(&path, &test.text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the forms of a shard `I/N`: every `N`th form, starting with form `I`.
fn shard_of(shard: &str) -> Result<Vec<FormKernel>, String> {
    let parts = shard.split_once('/').ok_or("a shard is like 0/4")?;
    let number = |text: &str| text.parse::<usize>().map_err(|e| format!("{shard}: {e}"));
    let (first, count) = (number(parts.0)?, number(parts.1)?);
    let all = forms().into_iter().filter(|form| left_out(form).is_none());
    Ok(all.skip(first).step_by(count.max(1)).collect())
}

/// Starts one child process after the other until all forms of the shard have results.
fn record(library: &str, file: &str, shard: &str) -> Result<ExitCode, String> {
    let all = shard_of(shard)?;
    File::create(file).map_err(|e| format!("{file}: {e}"))?;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut before = None;
    loop {
        // A form is complete when its second line is written.
        let text = fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
        let from = text.lines().count() / 2;
        if from >= all.len() {
            return Ok(ExitCode::SUCCESS);
        }
        if before == Some(from) {
            return Err(format!("{}: the process made no progress", all[from].id));
        }
        before = Some(from);
        let mut child = Command::new(&program);
        child.args(["--child", library, file, shard, &from.to_string()]);
        let status = child.status().map_err(|e| e.to_string())?;
        if status.code() == Some(1) {
            return Err("the child process failed".to_owned());
        }
        let lines = fs::read_to_string(file).map_err(|e| e.to_string())?;
        let lines = lines.lines().count();
        let missing = if status.success() { 0 } else { lines % 2 };
        let crashed = status.code().is_none();
        if missing == 1 || crashed {
            let form = &all[lines / 2];
            let mut text = String::new();
            for set in lines % 2..2 {
                let why = if crashed { "crash" } else { "not-run" };
                writeln!(text, "{} {set} {why}", form.id).expect("text grows");
            }
            append(file, &text)?;
        }
    }
}

fn append(file: &str, text: &str) -> Result<(), String> {
    let mut open = OpenOptions::new()
        .append(true)
        .open(file)
        .map_err(|e| format!("{file}: {e}"))?;
    open.write_all(text.as_bytes())
        .map_err(|e| format!("{file}: {e}"))
}

/// Runs the kernels of forms in this child process until a kernel fails.
fn child(library: &str, file: &str, shard: &str, from: &str) -> Result<ExitCode, String> {
    let from: usize = from.parse().map_err(|e| format!("{from}: {e}"))?;
    let driver = Driver::open(Path::new(library))?;
    for form in &shard_of(shard)?[from..] {
        for set in [0, 1] {
            // Each run has a module of its own, because a form can change the module's variables.
            let module = match driver.load_module(&module_text(form)) {
                Ok(module) => module,
                Err(name) => {
                    append(file, &format!("{} {set} {name}\n", form.id))?;
                    continue;
                }
            };
            let input = inputs(form, set == 1);
            let aux = initial_aux(&input);
            let out = vec![0u8; BYTES];
            let buffers: [&[u8]; 3] = [&input, &out, &aux];
            let value = &input[..128];
            let ended =
                driver.launch_bytes(&module, &form.id, THREADS as u32, &buffers, value, LIMIT);
            let result = match ended {
                Ok(after) => format!("ok{}", changes(&input, &after[1..].concat())),
                Err(stopped) => {
                    let name = match stopped {
                        Stopped::Error(name) => name.replace(' ', "-"),
                        Stopped::Timeout => "timeout".to_owned(),
                    };
                    append(file, &format!("{} {set} {name}\n", form.id))?;
                    exit_now();
                }
            };
            append(file, &format!("{} {set} {result}\n", form.id))?;
            driver.unload_module(module);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the process without waiting for a kernel that still runs.
fn exit_now() -> ! {
    // SAFETY: ends the process without running any code of it.
    unsafe { libc::_exit(i32::from(REPLACE)) }
}
