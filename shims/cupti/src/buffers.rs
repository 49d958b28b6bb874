//! The client's buffers of records.
//!
//! A record is copied into the current buffer. If there is none, or if it is full, the client receives the full one and
//! is asked for another one. If the client gives no buffer, or one that is too small for a record, the record is counted
//! as dropped. No lock is held while the client is called, so several threads can ask for buffers at the same time; all
//! buffers are used.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use margay_activity::interface::Outcome;
use margay_activity::layout::{MOST_BYTES, size, write};
use margay_activity::{Kind, Overhead, OverheadKind, Record};
use parking_lot::Mutex;

use crate::driver::driver;
use crate::enabled::{is_enabled, latency_wanted};
use crate::toolkit::toolkit;

/// The client's function that provides a buffer.
pub(crate) type Request =
    extern "C" fn(buffer: *mut *mut u8, bytes: *mut usize, records: *mut usize);
/// The client's function that receives a buffer with records.
pub(crate) type Complete =
    extern "C" fn(context: *mut (), stream: u32, buffer: *mut u8, bytes: usize, valid: usize);

/// Alignment of buffers and records (`ACTIVITY_RECORD_ALIGNMENT`).
const ALIGNMENT: usize = 8;

/// A buffer of the client.
struct Buffer {
    start: *mut u8,
    bytes: usize,
    used: usize,
    /// Number of records that still may be written; 0 without a limit.
    records: usize,
    /// Whether `records` is a limit.
    is_limited: bool,
}

// SAFETY: the client hands the buffer over, and it is accessed under a lock.
unsafe impl Send for Buffer {}

impl Buffer {
    fn fits(&self, bytes: usize) -> bool {
        self.bytes - self.used >= bytes && !(self.is_limited && self.records == 0)
    }

    fn append(&mut self, record: &[u8]) {
        // SAFETY: `fits` has checked that the client's buffer has room.
        let to = unsafe { self.start.add(self.used) };
        // SAFETY: as above; the record is not in a buffer of the client.
        unsafe { to.copy_from_nonoverlapping(record.as_ptr(), record.len()) };
        self.used += record.len();
        self.records = self.records.saturating_sub(1);
    }
}

#[derive(Default)]
struct State {
    functions: Option<(Request, Complete)>,
    /// Buffers with room, the current one last.
    buffers: Vec<Buffer>,
    /// Records of overhead that wait for a buffer, at most [`MOST_WAITING`].
    waiting: Vec<[u8; MOST_BYTES]>,
}

/// Maximum number of buffers for which a thread asks for one record.
const MOST_REQUESTS: u32 = 4;

/// Maximum number of records of overhead that wait for a buffer.
const MOST_WAITING: usize = 64;

impl State {
    /// Adds a buffer, and writes the records to it that have waited.
    fn add(&mut self, mut buffer: Buffer) {
        let bytes = size(Kind::Overhead, toolkit());
        for record in self.waiting.drain(..) {
            // Half of the buffer is for the record for which the client was asked.
            if buffer.used + bytes <= buffer.bytes / 2 && buffer.fits(bytes) {
                buffer.append(&record[..bytes]);
            }
        }
        self.buffers.push(buffer);
    }
}

static STATE: Mutex<State> = Mutex::new(State {
    functions: None,
    buffers: Vec::new(),
    waiting: Vec::new(),
});
static DROPPED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether the thread calls a function of the client. Records that this causes use no new buffer.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Sets the client's functions.
pub(crate) fn register(request: Request, complete: Complete) {
    STATE.lock().functions = Some((request, complete));
}

/// Returns whether the client has registered its functions.
pub(crate) fn is_registered() -> bool {
    STATE.lock().functions.is_some()
}

/// Returns the number of dropped records since the last call.
pub(crate) fn take_dropped() -> u64 {
    DROPPED.swap(0, Ordering::Relaxed)
}

