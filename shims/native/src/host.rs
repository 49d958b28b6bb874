//! Copies bytes between addresses of the program, which may be wrong, and buffers of this process.
//!
//! If the memory at an address cannot be read or written, the copy fails, and the process goes on. The system copies the
//! bytes (`process_vm_readv`, `process_vm_writev`), which fails for unmapped and protected pages. If these system calls are
//! forbidden, addresses are trusted unless they are null.

use std::cell::Cell;
use std::mem::MaybeUninit;

/// The direction of a copy, seen from the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the program's address to the buffer.
    Read,
    /// From the buffer to the program's address.
    Write,
}

/// Copies bytes between an address of the program and a buffer. Returns whether all bytes were copied.
///
/// # Safety
/// The buffer has the size, and no reference to it exists that forbids the access.
pub unsafe fn copy(address: usize, buffer: usize, bytes: usize, direction: Direction) -> bool {
    if bytes == 0 {
        return true;
    }
    if address == 0 || address.checked_add(bytes).is_none() {
        return false;
    }
    let local = libc::iovec {
        iov_base: buffer as *mut libc::c_void,
        iov_len: bytes,
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: bytes,
    };
    // SAFETY: the function has no conditions.
    let process = unsafe { libc::getpid() };
    let copied = match direction {
        // SAFETY: the buffer has the size; the system checks the address.
        Direction::Read => unsafe { libc::process_vm_readv(process, &local, 1, &remote, 1, 0) },
        // SAFETY: as above.
        Direction::Write => unsafe { libc::process_vm_writev(process, &local, 1, &remote, 1, 0) },
    };
    if copied >= 0 {
        return usize::try_from(copied) == Ok(bytes);
    }
    if std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) {
        return false;
    }
    let (from, to) = match direction {
        Direction::Read => (address, buffer),
        Direction::Write => (buffer, address),
    };
    // SAFETY: the system forbids the test, so the caller of the C function must guarantee the address.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
    true
}

/// The size of the smallest pages of all supported machines.
const PAGE: usize = 4096;
/// Number of bytes that one system call reads.
const PROBES: usize = 512;

/// Returns whether all pages of a range are readable. If the system forbids the test, the result is true.
pub fn is_readable(address: usize, bytes: usize) -> bool {
    if bytes == 0 {
        return true;
    }
    let Some(end) = address.checked_add(bytes).filter(|_| address != 0) else {
        return false;
    };
    let first_page = (address / PAGE + 1) * PAGE;
    // One byte of each page.
    let mut probes = std::iter::once(address).chain((first_page..end).step_by(PAGE));
    // SAFETY: the function has no conditions.
    let process = unsafe { libc::getpid() };
    loop {
        let mut buffer = [0_u8; PROBES];
        let remote: Vec<libc::iovec> = (&mut probes)
            .take(PROBES)
            .map(|probe| libc::iovec {
                iov_base: probe as *mut libc::c_void,
                iov_len: 1,
            })
            .collect();
        if remote.is_empty() {
            return true;
        }
        let local = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: remote.len(),
        };
        let count = remote.len() as libc::c_ulong;
        // SAFETY: the buffer has a byte for each probe; the system checks the addresses.
        let read = unsafe { libc::process_vm_readv(process, &local, 1, remote.as_ptr(), count, 0) };
        match usize::try_from(read) {
            Ok(read) if read == remote.len() => {}
            Ok(_) => return false,
            Err(_) => {
                let error = std::io::Error::last_os_error().raw_os_error();
                return error != Some(libc::EFAULT);
            }
        }
    }
}

/// Returns whether bytes belong to frames of the thread's stack that are in use. They can be accessed without a copy.
pub fn on_own_stack(address: usize, bytes: usize) -> bool {
    let frame = 0_u8;
    let here = &raw const frame as usize;
    let (low, high) = STACK.with(|stack| {
        stack.get().unwrap_or_else(|| {
            let found = stack_of_thread();
            stack.set(Some(found));
            found
        })
    });
    let end = address.checked_add(bytes);
    (low..high).contains(&here) && address >= here && end.is_some_and(|end| end <= high)
}

thread_local! {
    /// The lowest address of the thread's stack and its end.
    static STACK: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Returns the range of the thread's stack; an empty range if it is unknown.
fn stack_of_thread() -> (usize, usize) {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the call initialises the attributes if it returns 0.
    let known = unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) };
    if known != 0 {
        return (0, 0);
    }
    let (mut low, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are initialised, and both variables are valid.
    let found = unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &mut low, &mut size) };
    // SAFETY: the attributes are initialised and no longer used.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    match found {
        0 => (low as usize, low as usize + size),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = (PROBES + 2) * PAGE;

    #[test]
    fn unreadable_pages_are_found() {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), LARGE, rights, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let start = start as usize;
        assert!(is_readable(start, LARGE));
        assert!(is_readable(start + 5, 3) && is_readable(start + 5, 0) && is_readable(0, 0));
        // The last page, and one in the middle.
        for page in [PROBES + 1, 3] {
            let at = start + page * PAGE;
            // SAFETY: the page belongs to the mapping.
            let closed = unsafe { libc::mprotect(at as *mut _, PAGE, libc::PROT_NONE) };
            assert_eq!(closed, 0);
            assert!(!is_readable(start, LARGE));
            assert!(is_readable(at - PAGE, PAGE));
            assert!(!is_readable(at - PAGE, PAGE + 1));
            assert!(!is_readable(at + PAGE - 1, 1));
        }
        assert!(!is_readable(0, 1) && !is_readable(usize::MAX, 2));
        // SAFETY: the mapping is no longer used.
        unsafe { libc::munmap(start as *mut _, LARGE) };
    }
}
