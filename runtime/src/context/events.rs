//! Events for all of a context's work at once.

use std::sync::Arc;

use super::Context;
use crate::error::Result;
use crate::event::Event;
use crate::stream::{Stream, StreamKind};
use crate::task::Task;

impl Context {
    /// Records the work submitted to all streams of the context so far.
    ///
    /// # Errors
    /// [`crate::Error::InvalidHandle`] when the event is of another context.
    pub fn record_event(&self, event: &Event) -> Result<()> {
        self.record_streams(event, &self.streams()?)
    }

    /// Records the work submitted to some streams of the context so far.
    ///
    /// # Errors
    /// As [`Context::record_event`].
    pub fn record_streams(&self, event: &Event, streams: &[Stream]) -> Result<()> {
        // A stream of its own waits for all the others, each at this moment.
        let gathering = self.create_stream(StreamKind::NonBlocking, 0)?;
        for stream in streams {
            let point = self.create_event(Default::default())?;
            point.record(stream)?;
            gathering.wait_event(&point)?;
        }
        let recorded = event.record(&gathering);
        gathering.destroy()?;
        recorded
    }

    /// Work that is submitted to any stream of the context from now on waits for the event's last record.
    ///
    /// # Errors
    /// [`crate::Error::InvalidHandle`] when the event is destroyed.
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        for stream in self.streams()? {
            stream.wait_event(event)?;
        }
        match event.snapshot()? {
            Some(task) => self.hold_new(&task),
            None => Ok(()),
        }
    }

    /// Work that is submitted to any stream from now on waits for a task; streams that capture keep out of it.
    pub(super) fn wait_task(&self, task: &Arc<Task>) -> Result<()> {
        for stream in self.streams()? {
            stream.wait_task(task);
        }
        self.hold_new(task)
    }

    /// Streams that are made from now on begin behind a task, and behind what held them before.
    fn hold_new(&self, task: &Arc<Task>) -> Result<()> {
        let gathering = self.create_stream(StreamKind::NonBlocking, 0)?;
        gathering.wait_task(task);
        let both = gathering.mark();
        gathering.destroy()?;
        self.inner().streams.hold_new(both?);
        Ok(())
    }

    fn streams(&self) -> Result<Vec<Stream>> {
        self.status()?;
        Ok(Stream::all_of(self))
    }
}
