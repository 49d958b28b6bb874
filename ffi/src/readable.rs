//! Determines how many bytes of the process's memory are readable at an address.
//!
//! Images arrive as bare pointers, and their headers contain their lengths. A wrong length must not lead to an access
//! to unmapped memory, so this module checks every length before bytes are read.
//!
//! Small ranges are probed: the system copies one byte of each page (`process_vm_readv` of this process). The copy
//! fails for unmapped pages and for pages after the end of a mapped file. If this system call is forbidden, the byte is
//! written to a pipe instead, which fails for the same pages. Large ranges are looked up in `/proc/self/maps`, because
//! probing would read whole files from disk. In this case only the last page of each mapping is probed.
//!
//! Invariant: this module reads memory only after it has determined that the memory is readable, so callers may pass
//! any address. The caller ensures that no other thread unmaps the memory afterwards.

use std::io::{BufRead, BufReader};

use crate::result::CuResult;

/// The page size that the probes assume. No supported system has smaller pages.
const PAGE: usize = 4096;
/// The number of pages that one system call probes (one more if the range does not begin at a page).
const BATCH: usize = 512;
/// The size of the largest range of which every page is probed. For larger ranges,
/// `/proc/self/maps` is read.
const PROBED: usize = BATCH * PAGE;

/// Returns the `len` bytes at `start`.
///
/// # Errors
/// Returns `INVALID_IMAGE` if not all bytes are readable.
///
/// # Safety
/// Bytes that are readable must stay readable and unchanged for the lifetime `'a`.
pub(crate) unsafe fn bytes<'a>(start: *const u8, len: usize) -> Result<&'a [u8], CuResult> {
    match len == readable(start as usize, len) {
        // SAFETY: all bytes are readable, and the caller guarantees that they stay unchanged.
        true => Ok(unsafe { std::slice::from_raw_parts(start, len) }),
        false => Err(CuResult::INVALID_IMAGE),
    }
}

/// Returns the first `N` bytes at `start`.
///
/// # Errors
/// Returns `INVALID_IMAGE` if not all bytes are readable.
///
/// # Safety
/// Bytes that are readable must stay readable and unchanged during the call.
pub(crate) unsafe fn array<const N: usize>(start: *const u8) -> Result<[u8; N], CuResult> {
    // SAFETY: the caller guarantees that the bytes stay readable and unchanged.
    let bytes = unsafe { bytes(start, N) }?;
    bytes.try_into().map_err(|_| CuResult::INVALID_IMAGE)
}

/// Returns the bytes from `start` up to, but not including, the first zero.
///
/// # Errors
/// Returns `INVALID_IMAGE` if the readable memory ends before a zero.
///
/// # Safety
/// Bytes that are readable must stay readable and unchanged for the lifetime `'a`.
pub(crate) unsafe fn until_zero<'a>(start: *const u8) -> Result<&'a [u8], CuResult> {
    let mut known = 0;
    let mut ask = PAGE;
    loop {
        let address = (start as usize).checked_add(known);
        let found = address.map_or(0, |address| probed(address, ask));
        // SAFETY: the bytes before `known` were probed in earlier iterations, the next `found` bytes in this iteration.
        let bytes = unsafe { std::slice::from_raw_parts(start, known + found) };
        if let Some(end) = bytes[known..].iter().position(|&byte| byte == 0) {
            return Ok(&bytes[..known + end]);
        }
        if found < ask {
            return Err(CuResult::INVALID_IMAGE);
        }
        known += found;
        ask = (ask * 2).min(PROBED);
    }
}

/// Returns how many bytes from `address` on are readable without a gap: the number of bytes before
/// the first unreadable byte, but at most `len`. Returns 0 for a range that extends beyond the
/// address space.
pub(crate) fn readable(address: usize, len: usize) -> usize {
    if address.checked_add(len).is_none() {
        return 0;
    }
    if len <= PROBED {
        return probed(address, len);
    }
    match mapped(address, len) {
        Some(len) => len,
        None => in_batches(address, len),
    }
}

fn in_batches(address: usize, len: usize) -> usize {
    let mut known = 0;
    while known < len {
        let ask = (len - known).min(PROBED);
        let found = probed(address + known, ask);
        known += found;
        if found < ask {
            break;
        }
    }
    known
}

/// Returns the same number as [`readable`], computed from the system's list of mappings; `None` if the list cannot be
/// read.
fn mapped(address: usize, len: usize) -> Option<usize> {
    let list = std::fs::File::open("/proc/self/maps").ok()?;
    let end = address + len;
    let mut known = address;
    for line in BufReader::new(list).split(b'\n') {
        let line = line.ok()?;
        let Some((start, stop, is_readable)) = mapping(&line) else {
            continue;
        };
        if stop <= known {
            continue;
        }
        if start > known || !is_readable {
            break;
        }
        let last = stop.min(end);
        // The last pages are not readable if the file is shorter than its mapping.
        if probed(last - 1, 1) == 0 {
            known += in_batches(known, last - known);
            break;
        }
        known = last;
        if known == end {
            break;
        }
    }
    Some(known - address)
}

/// Parses a line of `/proc/self/maps` into start address, end address and readability.
fn mapping(line: &[u8]) -> Option<(usize, usize, bool)> {
    let text = std::str::from_utf8(line.get(..line.iter().position(|&b| b == b' ')? + 2)?).ok()?;
    let (range, rights) = text.split_once(' ')?;
    let (start, stop) = range.split_once('-')?;
    let number = |digits| usize::from_str_radix(digits, 16).ok();
    Some((number(start)?, number(stop)?, rights == "r"))
}

