//! Writes the timeline of a program: calls of the driver API, work of the streams, the order between pieces of work, and
//! memory.
//!
//! [`Recorder`] is a tool that passes the events of the host to a timeline (crate `margay_timeline`).

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use margay::KernelInfo;
use margay::observe::{
    AllocationKind, Annotation, AnnotationKind, AnnotationPayload, DependenceKind, Event, Events,
    HostEvent, Launch, Named, Request, Tool, Worker,
};
pub use margay_timeline::Format;
use margay_timeline::{
    self as format, Arg, Clocks, Counter, FlowKind, Quantity, StreamKind, Timeline, Track, Value,
    category,
};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use rustix::time::ClockId;
use smallvec::SmallVec;

use crate::host::{is_failure, nanoseconds, thread_number, waited_for};

mod work;
mod workers;

use work::{Ended, Names, What, Work};
use workers::{LaunchWorker, Workers};

/// A tool that writes the timeline of a process.
pub struct Recorder {
    /// A number that is unique in the process.
    number: u64,
    timeline: Timeline,
    state: Mutex<State>,
    workers: Arc<Workers>,
    names: Names,
}

#[derive(Default)]
struct State {
    /// Work that has not ended.
    works: FxHashMap<u64, Work>,
    /// The work of launches, by the number of the launch.
    launches: FxHashMap<u64, u64>,
    /// Where the newest pieces of work that have ended are in the timeline.
    ended: Ended,
    /// The number of arrows between pieces of work.
    arrows: u64,
    streams: FxHashMap<u64, Track>,
    /// Whether a default stream has a track.
    has_default: bool,
    /// The number of other streams.
    created: u64,
    /// The sizes and kinds of live allocations.
    live: FxHashMap<u64, (u64, AllocationKind)>,
    counters: FxHashMap<AllocationKind, (Counter, u64)>,
}

/// The number of the track for work of graphs.
const GRAPHS: u64 = 1;
/// The number under which CUDA's tools show the default stream, and the number of the first created stream.
const DEFAULT_STREAM: u64 = 7;
/// See [`DEFAULT_STREAM`].
const FIRST_STREAM: u64 = 13;

/// What a thread of the program does.
struct Here {
    track: Track,
    /// The calls that the thread executes: their numbers and begins.
    calls: Vec<(u64, u64)>,
}

thread_local! {
    /// For each recorder of the process, by its number, what the thread does.
    static HERE: RefCell<Vec<(u64, Here)>> = const { RefCell::new(Vec::new()) };
}

fn now() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

impl Recorder {
    /// Creates the file of a timeline.
    ///
    /// # Errors
    /// Those of the file.
    pub fn create(path: &Path, file_format: Format) -> io::Result<Recorder> {
        let program = std::env::current_exe().ok();
        let name = program.as_deref().and_then(Path::file_name);
        let name = name.map_or_else(|| "program".into(), |name| name.to_string_lossy());
        let monotonic = now();
        let options = format::Options {
            origin: monotonic,
            clocks: Some(Clocks {
                monotonic,
                boottime: nanoseconds(ClockId::Boottime),
                realtime: nanoseconds(ClockId::Realtime),
            }),
            ..format::Options::new(file_format, std::process::id(), &name)
        };
        let timeline = Timeline::create(path, &options)?;
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Ok(Recorder {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            workers: Arc::new(Workers::new(timeline.clone())),
            timeline,
            state: Mutex::default(),
            names: Names::default(),
        })
    }

    /// Writes what is not written yet, and completes the file.
    ///
    /// # Errors
    /// The first error of the file.
    pub fn finish(&self) -> io::Result<()> {
        self.timeline.finish().map(drop)
    }

    /// Calls `action` with the state of the calling thread. Does nothing while the thread ends.
    fn here<T>(&self, action: impl FnOnce(&mut Here) -> T) -> Option<T> {
        let result = HERE.try_with(|here| {
            let mut all = here.try_borrow_mut().ok()?;
            let known = all
                .iter()
                .position(|(recorder, _)| *recorder == self.number);
            let index = known.unwrap_or_else(|| {
                let thread = std::thread::current();
                let here = Here {
                    track: self
                        .timeline
                        .host_thread(thread_number(), thread.name().unwrap_or("thread")),
                    calls: Vec::new(),
                };
                all.push((self.number, here));
                all.len() - 1
            });
            Some(action(&mut all[index].1))
        });
        result.ok().flatten()
    }

    fn begin_call(&self, call: u64) {
        self.here(|here| here.calls.push((call, now())));
    }

