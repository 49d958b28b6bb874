//! File tests: ordinary PTX files with comments that state the expected behaviour.
//!
//! `margay test` and the project's own tests run files through this harness. A comment that begins with `//@` is a
//! directive, and a comment that begins with `//|` is a row of a table; all others are ignored. An unknown directive
//! and a file without expectations are errors.
//!
//! # Launches
//!
//! ```text
//! //@ kernel: NAME               a launch of this kernel; what follows belongs to it
//! //@ grid: X[,Y[,Z]]            blocks in the grid (1)
//! //@ block: X[,Y[,Z]]           threads in a block (1; with a table one thread for each row)
//! //@ cluster: X[,Y[,Z]]         blocks in a cluster
//! //@ shared: BYTES              dynamic shared memory of a block (0)
//! //@ cooperative                all blocks run at once
//! //@ native: refused            native code has to refuse the kernel; only the interpreter runs it
//!
//! //@ scalar: TYPE VALUES        an argument passed by value (several values: a structure)
//! //@ buffer: TYPE VALUES        an argument: device memory that holds these values
//! //@ expect: TYPE VALUES        what the buffer above holds afterwards, all of it
//! //@ texture: TEXELS            an argument: a texture object
//! //@ surface: TEXELS            an argument: a surface object; `expect` says what its texels are afterwards
//! //@ texref: NAME TEXELS        a texture bound to the module's variable; no argument
//! //@ surfref: NAME TEXELS       a surface bound to it
//! //@ tolerance: KIND AMOUNT     for approximate operations; stands before the values
//!
//! //@ cases: u32 f32 = u32       a table: one buffer, and argument, for each column
//! //| 1 0x3f800000 = 2           a row: element i of each buffer belongs to row i
//!
//! //@ fault: KIND [line N]       the launch ends with this fault (a `margay::FaultKind`)
//! //@ unsupported: WHAT          the launch is refused as not supported, naming this
//! //@ finding: KIND [line N]     a checking run finds this (a `margay::checks::Undefined`), in order of lines
//! ```
//!
//! A module may contain several kernels, and a kernel may be launched several times. Each launch runs in the
//! interpreter and in native code, with one worker in grid order, with three workers in reverse order, and with one
//! worker in a checking run ([`Setting`]). All runs must end in the same way. A checking run must report exactly the
//! findings that the directives name.
//!
//! Types have their PTX names (`u32`, `b64`, `f16`, ...). A value is `0x` and its bits, or a number that the type
//! represents exactly; expectations may also use `nan` (any NaN) and `_` (any value). `5*3` is `5 5 5`, `4..6` is `4 5
//! 6`. With a tolerance (`absolute 2^-20`, `relative 2^-22`, `ulps 2`) decimal numbers are compared approximately, and
//! bits exactly.
//!
//! # Textures and surfaces
//!
//! Texels are written as `FORMAT SIZE WORDS = TYPE VALUES`. FORMAT is `u8`, `s8`, `u16`, `s16`, `u32`, `s32`, `f16`,
//! `f32`, `unorm8`, `snorm8`, `unorm16`, `snorm16` or `unorm10`, optionally followed by `x2` or `x4`. SIZE is width,
//! height and depth (or layers), separated by commas. VALUES are the contents, level after level. WORDS are any of
//!
//! ```text
//! layered cube gather levels=N         what array it is; `buffer` and `pitch=BYTES`: device memory instead
//! linear trilinear anisotropy=N        filters (nearest texel and level)
//! normalized integer srgb seamless     CU_TRSF_*
//! address=MODE,MODE,MODE               wrap, clamp, mirror, border; the last for the rest (clamp)
//! border=R,G,B,A bias=X clamp=LOW,HIGH
//! ```
//!
//! `margay test --driver PATH` runs the same launches through any other driver library ([`driver`]).
//!
//! # Modules that are refused
//!
//! ```text
//! //@ error: LINE: CODE: MESSAGE     a diagnostic; all of them, in order
//! ```
//!
//! `BLESS=1` updates the text of these diagnostics if their lines are right. It changes nothing else: values, lines and
//! faults come from the specification.
//!
//! The harness is in the library part of `cli`, which depends on the runtime only, so that the program and `tests`
//! share it. The modules `directive` and `value` need the standard library only, because the front end's tests compile
//! them without the code generator.

pub mod directive;
pub mod driver;
mod run;
pub mod texels;
pub mod value;

pub use run::{Bench, Failure, Setting, bless_from_env};

use std::path::{Path, PathBuf};

/// Returns the `.ptx` file at a path, or all `.ptx` files of a folder in the order of their names.
///
/// # Errors
///
/// A path that cannot be read, and a folder without `.ptx` files.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    collect(path, &mut found).map_err(|e| format!("{}: {e}", path.display()))?;
    if found.is_empty() {
        return Err(format!("{}: no .ptx file", path.display()));
    }
    Ok(found)
}

fn collect(path: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        std::fs::metadata(path)?;
        found.push(path.to_owned());
        return Ok(());
    }
    let mut entries = std::fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() || entry.extension().is_some_and(|ext| ext == "ptx") {
            collect(&entry, found)?;
        }
    }
    Ok(())
}
