//! Descriptions of tracks: the message `TrackDescriptor`.

use crate::describe::{CounterTrack, Group, Settings, Subject, Thread};
use crate::event::category;
use crate::layout::{self, Process};
use crate::protobuf::{bytes, int, message, uint};
use crate::text::bounded;

/// Fields of `TrackDescriptor`.
const UUID: u32 = 1;
const NAME: u32 = 2;
const PROCESS: u32 = 3;
const THREAD: u32 = 4;
const PARENT: u32 = 5;
const COUNTER: u32 = 8;
const RANK: u32 = 12;
const PROCESS_ORDERING: u32 = 19;
const THREAD_ORDERING: u32 = 20;

/// Value of both orderings: by rank.
const EXPLICIT: u64 = 1;

/// Values of the unit of a counter.
const UNIT_COUNT: u64 = 2;
const UNIT_BYTES: u64 = 3;

/// Appends the description of the root, which orders processes and threads.
pub(super) fn root(out: &mut Vec<u8>) {
    uint(out, UUID, 0);
    uint(out, PROCESS_ORDERING, EXPLICIT);
    uint(out, THREAD_ORDERING, EXPLICIT);
}

/// Appends the description of a process.
pub(super) fn process(out: &mut Vec<u8>, settings: &Settings, group: &Group) {
    uint(out, UUID, layout::process_uuid(group.process));
    message(out, PROCESS, |out| {
        uint(out, 1, pid(settings, group.process));
        bytes(out, 6, bounded(&group.name).as_bytes());
    });
    int(out, RANK, group.process.rank().into());
}

/// Appends the description of a track of slices or values.
pub(super) fn track(out: &mut Vec<u8>, settings: &Settings, subject: &Subject) {
    uint(out, UUID, subject.uuid());
    match subject {
        Subject::Thread(track) => thread(out, settings, track),
        Subject::Counter(track) => counter(out, track),
    }
}

fn thread(out: &mut Vec<u8>, settings: &Settings, thread: &Thread) {
    message(out, THREAD, |out| {
        uint(out, 1, pid(settings, thread.place.process));
        uint(out, 2, thread.place.thread);
        bytes(out, 5, bounded(&thread.name).as_bytes());
    });
    int(out, RANK, thread.rank.into());
}

fn counter(out: &mut Vec<u8>, counter: &CounterTrack) {
    bytes(out, NAME, bounded(&counter.name).as_bytes());
    uint(out, PARENT, layout::process_uuid(counter.process));
    message(out, COUNTER, |out| {
        uint(
            out,
            3,
            if counter.is_bytes {
                UNIT_BYTES
            } else {
                UNIT_COUNT
            },
        );
    });
    int(out, RANK, counter.rank.into());
}

/// Appends the description of the track of an NVTX range.
pub(super) fn range(out: &mut Vec<u8>, process: Process, id: u64, domain: &str) {
    uint(out, UUID, layout::range_uuid(id));
    if domain == category::NVTX {
        bytes(out, NAME, b"NVTX ranges");
    } else {
        bytes(
            out,
            NAME,
            format!("NVTX ranges: {}", bounded(domain)).as_bytes(),
        );
    }
    uint(out, PARENT, layout::process_uuid(process));
}

impl Subject {
    pub(super) fn uuid(&self) -> u64 {
        match self {
            Subject::Thread(thread) => thread.place.uuid(),
            Subject::Counter(counter) => counter.uuid,
        }
    }
}

fn pid(settings: &Settings, process: Process) -> u64 {
    layout::distinct_number(process, settings.process_id).into()
}
