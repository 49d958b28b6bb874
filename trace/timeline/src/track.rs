//! Tracks: where threads record.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::describe::Subject;
use crate::event::Event;
use crate::flow::{FlowKind, Span};
use crate::lane::Lane;
use crate::layout::{Place, Process};
use crate::sink::Sink;

/// A row of a timeline: an OS thread, a stream, a worker thread.
///
/// Any thread may record on any track. Threads wait for each other only if they record on the same track at the same
/// moment, and while a full buffer is written to the file. All times are nanoseconds of one clock. A recording after the
/// end of the timeline has no effect.
#[derive(Clone, Debug)]
pub struct Track {
    core: Arc<Core>,
}

/// A row of a timeline that shows a value over time.
#[derive(Clone, Debug)]
pub struct Counter {
    core: Arc<Core>,
}

/// The state of a track. Its buffer is written when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct Core {
    sink: Arc<Sink>,
    place: Place,
    lane: Mutex<Lane>,
}

impl Core {
    pub(crate) fn new(sink: Arc<Sink>, subject: Subject, place: Place) -> Core {
        let lane = Mutex::new(Lane::new(subject, place, &sink));
        Core { sink, place, lane }
    }

    /// Writes the buffer.
    pub(crate) fn write(&self) {
        self.lane.lock().write(&self.sink);
    }

    /// Writes the buffer if no other thread records on the track or writes. Returns whether this was so.
    pub(crate) fn try_write(&self) -> bool {
        let lane = self.lane.try_lock();
        lane.is_some_and(|mut lane| lane.try_write(&self.sink))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.lane.get_mut().write(&self.sink);
    }
}

impl Track {
    pub(crate) fn new(core: Arc<Core>) -> Track {
        Track { core }
    }

    /// The group of the track.
    pub fn process(&self) -> Process {
        self.core.place.process
    }

    /// Gives the track another name.
    pub fn rename(&self, name: &str) {
        self.record(|lane, _| lane.rename(name));
    }

    /// Records a slice that has ended. `end` is at least `begin`.
    ///
    /// The slices of a track nest. A slice that overlaps another moves to an overflow track, and
    /// [`Summary`](crate::Summary) reports it. The result states where the slice is, for [`Track::flow`].
    pub fn slice(&self, begin: u64, end: u64, event: &Event<'_>) -> Span {
        self.record(|lane, sink| lane.slice(sink, begin, end, event))
            .unwrap_or_else(|| self.span(begin, end.max(begin)))
    }

    /// Records the begin of a slice. If the program ends in it, the timeline shows the slice without an end.
    pub fn begin(&self, at: u64, event: &Event<'_>) -> Span {
        self.record(|lane, sink| lane.begin(sink, at, event))
            .unwrap_or_else(|| self.span(at, at))
    }

    /// Records the end of the slice that began last on this track. Returns `None` if no slice is open.
    pub fn end(&self, at: u64) -> Option<Span> {
        self.record(|lane, sink| lane.end(sink, at)).flatten()
    }

    /// The number of slices that have begun and not ended.
    pub fn depth(&self) -> usize {
        self.core.lane.lock().depth()
    }

    /// Records an event without duration.
    pub fn instant(&self, at: u64, event: &Event<'_>) {
        self.record(|lane, sink| lane.instant(sink, at, event));
    }

    /// Records the begin of a range, which may overlap slices and other ranges. The category names its domain.
    ///
    /// `id` is unique in the timeline. The range is drawn below the threads of the process of this track.
    pub fn begin_range(&self, at: u64, id: u64, event: &Event<'_>) {
        self.record(|lane, sink| lane.begin_range(sink, at, id, event));
    }

    /// Records the end of a range, on any track of the process. `category` is that of the begin; `name` is that of the
    /// begin or empty.
    pub fn end_range(&self, at: u64, id: u64, category: &str, name: &str) {
        self.record(|lane, sink| lane.end_range(sink, at, id, (category, name)));
    }

    /// Records an arrow from the end of a slice to the begin of another, which may be recorded before or later.
    ///
    /// This track is usually that of the target. `id` is unique among the arrows of this kind, also among those of
    /// [`Event::flows`]. An arrow can leave a slice that is not recorded yet: [`Track::point`] returns a source in it.
    pub fn flow(&self, kind: FlowKind, id: u64, from: Span, to: Span) {
        self.record(|lane, sink| lane.flow(sink, kind, id, from, to));
    }

    /// Returns a time on this track as the end of an arrow. It stands for the innermost slice that contains the time;
    /// the time is not the begin of the slice if the slice is recorded later.
    pub fn point(&self, at: u64) -> Span {
        self.span(at, at)
    }

    fn span(&self, begin: u64, end: u64) -> Span {
        Span {
            place: self.core.place,
            begin,
            end,
        }
    }

    fn record<R>(&self, record: impl FnOnce(&mut Lane, &Sink) -> R) -> Option<R> {
        record_on(&self.core, record)
    }
}

impl Counter {
    pub(crate) fn new(core: Arc<Core>) -> Counter {
        Counter { core }
    }

    /// Records a value that holds from the time `at`.
    pub fn set(&self, at: u64, value: i64) {
        record_on(&self.core, |lane, sink| lane.value(sink, at, value));
    }
}

fn record_on<R>(core: &Core, record: impl FnOnce(&mut Lane, &Sink) -> R) -> Option<R> {
    if core.sink.has_ended() {
        return None;
    }
    Some(record(&mut core.lane.lock(), &core.sink))
}
