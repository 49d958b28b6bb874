//! The driver's log: what failed calls say, kept in memory, given to callbacks, written where the program wants.
//!
//! An entry is a line: severity, time since the library was loaded, the call and its result or what the library warns
//! of. Entries are numbered; an iterator is the number of the next entry to read. Invariant: the kept entries have
//! consecutive numbers and at most [`ROOM`] bytes; callbacks are called without a lock, and not for what they do.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::{c_char, c_uint, c_void};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use margay::files::without_size_signal;
use parking_lot::Mutex;

use crate::convert::{OptOut, Out, Text};
use crate::guard::Call;
use crate::handles::log_callbacks;
use crate::result::{CuResult, Served};
use crate::types::{CUlogsCallback, CUlogsCallbackHandle};

/// Bytes that are kept, as in NVIDIA's driver.
const ROOM: usize = 25_600;
/// `CU_LOG_LEVEL_ERROR` and `WARNING`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Error = 0,
    Warning = 1,
}

/// What a program registered.
#[derive(Clone, Copy)]
pub(crate) struct LogCallback {
    function: unsafe extern "C" fn(*mut c_void, c_uint, *mut c_char, usize),
    data: usize,
}

#[derive(Default)]
struct Log {
    entries: VecDeque<String>,
    bytes: usize,
    /// Number of the first kept entry.
    first: u32,
}

static LOG: Mutex<Option<Log>> = Mutex::new(None);
static LISTENERS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CALLING: Cell<bool> = const { Cell::new(false) };
}

/// Adds an entry.
pub(crate) fn add(level: Level, text: &str) {
    static START: OnceLock<Instant> = OnceLock::new();
    let seconds = START.get_or_init(Instant::now).elapsed().as_secs_f64();
    let mark = match level {
        Level::Error => 'E',
        Level::Warning => 'W',
    };
    let line = text.replace(['\n', '\r', '\0'], " ");
    let line = format!("[{mark}][{seconds:.3}] {line}");
    keep(line.clone());
    if LISTENERS.load(Ordering::Acquire) {
        tell(level, line);
    }
}

fn keep(mut line: String) {
    let mut cut = line.len().min(ROOM / 4);
    while !line.is_char_boundary(cut) {
        cut -= 1;
    }
    line.truncate(cut);
    let mut log = LOG.lock();
    let log = log.get_or_insert_default();
    log.bytes += line.len() + 1;
    log.entries.push_back(line);
    while log.bytes > ROOM {
        let Some(oldest) = log.entries.pop_front() else {
            break;
        };
        log.bytes -= oldest.len() + 1;
        log.first = log.first.wrapping_add(1);
    }
}

fn tell(level: Level, line: String) {
    // What a callback does may fail too.
    if CALLING.replace(true) {
        return;
    }
    let mut text = line.into_bytes();
    let len = text.len();
    text.push(0);
    for callback in log_callbacks().all() {
        // SAFETY: the program registered a function of this type; the text ends with a NUL and lives until the
        // function returns.
        unsafe {
            (callback.function)(
                callback.data as *mut c_void,
                level as c_uint,
                text.as_mut_ptr().cast(),
                len,
            );
        }
    }
    CALLING.set(false);
}

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
    let handle = log_callbacks().insert(callback);
    out.set(CUlogsCallbackHandle(handle.ok_or(CuResult::INVALID_VALUE)?));
    LISTENERS.store(true, Ordering::Release);
    Ok(())
}

pub(crate) fn logs_unregister_callback(_: &Call, handle: CUlogsCallbackHandle) -> Served {
    let found = log_callbacks().remove(handle.0);
    found.map(|_| ()).ok_or(CuResult::INVALID_VALUE)
}

pub(crate) fn logs_current(_: &Call, out: Out<c_uint>, flags: c_uint) -> Served {
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    out.set(with_log(Log::end));
    Ok(())
}

fn with_log<R>(work: impl FnOnce(&Log) -> R) -> R {
    work(LOG.lock().get_or_insert_default())
}

impl Log {
    /// The number of the next entry.
    fn end(&self) -> u32 {
        self.first.wrapping_add(self.entries.len() as u32)
    }

    /// The kept entries from `start` on, and whether some before them are lost.
    fn from(&self, start: Option<u32>) -> (Vec<&str>, bool) {
        let start = start.unwrap_or(self.first);
        let ahead = start.wrapping_sub(self.first) as i32;
        let skipped = usize::try_from(ahead).unwrap_or(0);
        let entries = self.entries.iter().skip(skipped).map(String::as_str);
        (entries.collect(), ahead < 0)
    }
}

const LOST: &str = "[W] earlier entries are lost";

/// What is to be dumped, and the iterator behind it.
///
/// # Safety
/// `iterator` is null or valid.
unsafe fn dump(iterator: *mut c_uint) -> (Vec<String>, u32) {
    // SAFETY: null is no iterator; else the caller vouches for it.
    let start = (!iterator.is_null()).then(|| unsafe { iterator.read_unaligned() });
    with_log(|log| {
        let (entries, lost) = log.from(start);
        let head = lost.then_some(LOST);
        let lines = head.into_iter().chain(entries).map(str::to_owned);
        (lines.collect(), log.end())
    })
}

/// # Safety
/// `iterator` is null or valid.
unsafe fn advance(iterator: *mut c_uint, end: u32) {
    if !iterator.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe { iterator.write_unaligned(end) };
    }
}

/// Appends to the file.
pub(crate) fn logs_dump_to_file(
    _: &Call,
    iterator: *mut c_uint,
    path: Text,
    flags: c_uint,
) -> Served {
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller of the entry point vouches for the iterator.
    let (lines, end) = unsafe { dump(iterator) };
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path.0);
    let mut file = file.map_err(|_| CuResult::INVALID_VALUE)?;
    let mut write =
        || -> std::io::Result<()> { lines.iter().try_for_each(|line| writeln!(file, "{line}")) };
    without_size_signal(&mut write).map_err(|_| CuResult::INVALID_VALUE)?;
    // SAFETY: as above.
    unsafe { advance(iterator, end) };
    Ok(())
}

/// Fills at most `room` bytes with the latest lines and a NUL; `None` when not one fits.
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
    // SAFETY: not null; the caller vouches for the rest.
    let room = unsafe { size.read_unaligned() };
    // SAFETY: the caller of the entry point vouches for the iterator.
    let (lines, end) = unsafe { dump(iterator) };
    let text = match lines.is_empty() {
        true if room > 0 => Some(String::new()),
        _ => fit(&lines, room),
    };
    let Some(text) = text else {
        // SAFETY: as above.
        unsafe { size.write_unaligned(0) };
        return Err(CuResult::INVALID_VALUE);
    };
    // SAFETY: the caller gave `room` bytes, which the text and its NUL fit into; the rest as above.
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

    #[test]
    fn old_entries_make_room_and_iterators_know() {
        let mut log = Log::default();
        for number in 0..5 {
            log.entries.push_back(format!("{number}"));
        }
        log.first = u32::MAX - 1;
        assert_eq!(log.end(), 3);
        assert_eq!(log.from(Some(1)), (vec!["3", "4"], false));
        assert_eq!(log.from(None).0.len(), 5);
        assert_eq!(log.from(Some(3)), (vec![], false));
        assert!(log.from(Some(u32::MAX - 5)).1);
    }
}
