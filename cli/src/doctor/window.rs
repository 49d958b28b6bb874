//! Reads parts of a file, so that libraries of several gigabytes need little memory.
//!
//! Invariant: every read is bounded by a constant or by the caller's buffer, never by a number in the file. Files are
//! not mapped, because another process could truncate a mapped file, and the next access would end this process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file without blocking. Returns the file and its length; `None` if the path leads to something else.
pub(super) fn open(path: &Path) -> io::Result<Option<(File, u64)>> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    // Opening a device or a pipe can have effects, so the type is queried first, and again after opening.
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then_some((file, metadata.len())))
}

/// Number of bytes that a [`Window`] reads at once.
const BLOCK: usize = 4096;

/// A part of a file that is read through a buffer of one block.
pub(super) struct Window<'f> {
    file: &'f File,
    start: u64,
    len: u64,
    /// The position and the bytes of the last block.
    block: (u64, Vec<u8>),
}

impl<'f> Window<'f> {
    /// Returns the window of `len` bytes from `start`. The file can be shorter; reads past its end return `None`.
    pub(super) fn new(file: &'f File, start: u64, len: u64) -> Window<'f> {
        Window {
            file,
            start,
            len,
            block: (0, Vec::new()),
        }
    }

    /// Returns the part of this window that has `len` bytes from `start`; `None` if it is not inside this window.
    pub(super) fn part(&self, start: u64, len: u64) -> Option<Window<'f>> {
        start.checked_add(len).filter(|&end| end <= self.len)?;
        Some(Window::new(self.file, self.start.checked_add(start)?, len))
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the `N` bytes at `at`; `None` if they are not inside the window or cannot be read. `N` is at most a block.
    pub(super) fn array<const N: usize>(&mut self, at: u64) -> Option<[u8; N]> {
        at.checked_add(N as u64).filter(|&end| end <= self.len)?;
        let inside = at.checked_sub(self.block.0).unwrap_or(u64::MAX);
        if inside.saturating_add(N as u64) > self.block.1.len() as u64 {
            let mut bytes = std::mem::take(&mut self.block.1);
            bytes.resize(BLOCK, 0);
            let read = self.fill(at, &mut bytes)?;
            bytes.truncate(read);
            self.block = (at, bytes);
        }
        let from = usize::try_from(at - self.block.0).ok()?;
        self.block
            .1
            .get(from..from.checked_add(N)?)?
            .try_into()
            .ok()
    }

    /// Reads bytes at `at` into `bytes` and returns their number, which is smaller at the end of the window or file;
    /// `None` if the system reports an error.
    pub(super) fn fill(&self, at: u64, bytes: &mut [u8]) -> Option<usize> {
        let left = usize::try_from(self.len.saturating_sub(at)).unwrap_or(usize::MAX);
        let wanted = bytes.len().min(left);
        let start = self.start.checked_add(at)?;
        let mut read = 0;
        while read < wanted {
            match self
                .file
                .read_at(&mut bytes[read..wanted], start.checked_add(read as u64)?)
            {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        Some(read)
    }

    pub(super) fn u16(&mut self, at: u64) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, at: u64) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, at: u64) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// Returns whether the first `searched` bytes of the window contain `text`.
    pub(super) fn contains(&self, text: &[u8], searched: u64) -> bool {
        const PIECE: usize = 1 << 20;
        let (Some(&first), overlap) = (text.first(), text.len().saturating_sub(1)) else {
            return true;
        };
        let mut bytes = vec![0; PIECE + overlap];
        let mut at = 0;
        while at < searched {
            let Some(read) = self.fill(at, &mut bytes) else {
                return false;
            };
            let mut rest = &bytes[..read];
            while let Some(found) = rest.iter().position(|&byte| byte == first) {
                if rest[found..].starts_with(text) {
                    return true;
                }
                rest = &rest[found + 1..];
            }
            if read < bytes.len() {
                return false;
            }
            at += PIECE as u64;
        }
        false
    }
}
