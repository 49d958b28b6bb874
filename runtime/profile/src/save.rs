//! The file to which a process writes its profile.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use margay::files;
use parking_lot::Mutex;

use crate::document::Profile;

/// The file of a process.
#[derive(Debug)]
pub(crate) struct SavedFile {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the file may be written next.
    next: Instant,
    has_failed: bool,
}

/// The shortest time between two writes, except the last one.
const PAUSE: Duration = Duration::from_secs(2);
/// The time between two writes is at least this number times the time that a write takes.
const SHARE: u32 = 30;

impl SavedFile {
    pub(crate) fn new(path: PathBuf) -> SavedFile {
        SavedFile {
            path,
            state: Mutex::new(State {
                next: Instant::now() + PAUSE,
                has_failed: false,
            }),
        }
    }

    /// Returns whether enough time has passed since the last write.
    pub(crate) fn is_due(&self) -> bool {
        // If another thread writes the file at the moment, it is not due.
        self.state
            .try_lock()
            .is_some_and(|state| Instant::now() >= state.next)
    }

    /// Writes the profile. If this fails, prints a message for the first failure.
    pub(crate) fn write(&self, profile: impl FnOnce() -> Profile) {
        let mut state = self.state.lock();
        let begun = Instant::now();
        let profile = profile();
        if let Err(error) = files::without_write_signals(|| replace(&self.path, &profile))
            && !std::mem::replace(&mut state.has_failed, true)
        {
            let path = self.path.display();
            files::tell(format_args!("margay: the profile is lost: {path}: {error}"));
        }
        let pause = (begun.elapsed() * SHARE).max(PAUSE);
        state.next = Instant::now() + pause;
    }
}

/// Replaces the file at `path`. A process that is killed leaves the previous file.
fn replace(path: &Path, profile: &Profile) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut out = BufWriter::new(File::create(&new)?);
    serde_json::to_writer(&mut out, profile)?;
    out.flush()?;
    drop(out);
    std::fs::rename(new, path)
}
