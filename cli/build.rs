//! Where the libraries lie that the program holds (`src/run/embedded.rs`).
//!
//! Cargo builds every kind of a dependency's library, shared ones too, and puts them into `deps`, before it translates
//! this program. Invariant: the path is used when code is generated, never when it is only checked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = std::env::var_os("OUT_DIR").expect("Cargo names a folder");
    // PROFILE/build/PACKAGE/out
    let profile = std::path::Path::new(&out).ancestors().nth(3);
    let deps = profile.expect("Cargo's folders").join("deps");
    println!("cargo:rustc-env=MARGAY_LIBRARIES={}", deps.display());
}
