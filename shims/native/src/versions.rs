//! For build scripts: gives a library the name and the symbol version of the library that it replaces.
//!
//! The functions of NVIDIA's libraries have the library's name as their symbol version, and programs that are linked with
//! these libraries ask for it. The compiler passes a list of exported symbols to the linker, which LLVM's linker (the
//! compiler's default on x86-64) combines with a second list that defines the version. GNU's linker refuses this. The
//! library then has no versions, which the dynamic linker accepts for any version that a program asks for.

#![allow(
    clippy::print_stdout,
    reason = "Cargo reads the standard output of build scripts"
)]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Prints the linker's arguments for a library with the given name, and returns the code that gives its functions their
/// symbol versions, or no code if the linker does not accept versions.
///
/// # Panics
/// If a file cannot be written, or if Cargo did not start this program.
pub fn library<'a>(soname: &str, functions: impl IntoIterator<Item = &'a str>) -> String {
    println!("cargo:rustc-check-cfg=cfg(versioned)");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo names a folder"));
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    let script = out.join("versions.txt");
    fs::write(&script, format!("{soname} {{ }};\n")).expect("a file in Cargo's folder");
    if !accepts(&out, &script) {
        return String::new();
    }
    println!("cargo:rustc-cfg=versioned");
    println!(
        "cargo:rustc-cdylib-link-arg=-Wl,--version-script={}",
        script.display()
    );
    // The assembler has no other way to name the version of a symbol.
    let mut code = "std::arch::global_asm!(\n".to_owned();
    for name in functions {
        writeln!(code, "\".symver {name}, {name}@@@{soname}\",").expect("a string");
    }
    code.push_str(");\n");
    code
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
