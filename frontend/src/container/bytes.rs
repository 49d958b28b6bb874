//! Reads little-endian fields of a byte slice, with bounds checks.
//!
//! Fat binaries, wrappers and ELF files contain offsets and sizes, and a malicious file can contain any values there.
//! Therefore, all reads use [`Bytes`], whose methods return `None` instead of reading past the end of the slice.
//! Callers check additions of offsets from a file for overflow.

use super::ImageError;

/// A byte slice whose reads are checked against its bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    /// Returns the `len` bytes at `offset`, or `None` if some of them are outside the slice.
    pub(super) fn slice(self, offset: u64, len: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = usize::try_from(offset.checked_add(len)?).ok()?;
        self.0.get(start..end)
    }

    /// Returns the bytes from `offset` to the end of the slice, or `None` if `offset` is past the
    /// end.
    pub(super) fn tail(self, offset: u64) -> Option<&'a [u8]> {
        self.0.get(usize::try_from(offset).ok()?..)
    }

    /// Reads the `N` bytes at `offset`, or returns `None` if some of them are outside the slice.
    fn array<const N: usize>(self, offset: u64) -> Option<[u8; N]> {
        self.slice(offset, N as u64)?.try_into().ok()
    }

    /// Reads the `u16` at `offset`.
    pub(super) fn u16(self, offset: u64) -> Option<u16> {
        self.array(offset).map(u16::from_le_bytes)
    }

    /// Reads the `u32` at `offset`.
    pub(super) fn u32(self, offset: u64) -> Option<u32> {
        self.array(offset).map(u32::from_le_bytes)
    }

    /// Reads the `u64` at `offset`.
    pub(super) fn u64(self, offset: u64) -> Option<u64> {
        self.array(offset).map(u64::from_le_bytes)
    }
}

/// Returns an empty buffer with a capacity of `len` bytes.
pub(super) fn buffer(len: usize) -> Result<Vec<u8>, ImageError> {
    let mut buffer = Vec::new();
    let reserved = buffer.try_reserve_exact(len);
    let bytes = len as u64;
    reserved.map_err(|_| ImageError::OutOfMemory { bytes })?;
    Ok(buffer)
}

/// Returns a copy of `bytes`.
pub(super) fn copy(bytes: &[u8]) -> Result<Vec<u8>, ImageError> {
    let mut copy = buffer(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Returns the bytes before the first NUL, or all bytes if there is none.
pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    &bytes[..end]
}
