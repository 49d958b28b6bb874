//! What can be wrong with a trace.

use std::io;
use std::path::{Path, PathBuf};

use crate::dim::Dim3;

/// A fault of a file, with its place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{}: {fault}", path.display(), LineSuffix(*line))]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// The line of the decompressed text, from 1. 0 if the fault belongs to no line.
    pub line: u64,
    /// What is wrong.
    pub fault: Fault,
}

impl ReadError {
    /// Returns the fault at a line of a file.
    pub fn new(path: &Path, line: u64, fault: Fault) -> ReadError {
        ReadError {
            path: path.to_owned(),
            line,
            fault,
        }
    }
}

/// `:line`, or nothing for line 0.
struct LineSuffix(u64);

impl std::fmt::Display for LineSuffix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => Ok(()),
            line => write!(f, ":{line}"),
        }
    }
}

/// What is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file cannot be opened or read, or its compressed data is corrupt.
    #[error("{0}")]
    Io(String),
    /// A line is longer than the limit in bytes.
    #[error("the line is longer than {0} bytes")]
    LineTooLong(usize),
    /// A line contains a NUL byte.
    #[error("the line contains a NUL byte")]
    Nul,
    /// A line is not UTF-8.
    #[error("the line is not valid UTF-8")]
    Utf8,
    /// The text is larger than [`ReadOptions::max_text`](crate::ReadOptions::max_text).
    #[error("the decompressed text is larger than the limit of {0} bytes")]
    TextTooLarge(u64),
    /// The suffix names no form of a kernel file.
    #[error("a kernel file ends in .trace, .traceg, .tracez or .xz")]
    Suffix,
    /// A number in base 10 is malformed or too large.
    #[error("{what} {text:?} is not a decimal number in range")]
    Decimal {
        /// What the number means.
        what: &'static str,
        /// The text in its place.
        text: String,
    },
    /// A number in base 16 is malformed or too large.
    #[error("{what} {text:?} is not a hexadecimal number in range")]
    Hex {
        /// What the number means.
        what: &'static str,
        /// The text in its place.
        text: String,
    },
    /// The line ends before a field.
    #[error("the line ends before the {0}")]
    Missing(&'static str),
    /// The line continues after its last field.
    #[error("surplus text {0:?} at the end of the line")]
    Surplus(String),
    /// No header line has this key.
    #[error("the header has no {0}")]
    NoHeader(&'static str),
    /// The file ends before the line that begins with `#`.
    #[error("the file ends before the line with # that ends the header")]
    UnendedHeader,
    /// A dimension of the grid or block is 0, or there are too many CTAs or threads.
    #[error("the {what} ({dim}) is empty or too large")]
    Dimensions {
        /// `grid` or `block`.
        what: &'static str,
        /// The extent.
        dim: Dim3,
    },
    /// The tracer version is none of 0 to 6.
    #[error("tracer version {0} is unsupported; versions up to 6 are supported")]
    TracerVersion(u32),
    /// No opcode map exists for the binary version.
    #[error("binary version {0} is unsupported; 35, 60, 61, 70, 75, 80 and 86 are supported")]
    BinaryVersion(u32),
    /// The opcode map does not have the name.
    #[error("opcode {opcode:?} does not exist for binary version {binary_version}")]
    Opcode {
        /// The full text.
        opcode: String,
        /// The binary version of the header.
        binary_version: u32,
    },
    /// An opcode is too long, or the file has too many different ones.
    #[error("opcode {0:?}... is too long, or the file has too many different opcodes")]
    OpcodeLimit(String),
    /// The number of destinations exceeds 1.
    #[error("too many destinations: {0}, at most 1")]
    Destinations(u64),
    /// The number of sources exceeds the limit.
    #[error("too many sources: {count}, at most {limit}")]
    Sources {
        /// The number in the file.
        count: u64,
        /// The limit of the options.
        limit: usize,
    },
    /// A register is not `R` and a number, nor one of the other kinds in version 6.
    #[error("{0:?} is not a register")]
    Register(String),
    /// A store or memory barrier has a destination, which the simulator never releases.
    #[error("{0} has a destination; the simulator stops with a deadlock")]
    StoreDestination(String),
    /// A memory instruction has no addresses.
    #[error("memory instruction {0} has width 0")]
    NoAddresses(String),
    /// The address mode is none of 0, 1 and 2.
    #[error("address mode {0} is unknown")]
    AddressMode(u64),
    /// The number of addresses is not that of the lanes.
    #[error("{found} addresses for {needed} active lanes")]
    AddressCount {
        /// The number of addresses.
        found: usize,
        /// The number of lanes.
        needed: usize,
    },
    /// The prefix of a line of version 1 or 2 differs from its CTA and warp.
    #[error("the line names CTA {cta} warp {warp}, not those of its block")]
    Prefix {
        /// The CTA of the line.
        cta: Dim3,
        /// The warp of the line.
        warp: u32,
    },
    /// A line lies outside CTA blocks.
    #[error("expected #BEGIN_TB, found {0:?}")]
    OutsideBlock(String),
    /// A CTA block begins within another.
    #[error("#BEGIN_TB within the block of CTA {0}")]
    Nested(Dim3),
    /// A line of a CTA block is not the expected one.
    #[error("expected {expected}, found {found:?}")]
    Expected {
        /// What should be there.
        expected: &'static str,
        /// The line.
        found: String,
    },
    /// The file ends within a CTA block.
    #[error("the file ends within the block of CTA {0}")]
    UnendedBlock(Dim3),
    /// The CTA does not exist in the grid.
    #[error("CTA {cta} is outside of the grid ({grid})")]
    CtaRange {
        /// The CTA.
        cta: Dim3,
        /// The extent of the grid.
        grid: Dim3,
    },
    /// The file has fewer or more CTAs than the grid.
    #[error("the grid has {grid} CTAs, the file {file}")]
    CtaCount {
        /// The number of CTAs of the grid.
        grid: u64,
        /// The number of CTAs of the file. If the file has more, one more than the grid.
        file: u64,
    },
    /// The number of instructions of a CTA exceeds [`ReadOptions::max_cta_lines`](crate::ReadOptions::max_cta_lines).
    #[error("CTA {cta} has more than {limit} instructions, the limit for one CTA in memory")]
    CtaTooLarge {
        /// The CTA.
        cta: Dim3,
        /// The limit.
        limit: u64,
    },
    /// The warp does not exist in the block.
    #[error("warp {warp} does not exist; the block has {warps} warps")]
    WarpRange {
        /// The warp.
        warp: u64,
        /// The number of warps of a block.
        warps: u32,
    },
    /// The warp appears twice.
    #[error("CTA {cta} has warp {warp} twice")]
    WarpTwice {
        /// The CTA.
        cta: Dim3,
        /// The warp.
        warp: u32,
    },
    /// The CTA block lacks a warp.
    #[error("CTA {cta} lacks warp {warp}")]
    WarpMissing {
        /// The CTA.
        cta: Dim3,
        /// The warp.
        warp: u32,
    },
    /// The warp has no instructions.
    #[error("CTA {cta} warp {warp} has no instructions")]
    EmptyWarp {
        /// The CTA.
        cta: Dim3,
        /// The warp.
        warp: u32,
    },
    /// The warp has fewer lines than `insts` says.
    #[error("CTA {cta} warp {warp} has {found} instructions instead of {expected}")]
    LinesMissing {
        /// The CTA.
        cta: Dim3,
        /// The warp.
        warp: u32,
        /// The number that `insts` says.
        expected: u64,
        /// The number of lines.
        found: u64,
    },
    /// The warp has more lines than `insts` says.
    #[error("CTA {cta} warp {warp} has more than the {expected} instructions that insts says")]
    LinesSurplus {
        /// The CTA.
        cta: Dim3,
        /// The warp.
        warp: u32,
        /// The number that `insts` says.
        expected: u64,
    },
    /// Not all lanes of the warp execute EXIT.
    #[error("CTA {cta} warp {warp} ends without EXIT of lanes {lanes:#010x}")]
    NoExit {
        /// The CTA.
        cta: Dim3,
        /// The warp.
        warp: u32,
        /// The lanes without EXIT.
        lanes: u32,
    },
    /// A raw trace has the first line of an asynchronous copy without the second.
    #[error("CTA {cta} warp {warp} has an odd number of LDGSTS lines")]
    HalfCopy {
        /// The CTA.
        cta: Dim3,
        /// The warp.
        warp: u32,
    },
    /// A line of a command list is malformed.
    #[error("MemcpyHtoD needs an address and a size: {0:?}")]
    Memcpy(String),
    /// A line of a statistics file is malformed.
    #[error("malformed line of launch statistics: {0:?}")]
    Launch(String),
    /// The container of a `.tracez` file is malformed.
    #[error("malformed container: {0}")]
    Container(String),
}

/// The fault of a function that reads files and writes one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The output that the caller gave fails.
    #[error("the output cannot be written: {0}")]
    Output(io::Error),
}

impl Error {
    /// Returns a function that adds the path to an error of writing.
    pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> Error {
        |source| Error::Write {
            path: path.to_owned(),
            source,
        }
    }
}

impl Fault {
    pub(crate) fn io(error: &io::Error) -> Fault {
        Fault::Io(error.to_string())
    }

    pub(crate) fn decimal(what: &'static str, text: &[u8]) -> Fault {
        Fault::Decimal {
            what,
            text: excerpt(text),
        }
    }

    pub(crate) fn hex(what: &'static str, text: &[u8]) -> Fault {
        Fault::Hex {
            what,
            text: excerpt(text),
        }
    }
}

/// Returns the first bytes of a line for a message.
pub(crate) fn excerpt(text: &[u8]) -> String {
    const LENGTH: usize = 60;
    let shown = &text[..text.len().min(LENGTH)];
    String::from_utf8_lossy(shown).into_owned()
}
