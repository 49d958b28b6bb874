//! A timing simulator for the traces of Accel-Sim.
//!
//! [`simulate`] reads a list of kernels, and estimates how many cycles a GPU needs for them. The model has cores with
//! schedulers, execution units, shared memory and data caches, slices of a second cache, and channels of device memory. Its
//! parameters come from [`Config`]: built in for three GPUs, or read from the files of the original simulator.
//!
//! An instruction reserves everything that it needs when it is issued. The simulation therefore only visits cycles in which a
//! scheduler issues, and it is deterministic: equal traces, configurations and options give equal reports.

mod cache;
mod coalesce;
mod config;
mod core;
mod counters;
mod cycle;
mod dram;
mod encode;
mod engine;
mod error;
mod feed;
mod kernel;
mod load_store;
mod local;
mod memory;
mod occupancy;
mod options;
mod partition;
mod print;
mod program;
mod report;
mod streams;
mod units;
mod warp;

use std::path::Path;

pub use config::{
    CacheShape, Clocks, Config, CoreShape, DramShape, IgnoredOption, L1Shape, L2Shape, LaunchShape,
    Policy, SharedShape, Unit, Units,
};
pub use counters::{CacheCounters, Counters};
pub use error::{ConfigError, Deadlock, Error};
pub use occupancy::Occupancy;
pub use options::{Options, Progress, ProgressFunction};
pub use print::{write_kernel, write_totals};
pub use report::{KernelReport, NOTE, Report, Totals};

/// The units of [`Counters::unit_instructions`], in order.
pub const UNIT_NAMES: [&str; 9] = program::UnitKind::NAMES;

/// Simulates the kernels of a list (`kernelslist.g`). Kernel files are grouped traces: `.traceg`, `.traceg.xz`, `.tracez`.
///
/// # Errors
///
/// [`Error::Read`] if a file is malformed, [`Error::NoRoom`] if a CTA does not fit in a core, [`Error::Deadlock`] if a
/// warp waits forever, [`Error::TooLarge`] if the resident CTAs need too much memory, [`Error::Stopped`] if
/// [`Options::progress`] fails.
pub fn simulate<'a>(
    list: &Path,
    config: &'a Config,
    options: Options<'a>,
) -> Result<Report, Error> {
    engine::Engine::new(list, config, options)?.run()
}
