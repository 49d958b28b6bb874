//! Creates and deletes the files of the disk cache, and checks which user has written them.
//!
//! An entry is the file `FOLDER/xx/KEY`. The lowest bits of the key's first byte give `xx`, the subfolder, which is one
//! of [`PARTS`] parts. The size limit is divided equally among the parts, so a process that writes an entry lists only
//! the few files of the entry's part. Processes share no other state than these files. A process
//! writes an entry to a temporary file and then renames this file to the entry's name, so no
//! process reads a partly written entry. The content of an entry never changes. Invariant: a
//! process never waits for another process.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::digest::{self, Digest};
use crate::code_memory::trusted_user;
use crate::files::without_write_signals;

/// Number of parts (subfolders) of the cache folder.
pub(super) const PARTS: u64 = 16;
/// Prefix of the name of a file that is being written.
const DRAFT: &str = "draft-";
/// Age at which the cache assumes that the process that was writing an unfinished file has died.
const DEAD: Duration = Duration::from_secs(3600);
/// Resolution with which the cache records the time of an entry's last use.
const USED: Duration = Duration::from_secs(60);

/// The folder with the entries of a disk cache.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    limit: u64,
    rights: OnceLock<Result<Rights, String>>,
    /// Whether a write has failed. After a failure, this process attempts no further write.
    broken: AtomicBool,
    drafts: AtomicU64,
}

/// The user and the file size limit of this process, determined at the first use of the folder.
#[derive(Clone, Copy, Debug)]
struct Rights {
    /// The user whose files are trusted.
    user: u32,
    /// Largest file that this process may write, in bytes. A write past this size would raise `SIGXFSZ`.
    largest: u64,
}

impl Folder {
    pub(super) fn new(path: PathBuf, limit: u64) -> Folder {
        Folder {
            path,
            limit,
            rights: OnceLock::new(),
            broken: AtomicBool::new(false),
            drafts: AtomicU64::new(0),
        }
    }

    /// Returns why the folder is not used, or `None` if it is usable.
    pub(super) fn refusal(&self) -> Option<String> {
        self.rights().err()
    }

    fn rights(&self) -> Result<Rights, String> {
        let found = self.rights.get_or_init(|| {
            let told = |why: String| format!("{}: {why}", self.path.display());
            check(&self.path).map_err(told)
        });
        found.clone()
    }

    /// Reads an entry if it is a regular file of this process's user, no other user may write to it, and it is not
    /// larger than the limit of its part.
    pub(super) fn read(&self, key: &Digest) -> Option<Vec<u8>> {
        let user = self.rights().ok()?.user;
        // `O_NONBLOCK`: a pipe with the name of an entry must not block this process.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let path = self.path_of(key);
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let mut file = file.ok()?;
        let facts = file.metadata().ok()?;
        if !facts.is_file() || !is_of(&facts, user) || facts.len() > self.share() {
            return None;
        }
        let mut bytes = Vec::with_capacity(facts.len() as usize);
        let limit = facts.len();
        (&mut file).take(limit).read_to_end(&mut bytes).ok()?;
        let age = facts.modified().ok().and_then(|time| time.elapsed().ok());
        if age.is_none_or(|age| age > USED) {
            // The modification time records the last use. If it cannot be set, the entry may be deleted earlier than
            // necessary.
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes)
    }

    /// Returns whether the folder can be used and contains a file with the entry's name, whichever user wrote it.
    pub(super) fn has(&self, key: &Digest) -> bool {
        self.rights().is_ok() && self.path_of(key).is_file()
    }

    /// Deletes the entry of a key, because the content of its file is damaged or belongs to another key.
    pub(super) fn remove(&self, key: &Digest) {
        // If the file cannot be deleted, the next read rejects it again.
        let _ = fs::remove_file(self.path_of(key));
    }

