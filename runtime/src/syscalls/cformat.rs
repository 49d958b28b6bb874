//! Formats numbers with the C library.
//!
//! The host's `snprintf` formats the numbers, so that they have the same form as in the output of
//! the program's own `printf`. Invariant: each format that is passed to `snprintf` is a single
//! conversion from [`Conversion::spec`], with one value of the matching type.

use std::ffi::{CString, c_char, c_int, c_longlong};

use super::printf::Conversion;

/// The value that a conversion formats.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    /// An integer, which is sign-extended for `d` and `i` and zero-extended for the other conversions.
    Integer(u64),
    Double(f64),
}

/// Formats one value.
pub(super) fn number(conversion: &Conversion, value: Value) -> Vec<u8> {
    let spec = match value {
        Value::Integer(_) => conversion.spec("ll"),
        Value::Double(_) => conversion.spec(""),
    };
    let Ok(spec) = CString::new(spec) else {
        return Vec::new();
    };
    let write = |out: *mut c_char, size: usize| -> c_int {
        // SAFETY: `spec` contains one conversion, whose flags, width and precision are literal. The conversion takes a
        // `long long` or a `double`, and the call passes a value of that type. `out` has `size` bytes.
        unsafe {
            match value {
                Value::Integer(bits) => {
                    libc::snprintf(out, size, spec.as_ptr(), bits as c_longlong)
                }
                Value::Double(double) => libc::snprintf(out, size, spec.as_ptr(), double),
            }
        }
    };
    let mut buffer = vec![0u8; 64];
    let needed = write(buffer.as_mut_ptr().cast(), buffer.len());
    let needed = usize::try_from(needed).unwrap_or(0);
    if needed >= buffer.len() {
        buffer = vec![0; needed + 1];
        write(buffer.as_mut_ptr().cast(), buffer.len());
    }
    buffer.truncate(needed);
    buffer
}
