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

/// Memory of tests, aligned as device memory is.
#[repr(align(256))]
pub(super) struct Buffer(pub(super) [u8; 1 << 14]);

impl Buffer {
    /// Memory in which each word is the address of the memory itself.
    pub(super) fn of_addresses() -> Box<Buffer> {
        let mut buffer = Box::new(Buffer([0; 1 << 14]));
        let address = buffer.0.as_ptr().expose_provenance().to_ne_bytes();
        for word in buffer.0.chunks_exact_mut(8) {
            word.copy_from_slice(&address);
        }
        buffer
    }

    pub(super) fn address(&self) -> usize {
        self.0.as_ptr().expose_provenance()
    }
}
