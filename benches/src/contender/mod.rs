//! The contenders, which are the implementations that are measured: Margay, another driver, PoCL, and C code.
//!
//! Invariant: only [`checked`] returns kernels that can be measured. Before it returns a kernel, it compares the
//! kernel's results with the expected results.

pub(crate) mod c;
pub(crate) mod driver;
pub(crate) mod margay;
pub(crate) mod opencl;

use crate::case::Case;
use crate::work::Work;

/// A contender: an implementation that can run the work of a [`Case`].
pub(crate) trait Contender {
    /// Loads the kernel of `case`, and allocates the buffers of `work`.
    fn load(&self, case: &Case, work: &Work) -> Result<Box<dyn Loaded>, String>;
}

/// Work that a contender has loaded and can run repeatedly.
pub(crate) trait Loaded {
    /// Runs all steps of the work and waits for the end of the last step.
    fn run(&mut self) -> Result<(), String>;
    /// Returns the first `len` bytes of the buffer with the index `buffer`.
    fn read(&mut self, buffer: usize, len: usize) -> Result<Vec<u8>, String>;
}

/// Loads `work`, runs it once on `contender`, and compares the results with the expected results.
///
/// # Errors
/// Returns the error of the contender, or an error that describes the first wrong value.
pub(crate) fn checked(
    contender: &dyn Contender,
    case: &Case,
    work: &Work,
) -> Result<Box<dyn Loaded>, String> {
    let mut loaded = contender.load(case, work)?;
    loaded.run()?;
    for (buffer, want) in &work.expected {
        let len = work.buffers[buffer.0].len();
        let got = loaded.read(buffer.0, len)?;
        want.compare(&got)
            .map_err(|wrong| format!("buffer {}: {wrong}", buffer.0))?;
    }
    Ok(loaded)
}
