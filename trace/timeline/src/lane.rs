//! The buffer of a track: the events that are not written yet, and the check that slices nest.

use crate::describe::{Subject, Thread};
use crate::encoder::Encoder;
use crate::event::Event;
use crate::flow::{FlowKind, Span};
use crate::layout::Place;
use crate::nesting::{Interval, MAX_OPEN, Nesting};
use crate::sink::{Overlap, Sink, Summary};

/// The number of overflow tracks of a track.
const MAX_OVERFLOW: u32 = 8;

/// The state of a track, of which one thread at a time records.
#[derive(Debug)]
pub(crate) struct Lane {
    subject: Subject,
    place: Place,
    encoder: Encoder,
    bytes: Vec<u8>,
    /// The time of the first event in `bytes`.
    first_at: Option<u64>,
    counts: Summary,
    nesting: Nesting,
    /// For each open slice, whether it is on the overflow track.
    open: Vec<bool>,
    level: u32,
    overflow: Option<Box<Lane>>,
}

impl Lane {
    /// Returns the buffer of a new track, which contains its description.
    pub(crate) fn new(subject: Subject, place: Place, sink: &Sink) -> Lane {
        let mut lane = Lane {
            subject,
            place,
            encoder: sink.encoder(),
            bytes: Vec::new(),
            first_at: None,
            counts: Summary::default(),
            nesting: Nesting::default(),
            open: Vec::new(),
            level: 0,
            overflow: None,
        };
        lane.describe();
        lane
    }

    /// Gives the track another name.
    pub(crate) fn rename(&mut self, name: &str) {
        if let Subject::Thread(thread) = &mut self.subject {
            if thread.name == name {
                return;
            }
            name.clone_into(&mut thread.name);
            self.describe();
        }
    }

    /// Appends a slice that has ended.
    pub(crate) fn slice(&mut self, sink: &Sink, begin: u64, end: u64, event: &Event<'_>) -> Span {
        let end = end.max(begin);
        let shift = match self.nesting.add(begin, end) {
            Ok(shift) => shift,
            Err(other) => {
                self.note_overlap(event, (begin, end), other);
                return match self.overflow(sink) {
                    Some(lane) => lane.slice(sink, begin, end, event),
                    None => self.omit(begin, end),
                };
            }
        };
        self.prepare();
        self.encoder
            .slice(&mut self.bytes, self.place, (begin, end), shift, event);
        self.counts.slices += 1;
        self.recorded(sink, begin, end);
        self.span(begin, end)
    }

    /// Appends the begin of a slice.
    pub(crate) fn begin(&mut self, sink: &Sink, at: u64, event: &Event<'_>) -> Span {
        if self.open.len() >= MAX_OPEN {
            return self.omit(at, at);
        }
        if let Err(other) = self.nesting.open(at) {
            self.note_overlap(event, (at, u64::MAX), other);
            let Some(lane) = self.overflow(sink) else {
                return self.omit(at, at);
            };
            let span = lane.begin(sink, at, event);
            self.open.push(true);
            return span;
        }
        self.open.push(false);
        self.prepare();
        self.encoder.begin(&mut self.bytes, self.place, at, event);
        self.counts.slices += 1;
        self.recorded(sink, at, at);
        self.span(at, at)
    }

    /// Appends the end of the slice that began last. Returns `None` if no slice is open.
    pub(crate) fn end(&mut self, sink: &Sink, at: u64) -> Option<Span> {
        if self.open.pop()? {
            return self.overflow.as_mut()?.end(sink, at);
        }
        let (begin, end) = self.nesting.close(at)?;
        self.encoder.end(&mut self.bytes, self.place, end);
        self.recorded(sink, end, end);
        Some(self.span(begin, end))
    }

    /// The number of open slices.
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Appends an event without duration.
    pub(crate) fn instant(&mut self, sink: &Sink, at: u64, event: &Event<'_>) {
        self.prepare();
        self.encoder.instant(&mut self.bytes, self.place, at, event);
        self.counts.instants += 1;
        self.recorded(sink, at, at);
    }

    /// Appends the begin of a range.
    pub(crate) fn begin_range(&mut self, sink: &Sink, at: u64, id: u64, event: &Event<'_>) {
        self.prepare();
        self.encoder
            .begin_range(&mut self.bytes, self.place, at, id, event);
        self.counts.ranges += 1;
        self.recorded(sink, at, at);
    }

