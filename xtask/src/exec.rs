//! Runs other programs, and returns paths of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;

/// Returns the path of the repository's root: the folder that contains this crate's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the repository")
        .to_owned()
}

/// Returns the paths of the files and folders in a folder, sorted by name.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let error = |e: std::io::Error| format!("{}: {e}", folder.display());
    let read = std::fs::read_dir(folder).map_err(error)?;
    let mut all = read
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(error)?;
    all.sort();
    Ok(all)
}

/// Reads a TOML file.
pub(crate) fn toml(path: &Path) -> Result<toml::Table, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    text.parse().map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns the folders of the workspace's crates, relative to the root.
pub(crate) fn members() -> Result<Vec<String>, String> {
    let manifest = toml(&root().join("Cargo.toml"))?;
    let members = manifest["workspace"]["members"].as_array();
    let members = members.ok_or("Cargo.toml has no members")?;
    let names = members.iter().filter_map(toml::Value::as_str);
    Ok(names.map(str::to_owned).collect())
}

/// Returns the folder to which Cargo writes release builds. It depends on `CARGO_TARGET_DIR`.
pub(crate) fn release_dir() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    root().join(target).join("release")
}

/// Returns a command that runs the same `cargo` program that has started this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Arguments for cargo that build all libraries and programs of the workspace, and the demonstration.
///
/// Because one target is an example, Cargo enables the same features of the dependencies as for
/// tests. Cargo therefore compiles the code generator only once for these targets and for tests.
pub(crate) const BUILD_PROGRAMS: &[&str] = &[
    "build",
    "--release",
    "--workspace",
    "--lib",
    "--bins",
    "--example",
    "demo",
];

/// Builds the targets of [`BUILD_PROGRAMS`].
pub(crate) fn build_programs() -> Outcome {
    run(cargo().args(BUILD_PROGRAMS))
}

/// Runs `command` with its output on the terminal. The error contains the command line.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = command
        .status()
        .map_err(|e| format!("{}: {e}", show(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} ended with {status}", show(command)))
    }
}

/// Runs `command` and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|e| format!("{}: {e}", show(command)))?;
    if !output.status.success() {
        // Some programs, such as pytest, report errors on standard output, so this output is used if standard error is
        // empty.
        let said = match output.stderr.trim_ascii() {
            [] => String::from_utf8_lossy(&output.stdout),
            said => String::from_utf8_lossy(said),
        };
        return Err(format!(
            "{} ended with {}: {}",
            show(command),
            output.status,
            said.trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the text of a command in the form in which a user types it.
pub(crate) fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|w| w.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}