    fn end_call(&self, name: &str, result: u32) {
        self.here(|here| {
            let Some((call, begin)) = here.calls.pop() else {
                return;
            };
            let args = [Arg::new("result", u64::from(result))];
            let category = if waited_for(name).is_some() {
                category::SYNC
            } else {
                category::DRIVER
            };
            let event = format::Event::new(category, name);
            here.track
                .slice(begin, now(), &event.correlation(call).args(&args));
            if is_failure(result) {
                let text = format!("{name} failed: {result}");
                let event = format::Event::new(category::DIAGNOSTIC, &text);
                here.track.instant(begin, &event);
            }
        });
    }

    fn annotate(&self, annotation: &Annotation<'_>) {
        let number = category_number(annotation);
        let category = match annotation.domain {
            "" => category::NVTX,
            domain => domain,
        };
        let mut args: SmallVec<[Arg<'_>; 3]> = SmallVec::new();
        if let Some(value) = number {
            args.push(Arg::new("category", value));
        }
        if let Some(payload) = annotation.payload {
            let value = match payload {
                AnnotationPayload::Unsigned(value) => Value::Uint(value),
                AnnotationPayload::Signed(value) => Value::Int(value),
                AnnotationPayload::Float(value) => Value::Float(value),
            };
            args.push(Arg::new("payload", value));
        }
        if let Some(colour) = annotation.colour {
            args.push(Arg::new("colour", Value::Address(colour.into())));
        }
        let event = format::Event::new(category, annotation.text).args(&args);
        let (range, at) = (annotation.range, now());
        self.here(|here| match annotation.kind {
            AnnotationKind::Mark => here.track.instant(at, &event),
            AnnotationKind::Push => drop(here.track.begin(at, &event)),
            AnnotationKind::Pop => drop(here.track.end(at)),
            AnnotationKind::Start => here.track.begin_range(at, range, &event),
            AnnotationKind::End => here.track.end_range(at, range, category, annotation.text),
        });
    }

    fn name_object(&self, object: Named, name: &str) {
        match object {
            Named::Thread(thread) => self.timeline.host_thread(thread, name).rename(name),
            Named::Stream(stream) => {
                let track = self.stream(&mut self.state.lock(), Some(stream));
                track.rename(name);
            }
        }
    }

    fn describe(&self, number: u64, what: What, stream: Option<u64>) {
        let submitted = self.here(|here| {
            let call = here.calls.last().map_or(0, |&(call, _)| call);
            (here.track.point(now()), call)
        });
        let Some(submitted) = submitted else {
            return;
        };
        let launch = what.launch();
        let work = Work {
            what,
            stream,
            submitted,
            begin: None,
            after: SmallVec::new(),
        };
        let mut state = self.state.lock();
        state.works.insert(number, work);
        if let Some(launch) = launch {
            state.launches.insert(launch, number);
        }
    }

    fn begin(&self, work: u64) {
        let now = now();
        if let Some(work) = self.state.lock().works.get_mut(&work) {
            work.begin = Some(now);
        }
    }

    fn begin_launch(&self, launch: u64) {
        let now = now();
        let mut state = self.state.lock();
        if let Some(work) = state.launches.remove(&launch)
            && let Some(work) = state.works.get_mut(&work)
        {
            work.begin = Some(now);
        }
    }

    fn end(&self, number: u64) {
        let end = now();
        let mut state = self.state.lock();
        let Some(work) = state.works.remove(&number) else {
            return;
        };
        // Cancelled work has no begin.
        let Some(begin) = work.begin else {
            return;
        };
        let track = self.stream(&mut state, work.stream);
        let (from, call) = work.submitted;
        let span = work
            .what
            .event(|event| track.slice(begin, end, &event.correlation(call)));
        if call != 0 {
            track.flow(FlowKind::Launch, number, from, span);
        }
        for dependence in &work.after {
            if let Some(before) = state.ended.get(dependence.work) {
                state.arrows += 1;
                track.flow(flow_kind(dependence.kind), state.arrows, before, span);
            }
        }
        state.ended.insert(number, span);
    }

    /// Returns the track of a stream; work of graphs has a track of its own.
    fn stream(&self, state: &mut State, stream: Option<u64>) -> Track {
        if let Some(track) = state.streams.get(&stream.unwrap_or(0)) {
            return track.clone();
        }
        let track = match stream {
            None => {
                let track = self.timeline.stream(0, GRAPHS, StreamKind::Default);
                track.rename("Graphs");
                track
            }
            // The first stream that the program has not created is usually the legacy default stream.
            Some(_) if !std::mem::replace(&mut state.has_default, true) => {
                self.timeline.stream(0, DEFAULT_STREAM, StreamKind::Default)
            }
            Some(_) => {
                let number = FIRST_STREAM + state.created;
                state.created += 1;
                self.timeline.stream(0, number, StreamKind::PerThread)
            }
        };
        state.streams.insert(stream.unwrap_or(0), track.clone());
        track
    }

    fn create_stream(&self, stream: u64) {
        let mut state = self.state.lock();
        let number = FIRST_STREAM + state.created;
        state.created += 1;
        let track = self.timeline.stream(0, number, StreamKind::Created);
        state.streams.insert(stream, track);
    }

    fn allocated(&self, address: u64, bytes: u64, kind: AllocationKind) {
        let mut state = self.state.lock();
        state.live.insert(address, (bytes, kind));
        self.count(&mut state, kind, bytes as i64);
    }

    fn freed(&self, address: u64) {
        let mut state = self.state.lock();
        if let Some((bytes, kind)) = state.live.remove(&address) {
            self.count(&mut state, kind, -(bytes as i64));
        }
    }

    fn count(&self, state: &mut State, kind: AllocationKind, change: i64) {
        let (counter, live) = state.counters.entry(kind).or_insert_with(|| {
            let quantity = match kind {
                AllocationKind::Device => Quantity::DeviceBytes(0),
                AllocationKind::Managed => Quantity::ManagedBytes,
                AllocationKind::Pinned => Quantity::PinnedBytes,
            };
            (self.timeline.counter(quantity), 0)
        });
        *live = live.saturating_add_signed(change);
        counter.set(now(), *live as i64);
    }
}

/// Returns the category of an annotation: its name or its number.
fn category_number<'a>(annotation: &Annotation<'a>) -> Option<Value<'a>> {
    match (annotation.category_name, annotation.category) {
        (Some(name), _) => Some(Value::Text(name)),
        (None, 0) => None,
        (None, number) => Some(Value::Uint(number.into())),
    }
}

