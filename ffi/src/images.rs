//! Determines the length of an image that is passed as a bare pointer, and returns the image as byte slices.
//!
//! Fat binary containers and ELF files contain their length in their headers. PTX text ends at its first NUL. A wrapper
//! contains pointers to fat binary containers. The module `margay::container` interprets the bytes.
//!
//! Invariant: each length and address in an image is checked against the readable memory
//! ([`readable`]) before the module reads bytes at this address. A damaged image leads to an error
//! and never to a fault.

use std::ffi::c_void;

use margay::Image;
use margay::container::{
    CONTAINER_HEADER_LEN, DETECT_LEN, ELF_HEADER_LEN, ImageKind, WRAPPER_LEN, Wrapper,
    container_len, detect, elf_len, elf_tables_len, wrapper,
};

use crate::readable;
use crate::result::CuResult;

/// The maximum number of containers in one wrapper.
const MAX_LINKED: usize = 1 << 16;

/// One image, or several images that are linked together.
pub(crate) struct Images<'a> {
    parts: Vec<&'a [u8]>,
    wrapped: bool,
}

impl<'a> Images<'a> {
    /// Reads the image that begins at `start`.
    ///
    /// # Errors
    /// Returns `INVALID_VALUE` for a null pointer and `INVALID_IMAGE` for bytes that are not an image.
    ///
    /// # Safety
    /// `start` must be null or point to an image that stays unchanged for the lifetime `'a`.
    pub(crate) unsafe fn at(start: *const c_void) -> Result<Images<'a>, CuResult> {
        if start.is_null() {
            return Err(CuResult::INVALID_VALUE);
        }
        let start = start.cast::<u8>();
        // SAFETY: the caller guarantees an image, and `prefix` reads only readable bytes.
        let prefix = unsafe { prefix(start) }?;
        let kind = detect(&prefix);
        // SAFETY: the caller guarantees an image, whose kind was detected above.
        let parts = unsafe {
            match kind {
                Some(ImageKind::Wrapper) => wrapped(start)?,
                Some(kind) => vec![plain(start, kind)?],
                None => return Err(CuResult::INVALID_IMAGE),
            }
        };
        Ok(Images {
            parts,
            wrapped: kind == Some(ImageKind::Wrapper),
        })
    }

    /// Returns whether the image has the wrapper that only NVIDIA's runtime passes.
    pub(crate) fn is_wrapped(&self) -> bool {
        self.wrapped
    }

    /// Interprets `bytes` as one whole image, for example the content of a file.
    ///
    /// # Errors
    /// Returns `INVALID_IMAGE` for bytes that are not an image, and for a wrapper, whose addresses are meaningless in a
    /// file.
    pub(crate) fn of(bytes: &'a [u8]) -> Result<Images<'a>, CuResult> {
        match detect(bytes) {
            None | Some(ImageKind::Wrapper) => Err(CuResult::INVALID_IMAGE),
            Some(_) => Ok(vec![bytes]),
        }
        .map(|parts| Images {
            parts,
            wrapped: false,
        })
    }

    /// Returns the image as the type that the runtime (crate `margay`) accepts.
    pub(crate) fn image(&self) -> Image<'_> {
        match self.parts.as_slice() {
            [one] => Image::Bytes(one),
            many => Image::Linked(many),
        }
    }
}

/// Returns the first `DETECT_LEN` bytes of an image, or fewer if a NUL or the end of the readable memory comes earlier.
/// The result includes the NUL.
///
/// # Safety
/// The safety conditions of [`Images::at`] must hold, and `start` must not be null.
unsafe fn prefix(start: *const u8) -> Result<Vec<u8>, CuResult> {
    let len = readable::readable(start as usize, DETECT_LEN);
    if len == 0 {
        return Err(CuResult::INVALID_IMAGE);
    }
    // SAFETY: the caller guarantees that the bytes stay unchanged.
    let mut bytes = unsafe { readable::bytes(start, len) }?.to_vec();
    if let Some(end) = bytes.iter().position(|&byte| byte == 0) {
        bytes.truncate(end + 1);
    }
    Ok(bytes)
}

/// Returns the bytes of an image that contains no pointers.
///
/// # Safety
/// The safety conditions of [`Images::at`] must hold, and the image must be of the kind `kind`.
unsafe fn plain<'a>(start: *const u8, kind: ImageKind) -> Result<&'a [u8], CuResult> {
    // SAFETY: each kind is read only up to the length that its own headers give.
    unsafe {
        match kind {
            ImageKind::Fatbin => {
                let header = readable::array::<CONTAINER_HEADER_LEN>(start)?;
                readable::bytes(start, container_len(&header)?)
            }
            ImageKind::Elf => {
                let header = readable::array::<ELF_HEADER_LEN>(start)?;
                let tables = readable::bytes(start, elf_tables_len(&header)?)?;
                readable::bytes(start, elf_len(tables)?)
            }
            ImageKind::Text => readable::until_zero(start),
            // An archive does not contain its length, so a bare pointer to an archive is invalid.
            ImageKind::Archive | ImageKind::Wrapper => Err(CuResult::INVALID_IMAGE),
        }
    }
}

