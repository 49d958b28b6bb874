//! Replacements of NVIDIA's tools: this program acts as `ptxas` or `nvcc` if it is started under that name or by a
//! replacement script.
//!
//! Unless `--plain` is given, `margay run` puts a folder first in `PATH` that contains a script `ptxas`, for clients that
//! start an assembler, and a script `nvidia-smi`, which starts `margay smi`. If there is a CUDA toolkit, it also puts a
//! mirror of the toolkit's `bin` folder there, in which `ptxas` and `nvcc` are scripts. The replacements accept the tools'
//! options and return the exit statuses of the tools. The replacements are scripts and not links to this program, because
//! clients that follow links, such as CuPy, would start the program under its own name.

mod nvcc;
mod ptxas;

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

/// `margay run` sets this environment variable to the path of the real compiler, and the replacement of `nvcc` reads
/// the variable.
pub(crate) const NVCC_VARIABLE: &str = "MARGAY_NVCC";

/// A replacement script starts this program with a first argument that consists of this text and the tool's name.
const STAND_IN: &str = "--stand-in-for=";

/// Returns a script that starts `program` instead of a tool; `None` if the path of `program` is not UTF-8.
pub(crate) fn script(program: &Path, tool: &str) -> Option<String> {
    let program = program.to_str()?.replace('\'', r"'\''");
    let tool = match tool {
        "nvidia-smi" => "smi".to_owned(),
        tool => format!("{STAND_IN}{tool}"),
    };
    Some(format!("#!/bin/sh\nexec '{program}' {tool} \"$@\"\n"))
}

/// Returns whether a file is a replacement script or this program.
pub(crate) fn is_stand_in(path: &Path) -> bool {
    let own = std::env::current_exe().and_then(fs::canonicalize);
    if own.is_ok_and(|own| fs::canonicalize(path).is_ok_and(|found| found == own)) {
        return true;
    }
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(8192).read_to_end(&mut start));
    read.is_ok() && start.starts_with(b"#!") && String::from_utf8_lossy(&start).contains(STAND_IN)
}

/// A tool that this program replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Ptxas,
    Nvcc,
}

/// If this program was started as the replacement of a tool, returns the tool and its arguments.
pub(crate) fn started_as() -> Option<(Tool, Vec<OsString>)> {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let named = arguments
        .first()
        .and_then(|first| Tool::of(first.to_str()?.strip_prefix(STAND_IN)?));
    if let Some(tool) = named {
        arguments.remove(0);
        return Some((tool, arguments));
    }
    let name = std::env::args_os().next()?;
    let tool = Tool::of(Path::new(&name).file_name()?.to_str()?)?;
    Some((tool, arguments))
}

impl Tool {
    fn of(name: &str) -> Option<Tool> {
        match name {
            "ptxas" => Some(Tool::Ptxas),
            "nvcc" => Some(Tool::Nvcc),
            _ => None,
        }
    }

    /// Runs the replacement of this tool.
    pub(crate) fn run(self, arguments: Vec<OsString>) -> ExitCode {
        match self {
            Tool::Ptxas => ptxas::run(&arguments),
            Tool::Nvcc => nvcc::run(arguments),
        }
    }
}
