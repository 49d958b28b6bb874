//! Produces activity records (crate `margay_activity`) from the events of a runtime.
//!
//! [`Recorder`] is a tool with a gate: while no kind of record is wanted, it costs one load and one branch for each
//! event. Every call of the driver API gets a correlation number, and the records of the call and of its work have this
//! number. Work that is submitted outside of calls (by the Rust interface) gets a number of its own. [`thread`] holds
//! what a thread does, [`pending`] the work that has not ended.
//!
//! A record is passed to the sink when its activity is complete. No lock is held meanwhile.
//!
//! ```
//! use std::sync::Arc;
//!
//! use margay_activity::{Kind, Queue, Record};
//! use margay_trace::activity::Recorder;
//!
//! let queue = Arc::new(Queue::new(1000));
//! let recorder = Arc::new(Recorder::new({
//!     let queue = Arc::clone(&queue);
//!     move |record| queue.push(record)
//! }));
//! recorder.set_kind(Kind::Copy, true);
//! let runtime = margay::Runtime::builder().tool(recorder).build()?;
//! runtime.upload(&[1u32, 2, 3])?.to_vec()?;
//! let records = queue.take();
//! assert!(matches!(&records[..], [Record::Copy(there), Record::Copy(_)] if there.bytes == 12));
//! # Ok::<(), margay::Error>(())
//! ```

mod events;
mod pending;
mod thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use margay::observe::Gate;
use margay_activity::{self as activity, Kind, Kinds, Place, Record, callbacks};
use parking_lot::{Mutex, RwLock};
use rustix::time::ClockId;

use crate::host::{nanoseconds, thread_number};
use pending::{Pending, What, Work};
use thread::{Here, OpenCall};

/// Receives records.
type Sink = Box<dyn Fn(Record) + Send + Sync>;

/// Maximum number of calls that a thread executes at the same time, one in the callback of another one.
const MOST_CALLS: usize = 16;

/// Number of words of a set of function numbers.
const WORDS: usize = callbacks::END.div_ceil(64) as usize;

/// A tool that produces activity records.
pub struct Recorder {
    /// A number that is unique in the process.
    number: u64,
    gate: Arc<Gate>,
    kinds: Kinds,
    /// The functions whose calls are recorded, one bit for each number.
    calls: [AtomicU64; WORDS],
    /// Whether somebody wants the correlation numbers of calls, although no kind of record is wanted.
    follows_calls: AtomicBool,
    /// Whether `sources` contains a function.
    has_sources: AtomicBool,
    sources: RwLock<Sources>,
    correlation: AtomicU32,
    /// The number of the process. A forked process sets it when it enables a kind.
    process: AtomicU32,
    pending: Mutex<Pending>,
    sink: Sink,
}

/// A function that returns the time in nanoseconds.
pub type Clock = extern "C" fn() -> u64;

/// The functions that replace the system's clock and the system's numbers of threads.
#[derive(Clone, Copy, Default)]
struct Sources {
    clock: Option<Clock>,
    thread: Option<fn() -> u32>,
}

