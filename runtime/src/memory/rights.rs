//! Determines whether the mappings of the process permit reads and writes of host memory.
//!
//! Linux 6.11 and later can look up the mapping of a single address (`PROCMAP_QUERY`,
//! `linux/fs.h`). Older systems only provide the text of `/proc/self/maps`. The time to read this
//! text is proportional to the number of mappings.

use std::os::fd::AsRawFd;

use super::whose::mapping;
use crate::fault::access;

/// The argument of `PROCMAP_QUERY`. The caller sets the first three fields, `sizes` and `buffers`.
/// Linux writes the other fields.
#[repr(C)]
#[derive(Default)]
struct Query {
    /// Size of this structure in bytes.
    size: u64,
    /// The value 0 selects the mapping that contains the address, whatever access rights this
    /// mapping has.
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    /// Bit mask: [`READABLE`], [`WRITABLE`] and other bits.
    rights: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    /// Sizes of the buffers for the name and the build ID; 0 if there is no buffer.
    sizes: [u32; 2],
    /// Addresses of the buffers. The field `sizes` contains the sizes of the same buffers.
    buffers: [u64; 2],
}

/// `_IOWR('f', 17, struct procmap_query)`.
const QUERY: libc::Ioctl = (3 << 30 | size_of::<Query>() << 16 | (b'f' as usize) << 8 | 17) as _;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;

/// Returns whether all `bytes` bytes at `start` are mapped and readable, and whether all of them are writable. If
/// `/proc` is not available, memory is assumed to be writable if all its pages can be read.
pub(crate) fn host_rights(start: u64, bytes: u64) -> (bool, bool) {
    let end = start.saturating_add(bytes);
    let maps = std::fs::File::open("/proc/self/maps").ok();
    if let Some(rights) = maps.and_then(|maps| queried(&maps, start, end)) {
        return rights;
    }
    match std::fs::read_to_string("/proc/self/maps") {
        Ok(maps) => rights_of(&maps, start, end),
        Err(_) => {
            let readable = every_page_readable(start, end);
            (readable, readable)
        }
    }
}

/// Does the same as [`host_rights`] for `start..end` with `PROCMAP_QUERY`. Returns `None` if the
/// system does not support this query.
fn queried(maps: &std::fs::File, start: u64, end: u64) -> Option<(bool, bool)> {
    let (mut at, mut writable) = (start, true);
    while at < end {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            address: at,
            ..Query::default()
        };
        // SAFETY: the kernel reads and writes only the structure, whose size is in its first field.
        let result = unsafe { libc::ioctl(maps.as_raw_fd(), QUERY, &raw mut query) };
        if result != 0 {
            let error = std::io::Error::last_os_error().raw_os_error();
            return (error == Some(libc::ENOENT)).then_some((false, false));
        }
        if query.rights & READABLE == 0 || query.end <= at {
            return Some((false, false));
        }
        writable &= query.rights & WRITABLE != 0;
        at = query.end;
    }
    Some((true, writable))
}

/// Reads a byte of each page of `start..end`, and returns whether all reads succeeded.
fn every_page_readable(start: u64, end: u64) -> bool {
    let page = super::limits::page_size();
    let mut at = start;
    while at < end {
        if access::read(&mut [0], at).is_err() {
            return false;
        }
        at = (at & !(page - 1)).saturating_add(page);
    }
    true
}

/// Does the same as [`host_rights`] for `start..end`, with `maps` as the text of `/proc/self/maps`.
fn rights_of(maps: &str, start: u64, end: u64) -> (bool, bool) {
    let (mut at, mut writable) = (start, true);
    for line in maps.lines() {
        // The lines are in ascending order of addresses.
        let Some((range, rights, _)) = mapping(line, at) else {
            continue;
        };
        if !rights.starts_with('r') {
            return (false, false);
        }
        writable &= rights[1..].starts_with('w');
        at = range.end;
        if at >= end {
            return (true, writable);
        }
    }
    (false, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_hold_for_the_whole_range() {
        let maps = "1000-3000 rw-p 0 00:00 0\n3000-4000 r--p 0 00:00 0\n4000-5000 ---p 0 00:00 0\n\
                    6000-7000 rw-p 0 00:00 0\n";
        assert_eq!(rights_of(maps, 0x1800, 0x3000), (true, true));
        assert_eq!(rights_of(maps, 0x1800, 0x3001), (true, false));
        assert_eq!(
            rights_of(maps, 0x3800, 0x4001),
            (false, false),
            "inaccessible"
        );
        assert_eq!(
            rights_of(maps, 0x5800, 0x6800),
            (false, false),
            "not mapped at its start"
        );
        assert_eq!(
            rights_of(maps, 0x6800, 0x7800),
            (false, false),
            "not mapped at its end"
        );
    }

    #[test]
    fn reads_show_the_rights_without_proc() {
        crate::fault::install().expect("handlers");
        let (words, function) = (
            vec![1u8; 3 * 4096],
            reads_show_the_rights_without_proc as fn(),
        );
        let start = words.as_ptr() as u64;
        assert!(every_page_readable(start, start + words.len() as u64));
        assert!(every_page_readable(
            function as usize as u64,
            function as usize as u64 + 1
        ));
        assert!(!every_page_readable(0x10, 0x20));
        assert!(!every_page_readable(start, u64::MAX));
    }

    #[test]
    fn each_way_finds_the_same_rights() {
        crate::fault::install().expect("handlers");
        const PAGE: usize = 1 << 16;
        // SAFETY: a new private mapping.
        let base = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(
                std::ptr::null_mut(),
                4 * PAGE,
                libc::PROT_NONE,
                flags,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        let page = |index: usize| base as u64 + (index * PAGE) as u64;
        // Pages: not accessible, writable, only readable, writable.
        for (index, rights) in [
            (1, libc::PROT_READ | libc::PROT_WRITE),
            (2, libc::PROT_READ),
            (3, libc::PROT_READ | libc::PROT_WRITE),
        ] {
            // SAFETY: within the mapping.
            let done = unsafe { libc::mprotect(page(index) as *mut _, PAGE, rights) };
            assert_eq!(done, 0);
        }
        let one = PAGE as u64;
        for (start, bytes, expected) in [
            (page(1), one, (true, true)),
            (page(1) + 5, 7, (true, true)),
            (page(1), one + 1, (true, false)),
            (page(2), one, (true, false)),
            (page(2) - 1, one + 2, (true, false)),
            (page(3), one, (true, true)),
            (page(0), 1, (false, false)),
            (page(0), 2 * one, (false, false)),
            (page(1), 16 * one, (false, false)),
            (8, 8, (false, false)),
        ] {
            let end = start + bytes;
            let text = std::fs::read_to_string("/proc/self/maps").expect("read");
            let file = std::fs::File::open("/proc/self/maps").expect("opened");
            assert_eq!(
                rights_of(&text, start, end),
                expected,
                "{start:#x}, {bytes}"
            );
            assert_eq!(host_rights(start, bytes), expected, "{start:#x}, {bytes}");
            if let Some(rights) = queried(&file, start, end) {
                assert_eq!(rights, expected, "{start:#x}, {bytes}");
            }
            assert_eq!(
                every_page_readable(start, end),
                expected.0,
                "{start:#x}, {bytes}"
            );
        }
        // SAFETY: the range is the mapping above, which is no longer used.
        unsafe { libc::munmap(base, 4 * PAGE) };
    }
}
