//! A file in memory.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use margay_timeline::{Format, Options, Timeline};

/// A file in memory. Clones are the same file.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// The number of bytes behind which writing fails.
    limit: Option<usize>,
}

impl Memory {
    /// Returns a file that holds at most `limit` bytes.
    pub(crate) fn with_limit(limit: usize) -> Memory {
        Memory {
            limit: Some(limit),
            ..Memory::default()
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl Write for Memory {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        if self
            .limit
            .is_some_and(|limit| bytes.len() + buffer.len() > limit)
        {
            return Err(io::Error::other("the disk is full"));
        }
        bytes.extend_from_slice(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Options for a process 77 that is called "test".
pub(crate) fn options(format: Format) -> Options {
    Options::new(format, 77, "test")
}

/// Returns a timeline in memory.
pub(crate) fn timeline(options: &Options) -> (Timeline, Memory) {
    let file = Memory::default();
    (Timeline::new(Box::new(file.clone()), options), file)
}

/// Returns what `record` writes.
pub(crate) fn written(options: &Options, record: impl FnOnce(&Timeline)) -> Vec<u8> {
    let (timeline, file) = timeline(options);
    record(&timeline);
    timeline.finish().unwrap();
    file.bytes()
}
