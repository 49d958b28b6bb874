//! Events: markers in streams.
//!
//! Invariant: recording takes a snapshot; waits and queries look at the snapshot that was the
//! last one when they were called.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::machine::next_id;
use crate::stream::Stream;
use crate::task::Task;

/// Properties of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventFlags {
    /// Waiting threads sleep instead of spinning (a hint).
    pub blocking_sync: bool,
    /// No time is taken; elapsed times are refused.
    pub disable_timing: bool,
    /// Can be shared with other processes (refused for now).
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
    destroyed: AtomicBool,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({})", self.inner.id)
    }
}

impl Event {
    pub(crate) fn create(context: &Context, flags: EventFlags) -> Result<Event> {
        if flags.interprocess {
            return Err(Error::unsupported("events shared between processes"));
        }
        Ok(Event {
            inner: Arc::new(Inner {
                id: next_id(),
                context: context.clone(),
                life: context.life(),
                flags,
                snapshot: Mutex::new(None),
                destroyed: AtomicBool::new(false),
            }),
        })
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
        Ok(())
    }

    /// Whether the work of the last record is complete; true when never recorded.
    pub fn query(&self) -> Result<bool> {
        Ok(self.snapshot()?.is_none_or(|task| task.is_done()))
    }

    /// Waits for the work of the last record.
    pub fn synchronize(&self) -> Result<()> {
        self.context().check_wait(self.inner.life)?;
        if let Some(task) = self.snapshot()? {
            task.wait();
        }
        self.context().flush_output();
        self.context().fault_status()
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
