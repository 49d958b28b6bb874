//! Launches of executable graphs.

use crate::capture;
use crate::error::Result;
use crate::graph::GraphExec;
use crate::stream::Stream;

impl GraphExec {
    /// Launches the graph into a stream; returns before the graph runs.
    ///
    /// # Errors
    /// The errors of launching its kernels; [`Error::InvalidValue`](crate::Error::InvalidValue) when an allocation of
    /// the last launch was not freed and the graph does not free it itself.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        stream.check()?;
        match stream.is_watched() {
            true => capture::graph(stream, self),
            false => {
                stream.context().make_room();
                self.submit(stream)
            }
        }
    }

    /// Prepares the graph for a launch into a stream. An executable graph is always prepared, so this only adds a
    /// marker to the stream. The memory of the graph's allocations is counted from now on.
    ///
    /// # Errors
    /// The errors of submitting work to the stream.
    pub fn upload(&self, stream: &Stream) -> Result<()> {
        stream.mark()?;
        self.back_allocations();
        Ok(())
    }
}
