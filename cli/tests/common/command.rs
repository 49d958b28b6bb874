//! Runs `margay` in the folder of a program that was compiled for a test.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::built;

/// A new folder with a compiled program of `tests/abi`. The folder's name begins with `name`.
pub(crate) fn folder(program: &str, name: &str) -> PathBuf {
    let program = built::program(program, name, &[]);
    program.parent().unwrap().to_owned()
}

/// The exit code, the standard output and the standard error of a command of `margay` in a folder.
pub(crate) fn run(folder: &Path, command: &str, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_margay"))
        .arg(command)
        .args(arguments)
        .current_dir(folder)
        .env("MARGAY_LIBCUDA", built::library())
        .env("XDG_RUNTIME_DIR", folder)
        .env("MARGAY_CACHE", "0")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}
