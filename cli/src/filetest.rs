//! File tests: ordinary PTX whose comments say what it must do.
//!
//! `margay test` and the project's own tests run files through this one harness. A comment that begins with
//! `//@` is a directive, one that begins with `//|` a row of a table; all others are only comments. A
//! directive that is not known and a file that expects nothing are errors.
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
//! A module may hold several kernels and a kernel may be launched several times. Each launch runs in the
//! interpreter and in native code, each with one worker in grid order, with three workers in reverse order and with
//! one in a checking run ([`Setting`]), and must end the same way everywhere. A checking run finds what the directives
//! name and nothing else.
//!
//! Types are PTX's own (`u32`, `b64`, `f16`, ...). A value is `0x` and its bits, or a number that the type
//! has; in expectations also `nan` (any NaN) and `_` (anything). `5*3` is `5 5 5`, `4..6` is `4 5 6`. With a
//! tolerance (`absolute 2^-20`, `relative 2^-22`, `ulps 2`) decimal numbers are expected to be near, bits
//! still exactly.
//!
//! # Textures and surfaces
//!
//! Texels are `FORMAT SIZE WORDS = TYPE VALUES`. A format is `u8`, `s8`, `u16`, `s16`, `u32`, `s32`, `f16`, `f32`, `unorm8`,
//! `snorm8`, `unorm16`, `snorm16` or `unorm10`, behind it `x2` or `x4`; a size is width, height and depth (or layers) with
//! commas between; the values are the contents, level after level. Words are
//!
//! ```text
//! layered cube gather levels=N         what array it is; `buffer` and `pitch=BYTES`: device memory instead
//! linear trilinear anisotropy=N        filters (nearest texel and level)
//! normalized integer srgb seamless     CU_TRSF_*
//! address=MODE,MODE,MODE               wrap, clamp, mirror, border; the last for the rest (clamp)
//! border=R,G,B,A bias=X clamp=LOW,HIGH
//! ```
//!
//! With `margay test --driver PATH` the same launches run through any other driver library ([`driver`]).
//!
//! # Modules that are refused
//!
//! ```text
//! //@ error: LINE: CODE: MESSAGE     a diagnostic; all of them, in order
//! ```
//!
//! `BLESS=1` writes the text of these diagnostics when their lines are right. It writes nothing else: values,
//! lines and faults come from the specification.
//!
//! It lives in the library part of `cli`, which sees the runtime alone, so that the program and `tests` share
//! it. Reading (`directive`, `value`) needs the standard library only; the front end's tests, which know no
//! code generator, compile these files too.

pub mod directive;
pub mod driver;
mod run;
pub mod texels;
pub mod value;

pub use run::{Bench, Failure, Setting, bless_from_env};

use std::path::{Path, PathBuf};

/// All `.ptx` files at a path, a folder's in the order of their names.
///
/// # Errors
///
/// What cannot be read, and a folder without such files.
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
