//! Stand-ins for NVIDIA's tools: what this program does when it is started under one of their names.
//!
//! `margay run` puts links with these names in front of `PATH`, for clients that start an assembler or a compiler of
//! their own. They take the options of the tools they stand for, and end like them.

mod nvcc;
mod ptxas;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Names the real compiler to the stand-in; set by `margay run`.
pub(crate) const NVCC_VARIABLE: &str = "MARGAY_NVCC";

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Ptxas,
    Nvcc,
}

/// The tool under whose name this program was started.
pub(crate) fn started_as() -> Option<Tool> {
    let name = std::env::args_os().next()?;
    match Path::new(&name).file_name()?.to_str()? {
        "ptxas" => Some(Tool::Ptxas),
        "nvcc" => Some(Tool::Nvcc),
        _ => None,
    }
}

impl Tool {
    /// Does its work.
    pub(crate) fn run(self) -> ExitCode {
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        match self {
            Tool::Ptxas => ptxas::run(&arguments),
            Tool::Nvcc => nvcc::run(arguments),
        }
    }
}
