//! Passes to the compiler the path of the folder with the libraries that the program embeds (`src/run/embedded.rs`).
//!
//! Before Cargo compiles this program, it builds every crate type of its dependencies, including shared libraries, in
//! the folder `deps`. Invariant: only code generation uses the path, so `cargo check` works without the libraries.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = std::env::var_os("OUT_DIR").expect("Cargo names a folder");
    // `OUT_DIR` is PROFILE/build/PACKAGE/out.
    let profile = std::path::Path::new(&out).ancestors().nth(3);
    let deps = profile.expect("Cargo's folders").join("deps");
    println!("cargo:rustc-env=MARGAY_LIBRARIES={}", deps.display());
}
