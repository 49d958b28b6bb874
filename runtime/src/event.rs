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
use crate::machine::next_id;
use crate::memory::{SharedKind, SharedMemory};
use crate::stream::Stream;
use crate::task::{Task, Work};

pub(crate) use shared::SharedEvent;

/// Properties of an event.
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
    snapshot: Mutex<Option<Arc<Task>>>,
    /// What other processes see of it.
    shared: Option<Arc<SharedEvent>>,
    destroyed: AtomicBool,
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
                snapshot: Mutex::new(None),
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

    /// The task of the last record.
    pub(crate) fn snapshot(&self) -> Result<Option<Arc<Task>>> {
        self.inner.context.check(self.inner.life)?;
        if self.inner.destroyed.load(Ordering::Acquire) {
            return Err(Error::InvalidHandle("the event is destroyed".into()));
        }
        Ok(self.inner.snapshot.lock().clone())
    }

    /// Records the work submitted to `stream` so far.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] when the stream belongs to another context.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.snapshot()?;
        if stream.context() != self.context() {
            return Err(Error::InvalidHandle(
                "event and stream are of different contexts".into(),
            ));
        }
        // Under the lock, so that of two records the one submitted last is the one kept.
        let mut snapshot = self.inner.snapshot.lock();
        *snapshot = Some(stream.mark()?);
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
        crate::machine::check_fork()?;
        if self.inner.destroyed.swap(true, Ordering::AcqRel) {
            return Err(Error::InvalidHandle("the event is destroyed".into()));
        }
        Ok(())
    }
}
