//! The records of one CTA that the tools have not received yet.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::raw::{self, RawAccess, RawEvent};
use super::spill::{SpillFile, Spilled};

/// Number of words after which a buffer begins a new chunk.
const CHUNK: usize = 64 << 10;

/// The storage for the chunks of a launch's buffers. Chunks are stored in memory up to a limit.
/// Further chunks are stored in a file.
pub(super) struct Storage {
    /// Number of words of the chunks in memory.
    used: AtomicUsize,
    /// The maximum of `used`.
    limit: usize,
    file: SpillFile,
}

impl Storage {
    pub(super) fn new(limit: usize) -> Storage {
        Storage {
            used: AtomicUsize::new(0),
            limit,
            file: SpillFile::default(),
        }
    }

    /// Returns whether a further chunk of the usual size would be stored in the file.
    pub(super) fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) + CHUNK > self.limit
    }

    /// Stores the words of a chunk: in memory if the limit permits, otherwise in the file. If the file cannot be
    /// written, stores the words in memory despite the limit.
    fn keep(&self, words: Vec<u64>) -> Chunk {
        let count = words.len();
        let used = self.used.fetch_add(count, Ordering::Relaxed);
        if used + count <= self.limit {
            return Chunk::Memory(words);
        }
        match self.file.write(&words) {
            Ok(spilled) => {
                self.used.fetch_sub(count, Ordering::Relaxed);
                Chunk::File(spilled)
            }
            Err(error) => {
                tracing::warn!(%error, "records of tools stay in memory");
                Chunk::Memory(words)
            }
        }
    }

    /// Removes a chunk from the storage and returns its words.
    pub(super) fn take(&self, chunk: Chunk) -> io::Result<Vec<u64>> {
        match chunk {
            Chunk::Memory(words) => {
                self.used.fetch_sub(words.len(), Ordering::Relaxed);
                Ok(words)
            }
            Chunk::File(spilled) => self.file.read(spilled),
        }
    }
}

/// A sequence of whole records of one CTA. (In this module, "chunk" does not mean a chunk of
/// lanes.)
#[derive(Debug)]
pub(super) enum Chunk {
    Memory(Vec<u64>),
    File(Spilled),
}

/// The records of one CTA: chunks in the storage, and the latest records.
#[derive(Debug, Default)]
pub(crate) struct CtaBuffer {
    chunks: Vec<Chunk>,
    latest: Vec<u64>,
}

impl CtaBuffer {
    /// Appends an access.
    pub(super) fn access(&mut self, storage: &Storage, what: &RawAccess<'_>) {
        raw::encode(what, &mut self.latest);
        self.limit(storage);
    }

    /// Appends an event other than an access to the records.
    pub(super) fn event(&mut self, storage: &Storage, what: &RawEvent<'_>) {
        raw::encode_event(what, &mut self.latest);
        self.limit(storage);
    }

    fn limit(&mut self, storage: &Storage) {
        if self.latest.len() >= CHUNK {
            self.seal(storage);
        }
    }

    /// Moves the latest records to a new chunk.
    pub(super) fn seal(&mut self, storage: &Storage) {
        if !self.latest.is_empty() {
            let words = std::mem::take(&mut self.latest);
            self.chunks.push(storage.keep(words));
        }
    }

    /// Returns the chunks in their order. The caller must call [`CtaBuffer::seal`] first.
    pub(super) fn into_chunks(self) -> Vec<Chunk> {
        self.chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_beyond_the_limit_are_in_the_file() {
        let storage = Storage::new(3);
        let first = storage.keep(vec![1, 2]);
        let second = storage.keep(vec![3, 4]);
        assert!(matches!(first, Chunk::Memory(_)) && matches!(second, Chunk::File(_)));
        assert_eq!(storage.take(second).unwrap(), [3, 4]);
        assert_eq!(storage.take(first).unwrap(), [1, 2]);
        assert_eq!(storage.used.load(Ordering::Relaxed), 0);
        assert!(matches!(storage.keep(vec![5]), Chunk::Memory(_)));
    }

    #[test]
    fn the_storage_is_full_if_the_next_chunk_goes_to_the_file() {
        let storage = Storage::new(2 * CHUNK);
        assert!(matches!(storage.keep(vec![0; CHUNK]), Chunk::Memory(_)));
        assert!(!storage.is_full());
        let second = storage.keep(vec![0; CHUNK]);
        assert!(matches!(second, Chunk::Memory(_)) && storage.is_full());
        assert!(matches!(storage.keep(vec![0; CHUNK]), Chunk::File(_)));
        storage.take(second).unwrap();
        assert!(!storage.is_full());
    }
}