impl Recorder {
    /// Creates a recorder that passes its records to `sink`. No kind is recorded at first.
    pub fn new(sink: impl Fn(Record) + Send + Sync + 'static) -> Recorder {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Recorder {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            gate: Arc::default(),
            kinds: Kinds::default(),
            calls: [const { AtomicU64::new(0) }; WORDS],
            follows_calls: AtomicBool::new(false),
            has_sources: AtomicBool::new(false),
            sources: RwLock::default(),
            correlation: AtomicU32::new(1),
            process: AtomicU32::new(std::process::id()),
            pending: Mutex::default(),
            sink: Box::new(sink),
        }
    }

    /// Starts or stops the recording of a kind. Work that has been submitted before it is stopped is still recorded.
    /// [`Kind::Driver`] stands for all functions.
    pub fn set_kind(&self, kind: Kind, on: bool) {
        if kind == Kind::Driver {
            for word in &self.calls {
                word.store(if on { u64::MAX } else { 0 }, Ordering::Relaxed);
            }
        }
        self.kinds.set(kind, on);
        self.adjust_gate();
    }

    /// Returns whether a kind is recorded.
    pub fn has_kind(&self, kind: Kind) -> bool {
        self.kinds.has(kind)
    }

    /// Starts or stops the recording of calls of the function with a number ([`callbacks`]). Returns false if there is no
    /// such function.
    pub fn set_call(&self, function: u32, on: bool) -> bool {
        let Some(word) = self.calls.get(function as usize / 64) else {
            return false;
        };
        let bit = 1 << (function % 64);
        match on {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
        let some = self
            .calls
            .iter()
            .any(|word| word.load(Ordering::Relaxed) != 0);
        self.kinds.set(Kind::Driver, some);
        self.adjust_gate();
        true
    }

    fn has_call(&self, function: u32) -> bool {
        let word = self.calls.get(function as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (function % 64) & 1 != 0)
    }

    /// States whether somebody wants [`Recorder::correlation`], although perhaps no kind of record is wanted.
    pub fn follow_calls(&self, on: bool) {
        self.follows_calls.store(on, Ordering::Relaxed);
        self.adjust_gate();
    }

    /// Stops the recording of all kinds and forgets work that has not ended.
    pub fn stop(&self) {
        self.set_kind(Kind::Driver, false);
        self.kinds.clear();
        self.follows_calls.store(false, Ordering::Relaxed);
        *self.pending.lock() = Pending::default();
        self.adjust_gate();
    }

    /// Returns whether a kind of record is wanted, or [`Recorder::correlation`].
    pub fn wants_calls(&self) -> bool {
        !self.kinds.is_empty() || self.follows_calls.load(Ordering::Relaxed)
    }

    /// Returns whether the tool receives events.
    pub fn is_open(&self) -> bool {
        self.gate.is_open()
    }

    /// The gate stays open until the ends of all submitted work are known.
    fn adjust_gate(&self) {
        self.process.store(std::process::id(), Ordering::Relaxed);
        let pending = self.pending.lock();
        self.gate.set(self.wants_calls() || !pending.is_empty());
    }

    /// Replaces the function that returns the number of the calling thread in records. The default is the number that the
    /// operating system gives the thread.
    pub fn set_threads(&self, thread: Option<fn() -> u32>) {
        self.sources.write().thread = thread;
        self.has_sources.store(true, Ordering::Relaxed);
    }

    /// Replaces the clock. The default is the system's clock of the real time.
    pub fn set_clock(&self, clock: Option<Clock>) {
        self.sources.write().clock = clock;
        self.has_sources.store(true, Ordering::Relaxed);
    }

    fn sources(&self) -> Sources {
        match self.has_sources.load(Ordering::Relaxed) {
            true => *self.sources.read(),
            false => Sources::default(),
        }
    }

    /// Returns the time in nanoseconds.
    pub fn now(&self) -> u64 {
        match self.sources().clock {
            Some(clock) => clock(),
            None => nanoseconds(ClockId::Realtime),
        }
    }

    /// Returns the number of the calling thread in records.
    pub fn thread(&self) -> u32 {
        match self.sources().thread {
            Some(thread) => thread(),
            None => thread_number() as u32,
        }
    }

    /// Returns the number of the process. Asking the system each time would take longer than the rest of a record.
    fn process(&self) -> u32 {
        self.process.load(Ordering::Relaxed)
    }

    /// Returns the correlation number of the call that the thread executes; `None` if the call began before the tool
    /// received events.
    pub fn correlation(&self) -> Option<u32> {
        self.here(|here| here.calls.last().map(|call| call.correlation))?
    }

    /// Pushes an external number of the calling thread. Records of calls are preceded by a record with the newest number
    /// of each kind.
    pub fn push_external(&self, kind: u32, id: u64) {
        self.here(|here| here.external.push((kind, id)));
    }

    /// Removes the newest external number of a kind of the calling thread and returns it.
    pub fn pop_external(&self, kind: u32) -> Option<u64> {
        self.here(|here| {
            let at = here
                .external
                .iter()
                .rposition(|&(known, _)| known == kind)?;
            Some(here.external.remove(at).1)
        })?
    }

    /// Passes a record to the sink, if its kind is recorded.
    pub fn send(&self, record: Record) {
        if self.kinds.has(record.kind()) {
            (self.sink)(record);
        }
    }

    fn here<T>(&self, action: impl FnOnce(&mut Here) -> T) -> Option<T> {
        thread::with(self.number, action)
    }

    /// Returns a correlation number, which is never 0.
    fn next_correlation(&self) -> u32 {
        match self.correlation.fetch_add(1, Ordering::Relaxed) {
            0 => self.correlation.fetch_add(1, Ordering::Relaxed),
            number => number,
        }
    }

    fn begin_call(&self, call: u64, name: &'static str) {
        let correlation = self.next_correlation();
        let start = self.now();
        self.here(|here| {
            // A call of which the recorder has not seen the end, because the gate was closed, is the oldest one.
            if here.calls.len() == MOST_CALLS {
                here.calls.remove(0);
            }
            here.calls.push(OpenCall {
                call,
                name,
                correlation,
                start,
                has_work: false,
            });
        });
    }

    fn end_call(&self, call: u64, result: u32) {
        let open = self.here(|here| {
            here.graph = None;
            let known = here.calls.iter().rposition(|open| open.call == call)?;
            let open = here.calls.drain(known..).next()?;
            let external = match self.kinds.has(Kind::ExternalCorrelation) {
                true => here.newest_external(),
                false => Vec::new(),
            };
            Some((open, external))
        });
        let Some((open, external)) = open.flatten() else {
            return;
        };
        let function = callbacks::number(open.name);
        let function = function.filter(|&function| self.has_call(function));
        if function.is_some() || open.has_work {
            for (kind, id) in external {
                self.send(Record::ExternalCorrelation(activity::ExternalCorrelation {
                    kind,
                    id,
                    correlation: open.correlation,
                }));
            }
        }
        if let Some(function) = function {
            self.send(Record::Call(activity::Call {
                function,
                start: open.start,
                end: self.now(),
                process: self.process(),
                thread: self.thread(),
                correlation: open.correlation,
                result,
            }));
        }
    }

    /// Returns the correlation number for what the thread does now, and whether the program has called a function whose
    /// name contains `Async`.
    fn origin(&self) -> (u32, bool) {
        let known = self.here(|here| {
            let call = here.calls.last()?;
            Some((call.correlation, call.name.contains("Async")))
        });
        known
            .flatten()
            .unwrap_or_else(|| (self.next_correlation(), false))
    }

    /// Notes a piece of work that the thread submits.
    fn describe(&self, work: u64, at: At, what: impl FnOnce(bool) -> What) {
        let (correlation, is_asynchronous) = self.origin();
        let submitted = self.now();
        let known = self.here(|here| {
            let call = here.calls.last_mut();
            let queued = call.map_or(0, |call| {
                call.has_work = true;
                call.start
            });
            (queued, here.graph)
        });
        let (queued, graph) = known.unwrap_or((0, None));
        // Work of a graph has no stream.
        let graph = graph.filter(|_| at.stream.is_none());
        let place = Place {
            start: 0,
            end: 0,
            device: at.device as u32,
            context: at.context as u32,
            stream: at.stream.or(graph.map(|(_, stream)| stream)).unwrap_or(0) as u32,
            correlation,
            graph: graph.map_or(0, |(graph, _)| graph as u32),
        };
        let what = what(is_asynchronous);
        let work_of = Work {
            place,
            queued,
            submitted,
            what,
        };
        self.pending.lock().add(work, work_of);
    }

    fn begin(&self, work: u64) {
        let now = self.now();
        self.pending.lock().begin(work, now);
    }

    fn end(&self, work: u64) {
        let end = self.now();
        let (record, is_last) = {
            let mut pending = self.pending.lock();
            let record = pending.end(work, end);
            (record, pending.is_empty())
        };
        if let Some(record) = record {
            // The program can have stopped the recording since it has submitted the work.
            (self.sink)(record);
        }
        if is_last && !self.wants_calls() {
            self.adjust_gate();
        }
    }
}

/// Where work is submitted to.
struct At {
    context: u64,
    device: i32,
    stream: Option<u64>,
}
