//! The memory that the ranks of a communicator share: a file that each rank maps.
//!
//! Ranks meet in the file: its name is derived from the communicator's key. The last rank to join removes the name, so the
//! memory goes away with the last mapping. All fields are atomic numbers, because another process could write anything
//! into the file; every value that is read is checked before it is used.
//!
//! ```text
//! Header   Rank 0 ... Rank n-1   Channel 0,0 ... Channel n-1,n-1 | window of rank 0 ... n-1 | buffer of channel 0,0 ... n-1,n-1
//! ```
//!
//! Windows and channels carry data between processes. If all ranks belong to one process, they are not used, and take no
//! memory.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::driver::Driver;
use crate::status::{Outcome, Status, failure};

/// The size of a rank's window, in bytes.
pub(crate) const WINDOW: usize = 1 << 20;
/// The size of the buffer of a channel, in bytes.
pub(crate) const CHUNK: usize = 256 << 10;
/// Maximum number of ranks.
pub(crate) const MOST_RANKS: usize = 256;

const PAGE: usize = 4096;
const DIFFERENT: &str = "the ranks of a communicator state different numbers of ranks";

/// What ranks share.
#[repr(C, align(64))]
pub(crate) struct Header {
    /// The number of ranks, plus one; 0 until the first rank joins.
    ranks: AtomicU64,
    pub(crate) joined: AtomicU32,
    /// Number of ranks that have arrived at the current collective.
    pub(crate) arrived: AtomicU32,
    /// Number of ranks that have done their part of the current collective.
    pub(crate) left: AtomicU32,
    /// Whether a collective or an exchange failed.
    pub(crate) failed: AtomicU32,
}

/// What a rank tells the others.
#[repr(C, align(64))]
pub(crate) struct Rank {
    /// Nonzero if a rank with this number has joined.
    present: AtomicU32,
    /// The streams of this rank wait until one of these words is 1.
    pub(crate) go: [AtomicU32; 2],
    /// The number of splits that the rank has requested, and the last two requests.
    pub(crate) splits: AtomicU32,
    pub(crate) color: [AtomicU32; 2],
    pub(crate) order: [AtomicU32; 2],
    /// The process of the rank.
    pub(crate) process: AtomicU64,
    /// The rank's call of the current collective: two words that must be the same for all ranks, addresses, factor.
    pub(crate) call: [AtomicU64; 2],
    pub(crate) send: AtomicU64,
    pub(crate) receive: AtomicU64,
    pub(crate) factor: AtomicU64,
}

/// A channel from one rank to another.
#[repr(C, align(64))]
pub(crate) struct Channel {
    /// Number of chunks that were put into the buffer, and taken from it. They wrap.
    pub(crate) posted: AtomicU32,
    pub(crate) taken: AtomicU32,
    /// The bytes of the chunk in the buffer, and of its message.
    pub(crate) bytes: AtomicU64,
    pub(crate) message: AtomicU64,
}

/// A mapping of the memory that the ranks of a communicator share.
pub(crate) struct Control {
    file: File,
    base: usize,
    ranks: usize,
    layout: Layout,
    /// Whether the driver knows the memory.
    registered: AtomicBool,
    /// Whether no stream can refer to the memory any more.
    unused: AtomicBool,
}

#[derive(Clone, Copy)]
struct Layout {
    channels: usize,
    windows: usize,
    buffers: usize,
    bytes: usize,
}

impl Layout {
    fn of(ranks: usize) -> Layout {
        let channels = size_of::<Header>() + ranks * size_of::<Rank>();
        let words = channels + ranks * ranks * size_of::<Channel>();
        let windows = words.next_multiple_of(PAGE);
        let buffers = windows + ranks * WINDOW;
        Layout {
            channels,
            windows,
            buffers,
            bytes: buffers + ranks * ranks * CHUNK,
        }
    }
}

/// Returns the folders for files, in the order in which they are tried.
fn folders() -> [PathBuf; 2] {
    [PathBuf::from("/dev/shm"), std::env::temp_dir()]
}

fn path(folder: PathBuf, key: [u8; 16]) -> PathBuf {
    // SAFETY: the function has no parameters.
    let user = unsafe { libc::geteuid() };
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    folder.join(format!("margay-nccl-{user}-{hex}"))
}

