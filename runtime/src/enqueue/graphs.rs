//! Launches executable graphs.

use crate::capture;
use crate::error::Result;
use crate::graph::GraphExec;
use crate::stream::Stream;

impl GraphExec {
    /// Launches the graph into a stream, and does not wait for the graph. In a capturing stream, adds a node that runs
    /// a copy of the graph.
    ///
    /// # Errors
    /// Returns the errors of the launches of the graph's kernels. Returns
    /// [`Error::InvalidValue`](crate::Error::InvalidValue) if an allocation of the last launch was not freed, the graph
    /// has no node that frees it, and `InstantiateFlags::auto_free` is not set.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        stream.check_launch()?;
        match stream.is_watched() {
            true => capture::graph(stream, self),
            false => {
                stream.context().make_room();
                self.submit(stream)
            }
        }
    }

    /// Prepares the graph for a launch into a stream. An executable graph is always prepared, so this function only
    /// submits a marker to the stream. After this call, the amounts in [`GraphMemory`](crate::graph::GraphMemory)
    /// include the memory of the graph's allocations.
    ///
    /// # Errors
    /// Returns an error if work cannot be submitted to the stream.
    pub fn upload(&self, stream: &Stream) -> Result<()> {
        stream.mark()?;
        self.back_allocations();
        Ok(())
    }
}
