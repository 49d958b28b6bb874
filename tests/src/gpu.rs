//! Results of the instruction forms on a GPU, in `tests/data/gpu/forms.txt.gz`.
//!
//! An NVIDIA H100 (driver 580.159.04, CUDA 13.0) ran the kernels of the forms on 2026-11-26, with the inputs of
//! [`forms::inputs`](crate::forms::inputs). Each line of the file describes a run whose result on
//! the GPU is equal to Margay's result, bit for bit: the form's name, `0` or `1` (equal inputs of
//! all threads), a hash of the inputs, and a hash of the result. The file has no lines for
//!
//! - forms that need a newer GPU or a newer driver, and forms with handles of textures and surfaces;
//! - runs that end with an error on the GPU, for example because random bytes are a lane mask;
//! - results that the ISA does not define: races for a shared variable, the order of atomic operations, the layout of
//!   `wmma` fragments, the bits of NaNs, errors of approximations within their bounds, addresses, cache policies;
//! - results in which the GPU does not follow the text of the ISA: `docs/compared-with-a-gpu.md` lists them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::conformance::FormKernel;
use crate::forms::inputs;

/// A run of a form on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The form's name.
    pub form: String,
    /// Whether all threads had equal inputs.
    pub uniform: bool,
    /// Hash of the inputs. If a test computes another hash, the inputs have changed since the run.
    pub inputs: u32,
    /// Hash of `ok` and the changed words ([`crate::forms::changes`]).
    pub result: u32,
}

impl Run {
    /// Creates the description of a run of `form`. `result` contains `ok` and the changed words.
    pub fn new(form: &FormKernel, uniform: bool, result: &str) -> Run {
        Run {
            form: form.id.clone(),
            uniform,
            inputs: hash(&inputs(form, uniform)),
            result: hash(result.as_bytes()),
        }
    }
}

/// Returns a hash of `bytes` (FNV-1a, folded to 32 bits).
fn hash(bytes: &[u8]) -> u32 {
    let whole = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (whole >> 32) as u32 ^ whole as u32
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/gpu/forms.txt.gz")
}

/// Returns all runs; panics if the file is missing or damaged, because it is part of the repository.
pub fn runs() -> Vec<Run> {
    let path = path();
    let file = File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut text = String::new();
    GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let run = |line: &str| {
        let mut words = line.split(' ');
        let form = words.next()?.to_owned();
        let uniform = words.next()? == "1";
        let mut hash = || u32::from_str_radix(words.next()?, 16).ok();
        Some(Run {
            form,
            uniform,
            inputs: hash()?,
            result: hash()?,
        })
    };
    let line = |line| run(line).unwrap_or_else(|| panic!("{}: `{line}`", path.display()));
    text.lines().map(line).collect()
}

/// Writes the file.
///
/// # Errors
/// Returns an error with the path if the file cannot be written.
pub fn write(runs: &[Run]) -> Result<(), String> {
    let path = path();
    let mut text = String::new();
    for run in runs {
        let uniform = u8::from(run.uniform);
        let line = format!(
            "{} {uniform} {:08x} {:08x}\n",
            run.form, run.inputs, run.result
        );
        text.push_str(&line);
    }
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    let bytes = out.write_all(text.as_bytes()).and_then(|()| out.finish());
    let done = bytes.and_then(|bytes| {
        fs::create_dir_all(path.with_file_name(""))?;
        fs::write(&path, bytes)
    });
    done.map_err(|e| format!("{}: {e}", path.display()))
}