fn flow_kind(kind: DependenceKind) -> FlowKind {
    match kind {
        DependenceKind::NullStream => FlowKind::NullStream,
        DependenceKind::Event => FlowKind::Event,
        DependenceKind::Graph => FlowKind::Graph,
        _ => FlowKind::StreamOrder,
    }
}

impl Tool for Recorder {
    fn name(&self) -> &str {
        "timeline"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        Request::none().launches()
    }

    fn events(&self, launch: &Launch, events: Events<'_>) {
        for event in events {
            match event {
                Event::KernelBegin => {
                    self.begin_launch(launch.id());
                }
                Event::KernelEnd { .. } => self.workers.end(launch.id()),
                _ => {}
            }
        }
    }

    fn worker(&self, launch: &Launch) -> Option<Box<dyn Worker>> {
        Some(Box::new(LaunchWorker {
            workers: Arc::clone(&self.workers),
            launch: launch.id(),
            kernel: self.names.of(&launch.kernel().name).readable,
        }))
    }

    fn observes_host(&self) -> bool {
        true
    }

    fn observes_calls(&self) -> bool {
        true
    }

    fn host(&self, event: &HostEvent<'_>) {
        match *event {
            HostEvent::BeginCall { call, .. } => self.begin_call(call),
            HostEvent::EndCall { name, result, .. } => self.end_call(name, result),
            HostEvent::Launch {
                launch,
                work,
                kernel,
                grid,
                block,
                dynamic_shared,
                stream,
                ..
            } => {
                let what = What::Kernel {
                    launch,
                    name: self.names.of(kernel),
                    grid: [grid.x, grid.y, grid.z],
                    block: [block.x, block.y, block.z],
                    dynamic_shared,
                };
                self.describe(work, what, stream);
            }
            HostEvent::Copy {
                work,
                direction,
                bytes,
                to,
                from,
                stream,
                ..
            } => {
                let what = What::Copy {
                    direction,
                    bytes,
                    to,
                    from,
                };
                self.describe(work, what, stream);
            }
            HostEvent::Fill {
                work,
                bytes,
                value,
                to,
                stream,
                ..
            } => self.describe(work, What::Fill { bytes, to, value }, stream),
            HostEvent::HostFunction { work, stream, .. } => {
                self.describe(work, What::HostFunction, stream);
            }
            HostEvent::Submit { work, after } => {
                if let Some(work) = self.state.lock().works.get_mut(&work) {
                    work.after = SmallVec::from_slice(after);
                }
            }
            HostEvent::BeginWork { work } => self.begin(work),
            HostEvent::EndWork { work } => self.end(work),
            HostEvent::CreateStream { stream, .. } => self.create_stream(stream),
            HostEvent::RecordEvent { event, stream, .. } => {
                let track = self.stream(&mut self.state.lock(), Some(stream));
                let args = [Arg::new("event", event)];
                let recorded = format::Event::new(category::EVENT_RECORD, "Event record");
                track.instant(now(), &recorded.args(&args));
            }
            HostEvent::Annotate(annotation) => self.annotate(&annotation),
            HostEvent::Name { object, name } => self.name_object(object, name),
            HostEvent::Allocate {
                address,
                bytes,
                kind,
                ..
            } => self.allocated(address, bytes, kind),
            HostEvent::Free { address, .. } => self.freed(address),
            _ => {}
        }
    }
}