impl Control {
    /// Maps the memory of the communicator with this key, and joins as a rank.
    pub(crate) fn join(key: [u8; 16], rank: usize, ranks: usize, process: u64) -> Outcome<Control> {
        let layout = Layout::of(ranks);
        let mut opened = Err(Error::from(ErrorKind::NotFound));
        for folder in folders() {
            opened = open(path(folder, key), layout);
            // Another folder would not help if the file is not as expected.
            let done = |error: &std::io::Error| error.kind() == ErrorKind::InvalidData;
            if opened.as_ref().map_or_else(done, |_| true) {
                break;
            }
        }
        let file = opened.map_err(|error| {
            if error.kind() == ErrorKind::InvalidData {
                return failure(Status::INVALID_USAGE, DIFFERENT);
            }
            let text = format!("the file that ranks share cannot be opened: {error}");
            failure(Status::SYSTEM, &text)
        })?;
        // SAFETY: a new mapping of an open file does not affect other memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                layout.bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            let error = Error::last_os_error();
            let text = format!("the file that ranks share cannot be mapped: {error}");
            return Err(failure(Status::SYSTEM, &text));
        }
        let control = Control {
            file,
            base: base as usize,
            ranks,
            layout,
            registered: AtomicBool::new(false),
            unused: AtomicBool::new(true),
        };
        control.enrol(key, rank, process)?;
        Ok(control)
    }

    fn enrol(&self, key: [u8; 16], rank: usize, process: u64) -> Outcome {
        let header = self.header();
        let wanted = self.ranks as u64 + 1;
        let before = header.ranks.compare_exchange(0, wanted, SeqCst, SeqCst);
        if before.is_err_and(|other| other != wanted) {
            return Err(failure(Status::INVALID_USAGE, DIFFERENT));
        }
        let own = self.rank(rank);
        if own.present.swap(1, SeqCst) != 0 {
            let text = format!("a communicator has two ranks with the number {rank}");
            return Err(failure(Status::INVALID_USAGE, &text));
        }
        own.process.store(process, SeqCst);
        if header.joined.fetch_add(1, SeqCst) + 1 == self.ranks as u32 {
            for folder in folders() {
                // The file is in one of the folders.
                let _ = std::fs::remove_file(path(folder, key));
            }
        }
        Ok(())
    }

    /// Makes the words of the memory known to the driver, so that streams can wait for them.
    pub(crate) fn register(&self, driver: &Driver) -> Outcome {
        const PORTABLE: u32 = 1;
        // SAFETY: the mapping is valid until this value is dropped.
        let code = unsafe { (driver.register)(self.base, self.layout.windows, PORTABLE) };
        crate::driver::checked(code, "cuMemHostRegister")?;
        self.registered.store(true, SeqCst);
        Ok(())
    }

    /// Notes whether a stream may refer to the memory. If so, the memory is not unmapped.
    pub(crate) fn set_unused(&self, unused: bool) {
        self.unused.store(unused, SeqCst);
    }

    /// Returns what all ranks share.
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header, and all bytes are values of atomic numbers.
        unsafe { &*(self.base as *const Header) }
    }

    /// Returns what a rank tells.
    pub(crate) fn rank(&self, rank: usize) -> &Rank {
        assert!(rank < self.ranks, "rank {rank}");
        let address = self.base + size_of::<Header>() + rank * size_of::<Rank>();
        // SAFETY: the mapping contains a structure for each rank.
        unsafe { &*(address as *const Rank) }
    }

    /// Returns all ranks.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Rank> {
        (0..self.ranks).map(|rank| self.rank(rank))
    }

    fn number(&self, from: usize, to: usize) -> usize {
        assert!(from < self.ranks && to < self.ranks, "ranks {from}, {to}");
        from * self.ranks + to
    }

    /// Returns a channel.
    pub(crate) fn channel(&self, from: usize, to: usize) -> &Channel {
        let offset = self.number(from, to) * size_of::<Channel>();
        // SAFETY: the mapping contains a structure for each pair of ranks.
        unsafe { &*((self.base + self.layout.channels + offset) as *const Channel) }
    }

    /// Returns the address of a rank's window.
    pub(crate) fn window(&self, rank: usize) -> usize {
        assert!(rank < self.ranks, "rank {rank}");
        self.base + self.layout.windows + rank * WINDOW
    }

    /// Returns the address of a channel's buffer.
    pub(crate) fn buffer(&self, from: usize, to: usize) -> usize {
        self.base + self.layout.buffers + self.number(from, to) * CHUNK
    }

    /// Makes the system provide memory for a range of the mapping. Without it, a write could end the process.
    pub(crate) fn provide(&self, address: usize, bytes: usize) -> bool {
        let offset = address.wrapping_sub(self.base);
        if offset
            .checked_add(bytes)
            .is_none_or(|end| end > self.layout.bytes)
        {
            return false;
        }
        // SAFETY: the descriptor is open, and the range is inside the file.
        unsafe { libc::posix_fallocate(self.file.as_raw_fd(), offset as i64, bytes as i64) == 0 }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if !self.unused.load(SeqCst) {
            return;
        }
        if self.registered.load(SeqCst) {
            let Ok(driver) = crate::driver::driver() else {
                return;
            };
            // SAFETY: the function accepts all numbers.
            if unsafe { (driver.unregister)(self.base) } != 0 {
                return;
            }
        }
        // SAFETY: this value owns the mapping, and no stream refers to it.
        unsafe { libc::munmap(self.base as *mut libc::c_void, self.layout.bytes) };
    }
}

/// Opens a file of this user, creates it if necessary, and gives it the size.
fn open(path: PathBuf, layout: Layout) -> std::io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)?;
    let found = file.metadata()?;
    // SAFETY: the function has no parameters.
    let user = unsafe { libc::geteuid() };
    if !found.is_file() || found.uid() != user || found.mode() & 0o077 != 0 {
        return Err(ErrorKind::PermissionDenied.into());
    }
    match found.len() {
        0 => file.set_len(layout.bytes as u64)?,
        len if len == layout.bytes as u64 => {}
        _ => return Err(ErrorKind::InvalidData.into()),
    }
    let words = layout.windows as i64;
    // SAFETY: the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, words) } {
        0 => Ok(file),
        code => Err(Error::from_raw_os_error(code)),
    }
}
