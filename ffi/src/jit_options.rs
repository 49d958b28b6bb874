//! The option arrays of loading and linking (`CUjit_option` with values in pointer-sized slots).
//!
//! A slot contains an integer or a pointer (a log buffer), or receives an output on return (the wall time, the number
//! of log bytes used). Options that are only hints have no effect. Options that CUDA does not
//! define are errors.

use std::ffi::{c_char, c_uint, c_void};

use margay::LoadOptions;

use crate::convert::read_array;
use crate::result::{CuResult, Served};
use crate::types::{CUjit_option, CUlibraryOption};

const MAX_REGISTERS: u32 = 0;
const WALL_TIME: u32 = 2;
const INFO_LOG_BUFFER: u32 = 3;
const INFO_LOG_BUFFER_SIZE: u32 = 4;
const ERROR_LOG_BUFFER: u32 = 5;
const ERROR_LOG_BUFFER_SIZE: u32 = 6;
const GENERATE_DEBUG_INFO: u32 = 11;
const LOG_VERBOSE: u32 = 12;
/// `CU_JIT_NUM_OPTIONS` and `CU_LIBRARY_NUM_OPTIONS` of CUDA 13.5. CUDA defines an option for each
/// smaller number.
const JIT_OPTIONS: u32 = 36;
const LIBRARY_OPTIONS: u32 = 2;

/// The options of a call that loads or links. This library accesses the caller's array of values
/// until the call returns. The array that the program passes to `cuLinkCreate` is accessed until
/// `cuLinkDestroy`, as CUDA documents.
pub(crate) struct JitOptions {
    options: Vec<CUjit_option>,
    values: *mut *mut c_void,
}

// SAFETY: the pointer refers to the caller's array, and only the call or the link with these options uses it. CUDA
// requires that programs do not use one link from two threads at once.
unsafe impl Send for JitOptions {}
// SAFETY: as for `Send`.
unsafe impl Sync for JitOptions {}

impl JitOptions {
    /// Copies the options (`CUjit_option`) from their array. Does not copy the array of values, but stores its pointer.
    ///
    /// # Errors
    /// Returns `INVALID_VALUE` if an array is null and `count` is not 0, and for options that CUDA does not define.
    ///
    /// # Safety
    /// Each array must be null or contain `count` elements.
    pub(crate) unsafe fn read(
        count: c_uint,
        options: *const CUjit_option,
        values: *mut *mut c_void,
    ) -> Result<JitOptions, CuResult> {
        // SAFETY: the caller guarantees `count` elements, or null.
        let options = unsafe { read_array(options, count as usize) }?;
        if count > 0 && values.is_null() || options.iter().any(|&option| option >= JIT_OPTIONS) {
            return Err(CuResult::INVALID_VALUE);
        }
        Ok(JitOptions { options, values })
    }

    /// Returns options for a call that has no option arrays: the list is empty.
    pub(crate) fn none() -> JitOptions {
        JitOptions {
            options: Vec::new(),
            values: std::ptr::null_mut(),
        }
    }

    fn slot(&self, option: u32) -> Option<*mut *mut c_void> {
        let at = self.options.iter().rposition(|&o| o == option)?;
        // SAFETY: there are as many values as options.
        Some(unsafe { self.values.add(at) })
    }

    fn value(&self, option: u32) -> Option<usize> {
        // SAFETY: the slot is inside the caller's array.
        Some(unsafe { self.slot(option)?.read_unaligned() } as usize)
    }

    /// Converts the options to the load options of the runtime.
    pub(crate) fn load_options(&self, capability: (i32, i32)) -> LoadOptions {
        let flag = |option| self.value(option).is_some_and(|value| value as u32 != 0);
        LoadOptions {
            capability: (capability.0 * 10 + capability.1) as u32,
            name: None,
            max_registers: self.value(MAX_REGISTERS).map(|value| value as u32),
            debug: flag(GENERATE_DEBUG_INFO),
            unprobed: false,
            verbose: flag(LOG_VERBOSE),
        }
    }

