//! Argument conversion: from what C passes to what the serving functions take.
//!
//! A serving function states what it wants by its parameter types; each type here knows how to
//! come from the C type and which result code a bad value earns. Scalars, raw pointers and
//! handles that a function treats itself pass unchanged.

use std::ffi::{CStr, c_char};

use crate::guard::Call;
use crate::result::CuResult;

/// A conversion from an argument of C type `Raw`.
pub(crate) trait FromAbi<Raw>: Sized {
    /// Converts.
    ///
    /// # Safety
    /// A pointer must be null or valid for what the entry point does with it.
    unsafe fn from_abi(raw: Raw, call: &Call) -> Result<Self, CuResult>;
}

impl<T> FromAbi<T> for T {
    unsafe fn from_abi(raw: T, _call: &Call) -> Result<T, CuResult> {
        Ok(raw)
    }
}

/// A place for a result; null is `INVALID_VALUE`.
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the result.
    pub(crate) fn set(&self, value: T) {
        // SAFETY: not null, and the entry point's caller vouches for the rest.
        unsafe { self.0.write(value) };
    }
}

impl Out<std::ffi::c_void> {
    /// Writes a result of another type, which the caller has room for.
    pub(crate) fn set_as<T>(&self, value: T) {
        // SAFETY: not null, and the entry point's caller vouches for the rest.
        unsafe { self.0.cast::<T>().write_unaligned(value) };
    }
}

impl<T> FromAbi<*mut T> for Out<T> {
    unsafe fn from_abi(raw: *mut T, _call: &Call) -> Result<Out<T>, CuResult> {
        if raw.is_null() {
            return Err(CuResult::INVALID_VALUE);
        }
        Ok(Out(raw))
    }
}

/// A place for a result that the caller may not want (null).
#[derive(Debug)]
pub(crate) struct OptOut<T>(*mut T);

impl<T> OptOut<T> {
    /// Writes the result if it is wanted.
    pub(crate) fn set(&self, value: T) {
        if self.is_wanted() {
            // SAFETY: not null, and the entry point's caller vouches for the rest.
            unsafe { self.0.write(value) };
        }
    }

    /// No place.
    pub(crate) fn unwanted() -> OptOut<T> {
        OptOut(std::ptr::null_mut())
    }

    /// Whether the caller gave a place.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.0.is_null()
    }
}

impl<T> FromAbi<*mut T> for OptOut<T> {
    unsafe fn from_abi(raw: *mut T, _call: &Call) -> Result<OptOut<T>, CuResult> {
        Ok(OptOut(raw))
    }
}

/// A structure read from the caller; null is `INVALID_VALUE`.
#[derive(Debug)]
pub(crate) struct In<T>(pub(crate) T);

impl<T: Copy> FromAbi<*const T> for In<T> {
    unsafe fn from_abi(raw: *const T, _call: &Call) -> Result<In<T>, CuResult> {
        if raw.is_null() {
            return Err(CuResult::INVALID_VALUE);
        }
        // SAFETY: not null, and the entry point's caller vouches for the rest; alignment is
        // not relied on.
        Ok(In(unsafe { raw.read_unaligned() }))
    }
}

/// A C string that must be there and be UTF-8; anything else is `INVALID_VALUE`.
#[derive(Debug)]
pub(crate) struct Text(pub(crate) String);

impl FromAbi<*const c_char> for Text {
    unsafe fn from_abi(raw: *const c_char, _call: &Call) -> Result<Text, CuResult> {
        if raw.is_null() {
            return Err(CuResult::INVALID_VALUE);
        }
        // SAFETY: not null, and the entry point's caller vouches for the terminating NUL.
        let text = unsafe { CStr::from_ptr(raw) };
        match text.to_str() {
            Ok(text) => Ok(Text(text.to_owned())),
            Err(_) => Err(CuResult::INVALID_VALUE),
        }
    }
}

/// An array of the caller's with a separate length.
///
/// # Errors
/// `INVALID_VALUE` when it is null but not empty, or unreasonably long.
///
/// # Safety
/// `data` must be null or valid for reading `len` values.
pub(crate) unsafe fn read_array<T: Copy>(data: *const T, len: usize) -> Result<Vec<T>, CuResult> {
    if len == 0 {
        return Ok(Vec::new());
    }
    if data.is_null() || len > 1 << 20 {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for `len` values; alignment is not relied on.
    Ok((0..len)
        .map(|index| unsafe { data.add(index).read_unaligned() })
        .collect())
}
