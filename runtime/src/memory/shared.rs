//! Memory that several mappings and processes can access: memory files without a path (`memfd`).
//!
//! A process that has a descriptor of the file can map the file. The file exists until its last
//! descriptor is closed and its last mapping is removed, so the end of one process does not affect
//! other processes. The size is sealed, so no mapping ever extends beyond the end of the file. A
//! *label* in the file's name describes the content. The functions of this module return an error
//! for descriptors of files without a label or without seals.
//!
//! Invariant: a [`SharedMemory`] is a sealed memory file of exactly `len` bytes that this library created.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::AtomicU64;

use margay_jit::files::without_write_signals;

use super::MemoryError;
use crate::visible_devices::{to_number, to_ordinal};

/// The kind of content of a memory file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedKind {
    /// A physical allocation of the virtual memory interface.
    Physical,
    /// The memory of a stream-ordered pool.
    Pool,
    /// An allocation that was exported to other processes.
    Allocation,
    /// The state of an event.
    Event,
}

impl SharedKind {
    const ALL: [SharedKind; 4] = [
        SharedKind::Physical,
        SharedKind::Pool,
        SharedKind::Allocation,
        SharedKind::Event,
    ];

    fn word(self) -> &'static str {
        match self {
            SharedKind::Physical => "physical",
            SharedKind::Pool => "pool",
            SharedKind::Allocation => "allocation",
            SharedKind::Event => "event",
        }
    }
}

/// The description of a memory file. The name of the file contains this description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Kind of the content.
    pub kind: SharedKind,
    /// Ordinal in this process of the file's device: -1 for the host, `i32::MAX` for a device that this process does
    /// not see. The name of the file contains the number of the device in the machine instead, because the same device
    /// can have different ordinals in different processes.
    pub device: i32,
}

const PREFIX: &str = "margay:";
/// In `/proc`, Linux shows this text before the name of a memory file.
const SYSTEM_PREFIX: &str = "/memfd:";
/// In `/proc`, Linux shows this text after the name of a file without a path.
const SYSTEM_SUFFIX: &str = " (deleted)";
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

impl Label {
    fn text(self) -> String {
        format!("{PREFIX}{}:{}", self.kind.word(), to_number(self.device))
    }

    /// Parses the path that `/proc` contains for a descriptor. Returns `None` if this library did
    /// not create the file.
    fn parse(path: &str) -> Option<Label> {
        let name = path.strip_prefix(SYSTEM_PREFIX)?;
        let name = name.strip_suffix(SYSTEM_SUFFIX).unwrap_or(name);
        let (kind, device) = name.strip_prefix(PREFIX)?.split_once(':')?;
        let kind = SharedKind::ALL.into_iter().find(|k| k.word() == kind)?;
        let device = to_ordinal(device.parse().ok()?);
        Some(Label { kind, device })
    }
}

/// Identifies a memory file for other processes. The address is valid while the process that created it exists and has
/// the file open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// ID of the process.
    pub process: i32,
    /// Start time of the process in clock ticks of the system. The start time distinguishes this
    /// process from earlier and later processes with the same ID.
    pub started: u64,
    /// The descriptor in that process.
    pub descriptor: RawFd,
    /// Inode number of the file. While the file exists, no other memory file has this number.
    pub inode: u64,
}

/// A sealed memory file.
#[derive(Debug)]
pub struct SharedMemory {
    file: std::fs::File,
    len: u64,
    label: Label,
}

/// Returns a descriptor of the same file whose number is greater than 2. If the program has closed its standard
/// streams, a new descriptor can have a number from 0 to 2, and the program's output would be written to the file.
fn above_streams(descriptor: OwnedFd) -> Result<OwnedFd, MemoryError> {
    if descriptor.as_raw_fd() > 2 {
        return Ok(descriptor);
    }
    // SAFETY: the call only creates a new descriptor.
    let copy = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
    match copy {
        // SAFETY: the descriptor is new, so nothing else owns it.
        3.. => Ok(unsafe { OwnedFd::from_raw_fd(copy) }),
        _ => Err(system("F_DUPFD_CLOEXEC")),
    }
}

