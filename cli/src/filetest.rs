//! File tests: ordinary PTX files with comments that state the expected behaviour.
//!
//! `margay test` and the project's tests run file tests with this harness. A comment that begins with `//@` is a
//! directive, and a comment that begins with `//|` is a row of a table; the harness ignores all other comments. An
//! unknown directive is an error, and so is a file without expectations.
//!
//! # Launches
//!
//! ```text
//! //@ kernel: NAME               a launch of this kernel; the directives below belong to it
//! //@ grid: X[,Y[,Z]]            number of blocks in the grid (default: 1)
//! //@ block: X[,Y[,Z]]           number of threads in a block (default: 1, or the number of rows of a table)
//! //@ cluster: X[,Y[,Z]]         number of blocks in a cluster
//! //@ shared: BYTES              size of the dynamic shared memory of a block (default: 0)
//! //@ cooperative                a cooperative launch: all blocks are resident at once
//! //@ native: refused            the native engine must reject the kernel; only the interpreter runs it
//!
//! //@ scalar: TYPE VALUES        an argument passed by value (several values: a structure)
//! //@ buffer: TYPE VALUES        an argument: device memory with these values
//! //@ expect: TYPE VALUES        the whole content of the buffer above after the launch
//! //@ texture: TEXELS            an argument: a texture object
//! //@ surface: TEXELS            an argument: a surface object; `expect` lists its texels after the launch
//! //@ texref: NAME TEXELS        a texture that is bound to the module's variable NAME, not an argument
//! //@ surfref: NAME TEXELS       a surface that is bound to the module's variable NAME, not an argument
//! //@ tolerance: KIND AMOUNT     the allowed error of approximate operations; must precede the values
//!
//! //@ cases: u32 f32 = u32       a table: each column is a buffer that is passed as an argument
//! //| 1 0x3f800000 = 2           a row: element i of each buffer belongs to row i
//!
//! //@ fault: KIND [line N]       the launch ends with this fault (a `margay::FaultKind`)
//! //@ unsupported: WHAT          the launch fails as unsupported; the error contains WHAT
//! //@ finding: KIND [line N]     a checking run reports this (a `margay::checks::Undefined`); in order of lines
//! ```
//!
//! A module may contain several kernels, and a kernel may be launched several times. Each launch runs six times
//! ([`Setting`]): in the interpreter and in native code, each of them with one worker in grid order, with three workers
//! in reverse order, and with one worker in a checking run. All runs of a launch must have the same outcome. A checking
//! run must report exactly the findings that the directives list.
//!
//! Types have their PTX names (`u32`, `b64`, `f16`, ...). A value is either `0x` followed by its bits, or a number that
//! the type represents exactly (for `f32` and `f64`, a number that is rounded to the type). Expectations may also use
//! `nan` (any NaN) and `_` (any value). In a list, `5*3` means `5 5 5`, and `4..6` means `4 5 6`. With a tolerance
//! (`absolute 2^-20`, `relative 2^-22`, `ulps 2`) the harness compares values that are written as decimal numbers
//! approximately, and values that are written as bits exactly.
//!
//! # Textures and surfaces
//!
//! Texels are written as `FORMAT SIZE WORDS = TYPE VALUES`. FORMAT is `u8`, `s8`, `u16`, `s16`, `u32`, `s32`, `f16`,
//! `f32`, `unorm8`, `snorm8`, `unorm16`, `snorm16` or `unorm10`, optionally followed by `x2` or `x4`. SIZE is width,
//! height and depth (or layers), separated by commas. VALUES are the contents of all levels, one
//! level after the other. WORDS are any of the following:
//!
//! ```text
//! layered cube gather levels=N         the kind of array; `buffer` and `pitch=BYTES` select device memory instead
//! linear trilinear anisotropy=N        filters (default: the nearest texel and the nearest level)
//! normalized integer srgb seamless     the flags CU_TRSF_*
//! address=MODE,MODE,MODE               wrap, clamp (default), mirror or border; missing MODEs equal the last
//! border=R,G,B,A bias=X clamp=LOW,HIGH the border colour, the level bias, and the least and greatest level
//! ```
//!
//! `margay test --driver PATH` runs the same launches with any other driver library ([`driver`]).
//!
//! # Modules that are refused
//!
//! ```text
//! //@ error: LINE: CODE: MESSAGE     an expected diagnostic; the file must list all, in order
//! ```
//!
//! If the environment variable `BLESS` is `1` and the lines of the diagnostics are correct, the
//! harness replaces the messages in the `error` directives by the messages of the diagnostics. It
//! never updates values, lines or faults, because these follow from the specification.
//!
//! The harness is in the library target of the crate `cli`, so that the program and the crate `tests` share it. The
//! library target depends on no crate of Margay except the runtime. The modules `directive`, `texels` and `value`
//! depend only on the standard library and on each other, because the tests of the front end compile them without the
//! code generator.

pub mod directive;
pub mod driver;
mod run;
pub mod texels;
pub mod value;

pub use run::{Bench, Failure, Setting, bless_from_env};

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns `path` if it is a file of any name. If it is a folder, returns all regular `.ptx` files in it and in its
/// subfolders, in the order of their names. Symbolic links are followed, and each folder is searched once. A file of
/// another type, such as a FIFO, is not returned: to read it could take forever.
///
/// # Errors
///
/// Returns an error if a path cannot be read, or if a folder contains no `.ptx` files.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    collect(path, &mut HashSet::new(), &mut found)
        .map_err(|e| format!("{}: {e}", path.display()))?;
    if found.is_empty() {
        return Err(format!("{}: no .ptx file", path.display()));
    }
    Ok(found)
}

fn collect(
    path: &Path,
    searched: &mut HashSet<(u64, u64)>,
    found: &mut Vec<PathBuf>,
) -> std::io::Result<()> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_dir() {
        found.push(path.to_owned());
        return Ok(());
    }
    if !searched.insert((metadata.dev(), metadata.ino())) {
        return Ok(());
    }
    let mut entries = std::fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    for entry in entries {
        let is_test = entry.extension().is_some_and(|ext| ext == "ptx");
        if entry.is_dir() || is_test && entry.is_file() {
            collect(&entry, searched, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_searched_once_for_regular_files() {
        let folder = std::env::temp_dir().join(format!("margay-files-{}", std::process::id()));
        let inner = folder.join("inner");
        std::fs::create_dir_all(&inner).expect("a folder");
        std::fs::write(inner.join("b.ptx"), "").expect("a file");
        std::fs::write(folder.join("c.txt"), "").expect("a file");
        let link = |to: &Path, name: &str| {
            std::os::unix::fs::symlink(to, folder.join(name)).expect("a link");
        };
        link(&inner.join("b.ptx"), "a.ptx");
        link(Path::new("/dev/null"), "device.ptx");
        link(&folder, "self");
        link(Path::new("missing"), "dangling.ptx");
        let socket = std::os::unix::net::UnixListener::bind(folder.join("socket.ptx"));
        let found = files(&folder);
        drop(socket.expect("a socket"));
        std::fs::remove_dir_all(&folder).expect("the folder can be removed");
        let expected = [folder.join("a.ptx"), inner.join("b.ptx")];
        assert_eq!(found.expect("files"), expected);
    }
}
