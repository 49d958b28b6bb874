//! The file that all tracks of a timeline write.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::describe::Settings;
use crate::encoder::{Encoder, Format};
use crate::perfetto;

/// The file and what all tracks share.
pub(crate) struct Sink {
    pub(crate) format: Format,
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    sequences: AtomicU32,
    has_ended: AtomicBool,
    out: Mutex<Out>,
}

/// When the buffer of a track is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The number of bytes of the buffer.
    pub(crate) bytes: usize,
    /// The time that the buffer covers, in nanoseconds.
    pub(crate) time: u64,
}

struct Out {
    file: Box<dyn Write + Send>,
    error: Option<io::Error>,
    has_ended: bool,
    summary: Summary,
}

/// What a timeline contains.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// The number of slices, with those that have not ended, without ranges.
    pub slices: u64,
    /// The number of events without duration.
    pub instants: u64,
    /// The number of ranges that began.
    pub ranges: u64,
    /// The number of values of counters.
    pub values: u64,
    /// The number of arrows that [`Track::flow`](crate::Track::flow) recorded.
    pub flows: u64,
    /// The number of slices that moved to an overflow track, because they overlap another slice of their track.
    pub overlaps: u64,
    /// The number of slices that are missing: they overlap slices on the track and on all overflow tracks, or too many
    /// slices of the track are open.
    pub omitted: u64,
    /// The first slice that overlaps another.
    pub first_overlap: Option<Overlap>,
    /// The number of bytes of the file.
    pub bytes: u64,
}

/// A slice that overlaps another slice of the same track, which is a defect of the program that records them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overlap {
    /// The name of the track.
    pub track: String,
    /// The name of the slice.
    pub name: String,
    /// The begin and the end of the slice, in nanoseconds. A slice that has not ended ends at `u64::MAX`.
    pub slice: (u64, u64),
    /// The begin and the end of the other slice.
    pub other: (u64, u64),
}

impl Summary {
    /// Adds the counts of `other`, which becomes empty.
    fn take(&mut self, other: &mut Summary) {
        let other = std::mem::take(other);
        self.slices += other.slices;
        self.instants += other.instants;
        self.ranges += other.ranges;
        self.values += other.values;
        self.flows += other.flows;
        self.overlaps += other.overlaps;
        self.omitted += other.omitted;
        self.first_overlap = self.first_overlap.take().or(other.first_overlap);
    }
}

impl Sink {
    pub(crate) fn new(
        file: Box<dyn Write + Send>,
        format: Format,
        settings: Settings,
        limits: Limits,
    ) -> Sink {
        Sink {
            format,
            settings,
            limits,
            sequences: AtomicU32::new(perfetto::MAIN),
            has_ended: AtomicBool::new(false),
            out: Mutex::new(Out {
                file,
                error: None,
                has_ended: false,
                summary: Summary::default(),
            }),
        }
    }

    /// Returns the encoder of a new track.
    pub(crate) fn encoder(&self) -> Encoder {
        let sequence = self
            .sequences
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(1);
        Encoder::new(self.format, &self.settings, sequence)
    }

    /// Whether the file has ended, so that recording is in vain.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Writes complete events and adds their counts. Both become empty.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>, counts: &mut Summary) {
        self.out.lock().append(bytes, counts);
    }

    /// Does the same if no other thread writes. Returns whether this was so.
    pub(crate) fn try_write(&self, bytes: &mut Vec<u8>, counts: &mut Summary) -> bool {
        let Some(mut out) = self.out.try_lock() else {
            return false;
        };
        out.append(bytes, counts);
        true
    }

    /// Returns the text of the first error of the file.
    pub(crate) fn error(&self) -> Option<String> {
        self.out.lock().error.as_ref().map(io::Error::to_string)
    }

    /// Hands the written bytes to the operating system.
    pub(crate) fn flush(&self) {
        self.out.lock().attempt(|file| file.flush());
    }

    /// Ends the file. Returns what it contains, or the first error.
    pub(crate) fn end(&self) -> io::Result<Summary> {
        self.has_ended.store(true, Ordering::Relaxed);
        let mut out = self.out.lock();
        if !out.has_ended {
            let mut footer = self.format.footer().to_vec();
            out.append(&mut footer, &mut Summary::default());
            out.attempt(|file| file.flush());
            out.has_ended = true;
        }
        match out.error.take() {
            Some(error) => Err(error),
            None => Ok(out.summary.clone()),
        }
    }
}

impl Out {
    fn append(&mut self, bytes: &mut Vec<u8>, counts: &mut Summary) {
        if !self.has_ended {
            self.summary.take(counts);
            self.summary.bytes += bytes.len() as u64;
            self.attempt(|file| file.write_all(bytes));
        }
        bytes.clear();
    }

    /// Uses the file, unless this failed before: after an incomplete event, nothing can follow.
    fn attempt(&mut self, operation: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = operation(&mut self.file).err();
        }
    }
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Sink")
            .field("format", &self.format)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
