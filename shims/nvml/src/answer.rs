//! Functions that write results to the caller's memory.

use std::ffi::{c_char, c_uint};

use crate::state::{Answer, Code};

/// Writes a value to `out`; returns `INVALID_ARGUMENT` if `out` is null.
///
/// # Safety
/// `out` must be null or point to memory for a value.
pub(crate) unsafe fn give<T>(out: *mut T, value: T) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: the caller guarantees the memory, which need not be aligned.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// Writes a text and a final NUL to `out`; returns `INSUFFICIENT_SIZE` if they need more than
/// `room` bytes.
///
/// # Safety
/// `out` must be null or point to memory for `room` bytes.
pub(crate) unsafe fn give_text(out: *mut c_char, room: c_uint, text: &str) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    if room as usize <= text.len() {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    // SAFETY: the text and its NUL fit into `room` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len());
        out.add(text.len()).write(0);
    }
    Ok(())
}

/// Returns a text as an array of `N` bytes. A longer text is truncated, and a shorter text is
/// padded with NULs.
pub(crate) fn field<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let len = text.floor_char_boundary(text.len().min(N - 1));
    bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
    bytes
}
