//! Reads and writes memory of the program at addresses that may be wrong.
//!
//! The system copies the bytes (`process_vm_readv`, `process_vm_writev`), which fails for unmapped and protected pages. If
//! these system calls are forbidden, addresses are trusted unless they are null.

use std::mem::MaybeUninit;

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
    copy(address as usize, place, size_of::<T>(), true).then(|| {
        // SAFETY: all bytes were copied, and all bytes are values of the type.
        unsafe { value.assume_init() }
    })
}

/// Writes a value to an address. Returns `None` if the memory is not writable.
pub(crate) fn write<T: Plain>(address: *mut T, value: T) -> Option<()> {
    let place = &raw const value as usize;
    copy(address as usize, place, size_of::<T>(), false).then_some(())
}

/// Copies bytes between an address of the program and a buffer of this crate. Returns whether all bytes were copied.
fn copy(address: usize, buffer: usize, bytes: usize, reads: bool) -> bool {
    if address == 0 || address.checked_add(bytes).is_none() {
        return false;
    }
    let vector = |base: usize| libc::iovec {
        iov_base: base as *mut libc::c_void,
        iov_len: bytes,
    };
    let (local, remote) = (vector(buffer), vector(address));
    let own = std::process::id().cast_signed();
    let copied = match reads {
        // SAFETY: the buffer is valid, and the system checks the other address.
        true => unsafe {
            libc::process_vm_readv(own, &raw const local, 1, &raw const remote, 1, 0)
        },
        // SAFETY: as above.
        false => unsafe {
            libc::process_vm_writev(own, &raw const local, 1, &raw const remote, 1, 0)
        },
    };
    if copied >= 0 {
        return copied.cast_unsigned() == bytes;
    }
    if std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) {
        return false;
    }
    let (from, to) = match reads {
        true => (address, buffer),
        false => (buffer, address),
    };
    // SAFETY: the system forbids the test, so the program's address is trusted.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
    true
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
