//! Events: markers in streams.
//!
//! Invariant: recording takes a snapshot; waits and queries look at the snapshot that was the
//! last one when they were called.

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

/// Where in a capture an event was last recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Identifies the capture.
    pub(crate) sequence: u64,
    /// The number of the record in the capture.
    pub(crate) index: usize,
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
    fn create(context: &Context, flags: EventFlags) -> Result<Event> {
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

    /// As [`Event::check`], for calls that wait for work.
    pub(crate) fn check_wait(&self) -> Result<()> {
        self.inner.context.check_wait(self.inner.life)
    }

    /// What other processes see of the event, if it was created for them.
    pub(crate) fn shared(&self) -> Option<&Arc<SharedEvent>> {
        self.inner.shared.as_ref()
    }

    /// The marker that `submit` returns is the last record from now on. `submit` runs under the event's lock: of two
    /// records the one submitted last is the one kept.
    pub(crate) fn record_with(&self, submit: impl FnOnce() -> Result<Arc<Task>>) -> Result<()> {
        let mut record = self.inner.record.lock();
        *record = Record::Task(submit()?);
        Ok(())
    }

    /// The last record.
    pub(crate) fn record_of(&self) -> Result<Record> {
        self.check()?;
        Ok(self.inner.record.lock().clone())
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

    /// The record of several processes that a stream would wait for now; `None` when it is complete, or when the event
    /// is this process's alone.
    pub(crate) fn foreign(&self) -> Option<(Arc<SharedEvent>, u64)> {
        let shared = self.inner.shared.as_ref()?;
        let last = shared.last();
        (!shared.is_complete(last)).then(|| (Arc::clone(shared), last))
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

impl Context {
    /// A new event.
    pub fn create_event(&self, flags: EventFlags) -> Result<Event> {
        self.status()?;
        Event::create(self, flags)
    }
}
