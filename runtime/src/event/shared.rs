//! The state of an event that several processes share. The state contains the number of records of
//! the event. For each of the latest records, it also contains the process that made the record,
//! and whether the recorded work is complete.
//!
//! The state is in a page of a memory file, which every process that opened the event has mapped.
//! Each record uses a *slot* of the page; after [`SLOTS`] further records, another record uses the
//! same slot. A record is regarded as complete when its process has marked it as complete, and also
//! in the following three cases:
//!
//! - The recording process has ended or executes another program, so that no process executes the recorded work any
//!   more.
//! - A later record in the same slot is complete.
//! - The recording process has increased the number of records but has not written the slot, and
//!   [`UNWRITTEN`] successive checks have found this state. The process has probably ended between
//!   the two steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Result;
use crate::memory::{Label, SharedKind, SharedMemory, SharedPage, start_of};

/// Index of the word of the shared page that contains the number of records.
const RECORDED: usize = 0;
/// Index of the word of the shared page with which the first slot begins.
const FIRST: usize = 8;
/// Number of slots.
const SLOTS: usize = 100;

/// Index of the word of a slot that contains the number of the last record that uses the slot.
const RECORD: usize = 0;
/// Index of the word of a slot that contains the highest number of all complete records that used
/// the slot.
const COMPLETE: usize = 1;
/// Index of the first of two words of a slot. They contain the ID of the process that made the
/// record, and the time when that process started.
const PROCESS: usize = 2;
const STARTED: usize = 3;
/// Number of words of a slot.
const WORDS: usize = 4;

