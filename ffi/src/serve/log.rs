//! Implements the entry points with which programs get the entries of the driver's log
//! ([`error_log`]): through callbacks, in a file or in memory. A log iterator (`CUlogIterator`) is
//! the number of the next entry to read.

use std::ffi::{c_char, c_uint, c_void};
use std::io::Write;

use margay::files::without_write_signals;

use crate::convert::{OptOut, Out, Text};
use crate::error_log::{self, LogCallback};
use crate::guard::Call;
use crate::result::{CuResult, Served};
use crate::types::{CUlogsCallback, CUlogsCallbackHandle};

pub(crate) fn logs_register_callback(
    _: &Call,
    function: CUlogsCallback,
    data: *mut c_void,
    out: OptOut<CUlogsCallbackHandle>,
) -> Served {
    let function = function.ok_or(CuResult::INVALID_VALUE)?;
    let callback = LogCallback {
        function,
        data: data as usize,
    };
    let handle = error_log::subscribe(callback);
    out.set(CUlogsCallbackHandle(handle.ok_or(CuResult::INVALID_VALUE)?));
    Ok(())
}

pub(crate) fn logs_unregister_callback(_: &Call, handle: CUlogsCallbackHandle) -> Served {
    match error_log::unsubscribe(handle.0) {
        true => Ok(()),
        false => Err(CuResult::INVALID_VALUE),
    }
}

pub(crate) fn logs_current(_: &Call, out: Out<c_uint>, flags: c_uint) -> Served {
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    out.set(error_log::end());
    Ok(())
}

/// Returns the log entries from the number at `iterator` on (all kept entries if it is null), and
/// the number of the next new entry.
///
/// # Safety
/// `iterator` must be null or valid.
unsafe fn dump(iterator: *mut c_uint) -> (Vec<String>, u32) {
    // SAFETY: a non-null iterator is valid, as the caller guarantees.
    error_log::from((!iterator.is_null()).then(|| unsafe { iterator.read_unaligned() }))
}

/// # Safety
/// `iterator` must be null or valid.
unsafe fn advance(iterator: *mut c_uint, end: u32) {
    if !iterator.is_null() {
        // SAFETY: a non-null iterator is valid, as the caller guarantees.
        unsafe { iterator.write_unaligned(end) };
    }
}

/// Appends the log entries from `iterator` on to the file at `path`.
pub(crate) fn logs_dump_to_file(
    _: &Call,
    iterator: *mut c_uint,
    path: Text,
    flags: c_uint,
) -> Served {
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller of the entry point guarantees that the iterator is null or valid.
    let (lines, end) = unsafe { dump(iterator) };
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path.0);
    let mut file = file.map_err(|_| CuResult::INVALID_VALUE)?;
    let mut write =
        || -> std::io::Result<()> { lines.iter().try_for_each(|line| writeln!(file, "{line}")) };
    without_write_signals(&mut write).map_err(|_| CuResult::INVALID_VALUE)?;
    // SAFETY: the caller of the entry point guarantees that the iterator is null or valid.
    unsafe { advance(iterator, end) };
    Ok(())
}

/// Returns a text with as many of the last `lines` as fit into `room` bytes together with a NUL. If
/// lines are left out, the text begins with a notice. Returns `None` if no line fits.
fn fit(lines: &[String], room: usize) -> Option<String> {
    const CUT: &str = "[W] the buffer holds the latest entries only\n";
    let whole: usize = lines.iter().map(|line| line.len() + 1).sum();
    if whole < room {
        return Some(lines.iter().flat_map(|line| [line, "\n"]).collect());
    }
    let mut left = room.checked_sub(CUT.len() + 1)?;
    let fitting = lines.iter().rev().take_while(|line| {
        let fits = line.len() < left;
        left = left.saturating_sub(line.len() + 1);
        fits
    });
    let count = fitting.count();
    if count == 0 {
        return None;
    }
    let latest = &lines[lines.len() - count..];
    let lines = latest.iter().flat_map(|line| [line.as_str(), "\n"]);
    Some(std::iter::once(CUT).chain(lines).collect())
}

pub(crate) fn logs_dump_to_memory(
    _: &Call,
    iterator: *mut c_uint,
    buffer: *mut c_char,
    size: *mut usize,
    flags: c_uint,
) -> Served {
    if flags != 0 || buffer.is_null() || size.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let room = unsafe { size.read_unaligned() };
    // SAFETY: the caller of the entry point guarantees that the iterator is null or valid.
    let (lines, end) = unsafe { dump(iterator) };
    let text = match lines.is_empty() {
        true if room > 0 => Some(String::new()),
        _ => fit(&lines, room),
    };
    let Some(text) = text else {
        // SAFETY: the pointer is not null; the caller guarantees that it is valid.
        unsafe { size.write_unaligned(0) };
        return Err(CuResult::INVALID_VALUE);
    };
    // SAFETY: the caller guarantees `room` bytes, into which the text and its NUL fit; `size` and `iterator` are valid.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, text.len());
        buffer.add(text.len()).write(0);
        size.write_unaligned(text.len());
        advance(iterator, end);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_lines_fit() {
        let lines: Vec<String> = (0..4).map(|n| format!("line {n}")).collect();
        assert_eq!(
            fit(&lines, 29).as_deref(),
            Some("line 0\nline 1\nline 2\nline 3\n")
        );
        assert_eq!(fit(&lines, 28), None, "not even the notice");
        let long: Vec<String> = (0..9).map(|n| format!("{n}").repeat(20)).collect();
        let text = fit(&long, 100).expect("some fit");
        assert!(
            text.len() < 100 && text.ends_with(&format!("{}\n", "8".repeat(20))),
            "{text}"
        );
        assert!(text.starts_with("[W]"));
    }
}