    /// Returns whether the caller provides a buffer for the error log.
    pub(crate) fn has_error_log(&self) -> bool {
        self.value(ERROR_LOG_BUFFER).is_some_and(|start| start != 0)
            && self
                .value(ERROR_LOG_BUFFER_SIZE)
                .is_some_and(|size| size as u32 != 0)
    }

    /// Writes the information log `info`, the error log `error` and the wall time `seconds` to the
    /// buffers and slots that the caller provides for them.
    pub(crate) fn write_back(&self, info: &str, error: &str, seconds: f32) {
        self.write_log(INFO_LOG_BUFFER, INFO_LOG_BUFFER_SIZE, info);
        self.write_log(ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE, error);
        if let Some(slot) = self.slot(WALL_TIME) {
            // SAFETY: the slot belongs to the caller; the time is a float in milliseconds at the beginning of the slot.
            unsafe { slot.cast::<f32>().write_unaligned(seconds * 1e3) };
        }
    }

    /// Writes `text` to a log buffer, truncated to the size of the buffer and terminated by a NUL. Stores the number of
    /// bytes before the NUL in the slot of the size option.
    fn write_log(&self, buffer: u32, size: u32, text: &str) {
        let (Some(start), Some(room)) = (self.value(buffer), self.value(size)) else {
            return;
        };
        let (start, room) = (start as *mut c_char, room as u32 as usize);
        if start.is_null() || room == 0 {
            return;
        }
        let len = text.floor_char_boundary(text.len().min(room - 1));
        // SAFETY: the buffer has `room` bytes, of which `len + 1` are written.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), start, len);
            start.add(len).write(0);
        }
        if let Some(slot) = self.slot(size) {
            // SAFETY: the slot is inside the caller's array.
            unsafe { slot.write_unaligned(len as *mut c_void) };
        }
    }
}

/// Checks the options of a library (`CUlibraryOption`), which have no effect.
///
/// # Errors
/// Returns `INVALID_VALUE` if the array is null and `count` is not 0, and for options that CUDA does not define.
///
/// # Safety
/// The array must be null or contain `count` elements.
pub(crate) unsafe fn check_library_options(
    count: c_uint,
    options: *const CUlibraryOption,
) -> Served {
    // SAFETY: the caller guarantees `count` elements, or null.
    let options = unsafe { read_array(options, count as usize) }?;
    match options.iter().all(|&option| option < LIBRARY_OPTIONS) {
        true => Ok(()),
        false => Err(CuResult::INVALID_VALUE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_cut_and_their_length_told() {
        let mut log = [b'x'; 8];
        let options = [
            ERROR_LOG_BUFFER,
            ERROR_LOG_BUFFER_SIZE,
            WALL_TIME,
            MAX_REGISTERS,
        ];
        let mut values = [log.as_mut_ptr() as usize, 8, 0, 32].map(|v| v as *mut c_void);
        // SAFETY: four options and four values.
        let read = unsafe { JitOptions::read(4, options.as_ptr(), values.as_mut_ptr()) };
        let options = read.unwrap_or_else(|code| panic!("{code:?}"));
        assert_eq!(options.load_options((8, 6)).capability, 86);
        assert_eq!(options.load_options((8, 6)).max_registers, Some(32));
        options.write_back("unused", "0123456789", 0.5);
        assert_eq!(&log, b"0123456\0");
        assert_eq!(values[1] as usize, 7);
        assert_eq!(f32::from_bits(values[2] as usize as u32), 500.0);
    }

    #[test]
    fn missing_arrays_are_invalid() {
        let options = [0u32];
        // SAFETY: null is allowed.
        let read = unsafe { JitOptions::read(1, options.as_ptr(), std::ptr::null_mut()) };
        assert_eq!(read.err(), Some(CuResult::INVALID_VALUE));
        // SAFETY: null is allowed.
        let read = unsafe { JitOptions::read(1, std::ptr::null(), std::ptr::null_mut()) };
        assert_eq!(read.err(), Some(CuResult::INVALID_VALUE));
    }
}