/// Time between two polls of the progress of another process.
const LOOK: Duration = Duration::from_micros(50);
/// Number of polls between two checks of whether the other process is alive.
const LOOKS: u32 = 200;
/// Number of checks that must find a slot unwritten before its record is regarded as complete.
const UNWRITTEN: u32 = 100;

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
        self.event.complete(self.record);
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

    /// Returns the memory file that contains the state.
    pub(crate) fn memory(&self) -> &SharedMemory {
        self.page.memory()
    }

    /// Adds a record that this process makes. Dropping the returned value completes the record.
    pub(crate) fn record(self: &Arc<Self>) -> Completion {
        let process = std::process::id();
        let started = start_of(process as i32).unwrap_or(0);
        let before = self.page.word(RECORDED).fetch_add(1, Ordering::SeqCst);
        let record = before.wrapping_add(1);
        let word = |index| self.word(record, index);
        word(RECORD).store(0, Ordering::SeqCst);
        word(PROCESS).store(process.into(), Ordering::SeqCst);
        word(STARTED).store(started, Ordering::SeqCst);
        word(RECORD).store(record, Ordering::SeqCst);
        Completion {
            event: Arc::clone(self),
            record,
        }
    }

    /// Returns the word with the index `index` in the slot of a record.
    fn word(&self, record: u64, index: usize) -> &AtomicU64 {
        let slot = (record % SLOTS as u64) as usize;
        self.page.word(FIRST + slot * WORDS + index)
    }

    fn complete(&self, record: u64) {
        self.word(record, COMPLETE)
            .fetch_max(record, Ordering::SeqCst);
    }

    /// Returns the number of the last record; 0 if the event was never recorded.
    pub(crate) fn last(&self) -> u64 {
        self.page.word(RECORDED).load(Ordering::SeqCst)
    }

    /// Returns whether the work before a record is complete. Returns true for record 0.
    pub(crate) fn is_complete(&self, record: u64) -> bool {
        self.word(record, COMPLETE).load(Ordering::SeqCst) >= record
    }

    /// Returns whether the slot of a record contains this record or a later one.
    fn is_written(&self, record: u64) -> bool {
        self.word(record, RECORD).load(Ordering::SeqCst) >= record
    }

    /// Completes a record if the process that made it has ended or executes another program. A process keeps the page
    /// mapped until all its records are complete.
    fn complete_if_orphaned(&self, record: u64) {
        let is_gone = |(process, started): (i32, u64)| {
            start_of(process) != Some(started) || self.page.is_mapped_by(process) == Some(false)
        };
        if self.owner(record).is_some_and(is_gone) {
            self.complete(record);
        }
    }

    /// Returns the ID of the process that made a record or a later record in the same slot, and the time when that
    /// process started. Returns `None` if the slot does not contain such a record, or if a process writes the slot
    /// during the call.
    fn owner(&self, record: u64) -> Option<(i32, u64)> {
        let word = |index| self.word(record, index).load(Ordering::SeqCst);
        let before = word(RECORD);
        let owner = (word(PROCESS) as i32, word(STARTED));
        (before >= record && word(RECORD) == before).then_some(owner)
    }

    /// Waits until the work before a record is complete or the recording process has ended.
    pub(crate) fn wait(&self, record: u64) {
        let mut unwritten = 0;
        for look in 1u32.. {
            if self.is_complete(record) {
                return;
            }
            if look.is_multiple_of(LOOKS) {
                self.complete_if_orphaned(record);
                unwritten += u32::from(!self.is_written(record));
                if unwritten == UNWRITTEN {
                    return self.complete(record);
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns whether the last record is complete. If the recording process has ended, completes the record.
    pub(crate) fn query(&self) -> bool {
        let last = self.last();
        if !self.is_complete(last) {
            self.complete_if_orphaned(last);
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

    /// If a later record completes before an earlier record, the earlier record is not regarded as
    /// complete. It is regarded as complete only when a later record in the same slot completes.
    #[test]
    fn records_complete_in_any_order() {
        let event = Arc::new(SharedEvent::create(0).expect("a page"));
        let first = event.record();
        drop(event.record());
        assert!(event.query() && !event.is_complete(1));
        for _ in 3..=SLOTS {
            drop(event.record());
            assert!(!event.is_complete(1));
        }
        let reused = event.record();
        assert!(!event.is_complete(1) && !event.query());
        drop(first);
        assert!(event.is_complete(1) && !event.query());
        drop(reused);
        assert!(event.query());
    }

    /// When the process of a record executes another program, its ID and its start time do not
    /// change. The test checks that the record is nevertheless regarded as complete.
    #[test]
    fn the_records_of_a_process_without_the_page_are_complete() {
        let event = Arc::new(SharedEvent::create(0).expect("a page"));
        let own = event.record();
        assert!(!event.query());
        drop(own);
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("starts");
        std::mem::forget(event.record());
        let started = start_of(child.id() as i32).expect("runs");
        let process = event.word(2, PROCESS);
        process.store(child.id().into(), Ordering::SeqCst);
        event.word(2, STARTED).store(started, Ordering::SeqCst);
        event.wait(2);
        drop(child.stdin.take());
        child.wait().expect("a child");
    }

    /// If a process ends after it has increased the number of records and before it has written the
    /// slot, other processes must not wait for this record for ever.
    #[test]
    fn a_slot_that_nobody_writes_is_complete() {
        let event = Arc::new(SharedEvent::create(0).expect("a page"));
        event.page.word(RECORDED).fetch_add(1, Ordering::SeqCst);
        assert!(!event.query());
        event.wait(1);
        assert!(event.query());
    }

    /// While a thread reads the process of a record, another process can reuse the slot. A mixture of both processes
    /// would look like a process that has ended.
    #[test]
    fn the_owner_of_a_slot_is_never_a_mixture() {
        const LAST: u64 = 10_000_000;
        let event = SharedEvent::create(0).expect("a page");
        let write = |number: u64| {
            let word = |index| event.word(SLOTS as u64 * number, index);
            word(RECORD).store(0, Ordering::SeqCst);
            word(PROCESS).store(number, Ordering::SeqCst);
            word(STARTED).store(number, Ordering::SeqCst);
            word(RECORD).store(SLOTS as u64 * number, Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=LAST).for_each(write));
            let mut seen = 0;
            while (seen as u64) < LAST {
                let (process, started) = event.owner(SLOTS as u64).unwrap_or((seen, seen as u64));
                assert_eq!(process as u64, started);
                seen = process;
            }
        });
    }

    #[test]
    fn the_records_of_a_dead_process_are_complete() {
        let event = Arc::new(SharedEvent::create(0).expect("a page"));
        std::mem::forget(event.record());
        event.word(1, STARTED).fetch_add(1, Ordering::SeqCst);
        // The record of another process does not change who made the first one.
        let later = event.record();
        event.wait(1);
        assert!(event.is_complete(1) && !event.query());
        drop(later);
    }
}
