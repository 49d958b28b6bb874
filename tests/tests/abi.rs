//! Tests the driver library from C: compiles the C programs of `tests/abi` with Margay's own
//! declarations of the API, links them with Margay's `libcuda.so.1` and runs them. Also checks the
//! symbols and the soname of the library's file.
//!
//! The library is a dependency of this test, so Cargo always builds it first.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use object::{Object, ObjectSymbol};

/// Returns the folder of the C programs, `tests/abi`.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("abi")
}

/// Returns the path of the library that Cargo wrote to the folder of this test's executable.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let library = test.with_file_name("libcuda.so");
    assert!(
        library.exists(),
        "{} is built with this test",
        library.display()
    );
    library
}

/// Returns a folder in which the library has the file name `libcuda.so.1`, which programs load.
fn library_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // Each process has its own folder, because nextest runs every test in its own process.
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("abi-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the library");
        let _ = fs::remove_file(folder.join("libcuda.so.1"));
        symlink(library(), folder.join("libcuda.so.1")).expect("a link to the library");
        folder
    })
}

fn succeed(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{said}\n{errors}",
        output.status
    );
    output
}

/// Compiles and runs the C program `name`, which must print `PASS`.
fn run(name: &str, arguments: &[PathBuf]) {
    let program = compile(name, name);
    let output = succeed(Command::new(&program).args(arguments).envs(environment()));
    assert!(
        String::from_utf8_lossy(&output.stdout).ends_with("PASS\n"),
        "{output:?}"
    );
    fs::remove_file(program).expect("a program that has run");
}

/// Returns the environment variables with which a program finds the library.
fn environment() -> [(&'static str, &'static Path); 1] {
    [("LD_LIBRARY_PATH", library_folder())]
}

/// Compiles the C program `name` to the file `file`.
fn compile(name: &str, file: &str) -> PathBuf {
    let folder = library_folder();
    let program = folder.join(file);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile.args([
        "-std=gnu11",
        "-O1",
        "-Wall",
        "-Werror",
        "-Wno-unused-function",
        "-pthread",
        "-o",
    ]);
    compile
        .arg(&program)
        .arg(sources().join(format!("{name}.c")));
    succeed(
        compile
            .arg(folder.join("libcuda.so.1"))
            .args(["-ldl", "-lm"]),
    );
    program
}

#[test]
fn start() {
    run("start", &[]);
}

#[test]
fn contexts() {
    run("contexts", &[]);
}

#[test]
fn memory() {
    run("memory", &[]);
}

/// Checks that modules with 32-bit addresses run if all device memory has addresses below 4 GiB,
/// and that they cannot be loaded otherwise.
#[test]
fn narrow_addresses() {
    let program = compile("narrow", "narrow");
    for engine in ["native", "interpreter"] {
        let mut command = Command::new(&program);
        command
            .envs(environment())
            .env("MARGAY_ADDRESS_SIZE", "32")
            .env("MARGAY_ENGINE", engine);
        assert_eq!(succeed(&mut command).stdout, b"PASS\n");
    }
    let mut command = Command::new(&program);
    let refused = succeed(command.arg("refused").envs(environment()));
    assert_eq!(refused.stdout, b"PASS\n");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(
        said.matches("set MARGAY_ADDRESS_SIZE=32").count(),
        5,
        "{said}"
    );
    fs::remove_file(program).expect("a program that has run");
}

#[test]
fn textures() {
    run("textures", &[]);
}

#[test]
fn modules() {
    run("modules", &[sources().join("../../frontend/tests/data")]);
}

#[test]
fn streams() {
    run("streams", &[]);
}

/// Checks CUDA graphs that a program builds with API calls. The program also writes a description
/// of a graph for drawing tools (`cuGraphDebugDotPrint`).
#[test]
fn graphs() {
    run("graphs", &[library_folder().join("graph.dot")]);
}

#[test]
fn capture() {
    run("capture", &[]);
}

#[test]
fn memory_graphs() {
    run("memory_graphs", &[]);
}

#[test]
fn memory_operations() {
    run("memory_operations", &[]);
}

/// Checks that a process can exit while it waits for memory.
#[test]
fn a_process_exits_from_an_open_wait() {
    let program = compile("memory_operations", "memory_operations_leave");
    let output = succeed(Command::new(&program).arg("leave").envs(environment()));
    assert!(output.stdout.ends_with(b"PASS\n"), "{output:?}");
    fs::remove_file(program).expect("a program that has run");
}

