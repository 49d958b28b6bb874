//! Memory that several mappings, and several processes, may see: files without a name (`memfd`).
//!
//! Whoever holds a descriptor can map the bytes; they live until the last descriptor and the last mapping are gone,
//! so a process that dies takes nothing from the others. The size is sealed: no mapping ever reaches beyond the end.
//! A *label* in the file's name says what it is, so that a descriptor of something else is refused.
//!
//! Invariant: a [`SharedMemory`] is a sealed memory file of ours of exactly `len` bytes.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::AtomicU64;

use margay_jit::files::without_size_signal;

use super::MemoryError;
use crate::visible_devices::{to_number, to_ordinal};

/// What a memory file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedKind {
    /// A physical allocation of the virtual memory interface.
    Physical,
    /// The memory of a stream-ordered pool.
    Pool,
    /// An allocation that was given to other processes.
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

/// What a memory file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// What it holds.
    pub kind: SharedKind,
    /// Ordinal of the device it belongs to, in this process; -1: the host. The file itself has the device's number in the
    /// machine, as processes may see different devices.
    pub device: i32,
}

const PREFIX: &str = "margay:";
/// What the system puts in front of the name, and behind that of a file without a link.
const SYSTEM_PREFIX: &str = "/memfd:";
const SYSTEM_SUFFIX: &str = " (deleted)";
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

impl Label {
    fn text(self) -> String {
        format!("{PREFIX}{}:{}", self.kind.word(), to_number(self.device))
    }

    /// From the path that the system shows for a descriptor.
    fn parse(path: &str) -> Option<Label> {
        let name = path.strip_prefix(SYSTEM_PREFIX)?;
        let name = name.strip_suffix(SYSTEM_SUFFIX).unwrap_or(name);
        let (kind, device) = name.strip_prefix(PREFIX)?.split_once(':')?;
        let kind = SharedKind::ALL.into_iter().find(|k| k.word() == kind)?;
        let device = to_ordinal(device.parse().ok()?);
        Some(Label { kind, device })
    }
}

/// Names a memory file for other processes, as long as the process that holds it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The process.
    pub process: i32,
    /// When it started, in the system's ticks: numbers of processes are used again.
    pub started: u64,
    /// Its descriptor.
    pub descriptor: RawFd,
    /// The file's number, which no other file has meanwhile.
    pub inode: u64,
}

/// A memory file.
#[derive(Debug)]
pub struct SharedMemory {
    file: std::fs::File,
    len: u64,
    label: Label,
}

impl SharedMemory {
    /// A new one of `len` zero bytes; they cost memory when first touched.
    ///
    /// # Errors
    /// [`MemoryError::System`].
    pub fn create(len: u64, label: Label) -> Result<SharedMemory, MemoryError> {
        let name = CString::new(label.text()).map_err(|_| MemoryError::InvalidSize(len))?;
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string.
        let descriptor = unsafe { libc::memfd_create(name.as_ptr(), flags) };
        if descriptor < 0 {
            return Err(system("memfd_create"));
        }
        // SAFETY: a new descriptor that nobody else owns.
        let file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        without_size_signal(|| file.set_len(len)).map_err(|source| MemoryError::System {
            what: "ftruncate",
            source,
        })?;
        // SAFETY: only adds seals to our own file.
        if unsafe { libc::fcntl(descriptor, libc::F_ADD_SEALS, SEALS) } != 0 {
            return Err(system("F_ADD_SEALS"));
        }
        Ok(SharedMemory { file, len, label })
    }

    /// The memory behind a descriptor of the program's, which stays the program's.
    ///
    /// # Errors
    /// [`MemoryError::NotShared`] when it is none, or not a memory file of ours.
    pub fn from_descriptor(descriptor: RawFd) -> Result<SharedMemory, MemoryError> {
        // SAFETY: an invalid descriptor is an error of the call.
        let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
        if copy < 0 {
            return Err(MemoryError::NotShared);
        }
        // SAFETY: a new descriptor that nobody else owns.
        SharedMemory::from_owned(unsafe { OwnedFd::from_raw_fd(copy) })
    }

    fn from_owned(descriptor: OwnedFd) -> Result<SharedMemory, MemoryError> {
        let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        let path = std::fs::read_link(link).map_err(|_| MemoryError::NotShared)?;
        let label = Label::parse(&path.to_string_lossy()).ok_or(MemoryError::NotShared)?;
        // SAFETY: only asks; files that cannot be sealed are an error of the call.
        let seals = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & SEALS != SEALS {
            return Err(MemoryError::NotShared);
        }
        let file = std::fs::File::from(descriptor);
        let len = file.metadata().map_err(|_| MemoryError::NotShared)?.len();
        Ok(SharedMemory { file, len, label })
    }

    /// Opens what another process named.
    ///
    /// # Errors
    /// [`MemoryError::NotShared`] when the process is gone, has closed it, or belongs to somebody else.
    pub fn open(address: &Address) -> Result<SharedMemory, MemoryError> {
        if start_of(address.process) != Some(address.started) {
            return Err(MemoryError::NotShared);
        }
        let path = format!("/proc/{}/fd/{}", address.process, address.descriptor);
        // Looked at before it is opened: opening some other file (a pipe, a device) may have effects.
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

    /// The name by which other processes can open it while this one lives and holds it.
    ///
    /// # Errors
    /// [`MemoryError::System`].
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

    /// A descriptor for the program, closed on `exec` unless the program says otherwise.
    ///
    /// # Errors
    /// [`MemoryError::System`] when there are too many.
    pub fn duplicate(&self) -> Result<OwnedFd, MemoryError> {
        self.file
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| MemoryError::System {
                what: "dup",
                source,
            })
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// What it says of itself.
    pub fn label(&self) -> Label {
        self.label
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Writes at an offset, which also is seen through every mapping.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        without_size_signal(|| self.file.write_all_at(bytes, offset)).map_err(|source| {
            MemoryError::System {
                what: "pwrite",
                source,
            }
        })
    }

    /// Gives the memory of a part back; it reads as zeroes afterwards.
    pub(super) fn empty(&self, offset: u64, len: u64) -> Result<(), MemoryError> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: changes our own file; a range that makes no sense is an error of the call.
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

/// A memory file of one page, mapped into this process: words that every process sees.
#[derive(Debug)]
pub struct SharedPage {
    memory: SharedMemory,
    start: std::ptr::NonNull<AtomicU64>,
}

// SAFETY: the page is mapped for the value's life, and is only seen as atomic words.
unsafe impl Send for SharedPage {}
// SAFETY: as above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// Size of the file.
    pub const BYTES: u64 = 4096;

    /// Maps a file of that size.
    ///
    /// # Errors
    /// [`MemoryError::NotShared`] for another size, [`MemoryError::System`].
    pub fn new(memory: SharedMemory) -> Result<SharedPage, MemoryError> {
        if memory.bytes() != SharedPage::BYTES {
            return Err(MemoryError::NotShared);
        }
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let file = memory.descriptor().as_raw_fd();
        // SAFETY: a new mapping of a file that cannot shrink.
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

    /// The file.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// A word by its number, less than 512.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < SharedPage::BYTES as usize / 8, "a word of the page");
        // SAFETY: inside the page, aligned, and never seen but as an atomic.
        unsafe { self.start.add(index).as_ref() }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nothing points into any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), SharedPage::BYTES as usize) };
    }
}

/// When a process started, in the system's ticks; `None` when there is none.
pub fn start_of(process: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, the second field, may hold anything; the start is the 20th field behind it.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
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
