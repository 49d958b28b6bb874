//! `ptxas`: the replacement checks PTX with Margay's front end, and writes the PTX instead of machine code.
//!
//! The output is the PTX text with a terminating NUL, which functions that load images require. Messages have the
//! format of NVIDIA's assembler, because clients search them for `error` and `line`.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use margay::container::join;
use margay::device::DeviceConfig;
use margay::inspect::check_ptx;

use crate::output;

/// Options that have a value. The value is the next argument, unless it follows `=` in the same argument.
const WITH_VALUE: &[&str] = &[
    "-o",
    "--output-file",
    "-arch",
    "--gpu-name",
    "-m",
    "--machine",
    "-O",
    "--opt-level",
    "-maxrregcount",
    "--maxrregcount",
    "-ftz",
    "--force-load-cache",
    "-dlcm",
    "--def-load-cache",
    "-dscm",
    "--def-store-cache",
    "-fscm",
    "--force-store-cache",
    "-flcm",
    "-e",
    "--entry",
    "-ias",
    "--input-as-string",
    "-optf",
    "--options-file",
    "-split-compile",
    "--split-compile",
    "-tool-name",
    "--tool-name",
    "-device-function-maxrregcount",
    "-opt-level",
    "--device-function-maxrregcount",
    "--regUsageLevel",
    "-regUsageLevel",
];

const HELP: &str = "\
usage: ptxas [options] file.ptx ...

This is Margay's replacement for the assembler: it checks PTX and writes it, as text, to the file
that -o names (default elf.o). Options that concern machine code are accepted and ignored.
";

/// The exit status of NVIDIA's assembler after errors.
const FAILED: u8 = 255;

/// The parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    inputs: Vec<PathBuf>,
    strings: Vec<String>,
    output: Option<PathBuf>,
    verbose: bool,
    version: bool,
    help: bool,
}

impl Asked {
    fn parse(arguments: &[OsString]) -> Result<Asked, String> {
        let mut asked = Asked::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let Some(text) = argument
                .to_str()
                .filter(|text| text.len() > 1 && text.starts_with('-'))
            else {
                asked.inputs.push(argument.into());
                continue;
            };
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(OsString::from(value))),
                None => (text, None),
            };
            let value = match value {
                None if WITH_VALUE.contains(&name) => {
                    let next = rest.next().cloned();
                    Some(next.ok_or_else(|| format!("no value for option '{name}'"))?)
                }
                value => value,
            };
            match (name, value) {
                ("-o" | "--output-file", Some(value)) => asked.output = Some(value.into()),
                ("-ias" | "--input-as-string", Some(value)) => {
                    asked.strings.push(value.to_string_lossy().into_owned());
                }
                ("-v" | "--verbose", _) => asked.verbose = true,
                ("-V" | "--version", _) => asked.version = true,
                ("-h" | "--help", _) => asked.help = true,
                _ => {}
            }
        }
        Ok(asked)
    }
}

/// Prints `text` to standard output, and returns the exit code: failure if the text could not be
/// printed.
fn printed(text: &str) -> ExitCode {
    match output::print(text) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Runs the replacement of the assembler.
pub(super) fn run(arguments: &[OsString]) -> ExitCode {
    let asked = match Asked::parse(arguments) {
        Ok(asked) => asked,
        Err(problem) => return fatal(&problem),
    };
    if asked.help {
        return printed(HELP);
    }
    if asked.version {
        return printed(&version());
    }
    if asked.inputs.is_empty() && asked.strings.is_empty() {
        return fatal("no input files specified");
    }
    match assemble(&asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => fatal(&problem),
    }
}

/// Returns the version text, from which clients read the version of the CUDA toolkit.
fn version() -> String {
    let version = DeviceConfig::from_env().driver_version;
    let (major, minor) = (version / 1000, version % 1000 / 10);
    format!(
        "ptxas: PTX assembler (Margay's replacement, which writes PTX)\n\
         Cuda compilation tools, release {major}.{minor}, V{major}.{minor}.0\n"
    )
}

fn assemble(asked: &Asked) -> Result<(), String> {
    let mut texts = Vec::new();
    for input in &asked.inputs {
        let name = input.display().to_string();
        let bytes = read(input).map_err(|e| format!("cannot open input file '{name}': {e}"))?;
        texts.push((name, bytes));
    }
    let strings = asked.strings.iter();
    texts.extend(strings.map(|text| ("<string>".to_owned(), text.clone().into_bytes())));
    let mut joined = Vec::new();
    for (name, mut bytes) in texts {
        if let Some(end) = bytes.iter().position(|&byte| byte == 0) {
            bytes.truncate(end);
        }
        check(&name, &String::from_utf8_lossy(&bytes), asked.verbose)?;
        joined.push(bytes);
    }
    let output = asked.output.clone().unwrap_or_else(|| "elf.o".into());
    fs::write(&output, join(&joined))
        .map_err(|e| format!("cannot write '{}': {e}", output.display()))
}

fn read(input: &Path) -> std::io::Result<Vec<u8>> {
    if input.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    margay_cli::input::read(input)
}

/// Prints the errors and warnings about a PTX text, with one line for each. If there is no error
/// and `verbose` is set, also prints the names of the kernels in the text. Returns an error text if
/// there is an error.
fn check(name: &str, text: &str, verbose: bool) -> Result<(), String> {
    let checked = check_ptx(name, text);
    let mut failed = false;
    for problem in &checked.problems {
        let kind = if problem.error { "error  " } else { "warning" };
        let said = problem.message.replace('\n', " ");
        output::note(&format!(
            "ptxas {name}, line {}; {kind} : {said}",
            problem.line
        ));
        failed |= problem.error;
    }
    if failed {
        return Err("Ptx assembly aborted due to errors".to_owned());
    }
    if verbose {
        for kernel in &checked.kernels {
            output::note(&format!(
                "ptxas info    : Compiling entry function '{kernel}'"
            ));
        }
    }
    Ok(())
}

fn fatal(problem: &str) -> ExitCode {
    output::note(&format!("ptxas fatal   : {problem}"));
    ExitCode::from(FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Asked {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Asked::parse(&words).unwrap()
    }

    #[test]
    fn the_command_lines_of_clients_are_understood() {
        // Options that Triton passes.
        let asked = parse("-lineinfo --fmad=false -v --gpu-name=sm_86 in.ptx -o out.cubin");
        assert_eq!(asked.inputs, [PathBuf::from("in.ptx")]);
        assert_eq!(asked.output, Some("out.cubin".into()));
        assert!(asked.verbose);
        // Options that nvcc and XLA pass.
        let asked = parse("-arch sm_80 -m 64 --generate-line-info in.ptx --output-file=a.o");
        assert_eq!(asked.inputs, [PathBuf::from("in.ptx")]);
        assert_eq!(asked.output, Some("a.o".into()));
        assert!(parse("--version").version);
        assert!(Asked::parse(&["-o".into()]).is_err());
    }
}