impl SharedMemory {
    /// Creates a file of `len` zero bytes. A page of the file uses no memory before its first access.
    ///
    /// # Errors
    /// [`MemoryError::System`] if a system call fails.
    pub fn create(len: u64, label: Label) -> Result<SharedMemory, MemoryError> {
        let name = CString::new(label.text()).map_err(|_| MemoryError::InvalidSize(len))?;
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string.
        let descriptor = unsafe { libc::memfd_create(name.as_ptr(), flags) };
        if descriptor < 0 {
            return Err(system("memfd_create"));
        }
        // SAFETY: the descriptor is new, so nothing else owns it.
        let file = std::fs::File::from(above_streams(unsafe { OwnedFd::from_raw_fd(descriptor) })?);
        let descriptor = file.as_raw_fd();
        without_write_signals(|| file.set_len(len)).map_err(|source| MemoryError::System {
            what: "ftruncate",
            source,
        })?;
        // SAFETY: the call only adds seals to our own file.
        if unsafe { libc::fcntl(descriptor, libc::F_ADD_SEALS, SEALS) } != 0 {
            return Err(system("F_ADD_SEALS"));
        }
        Ok(SharedMemory { file, len, label })
    }

    /// Opens the memory file of a descriptor that the program passes. The descriptor still belongs
    /// to the program, which must close it.
    ///
    /// # Errors
    /// [`MemoryError::NotShared`] if the descriptor is invalid, does not refer to a memory file that this library
    /// created, or cannot be duplicated because the process has too many descriptors.
    pub fn from_descriptor(descriptor: RawFd) -> Result<SharedMemory, MemoryError> {
        // SAFETY: the call reports an invalid descriptor as an error.
        let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
        if copy < 0 {
            return Err(MemoryError::NotShared);
        }
        // SAFETY: the descriptor is new, so nothing else owns it.
        SharedMemory::from_owned(unsafe { OwnedFd::from_raw_fd(copy) })
    }

    fn from_owned(descriptor: OwnedFd) -> Result<SharedMemory, MemoryError> {
        let descriptor = above_streams(descriptor)?;
        let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        let path = std::fs::read_link(link).map_err(|_| MemoryError::NotShared)?;
        let label = Label::parse(&path.to_string_lossy()).ok_or(MemoryError::NotShared)?;
        // SAFETY: the call only reads the seals; it fails for files that cannot be sealed.
        let seals = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & SEALS != SEALS {
            return Err(MemoryError::NotShared);
        }
        let file = std::fs::File::from(descriptor);
        let len = file.metadata().map_err(|_| MemoryError::NotShared)?.len();
        Ok(SharedMemory { file, len, label })
    }

