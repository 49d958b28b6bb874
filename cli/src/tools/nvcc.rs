//! `nvcc`: the replacement starts the real compiler with options that produce PTX.
//!
//! The replacement changes `-cubin` to `-ptx`, but keeps the name of the output. Without `-o`, each
//! source has a separate output file (`NAME.cubin`), so the replacement runs the compiler once for
//! each source. In every other mode, the replacement makes the compiler embed PTX for each
//! `-gencode` option that requests only machine code. Without this change, `-gencode
//! arch=compute_86,code=sm_86` would produce a library that Margay cannot run.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::{NVCC_VARIABLE, is_stand_in};
use crate::output;

/// Runs the installed compiler for all sources. The last run of the compiler replaces this process (`exec`).
pub(super) fn run(arguments: Vec<OsString>) -> ExitCode {
    let Some(nvcc) = real() else {
        output::note(
            "nvcc: Margay's replacement finds no compiler; install NVIDIA's CUDA compiler",
        );
        return ExitCode::from(127);
    };
    let mut commands = commands(arguments);
    let last = commands.pop().unwrap_or_default();
    for arguments in commands {
        match command(&nvcc, arguments).status() {
            Ok(status) if status.success() => {}
            Ok(status) => {
                return ExitCode::from(status.code().map_or(1, |code| code.clamp(1, 255) as u8));
            }
            Err(error) => return cannot(&nvcc, &error),
        }
    }
    cannot(&nvcc, &command(&nvcc, last).exec())
}

fn cannot(nvcc: &Path, error: &std::io::Error) -> ExitCode {
    output::note(&format!("nvcc: cannot run {}: {error}", nvcc.display()));
    ExitCode::from(126)
}

fn command(nvcc: &Path, arguments: Vec<OsString>) -> Command {
    let mut command = Command::new(nvcc);
    command.args(arguments);
    // The real compiler must start its own tools, and not the replacements.
    if let (Some(bin), Some(path)) = (nvcc.parent(), std::env::var_os("PATH")) {
        let folders = std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path));
        if let Ok(path) = std::env::join_paths(folders) {
            command.env("PATH", path);
        }
    }
    command
}

fn is_to_cubin(argument: &OsString) -> bool {
    argument == "-cubin" || argument == "--cubin"
}

/// Returns the arguments of each compiler run: one run for each source if `-cubin` is given without `-o`, and otherwise
/// a single run.
fn commands(arguments: Vec<OsString>) -> Vec<Vec<OsString>> {
    let named = |argument: &OsString| {
        let text = argument.to_string_lossy();
        NAMES.iter().any(|name| {
            text.strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    };
    let sources: Vec<usize> = (0..arguments.len())
        .filter(|&at| is_source(&arguments, at))
        .collect();
    if !arguments.iter().any(is_to_cubin) || arguments.iter().any(named) || sources.is_empty() {
        return vec![with_ptx(arguments)];
    }
    let folder = folder(&arguments);
    let one = |&source: &usize| {
        let others = |at: &usize| *at == source || !sources.contains(at);
        let kept = (0..arguments.len()).filter(others);
        let mut command: Vec<OsString> = kept.map(|at| arguments[at].clone()).collect();
        let stem = Path::new(&arguments[source]).file_stem();
        let file = Path::new(stem.unwrap_or_default()).with_extension("cubin");
        command.push("-o".into());
        command.push(folder.join(file).into());
        with_ptx(command)
    };
    sources.iter().map(one).collect()
}

/// Options whose value is the output file.
const NAMES: [&str; 2] = ["-o", "--output-file"];
/// Options whose value is the output folder.
const FOLDERS: [&str; 2] = ["-odir", "--output-directory"];
/// Options whose value is a file that is not a source.
const BEFORE_FILES: [&str; 4] = ["-include", "--pre-include", "-MF", "--dependency-output"];
/// Extensions of source files.
const SOURCES: [&str; 6] = ["cu", "c", "cc", "cxx", "cpp", "gpu"];

fn is_source(arguments: &[OsString], at: usize) -> bool {
    let path = Path::new(&arguments[at]);
    let ending = path.extension().and_then(OsStr::to_str);
    let option = arguments[at].to_string_lossy().starts_with('-');
    let value = at > 0 && BEFORE_FILES.iter().any(|name| arguments[at - 1] == *name);
    !option && !value && ending.is_some_and(|ending| SOURCES.contains(&ending))
}

/// Returns the output folder that a command line specifies, or the current folder.
fn folder(arguments: &[OsString]) -> PathBuf {
    let mut previous = OsStr::new("");
    for argument in arguments {
        if FOLDERS.iter().any(|name| previous == *name) {
            return argument.into();
        }
        let text = argument.to_string_lossy();
        let value = |name: &&str| {
            text.strip_prefix(*name)?
                .strip_prefix('=')
                .map(PathBuf::from)
        };
        if let Some(folder) = FOLDERS.iter().find_map(value) {
            return folder;
        }
        previous = argument;
    }
    PathBuf::new()
}

/// Returns the path of the installed `nvcc`.
fn real() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(NVCC_VARIABLE).filter(|path| !path.is_empty()) {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join("nvcc"))
        .find(|nvcc| nvcc.is_file() && !is_stand_in(nvcc))
}

/// Changes the arguments so that the compiler produces PTX.
fn with_ptx(arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.iter().any(is_to_cubin) {
        let change = |argument: OsString| match is_to_cubin(&argument) {
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

/// Returns the value of a `-gencode` option, which may be part of the argument or the next argument.
fn text_of<'a>(previous: &OsStr, argument: &'a OsStr) -> Option<&'a str> {
    let names = ["-gencode", "--generate-code"];
    let text = argument.to_str()?;
    if names.iter().any(|name| previous == *name) {
        return Some(text);
    }
    let value = |name: &&str| text.strip_prefix(*name)?.strip_prefix('=');
    names.iter().find_map(value)
}

/// If the option value `value` produces only machine code, returns the option value that produces PTX for the same
/// architecture.
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
    fn cubins_have_their_names() {
        let all = |line: &str| -> Vec<String> {
            let words = line.split(' ').map(OsString::from).collect();
            let lines = commands(words).into_iter();
            lines
                .map(|words| words.join(OsStr::new(" ")).into_string().unwrap())
                .collect()
        };
        assert_eq!(
            all("--cubin -arch sm_86 -I/x.cu sub/kernel.cu"),
            ["-ptx -arch sm_86 -I/x.cu sub/kernel.cu -o kernel.cubin"]
        );
        assert_eq!(
            all("-cubin a.cu -odir out -include h.cu b.cpp"),
            [
                "-ptx a.cu -odir out -include h.cu -o out/a.cubin",
                "-ptx -odir out -include h.cu b.cpp -o out/b.cubin"
            ]
        );
        assert_eq!(all("-cubin a.cu -o b"), ["-ptx a.cu -o b"]);
        assert_eq!(
            all("-cubin a.cu --output-file=b"),
            ["-ptx a.cu --output-file=b"]
        );
        assert_eq!(all("-ptx a.cu"), ["-ptx a.cu"]);
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
