//! `margay run`: a CUDA program with our driver library in front of all others.
//!
//! The process becomes the program, so its exit code, signals and terminal are its own. Invariant:
//! the folder put into `LD_LIBRARY_PATH` belongs to the user and holds `libcuda.so.1` alone.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::output::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  margay run -- ./vector_add 1000000
  margay run --workers 1 --time-limit 10 -- ./reduction
  margay run --trace-api -- python3 train.py

The exit code is the program's; 127 when there is no such program, 126 when it cannot be run.";

/// The arguments of `margay run`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Worker threads (default: one for each core).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: Option<u32>,
    /// End a launch that runs longer, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time_limit: Option<f64>,
    /// What executes kernels.
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// Compute capability to report, such as 8.6.
    #[arg(long, value_name = "X.Y")]
    capability: Option<String>,
    /// Log every call of the driver API.
    #[arg(long)]
    trace_api: bool,
    /// Run blocks and warps in the opposite order (finds programs that rely on it).
    #[arg(long)]
    reverse: bool,
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    program: Vec<OsString>,
}

/// What executes kernels.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Engine {
    /// Native code, and the interpreter for what it cannot do.
    Native,
    /// The interpreter alone.
    Interpreter,
}

/// Read by the library.
pub(crate) const ENGINE_VARIABLE: &str = "MARGAY_ENGINE";

impl Engine {
    /// The variable's value.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Native => "native",
            Engine::Interpreter => "interpreter",
        }
    }
}

/// Parses a positive number of seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if seconds > 0.0 && seconds.is_finite() {
        Ok(seconds)
    } else {
        Err("must be over 0".to_owned())
    }
}

/// The driver library: `MARGAY_LIBCUDA`, or what lies beside this program.
pub(crate) fn libcuda() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os("MARGAY_LIBCUDA").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        return fs::canonicalize(&path)
            .map_err(|e| Failure::from(format!("MARGAY_LIBCUDA: {}: {e}", path.display())));
    }
    let program = std::env::current_exe()
        .and_then(fs::canonicalize)
        .map_err(|e| format!("cannot find the place of this program: {e}"))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.to_owned(), folder.join("../lib")];
    let files = places
        .iter()
        .flat_map(|folder| ["libcuda.so", "libcuda.so.1"].map(|name| folder.join(name)));
    for file in files {
        if let Ok(path) = fs::canonicalize(file) {
            return Ok(path);
        }
    }
    Err(format!(
        "libcuda.so is not in {}; build it with `cargo build --release`, or name it in MARGAY_LIBCUDA",
        folder.display()
    )
    .into())
}

/// A folder for what lives while the user is logged in.
fn base_folder(user: u32) -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute()) {
        Some(runtime) if Path::new(&runtime).is_dir() => PathBuf::from(runtime).join("margay"),
        _ => std::env::temp_dir().join(format!("margay-{user}")),
    }
}

/// Makes a folder that nobody else can write, or sees that it is one.
fn own_folder(path: &Path, user: u32) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    // Another user could have made it first, and a library of theirs would run as ours.
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "is not a folder of this user alone",
        ));
    }
    Ok(())
}

/// A folder in which `libcuda.so.1` is `library`; one for each place of the library.
fn link_folder(library: &Path) -> io::Result<PathBuf> {
    let user = fs::metadata("/proc/self")?.uid();
    let base = base_folder(user);
    own_folder(&base, user)?;
    let mut key = DefaultHasher::new();
    library.hash(&mut key);
    let folder = base.join(format!("{:016x}", key.finish()));
    own_folder(&folder, user)?;
    let link = folder.join("libcuda.so.1");
    if fs::read_link(&link).ok().as_deref() != Some(library) {
        // Under a name of its own first: another `margay run` may be at the same place.
        let fresh = folder.join(format!("new-{}", std::process::id()));
        let _ = fs::remove_file(&fresh);
        symlink(library, &fresh)?;
        fs::rename(&fresh, &link)?;
    }
    Ok(folder)
}

fn library_path(first: PathBuf) -> Result<OsString, Failure> {
    let rest = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let rest = std::env::split_paths(&rest).filter(|path| !path.as_os_str().is_empty());
    std::env::join_paths(std::iter::once(first).chain(rest))
        .map_err(|e| Failure::from(format!("LD_LIBRARY_PATH: {e}")))
}

fn settings(arguments: &Arguments) -> Vec<(&'static str, String)> {
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
    if arguments.trace_api {
        settings.push(("MARGAY_TRACE_API", "1".into()));
    }
    if arguments.reverse {
        settings.push(("MARGAY_ORDER", "reverse".into()));
    }
    settings
}

/// Becomes the program; returns only when that fails.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let library = libcuda()?;
    let folder =
        link_folder(&library).map_err(|e| format!("cannot make a folder for libcuda.so.1: {e}"))?;
    let [program, rest @ ..] = arguments.program.as_slice() else {
        return Err(String::from("no program").into());
    };
    let error = Command::new(program)
        .args(rest)
        .env("LD_LIBRARY_PATH", library_path(folder)?)
        .envs(settings(arguments))
        .exec();
    let status = match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    };
    let message = format!("cannot run {}: {error}", program.to_string_lossy());
    Err(Failure::with_status(message, status))
}
