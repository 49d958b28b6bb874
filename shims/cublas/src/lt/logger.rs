//! The functions of the logger.

use std::ffi::c_char;

use crate::host;
use crate::lt_log;
use crate::status::{Outcome, Status, need};

/// `cublasLtLoggerSetCallback`.
///
/// # Safety
/// The callback is null or a function of the documented type.
pub(crate) unsafe fn set_callback(callback: usize) -> Outcome {
    lt_log::set_callback(callback);
    Ok(())
}

/// `cublasLtLoggerSetFile`.
///
/// # Safety
/// The file is null or an open stream.
pub(crate) unsafe fn set_file(file: usize) -> Outcome {
    lt_log::set_stream(file);
    Ok(())
}

/// `cublasLtLoggerOpenFile`. Null is no error, as in NVIDIA's library.
///
/// # Safety
/// None.
pub(crate) unsafe fn open_file(name: *const c_char) -> Outcome {
    if name.is_null() {
        return Ok(());
    }
    let name = host::read_text(name).ok_or(Status::INVALID_VALUE)?;
    lt_log::open(&name).map_err(|_| Status::INVALID_VALUE.into())
}

/// `cublasLtLoggerSetLevel`.
///
/// # Safety
/// None.
pub(crate) unsafe fn set_level(level: i32) -> Outcome {
    need((0..=lt_log::HIGHEST).contains(&level), 0)?;
    lt_log::set_level(level);
    Ok(())
}

/// `cublasLtLoggerSetMask`.
///
/// # Safety
/// None.
pub(crate) unsafe fn set_mask(mask: i32) -> Outcome {
    lt_log::set_mask(mask);
    Ok(())
}

/// `cublasLtLoggerForceDisable`.
///
/// # Safety
/// None.
pub(crate) unsafe fn disable() -> Outcome {
    lt_log::disable();
    Ok(())
}
