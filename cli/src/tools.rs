//! Stand-ins for NVIDIA's tools: what this program does when it is started under one of their names, or in their stead.
//!
//! `margay run` puts scripts with these names in front of `PATH`, for clients that start an assembler or a compiler of
//! their own. They take the options of the tools they stand for, and end like them. Scripts, and no links to this
//! program: clients that follow links (CuPy does) would start it under its own name.

mod nvcc;
mod ptxas;

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

/// Names the real compiler to the stand-in; set by `margay run`.
pub(crate) const NVCC_VARIABLE: &str = "MARGAY_NVCC";

/// The first argument of a stand-in, with the tool's name behind it.
const STAND_IN: &str = "--stand-in-for=";

/// A script that starts `program` in the stead of a tool.
pub(crate) fn script(program: &Path, tool: &str) -> Option<String> {
    let program = program.to_str()?.replace('\'', r"'\''");
    Some(format!(
        "#!/bin/sh\nexec '{program}' {STAND_IN}{tool} \"$@\"\n"
    ))
}

/// Whether a file is such a script, or this program.
pub(crate) fn is_stand_in(path: &Path) -> bool {
    let own = std::env::current_exe().and_then(fs::canonicalize);
    if own.is_ok_and(|own| fs::canonicalize(path).is_ok_and(|found| found == own)) {
        return true;
    }
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(8192).read_to_end(&mut start));
    read.is_ok() && start.starts_with(b"#!") && String::from_utf8_lossy(&start).contains(STAND_IN)
}

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Ptxas,
    Nvcc,
}

/// The tool in whose stead this program was started, and its arguments.
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

    /// Does its work.
    pub(crate) fn run(self, arguments: Vec<OsString>) -> ExitCode {
        match self {
            Tool::Ptxas => ptxas::run(&arguments),
            Tool::Nvcc => nvcc::run(arguments),
        }
    }
}
