//! Reads and writes values at addresses of the program that may be wrong ([`margay_native::host`]).

use std::mem::MaybeUninit;

use margay_native::host::{Direction, copy};

/// A type of which every sequence of bytes is a value.
///
/// # Safety
/// The type has no invalid bytes and no padding.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($name:ty)*) => {$(
        // SAFETY: a number, or numbers without padding.
        unsafe impl Plain for $name {}
    )*};
}

plain! { u8 i32 u32 u64 usize [u32; 4] [u32; 5] [u8; 128] }

/// Returns the value at an address; `None` if it is not readable.
pub(crate) fn read<T: Plain>(address: *const T) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    let place = value.as_mut_ptr() as usize;
    // SAFETY: the place has the size of the value.
    let copied = unsafe { copy(address as usize, place, size_of::<T>(), Direction::Read) };
    copied.then(|| {
        // SAFETY: all bytes were copied, and all bytes are values of the type.
        unsafe { value.assume_init() }
    })
}

/// Writes a value to an address. Returns `None` if the memory is not writable.
pub(crate) fn write<T: Plain>(address: *mut T, value: T) -> Option<()> {
    let place = &raw const value as usize;
    // SAFETY: the place has the size of the value.
    let copied = unsafe { copy(address as usize, place, size_of::<T>(), Direction::Write) };
    copied.then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_addresses_are_refused() {
        let mut value = 7u32;
        assert_eq!(read(&raw const value), Some(7));
        assert_eq!(write(&raw mut value, 9), Some(()));
        assert_eq!(value, 9);
        assert_eq!(read::<u32>(std::ptr::null()), None);
        assert_eq!(read(8 as *const u32), None);
        assert_eq!(write(8 as *mut u32, 1), None);
        assert_eq!(read(usize::MAX as *const u64), None);
    }
}
