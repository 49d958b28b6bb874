//! Replaces placeholders such as `%p` in the names of report files, writes these files, and creates the log file of a
//! checking run.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use margay::checks::complete_marker;
use serde::Serialize;

/// Returns `name` with `%p` replaced by the process ID `pid`, `%q{VARIABLE}` by the value of an environment variable,
/// and `%%` by `%`.
///
/// # Errors
/// Returns an error message if a `%` is at the end of `name` or begins none of these three forms.
pub(crate) fn expand(name: &str, pid: u32) -> Result<PathBuf, String> {
    let mut out = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let mut chars = after.chars();
        match chars.next() {
            Some('%') => out.push('%'),
            Some('p') => out.push_str(&pid.to_string()),
            Some('q') => {
                let braced = chars.as_str().strip_prefix('{');
                let (variable, end) = braced
                    .and_then(|text| text.split_once('}'))
                    .ok_or_else(|| format!("{name}: no {{VARIABLE}} follows %q"))?;
                out.push_str(&std::env::var(variable).unwrap_or_default());
                rest = end;
                continue;
            }
            Some(other) => {
                return Err(format!(
                    "{name}: %{other} is not supported; use %%, %p, %q{{VARIABLE}}"
                ));
            }
            None => return Err(format!("{name}: a character must follow %")),
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    Ok(PathBuf::from(out))
}

/// Writes a file.
///
/// # Errors
/// The error text that the function returns contains the file's name.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a JSON file, without building its text in memory.
///
/// # Errors
/// The error text that the function returns contains the file's name.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        serde_json::to_writer_pretty(&mut out, value)?;
        out.write_all(b"\n")?;
        out.flush()
    };
    write().map_err(|error: io::Error| format!("{}: {error}", path.display()))
}

/// Creates a folder for temporary files of the command `command`, which only this user can read. Returns its path.
///
/// # Errors
/// Returns the system's error if the folder cannot be created.
pub(crate) fn new_folder(command: &str) -> io::Result<PathBuf> {
    let parent = std::env::temp_dir();
    let mut number = 0;
    loop {
        let folder = parent.join(format!("margay-{command}-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                number += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The log file, to which the processes of the checked program append findings, and the file that
/// states that no finding is missing ([`complete_marker`]). Dropping this value removes both files
/// and their folder. If a process of the program still runs at this time, it cannot create the file
/// again, and prints its findings instead.
pub(crate) struct LogFile(PathBuf);

impl LogFile {
    /// Creates both files in a new folder, which only this user can read.
    pub(crate) fn new() -> io::Result<LogFile> {
        let log = LogFile(new_folder("check")?.join("findings.log"));
        File::create(&log.0)?;
        File::create(complete_marker(&log.0))?;
        Ok(log)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns whether every process of the checked program could append all of its lines to the
    /// log file.
    pub(crate) fn is_complete(&self) -> bool {
        self.0.exists() && complete_marker(&self.0).exists()
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(complete_marker(&self.0));
        let _ = fs::remove_file(&self.0);
        if let Some(folder) = self.0.parent() {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_expanded() {
        let name = |text| expand(text, 42);
        assert_eq!(name("a.log"), Ok(PathBuf::from("a.log")));
        assert_eq!(name("a%p-%%.log"), Ok(PathBuf::from("a42-%.log")));
        let package = PathBuf::from("xmargay-cliy");
        assert_eq!(name("x%q{CARGO_PKG_NAME}y"), Ok(package));
        assert_eq!(name("%q{NO_SUCH_VARIABLE_}z"), Ok(PathBuf::from("z")));
        for wrong in ["%", "a%d", "%q", "%qHOME", "%q{HOME"] {
            assert!(name(wrong).unwrap_err().starts_with(wrong), "{wrong}");
        }
    }

    #[test]
    fn logs_are_separate_and_removed() {
        let (a, b) = (
            LogFile::new().expect("a file"),
            LogFile::new().expect("a file"),
        );
        let path = a.path().to_owned();
        let marker = complete_marker(&path);
        assert_ne!(path, b.path());
        assert!(path.exists() && a.is_complete());
        fs::remove_file(&marker).unwrap();
        assert!(!a.is_complete() && b.is_complete());
        drop(a);
        assert!(!path.exists());
        let marker = complete_marker(b.path());
        drop(b);
        assert!(!marker.exists());
        assert!(!marker.parent().expect("a folder").exists());
    }
}