    /// Opens a memory file of another process.
    ///
    /// # Errors
    /// [`MemoryError::NotShared`] if the process has ended, has closed the file, or belongs to another user.
    pub fn open(address: &Address) -> Result<SharedMemory, MemoryError> {
        if start_of(address.process) != Some(address.started) {
            return Err(MemoryError::NotShared);
        }
        let path = format!("/proc/{}/fd/{}", address.process, address.descriptor);
        // The link is read before the file is opened, because opening a file of another kind (a pipe, a device) can
        // have side effects.
        let target = std::fs::read_link(&path).map_err(|_| MemoryError::NotShared)?;
        Label::parse(&target.to_string_lossy()).ok_or(MemoryError::NotShared)?;
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|_| MemoryError::NotShared)?;
        let inode = file.metadata().map_err(|_| MemoryError::NotShared)?.ino();
        if inode != address.inode {
            return Err(MemoryError::NotShared);
        }
        SharedMemory::from_owned(OwnedFd::from(file))
    }

    /// Returns the address with which other processes can open the file while this process exists and has the file
    /// open.
    ///
    /// # Errors
    /// [`MemoryError::System`] if the file cannot be queried.
    pub fn address(&self) -> Result<Address, MemoryError> {
        let process = std::process::id() as i32;
        let metadata = self.file.metadata().map_err(|source| MemoryError::System {
            what: "fstat",
            source,
        })?;
        Ok(Address {
            process,
            started: start_of(process).unwrap_or(0),
            descriptor: self.file.as_raw_fd(),
            inode: metadata.ino(),
        })
    }

    /// Returns a new descriptor for the program. The descriptor is closed on `exec` unless the
    /// program clears its flag `FD_CLOEXEC`.
    ///
    /// # Errors
    /// [`MemoryError::System`] if the process has too many descriptors.
    pub fn duplicate(&self) -> Result<OwnedFd, MemoryError> {
        self.file
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| MemoryError::System {
                what: "dup",
                source,
            })
    }

    /// Returns the size of the memory file in bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Returns the label of the memory file, which describes the content.
    pub fn label(&self) -> Label {
        self.label
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Writes `bytes` to the file, beginning at `offset`. All mappings of the file show the change.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        without_write_signals(|| self.file.write_all_at(bytes, offset)).map_err(|source| {
            MemoryError::System {
                what: "pwrite",
                source,
            }
        })
    }

    /// Releases the memory of a part of the file. After the call, the part contains zeroes.
    pub(super) fn empty(&self, offset: u64, len: u64) -> Result<(), MemoryError> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the call changes only our own file; for an invalid range it returns an error.
        let failed = unsafe {
            libc::fallocate(
                self.file.as_raw_fd(),
                mode,
                offset as libc::off_t,
                len as libc::off_t,
            )
        };
        match failed {
            0 => Ok(()),
            _ => Err(system("fallocate")),
        }
    }
}

/// A memory file of one page that is mapped into this process. All processes that map the file share its 64-bit words.
#[derive(Debug)]
pub struct SharedPage {
    memory: SharedMemory,
    start: std::ptr::NonNull<AtomicU64>,
}

// SAFETY: the page is mapped as long as the `SharedPage` exists, and is only accessed as atomic words.
unsafe impl Send for SharedPage {}
// SAFETY: the page is only accessed as atomic words, which threads may share.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// Size of the file in bytes.
    pub const BYTES: u64 = 4096;

    /// Maps a file of [`SharedPage::BYTES`] bytes.
    ///
    /// # Errors
    /// [`MemoryError::NotShared`] if the file has another size, [`MemoryError::System`] if it cannot be mapped.
    pub fn new(memory: SharedMemory) -> Result<SharedPage, MemoryError> {
        if memory.bytes() != SharedPage::BYTES {
            return Err(MemoryError::NotShared);
        }
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let file = memory.descriptor().as_raw_fd();
        // SAFETY: this is a new mapping of a file that cannot shrink.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SharedPage::BYTES as usize,
                rights,
                libc::MAP_SHARED,
                file,
                0,
            )
        };
        match std::ptr::NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => Ok(SharedPage {
                memory,
                start: start.cast(),
            }),
            _ => Err(system("mmap")),
        }
    }

    /// Returns the memory file.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Returns the word with index `index`.
    ///
    /// # Panics
    /// Panics if `index` is 512 or more.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < SharedPage::BYTES as usize / 8, "a word of the page");
        // SAFETY: the word is inside the page, aligned, and only accessed as an atomic.
        unsafe { self.start.add(index).as_ref() }
    }

    /// Returns whether a process has mapped the page; `None` if this cannot be determined, for example because the
    /// process belongs to another user or its main thread has ended.
    pub fn is_mapped_by(&self, process: i32) -> Option<bool> {
        let inode = self.memory.file.metadata().ok()?.ino().to_string();
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
        // The fields of a line are the addresses, the permissions, the offset, the device, the inode and the path.
        let is_page = |line: &str| {
            let mut fields = line.split_ascii_whitespace().skip(4);
            fields.next() == Some(&inode) && fields.next().is_some_and(|at| at.contains("memfd:"))
        };
        (!maps.is_empty()).then(|| maps.lines().any(is_page))
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it exists any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), SharedPage::BYTES as usize) };
    }
}

