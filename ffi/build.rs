//! How `libcuda.so` is linked: its soname, and so that nothing outside can come between its own
//! functions (`-Bsymbolic`) or unload it under its threads (`-z nodelete`). The exports are the
//! `no_mangle` functions of the table; the compiler's own version script hides the rest.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        "-Wl,-soname,libcuda.so.1",
        "-Wl,-Bsymbolic",
        "-Wl,-z,nodelete",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
