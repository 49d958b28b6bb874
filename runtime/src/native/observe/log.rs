//! The log to which vector code appends the loads and stores that it performs without a call of the
//! host, if races are checked.

use margay_jit::abi::{AccessLog, AccessRecord};

/// Number of records for which [`Log::open`] first allocates space.
const FIRST: usize = 1 << 10;

/// Maximum number of records. This many records (384 KiB) fit into the second-level cache of most
/// processor cores.
const MOST: usize = 1 << 13;

/// Maximum size of an access in the log, as a number of records. An access consists of a record, at
/// most 256 bytes of addresses and at most 2,048 bytes of operands.
const LARGEST: usize = 1 + (256 + 2048) / size_of::<AccessRecord>() + 1;

/// Memory for records. Generated code appends to it while the examiner does not run.
#[derive(Debug)]
pub(super) struct Log {
    /// The address at which generated code stores the next record, and the end of the records. The native context
    /// contains the address of the boxed `AccessLog`, which must therefore not move.
    cursor: Box<AccessLog>,
    records: Box<[AccessRecord]>,
}

impl Log {
    /// Creates a log without space for records.
    pub(super) fn new() -> Log {
        let mut log = Log {
            cursor: Box::new(AccessLog {
                next: std::ptr::null_mut(),
                end: std::ptr::null_mut(),
            }),
            records: Box::default(),
        };
        log.clear();
        log
    }

    /// Returns the address of the cursor, for the native context.
    pub(super) fn cursor(&mut self) -> *mut AccessLog {
        &raw mut *self.cursor
    }

    /// Allocates space for records, if the log has no space.
    pub(super) fn open(&mut self) {
        if self.records.is_empty() {
            self.resize(FIRST);
        }
    }

    /// Returns the number of records in the log.
    pub(super) fn len(&self) -> usize {
        let start = self.records.as_ptr().addr();
        let bytes = self.cursor.next.addr() - start;
        (bytes / size_of::<AccessRecord>()).min(self.records.len())
    }

    /// Returns whether the log was opened ([`Log::open`]) and may have too little space for another
    /// access.
    pub(super) fn is_nearly_full(&self) -> bool {
        !self.records.is_empty() && self.len() + LARGEST > self.records.len()
    }

    /// Allocates space for more records. Returns false if the log already has its maximum size.
    pub(super) fn grow(&mut self) -> bool {
        let size = self.records.len();
        if size >= MOST {
            return false;
        }
        self.resize(2 * size.max(FIRST / 2));
        true
    }

    /// Returns the record of each access, and the addresses and operands that follow it.
    pub(super) fn accesses(&self) -> impl Iterator<Item = (&AccessRecord, &[u8])> {
        let mut rest = &self.records[..self.len()];
        std::iter::from_fn(move || {
            let (record, after) = rest.split_first()?;
            let (following, after) = after.split_at_checked(record.following())?;
            rest = after;
            // SAFETY: a record consists of six words without padding, so all bytes of a record are initialised.
            let bytes = unsafe {
                std::slice::from_raw_parts(following.as_ptr().cast::<u8>(), size_of_val(following))
            };
            Some((record, &bytes[..record.bytes()]))
        })
    }

    /// Removes all records.
    pub(super) fn clear(&mut self) {
        self.set(0);
    }

    fn resize(&mut self, size: usize) {
        let count = self.len();
        let mut records = std::mem::take(&mut self.records).into_vec();
        records.resize(size, AccessRecord::default());
        self.records = records.into_boxed_slice();
        self.set(count);
    }

    fn set(&mut self, count: usize) {
        let range = self.records.as_mut_ptr_range();
        *self.cursor = AccessLog {
            next: range.start.wrapping_add(count),
            end: range.end,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends a record in the same way as generated code.
    fn append(log: &mut Log, address: u64) {
        assert!(log.cursor.next < log.cursor.end);
        // SAFETY: the log has space for a record.
        unsafe {
            log.cursor.next.write(AccessRecord {
                address,
                ..AccessRecord::default()
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
        let addresses: Vec<u64> = log.accesses().map(|(record, _)| record.address).collect();
        assert_eq!(addresses.len(), FIRST + 1);
        assert_eq!((addresses[5], addresses[FIRST]), (5, 7));
        log.clear();
        assert_eq!(log.accesses().count(), 0);
        while log.grow() {}
        assert_eq!(log.records.len(), MOST);
    }

    #[test]
    fn addresses_and_operands_follow_a_record() {
        let mut log = Log::new();
        log.open();
        // Four bytes of an address and two operands of four bytes for each of eight lanes take the place of two
        // records.
        let shape = AccessRecord::shape(8, 8).expect("a short stride");
        let lanes = AccessRecord::fixed(shape, 2, 4) | 96;
        let words = |first: u64| AccessRecord {
            address: first,
            cta: first + 1,
            loc: first + 2,
            access: first + 3,
            lanes: first + 4,
            active: first + 5,
        };
        let store = AccessRecord {
            lanes,
            active: 4 << 32 | 0xf3,
            ..words(100)
        }
        .with_following();
        for record in [store, words(0), words(6), store, words(0), words(6)] {
            // SAFETY: the log has space for these records.
            unsafe { log.cursor.next.write(record) };
            log.cursor.next = log.cursor.next.wrapping_add(1);
        }
        append(&mut log, 9);
        let expected: Vec<u8> = (0..12u64).flat_map(u64::to_le_bytes).collect();
        let found: Vec<_> = log.accesses().collect();
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], (&store, expected.as_slice()));
        assert_eq!(found[1], found[0]);
        assert_eq!((found[2].0.address, found[2].1.len()), (9, 0));
        assert_eq!(store.unpack(), (96, 8, 8));
    }
}