/// Returns the start time of a process in clock ticks of the system; `None` if the process does not exist or has ended.
/// A process that has ended counts as ended even if its parent process has not waited for it yet.
pub fn start_of(process: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field, the name in parentheses, can contain any characters. After it come the state, as the 18th field
    // the number of threads, and as the 20th field the start time.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The state is that of the main thread, which can have ended before other threads.
    let has_ended = matches!(*fields.first()?, "Z" | "X") && fields.get(17)?.parse() == Ok(1u32);
    match has_ended {
        true => None,
        false => fields.get(19)?.parse().ok(),
    }
}

fn system(what: &'static str) -> MemoryError {
    MemoryError::System {
        what,
        source: std::io::Error::last_os_error(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: Label = Label {
        kind: SharedKind::Physical,
        device: 0,
    };

    #[test]
    fn a_process_that_nobody_has_waited_for_has_ended() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("starts");
        let id = child.id() as i32;
        assert!(start_of(id).is_some());
        drop(child.stdin.take());
        let ended = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            start_of(id).is_none()
        });
        assert!(ended && std::path::Path::new(&format!("/proc/{id}/stat")).exists());
        child.wait().expect("a child");
    }

    #[test]
    fn labels_survive_the_system() {
        let memory = SharedMemory::create(1 << 16, LABEL).expect("a file");
        let copy = memory.duplicate().expect("a descriptor");
        let again = SharedMemory::from_descriptor(copy.as_raw_fd()).expect("ours");
        assert_eq!((again.bytes(), again.label()), (1 << 16, LABEL));
        assert_eq!(
            again.address().expect("named").inode,
            memory.address().expect("named").inode
        );
    }

    #[test]
    fn labels_of_devices_that_are_not_seen_name_none() {
        let parse = |text| Label::parse(text).map(|label| label.device);
        assert_eq!(parse("/memfd:margay:pool:0 (deleted)"), Some(0));
        assert_eq!(parse("/memfd:margay:pool:-1 (deleted)"), Some(-1));
        assert_eq!(parse("/memfd:margay:pool:63 (deleted)"), Some(i32::MAX));
    }

    #[test]
    fn other_files_are_refused() {
        for wrong in [-1, 1 << 20] {
            assert!(SharedMemory::from_descriptor(wrong).is_err());
        }
        let file = std::fs::File::open("/proc/self/stat").expect("there");
        assert!(SharedMemory::from_descriptor(file.as_raw_fd()).is_err());
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        assert!(SharedMemory::from_descriptor(reader.as_raw_fd()).is_err());
        // SAFETY: the name is a C string.
        let bare = unsafe { libc::memfd_create(c"margay:physical:0".as_ptr(), 0) };
        // SAFETY: a new descriptor.
        let bare = unsafe { OwnedFd::from_raw_fd(bare) };
        assert!(
            SharedMemory::from_descriptor(bare.as_raw_fd()).is_err(),
            "not sealed"
        );
    }

    #[test]
    fn what_is_opened_is_what_was_named() {
        let memory = SharedMemory::create(4096, LABEL).expect("a file");
        let address = memory.address().expect("named");
        let again = SharedMemory::open(&address).expect("there");
        memory.write(10, b"same").expect("written");
        let mut seen = [0; 4];
        again.file.read_exact_at(&mut seen, 10).expect("read");
        assert_eq!(&seen, b"same");
        for wrong in [
            Address {
                started: address.started + 1,
                ..address
            },
            Address {
                inode: address.inode + 1,
                ..address
            },
            Address {
                descriptor: 0,
                ..address
            },
            Address {
                process: 1 << 30,
                ..address
            },
        ] {
            assert!(SharedMemory::open(&wrong).is_err(), "{wrong:?}");
        }
        memory.empty(0, 4096).expect("emptied");
        again.file.read_exact_at(&mut seen, 10).expect("read");
        assert_eq!(seen, [0; 4]);
        drop(memory);
        assert!(again.file.set_len(8192).is_err(), "sealed");
    }
}
