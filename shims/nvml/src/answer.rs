//! Writing answers to where callers want them.

use std::ffi::{c_char, c_uint};

use crate::state::{Answer, Code};

/// Writes a value.
///
/// # Safety
/// `out` is null or the caller's place for a value.
pub(crate) unsafe fn give<T>(out: *mut T, value: T) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: the caller vouches for the place; C callers may not align it.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// Writes a text with its NUL, if it fits.
///
/// # Safety
/// `out` is null or has room for `room` bytes.
pub(crate) unsafe fn give_text(out: *mut c_char, room: c_uint, text: &str) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    if room as usize <= text.len() {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    // SAFETY: the text and its NUL fit.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len());
        out.add(text.len()).write(0);
    }
    Ok(())
}

/// A text as the content of a field of `N` bytes, cut where it must be.
pub(crate) fn field<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let len = text.floor_char_boundary(text.len().min(N - 1));
    bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
    bytes
}
