//! A bounded queue of records.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::Record;

/// Records that nobody has taken yet. If the queue is full, further records are counted and dropped.
///
/// ```
/// use margay_activity::{ExternalCorrelation, Queue, Record};
///
/// let queue = Queue::new(1);
/// let record = Record::ExternalCorrelation(ExternalCorrelation { kind: 3, id: 7, correlation: 1 });
/// queue.push(record.clone());
/// queue.push(record);
/// assert_eq!((queue.take().len(), queue.take_dropped()), (1, 1));
/// ```
#[derive(Debug)]
pub struct Queue {
    records: Mutex<VecDeque<Record>>,
    limit: usize,
    dropped: AtomicU64,
}

impl Queue {
    /// Creates a queue that holds at most `limit` records.
    pub fn new(limit: usize) -> Queue {
        Queue {
            records: Mutex::default(),
            limit,
            dropped: AtomicU64::new(0),
        }
    }

    /// Appends a record, or drops it if the queue is full.
    pub fn push(&self, record: Record) {
        let mut records = self.records.lock();
        match records.len() < self.limit {
            true => records.push_back(record),
            false => drop(self.dropped.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Removes all records and returns them, in the order in which they were completed.
    pub fn take(&self) -> Vec<Record> {
        std::mem::take(&mut *self.records.lock()).into()
    }

    /// Returns the number of records that were dropped since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}
