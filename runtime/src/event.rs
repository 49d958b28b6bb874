//! Events: markers in streams.
//!
//! Invariant: recording takes a snapshot; waits and queries look at the snapshot that was the
//! last one when they were called.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::stream::Stream;

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
#[derive(Debug, Clone)]
pub struct Event {
    context: Context,
}

impl Event {
    /// The context that owns the event.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Unique in the process, never reused.
    pub fn id(&self) -> u64 {
        0
    }

    /// Records the work submitted to `stream` so far.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] when the stream belongs to another context.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        let _ = stream;
        Err(Error::unsupported("events"))
    }

    /// Whether the work of the last record is complete; true when never recorded.
    pub fn query(&self) -> Result<bool> {
        Err(Error::unsupported("events"))
    }

    /// Waits for the work of the last record.
    pub fn synchronize(&self) -> Result<()> {
        Err(Error::unsupported("events"))
    }

    /// Milliseconds from `start` to this event.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] when either was never recorded or has no timing,
    /// [`Error::NotReady`] when either is not complete.
    pub fn elapsed_ms_since(&self, start: &Event) -> Result<f32> {
        let _ = start;
        Err(Error::unsupported("events"))
    }

    /// Ends the event; work that waits for it goes on waiting for the snapshot it took.
    pub fn destroy(&self) -> Result<()> {
        Ok(())
    }
}
