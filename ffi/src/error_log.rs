//! The driver's log: stores messages about failed calls, and warnings, in memory, and passes them
//! to callbacks.
//!
//! An entry is one line. It contains the severity, the time since the first entry, and either the failed call with its
//! result or a warning of the library. Entries are numbered.
//!
//! Invariants: the kept entries have consecutive numbers, and occupy at most [`ROOM`] bytes in total. No lock is held
//! while callbacks run. A call that fails inside a callback does not invoke callbacks.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::{c_char, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::callback;
use crate::handle_table::HandleTable;

/// The maximum number of bytes that the log keeps, as in NVIDIA's driver.
const ROOM: usize = 25_600;
/// The severities `CU_LOG_LEVEL_ERROR` and `CU_LOG_LEVEL_WARNING`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Error = 0,
    Warning = 1,
}

/// A callback that a program registered for log entries.
#[derive(Clone, Copy)]
pub(crate) struct LogCallback {
    pub(crate) function: unsafe extern "C" fn(*mut c_void, c_uint, *mut c_char, usize),
    pub(crate) data: usize,
}

#[derive(Default)]
struct Log {
    entries: VecDeque<String>,
    bytes: usize,
    /// The number of the oldest entry that the log still contains.
    first: u32,
}

static LOG: Mutex<Option<Log>> = Mutex::new(None);
static LISTENERS: AtomicBool = AtomicBool::new(false);

fn callbacks() -> &'static HandleTable<LogCallback> {
    static TABLE: HandleTable<LogCallback> = HandleTable::new(26);
    &TABLE
}

thread_local! {
    static CALLING: Cell<bool> = const { Cell::new(false) };
}

/// Adds an entry to the log and passes it to the callbacks.
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
    // A call inside a callback can fail and add an entry to the log. This entry invokes no callbacks.
    if CALLING.replace(true) {
        return;
    }
    let mut text = line.into_bytes();
    let len = text.len();
    text.push(0);
    for callback in callbacks().all() {
        // SAFETY: the program registered a function of this type; the text ends with a NUL and lives until the function
        // returns.
        unsafe {
            callback::of_log(
                callback.function,
                callback.data as *mut c_void,
                level as c_uint,
                (text.as_mut_ptr().cast(), len),
            );
        }
    }
    CALLING.set(false);
}

/// Registers a callback. The log calls it for each new entry until [`unsubscribe`] removes it. Returns the handle of
/// the callback, or `None` if there are too many callbacks.
pub(crate) fn subscribe(callback: LogCallback) -> Option<usize> {
    let handle = callbacks().insert(callback)?;
    LISTENERS.store(true, Ordering::Release);
    Some(handle)
}

/// Removes a callback. Returns whether the handle was valid.
pub(crate) fn unsubscribe(handle: usize) -> bool {
    callbacks().remove(handle).is_some()
}

/// Returns the number that the next new entry will have.
pub(crate) fn end() -> u32 {
    with_log(Log::end)
}

/// Returns the kept entries from number `start` on, and the number that the next new entry will
/// have. If `start` is `None`, returns all kept entries. If the log no longer keeps all entries
/// that were requested, the first line is a notice that says so.
pub(crate) fn from(start: Option<u32>) -> (Vec<String>, u32) {
    with_log(|log| {
        let (entries, lost) = log.from(start);
        let head = lost.then_some(LOST);
        let lines = head.into_iter().chain(entries).map(str::to_owned);
        (lines.collect(), log.end())
    })
}

const LOST: &str = "[W] earlier entries are lost";

fn with_log<R>(work: impl FnOnce(&Log) -> R) -> R {
    work(LOG.lock().get_or_insert_default())
}

impl Log {
    /// Returns the number that the next new entry will have.
    fn end(&self) -> u32 {
        self.first.wrapping_add(self.entries.len() as u32)
    }

    /// Returns the kept entries from number `start` on, and whether an entry from `start` on is no longer kept.
    fn from(&self, start: Option<u32>) -> (Vec<&str>, bool) {
        let start = start.unwrap_or(self.first);
        let ahead = start.wrapping_sub(self.first) as i32;
        let skipped = usize::try_from(ahead).unwrap_or(0);
        let entries = self.entries.iter().skip(skipped).map(String::as_str);
        (entries.collect(), ahead < 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