/// Receives a record of the driver library: a structure of the newest toolkit.
pub(crate) extern "C" fn receive(record: *const u8) {
    let received = crate::guarded(|| {
        // SAFETY: the driver library passes a structure with this size.
        let mut bytes: [u8; MOST_BYTES] = unsafe { record.cast::<[u8; MOST_BYTES]>().read() };
        let [a, b, c, d, ..] = bytes;
        let kind = Kind::of_number(u32::from_ne_bytes([a, b, c, d]));
        let kind = kind.ok_or(Outcome::INVALID_KIND)?;
        if matches!(kind, Kind::Kernel | Kind::ConcurrentKernel) && !latency_wanted() {
            // The times of queueing and submission are unknown (0) unless the client wants them.
            bytes[120..136].fill(0);
        }
        append(&bytes[..size(kind, toolkit())]);
        Ok(())
    });
    if received != Outcome::SUCCESS {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Appends a record to a buffer, and asks the client for buffers as needed.
fn append(record: &[u8]) {
    let mut asked = 0;
    loop {
        let (full, functions) = {
            let mut state = STATE.lock();
            match state.buffers.last_mut() {
                Some(buffer) if buffer.fits(record.len()) => {
                    buffer.append(record);
                    return;
                }
                // The client's buffers are smaller than this record, or other threads have filled them.
                Some(_) if asked == MOST_REQUESTS => {
                    DROPPED.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                _ => (state.buffers.pop(), state.functions),
            }
        };
        let Some(functions) = functions.filter(|_| !INSIDE.get()) else {
            STATE.lock().buffers.extend(full);
            DROPPED.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if let Some(full) = full {
            complete(functions, &full);
        }
        match request(functions) {
            Some(buffer) => {
                let mut state = STATE.lock();
                state.add(buffer);
                asked += 1;
            }
            None => {
                DROPPED.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// Asks the client for a buffer.
fn request((request, _): (Request, Complete)) -> Option<Buffer> {
    let (mut start, mut bytes, mut records) = (std::ptr::null_mut::<u8>(), 0usize, 0usize);
    timed(OverheadKind::BufferRequest, || {
        request(&raw mut start, &raw mut bytes, &raw mut records);
    });
    if start.is_null() || !start.addr().is_multiple_of(ALIGNMENT) || bytes > isize::MAX as usize {
        return None;
    }
    let buffer = Buffer {
        start,
        bytes,
        used: 0,
        records,
        is_limited: records != 0,
    };
    Some(buffer)
}

/// Passes a buffer to the client.
fn complete((_, complete): (Request, Complete), buffer: &Buffer) {
    timed(OverheadKind::BufferFlush, || {
        complete(
            std::ptr::null_mut(),
            0,
            buffer.start,
            buffer.bytes,
            buffer.used,
        );
    });
}

/// Calls the client. If overhead is recorded, appends a record to a buffer that has room.
fn timed(kind: OverheadKind, call: impl FnOnce()) {
    let wanted = driver().ok().filter(|_| is_enabled(Kind::Overhead));
    let start = wanted.map_or(0, |driver| (driver.now)());
    INSIDE.set(true);
    call();
    INSIDE.set(false);
    let Some(driver) = wanted else {
        return;
    };
    let record = write(&Record::Overhead(Overhead {
        kind,
        process: std::process::id(),
        thread: (driver.thread)(),
        start,
        end: (driver.now)(),
        correlation: 0,
    }));
    let mut state = STATE.lock();
    if state.waiting.len() < MOST_WAITING {
        state.waiting.push(record);
    }
}

/// Passes all buffers with records to the client.
pub(crate) fn flush() {
    let (full, functions) = {
        let mut state = STATE.lock();
        let (full, empty) = std::mem::take(&mut state.buffers)
            .into_iter()
            .partition::<Vec<Buffer>, _>(|buffer| buffer.used != 0);
        state.buffers = empty;
        (full, state.functions)
    };
    if let Some(functions) = functions {
        full.iter().for_each(|buffer| complete(functions, buffer));
    }
}

/// Passes all buffers to the client, and forgets its functions.
pub(crate) fn finish() {
    let (buffers, functions) = {
        let mut state = STATE.lock();
        state.waiting.clear();
        (std::mem::take(&mut state.buffers), state.functions.take())
    };
    if let Some(functions) = functions {
        buffers
            .iter()
            .for_each(|buffer| complete(functions, buffer));
    }
    DROPPED.store(0, Ordering::Relaxed);
}
