//! The log of a checking run: a file to which several processes append lines of JSON.
//!
//! The reader of the log must know whether lines are missing, for example because the disk was
//! full. The reader therefore creates an empty file in the folder of the log ([`complete_marker`]).
//! A process that cannot append a line to the log removes this file; the removal succeeds even if
//! the disk is full.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use margay_jit::files::without_write_signals;
use parking_lot::Mutex;

/// Returns the path of the marker file of the log `log`: the path of the log with `.complete`
/// appended. If this file does not exist, lines of the log are missing.
pub fn complete_marker(log: &Path) -> PathBuf {
    let mut path = OsString::from(log);
    path.push(".complete");
    PathBuf::from(path)
}

/// The part of the log that this process writes.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// The log file, which is opened when this value is created; `None` if it could not be opened.
    /// The file stays open, because a program that has changed its user or its root directory can
    /// no longer open the path.
    opened: Option<Opened>,
    /// The value of `MARGAY_CHECK_LABEL`, which each line contains.
    label: Option<String>,
    last: Mutex<Last>,
}

/// The results of earlier writes to the log.
#[derive(Debug, Default)]
struct Last {
    /// Whether any write has failed. The first failure is reported on standard error.
    has_failed: bool,
    /// Whether the last line of the log may be incomplete.
    is_partial: bool,
}

impl Log {
    /// Returns the log whose path is in the environment variable `MARGAY_CHECK_LOG`; `None` if the
    /// variable is not set.
    pub(super) fn from_env() -> Option<Log> {
        let path = PathBuf::from(std::env::var_os("MARGAY_CHECK_LOG")?);
        let label = crate::environment::env("MARGAY_CHECK_LABEL");
        Some(Log::new(path, label))
    }

    fn new(path: PathBuf, label: Option<String>) -> Log {
        Log {
            opened: Opened::new(&path).ok(),
            path,
            label,
            last: Mutex::default(),
        }
    }

    /// Adds the process ID and the label to a record, and returns the record as a line of the log.
    pub(super) fn line(&self, mut record: serde_json::Value) -> String {
        record["pid"] = std::process::id().into();
        if let Some(label) = &self.label {
            record["label"] = label.as_str().into();
        }
        format!("{record}\n")
    }

    /// Appends lines in a single call, so that lines of several processes do not mix. Returns whether the lines were
    /// written. A failure removes the file [`complete_marker`]; the first failure is reported on standard error.
    pub(super) fn write(&self, lines: &str) -> bool {
        let mut last = self.last.lock();
        // The reader ignores empty lines.
        let separator = if last.is_partial { "\n" } else { "" };
        let result =
            without_write_signals(|| self.append(format!("{separator}{lines}").as_bytes()));
        last.is_partial = result.is_err();
        let Err(error) = result else {
            return true;
        };
        // The file exists only if the log has a reader that looks for it.
        let _ = fs::remove_file(complete_marker(&self.path));
        if !std::mem::replace(&mut last.has_failed, true) {
            let path = self.path.display();
            crate::error::tell(&format_args!(
                "cannot write findings to {path} (MARGAY_CHECK_LOG): {error}; findings that cannot be written are \
                 printed here"
            ));
        }
        false
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.opened {
            Some(opened) if opened.is_open() => (&*opened.file).write_all(bytes),
            _ => open(&self.path)?.write_all(bytes),
        }
    }
}

/// An open log file.
#[derive(Debug)]
struct Opened {
    /// The file is never closed, because the program can have closed this descriptor; the same
    /// descriptor can then belong to another file of the program.
    file: ManuallyDrop<File>,
    /// The device number and the inode number of the file.
    identity: (u64, u64),
}

impl Opened {
    fn new(path: &Path) -> io::Result<Opened> {
        let file = ManuallyDrop::new(open(path)?);
        let identity = identity(&file)?;
        Ok(Opened { file, identity })
    }

    /// Returns whether the descriptor still belongs to the log, and the log has not been deleted.
    fn is_open(&self) -> bool {
        identity(&self.file).is_ok_and(|identity| identity == self.identity)
    }
}

/// Returns the device number and the inode number of a file.
///
/// # Errors
/// Returns an error if the file has been deleted, or if its metadata cannot be read.
fn identity(file: &File) -> io::Result<(u64, u64)> {
    let data = file.metadata()?;
    match data.nlink() {
        0 => Err(io::ErrorKind::NotFound.into()),
        _ => Ok((data.dev(), data.ino())),
    }
}

/// Opens a log so that writes append to it.
fn open(path: &Path) -> io::Result<File> {
    // Without the flag, opening a pipe would wait for its reader.
    OpenOptions::new()
        .create(true)
        .append(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new folder; dropping this value removes it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("margay-log-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).expect("a new folder");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn lines_are_written_after_the_path_has_changed() {
        let folder = Folder::new("moved");
        let path = folder.0.join("log");
        let text = |path: &Path| fs::read_to_string(path).expect("the log");
        let log = Log::new(path.clone(), Some("run 1".to_owned()));
        let line = log.line(serde_json::json!({"event": "start"}));
        assert!(
            line.contains(r#""label":"run 1""#) && line.ends_with('\n'),
            "{line}"
        );
        assert!(log.write("a\n"));
        // The process of a program that changes its root directory cannot open the path again.
        let moved = folder.0.join("moved");
        fs::rename(&path, &moved).unwrap();
        assert!(log.write("b\n"));
        assert_eq!(text(&moved), "a\nb\n");
        fs::remove_file(&moved).unwrap();
        assert!(log.write("c\n"));
        assert_eq!(text(&path), "c\n");
    }

    #[test]
    fn a_line_that_cannot_be_written_removes_the_marker() {
        let folder = Folder::new("missing");
        let path = folder.0.join("missing").join("log");
        let log = Log::new(path.clone(), None);
        assert!(!log.write("a\n"));
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(complete_marker(&path), "").unwrap();
        // The failed write may have written a part of its line.
        assert!(log.write("b\n"));
        assert!(complete_marker(&path).exists());
        assert_eq!(fs::read_to_string(&path).unwrap(), "\nb\n");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(!log.write("c\n"));
        assert!(!complete_marker(&path).exists());
    }
}
