//! What the build scripts of the exporting libraries do: they write the jumps, and give the library its name and its
//! version node.
//!
//! The functions of NVIDIA's libraries have the library's name as their symbol version, and programs that are linked with
//! these libraries ask for it. The compiler passes a list of exported symbols to the linker, which LLVM's linker (the
//! compiler's default on x86-64) combines with a second list that defines the version. GNU's linker refuses this. The
//! library then has no versions, which the dynamic linker accepts for any version that a program asks for.

#![allow(
    clippy::print_stdout,
    reason = "Cargo reads the standard output of build scripts"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Library, trampolines};

/// Writes `exports.rs` for a library, and prints the linker's arguments.
///
/// # Panics
/// If a file cannot be written, or if Cargo did not start this program.
pub fn exporting_library(library: Library, toolkit: u32) {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(versioned)");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo names a folder"));
    let soname = match library {
        Library::Cublas => format!("libcublas.so.{toolkit}"),
        Library::CublasLt => format!("libcublasLt.so.{toolkit}"),
    };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    let script = out.join("versions.txt");
    fs::write(&script, format!("{soname} {{ }};\n")).expect("a file in Cargo's folder");
    let versioned = accepts(&out, &script);
    if versioned {
        println!("cargo:rustc-cfg=versioned");
        println!(
            "cargo:rustc-cdylib-link-arg=-Wl,--version-script={}",
            script.display()
        );
    }
    let mut code = trampolines(library, toolkit);
    if versioned {
        // The assembler has no other way to name the version of a symbol.
        code.push_str("std::arch::global_asm!(\n");
        for entry in crate::entries(library) {
            if entry.toolkits.contains(&toolkit) {
                let name = entry.name;
                code.push_str(&format!("\".symver {name}, {name}@@@{soname}\",\n"));
            }
        }
        code.push_str(");\n");
    }
    fs::write(out.join("exports.rs"), code).expect("a file in Cargo's folder");
}

/// Returns whether the linker accepts a list of versions beside the compiler's list of symbols.
fn accepts(out: &Path, script: &Path) -> bool {
    const PROBE: &str = "#[unsafe(no_mangle)] pub extern \"C\" fn probe() {}\n";
    let source = out.join("probe.rs");
    fs::write(&source, PROBE).expect("a file in Cargo's folder");
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let mut compiler = Command::new(rustc);
    compiler
        .args(["--edition", "2024", "--crate-type", "cdylib", "-o"])
        .arg(out.join("probe.so"))
        .arg(&source)
        .arg(format!(
            "-Clink-arg=-Wl,--version-script={}",
            script.display()
        ))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Ok(target) = std::env::var("TARGET") {
        compiler.args(["--target", &target]);
    }
    if let Ok(linker) = std::env::var("RUSTC_LINKER") {
        compiler.arg(format!("-Clinker={linker}"));
    }
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    compiler.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    compiler.status().is_ok_and(|status| status.success())
}
