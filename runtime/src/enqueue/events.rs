//! Records events, waits for them and queries them, also for all work of a context at once.

use std::sync::Arc;

use crate::capture;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::{Event, Record};
use crate::stream::{Stream, StreamKind};
use crate::task::{Task, Work};

impl Event {
    /// Returns the task of the last record; `None` if the event was never recorded.
    ///
    /// # Errors
    /// [`CaptureError::CapturedEvent`](crate::CaptureError) when the last record was in a capture, which becomes
    /// invalid.
    pub(crate) fn snapshot(&self) -> Result<Option<Arc<Task>>> {
        match self.record_of()? {
            Record::Never => Ok(None),
            Record::Task(task) => Ok(Some(task)),
            Record::Captured(recorded) => Err(capture::refuse_event(recorded)),
        }
    }

    /// Returns `Ok` unless the last record was in a capture, which becomes invalid in that case.
    ///
    /// # Errors
    /// [`CaptureError::CapturedEvent`](crate::CaptureError) when the last record was in a capture.
    pub fn check_not_captured(&self) -> Result<()> {
        self.snapshot().map(drop)
    }

    /// Records the work submitted to `stream` so far. In a capturing stream, it records the work captured so far.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] when the stream belongs to another context.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.check_stream(stream)?;
        if stream.is_watched() {
            return capture::record(stream, self);
        }
        self.record_with(|| stream.mark())?;
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

    /// Makes each launch of the captured graph record the event (`CU_EVENT_RECORD_EXTERNAL`).
    ///
    /// # Errors
    /// The errors of [`Event::record`]; [`Error::InvalidValue`] when the stream is not capturing.
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

    /// Returns whether the work of the last record is complete; true if the event was never recorded.
    pub fn query(&self) -> Result<bool> {
        let snapshot = self.snapshot()?;
        if let Some(shared) = self.shared() {
            return Ok(shared.query());
        }
        Ok(snapshot.is_none_or(|task| task.is_done()))
    }

    /// Waits for the work of the last record.
    pub fn synchronize(&self) -> Result<()> {
        self.check_wait()?;
        let snapshot = self.snapshot()?;
        match self.shared() {
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

    /// Returns the milliseconds from `start` to this event.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] when one of the events was never recorded or has no timing, [`Error::NotReady`] when
    /// the work of one of the events is not complete.
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
    /// Records the work submitted to all streams of the context so far.
    ///
    /// # Errors
    /// [`crate::Error::InvalidHandle`] when the event belongs to another context.
    pub fn record_event(&self, event: &Event) -> Result<()> {
        self.record_streams(event, &self.streams()?)
    }

    /// Records the work submitted to some streams of the context so far.
    ///
    /// # Errors
    /// The errors of [`Context::record_event`].
    pub fn record_streams(&self, event: &Event, streams: &[Stream]) -> Result<()> {
        // A separate stream waits for the present work of all the streams.
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

    /// Makes work that is submitted to any stream of the context from now on wait for the event's last record.
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

    /// Makes work that is submitted to any stream from now on wait for a task. Capturing streams are not affected.
    pub(super) fn wait_task(&self, task: &Arc<Task>) -> Result<()> {
        for stream in self.streams()? {
            stream.wait_task(task);
        }
        self.hold_new(task)
    }

    /// Makes streams that are created from now on wait for a task, and for what they already had to wait for.
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
