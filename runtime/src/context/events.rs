//! Events for all of a context's work at once.

use super::Context;
use crate::error::Result;
use crate::event::Event;
use crate::stream::{Stream, StreamKind};

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
        if let Some(task) = event.snapshot()? {
            self.inner().streams.hold_new(task);
        }
        Ok(())
    }

    fn streams(&self) -> Result<Vec<Stream>> {
        self.status()?;
        Ok(Stream::all_of(self))
    }
}
