//! `nvcc`: the real compiler, told to make PTX.
//!
//! `-cubin` becomes `-ptx`. In every other mode each machine that code is made for gets the PTX of its architecture
//! beside it (`-gencode arch=compute_86,code=sm_86` alone makes a library that no CPU runs).

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use super::{NVCC_VARIABLE, is_stand_in};
use crate::output;

/// Becomes the compiler.
pub(super) fn run(arguments: Vec<OsString>) -> ExitCode {
    let Some(nvcc) = real() else {
        output::note("nvcc: Margay's stand-in finds no compiler; install NVIDIA's CUDA compiler");
        return ExitCode::from(127);
    };
    let mut command = Command::new(&nvcc);
    command.args(with_ptx(arguments));
    // It starts its own tools, not our stand-ins.
    if let (Some(bin), Some(path)) = (nvcc.parent(), std::env::var_os("PATH")) {
        let folders = std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path));
        if let Ok(path) = std::env::join_paths(folders) {
            command.env("PATH", path);
        }
    }
    let error = command.exec();
    output::note(&format!("nvcc: cannot run {}: {error}", nvcc.display()));
    ExitCode::from(126)
}

/// The compiler that is installed.
fn real() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(NVCC_VARIABLE).filter(|path| !path.is_empty()) {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join("nvcc"))
        .find(|nvcc| nvcc.is_file() && !is_stand_in(nvcc))
}

/// The arguments, changed so that PTX comes out.
fn with_ptx(arguments: Vec<OsString>) -> Vec<OsString> {
    let to_cubin = |argument: &OsString| argument == "-cubin" || argument == "--cubin";
    if arguments.iter().any(to_cubin) {
        let change = |argument: OsString| match to_cubin(&argument) {
            true => "-ptx".into(),
            false => argument,
        };
        return arguments.into_iter().map(change).collect();
    }
    let mut more = Vec::new();
    let mut previous: &OsStr = OsStr::new("");
    for argument in &arguments {
        if let Some(ptx) = text_of(previous, argument).and_then(ptx_beside) {
            more.push("-gencode".into());
            more.push(ptx.into());
        }
        previous = argument;
    }
    let mut arguments = arguments;
    for option in more.chunks(2) {
        if !arguments.contains(&option[1]) {
            arguments.extend_from_slice(option);
        }
    }
    arguments
}

/// The value of a `-gencode` option, in one word or two.
fn text_of<'a>(previous: &OsStr, argument: &'a OsStr) -> Option<&'a str> {
    let names = ["-gencode", "--generate-code"];
    let text = argument.to_str()?;
    if names.iter().any(|name| previous == *name) {
        return Some(text);
    }
    let value = |name: &&str| text.strip_prefix(*name)?.strip_prefix('=');
    names.iter().find_map(value)
}

/// The value that makes PTX for the architecture of one that makes machine code alone.
fn ptx_beside(value: &str) -> Option<String> {
    let (arch, code) = value.strip_prefix("arch=")?.split_once(",code=")?;
    let makes_ptx = code.contains("compute_");
    (!makes_ptx).then(|| format!("arch={arch},code={arch}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words = with_ptx(words).into_iter();
        words
            .map(|w| w.into_string().unwrap())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn cubins_become_ptx() {
        assert_eq!(
            changed("--cubin -arch sm_86 -I/x kernel.cu"),
            "-ptx -arch sm_86 -I/x kernel.cu"
        );
    }

    #[test]
    fn ptx_stands_beside_machine_code() {
        assert_eq!(
            changed("-c a.cu -gencode arch=compute_86,code=sm_86"),
            "-c a.cu -gencode arch=compute_86,code=sm_86 -gencode arch=compute_86,code=compute_86"
        );
        let both = "-gencode=arch=compute_80,code=[sm_80,compute_80] a.cu";
        assert_eq!(changed(both), both);
        let twice =
            "-gencode=arch=compute_80,code=sm_80 -gencode arch=compute_80,code=compute_80 a.cu";
        assert_eq!(changed(twice), twice);
        assert_eq!(changed("-arch=sm_86 a.cu"), "-arch=sm_86 a.cu");
    }
}
