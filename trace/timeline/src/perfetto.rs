//! Perfetto's format: a sequence of packets in the wire format of protocol buffers.
//!
//! The numbers of fields are those of the messages `Trace`, `TracePacket`, `TrackDescriptor`, `TrackEvent`,
//! `DebugAnnotation`, `InternedData` and `ClockSnapshot` in the folder `protos/perfetto/trace` of Perfetto's sources.
//!
//! Each track has a sequence of its own (`trusted_packet_sequence_id`) with its own interned strings. A sequence begins
//! with a packet that clears the state of the sequence, describes the track and makes it the default track. The same
//! happens when the strings take too much memory. Sequence [`MAIN`] describes the processes.

mod annotation;
mod descriptor;

use crate::describe::{Group, Settings, Subject};
use crate::event::{Arg, Event, Value};
use crate::flow::{FlowEnd, FlowKind};
use crate::intern::{Interner, Kind};
use crate::layout::{self, Place, Process};
use crate::protobuf::{bytes, fixed64, int, message, uint};

/// The sequence of the processes. Those of tracks have greater numbers.
pub(crate) const MAIN: u32 = 1;

/// Fields of `Trace` and `TracePacket`.
const PACKET: u32 = 1;
const CLOCK_SNAPSHOT: u32 = 6;
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED_DATA: u32 = 12;
const SEQUENCE_FLAGS: u32 = 13;
const TIMESTAMP_CLOCK: u32 = 58;
const DEFAULTS: u32 = 59;
const TRACK_DESCRIPTOR: u32 = 60;

/// Values of `SEQUENCE_FLAGS`.
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// Fields of `TrackEvent`.
const CATEGORY: u32 = 3;
const LEGACY_EVENT: u32 = 6;
const TYPE: u32 = 9;
const NAME: u32 = 10;
const TRACK: u32 = 11;
const COUNTER_VALUE: u32 = 30;
const FLOW: u32 = 47;
const TERMINATING_FLOW: u32 = 48;
const CORRELATION: u32 = 52;

/// Values of `TYPE`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Values of `BuiltinClock`.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
const BOOTTIME: u64 = 6;

/// Appends what a file begins with: the order of processes and threads, and the clocks.
pub(crate) fn header(out: &mut Vec<u8>, settings: &Settings) {
    message(out, PACKET, |out| {
        uint(out, SEQUENCE, MAIN.into());
        message(out, TRACK_DESCRIPTOR, descriptor::root);
    });
    let Some(clocks) = settings.clocks else {
        return;
    };
    message(out, PACKET, |out| {
        uint(out, SEQUENCE, MAIN.into());
        message(out, CLOCK_SNAPSHOT, |out| {
            let readings = [
                (MONOTONIC, clocks.monotonic),
                (BOOTTIME, clocks.boottime),
                (REALTIME, clocks.realtime),
            ];
            for (clock, time) in readings {
                message(out, 1, |out| {
                    uint(out, 1, clock);
                    uint(out, 2, time);
                });
            }
            uint(out, 2, MONOTONIC);
        });
    });
}

/// Appends the description of a process.
pub(crate) fn group(out: &mut Vec<u8>, settings: &Settings, group: &Group) {
    message(out, PACKET, |out| {
        uint(out, SEQUENCE, MAIN.into());
        message(out, TRACK_DESCRIPTOR, |out| {
            descriptor::process(out, settings, group)
        });
    });
}

/// The packets of a track.
#[derive(Debug)]
pub(crate) struct Sequence {
    number: u32,
    settings: Settings,
    interner: Interner,
    /// Whether the reader knows no state of the sequence.
    is_new: bool,
}

impl Sequence {
    pub(crate) fn new(number: u32, settings: Settings) -> Sequence {
        Sequence {
            number,
            settings,
            interner: Interner::default(),
            is_new: true,
        }
    }

    /// Appends the description of the track.
    pub(crate) fn describe(&mut self, out: &mut Vec<u8>, subject: &Subject) {
        let flags = if self.is_new {
            STATE_CLEARED
        } else {
            NEEDS_STATE
        };
        message(out, PACKET, |out| {
            uint(out, SEQUENCE, self.number.into());
            uint(out, SEQUENCE_FLAGS, flags);
            if self.is_new {
                message(out, DEFAULTS, |out| self.defaults(out, subject));
            }
            message(out, TRACK_DESCRIPTOR, |out| {
                descriptor::track(out, &self.settings, subject)
            });
        });
        self.is_new = false;
    }

    fn defaults(&self, out: &mut Vec<u8>, subject: &Subject) {
        message(out, TRACK_EVENT, |out| uint(out, TRACK, subject.uuid()));
        if self.settings.clocks.is_some() {
            uint(out, TIMESTAMP_CLOCK, MONOTONIC);
        }
    }

    /// Starts the sequence again if its strings take too much memory.
    pub(crate) fn bound_memory(&mut self, out: &mut Vec<u8>, subject: &Subject) {
        if self.interner.is_full() {
            self.interner.clear();
            self.is_new = true;
            self.describe(out, subject);
        }
    }

