//! The log of a checking run: a file to which several processes append lines of JSON.
//!
//! The reader of the log must know if lines are missing, for example because the disk was full. It therefore creates an
//! empty file beside the log ([`complete_marker`]), and a process that cannot append a line removes this file, which
//! needs no space on the disk.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use margay_jit::files::without_size_signal;
use parking_lot::Mutex;

/// Returns the path of the file whose absence states that lines of the log `log` are missing: the path of the log with
/// `.complete` appended.
pub fn complete_marker(log: &Path) -> PathBuf {
    let mut path = OsString::from(log);
    path.push(".complete");
    PathBuf::from(path)
}

/// The part of the log that this process writes.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// The value of `MARGAY_CHECK_LABEL`, which each line contains.
    label: Option<String>,
    last: Mutex<Last>,
}

/// The result of the last write.
#[derive(Debug, Default)]
struct Last {
    /// Whether any write has failed. The first failure is reported on standard error.
    has_failed: bool,
    /// Whether the log can end with a part of a line.
    is_partial: bool,
}

impl Log {
    /// Returns the log that the environment names; `None` if it names none.
    pub(super) fn from_env() -> Option<Log> {
        Some(Log {
            path: PathBuf::from(std::env::var_os("MARGAY_CHECK_LOG")?),
            label: crate::environment::env("MARGAY_CHECK_LABEL"),
            last: Mutex::default(),
        })
    }

    /// Returns the line for a record, to which this function adds the process ID and the label.
    pub(super) fn line(&self, mut record: serde_json::Value) -> String {
        record["pid"] = std::process::id().into();
        if let Some(label) = &self.label {
            record["label"] = label.as_str().into();
        }
        format!("{record}\n")
    }

    /// Appends lines in a single call, so that lines of several processes do not mix. Returns whether this has
    /// succeeded. The first failure is reported on standard error.
    pub(super) fn write(&self, lines: &str) -> bool {
        let mut last = self.last.lock();
        // The reader ignores empty lines.
        let separator = if last.is_partial { "\n" } else { "" };
        let result = without_size_signal(|| self.append(format!("{separator}{lines}").as_bytes()));
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
        // Without the flag, opening a pipe would wait for its reader.
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&self.path)?;
        file.write_all(bytes)
    }
}
