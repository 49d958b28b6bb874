//! The two formats behind one interface.

use crate::describe::{Group, Settings, Subject};
use crate::event::Event;
use crate::flow::FlowKind;
use crate::layout::Place;
use crate::nesting::Shift;
use crate::{chrome, perfetto};

/// A file format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Perfetto's packets.
    Perfetto,
    /// Chrome's JSON.
    Chrome,
}

impl Format {
    /// Appends what a file begins with.
    pub(crate) fn header(self, out: &mut Vec<u8>, settings: &Settings) {
        match self {
            Format::Perfetto => perfetto::header(out, settings),
            Format::Chrome => chrome::header(out),
        }
    }

    /// What a file ends with.
    pub(crate) fn footer(self) -> &'static [u8] {
        match self {
            Format::Perfetto => b"",
            Format::Chrome => chrome::FOOTER,
        }
    }

    /// Appends the description of a process.
    pub(crate) fn group(self, out: &mut Vec<u8>, settings: &Settings, group: &Group) {
        match self {
            Format::Perfetto => perfetto::group(out, settings, group),
            Format::Chrome => chrome::group(out, settings, group),
        }
    }
}

/// Appends the events of a track. The bytes of an event are complete.
#[derive(Debug)]
pub(crate) enum Encoder {
    Perfetto(perfetto::Sequence),
    Chrome(chrome::Lines),
}

impl Encoder {
    /// Returns the encoder of a track. `sequence` is a number that no other track has.
    pub(crate) fn new(format: Format, settings: &Settings, sequence: u32) -> Encoder {
        match format {
            Format::Perfetto => Encoder::Perfetto(perfetto::Sequence::new(sequence, *settings)),
            Format::Chrome => Encoder::Chrome(chrome::Lines::new(settings)),
        }
    }

    pub(crate) fn describe(&mut self, out: &mut Vec<u8>, subject: &Subject) {
        match self {
            Encoder::Perfetto(sequence) => sequence.describe(out, subject),
            Encoder::Chrome(lines) => lines.describe(out, subject),
        }
    }

    /// Bounds the memory of the encoder. Between this call and the next event, nothing may be appended.
    pub(crate) fn prepare(&mut self, out: &mut Vec<u8>, subject: &Subject) {
        if let Encoder::Perfetto(sequence) = self {
            sequence.bound_memory(out, subject);
        }
    }

    pub(crate) fn slice(
        &mut self,
        out: &mut Vec<u8>,
        place: Place,
        times: (u64, u64),
        shift: Shift,
        event: &Event<'_>,
    ) {
        match self {
            Encoder::Perfetto(sequence) => {
                let (begin, end) = shift.apply(times);
                sequence.begin(out, begin, event);
                sequence.end(out, end);
            }
            Encoder::Chrome(lines) => lines.slice(out, place, times, event),
        }
    }

    pub(crate) fn begin(&mut self, out: &mut Vec<u8>, place: Place, at: u64, event: &Event<'_>) {
        match self {
            Encoder::Perfetto(sequence) => sequence.begin(out, at, event),
            Encoder::Chrome(lines) => lines.begin(out, place, at, event),
        }
    }

    pub(crate) fn end(&mut self, out: &mut Vec<u8>, place: Place, at: u64) {
        match self {
            Encoder::Perfetto(sequence) => sequence.end(out, at),
            Encoder::Chrome(lines) => lines.end(out, place, at),
        }
    }

    pub(crate) fn instant(&mut self, out: &mut Vec<u8>, place: Place, at: u64, event: &Event<'_>) {
        match self {
            Encoder::Perfetto(sequence) => sequence.instant(out, at, event),
            Encoder::Chrome(lines) => lines.instant(out, place, at, event),
        }
    }

    pub(crate) fn begin_range(
        &mut self,
        out: &mut Vec<u8>,
        place: Place,
        at: u64,
        id: u64,
        event: &Event<'_>,
    ) {
        match self {
            Encoder::Perfetto(sequence) => sequence.begin_range(out, place.process, at, id, event),
            Encoder::Chrome(lines) => lines.begin_range(out, place, at, id, event),
        }
    }

    pub(crate) fn end_range(
        &mut self,
        out: &mut Vec<u8>,
        place: Place,
        at: u64,
        id: u64,
        (domain, name): (&str, &str),
    ) {
        match self {
            Encoder::Perfetto(sequence) => sequence.end_range(out, at, id),
            Encoder::Chrome(lines) => lines.end_range(out, place, at, id, domain, name),
        }
    }

    pub(crate) fn flow(
        &mut self,
        out: &mut Vec<u8>,
        kind: FlowKind,
        id: u64,
        from: (Place, u64),
        to: (Place, u64),
    ) {
        match self {
            Encoder::Perfetto(sequence) => sequence.flow(out, kind, id, from, to),
            Encoder::Chrome(lines) => lines.flow(out, kind, id, from, to),
        }
    }

    pub(crate) fn value(&mut self, out: &mut Vec<u8>, subject: &Subject, at: u64, value: i64) {
        match (self, subject) {
            (Encoder::Perfetto(sequence), _) => sequence.value(out, at, value),
            (Encoder::Chrome(lines), Subject::Counter(counter)) => {
                lines.value(out, counter, at, value)
            }
            (Encoder::Chrome(_), Subject::Thread(_)) => {}
        }
    }
}
