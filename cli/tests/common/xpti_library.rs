//! Compiles the framework and the subscriber of XPTI that belong to the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a C file of the XPTI producer's tests to a shared library.
pub(crate) fn library(folder: &Path, source: &str, options: &[&str]) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/xpti/tests");
    let library = folder.join(source).with_extension("so");
    let status = Command::new("cc")
        .args("-std=gnu11 -O1 -g -fPIC -shared -o".split(' '))
        .arg(&library)
        .arg(tests.join(source))
        .args(options)
        .args(["-ldl", "-lpthread"])
        .status();
    assert!(status.unwrap().success());
    library
}
