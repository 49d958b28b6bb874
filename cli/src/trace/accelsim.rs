//! The folder with instruction traces for Accel-Sim.

use std::fs;
use std::io;
use std::path::Path;

use margay_accelsim::Launch;

use crate::output::{Failure, note};

/// How instruction traces are written. The environment variables of the original tracer have their effect, too.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Options {
    /// The architecture whose instructions the trace contains. By default, the target of each module decides.
    #[arg(long, value_name = "SM", value_parser = ["70", "75", "80", "86"])]
    sm: Option<String>,
    /// Also write raw traces, which the original tools group.
    #[arg(long)]
    raw: bool,
    /// Write the compressed container of the simulator's development line instead of text.
    #[arg(long)]
    tracez: bool,
    /// Compress the files with xz.
    #[arg(long)]
    xz: bool,
    /// Begin each line with the number of its source line.
    #[arg(long)]
    line_info: bool,
    /// The version of the line syntax.
    #[arg(long, value_name = "VERSION", value_parser = ["3", "4", "5", "6"])]
    trace_version: Option<String>,
}

impl Options {
    /// Returns the environment variables that pass the options to the library.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut forms = vec![if self.tracez { "packed" } else { "grouped" }];
        if self.raw {
            forms.push("raw");
        }
        let mut variables = vec![("MARGAY_TRACE_FORMS", forms.join(","))];
        if let Some(sm) = &self.sm {
            variables.push(("MARGAY_TRACE_ARCHITECTURE", sm.clone()));
        }
        if let Some(version) = &self.trace_version {
            variables.push(("MARGAY_TRACE_VERSION", version.clone()));
        }
        if self.xz {
            variables.push(("TRACE_FILE_COMPRESS", "1".to_owned()));
        }
        if self.line_info {
            variables.push(("TRACE_LINEINFO", "1".to_owned()));
        }
        variables
    }
}

/// Removes the traces of an earlier run from a folder.
pub(super) fn prepare(folder: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| format!("{}: {error}", folder.display());
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_trace = name.starts_with("kernel-") && name.contains(".trace");
        if is_trace || ["kernelslist", "kernelslist.g", "stats.csv", "process"].contains(&&*name) {
            fs::remove_file(entry.path()).map_err(failed)?;
        } else if name.starts_with("process-") && entry.path().join("stats.csv").is_file() {
            fs::remove_dir_all(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

/// Prints how many instructions were traced, and removes the file that marks the folder of the first process.
pub(super) fn summarise(folder: &Path) -> Result<(), Failure> {
    let _ = fs::remove_file(folder.join("process"));
    let stats = folder.join("stats.csv");
    if !stats.is_file() {
        note("margay: the program did not use CUDA, so there are no traces");
        return Ok(());
    }
    let launches = Launch::read(&stats).map_err(|error| error.to_string())?;
    let written: u64 = launches.iter().map(|launch| launch.reported).sum();
    let traced = launches
        .iter()
        .filter(|launch| launch.reported != 0)
        .count();
    note(&format!(
        "margay: {}: {traced} of {} launches, {written} warp instructions",
        folder.display(),
        launches.len()
    ));
    Ok(())
}
