//! A reserved address range. The whole range is inaccessible at first. Later, parts of the range
//! are made accessible, and can be made inaccessible again.
//!
//! A reservation uses neither memory nor swap space (MAP_NORESERVE); an accessible page uses memory after its first
//! access. The private pages of a range that is not below 4 GiB are excluded from core dumps, which would otherwise
//! contain terabytes of empty pages.
//!
//! Invariant: every method checks that the part that it changes is inside the reservation. No
//! method can therefore change pages that belong to other code.

use std::os::fd::AsRawFd;

use super::MemoryError;
use super::limits::{address_space_left, page_size};
use super::shared::SharedMemory;
use crate::fault::access;

/// A reserved address range.
#[derive(Debug)]
pub(super) struct Reservation {
    base: u64,
    len: u64,
    page: u64,
    /// Number of inaccessible reserved bytes before and after the range.
    margin: u64,
}

/// Access rights of a part of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    None,
    Read,
    ReadWrite,
}

/// Number of bytes of address space that remain for the windows of resident CTAs, for threads and
/// for the program.
const REST: u64 = 16 << 30;

/// Ranges below 4 GiB, as start and length. Each length is a power of two, and the start is a
/// multiple of the length. The lowest addresses are not used, because programs that are not
/// position-independent, and their heaps, are usually located there.
const LOW_RANGES: [(u64, u64); 5] = [
    (0x8000_0000, 2 << 30),
    (0x4000_0000, 1 << 30),
    (0xC000_0000, 1 << 30),
    (0x8000_0000, 1 << 30),
    (0x2000_0000, 512 << 20),
];

impl Reservation {
    /// Reserves `len` bytes whose start is a multiple of `align`, a power of two.
    pub(super) fn new(len: u64, align: u64) -> Result<Reservation, MemoryError> {
        Reservation::with_margin(len, align, 0)
    }

