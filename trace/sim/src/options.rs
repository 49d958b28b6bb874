//! Options of a simulation.

use std::io;

use margay_accelsim::ReadOptions;

use crate::report::KernelReport;

/// What happens during a simulation.
#[derive(Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A kernel ended.
    KernelEnded(&'a KernelReport),
}

/// A function that receives the progress. An error stops the simulation.
pub type ProgressFunction<'a> = Box<dyn FnMut(&Progress<'_>) -> io::Result<()> + 'a>;

/// Options of a simulation.
pub struct Options<'a> {
    /// What the reader of traces accepts.
    pub read: ReadOptions,
    /// Kernels of different streams run at the same time. Without this, each kernel waits for the one before it, as in the
    /// simulator if its configuration does not have `-gpgpu_concurrent_kernel_sm 1`.
    pub overlap_streams: bool,
    /// Warps that ended do not count as arrived at barriers. Without this, they do, as in the simulator.
    pub strict_barriers: bool,
    /// Copies to the device fill the second cache with the lines of their addresses. Without this, they fill those of the
    /// low 32 bits, as in the simulator.
    pub whole_copy_addresses: bool,
    /// The limit on the decoded instructions of all CTAs that are resident in cores, in bytes.
    pub max_resident_bytes: u64,
    /// Receives the progress.
    pub progress: ProgressFunction<'a>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            read: ReadOptions::default(),
            overlap_streams: true,
            strict_barriers: false,
            whole_copy_addresses: false,
            max_resident_bytes: 16 << 30,
            progress: Box::new(|_| Ok(())),
        }
    }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("read", &self.read)
            .field("overlap_streams", &self.overlap_streams)
            .field("strict_barriers", &self.strict_barriers)
            .field("whole_copy_addresses", &self.whole_copy_addresses)
            .field("max_resident_bytes", &self.max_resident_bytes)
            .finish_non_exhaustive()
    }
}
