//! `margay run`: runs a CUDA program with the folder of Margay's driver library first in the library search path.
//!
//! The command replaces its process by the program, so the exit code, the signals and the terminal are those of the
//! program. The command provides the libraries ([`folder`]), and sets environment variables so that clients that
//! compile kernels produce PTX ([`environment`]).

#[cfg(feature = "embedded")]
mod embedded;
pub(crate) mod environment;
mod folder;
mod python;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::output::{Failure, Outcome};
use folder::Folder;

const EXAMPLES: &str = "\
Examples:
  margay run -- ./vector_add 1000000
  margay run --workers 1 --time-limit 10 -- ./reduction
  margay run --trace-api -- python3 train.py
  margay run --dump report -- ./reduction

The exit code is the program's; 127 when there is no such program, 126 when it cannot be run.";

/// The arguments of `margay run`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    program: Program,
}

/// The program that a command runs.
#[derive(clap::Args)]
pub(crate) struct Program {
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        id = "program",
        value_name = "PROGRAM",
        value_hint = clap::ValueHint::CommandWithArguments
    )]
    pub(crate) words: Vec<OsString>,
}

/// The options with which a program runs.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Worker threads (default: one for each core).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: Option<u32>,
    /// End a launch after this number of seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time_limit: Option<f64>,
    /// Select the engine that executes kernels.
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// Compute capability to report, such as 8.6.
    #[arg(long, value_name = "X.Y")]
    capability: Option<String>,
    /// Bits of addresses of device memory. 32: memory is below 4 GiB, so that modules with 32-bit addresses run.
    #[arg(long, value_name = "BITS", value_parser = clap::builder::PossibleValuesParser::new(["32", "64"]))]
    address_size: Option<String>,
    /// Number of devices to simulate.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    devices: Option<u32>,
    /// Memory of each device, such as 2G.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<String>,
    /// Multiprocessors that a device reports.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    sms: Option<u32>,
    /// Name that a device reports.
    #[arg(long, value_name = "NAME")]
    device_name: Option<String>,
    /// Driver version to report, as 13050 for 13.5.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2000..=99_999))]
    driver_version: Option<u32>,
    /// Log every call of the driver API.
    #[arg(long)]
    trace_api: bool,
    /// Run blocks and warps in reverse order (finds programs that depend on the order).
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Write every loaded image, its PTX and a list of what could not run to a folder.
    #[arg(long, value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    dump: Option<PathBuf>,
    /// Provide only Margay's libraries; do not change the caches, compilers and assemblers of clients.
    #[arg(long)]
    plain: bool,
}

/// The engine that executes kernels.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Engine {
    /// Native code only: a kernel without native code is an error (default: the interpreter runs such kernels).
    Native,
    /// The interpreter only.
    Interpreter,
}

/// The auditing library, which is in the folder of the driver library. It replaces the results of NVIDIA's run-time
/// compilers.
pub(crate) const AUDIT: &str = "libmargay_audit.so";

/// The environment variable from which the driver library reads which engine executes kernels.
pub(crate) const ENGINE_VARIABLE: &str = "MARGAY_ENGINE";

impl Engine {
    /// Returns the value of [`ENGINE_VARIABLE`] for this engine.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Native => "native",
            Engine::Interpreter => "interpreter",
        }
    }
}

/// Returns `text` if it is a positive number of bytes, which may end in K, M or G; returns an error
/// if it is not.
fn bytes(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let number = digits.parse::<u64>().ok().filter(|&number| number > 0);
    match text.len() - digits.len() <= 1 && number.is_some() {
        true => Ok(text.to_owned()),
        false => Err("not a number of bytes".to_owned()),
    }
}

/// Maximum time limit in seconds, which is several hundred years.
const MAX_SECONDS: f64 = 1e10;

/// Parses a positive number of seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match finite(text)? {
        seconds if seconds > MAX_SECONDS => Err("too large".to_owned()),
        seconds if seconds > 0.0 => Ok(seconds),
        _ => Err("must be greater than 0".to_owned()),
    }
}

/// Parses a finite number that is not negative.
pub(crate) fn tolerance(text: &str) -> Result<f64, String> {
    match finite(text)? {
        number if number >= 0.0 => Ok(number),
        _ => Err("must not be negative".to_owned()),
    }
}

fn finite(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match number {
        number if number.is_nan() => Err("not a number".to_owned()),
        number if number.is_infinite() => Err("too large".to_owned()),
        number => Ok(number),
    }
}

/// The folder of the libraries in installations, relative to the folder of the program.
const LIBRARIES: &str = "../lib/margay";

/// Returns the path of the driver library: the path in `MARGAY_LIBCUDA`; otherwise a library beside this program or in
/// the folder of the installation; otherwise the embedded library.
pub(crate) fn libcuda() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os("MARGAY_LIBCUDA").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        return fs::canonicalize(&path)
            .map_err(|e| Failure::from(format!("MARGAY_LIBCUDA: {}: {e}", path.display())));
    }
    let program = std::env::current_exe()
        .and_then(fs::canonicalize)
        .map_err(|e| format!("cannot find the path of this program: {e}"))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.to_owned(), folder.join(LIBRARIES)];
    let files = places
        .iter()
        .flat_map(|folder| ["libcuda.so", "libcuda.so.1"].map(|name| folder.join(name)));
    for file in files {
        if let Ok(path) = fs::canonicalize(file) {
            return Ok(path);
        }
    }
    held(&program)
}

