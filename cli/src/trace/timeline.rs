//! The files with the timelines of a program's processes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::check::files;
use crate::output::{Failure, note};

/// A new folder to which each process writes its timeline. Dropping this value removes the folder.
pub(super) struct Timelines {
    folder: PathBuf,
    /// The environment variable that requests the timeline.
    variable: &'static str,
    out: PathBuf,
}

impl Timelines {
    /// Creates the folder. The timelines move to `out` when the program has ended.
    pub(super) fn new(variable: &'static str, out: &Path) -> Result<Timelines, Failure> {
        let folder = files::new_folder("timeline");
        let folder =
            folder.map_err(|error| format!("cannot create a folder for the timeline: {error}"))?;
        Ok(Timelines {
            folder,
            variable,
            out: out.to_owned(),
        })
    }

    /// Returns the environment variable that requests the timeline, and its value.
    pub(super) fn variable(&self) -> (&'static str, &Path) {
        (self.variable, &self.folder)
    }

    /// Moves the timelines to their places: that of the process `main` to the file that the user has named, and those of
    /// other processes beside it, with their numbers in the names. If the process `main` has none, another process takes
    /// its place.
    pub(super) fn place(&self, main: u32) -> Result<(), Failure> {
        let failed = |error: io::Error| format!("{}: {error}", self.out.display());
        let mut parts = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let number = path
                .file_stem()
                .and_then(|stem| stem.to_str()?.parse::<u32>().ok());
            parts.extend(number.map(|number| (number != main, number, path)));
        }
        parts.sort();
        if parts.is_empty() {
            note("margay: the program did not use CUDA, so there is no timeline");
        }
        for (index, (_, number, part)) in parts.iter().enumerate() {
            let out = match index {
                0 => self.out.clone(),
                _ => beside(&self.out, *number),
            };
            // The folder can be in another file system.
            fs::copy(part, &out).map_err(|error| format!("{}: {error}", out.display()))?;
            note(&format!(
                "margay: {}: the timeline of process {number}",
                out.display()
            ));
        }
        Ok(())
    }
}

/// Returns the path of the timeline of a further process: `out-42.json` for `out.json`.
fn beside(out: &Path, process: u32) -> PathBuf {
    let mut name = out.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{process}"));
    if let Some(extension) = out.extension() {
        name.push(".");
        name.push(extension);
    }
    out.with_file_name(name)
}

impl Drop for Timelines {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_further_processes_have_their_numbers_in_the_names() {
        let name = |out: &str| beside(Path::new(out), 42);
        assert_eq!(name("a/out.json"), Path::new("a/out-42.json"));
        assert_eq!(name("out"), Path::new("out-42"));
    }
}
