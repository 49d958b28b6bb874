//! Names the folder of the libraries that the program embeds (`src/run/embedded.rs`).
//!
//! Cargo builds every crate type of a dependency, shared libraries included, and puts them into `deps` before it
//! compiles this program. Invariant: code generation uses the path; `cargo check` does not.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = std::env::var_os("OUT_DIR").expect("Cargo names a folder");
    // PROFILE/build/PACKAGE/out
    let profile = std::path::Path::new(&out).ancestors().nth(3);
    let deps = profile.expect("Cargo's folders").join("deps");
    println!("cargo:rustc-env=MARGAY_LIBRARIES={}", deps.display());
}