#[test]
fn fault() {
    run("fault", &[]);
}

/// Checks that kernels cannot access memory of the host, in single lanes, in vector code and in the interpreter.
#[test]
fn isolation() {
    isolates("isolation");
}

#[test]
fn isolation_in_clusters() {
    isolates("isolation_cluster");
}

/// Checks the isolation in clusters under `ulimit -v`. In this case, the addresses after shared
/// memory can be accessible, so generated code must check the offsets of accesses.
#[test]
fn isolation_in_clusters_with_few_addresses() {
    let program = compile("isolation_cluster", "isolation_cluster_narrow");
    for engine in ["native", "interpreter"] {
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -v 2000000; exec \"$0\" 32"])
            .arg(&program)
            .envs(environment())
            .env("MARGAY_ENGINE", engine);
        let output = succeed(&mut command);
        assert!(output.stdout.ends_with(b"PASS\n"), "{engine}: {output:?}");
    }
    fs::remove_file(program).expect("a program that has run");
}

/// Runs the C program `name` with 1 thread in a block and with 96 threads in a block, and for each
/// of these with each kind of code: single lanes, vector code and the interpreter.
fn isolates(name: &str) {
    let program = compile(name, name);
    let settings: [&[(&str, &str)]; 5] = [
        &[],
        &[("MARGAY_LANES", "16")],
        &[("MARGAY_LANES", "32")],
        &[("MARGAY_LANES", "8"), ("MARGAY_WORKERS", "1")],
        &[("MARGAY_ENGINE", "interpreter")],
    ];
    for (setting, threads) in settings.into_iter().flat_map(|s| [(s, "1"), (s, "96")]) {
        let mut command = Command::new(&program);
        command
            .arg(threads)
            .envs(environment())
            .envs(setting.iter().copied());
        let output = succeed(&mut command);
        assert!(
            output.stdout.ends_with(b"PASS\n"),
            "{setting:?}: {output:?}"
        );
    }
    fs::remove_file(program).expect("a program that has run");
}

/// Checks that the library recovers from faults of kernels, whichever signal handlers the program
/// installs, and that these handlers receive the faults of the program's own code.
#[test]
fn signals() {
    run("signals", &[]);
}

/// Checks that a note names the library whose fault ends the process, and that no note is written if the program handles
/// the fault.
#[test]
fn crash_notes() {
    run("crash", &[]);
}

/// Checks that a copy that faults returns an error, even if the calling thread blocks the signals
/// of faults.
#[test]
fn blocked_signals() {
    run("blocked_signals", &[]);
}

/// Checks that threads can be cancelled (`pthread_cancel`) during calls of the driver.
#[test]
fn cancellation() {
    run("cancellation", &[]);
}

/// Checks that accesses to host memory that is no longer registered cause errors. The accesses use
/// textures and graphs that were created before the memory was unregistered.
#[test]
fn unregistered() {
    run("unregistered", &[]);
}

/// Checks that accesses to freed memory and accesses beyond the end of an array cause errors.
#[test]
fn freed() {
    run("freed", &[]);
}

/// Checks that in processes with limited address space, threads, files or stack, calls succeed or return an error.
#[test]
fn resources() {
    run("resources", &[]);
}

