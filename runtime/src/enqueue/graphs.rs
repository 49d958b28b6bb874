//! Launches of executable graphs.

use crate::capture;
use crate::error::Result;
use crate::graph::GraphExec;
use crate::stream::Stream;

impl GraphExec {
    /// Launches the graph into a stream; returns before it runs.
    ///
    /// # Errors
    /// As launches of its kernels; [`Error::InvalidValue`](crate::Error::InvalidValue) when an allocation of the last launch
    /// was not freed and the graph does not free it itself.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        stream.check()?;
        match stream.is_watched() {
            true => capture::graph(stream, self),
            false => self.submit(stream),
        }
    }

    /// Makes the graph ready for a launch into a stream: it is ready already, so this is a point
    /// in the stream. What its allocations take is counted from now on.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn upload(&self, stream: &Stream) -> Result<()> {
        stream.mark()?;
        self.back_allocations();
        Ok(())
    }
}
