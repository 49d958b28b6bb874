//! The driver library from C: programs of `tests/abi`, compiled here against our own declarations, linked with
//! our `libcuda.so.1` and run; and what the library's file promises to the dynamic linker.
//!
//! The library is the one that Cargo built as a dependency of this test, so it is never stale.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use object::{Object, ObjectSymbol};

/// The folder of the programs.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("abi")
}

/// The library as Cargo wrote it, beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let library = test.with_file_name("libcuda.so");
    assert!(
        library.exists(),
        "{} is built with this test",
        library.display()
    );
    library
}

/// A folder where the library has the name that programs look for.
fn library_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // One folder for each process: nextest runs every test in one of its own.
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("abi-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the library");
        let _ = fs::remove_file(folder.join("libcuda.so.1"));
        symlink(library(), folder.join("libcuda.so.1")).expect("a link to the library");
        folder
    })
}

fn succeed(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{said}\n{errors}",
        output.status
    );
    output
}

/// Compiles and runs a program, which has to print `PASS`.
fn run(name: &str, arguments: &[PathBuf]) {
    let folder = library_folder();
    let program = folder.join(name);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile.args([
        "-std=gnu11",
        "-O1",
        "-Wall",
        "-Werror",
        "-Wno-unused-function",
        "-pthread",
        "-o",
    ]);
    compile
        .arg(&program)
        .arg(sources().join(format!("{name}.c")));
    succeed(compile.arg(folder.join("libcuda.so.1")).arg("-ldl"));
    let output = succeed(
        Command::new(&program)
            .args(arguments)
            .env("LD_LIBRARY_PATH", folder),
    );
    assert!(
        String::from_utf8_lossy(&output.stdout).ends_with("PASS\n"),
        "{output:?}"
    );
    fs::remove_file(program).expect("a program that has run");
}

#[test]
fn start() {
    run("start", &[]);
}

#[test]
fn contexts() {
    run("contexts", &[]);
}

#[test]
fn memory() {
    run("memory", &[]);
}

#[test]
fn modules() {
    run("modules", &[sources().join("../../frontend/tests/data")]);
}

#[test]
fn streams() {
    run("streams", &[]);
}

#[test]
fn fault() {
    run("fault", &[]);
}

#[test]
fn threads() {
    run("threads", &[]);
}

#[test]
fn procaddress() {
    run("procaddress", &[sources().join("procaddress.csv")]);
}

/// The names of the table, each of which a client may import.
fn listed_exports() -> BTreeSet<String> {
    let table = fs::read_to_string(sources().join("procaddress.csv")).expect("the table");
    table
        .lines()
        .skip(1)
        .filter_map(|line| line.rsplit(',').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_library_exports_the_interface_and_nothing_else() {
    let bytes = fs::read(library()).expect("the library");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let exported: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .collect();
    let missing: Vec<_> = listed_exports().difference(&exported).cloned().collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    let foreign: Vec<_> = exported
        .iter()
        .filter(|name| !name.starts_with("cu"))
        .collect();
    assert!(
        foreign.is_empty(),
        "exported beside the interface: {foreign:?}"
    );
}

#[test]
fn the_library_has_its_soname() {
    let bytes = fs::read(library()).expect("the library");
    let soname = soname(&bytes).expect("a soname");
    assert_eq!(soname, "libcuda.so.1");
}

/// `DT_SONAME` of an ELF file.
fn soname(bytes: &[u8]) -> Option<String> {
    use object::read::elf::{Dyn, FileHeader, SectionHeader};
    let header = object::elf::FileHeader64::<object::Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let (entries, strings) = sections.dynamic(endian, bytes).ok()??;
    let strings = sections
        .section(strings)
        .ok()?
        .strings(endian, bytes)
        .ok()??;
    let entry = entries
        .iter()
        .find(|entry| entry.tag(endian) == object::elf::DT_SONAME)?;
    let name = entry.string(endian, strings).ok()?;
    Some(String::from_utf8_lossy(name).into_owned())
}
