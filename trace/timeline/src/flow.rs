//! Arrows between slices: from a launch to the run, and along dependences.

use crate::layout::Place;

/// What an arrow means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlowKind {
    /// From the call that enqueues an operation to its run.
    Launch,
    /// The target follows the source in the same stream.
    StreamOrder,
    /// The target's stream waits for an event that was recorded behind the source.
    Event,
    /// One of the two operations is in the null stream.
    NullStream,
    /// An edge of a graph.
    Graph,
    /// The two operations use the same memory.
    Memory,
}

impl FlowKind {
    /// All kinds.
    pub const ALL: [FlowKind; 6] = [
        FlowKind::Launch,
        FlowKind::StreamOrder,
        FlowKind::Event,
        FlowKind::NullStream,
        FlowKind::Graph,
        FlowKind::Memory,
    ];

    /// The category, by which viewers show and hide arrows.
    pub fn category(self) -> &'static str {
        match self {
            FlowKind::Launch => "ac2g",
            _ => "dep",
        }
    }

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            FlowKind::Launch => "ac2g",
            FlowKind::StreamOrder => "stream_order",
            FlowKind::Event => "event",
            FlowKind::NullStream => "null_stream",
            FlowKind::Graph => "graph",
            FlowKind::Memory => "memory",
        }
    }
}

/// One end of an arrow, as a property of the event at this end.
///
/// The two ends have equal kinds and ids. An arrow has one source and one target: a call that starts several operations
/// has several sources with different ids. The source begins before the target begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowEnd {
    /// What the arrow means.
    pub kind: FlowKind,
    /// The number of the arrow, below 2^56, unique in its kind.
    pub id: u64,
    /// Whether the event is the source.
    pub is_source: bool,
}

impl FlowEnd {
    /// The arrow starts here.
    pub fn source(kind: FlowKind, id: u64) -> FlowEnd {
        FlowEnd {
            kind,
            id,
            is_source: true,
        }
    }

    /// The arrow ends here.
    pub fn target(kind: FlowKind, id: u64) -> FlowEnd {
        FlowEnd {
            kind,
            id,
            is_source: false,
        }
    }
}

/// Where a recorded slice is: its track, and its times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub(crate) place: Place,
    /// When the slice begins.
    pub begin: u64,
    /// When the slice ends.
    pub end: u64,
}

impl Span {
    /// The time at which an arrow leaves the slice. Viewers bind an arrow to the slice that is open at this time, and a
    /// slice is no longer open at its end.
    pub(crate) fn leaves_at(self) -> u64 {
        self.end.saturating_sub(1).max(self.begin)
    }
}
