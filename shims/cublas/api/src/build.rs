//! What the build scripts of the exporting libraries do: they write the jumps, and give the library its name and its
//! version node.

#![allow(
    clippy::print_stdout,
    reason = "Cargo reads the standard output of build scripts"
)]

use std::fs;
use std::path::PathBuf;

use crate::{Library, trampolines};

/// Writes `exports.rs` for a library, and prints the linker's arguments.
///
/// # Panics
/// If a file cannot be written, or if Cargo did not start this program.
pub fn exporting_library(library: Library, toolkit: u32) {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo names a folder"));
    let soname = match library {
        Library::Cublas => format!("libcublas.so.{toolkit}"),
        Library::CublasLt => format!("libcublasLt.so.{toolkit}"),
    };
    let entries = crate::entries(library);
    let exported = entries
        .iter()
        .filter(|entry| entry.toolkits.contains(&toolkit));
    let mut code = trampolines(library, toolkit);
    code.push_str(&margay_native::versions::library(
        &soname,
        exported.map(|entry| entry.name.as_str()),
    ));
    fs::write(out.join("exports.rs"), code).expect("a file in Cargo's folder");
}
