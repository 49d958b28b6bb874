//! The files of the cache: who may have written them, how they come and go.
//!
//! `FOLDER/xx/KEY`, with the key's lowest bits in `xx`: one of [`PARTS`] parts, each of which keeps its share of
//! the limit for itself. So writing an entry looks at a few files only, and there is no state that processes share
//! but the files: an entry appears under its name whole (`rename`) and is never changed. Invariant: nothing waits
//! for another process.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::digest::{self, Digest};
use crate::code_memory::trusted_user;
use crate::files::without_size_signal;

/// Parts of the folder.
pub(super) const PARTS: u64 = 64;
/// The name of a file that is being written begins so.
const DRAFT: &str = "draft-";
/// A draft this old belongs to a process that died.
const DEAD: Duration = Duration::from_secs(3600);
/// The time of an entry's last use is as exact as this.
const USED: Duration = Duration::from_secs(60);

/// A folder of entries.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    limit: u64,
    rights: OnceLock<Result<Rights, String>>,
    /// Whether writing has failed: it would again.
    broken: AtomicBool,
    drafts: AtomicU64,
}

/// What was found when the folder was first needed.
#[derive(Clone, Copy, Debug)]
struct Rights {
    /// Whose files are good.
    user: u32,
    /// Bytes of a file that this process may write; one more, and a signal ends it.
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

    /// Why the folder is not used.
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

    /// The whole entry, if there is one that only its owner, this process's user, can have written.
    pub(super) fn read(&self, key: &Digest) -> Option<Vec<u8>> {
        let user = self.rights().ok()?.user;
        // A pipe of that name must not hold this process up.
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
            // Where that is impossible, the entry goes earlier than it should.
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes)
    }

    /// Whether there is a file of that name, whoever wrote it.
    pub(super) fn has(&self, key: &Digest) -> bool {
        self.rights().is_ok() && self.path_of(key).is_file()
    }

    /// Removes an entry that is of no use.
    pub(super) fn remove(&self, key: &Digest) {
        // Where that is impossible, it is found useless again.
        let _ = fs::remove_file(self.path_of(key));
    }

    /// Writes an entry and drops those of its part that were not used for longest, as far as they are too much.
    /// Whether it was written.
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
            .and_then(|()| without_size_signal(|| self.put(&part, key, bytes)));
        if written.is_err() {
            self.broken.store(true, Ordering::Relaxed);
        }
        written.is_ok()
    }

    fn put(&self, part: &Path, key: &Digest, bytes: &[u8]) -> std::io::Result<()> {
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let process = std::process::id();
        // Processes of different machines or containers may have one number.
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
            // Where that is impossible, it is removed when it is old.
            let _ = fs::remove_file(&draft);
        }
        written
    }

    /// Most bytes of a part.
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

/// What a file of so many bytes takes of a disk, about.
fn on_disk(bytes: u64) -> u64 {
    bytes.next_multiple_of(4096)
}

fn name_of(key: &Digest) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a file is called as entries are.
fn is_entry(name: &str) -> bool {
    name.len() == 2 * digest::BYTES && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Makes the folder and looks whether code from it may be run; if not, why.
fn check(path: &Path) -> Result<Rights, String> {
    let user = trusted_user().ok_or("this program runs with the rights of another user")?;
    make_folder(path).map_err(|error| error.to_string())?;
    let facts = fs::metadata(path).map_err(|error| error.to_string())?;
    if !facts.is_dir() {
        return Err("no folder".into());
    }
    match is_of(&facts, user) {
        true => Ok(Rights {
            user,
            largest: largest_file(),
        }),
        false => Err("others may write to it".into()),
    }
}

/// The limit of the size of files, where there is one (`ulimit -f`).
fn largest_file() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max file size"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    soft.and_then(|soft| soft.parse().ok()).unwrap_or(u64::MAX)
}

/// Whether only this user may write to a file or folder.
fn is_of(facts: &fs::Metadata, user: u32) -> bool {
    facts.uid() == user && facts.mode() & 0o022 == 0
}

fn make_folder(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Leaves at most `most` bytes in a part: entries go in the order of their last use, and drafts when they are old.
fn make_room(part: &Path, most: u64) -> std::io::Result<()> {
    let mut entries = Vec::new();
    let mut total = 0;
    for file in fs::read_dir(part)? {
        let file = file?;
        // Another process may have removed it by now.
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
