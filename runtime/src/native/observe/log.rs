//! The log in which generated code records its reads.

use margay_jit::abi::{ReadLog, ReadRecord};

/// Number of records for which [`Log::open`] allocates space.
const FIRST: usize = 1 << 10;

/// Maximum number of records.
const MOST: usize = 1 << 16;

/// Memory for records. Generated code appends to it while the examiner does not run.
#[derive(Debug)]
pub(super) struct Log {
    /// The address at which generated code stores the next record, and the end of the records. The native context
    /// contains the address of the boxed `ReadLog`, which must therefore not move.
    cursor: Box<ReadLog>,
    records: Box<[ReadRecord]>,
}

impl Log {
    /// Creates a log without space for records.
    pub(super) fn new() -> Log {
        let mut log = Log {
            cursor: Box::new(ReadLog {
                next: std::ptr::null_mut(),
                end: std::ptr::null_mut(),
            }),
            records: Box::default(),
        };
        log.clear();
        log
    }

    /// Returns the address of the cursor, for the native context.
    pub(super) fn cursor(&mut self) -> *mut ReadLog {
        &raw mut *self.cursor
    }

    /// Allocates space for records, if the log has no space.
    pub(super) fn open(&mut self) {
        if self.records.is_empty() {
            self.resize(FIRST);
        }
    }

    /// Returns the number of records.
    pub(super) fn len(&self) -> usize {
        let start = self.records.as_ptr().addr();
        let bytes = self.cursor.next.addr() - start;
        (bytes / size_of::<ReadRecord>()).min(self.records.len())
    }

    /// Returns whether the log was opened and has no space for another record.
    pub(super) fn is_nearly_full(&self) -> bool {
        !self.records.is_empty() && self.len() == self.records.len()
    }

    /// Provides more space. Returns false if the log has its maximum size.
    pub(super) fn grow(&mut self) -> bool {
        let size = self.records.len();
        if size >= MOST {
            return false;
        }
        self.resize(2 * size.max(FIRST / 2));
        true
    }

    /// Returns the records.
    pub(super) fn records(&self) -> &[ReadRecord] {
        &self.records[..self.len()]
    }

    /// Removes all records.
    pub(super) fn clear(&mut self) {
        self.set(0);
    }

    fn resize(&mut self, size: usize) {
        let count = self.len();
        let mut records = std::mem::take(&mut self.records).into_vec();
        records.resize(size, ReadRecord::default());
        self.records = records.into_boxed_slice();
        self.set(count);
    }

    fn set(&mut self, count: usize) {
        let range = self.records.as_mut_ptr_range();
        *self.cursor = ReadLog {
            next: range.start.wrapping_add(count),
            end: range.end,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends a record as generated code does.
    fn append(log: &mut Log, address: u64) {
        assert!(log.cursor.next < log.cursor.end);
        // SAFETY: the log has space for a record.
        unsafe {
            log.cursor.next.write(ReadRecord {
                address,
                ..ReadRecord::default()
            });
        }
        log.cursor.next = log.cursor.next.wrapping_add(1);
    }

    #[test]
    fn records_survive_more_space() {
        let mut log = Log::new();
        assert_eq!((log.len(), log.is_nearly_full()), (0, false));
        log.open();
        for address in 0..FIRST as u64 {
            append(&mut log, address);
        }
        assert!(log.is_nearly_full());
        assert!(log.grow());
        append(&mut log, 7);
        let addresses: Vec<u64> = log.records().iter().map(|record| record.address).collect();
        assert_eq!(addresses.len(), FIRST + 1);
        assert_eq!((addresses[5], addresses[FIRST]), (5, 7));
        log.clear();
        assert_eq!(log.records(), []);
        while log.grow() {}
        assert_eq!(log.records.len(), MOST);
    }
}
