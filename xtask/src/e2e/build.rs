//! Compiles the CUDA programs of `tests/cuda` with NVIDIA's compiler nvcc.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::manifest::{self, Program};
use crate::toolchain::Toolchain;
use crate::{Outcome, exec};

/// The options with which a program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Optimised,
    Debug,
}

impl Variant {
    pub(super) const ALL: &[Variant] = &[Variant::Optimised, Variant::Debug];

    pub(super) fn label(self) -> &'static str {
        match self {
            Variant::Optimised => "optimised",
            Variant::Debug => "-G",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Variant::Optimised => &["-cudart", "static"],
            Variant::Debug => &["-cudart", "static", "-G"],
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Variant::Optimised => "",
            Variant::Debug => "-debug",
        }
    }
}

/// Returns the path of the executable file of a program that is built with the options `variant`.
pub(super) fn binary(program: &Program, variant: Variant) -> PathBuf {
    exec::root()
        .join(".cache/e2e")
        .join(format!("{}{}", program.name, variant.suffix()))
}

/// Builds all programs whose executable file is missing or older than their sources. As many
/// compilers run at the same time as the machine has cores.
pub(super) fn compile_all(
    toolchain: &Toolchain,
    programs: &[Program],
    variants: &[Variant],
) -> Outcome {
    let folder = exec::root().join(".cache/e2e");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let stale = programs
        .iter()
        .flat_map(|p| variants.iter().map(move |v| (p, *v)))
        .filter(|(p, v)| !fresh(p, *v));
    let jobs: Mutex<VecDeque<_>> = Mutex::new(stale.collect());
    let errors = Mutex::new(Vec::new());
    let next = || jobs.lock().expect("no job panics").pop_front();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((program, variant)) = next() {
                    if let Err(error) = compile(toolchain, program, variant) {
                        errors.lock().expect("no job panics").push(error);
                    }
                }
            });
        }
    });
    let errors = errors.into_inner().expect("no job panics");
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("\n"))
    }
}

fn compile(toolchain: &Toolchain, program: &Program, variant: Variant) -> Outcome {
    let mut command = nvcc(toolchain, program);
    command
        .args(variant.flags())
        .arg(format!("-arch={}", program.arch))
        .arg("-o")
        .arg(binary(program, variant));
    exec::output(&mut command).map(drop)
}

/// Returns a command that runs nvcc in the folder of the programs, with the source file and the
/// compiler options of `program`.
fn nvcc(toolchain: &Toolchain, program: &Program) -> Command {
    let mut command = toolchain.tool("nvcc");
    command
        .current_dir(manifest::folder())
        .arg(format!("{}.cu", program.name))
        .args(&program.flags);
    command
}

/// Returns whether no source file of a program is newer than the program's executable file.
fn fresh(program: &Program, variant: Variant) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let folder = manifest::folder();
    let sources = [
        format!("{}.cu", program.name),
        "common.h".to_owned(),
        "manifest.toml".to_owned(),
    ];
    let newest = sources
        .iter()
        .map(|s| changed(&folder.join(s)).unwrap_or(SystemTime::now()))
        .max();
    changed(&binary(program, variant)) >= newest
}

/// PTX with more than this number of bytes is stored compressed in the repository.
const PLAIN_LIMIT: usize = 200_000;

/// Compiles the programs to the PTX files that are checked in.
pub(super) fn bless_ptx(toolchain: &Toolchain, programs: &[Program]) -> Outcome {
    for program in programs {
        let Some(arch) = &program.ptx else { continue };
        let plain = manifest::folder().join(format!("ptx/{}.ptx", program.name));
        let mut command = nvcc(toolchain, program);
        exec::output(
            command
                .args(["-ptx", &format!("-arch={arch}"), "-o"])
                .arg(&plain),
        )?;
        let error = |e: std::io::Error| format!("{}: {e}", plain.display());
        let text = fs::read(&plain).map_err(error)?;
        let packed = plain.with_extension("ptx.gz");
        if text.len() <= PLAIN_LIMIT {
            println!("{}", plain.display());
            continue;
        }
        let mut out = GzEncoder::new(Vec::new(), Compression::best());
        out.write_all(&text).map_err(error)?;
        fs::write(&packed, out.finish().map_err(error)?).map_err(error)?;
        fs::remove_file(&plain).map_err(error)?;
        println!("{}", packed.display());
    }
    Ok(())
}
