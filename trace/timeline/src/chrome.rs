//! Chrome's JSON format: an object with an array of events, one a line.
//!
//! A line begins with the comma that separates it from the line before, so that a file that ends early lacks only the
//! end of the array, which viewers accept. Times are microseconds with three digits behind the point. They are written
//! from integers, so that no digit is lost.

mod json;

use self::json::Object;
use crate::describe::{CounterTrack, Group, Settings, Subject, Thread};
use crate::event::{Event, Value};
use crate::flow::{FlowEnd, FlowKind};
use crate::layout::{Place, Process};

/// What a file begins with. Its first event has no comma.
pub(crate) fn header(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    let mut object = Object::begin(out);
    object.text("ph", "M");
    object.text("name", "process_sort_index");
    object.uint("pid", Process::Host.number().into());
    object.object("args", |args| {
        args.int("sort_index", Process::Host.rank().into())
    });
    object.end();
}

/// What a file ends with.
pub(crate) const FOOTER: &[u8] = b"\n]}\n";

/// Appends the description of a process.
pub(crate) fn group(out: &mut Vec<u8>, settings: &Settings, group: &Group) {
    let pid = group.process.number();
    metadata(out, "process_name", pid, None, |args| {
        args.text("name", &group.name)
    });
    let rank = group.process.rank();
    metadata(out, "process_sort_index", pid, None, |args| {
        args.int("sort_index", rank.into())
    });
    if group.process == Process::Host {
        let label = format!("process {}", settings.process_id);
        metadata(out, "process_labels", pid, None, |args| {
            args.text("labels", &label)
        });
    }
}

fn metadata(
    out: &mut Vec<u8>,
    name: &str,
    pid: u32,
    tid: Option<u64>,
    args: impl FnOnce(&mut Object<'_>),
) {
    line(out, |object| {
        object.text("ph", "M");
        object.text("name", name);
        object.uint("pid", pid.into());
        if let Some(tid) = tid {
            object.uint("tid", tid);
        }
        object.object("args", args);
    });
}

/// The lines of a track.
#[derive(Debug)]
pub(crate) struct Lines {
    origin: u64,
}

impl Lines {
    pub(crate) fn new(settings: &Settings) -> Lines {
        Lines {
            origin: settings.origin,
        }
    }

    /// Appends the name of the track and its position.
    pub(crate) fn describe(&mut self, out: &mut Vec<u8>, subject: &Subject) {
        let Subject::Thread(Thread { place, name, rank }) = subject else {
            return;
        };
        let (pid, tid) = (place.process.number(), Some(place.thread));
        metadata(out, "thread_name", pid, tid, |args| args.text("name", name));
        metadata(out, "thread_sort_index", pid, tid, |args| {
            args.int("sort_index", (*rank).into())
        });
    }

    /// Appends a slice.
    pub(crate) fn slice(
        &mut self,
        out: &mut Vec<u8>,
        place: Place,
        (begin, end): (u64, u64),
        event: &Event<'_>,
    ) {
        line(out, |object| {
            self.head(object, "X", place, begin, Some(event));
            object.microseconds("dur", false, end - begin);
            arguments(object, event);
        });
        self.flow_ends(out, place, begin, event.flows);
    }

    /// Appends the begin of a slice.
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>, place: Place, at: u64, event: &Event<'_>) {
        line(out, |object| {
            self.head(object, "B", place, at, Some(event));
            arguments(object, event);
        });
        self.flow_ends(out, place, at, event.flows);
    }

    /// Appends the end of the slice that began last.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>, place: Place, at: u64) {
        line(out, |object| self.head(object, "E", place, at, None));
    }

    /// Appends an event without duration.
    pub(crate) fn instant(&mut self, out: &mut Vec<u8>, place: Place, at: u64, event: &Event<'_>) {
        line(out, |object| {
            self.head(object, "i", place, at, Some(event));
            object.text("s", "t");
            arguments(object, event);
        });
        self.flow_ends(out, place, at, event.flows);
    }

    /// Appends the begin of a range.
    pub(crate) fn begin_range(
        &mut self,
        out: &mut Vec<u8>,
        place: Place,
        at: u64,
        id: u64,
        event: &Event<'_>,
    ) {
        line(out, |object| {
            self.head(object, "b", place, at, Some(event));
            object.hexadecimal("id", id);
            arguments(object, event);
        });
    }

    /// Appends the end of a range of `domain`.
    pub(crate) fn end_range(
        &mut self,
        out: &mut Vec<u8>,
        place: Place,
        at: u64,
        id: u64,
        domain: &str,
        name: &str,
    ) {
        line(out, |object| {
            self.head(object, "e", place, at, Some(&Event::new(domain, name)));
            object.hexadecimal("id", id);
        });
    }

    /// Appends a value of a counter.
    pub(crate) fn value(&mut self, out: &mut Vec<u8>, counter: &CounterTrack, at: u64, value: i64) {
        line(out, |object| {
            object.text("ph", "C");
            object.text("name", &counter.name);
            object.uint("pid", counter.process.number().into());
            self.time(object, at);
            object.object("args", |args| args.int(counter.series, value));
        });
    }

    /// Appends an arrow.
    pub(crate) fn flow(
        &mut self,
        out: &mut Vec<u8>,
        kind: FlowKind,
        id: u64,
        from: (Place, u64),
        to: (Place, u64),
    ) {
        self.flow_end(out, from.0, from.1, &FlowEnd::source(kind, id));
        self.flow_end(out, to.0, to.1, &FlowEnd::target(kind, id));
    }

    fn flow_ends(&mut self, out: &mut Vec<u8>, place: Place, at: u64, ends: &[FlowEnd]) {
        for end in ends {
            self.flow_end(out, place, at, end);
        }
    }

    fn flow_end(&mut self, out: &mut Vec<u8>, place: Place, at: u64, end: &FlowEnd) {
        let event = Event::new(end.kind.category(), end.kind.name());
        line(out, |object| {
            self.head(
                object,
                if end.is_source { "s" } else { "f" },
                place,
                at,
                Some(&event),
            );
            object.uint("id", end.id);
            if !end.is_source {
                object.text("bp", "e");
            }
        });
    }

    fn head(
        &self,
        object: &mut Object<'_>,
        phase: &str,
        place: Place,
        at: u64,
        event: Option<&Event<'_>>,
    ) {
        object.text("ph", phase);
        if let Some(event) = event {
            if phase != "e" || !event.name.is_empty() {
                object.text("name", event.name);
            }
            object.text("cat", event.category);
        }
        object.uint("pid", place.process.number().into());
        object.uint("tid", place.thread);
        self.time(object, at);
    }

    fn time(&self, object: &mut Object<'_>, at: u64) {
        object.microseconds("ts", at < self.origin, at.abs_diff(self.origin));
    }
}

fn arguments(object: &mut Object<'_>, event: &Event<'_>) {
    if event.correlation.is_none() && event.args.is_empty() {
        return;
    }
    object.object("args", |args| {
        if let Some(id) = event.correlation {
            args.value("correlation", &Value::Uint(id), 0);
        }
        for arg in event.args {
            args.value(arg.name, &arg.value, 0);
        }
    });
}

fn line(out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
    out.extend_from_slice(b",\n");
    let mut object = Object::begin(out);
    write(&mut object);
    object.end();
}
