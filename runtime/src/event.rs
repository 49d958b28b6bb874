//! Events: markers in streams.
//!
//! Invariant: recording takes a snapshot; waits and queries look at the snapshot that was the
//! last one when they were called.

mod shared;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::capture::{self, Recorded};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::memory::{SharedKind, SharedMemory};
use crate::process::next_id;
use crate::stream::Stream;
use crate::task::{Task, Work};

pub(crate) use shared::SharedEvent;

/// Properties of an event.
///
/// ```
/// use margay::EventFlags;
///
/// let context = margay::Runtime::new()?.context()?;
/// let flags = EventFlags { disable_timing: true, ..EventFlags::default() };
/// assert!(context.create_event(flags)?.flags().disable_timing);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventFlags {
    /// Waiting threads sleep instead of spinning (a hint).
    pub blocking_sync: bool,
    /// No time is taken; elapsed times are refused.
    pub disable_timing: bool,
    /// Can be shared with other processes.
    pub interprocess: bool,
}

/// A marker in a stream. Clones are the same event.
///
/// ```
/// let context = margay::Runtime::new()?.context()?;
/// let stream = context.legacy_stream();
/// let [start, end] = [context.create_event(Default::default())?, context.create_event(Default::default())?];
/// start.record(&stream)?;
/// end.record(&stream)?;
/// end.synchronize()?;
/// assert!(end.elapsed_ms_since(&start)? >= 0.0);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone)]
pub struct Event {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    context: Context,
    life: u64,
    flags: EventFlags,
    /// The last record.
    record: Mutex<Record>,
    /// What other processes see of it.
    shared: Option<Arc<SharedEvent>>,
    destroyed: AtomicBool,
}

/// What an event's last record was.
#[derive(Clone)]
pub(crate) enum Record {
    /// There was none.
    Never,
    /// Behind the work of a stream.
    Task(Arc<Task>),
    /// In a capture.
    Captured(Recorded),
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({})", self.inner.id)
    }
}

impl Event {
    pub(crate) fn create(context: &Context, flags: EventFlags) -> Result<Event> {
        let shared = match flags.interprocess {
            true => Some(SharedEvent::create(context.ordinal())?),
            false => None,
        };
        Ok(Event::with(context, flags, shared))
    }

    /// Another process's event.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when the file holds something else.
    pub fn open(context: &Context, memory: SharedMemory) -> Result<Event> {
        context.status()?;
        if memory.label().kind != SharedKind::Event {
            return Err(Error::invalid("not the state of an event"));
        }
        let flags = EventFlags {
            disable_timing: true,
            interprocess: true,
            ..EventFlags::default()
        };
        let shared = SharedEvent::open(memory)?;
        Ok(Event::with(context, flags, Some(shared)))
    }

    fn with(context: &Context, flags: EventFlags, shared: Option<SharedEvent>) -> Event {
        Event {
            inner: Arc::new(Inner {
                id: next_id(),
                context: context.clone(),
                life: context.life(),
                flags,
                record: Mutex::new(Record::Never),
                shared: shared.map(Arc::new),
                destroyed: AtomicBool::new(false),
            }),
        }
    }

    /// The file by which other processes can open the event; `None` unless it was created for them.
    pub fn shared_memory(&self) -> Option<&SharedMemory> {
        self.inner.shared.as_ref().map(|shared| shared.memory())
    }

    /// The context that owns the event.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Its properties.
    pub fn flags(&self) -> EventFlags {
        self.inner.flags
    }

    /// Unique in the process, never reused.
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// `Ok` while the event can be used.
    pub(crate) fn check(&self) -> Result<()> {
        self.inner.context.check(self.inner.life)?;
        if self.inner.destroyed.load(Ordering::Acquire) {
            return Err(Error::InvalidHandle("the event is destroyed".into()));
        }
        Ok(())
    }

    /// The last record.
    pub(crate) fn record_of(&self) -> Result<Record> {
        self.check()?;
        Ok(self.inner.record.lock().clone())
    }

    /// The task of the last record.
    ///
    /// # Errors
    /// [`CaptureError::CapturedEvent`](crate::CaptureError) when that was in a capture.
    pub(crate) fn snapshot(&self) -> Result<Option<Arc<Task>>> {
        match self.record_of()? {
            Record::Never => Ok(None),
            Record::Task(task) => Ok(Some(task)),
            Record::Captured(recorded) => Err(recorded.refuse()),
        }
    }

