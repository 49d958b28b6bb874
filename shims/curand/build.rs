//! Gives the library NVIDIA's name, and its functions NVIDIA's symbol version.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=functions.txt");
    let names = include_str!("functions.txt").lines();
    let code = margay_native::versions::library("libcurand.so.10", names);
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo names a folder"));
    std::fs::write(out.join("versions.rs"), code).expect("a file in Cargo's folder");
}
