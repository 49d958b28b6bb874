//! Runs C programs that use the built `libcuda.so`, each in a process of its own.
//!
//! The programs are compiled with a header that was written for these tests (`c/driver.h`). They
//! test the C interface of the library: the names of the functions, the widths of their arguments,
//! and the layouts of structures.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The next number for a program's file name. The number makes the name unique, because several
/// tests may compile the same source at the same time.
static PROGRAMS: AtomicUsize = AtomicUsize::new(0);

fn compile(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let library = common::library_folder();
    let number = PROGRAMS.fetch_add(1, Ordering::Relaxed);
    let program = library.join(format!("{name}-{}-{number}", std::process::id()));
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg(folder.join(format!("{name}.c")))
        .arg(library.join("libcuda.so.1"))
        .output()
        .expect("a C compiler runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}.c:\n{errors}");
    program
}

fn run(name: &str) {
    let program = compile(name);
    let output = Command::new(&program)
        .env("LD_LIBRARY_PATH", common::library_folder())
        .env_remove("MARGAY_DRIVER_VERSION")
        .env_remove("MARGAY_COMPUTE_CAPABILITY")
        .output()
        .expect("the program runs");
    std::fs::remove_file(&program).expect("the program can be removed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fine\n");
}

#[test]
fn before_init() {
    run("before_init");
}

#[test]
fn contexts() {
    run("contexts");
}

#[test]
fn memory() {
    run("memory");
}

#[test]
fn streams() {
    run("streams");
}

#[test]
fn pools() {
    run("pools");
}

#[test]
fn captured_events() {
    run("captured_events");
}

#[test]
fn kernels() {
    run("kernels");
}

/// `MARGAY_TRACE_API=1` makes the library print each call of the driver API with its arguments and
/// result.
#[test]
fn trace() {
    let program = compile("contexts");
    let output = Command::new(&program)
        .env("LD_LIBRARY_PATH", common::library_folder())
        .env("MARGAY_TRACE_API", "1")
        .output()
        .expect("the program runs");
    std::fs::remove_file(&program).expect("the program can be removed");
    let trace = String::from_utf8_lossy(&output.stderr);
    assert!(
        trace.contains("margay: cuInit(flags=0) = CUDA_SUCCESS"),
        "{trace}"
    );
    let refused = "cuDevicePrimaryCtxRelease_v2(dev=0) = CUDA_ERROR_INVALID_CONTEXT";
    assert!(trace.contains(refused), "{trace}");
}