    /// `Ok` unless the last record was in a capture, which this invalidates.
    ///
    /// # Errors
    /// [`CaptureError::CapturedEvent`](crate::CaptureError).
    pub fn check_not_captured(&self) -> Result<()> {
        self.snapshot().map(drop)
    }

    /// The task of the last record, for the work of a graph.
    pub(crate) fn last_task(&self) -> Option<Arc<Task>> {
        match &*self.inner.record.lock() {
            Record::Task(task) => Some(Arc::clone(task)),
            Record::Never | Record::Captured(_) => None,
        }
    }

    /// `task`, a marker, is the last record from now on.
    pub(crate) fn recorded_by(&self, task: &Arc<Task>) {
        *self.inner.record.lock() = Record::Task(Arc::clone(task));
    }

    /// The last record was in a capture.
    pub(crate) fn set_captured(&self, recorded: Recorded) {
        *self.inner.record.lock() = Record::Captured(recorded);
    }

    /// Records the work submitted to `stream` so far. In a capturing stream it takes note of what
    /// was captured so far.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] when the stream belongs to another context.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.check_stream(stream)?;
        if stream.is_watched() {
            return capture::record(stream, self);
        }
        // Under the lock, so that of two records the one submitted last is the one kept.
        let mut record = self.inner.record.lock();
        *record = Record::Task(stream.mark()?);
        if let Some(shared) = &self.inner.shared {
            let completion = shared.record();
            let job = Box::new(move || {
                drop(completion);
                Ok(())
            });
            stream.submit(Work::Device { job, short: true });
        }
        Ok(())
    }

    /// Makes each launch of the captured graph record the event (`CU_EVENT_RECORD_EXTERNAL`).
    ///
    /// # Errors
    /// As [`Event::record`]; [`Error::InvalidValue`] when the stream is not capturing.
    pub fn record_external(&self, stream: &Stream) -> Result<()> {
        self.check_stream(stream)?;
        match stream.is_watched() {
            true => capture::record_external(stream, self),
            false => Err(Error::invalid("the stream is not capturing")),
        }
    }

    fn check_stream(&self, stream: &Stream) -> Result<()> {
        self.check()?;
        if stream.context() != self.context() {
            return Err(Error::InvalidHandle(
                "event and stream are of different contexts".into(),
            ));
        }
        stream.check()
    }

    /// Whether the work of the last record is complete; true when never recorded.
    pub fn query(&self) -> Result<bool> {
        let snapshot = self.snapshot()?;
        if let Some(shared) = &self.inner.shared {
            return Ok(shared.query());
        }
        Ok(snapshot.is_none_or(|task| task.is_done()))
    }

    /// Waits for the work of the last record.
    pub fn synchronize(&self) -> Result<()> {
        self.context().check_wait(self.inner.life)?;
        let snapshot = self.snapshot()?;
        match &self.inner.shared {
            Some(shared) => shared.wait(shared.last()),
            None => {
                if let Some(task) = snapshot {
                    task.wait();
                }
            }
        }
        self.context().flush_output();
        self.context().fault_status()
    }

    /// The record of several processes that a stream would wait for now; `None` when it is complete, or when the event
    /// is this process's alone.
    pub(crate) fn foreign(&self) -> Option<(Arc<SharedEvent>, u64)> {
        let shared = self.inner.shared.as_ref()?;
        let last = shared.last();
        (!shared.is_complete(last)).then(|| (Arc::clone(shared), last))
    }

    /// Milliseconds from `start` to this event.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] when either was never recorded or has no timing,
    /// [`Error::NotReady`] when either is not complete.
    pub fn elapsed_ms_since(&self, start: &Event) -> Result<f32> {
        let nanos = self.time()? as f64 - start.time()? as f64;
        Ok((nanos * 1e-6) as f32)
    }

    fn time(&self) -> Result<u64> {
        let snapshot = self.snapshot()?;
        if self.inner.flags.disable_timing {
            return Err(Error::InvalidHandle("the event has no timing".into()));
        }
        let task =
            snapshot.ok_or_else(|| Error::InvalidHandle("the event was never recorded".into()))?;
        task.completed_at().ok_or(Error::NotReady)
    }

    /// Ends the event; work that waits for it goes on waiting for the snapshot it took.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] when it is destroyed already.
    pub fn destroy(&self) -> Result<()> {
        crate::process::check_fork()?;
        if self.inner.destroyed.swap(true, Ordering::AcqRel) {
            return Err(Error::InvalidHandle("the event is destroyed".into()));
        }
        Ok(())
    }
}