/// Checks that a message names the table and the index if a program calls an unknown function of an
/// export table (`cuGetExportTable`), and that the message is printed only once.
#[test]
fn slots() {
    let program = compile("slots", "slots");
    let output = succeed(Command::new(&program).envs(environment()));
    fs::remove_file(program).expect("a program that has run");
    assert!(output.stdout.ends_with(b"PASS\n"), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    let tables = [
        "21318c60-9714-3248-8ca6-41ff7324c8f2",
        "42d85a81-23f6-cb47-8298-f6e78a3aecdc",
    ];
    for table in tables {
        for slot in [1, 3] {
            says(
                &told,
                &[&format!("slot {slot} of the export table {table}")],
            );
        }
    }
    assert_eq!(told.lines().count(), 4, "{told}");
}

#[test]
fn limits() {
    run("limits", &[]);
}

/// Checks that kernels leave the same bytes in memory with and without guard pages; `cargo xtask
/// guards` measures the cost of the guard pages.
#[test]
fn guards() {
    run("guards", &[]);
}

#[test]
fn virtual_memory() {
    run("virtual_memory", &[]);
}

#[test]
fn processes() {
    run("processes", &[]);
}

#[test]
fn small_families() {
    run("small_families", &[]);
}

#[test]
fn behaviour() {
    run("behaviour", &[]);
}

/// Checks that a program can load the library, start a kernel, and close the library (`dlclose`)
/// while the kernel runs.
#[test]
fn unload() {
    let folder = library_folder();
    let program = folder.join("unload");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile.args(["-std=gnu11", "-O1", "-Wall", "-Werror", "-o"]);
    compile.arg(&program).arg(sources().join("unload.c"));
    succeed(compile.args(["-ldl", "-lm"]));
    let output = succeed(Command::new(&program).arg(folder.join("libcuda.so.1")));
    assert!(output.stdout.ends_with(b"PASS\n"), "{output:?}");
    fs::remove_file(program).expect("a program that has run");
}

/// Compares the result of each driver call in random sequences of calls with the prediction of a
/// model. The command `model FIRST COUNT` (`model` is the compiled C program) runs more random
/// sequences.
#[test]
fn model() {
    let program = compile("model", "model");
    let count = match std::env::var_os("MARGAY_FULL") {
        Some(_) => "10000",
        None => "300",
    };
    let mut command = Command::new(&program);
    command.args(["0", count]).envs(environment());
    let settings = [("MARGAY_DEVICES", "2"), ("MARGAY_MEMORY", "512M")];
    let quiet = ("MARGAY_LOG", "off");
    let output = succeed(command.envs(settings).envs([quiet]));
    assert!(output.stdout.ends_with(b"PASS\n"), "{output:?}");
    fs::remove_file(program).expect("a program that has run");
}

#[test]
fn devices() {
    let program = compile("devices", "devices");
    let settings = [("MARGAY_DEVICES", "3"), ("MARGAY_MEMORY", "64M")];
    let mut command = Command::new(&program);
    let output = succeed(command.envs(environment()).envs(settings));
    assert!(output.stdout.ends_with(b"PASS\n"), "{output:?}");
    fs::remove_file(program).expect("a program that has run");
}

/// Returns a command that runs the program `visible` with three devices; `list` is the value of `CUDA_VISIBLE_DEVICES`.
fn with_visible(program: &Path, list: Option<&str>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(environment())
        .envs([("MARGAY_DEVICES", "3"), ("MARGAY_MEMORY", "64M")])
        .env_remove("CUDA_VISIBLE_DEVICES")
        .envs(list.map(|list| ("CUDA_VISIBLE_DEVICES", list)));
    command
}

/// Checks which devices a process sees for different values of `CUDA_VISIBLE_DEVICES`; tests in
/// `margay::device` check how the values are interpreted.
#[test]
fn visible_devices() {
    let program = compile("visible", "visible");
    let uuid = |number: u32| format!("GPU-4d617267-6179-2d43-5055-2d6465762d3{number}");
    let both = format!("{},{}", uuid(2), uuid(0));
    for (list, numbers) in [
        (None, &["0", "1", "2"][..]),
        (Some("0,1,2"), &["0", "1", "2"]),
        (Some("2,0"), &["2", "0"]),
        (Some("1"), &["1"]),
        (Some("2,-1,0"), &["2"]),
        (Some("1,3,0"), &["1"]),
        (Some(both.as_str()), &["2", "0"]),
        (Some(""), &[]),
        (Some("-1"), &[]),
        (Some("1,1"), &[]),
        (Some("GPU-4d61"), &[]),
        (Some("MIG-4d617267-6179-2d43-5055-2d6465762d30"), &[]),
    ] {
        let arguments = [&["see"], numbers].concat();
        for order in ["FASTEST_FIRST", "PCI_BUS_ID"] {
            let mut command = with_visible(&program, list, &arguments);
            let output = succeed(command.env("CUDA_DEVICE_ORDER", order));
            assert!(output.stdout.ends_with(b"PASS\n"), "{list:?}: {output:?}");
        }
    }
    // The driver uses the value that the variable has when the driver is initialised.
    for (before, arguments) in [
        (None, &["late", "2,1", "2", "1"][..]),
        (Some("0"), &["late", ""]),
        (Some(""), &["late", "1", "1"]),
    ] {
        let output = succeed(&mut with_visible(&program, before, arguments));
        assert!(output.stdout.ends_with(b"PASS\n"), "{output:?}");
    }
    // The other process sees the device with another ordinal, or does not see the device.
    let mut exporter = with_visible(&program, Some("2,1"), &["export"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut name = String::new();
    // The pipe must stay open until the end of the process, because the process prints more.
    let mut said = BufReader::new(exporter.stdout.take().expect("a pipe"));
    said.read_line(&mut name).expect("a line");
    for (list, ordinal) in [("0,2", "1"), ("2", "0"), ("0,1", "0")] {
        let arguments = ["import", name.trim(), ordinal];
        let output = succeed(&mut with_visible(&program, Some(list), &arguments));
        assert!(output.stdout.ends_with(b"PASS\n"), "{list}: {output:?}");
    }
    drop(exporter.stdin.take());
    assert!(exporter.wait().expect("a process").success());
    fs::remove_file(program).expect("a program that has run");
}

#[test]
fn threads() {
    run("threads", &[]);
}

/// Checks calls of the driver with closed standard streams, in threads that are ending, in child
/// processes after a fork, and with pointers to read-only memory.
#[test]
fn surroundings() {
    run("surroundings", &[]);
}

/// Checks host functions that end the thread that calls them.
#[test]
fn thread_exit() {
    run("thread_exit", &[]);
}

/// Checks that a process can end after its main thread has called `pthread_exit`.
#[test]
fn main_exit() {
    run("main_exit", &[]);
}

/// Checks random calls of the driver in many threads for two seconds; `cargo xtask soak` runs the
/// same program longer. In CI, the commit's hash is the random seed.
#[test]
fn soak() {
    let seed = std::env::var("MARGAY_SEED").unwrap_or_default();
    let seed = u32::from_str_radix(seed.get(..7).unwrap_or("1"), 16).unwrap_or(1);
    let program = compile("soak", "soak");
    let mut command = Command::new(&program);
    command.args(["2", "16", &seed.to_string()]);
    let output = succeed(command.envs(environment()).env("MARGAY_DEVICES", "2"));
    assert!(output.stdout.ends_with(b"PASS\n"), "{output:?}");
    fs::remove_file(program).expect("a program that has run");
}

/// Checks that kernels of two processes can wait for each other, even if each process has only one worker.
#[test]
fn flags() {
    for workers in ["1", "2"] {
        let program = compile("flags", &format!("flags-{workers}"));
        let mut command = Command::new(&program);
        let output = succeed(command.envs(environment()).env("MARGAY_WORKERS", workers));
        assert!(output.stdout.ends_with(b"PASS\n"), "{output:?}");
        fs::remove_file(program).expect("a program that has run");
    }
}

#[test]
fn procaddress() {
    run("procaddress", &[entry_points()]);
}

#[test]
fn printing_comes_in_order() {
    let program = compile("printing", "printing");
    let output = succeed(Command::new(&program).envs(environment()));
    let expected = "host 1\nkernel 1\nhost 2\nkernel 2\nhost 3\nkernel 3\nhost 4\nkernel 4\n\
        host 5\nkernel 5\nhost 6\nhost 6, too\nkernel 6\nhost 7\nkernel 7\nhost function\n\
        end\nkernel 8\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    fs::remove_file(program).expect("a program that has run");
}

/// Runs the C program `stops`, which must print `PASS`, and returns the text that it writes to
/// standard error.
fn stop(way: &str, kernel: &str, settings: &[(&str, &str)]) -> String {
    let program = compile("stops", &format!("stops-{way}-{kernel}"));
    let mut command = Command::new(&program);
    command.args([way, kernel]).envs(environment());
    let output = succeed(command.envs(settings.iter().copied()));
    fs::remove_file(program).expect("a program that has run");
    assert!(output.stdout.ends_with(b"PASS\n"), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
}

/// Checks the error text of a kernel that exceeds the time limit. The test also tries longer
/// limits, because on a busy machine a kernel may not start a block within the shortest limit.
#[test]
fn a_time_limit_ends_kernels_and_tells_who_is_where() {
    for (kernel, place) in [
        ("count_for_ever", "runs at PTX line 1"),
        ("poll_for_ever", "block ("),
    ] {
        let mut told = String::new();
        for limit in ["0.3", "1", "5", "20"] {
            told = stop("limit", kernel, &[("MARGAY_TIME_LIMIT", limit)]);
            says(&told, &["time limit", &format!("kernel {kernel}")]);
            if told.contains(place) {
                break;
            }
        }
        says(&told, &[place]);
    }
}

#[test]
fn a_reset_by_another_thread_ends_kernels() {
    stop("reset", "count_for_ever", &[]);
    stop("reset", "poll_for_ever", &[]);
}

#[test]
fn an_impossible_barrier_tells_who_waits_where() {
    for engine in ["native", "interpreter"] {
        let said = stop("barrier", "apart", &[("MARGAY_ENGINE", engine)]);
        says(
            &said,
            &[
                "kernel apart",
                "warp 0, lanes 0xffffffff: barrier 4 (count 64) at PTX line 31",
                "warp 1, lanes 0xffffffff: barrier 3 (count 64) at PTX line 28",
            ],
        );
    }
}

#[test]
fn reading_past_a_buffer_names_the_place() {
    for engine in ["native", "interpreter"] {
        let said = stop("fault", "read_past", &[("MARGAY_ENGINE", engine)]);
        let address = said
            .rsplit("expected ")
            .next()
            .expect("the program says it");
        says(
            &said,
            &[
                "illegal memory access in kernel read_past",
                "block (2,0,0), thread (5,0,0)",
                &format!("read of {}", address.trim()),
                "PTX line 40",
            ],
        );
    }
}

/// Checks that an interrupt (`SIGINT`) ends a program while kernels run. Ctrl-C on a terminal sends this signal to
/// every process of the process group.
#[test]
fn an_interrupt_ends_the_whole_group() {
    for kernel in ["count_for_ever", "poll_for_ever"] {
        let program = compile("stops", &format!("interrupted-{kernel}"));
        // A process that a script started in the background ignores SIGINT, and so would its children.
        let mut child = Command::new("env")
            .args(["--default-signal=INT", "sh", "-c"])
            .arg("\"$0\" wait \"$1\"; exit 9")
            .arg(&program)
            .arg(kernel)
            .envs(environment())
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert_eq!(line, "READY\n");
        let group = format!("-{}", child.id());
        succeed(Command::new("kill").args(["-INT", "--", &group]));
        // The pipe closes when the last process of the group ends.
        output.read_line(&mut line).expect("the end");
        assert_eq!(line, "READY\n");
        assert_eq!(child.wait().expect("a child").signal(), Some(2));
        fs::remove_file(program).expect("a program that has run");
    }
}

/// Returns the path of a table of all entry points in NVIDIA's headers.
fn entry_points() -> PathBuf {
    sources().join("../../ffi/tests/data/procaddress.txt")
}

/// Returns the symbol names in the table of entry points. A client can import each of these
/// symbols.
fn listed_exports() -> BTreeSet<String> {
    let table = fs::read_to_string(entry_points()).expect("the table");
    table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit(' ').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_library_exports_the_interface_and_nothing_else() {
    let bytes = fs::read(library()).expect("the library");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let exported: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .collect();
    let missing: Vec<_> = listed_exports().difference(&exported).cloned().collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    let foreign: Vec<_> = exported
        .iter()
        // The plugin for pytest calls `margay_settle`, clients of NVTX call `InitializeInjectionNvtx2`.
        .filter(|name| !name.starts_with("cu"))
        .filter(|name| !["margay_settle", "InitializeInjectionNvtx2"].contains(&name.as_str()))
        .collect();
    assert!(
        foreign.is_empty(),
        "exported beside the interface: {foreign:?}"
    );
}

#[test]
fn the_library_has_its_soname() {
    let bytes = fs::read(library()).expect("the library");
    let soname = soname(&bytes).expect("a soname");
    assert_eq!(soname, "libcuda.so.1");
}

/// Returns `DT_SONAME` of an ELF file.
fn soname(bytes: &[u8]) -> Option<String> {
    use object::read::elf::{Dyn, FileHeader, SectionHeader};
    let header = object::elf::FileHeader64::<object::Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let (entries, strings) = sections.dynamic(endian, bytes).ok()??;
    let strings = sections
        .section(strings)
        .ok()?
        .strings(endian, bytes)
        .ok()??;
    let entry = entries
        .iter()
        .find(|entry| entry.tag(endian) == object::elf::DT_SONAME)?;
    let name = entry.string(endian, strings).ok()?;
    Some(String::from_utf8_lossy(name).into_owned())
}