/// Returns the bytes of the fat binary containers to which the wrapper at `start` points: if the wrapper has a list,
/// the containers in the list, otherwise its single container.
///
/// # Safety
/// The safety conditions of [`Images::at`] must hold, and a wrapper must begin at `start`.
unsafe fn wrapped<'a>(start: *const u8) -> Result<Vec<&'a [u8]>, CuResult> {
    // SAFETY: the caller guarantees a whole wrapper.
    let bytes = unsafe { readable::array::<WRAPPER_LEN>(start) }?;
    let Wrapper {
        version,
        container,
        list,
    } = wrapper(&bytes)?;
    if version == 1 || list == 0 {
        // SAFETY: a wrapper's container pointer is valid or null.
        return Ok(vec![unsafe { container_at(container) }?]);
    }
    let list = list as *const u64;
    let mut parts = Vec::new();
    while parts.len() < MAX_LINKED {
        // SAFETY: the list extends to its null entry, which was not reached yet.
        let entry = unsafe { readable::array(list.wrapping_add(parts.len()).cast()) }?;
        let address = u64::from_ne_bytes(entry);
        if address == 0 {
            break;
        }
        // SAFETY: the entries are the addresses of containers.
        parts.push(unsafe { container_at(address) }?);
    }
    match parts.is_empty() {
        true => Err(CuResult::INVALID_IMAGE),
        false => Ok(parts),
    }
}

/// # Safety
/// `address` must be 0 or the address of a container that stays unchanged for the lifetime `'a`.
unsafe fn container_at<'a>(address: u64) -> Result<&'a [u8], CuResult> {
    if address == 0 {
        return Err(CuResult::INVALID_IMAGE);
    }
    // SAFETY: the caller guarantees a container; its magic number is checked together with its length.
    unsafe { plain(address as *const u8, ImageKind::Fatbin) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(0xba55_ed50u32.to_le_bytes());
        bytes.extend(1u16.to_le_bytes());
        bytes.extend(16u16.to_le_bytes());
        bytes.extend((payload.len() as u64).to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    fn wrapper_bytes(version: u32, container: *const u8, list: *const *const u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(0x4662_43b1u32.to_le_bytes());
        bytes.extend(version.to_le_bytes());
        bytes.extend((container as u64).to_le_bytes());
        bytes.extend((list as u64).to_le_bytes());
        bytes
    }

    fn parts(start: *const u8) -> Result<Vec<Vec<u8>>, CuResult> {
        // SAFETY: the tests pass images that they hold, or null.
        let images = unsafe { Images::at(start.cast()) }?;
        Ok(images.parts.iter().map(|part| part.to_vec()).collect())
    }

    #[test]
    fn text_ends_at_its_nul() {
        let text = b"//\n.version 8.0\n\0garbage";
        assert_eq!(
            parts(text.as_ptr()),
            Ok(vec![b"//\n.version 8.0\n".to_vec()])
        );
        assert_eq!(parts(c"".as_ptr().cast()), Ok(vec![Vec::new()]));
    }

    #[test]
    fn a_container_tells_its_length() {
        let mut bytes = container(&[7; 24]);
        let whole = bytes.clone();
        bytes.extend([9; 32]);
        assert_eq!(parts(bytes.as_ptr()), Ok(vec![whole]));
    }

    #[test]
    fn wrappers_are_followed() {
        let (first, second) = (container(&[1; 8]), container(&[2; 16]));
        let one = wrapper_bytes(1, first.as_ptr(), std::ptr::null());
        assert_eq!(parts(one.as_ptr()), Ok(vec![first.clone()]));
        let list = [second.as_ptr(), first.as_ptr(), std::ptr::null()];
        let two = wrapper_bytes(2, first.as_ptr(), list.as_ptr());
        assert_eq!(parts(two.as_ptr()), Ok(vec![second.clone(), first.clone()]));
    }

    #[test]
    fn what_is_no_image_is_refused() {
        assert_eq!(parts(std::ptr::null()), Err(CuResult::INVALID_VALUE));
        assert_eq!(parts([1u8; 64].as_ptr()), Err(CuResult::INVALID_IMAGE));
        let none = wrapper_bytes(1, std::ptr::null(), std::ptr::null());
        assert_eq!(parts(none.as_ptr()), Err(CuResult::INVALID_IMAGE));
        let lost = wrapper_bytes(1, 64 as *const u8, std::ptr::null());
        assert_eq!(parts(lost.as_ptr()), Err(CuResult::INVALID_IMAGE));
        let lost = wrapper_bytes(2, std::ptr::null(), 64 as *const *const u8);
        assert_eq!(parts(lost.as_ptr()), Err(CuResult::INVALID_IMAGE));
        assert_eq!(parts(64 as *const u8), Err(CuResult::INVALID_IMAGE));
        let third = wrapper_bytes(3, std::ptr::null(), std::ptr::null());
        assert_eq!(parts(third.as_ptr()), Err(CuResult::INVALID_IMAGE));
    }
}