/// Returns the same number as [`readable`] for at most [`PROBED`] bytes, by probing one byte of each page.
fn probed(address: usize, len: usize) -> usize {
    if len == 0 || address.checked_add(len).is_none() {
        return 0;
    }
    let first_page = address & !(PAGE - 1);
    let pages = (address + len - first_page).div_ceil(PAGE);
    let place = |page: usize| match page {
        0 => address,
        page => first_page + page * PAGE,
    };
    let places: Vec<usize> = (0..pages).map(place).collect();
    let count = match copied(&places) {
        Ok(count) => count,
        Err(_) => places.iter().take_while(|&&place| piped(place)).count(),
    };
    match count < places.len() {
        true => places[count] - address,
        false => len,
    }
}

/// Returns how many addresses in `places` precede the first address whose byte the system cannot copy.
///
/// # Errors
/// Returns the system's error if the system call is forbidden.
fn copied(places: &[usize]) -> Result<usize, std::io::Error> {
    let mut bytes = vec![0_u8; places.len()];
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let remote: Vec<libc::iovec> = places
        .iter()
        .map(|&place| libc::iovec {
            iov_base: place as *mut libc::c_void,
            iov_len: 1,
        })
        .collect();
    // SAFETY: the call writes into `bytes` only; the system checks the other addresses.
    let count = unsafe {
        libc::process_vm_readv(
            libc::getpid(),
            &local,
            1,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    match usize::try_from(count) {
        Ok(count) => Ok(count),
        Err(_) => match std::io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EFAULT) => Ok(0),
            error => Err(error),
        },
    }
}

/// Returns whether the system can copy the byte at an address into a pipe. If no pipe can be created, the result is
/// `true`: the memory counts as readable.
fn piped(place: usize) -> bool {
    let mut ends = [0; 2];
    // SAFETY: the call writes two descriptors into `ends`.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return true;
    }
    // SAFETY: the system checks the address.
    let written = unsafe { libc::write(ends[1], place as *const libc::c_void, 1) };
    for end in ends {
        // SAFETY: this function opened the descriptors.
        unsafe { libc::close(end) };
    }
    written == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mapping for tests: readable pages, followed by an inaccessible page.
    struct Pages {
        start: *mut u8,
        len: usize,
    }

    impl Pages {
        fn new(len: usize) -> Pages {
            let (rights, flags) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            );
            // SAFETY: a new mapping.
            let start =
                unsafe { libc::mmap(std::ptr::null_mut(), len + PAGE, rights, flags, -1, 0) };
            assert_ne!(start, libc::MAP_FAILED);
            // SAFETY: the last page belongs to this mapping, and nothing uses it.
            unsafe { libc::mprotect(start.add(len), PAGE, libc::PROT_NONE) };
            Pages {
                start: start.cast(),
                len,
            }
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: this value owns the mapping.
            unsafe { libc::munmap(self.start.cast(), self.len + PAGE) };
        }
    }

    #[test]
    fn memory_ends_where_its_pages_end() {
        for len in [PAGE, 16 * PAGE, PROBED, PROBED + PAGE, 5 * PROBED] {
            let pages = Pages::new(len);
            let start = pages.start as usize;
            assert_eq!(readable(start, len), len);
            assert_eq!(readable(start + 1, len - 1), len - 1);
            assert_eq!(readable(start, len + 1), len, "a byte more");
            assert_eq!(readable(start + 7, 1 << 40), len - 7, "a size that lies");
            assert_eq!(readable(start + len, 1), 0);
            assert_eq!(readable(start, 0), 0);
        }
        assert_eq!(readable(8, 8), 0, "the first page");
        assert_eq!(
            readable(usize::MAX - 4, 8),
            0,
            "the end of the address space"
        );
        assert_eq!(readable(1 << 62, 1 << 30), 0, "no address");
    }

    #[test]
    fn the_ways_of_asking_agree() {
        let pages = Pages::new(64 * PAGE);
        let start = pages.start as usize;
        assert_eq!(mapped(start, 100 * PAGE), Some(64 * PAGE));
        assert_eq!(in_batches(start, 100 * PAGE), 64 * PAGE);
        assert!(piped(start) && piped(start + 64 * PAGE - 1));
        assert!(!piped(start + 64 * PAGE) && !piped(16));
    }

    #[test]
    fn a_mapping_behind_the_end_of_its_file_is_no_memory() {
        // SAFETY: the call creates a new file without a name.
        let file = unsafe { libc::memfd_create(c"short".as_ptr(), 0) };
        // SAFETY: the file is not shared, and the mapping is longer than the file.
        let start = unsafe {
            assert_eq!(libc::ftruncate(file, 3 * PAGE as libc::off_t), 0);
            let len = 4 * PROBED;
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        assert_eq!(readable(start as usize, 4 * PROBED), 3 * PAGE);
        assert_eq!(readable(start as usize, 8 * PAGE), 3 * PAGE);
        // SAFETY: the mapping and the file belong to this test and are no longer used.
        unsafe {
            libc::munmap(start, 4 * PROBED);
            libc::close(file);
        }
    }

    #[test]
    fn text_without_an_end_is_refused() {
        for len in [PAGE, 3 * PAGE, PROBED + 3 * PAGE] {
            let pages = Pages::new(len);
            // SAFETY: the pages belong to this test.
            unsafe {
                std::ptr::write_bytes(pages.start, b' ', len);
                assert_eq!(until_zero(pages.start), Err(CuResult::INVALID_IMAGE));
                pages.start.add(len - 1).write(0);
                assert_eq!(until_zero(pages.start).map(<[u8]>::len), Ok(len - 1));
                assert_eq!(until_zero(pages.start.add(5)).map(<[u8]>::len), Ok(len - 6));
            }
        }
    }
}
