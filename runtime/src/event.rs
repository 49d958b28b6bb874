//! Events: markers in streams.
//!
//! Invariant: to record an event means to take a snapshot of the work that was submitted to the
//! stream so far. Each wait for the event and each query uses the latest snapshot at the time of
//! the wait or query.

mod shared;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::memory::{SharedKind, SharedMemory};
use crate::process::next_id;
use crate::task::Task;

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
    /// Whether threads that wait for the event should sleep instead of spinning (a hint).
    pub blocking_sync: bool,
    /// Whether queries of the time between this event and another event return an error.
    pub disable_timing: bool,
    /// Whether the event can be shared with other processes.
    pub interprocess: bool,
}

/// A marker in a stream. Clones refer to the same event.
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
    /// The state that this process shares with other processes. `None` unless the event was created
    /// for sharing, or was created by another process.
    shared: Option<Arc<SharedEvent>>,
    destroyed: AtomicBool,
}

/// The position of an event's record in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Identifies the capture.
    pub(crate) sequence: u64,
    /// The index of the record in the capture.
    pub(crate) index: usize,
}

/// The last record of an event.
#[derive(Clone)]
pub(crate) enum Record {
    /// The program has not yet recorded the event.
    Never,
    /// The record is a task. This task completes when the earlier work of the stream is complete.
    Task(Arc<Task>),
    /// The event was recorded in a capturing stream.
    Captured(Recorded),
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({})", self.inner.id)
    }
}

impl Event {
    fn create(context: &Context, flags: EventFlags) -> Result<Event> {
        let shared = match flags.interprocess {
            true => Some(SharedEvent::create(context.ordinal())?),
            false => None,
        };
        Ok(Event::with(context, flags, shared))
    }

    /// Opens another process's event.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when the memory does not contain the state of an event.
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

    /// Returns the memory with which other processes can open the event; `None` unless the event was created for
    /// sharing or is another process's event.
    pub fn shared_memory(&self) -> Option<&SharedMemory> {
        self.inner.shared.as_ref().map(|shared| shared.memory())
    }

    /// Returns the context that owns the event.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Returns the properties of the event.
    pub fn flags(&self) -> EventFlags {
        self.inner.flags
    }

    /// Returns the event's ID, which is unique in the process and never reused.
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// Returns an error if the event was destroyed, or if its context was destroyed or reset or has a sticky fault.
    pub(crate) fn check(&self) -> Result<()> {
        self.inner.context.check(self.inner.life)?;
        if self.inner.destroyed.load(Ordering::Acquire) {
            return Err(Error::InvalidHandle("the event is destroyed".into()));
        }
        Ok(())
    }

    /// Returns an error if the event's context was destroyed or reset or has a sticky fault, or if the caller must not
    /// wait for work.
    pub(crate) fn check_wait(&self) -> Result<()> {
        self.inner.context.check_wait(self.inner.life)
    }

    /// Returns the state shared with other processes; `None` if the event is not shared.
    pub(crate) fn shared(&self) -> Option<&Arc<SharedEvent>> {
        self.inner.shared.as_ref()
    }

    /// Calls `submit`, and stores the marker that it returns as the last record of the event.
    /// `submit` runs while the event is locked. If two threads record the event concurrently, the
    /// record that is submitted last therefore becomes the last record.
    pub(crate) fn record_with(&self, submit: impl FnOnce() -> Result<Arc<Task>>) -> Result<()> {
        let mut record = self.inner.record.lock();
        *record = Record::Task(submit()?);
        Ok(())
    }

    /// Returns the last record of the event.
    pub(crate) fn record_of(&self) -> Result<Record> {
        self.check()?;
        Ok(self.inner.record.lock().clone())
    }

    /// Returns the task of the last record, for a graph node that waits for the event. Returns
    /// `None` if the event was never recorded, or if its last record was in a capture.
    pub(crate) fn last_task(&self) -> Option<Arc<Task>> {
        match &*self.inner.record.lock() {
            Record::Task(task) => Some(Arc::clone(task)),
            Record::Never | Record::Captured(_) => None,
        }
    }

    /// Stores `task`, a marker, as the last record of the event.
    pub(crate) fn recorded_by(&self, task: &Arc<Task>) {
        *self.inner.record.lock() = Record::Task(Arc::clone(task));
    }

    /// Stores `recorded`, a record in a capture, as the last record of the event.
    pub(crate) fn set_captured(&self, recorded: Recorded) {
        *self.inner.record.lock() = Record::Captured(recorded);
    }

    /// Returns the shared state of the event and the number of the last record, if a stream that
    /// waits for the event must wait for this record. Returns `None` if the last record is complete
    /// or the event is not shared.
    pub(crate) fn foreign(&self) -> Option<(Arc<SharedEvent>, u64)> {
        let shared = self.inner.shared.as_ref()?;
        let last = shared.last();
        (!shared.is_complete(last)).then(|| (Arc::clone(shared), last))
    }

    /// Destroys the event. Work that already waits for a record of the event continues to wait.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] when the event is already destroyed.
    pub fn destroy(&self) -> Result<()> {
        crate::process::check_fork()?;
        if self.inner.destroyed.swap(true, Ordering::AcqRel) {
            return Err(Error::InvalidHandle("the event is destroyed".into()));
        }
        Ok(())
    }
}

impl Context {
    /// Creates an event.
    pub fn create_event(&self, flags: EventFlags) -> Result<Event> {
        self.status()?;
        Event::create(self, flags)
    }
}
