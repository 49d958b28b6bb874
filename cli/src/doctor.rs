//! `margay doctor`: lists the CUDA code and the libraries that a program would load, and states whether the program
//! would run. For folders and Python environments, the command lists the device code of each package. Without a program,
//! the command describes this machine.
//!
//! Invariant: the command does not execute code of the program.

mod images;
mod packages;
mod python;
mod replaced;
mod report;
mod scan;
mod tally;
mod window;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use margay::Runtime;
use margay::container::{Container, EntryKind, HostSection, choose, host_containers};
use margay::device::{DeviceConfig, VISIBLE_DEVICES};
use margay_cli::input;
use serde_json::{Value, json};

use crate::output::{Failure, Outcome, Paint, Report, paint, with_progress};
use crate::program::{is_elf, needed};
use crate::run::libcuda;

const EXAMPLES: &str = "\
Examples:
  margay doctor
  margay doctor -- ./vector_add
  margay doctor --json -- ./vector_add
  margay doctor -- venv/bin/python train.py
  margay doctor --python venv
  margay doctor /opt/application

The exit status is 1 if the program or the files contain device code and none of it can run.";

/// The arguments of `margay doctor`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Describe the packages of a Python environment: the folder of the environment, or its interpreter.
    #[arg(long, value_name = "PATH", conflicts_with = "program", value_hint = clap::ValueHint::AnyPath)]
    python: Option<PathBuf>,
    /// A program (its arguments are ignored), a script, or folders and files that are searched for device code.
    #[arg(value_name = "PROGRAM|FOLDER|FILE", num_args = 0.., trailing_var_arg = true)]
    program: Vec<PathBuf>,
}

/// Describes the program or the files, or this machine if none is given.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if let Some(path) = &arguments.python {
        return environment(&python::environment(path)?, arguments.json);
    }
    let Some(program) = arguments.program.first() else {
        return machine(arguments.json);
    };
    if program.join("pyvenv.cfg").exists() {
        return environment(&python::environment(program)?, arguments.json);
    }
    if let Some(interpreter) = python::interpreter(program) {
        return environment(&interpreter, arguments.json);
    }
    match searched(&arguments.program) {
        Some(paths) => search(paths, arguments.json),
        None => explain(program, arguments.json),
    }
}

/// Size in bytes of a file whose images are counted and not listed.
const LARGE: u64 = 64 << 20;

/// Returns the folders and files to search: all arguments if the first is a folder, or if they are several existing files
/// and the first is a library, an object file or an archive; otherwise the first if it is a large file. Returns `None` if
/// the arguments are a program with its arguments.
fn searched(paths: &[PathBuf]) -> Option<&[PathBuf]> {
    let first = paths.first()?;
    let name = first.file_name().unwrap_or_default().to_string_lossy();
    let is_library = name.contains(".so") || name.ends_with(".o") || name.ends_with(".a");
    let are_files = || paths.len() > 1 && is_library && paths.iter().all(|path| path.exists());
    let is_large = || {
        first
            .metadata()
            .is_ok_and(|f| f.is_file() && f.len() > LARGE)
    };
    match first.is_dir() || are_files() {
        true => Some(paths),
        false => is_large().then(|| std::slice::from_ref(first)),
    }
}

/// Returns the capability that devices report, as 86 for 8.6.
fn capability() -> u32 {
    let capability = DeviceConfig::from_env().capability;
    capability.major * 10 + capability.minor
}

/// Reads the files below `paths`, whose packages have records in `folders`.
fn findings(paths: &[PathBuf], folders: &[PathBuf]) -> report::Findings {
    let scanned = scan::read(&scan::files(paths));
    let packages = packages::Records::read(folders).packages(scanned);
    // Without a driver library, nothing is replaced.
    let library = libcuda().unwrap_or_default();
    let libraries = library.parent().unwrap_or(Path::new("")).to_owned();
    report::Findings::of(packages, libraries, capability())
}

/// Describes the device code of files and folders.
fn search(paths: &[PathBuf], as_json: bool) -> Outcome {
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        return Err(format!("{}: no such file or folder", missing.display()).into());
    }
    let findings = with_progress("reading files", || findings(paths, paths));
    let text = match as_json {
        true => format!("{}\n", findings.to_json()),
        false => findings.text(),
    };
    let status = u8::from(findings.nothing_runs());
    Ok(Report { text, status })
}