    /// Writes an entry. First deletes the least recently used entries of its part until the new entry fits into the
    /// part's limit. Returns whether the entry was written.
    pub(super) fn write(&self, key: &Digest, bytes: &[u8]) -> bool {
        let size = on_disk(bytes.len() as u64);
        let Ok(rights) = self.rights() else {
            return false;
        };
        if size > self.share().min(rights.largest) || self.broken.load(Ordering::Relaxed) {
            return false;
        }
        let part = self.part_of(key);
        let written = make_folder(&part)
            .and_then(|()| make_room(&part, self.share() - size))
            .and_then(|()| without_write_signals(|| self.put(&part, key, bytes)));
        if written.is_err() {
            self.broken.store(true, Ordering::Relaxed);
        }
        written.is_ok()
    }

    fn put(&self, part: &Path, key: &Digest, bytes: &[u8]) -> std::io::Result<()> {
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let process = std::process::id();
        // The time makes the name unique, because processes of different machines or containers can have the same
        // process ID.
        let draft = part.join(format!("{DRAFT}{process}-{number}-{}", now.as_nanos()));
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)?;
        let written = file
            .write_all(bytes)
            .and_then(|()| fs::rename(&draft, self.path_of(key)));
        if written.is_err() {
            // If this deletion fails, [`make_room`] deletes the file when its age exceeds [`DEAD`].
            let _ = fs::remove_file(&draft);
        }
        written
    }

    /// Returns the maximum number of bytes of the entries in a part.
    fn share(&self) -> u64 {
        self.limit / PARTS
    }

    fn part_of(&self, key: &Digest) -> PathBuf {
        let part = u64::from(key[0]) % PARTS;
        self.path.join(format!("{part:02x}"))
    }

    fn path_of(&self, key: &Digest) -> PathBuf {
        self.part_of(key).join(name_of(key))
    }
}

/// Returns the approximate disk space of a file of `bytes` bytes.
fn on_disk(bytes: u64) -> u64 {
    bytes.next_multiple_of(4096)
}

fn name_of(key: &Digest) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether a file name has the form of an entry's name.
fn is_entry(name: &str) -> bool {
    name.len() == 2 * digest::BYTES && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Creates the folder and checks that this process may execute code from it. If one of these steps fails, returns the
/// reason as the error.
fn check(path: &Path) -> Result<Rights, String> {
    let user = trusted_user().ok_or("this program runs with the rights of another user")?;
    make_folder(path).map_err(|error| error.to_string())?;
    let facts = fs::metadata(path).map_err(|error| error.to_string())?;
    if !facts.is_dir() {
        return Err("not a folder".into());
    }
    match is_of(&facts, user) {
        true => Ok(Rights {
            user,
            largest: largest_file(),
        }),
        false => Err("other users own it or may write to it".into()),
    }
}

/// Returns the limit of the size of files (`ulimit -f`), or `u64::MAX` if there is none.
fn largest_file() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max file size"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    soft.and_then(|soft| soft.parse().ok()).unwrap_or(u64::MAX)
}

/// Returns whether a file or folder belongs to the user and only the user may write to it.
fn is_of(facts: &fs::Metadata, user: u32) -> bool {
    facts.uid() == user && facts.mode() & 0o022 == 0
}

/// Creates a folder and its parent folders. Does not create the user's home folder, because a user without a home
/// folder is meant to have none.
fn make_folder(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    if home.is_some_and(|home| path.starts_with(&home) && !home.is_dir()) {
        return Err(std::io::Error::other("the home folder does not exist"));
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Deletes old unfinished files of a part, and the part's least recently used entries until at most `most` bytes
/// remain.
fn make_room(part: &Path, most: u64) -> std::io::Result<()> {
    let mut entries = Vec::new();
    let mut total = 0;
    for file in fs::read_dir(part)? {
        let file = file?;
        // Another process may have deleted the file in the meantime.
        let Ok(facts) = file.metadata() else { continue };
        let name = file.file_name();
        let name = name.to_str().unwrap_or_default();
        let used = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        if is_entry(name) {
            let bytes = on_disk(facts.len());
            total += bytes;
            entries.push((used, bytes, file.path()));
        } else if name.starts_with(DRAFT) && used.elapsed().is_ok_and(|age| age > DEAD) {
            let _ = fs::remove_file(file.path());
        }
    }
    entries.sort_unstable();
    for (_, bytes, path) in entries {
        if total <= most {
            break;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => total -= bytes,
        }
    }
    Ok(())
}
