//! The result of a simulation.

use serde::Serialize;

use crate::config::Config;
use crate::counters::Counters;
use crate::occupancy::Occupancy;

/// The result of a simulation. All times are estimates of a model.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// What the times are, for readers of the document.
    pub note: &'static str,
    /// The parameters of the GPU.
    pub config: Config,
    /// The sum over all kernels.
    pub totals: Totals,
    /// The kernels in the order of their ends.
    pub kernels: Vec<KernelReport>,
}

/// [`Report::note`].
pub const NOTE: &str = "estimates of a timing model, not measurements of hardware";

/// The sum over all kernels.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Totals {
    /// Cycles until the last kernel ended. Kernels of different streams overlap.
    pub cycles: u64,
    /// What the kernels did.
    pub counters: Counters,
    /// Copies to device memory in the list.
    pub copies: u64,
    /// Their bytes.
    pub copied_bytes: u64,
}

/// The result for a kernel.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct KernelReport {
    /// The number of the launch in the simulation, from 1.
    pub uid: u64,
    /// The mangled name.
    pub name: String,
    /// The number of the launch in the trace.
    pub id: u64,
    /// The file.
    pub file: String,
    /// The stream.
    pub stream: u64,
    /// The number of CTAs in each dimension.
    pub grid: [u32; 3],
    /// The number of threads in each dimension.
    pub block: [u32; 3],
    /// When it was launched, in cycles from the start.
    pub launched: u64,
    /// When it ended.
    pub ended: u64,
    /// How many CTAs a core holds.
    pub occupancy: Occupancy,
    /// What it did.
    pub counters: Counters,
    /// The totals when it ended.
    pub totals: Totals,
}

impl KernelReport {
    /// Returns the cycles from launch to end, with the latency of the launch.
    pub fn cycles(&self) -> u64 {
        self.ended - self.launched
    }

    /// Returns the instructions of threads in a cycle.
    pub fn ipc(&self) -> f64 {
        ratio(self.counters.instructions, self.cycles())
    }
}

impl Totals {
    /// Returns the instructions of threads in a cycle.
    pub fn ipc(&self) -> f64 {
        ratio(self.counters.instructions, self.cycles)
    }
}

/// Returns a quotient, or 0 for a divisor of 0.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        _ => part as f64 / whole as f64,
    }
}
