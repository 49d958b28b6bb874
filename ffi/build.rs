//! Sets the linker arguments of `libcuda.so`: its soname, `-Bsymbolic` (calls between its own functions cannot be
//! interposed) and `-z nodelete` (the library is never unloaded while its threads run). The exports are the `no_mangle`
//! functions of the table of entry points. The version script that the compiler generates hides all other symbols.

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
