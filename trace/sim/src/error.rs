//! Why a simulation or the reading of a configuration fails.

use std::path::PathBuf;

use margay_accelsim::{Dim3, ReadError};

/// The fault of a simulation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The list or a kernel file is malformed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A configuration is malformed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A CTA of the kernel needs more than a core has.
    #[error("kernel {kernel} ({name}): a CTA needs {needed} {resource}, a core has {available}")]
    NoRoom {
        /// The number of the launch.
        kernel: u64,
        /// The name of the kernel.
        name: String,
        /// What is insufficient, for example `registers`.
        resource: &'static str,
        /// The demand of a CTA.
        needed: u64,
        /// What a core has.
        available: u64,
    },
    /// A warp waits forever.
    #[error(transparent)]
    Deadlock(Box<Deadlock>),
    /// No kernel can go on, although no warp waits.
    #[error("kernel {kernel} ({name}) cannot go on: its start is out of range")]
    Stalled {
        /// The number of the launch.
        kernel: u64,
        /// The name of the kernel.
        name: String,
    },
    /// The instructions of the resident CTAs exceed [`Options::max_resident_bytes`](crate::Options::max_resident_bytes).
    #[error("kernel {kernel} ({name}): the resident CTAs need more than {limit} bytes")]
    TooLarge {
        /// The number of the launch.
        kernel: u64,
        /// The name of the kernel.
        name: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// A thread that reads a kernel file cannot be started, or it ended early.
    #[error("cannot read ahead in a thread: {0}")]
    Thread(String),
    /// The progress cannot be written, or the callback stopped the simulation.
    #[error("the simulation was stopped: {0}")]
    Stopped(#[from] std::io::Error),
}

/// A warp that waits at a barrier that never completes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "deadlock in kernel {kernel} ({name}): CTA {cta} warp {warp} waits at instruction {index} ({opcode} at pc {pc:#06x}) \
     for {missing} warps that never arrive"
)]
pub struct Deadlock {
    /// The number of the launch.
    pub kernel: u64,
    /// The name of the kernel.
    pub name: String,
    /// The CTA.
    pub cta: Dim3,
    /// The warp in its CTA.
    pub warp: u32,
    /// The number of the instruction in the warp, from 0.
    pub index: u64,
    /// The opcode of the instruction.
    pub opcode: String,
    /// The offset of the instruction in its function.
    pub pc: u64,
    /// The number of warps that the barrier waits for.
    pub missing: u32,
}

/// The fault of a configuration.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{}: {message}", path.display(), Line(*line))]
pub struct ConfigError {
    /// The file, or the name of a built-in configuration.
    pub path: PathBuf,
    /// The line, from 1. 0 if the fault belongs to no line.
    pub line: u64,
    /// What is wrong.
    pub message: String,
}

/// `:line`, or nothing for line 0.
struct Line(u64);

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => Ok(()),
            line => write!(f, ":{line}"),
        }
    }
}
