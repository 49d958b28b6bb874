//! Writes the entry points and their tables.

use margay_cublas_api::{Library, functions};
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo names a folder"));
    let libraries = [
        (Library::Cublas, "CUBLAS", "cublas.rs"),
        (Library::CublasLt, "CUBLAS_LT", "cublaslt.rs"),
    ];
    for (library, table, file) in libraries {
        std::fs::write(out.join(file), functions(library, table))
            .expect("a file in Cargo's folder");
    }
}
