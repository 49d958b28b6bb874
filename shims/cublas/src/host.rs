//! Reads and writes memory of the program at addresses that may be wrong.
//!
//! Functions of cuBLAS get pointers to scalars, results and descriptors. If the memory at such an address cannot be read
//! or written, the call fails, and the process goes on. An address inside the used part of the thread's own stack needs
//! no test. For others, `margay-native` copies the bytes, which fails for unmapped and protected pages.
//!
//! Invariant: a value is read only as a type of which all bytes are valid ([`Plain`]).

use std::mem::MaybeUninit;

use margay_native::host::{self, Direction, on_own_stack};

/// A type of which every sequence of bytes is a value.
///
/// # Safety
/// The type has no invalid bytes, no padding and no pointers that are followed without a test.
pub(crate) unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($name:ty)*) => {
        $(
            // SAFETY: a number, or numbers without padding.
            unsafe impl Plain for $name {}
        )*
    };
}

plain! { u8 i8 i32 u32 i64 u64 usize f32 f64 half::f16 half::bf16 }
plain! { margay_blas::Complex<f32> margay_blas::Complex<f64> }
plain! { [f32; 5] [f64; 5] [u64; 8] [u64; 14] [u64; 32] [u64; 12] [u64; 2] [half::f16; 2] }

/// Returns the value at an address; `None` if it is not readable.
pub(crate) fn read<T: Plain>(address: *const T) -> Option<T> {
    if on_own_stack(address as usize, size_of::<T>()) {
        // SAFETY: the bytes belong to a frame of this thread's stack.
        return Some(unsafe { address.read_unaligned() });
    }
    let mut value = MaybeUninit::<T>::uninit();
    copy(
        address as usize,
        value.as_mut_ptr() as usize,
        size_of::<T>(),
        Direction::Read,
    )
    .then(|| {
        // SAFETY: all bytes were copied, and all bytes are values of the type.
        unsafe { value.assume_init() }
    })
}

/// Returns `count` values at an address; `None` if they are not all readable.
pub(crate) fn read_all<T: Plain>(address: *const T, count: usize) -> Option<Vec<T>> {
    let bytes = count.checked_mul(size_of::<T>())?;
    if count == 0 {
        return Some(Vec::new());
    }
    // The first and the last value are read first, so that a wrong count does not lead to a large allocation.
    read(address)?;
    read(address.wrapping_add(count - 1))?;
    let mut values = Vec::new();
    values.try_reserve_exact(count).ok()?;
    let place = values.as_mut_ptr() as usize;
    if !copy(address as usize, place, bytes, Direction::Read) {
        return None;
    }
    // SAFETY: the values were copied.
    unsafe { values.set_len(count) };
    Some(values)
}

/// Returns the bytes of a C string; `None` if memory that is not readable precedes its end.
pub(crate) fn read_text(address: *const std::ffi::c_char) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        match read(address.cast::<u8>().wrapping_add(bytes.len()))? {
            0 => return Some(bytes),
            byte => bytes.push(byte),
        }
    }
}

/// Writes a value to an address. Returns `None` if the memory is not writable.
pub(crate) fn write<T: Plain>(address: *mut T, value: T) -> Option<()> {
    if on_own_stack(address as usize, size_of::<T>()) {
        // SAFETY: the bytes belong to a frame of this thread's stack, and the caller of the C function named them.
        unsafe { address.write_unaligned(value) };
        return Some(());
    }
    let place = &raw const value as usize;
    copy(address as usize, place, size_of::<T>(), Direction::Write).then_some(())
}

/// Writes bytes to an address. Returns `None` if the memory is not writable.
pub(crate) fn write_bytes(address: *mut u8, bytes: &[u8]) -> Option<()> {
    let place = bytes.as_ptr() as usize;
    copy(address as usize, place, bytes.len(), Direction::Write).then_some(())
}

/// Copies bytes between an address of the program and a buffer of this crate. Returns whether all bytes were copied.
fn copy(address: usize, buffer: usize, bytes: usize, direction: Direction) -> bool {
    // SAFETY: the callers pass buffers of the size.
    unsafe { host::copy(address, buffer, bytes, direction) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_addresses_are_answers() {
        let heap = Box::new(7_i64);
        let stack = 9_i64;
        assert_eq!(read(&raw const *heap), Some(7));
        assert_eq!(read(&raw const stack), Some(9));
        for wrong in [0, 8, 1 << 62, usize::MAX - 3] {
            assert_eq!(read(wrong as *const i64), None, "{wrong:x}");
            assert_eq!(write(wrong as *mut i64, 1), None, "{wrong:x}");
        }
        static CONSTANT: i64 = 5;
        assert_eq!(read(&raw const CONSTANT), Some(5));
        assert_eq!(write((&raw const CONSTANT).cast_mut(), 6), None);
    }

    #[test]
    fn values_are_written() {
        let mut heap = Box::new(7_i64);
        let mut stack = 9_i64;
        assert_eq!(write(&raw mut *heap, -1), Some(()));
        assert_eq!(write(&raw mut stack, -2), Some(()));
        assert_eq!((*heap, stack), (-1, -2));
    }

    #[test]
    fn counts_that_lie_are_answers() {
        let values = [1_i32, 2, 3];
        assert_eq!(read_all(values.as_ptr(), 3), Some(vec![1, 2, 3]));
        assert_eq!(read_all(values.as_ptr(), usize::MAX / 8), None);
        assert_eq!(read_all(values.as_ptr(), usize::MAX), None);
        assert_eq!(read_text(c"name".as_ptr()), Some(b"name".to_vec()));
    }
}
