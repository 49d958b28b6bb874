//! Conversion of arguments from C types to the parameter types of the functions in [`crate::serve`].
//!
//! The parameter types of such a function select the conversions. Each type of this module defines how a value is
//! created from the C type, and which result code the call returns for an invalid argument.
//! Scalars, raw pointers, and handles that a function looks up itself are passed unchanged.

use std::ffi::{CStr, c_char};

use crate::guard::Call;
use crate::result::CuResult;

/// A type of parameters whose values are created from arguments of the C type `Raw`.
pub(crate) trait FromAbi<Raw>: Sized {
    /// Converts an argument.
    ///
    /// # Safety
    /// If `raw` is a pointer, it must be null or valid for the accesses that the entry point
    /// performs.
    unsafe fn from_abi(raw: Raw, call: &Call) -> Result<Self, CuResult>;
}

impl<T> FromAbi<T> for T {
    unsafe fn from_abi(raw: T, _call: &Call) -> Result<T, CuResult> {
        Ok(raw)
    }
}

/// An output pointer that must not be null; if it is null, the call returns `INVALID_VALUE`.
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the result.
    pub(crate) fn set(&self, value: T) {
        // SAFETY: the pointer is not null; the caller of the entry point guarantees that it is valid.
        unsafe { self.0.write(value) };
    }
}

impl Out<std::ffi::c_void> {
    /// Writes `value` to the address that the pointer contains, as a value of type `T`. The caller
    /// of the entry point must have passed a pointer to enough memory for a `T`.
    pub(crate) fn set_as<T>(&self, value: T) {
        // SAFETY: the pointer is not null; the caller of the entry point guarantees that it is valid.
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

/// An output pointer that may be null; null means that the caller does not want the result.
#[derive(Debug)]
pub(crate) struct OptOut<T>(*mut T);

impl<T> OptOut<T> {
    /// Writes `value` to the address if the pointer is not null.
    pub(crate) fn set(&self, value: T) {
        if self.is_wanted() {
            // SAFETY: the pointer is not null; the caller of the entry point guarantees that it is valid.
            unsafe { self.0.write(value) };
        }
    }

    /// Returns a null output pointer.
    pub(crate) fn unwanted() -> OptOut<T> {
        OptOut(std::ptr::null_mut())
    }

    /// Returns whether the pointer is not null.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.0.is_null()
    }
}

impl<T> FromAbi<*mut T> for OptOut<T> {
    unsafe fn from_abi(raw: *mut T, _call: &Call) -> Result<OptOut<T>, CuResult> {
        Ok(OptOut(raw))
    }
}

/// A structure that is read from the caller's memory. If the pointer to it is null, the call
/// returns `INVALID_VALUE`.
#[derive(Debug)]
pub(crate) struct In<T>(pub(crate) T);

impl<T: Copy> FromAbi<*const T> for In<T> {
    unsafe fn from_abi(raw: *const T, _call: &Call) -> Result<In<T>, CuResult> {
        if raw.is_null() {
            return Err(CuResult::INVALID_VALUE);
        }
        // SAFETY: the pointer is not null; the caller of the entry point guarantees that it is valid. It need not be
        // aligned.
        Ok(In(unsafe { raw.read_unaligned() }))
    }
}

/// A C string. If the pointer is null or the text is not UTF-8, the call returns `INVALID_VALUE`.
#[derive(Debug)]
pub(crate) struct Text(pub(crate) String);

impl FromAbi<*const c_char> for Text {
    unsafe fn from_abi(raw: *const c_char, _call: &Call) -> Result<Text, CuResult> {
        if raw.is_null() {
            return Err(CuResult::INVALID_VALUE);
        }
        // SAFETY: the pointer is not null; the caller of the entry point guarantees the terminating NUL.
        let text = unsafe { CStr::from_ptr(raw) };
        match text.to_str() {
            Ok(text) => Ok(Text(text.to_owned())),
            Err(_) => Err(CuResult::INVALID_VALUE),
        }
    }
}

/// Reads an array of `len` values from the caller's memory.
///
/// # Errors
/// Returns `INVALID_VALUE` if `data` is null and `len` is not 0, or if `len` exceeds 2^20.
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
    // SAFETY: the caller guarantees `len` readable values; they need not be aligned.
    Ok((0..len)
        .map(|index| unsafe { data.add(index).read_unaligned() })
        .collect())
}
