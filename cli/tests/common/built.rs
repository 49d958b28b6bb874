//! Compiles a C program of `tests/abi` against the driver library of this build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of a program or header of `tests/abi`.
pub(crate) fn source(name: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/abi")
        .join(name);
    file.canonicalize().unwrap()
}

/// Returns the path of the driver library, which Cargo writes to the folder of the test's executable.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.with_file_name("libcuda.so")
}

/// Compiles `NAME.c` in a folder of this process, whose name begins with `folder`. Each test process compiles a separate
/// copy, because nextest runs every test in its own process. Returns the path of the program.
pub(crate) fn program(name: &str, folder: &str, options: &[&str]) -> PathBuf {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = parent.join(format!("{folder}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let link = folder.join("libcuda.so.1");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(library(), &link).unwrap();
    let program = folder.join(name);
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
        .arg(&program)
        .args([&source(&format!("{name}.c")), &link])
        .status();
    assert!(built.unwrap().success());
    program
}