    /// Appends the begin of a slice.
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>, at: u64, event: &Event<'_>) {
        self.event(out, at, SLICE_BEGIN, None, event);
    }

    /// Appends the end of the slice that began last.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>, at: u64) {
        self.packet(out, at, |out, _| uint(out, TYPE, SLICE_END));
    }

    /// Appends an event without duration.
    pub(crate) fn instant(&mut self, out: &mut Vec<u8>, at: u64, event: &Event<'_>) {
        self.event(out, at, INSTANT, None, event);
    }

    /// Appends the begin of a range, which has a track of its own. Viewers draw tracks of the same name together.
    pub(crate) fn begin_range(
        &mut self,
        out: &mut Vec<u8>,
        process: Process,
        at: u64,
        id: u64,
        event: &Event<'_>,
    ) {
        message(out, PACKET, |out| {
            uint(out, SEQUENCE, self.number.into());
            uint(out, SEQUENCE_FLAGS, NEEDS_STATE);
            message(out, TRACK_DESCRIPTOR, |out| {
                descriptor::range(out, process, id, event.category)
            });
        });
        self.event(out, at, SLICE_BEGIN, Some(layout::range_uuid(id)), event);
    }

    /// Appends the end of a range.
    pub(crate) fn end_range(&mut self, out: &mut Vec<u8>, at: u64, id: u64) {
        self.packet(out, at, |out, _| {
            uint(out, TYPE, SLICE_END);
            uint(out, TRACK, layout::range_uuid(id));
        });
    }

    /// Appends a value of the counter.
    pub(crate) fn value(&mut self, out: &mut Vec<u8>, at: u64, value: i64) {
        self.packet(out, at, |out, _| {
            uint(out, TYPE, COUNTER);
            int(out, COUNTER_VALUE, value);
        });
    }

    /// Appends an arrow between slices that may be recorded already.
    ///
    /// `flow_ids` belong to the packet of a slice, so the arrow consists of the two events of Chrome's format, which
    /// `TrackEvent` contains as `LegacyEvent`. They bind to the slices that are open at their times.
    pub(crate) fn flow(
        &mut self,
        out: &mut Vec<u8>,
        kind: FlowKind,
        id: u64,
        from: (Place, u64),
        to: (Place, u64),
    ) {
        self.flow_end(out, kind, id, from, b's');
        self.flow_end(out, kind, id, to, b'f');
    }

    fn flow_end(
        &mut self,
        out: &mut Vec<u8>,
        kind: FlowKind,
        id: u64,
        (place, at): (Place, u64),
        phase: u8,
    ) {
        self.packet(out, at, |out, interner| {
            uint(out, TRACK, place.uuid());
            uint(out, NAME, interner.number(Kind::EventName, kind.name()));
            uint(
                out,
                CATEGORY,
                interner.number(Kind::Category, kind.category()),
            );
            message(out, LEGACY_EVENT, |out| {
                uint(out, 2, phase.into());
                uint(out, 6, id);
                if phase == b'f' {
                    uint(out, 12, 1);
                }
            });
        });
    }

    fn event(
        &mut self,
        out: &mut Vec<u8>,
        at: u64,
        event_type: u64,
        track: Option<u64>,
        event: &Event<'_>,
    ) {
        self.packet(out, at, |out, interner| {
            uint(out, TYPE, event_type);
            if let Some(track) = track {
                uint(out, TRACK, track);
            }
            uint(out, NAME, interner.number(Kind::EventName, event.name));
            uint(
                out,
                CATEGORY,
                interner.number(Kind::Category, event.category),
            );
            if let Some(id) = event.correlation {
                annotation::append(out, interner, &Arg::new("correlation", Value::Uint(id)), 0);
                uint(out, CORRELATION, id);
            }
            for arg in event.args {
                annotation::append(out, interner, arg, 0);
            }
            for end in event.flows {
                let field = if end.is_source {
                    FLOW
                } else {
                    TERMINATING_FLOW
                };
                fixed64(out, field, flow_id(end));
            }
        });
    }

    fn packet(
        &mut self,
        out: &mut Vec<u8>,
        at: u64,
        write: impl FnOnce(&mut Vec<u8>, &mut Interner),
    ) {
        let interner = &mut self.interner;
        message(out, PACKET, |out| {
            uint(out, TIMESTAMP, at);
            uint(out, SEQUENCE, self.number.into());
            uint(out, SEQUENCE_FLAGS, NEEDS_STATE);
            message(out, TRACK_EVENT, |out| write(out, interner));
            if !interner.pending.is_empty() {
                bytes(out, INTERNED_DATA, &interner.pending);
                interner.pending.clear();
            }
        });
    }
}

/// Returns an id that differs between kinds, and from the small numbers that readers give to the arrows of
/// [`Sequence::flow`].
fn flow_id(end: &FlowEnd) -> u64 {
    1 << 63 | (end.kind as u64) << 56 | end.id & ((1 << 56) - 1)
}