    /// Does the same as [`Reservation::new`], and also reserves `margin` inaccessible bytes before and after the range.
    /// These margins are not part of the range.
    fn with_margin(len: u64, align: u64, margin: u64) -> Result<Reservation, MemoryError> {
        let page = page_size();
        let (align, len) = (align.max(page), super::round_up(len, page));
        let len = len.ok_or(MemoryError::InvalidSize(u64::MAX))?;
        let padded = len
            .checked_add(align)
            .and_then(|padded| padded.checked_add(2 * margin))
            .ok_or(MemoryError::InvalidSize(len))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let null = std::ptr::null_mut();
        // SAFETY: a new private mapping; nothing is replaced.
        let start = unsafe { libc::mmap(null, padded as usize, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            let error = std::io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::ENOMEM) => MemoryError::OutOfMemory {
                    requested: padded,
                    free: address_space_left().unwrap_or(0),
                },
                _ => system("mmap"),
            });
        }
        let start = start as u64;
        let base = super::round_up(start + margin, align).ok_or(MemoryError::InvalidSize(len))?;
        let (ours, end) = (base - margin, base + len + margin);
        // Unmap the padding.
        unmap(start, ours - start);
        unmap(end, start + padded - end);
        // SAFETY: the mapping is ours, and the advice changes no content. An error of this call has no effect.
        unsafe { libc::madvise(ours as *mut _, (end - ours) as usize, libc::MADV_DONTDUMP) };
        Ok(Reservation {
            base,
            len,
            page,
            margin,
        })
    }

    /// Reserves the first range of [`LOW_RANGES`] that is free.
    pub(super) fn low() -> Result<Reservation, MemoryError> {
        let flags = libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS
            | libc::MAP_NORESERVE
            | libc::MAP_FIXED_NOREPLACE;
        for (base, len) in LOW_RANGES {
            // SAFETY: a new private mapping; the flag prevents that another mapping is replaced.
            let start =
                unsafe { libc::mmap(base as *mut _, len as usize, libc::PROT_NONE, flags, -1, 0) };
            if start as u64 == base {
                return Ok(Reservation {
                    base,
                    len,
                    page: page_size(),
                    margin: 0,
                });
            }
            if start != libc::MAP_FAILED {
                // An old system without the flag chooses another address.
                unmap(start as u64, len);
            }
        }
        Err(MemoryError::OutOfMemory {
            requested: LOW_RANGES[LOW_RANGES.len() - 1].1,
            free: 0,
        })
    }

    /// Reserves a range of the first size in `sizes` that the system grants. A range smaller than `margin` has no
    /// margins. Skips a size with margins if fewer than [`REST`] bytes of addresses would remain under `ulimit -v`.
    pub(super) fn largest(
        sizes: impl IntoIterator<Item = u64>,
        align: u64,
        margin: u64,
    ) -> Result<Reservation, MemoryError> {
        let mut last = MemoryError::InvalidSize(0);
        for size in sizes {
            let margin = if size >= margin { margin } else { 0 };
            let whole = size.saturating_add(2 * margin).saturating_add(REST);
            if margin > 0 && address_space_left().is_some_and(|left| left < whole) {
                continue;
            }
            match Reservation::with_margin(size, align, margin) {
                Ok(reservation) => return Ok(reservation),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the number of inaccessible reserved bytes before and after the range.
    pub(super) fn margin(&self) -> u64 {
        self.margin
    }

    pub(super) fn page(&self) -> u64 {
        self.page
    }

    /// Returns whether `address..address + bytes` is inside the range.
    pub(super) fn holds(&self, address: u64, bytes: u64) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset < self.len && bytes <= self.len - offset
    }

    /// Changes the access rights of a part of the range. `start` and `len` must be multiples of the
    /// page size.
    pub(super) fn protect(&self, start: u64, len: u64, rights: Rights) -> Result<(), MemoryError> {
        self.check(start, len)?;
        let rights = match rights {
            Rights::None => libc::PROT_NONE,
            Rights::Read => libc::PROT_READ,
            Rights::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: the part is inside our own reservation, and Rust code holds no references to its memory.
        match unsafe { libc::mprotect(start as *mut _, len as usize, rights) } {
            0 => Ok(()),
            _ => Err(system("mprotect")),
        }
    }

    /// Releases the memory of a part of the range to the system. After the call, the part contains
    /// zeroes.
    pub(super) fn discard(&self, start: u64, len: u64) -> Result<(), MemoryError> {
        self.check(start, len)?;
        // SAFETY: the part is inside our own reservation, and the caller no longer needs its content.
        match unsafe { libc::madvise(start as *mut _, len as usize, libc::MADV_DONTNEED) } {
            0 => Ok(()),
            _ => Err(system("madvise")),
        }
    }

    /// Replaces a part of the range by a readable and writable mapping of `len` bytes at `offset` of a memory file.
    pub(super) fn map_shared(
        &self,
        start: u64,
        len: u64,
        memory: &SharedMemory,
        offset: u64,
    ) -> Result<(), MemoryError> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let file = memory.descriptor().as_raw_fd();
        self.replace(start, len, rights, libc::MAP_SHARED, file, offset)
    }

    /// Replaces a part of the range by an inaccessible private mapping without content, which is its initial state.
    pub(super) fn reset(&self, start: u64, len: u64) -> Result<(), MemoryError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        self.replace(start, len, libc::PROT_NONE, flags, -1, 0)?;
        // SAFETY: the mapping is ours, and the advice changes no content. An error of this call has no effect.
        unsafe { libc::madvise(start as *mut _, len as usize, libc::MADV_DONTDUMP) };
        Ok(())
    }

    fn replace(
        &self,
        start: u64,
        len: u64,
        rights: i32,
        flags: i32,
        file: i32,
        offset: u64,
    ) -> Result<(), MemoryError> {
        self.check(start, len)?;
        let flags = flags | libc::MAP_FIXED;
        // SAFETY: the part is inside our own reservation, which contains no Rust object.
        let at = unsafe {
            libc::mmap(
                start as *mut _,
                len as usize,
                rights,
                flags,
                file,
                offset as libc::off_t,
            )
        };
        match at == libc::MAP_FAILED {
            true => Err(system("mmap")),
            false => Ok(()),
        }
    }

    /// Write-protects an accessible part, and copies its pages into a memory file. Skips pages that
    /// contain only zeroes. If the copy fails, makes the part writable again.
    pub(super) fn copy_into(
        &self,
        start: u64,
        len: u64,
        memory: &SharedMemory,
    ) -> Result<(), MemoryError> {
        self.protect(start, len, Rights::Read)?;
        let mut page = vec![0; self.page as usize];
        let copied = (0..len / self.page).try_for_each(|index| {
            let offset = index * self.page;
            access::read(&mut page, start + offset)?;
            match page.iter().any(|&byte| byte != 0) {
                true => memory.write(offset, &page),
                false => Ok(()),
            }
        });
        if copied.is_err() {
            self.protect(start, len, Rights::ReadWrite)?;
        }
        copied
    }

    /// Asks the system to use huge pages for a part of the range. The system may ignore the
    /// request.
    pub(super) fn prefer_huge_pages(&self, start: u64, len: u64) {
        if self.check(start, len).is_ok() {
            // SAFETY: the part is inside our own reservation; the advice changes no content.
            unsafe { libc::madvise(start as *mut _, len as usize, libc::MADV_HUGEPAGE) };
        }
    }

    fn check(&self, start: u64, len: u64) -> Result<(), MemoryError> {
        if self.holds(start, len) {
            Ok(())
        } else {
            Err(MemoryError::NotAllocated(start))
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        unmap(self.base - self.margin, self.len + 2 * self.margin);
    }
}

fn unmap(start: u64, len: u64) {
    if len != 0 {
        // SAFETY: callers pass parts of our own mapping that are no longer in use.
        unsafe { libc::munmap(start as *mut _, len as usize) };
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
    use crate::fault::{access, install};

    #[test]
    fn parts_open_close_and_empty() {
        install().expect("handlers");
        let space = Reservation::new(1 << 30, 1 << 21).expect("address space");
        let base = space.base();
        assert_eq!(base % (1 << 21), 0);
        assert!(base + space.len() < 1 << 47);
        assert!(access::load8(base).is_err());
        space.protect(base, 8192, Rights::ReadWrite).expect("open");
        // SAFETY: only this test uses the memory.
        unsafe { access::store32(base + 8188, 7) }.expect("open");
        assert!(access::load32(base + 8189).is_err());
        space.protect(base, 8192, Rights::None).expect("close");
        assert!(access::load32(base + 8188).is_err());
        space.protect(base, 8192, Rights::ReadWrite).expect("open");
        assert_eq!(access::load32(base + 8188), Ok(7));
        space.discard(base, 8192).expect("empty");
        assert_eq!(access::load32(base + 8188), Ok(0));
    }

    #[test]
    fn nothing_outside_is_touched() {
        let space = Reservation::new(1 << 20, 1).expect("address space");
        let (base, end) = (space.base(), space.base() + space.len());
        for (start, len) in [
            (base - 4096, 4096),
            (end, 4096),
            (end - 4096, 8192),
            (0, 4096),
        ] {
            assert!(space.protect(start, len, Rights::ReadWrite).is_err());
            assert!(space.discard(start, len).is_err());
        }
        assert!(!space.holds(base, u64::MAX));
        assert!(!space.holds(u64::MAX, 1));
        assert!(Reservation::new(u64::MAX, 4096).is_err());
        assert!(Reservation::new(1 << 60, 4096).is_err());
    }
}