/// Writes the embedded libraries to a folder, and returns the path of the driver library.
#[cfg(feature = "embedded")]
fn held(program: &Path) -> Result<PathBuf, Failure> {
    embedded::libcuda(program)
        .map_err(|e| Failure::from(format!("cannot write libcuda.so.1 to a folder: {e}")))
}

#[cfg(not(feature = "embedded"))]
fn held(program: &Path) -> Result<PathBuf, Failure> {
    Err(format!(
        "libcuda.so is neither beside {} nor in {LIBRARIES}; build it with `cargo build --release`, or name it in \
         MARGAY_LIBCUDA",
        program.display()
    )
    .into())
}

/// Returns a search path with the folders `first`, followed by the folders in an environment variable.
fn in_front(first: Vec<PathBuf>, variable: &str) -> Result<OsString, Failure> {
    let rest = std::env::var_os(variable).unwrap_or_default();
    let rest = std::env::split_paths(&rest).filter(|path| !path.as_os_str().is_empty());
    std::env::join_paths(first.into_iter().chain(rest))
        .map_err(|e| Failure::from(format!("{variable}: {e}")))
}

fn settings(arguments: &Options) -> Vec<(&'static str, String)> {
    let mut settings = Vec::new();
    if let Some(workers) = arguments.workers {
        settings.push(("MARGAY_WORKERS", workers.to_string()));
    }
    if let Some(limit) = arguments.time_limit {
        settings.push(("MARGAY_TIME_LIMIT", limit.to_string()));
    }
    if let Some(engine) = arguments.engine {
        settings.push((ENGINE_VARIABLE, engine.name().to_owned()));
    }
    if let Some(capability) = &arguments.capability {
        settings.push(("MARGAY_COMPUTE_CAPABILITY", capability.clone()));
    }
    let numbers = [
        ("MARGAY_DEVICES", arguments.devices),
        ("MARGAY_SMS", arguments.sms),
        ("MARGAY_DRIVER_VERSION", arguments.driver_version),
    ];
    for (name, number) in numbers {
        settings.extend(number.map(|number| (name, number.to_string())));
    }
    let texts = [
        ("MARGAY_ADDRESS_SIZE", &arguments.address_size),
        ("MARGAY_MEMORY", &arguments.memory),
        ("MARGAY_DEVICE_NAME", &arguments.device_name),
    ];
    for (name, text) in texts {
        settings.extend(text.clone().map(|text| (name, text)));
    }
    if arguments.trace_api {
        settings.push(("MARGAY_TRACE_API", "1".into()));
    }
    if arguments.reverse {
        settings.push(("MARGAY_ORDER", "reverse".into()));
    }
    settings
}

/// Whether `margay run` prints messages about absent libraries. A user who selects the driver library knows its folder.
fn is_talkative() -> bool {
    std::env::var_os("MARGAY_LIBCUDA").is_none()
        && std::env::var_os("MARGAY_QUIET").is_none()
        && std::env::var_os("MARGAY_LOG").is_none_or(|value| value != "off")
}

/// Returns the command that starts the program with its arguments, environment and libraries.
pub(crate) fn command(arguments: &Options, program: &[OsString]) -> Result<Command, Failure> {
    let library = libcuda()?;
    let toolkit = environment::toolkit().filter(|_| !arguments.plain);
    let folder = Folder::fill(&library, toolkit.as_deref())
        .map_err(|e| format!("cannot create a folder for libcuda.so.1: {e}"))?;
    let [program, rest @ ..] = program else {
        return Err(Failure::from(String::from("no program")));
    };
    if !folder.missing.is_empty() && is_talkative() {
        eprintln!(
            "margay: {} lacks {}: programs load NVIDIA's libraries instead, which contain mostly machine code",
            library.parent().unwrap_or(Path::new("")).display(),
            folder.missing.join(", ")
        );
    }
    let mut command = Command::new(program);
    if let Some(folder) = &arguments.dump {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let folder = fs::canonicalize(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        command.env("MARGAY_DUMP", folder);
    }
    command
        .args(rest)
        .env(
            "LD_LIBRARY_PATH",
            in_front(vec![folder.libraries()], "LD_LIBRARY_PATH")?,
        )
        .envs(settings(arguments));
    if !arguments.plain {
        let audit = library.with_file_name(AUDIT);
        let audit = audit.exists().then_some(audit.as_path());
        command
            .env("PATH", in_front(folder.tools(), "PATH")?)
            .envs(environment::variables(&folder, toolkit.as_deref(), audit));
    }
    Ok(command)
}

/// Replaces this process by the program; returns only if this fails.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let error = command(&arguments.options, &arguments.program.words)?.exec();
    Err(cannot_run(&arguments.program.words, &error))
}

/// Returns the failure of a program that did not start.
pub(crate) fn cannot_run(program: &[OsString], error: &io::Error) -> Failure {
    let status = match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    };
    let program = program.first().map(|name| name.to_string_lossy());
    let message = format!("cannot run {}: {error}", program.unwrap_or_default());
    Failure::with_status(message, status)
}
