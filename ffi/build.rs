//! Sets the linker arguments of `libcuda.so`: its soname, `-Bsymbolic` (calls between its own functions cannot be
//! interposed) and `-z nodelete` (`dlclose` does not unload the library, because its threads may still run). The
//! exports are the `no_mangle` functions: the entry points of the driver API and `margay_settle`. The version script
//! that the compiler generates hides all other symbols.

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
