//! Who runs the kernels: Margay, another driver, PoCL, and the same calculation in C.
//!
//! Invariant: [`checked`] is the only way to something that can be timed, and it compares the results first.

pub(crate) mod c;
pub(crate) mod driver;
pub(crate) mod margay;
pub(crate) mod opencl;

use crate::case::Case;
use crate::work::Work;

/// Something that can run work.
pub(crate) trait Contender {
    /// Loads what the work needs, with buffers of its own.
    fn load(&self, case: &Case, work: &Work) -> Result<Box<dyn Loaded>, String>;
}

/// Work that is ready to run, and to run again.
pub(crate) trait Loaded {
    /// All steps, to the end of the last one.
    fn run(&mut self) -> Result<(), String>;
    /// The first bytes of a buffer.
    fn read(&mut self, buffer: usize, len: usize) -> Result<Vec<u8>, String>;
}

/// Loads work, runs it once, and compares.
///
/// # Errors
/// What the contender reports, and the first value that is wrong.
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