    /// Appends the end of a range.
    pub(crate) fn end_range(&mut self, sink: &Sink, at: u64, id: u64, names: (&str, &str)) {
        self.encoder
            .end_range(&mut self.bytes, self.place, at, id, names);
        self.recorded(sink, at, at);
    }

    /// Appends an arrow.
    pub(crate) fn flow(&mut self, sink: &Sink, kind: FlowKind, id: u64, from: Span, to: Span) {
        self.prepare();
        let from = (from.place, from.leaves_at());
        self.encoder
            .flow(&mut self.bytes, kind, id, from, (to.place, to.begin));
        self.counts.flows += 1;
        self.recorded(sink, to.begin, to.begin);
    }

    /// Appends a value of a counter.
    pub(crate) fn value(&mut self, sink: &Sink, at: u64, value: i64) {
        self.encoder
            .value(&mut self.bytes, &self.subject, at, value);
        self.counts.values += 1;
        self.recorded(sink, at, at);
    }

    /// Writes the buffer and those of overflow tracks.
    pub(crate) fn write(&mut self, sink: &Sink) {
        self.first_at = None;
        sink.write(&mut self.bytes, &mut self.counts);
        if let Some(lane) = &mut self.overflow {
            lane.write(sink);
        }
    }

    /// Does the same if no other thread writes. Returns whether everything was written.
    pub(crate) fn try_write(&mut self, sink: &Sink) -> bool {
        let is_written = sink.try_write(&mut self.bytes, &mut self.counts);
        let overflow = self.overflow.as_mut();
        overflow.is_none_or(|lane| lane.try_write(sink)) && is_written
    }

    fn describe(&mut self) {
        self.encoder.describe(&mut self.bytes, &self.subject);
    }

    fn prepare(&mut self) {
        self.encoder.prepare(&mut self.bytes, &self.subject);
    }

    fn recorded(&mut self, sink: &Sink, begin: u64, end: u64) {
        let first = *self.first_at.get_or_insert(begin);
        if self.bytes.len() >= sink.limits.bytes || end.saturating_sub(first) >= sink.limits.time {
            self.first_at = None;
            sink.write(&mut self.bytes, &mut self.counts);
        }
    }

    fn span(&self, begin: u64, end: u64) -> Span {
        Span {
            place: self.place,
            begin,
            end,
        }
    }

    fn omit(&mut self, begin: u64, end: u64) -> Span {
        self.counts.omitted += 1;
        self.span(begin, end)
    }

    fn note_overlap(&mut self, event: &Event<'_>, slice: Interval, other: Interval) {
        self.counts.overlaps += u64::from(self.level == 0);
        if self.counts.first_overlap.is_none() {
            self.counts.first_overlap = Some(Overlap {
                track: self.name().to_owned(),
                name: event.name.to_owned(),
                slice,
                other,
            });
        }
    }

    fn name(&self) -> &str {
        match &self.subject {
            Subject::Thread(thread) => &thread.name,
            Subject::Counter(counter) => &counter.name,
        }
    }

    /// Returns the track to which overlapping slices move, or nothing behind the last one.
    fn overflow(&mut self, sink: &Sink) -> Option<&mut Lane> {
        if self.overflow.is_none() {
            self.overflow = Some(Box::new(self.new_overflow(sink)?));
        }
        self.overflow.as_deref_mut()
    }

    fn new_overflow(&self, sink: &Sink) -> Option<Lane> {
        let Subject::Thread(thread) = &self.subject else {
            return None;
        };
        let level = self.level + 1;
        if level > MAX_OVERFLOW {
            return None;
        }
        let place = thread.place.overflow(1);
        let base = thread
            .name
            .strip_suffix(&suffix(self.level))
            .unwrap_or(&thread.name);
        let subject = Subject::Thread(Thread {
            place,
            name: format!("{base}{}", suffix(level)),
            rank: thread.rank,
        });
        Some(Lane {
            level,
            ..Lane::new(subject, place, sink)
        })
    }
}

/// What the name of an overflow track ends with.
fn suffix(level: u32) -> String {
    match level {
        0 => String::new(),
        1 => " (overflow)".to_owned(),
        _ => format!(" (overflow {level})"),
    }
}