/// Describes the packages of a Python environment.
fn environment(interpreter: &Path, as_json: bool) -> Outcome {
    let folders = python::package_folders(interpreter);
    let clients = python::Clients::read(interpreter, &folders);
    let findings = with_progress("reading packages", || findings(&folders, &folders));
    let text = match as_json {
        true => {
            let mut document = clients.to_json();
            document["device_code"] = findings.to_json();
            format!("{document}\n")
        }
        false => format!("{}{}", clients.text(), findings.text()),
    };
    let status = u8::from(clients.none_works());
    Ok(Report { text, status })
}

fn machine(as_json: bool) -> Outcome {
    let runtime = Runtime::new()?;
    let config = DeviceConfig::from_env();
    let visible = config.visible_devices();
    let (major, minor) = (config.capability.major, config.capability.minor);
    let library = libcuda().map(|path| path.display().to_string());
    let library_text = match &library {
        Ok(path) => path.clone(),
        Err(failure) => failure.message.clone(),
    };
    let driver = runtime.driver_version();
    let facts = [
        ("margay", json!(env!("CARGO_PKG_VERSION"))),
        ("libcuda", json!(library_text)),
        (
            "driver",
            json!(format!("{}.{}", driver / 1000, driver % 1000 / 10)),
        ),
        ("device", json!(config.name)),
        ("devices", json!(config.devices)),
        ("visible_devices", json!(visible)),
        (VISIBLE_DEVICES, json!(config.visible)),
        ("capability", json!(format!("{major}.{minor}"))),
        ("multiprocessors", json!(config.sms)),
        ("memory", json!(config.total_memory())),
        ("workers", json!(runtime.workers())),
        ("architecture", json!(std::env::consts::ARCH)),
        ("cpu_features", json!(cpu_features())),
    ];
    let text = if as_json {
        let map: serde_json::Map<String, Value> = facts
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        format!("{}\n", Value::Object(map))
    } else {
        let mut text = String::new();
        for (name, value) in facts.iter().filter(|(_, value)| !value.is_null()) {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            let _ = writeln!(
                text,
                "{} {value}",
                paint(&format!("{name:<20}"), Paint::Heading)
            );
        }
        if visible.is_empty() {
            let hidden = format!("{VISIBLE_DEVICES} hides every device: programs find none");
            let _ = writeln!(text, "{}", paint(&hidden, Paint::Bad));
        }
        text
    };
    Ok(Report {
        text,
        status: u8::from(library.is_err() || visible.is_empty()),
    })
}

