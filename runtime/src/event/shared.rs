//! The state of an event that several processes share: the number of its records, and the number of the last record
//! whose work is complete.
//!
//! The state is in a page of a memory file, which every process that opened the event has mapped. Invariant: `complete`
//! never exceeds `recorded`. If the recording process ends without completing a record, the record counts as complete,
//! because no process executes the recorded work any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Result;
use crate::memory::{Label, SharedKind, SharedMemory, SharedPage, start_of};

/// Indices of the words of the shared page.
const RECORDED: usize = 0;
const COMPLETE: usize = 1;
/// The process that made the last record, and the time when that process started.
const PROCESS: usize = 2;
const STARTED: usize = 3;

/// Time between two polls of the progress of another process.
const LOOK: Duration = Duration::from_micros(50);
/// Number of polls between two checks whether that process is alive.
const LOOKS: u32 = 200;

/// The shared state of an event.
#[derive(Debug)]
pub(crate) struct SharedEvent {
    page: SharedPage,
}

/// Completes a record of the event when this value is dropped, so that cancelled work also completes the record.
pub(crate) struct Completion {
    event: Arc<SharedEvent>,
    record: u64,
}

impl Drop for Completion {
    fn drop(&mut self) {
        let word = self.event.page.word(COMPLETE);
        word.fetch_max(self.record, Ordering::SeqCst);
    }
}

impl SharedEvent {
    /// Creates the state of an event that was never recorded.
    pub(crate) fn create(device: i32) -> Result<SharedEvent> {
        let kind = SharedKind::Event;
        let memory = SharedMemory::create(SharedPage::BYTES, Label { kind, device })?;
        SharedEvent::open(memory)
    }

    /// Opens the state of another process's event.
    pub(crate) fn open(memory: SharedMemory) -> Result<SharedEvent> {
        let page = SharedPage::new(memory)?;
        Ok(SharedEvent { page })
    }

    /// Returns the memory file.
    pub(crate) fn memory(&self) -> &SharedMemory {
        self.page.memory()
    }

    /// Adds a record that this process makes. Dropping the returned value completes the record.
    pub(crate) fn record(self: &Arc<Self>) -> Completion {
        let process = std::process::id();
        self.word(PROCESS)
            .store(u64::from(process), Ordering::SeqCst);
        let started = start_of(process as i32).unwrap_or(0);
        self.word(STARTED).store(started, Ordering::SeqCst);
        let record = self.word(RECORDED).fetch_add(1, Ordering::SeqCst) + 1;
        Completion {
            event: Arc::clone(self),
            record,
        }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        self.page.word(index)
    }

    /// Returns the number of the last record; 0 if the event was never recorded.
    pub(crate) fn last(&self) -> u64 {
        self.word(RECORDED).load(Ordering::SeqCst)
    }

    /// Returns whether the work before a record is complete.
    pub(crate) fn is_complete(&self, record: u64) -> bool {
        self.word(COMPLETE).load(Ordering::SeqCst) >= record
    }

    fn recorder_is_gone(&self) -> bool {
        let process = self.word(PROCESS).load(Ordering::SeqCst) as i32;
        start_of(process) != Some(self.word(STARTED).load(Ordering::SeqCst))
    }

    /// Waits until the work before a record is complete or the recording process has ended.
    pub(crate) fn wait(&self, record: u64) {
        for look in 1u32.. {
            if self.is_complete(record) {
                return;
            }
            if look.is_multiple_of(LOOKS) && self.recorder_is_gone() {
                self.word(COMPLETE).fetch_max(record, Ordering::SeqCst);
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns whether the last record is complete. If the recording process has ended, completes the record.
    pub(crate) fn query(&self) -> bool {
        let last = self.last();
        if !self.is_complete(last) && self.recorder_is_gone() {
            self.word(COMPLETE).fetch_max(last, Ordering::SeqCst);
        }
        self.is_complete(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_views_agree() {
        let event = Arc::new(SharedEvent::create(0).expect("a page"));
        let address = event.memory().address().expect("named");
        let other = SharedMemory::open(&address).expect("there");
        let other = SharedEvent::open(other).expect("a page");
        assert!(other.query(), "never recorded");
        let record = event.record();
        assert_eq!((other.last(), other.query()), (1, false));
        let later = event.record();
        drop(record);
        assert!(other.is_complete(1) && !other.query());
        drop(later);
        other.wait(2);
        assert!(other.query());
    }

    #[test]
    fn the_records_of_a_dead_process_are_complete() {
        let event = Arc::new(SharedEvent::create(0).expect("a page"));
        std::mem::forget(event.record());
        event.word(STARTED).fetch_add(1, Ordering::SeqCst);
        event.wait(1);
        assert!(event.query());
    }
}
