//! Calls of functions with arguments whose number and types are known only at run time.

use crate::entries::{CUBLAS, CUBLAS_LT};
use crate::entry::Entry;

/// A number of arguments that is larger than the parameter count of every function.
pub(super) const MOST: usize = 24;

#[rustfmt::skip]
type Function = unsafe extern "C" fn(
    usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize,
    usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize,
    f64, f64, f64, f64, f64, f64, f64, f64,
) -> usize;

/// Calls a function. Integers and floating-point numbers are passed in different registers, so the order among each other
/// does not matter.
#[rustfmt::skip]
pub(super) fn call(entry: &Entry, a: &[usize; MOST], f: f64) -> usize {
    // SAFETY: extra arguments are harmless in the C calling convention; the functions accept all arguments.
    unsafe {
        let function = std::mem::transmute::<*const (), Function>(entry.address.0);
        function(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
            a[12], a[13], a[14], a[15], a[16], a[17], a[18], a[19], a[20], a[21], a[22], a[23],
            f, f, f, f, f, f, f, f,
        )
    }
}

/// Returns all entry points.
pub(super) fn entries() -> impl Iterator<Item = &'static Entry> {
    CUBLAS.iter().chain(CUBLAS_LT)
}

/// Returns the entry point with a name (of CUDA 13 if it differs).
pub(super) fn entry(name: &str) -> &'static Entry {
    let mut found = entries().filter(|entry| entry.name == name && entry.toolkits.contains(&13));
    found.next().unwrap_or_else(|| panic!("no function {name}"))
}

/// Bytes of [`Buffer`].
pub(super) const BYTES: usize = 1 << 14;

/// Inaccessible bytes before and after [`Buffer`].
const GUARD: usize = 1 << 20;

/// Memory of tests between inaccessible pages: an access beyond its ends faults.
pub(super) struct Buffer(*mut u8);

impl Buffer {
    /// Memory in which each word is the address of the memory itself.
    pub(super) fn of_addresses() -> Buffer {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let (null, bytes) = (std::ptr::null_mut(), 2 * GUARD + BYTES);
        // SAFETY: a new mapping.
        let all = unsafe { libc::mmap(null, bytes, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(all, libc::MAP_FAILED, "there is memory");
        let start = all.cast::<u8>().wrapping_add(GUARD);
        // SAFETY: the range lies in the mapping.
        let changed =
            unsafe { libc::mprotect(start.cast(), BYTES, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(changed, 0, "the memory becomes accessible");
        let address = start.expose_provenance();
        for index in 0..BYTES / size_of::<usize>() {
            // SAFETY: the word is in the accessible part.
            unsafe { start.cast::<usize>().add(index).write(address) };
        }
        Buffer(start)
    }

    pub(super) fn address(&self) -> usize {
        self.0.expose_provenance()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let all = self.0.wrapping_sub(GUARD);
        // SAFETY: the mapping of `of_addresses`, which no work uses any more.
        unsafe { libc::munmap(all.cast(), 2 * GUARD + BYTES) };
    }
}