/// Returns the processor features that affect generated code.
fn cpu_features() -> String {
    #[cfg(target_arch = "x86_64")]
    let found: [(&str, bool); 5] = [
        ("sse4.1", std::arch::is_x86_feature_detected!("sse4.1")),
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("fma", std::arch::is_x86_feature_detected!("fma")),
        ("bmi2", std::arch::is_x86_feature_detected!("bmi2")),
        ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let found: [(&str, bool); 0] = [];
    let names = found
        .iter()
        .filter(|(_, there)| *there)
        .map(|(name, _)| *name);
    names.collect::<Vec<_>>().join(" ")
}

/// The entries (PTX texts and cubins) of a fat binary, and the entry that Margay would compile.
struct Held {
    section: &'static str,
    entries: Vec<(String, String)>,
    choice: Result<String, String>,
    /// Whether every entry of the fat binary is a cubin without functions and variables.
    is_stub: bool,
}

fn held(section: HostSection, container: &Container<'_>, capability: u32) -> Held {
    let entries = container.entries.iter();
    Held {
        section: match section {
            HostSection::Module => "module",
            HostSection::Linked => "linked at start",
        },
        entries: entries
            .map(|e| (e.info.kind.to_string(), e.info.target()))
            .collect(),
        choice: choose(container, capability)
            .map_err(|e| e.to_string())
            .and_then(|entry| {
                // An entry that cannot be decompressed cannot be loaded.
                entry.text().map_err(|e| e.to_string())?;
                Ok(format!("{} {}", EntryKind::Ptx, entry.info.target()))
            }),
        is_stub: container.is_stub(),
    }
}

fn explain(program: &Path, as_json: bool) -> Outcome {
    let name = program.display();
    let bytes = input::read_regular(program, input::MAX_FILE)
        .map_err(|e| Failure::from(format!("{name}: {e}")))?;
    if !is_elf(&bytes) {
        return Err(
            format!("{name} is not a 64-bit ELF file; specify the program that it starts").into(),
        );
    }
    let capability = capability();
    let containers = host_containers(&bytes).map_err(|e| format!("{name}: {e}"))?;
    let held: Vec<Held> = containers
        .iter()
        .map(|host| held(host.section, &host.container, capability))
        .collect();
    let libraries: Vec<String> = needed(&bytes)
        .into_iter()
        .filter(|library| library.starts_with("libcu") || library.starts_with("libnv"))
        .collect();
    let verdict = verdict(&held, &libraries);
    let text = if as_json {
        let containers: Vec<Value> = held.iter().map(to_json).collect();
        let document = json!({
            "program": name.to_string(),
            "capability": capability,
            "containers": containers,
            "libraries": libraries,
            "runs": verdict.is_ok(),
            "verdict": verdict.as_ref().unwrap_or_else(|e| e),
        });
        format!("{document}\n")
    } else {
        text(&held, &libraries, &verdict)
    };
    Ok(Report {
        text,
        status: u8::from(verdict.is_err()),
    })
}

fn to_json(held: &Held) -> Value {
    let entries: Vec<Value> = held
        .entries
        .iter()
        .map(|(kind, target)| json!({"kind": kind, "target": target}))
        .collect();
    json!({
        "section": held.section,
        "entries": entries,
        "loads": held.choice.as_ref().ok(),
        "problem": held.choice.as_ref().err().filter(|_| !held.is_stub),
    })
}

/// Returns a sentence that states whether the program would run.
fn verdict(held: &[Held], libraries: &[String]) -> Result<String, String> {
    let runtime = match libraries.iter().find(|name| name.starts_with("libcudart.")) {
        Some(name) => format!("NVIDIA's runtime is loaded from {name}, which must be installed"),
        None => "NVIDIA's runtime, if used, is linked statically".to_owned(),
    };
    // CUDA toolkits link a fat binary without code into programs. No program loads this fat binary, so it needs no PTX.
    let (stubs, full): (Vec<&Held>, Vec<&Held>) = held.iter().partition(|h| h.is_stub);
    let bad = full.iter().filter(|h| h.choice.is_err()).count();
    match (full.len(), bad) {
        (0, _) if !stubs.is_empty() => Ok(format!(
            "no device code, only empty fat binaries; {runtime}"
        )),
        (0, _) if libraries.is_empty() => {
            Ok("no device code here; a library that it loads may contain some".to_owned())
        }
        (0, _) => Ok(format!("no device code here; {runtime}")),
        (all, 0) => Ok(format!(
            "all {all} modules contain PTX that can be loaded; {runtime}"
        )),
        (all, bad) if bad == all => Err(
            "no module contains PTX: build with -gencode arch=compute_XX,code=compute_XX".into(),
        ),
        (all, bad) => Ok(format!(
            "{bad} of {all} modules contain no PTX and fail when one of their kernels is used; {runtime}"
        )),
    }
}

fn text(held: &[Held], libraries: &[String], verdict: &Result<String, String>) -> String {
    let mut text = String::new();
    for (index, h) in held.iter().enumerate() {
        let entries: Vec<String> = h.entries.iter().map(|(k, t)| format!("{k} {t}")).collect();
        let head = paint(
            &format!("fat binary {index} ({})", h.section),
            Paint::Heading,
        );
        let _ = writeln!(text, "{head}: {}", entries.join(", "));
        let _ = match &h.choice {
            _ if h.is_stub => writeln!(text, "  empty, left by the linker"),
            Ok(choice) => writeln!(text, "  loads {choice}"),
            Err(problem) => writeln!(text, "  {}", paint(problem, Paint::Bad)),
        };
    }
    for library in libraries {
        let _ = writeln!(text, "needs {library}");
    }
    let _ = match verdict {
        Ok(verdict) => writeln!(text, "{}", paint(verdict, Paint::Good)),
        Err(verdict) => writeln!(text, "{}", paint(verdict, Paint::Bad)),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(is_good: bool, is_stub: bool) -> Held {
        Held {
            section: "module",
            entries: Vec::new(),
            choice: match is_good {
                true => Ok("PTX sm_86".to_owned()),
                false => Err("no PTX".to_owned()),
            },
            is_stub,
        }
    }

    #[test]
    fn what_linking_leaves_is_no_alarm() {
        let said = |held: &[Held]| verdict(held, &[]);
        let fine = said(&[module(false, true), module(true, false)]).expect("it runs");
        assert!(fine.starts_with("all 1 modules contain PTX"), "{fine}");
        let some = said(&[module(false, false), module(true, false)]).expect("it may run");
        assert!(some.starts_with("1 of 2 modules contain no PTX"), "{some}");
        assert!(said(&[module(false, true), module(false, false)]).is_err());
        assert!(said(&[module(false, true)]).is_ok());
    }
}
