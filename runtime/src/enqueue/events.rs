//! Records events, waits for events and queries events. Some functions record an event in all
//! streams of a context, or make all streams of a context wait for an event.

use std::sync::Arc;

use crate::capture;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::{Event, Record};
use crate::observe::{HostEvent, WaitKind};
use crate::stream::{Stream, StreamKind};
use crate::task::{Task, Work};

impl Event {
    /// Returns the task of the last record; `None` if the event was never recorded.
    ///
    /// # Errors
    /// [`CaptureError::CapturedEvent`](crate::CaptureError) if the last record was in a capture; that capture becomes
    /// invalid.
    pub(crate) fn snapshot(&self) -> Result<Option<Arc<Task>>> {
        match self.record_of()? {
            Record::Never => Ok(None),
            Record::Task(task) => Ok(Some(task)),
            Record::Captured(recorded) => Err(capture::refuse_event(recorded)),
        }
    }

    /// Returns an error if the event's last record was in a capture, and invalidates that capture.
    ///
    /// # Errors
    /// [`CaptureError::CapturedEvent`](crate::CaptureError) if the last record was in a capture.
    pub fn check_not_captured(&self) -> Result<()> {
        self.snapshot().map(drop)
    }

    /// Records the event after the work that was submitted to `stream` so far. In a capturing stream, records the event
    /// after the work that was captured so far.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] if the stream belongs to another context.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.check_stream(stream)?;
        if stream.is_watched() {
            return capture::record(stream, self);
        }
        let mut after = None;
        self.record_with(|| {
            let marker = stream.mark()?;
            after = marker
                .known_dependences()
                .iter()
                .map(|known| known.work)
                .max();
            Ok(marker)
        })?;
        stream
            .context()
            .machine()
            .tools
            .tell(|| HostEvent::RecordEvent {
                event: self.id(),
                stream: stream.id(),
                context: self.context().id(),
                device: self.context().ordinal(),
                after,
            });
        if let Some(shared) = self.shared() {
            let completion = shared.record();
            let job = Box::new(move || {
                drop(completion);
                Ok(())
            });
            stream.submit(Work::Device { job, short: true });
        }
        Ok(())
    }

    /// Adds a node to the graph that the stream captures. The node records the event at each launch of the graph
    /// (`CU_EVENT_RECORD_EXTERNAL`).
    ///
    /// # Errors
    /// Returns the same errors as [`Event::record`], and [`Error::InvalidValue`] if the stream is not capturing.
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

    /// Returns whether the work before the last record is complete; returns true if the event was never recorded.
    pub fn query(&self) -> Result<bool> {
        let snapshot = self.snapshot()?;
        if let Some(shared) = self.shared() {
            return Ok(shared.query());
        }
        let Some(task) = snapshot else {
            return Ok(true);
        };
        let is_done = task.is_done();
        if is_done {
            self.context().inner().queues.host_waited_for(&task);
            // A reset can have dropped the work since the first check.
            self.check()?;
        }
        Ok(is_done)
    }

    /// Waits for the work before the last record.
    pub fn synchronize(&self) -> Result<()> {
        let life = self.context().life();
        self.check_wait()?;
        let snapshot = self.snapshot()?;
        let _told = self
            .context()
            .told_wait(WaitKind::Event, None, Some(self.id()));
        match self.shared() {
            Some(shared) => shared.wait(shared.last()),
            None => {
                if let Some(task) = snapshot {
                    task.wait();
                    self.context().inner().queues.host_waited_for(&task);
                }
            }
        }
        self.context().flush_output();
        self.context().waited(life)
    }

    /// Returns the number of milliseconds from the last record of `start` to the last record of
    /// this event.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] if one of the events was never recorded or has no timing; [`Error::NotReady`] if the
    /// work before one of the records is not complete.
    pub fn elapsed_ms_since(&self, start: &Event) -> Result<f32> {
        let nanos = self.time()? as f64 - start.time()? as f64;
        Ok((nanos * 1e-6) as f32)
    }

    fn time(&self) -> Result<u64> {
        let snapshot = self.snapshot()?;
        if self.flags().disable_timing {
            return Err(Error::InvalidHandle("the event has no timing".into()));
        }
        let task =
            snapshot.ok_or_else(|| Error::InvalidHandle("the event was never recorded".into()))?;
        task.completed_at().ok_or(Error::NotReady)
    }
}

impl Context {
    /// Records the event after the work that was submitted to all streams of the context so far.
    ///
    /// # Errors
    /// [`crate::Error::InvalidHandle`] if the event belongs to another context.
    pub fn record_event(&self, event: &Event) -> Result<()> {
        self.record_streams(event, &self.streams()?)
    }

    /// Records the event after the work that was submitted to `streams` so far. The streams must belong to the context.
    ///
    /// # Errors
    /// Returns the same errors as [`Context::record_event`].
    pub fn record_streams(&self, event: &Event, streams: &[Stream]) -> Result<()> {
        // A separate stream waits for the work that was submitted to all these streams so far.
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

    /// Makes all work that is submitted to any stream of the context after this call wait for the event's last record.
    ///
    /// # Errors
    /// [`crate::Error::InvalidHandle`] if the event is destroyed.
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        for stream in self.streams()? {
            stream.wait_event(event)?;
        }
        match event.snapshot()? {
            Some(task) => self.hold_new(&task),
            None => Ok(()),
        }
    }

    /// Makes all work that is submitted to any stream of the context after this call wait for a task. Work of capturing
    /// streams does not wait.
    pub(super) fn wait_task(&self, task: &Arc<Task>) -> Result<()> {
        for stream in self.streams()? {
            stream.wait_task(task);
        }
        self.hold_new(task)
    }

    /// Makes all streams that are created after this call wait for `task`. Earlier calls of this
    /// function stay in effect: new streams wait for the tasks of all calls.
    fn hold_new(&self, task: &Arc<Task>) -> Result<()> {
        let gathering = self.create_stream(StreamKind::NonBlocking, 0)?;
        gathering.wait_task(task);
        let both = gathering.mark();
        gathering.destroy()?;
        self.inner().queues.hold_new(both?);
        Ok(())
    }

    fn streams(&self) -> Result<Vec<Stream>> {
        self.status()?;
        Ok(Stream::all_of(self))
    }
}
