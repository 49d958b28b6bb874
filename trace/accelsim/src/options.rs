//! What a reader accepts, and its limits.

/// Options of readers. The default accepts what the simulator accepts.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Accept 5 sources, which the original tracer can write and the simulator refuses.
    pub five_sources: bool,
    /// Accept warps without instructions, which the simulator refuses. They need no EXIT.
    pub empty_warps: bool,
    /// Accept binary versions without an opcode map, and names that the map does not have.
    pub unknown_opcodes: bool,
    /// The columns of raw traces.
    pub columns: RawColumns,
    /// The limit on the decompressed text of a file in bytes.
    pub max_text: u64,
    /// The limit on the instructions of one CTA in memory.
    pub max_cta_lines: u64,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            five_sources: false,
            empty_warps: false,
            unknown_opcodes: false,
            columns: RawColumns::Detect,
            max_text: 1 << 42,
            max_cta_lines: 1 << 27,
        }
    }
}

/// Whether the lines of a raw trace have two columns for the core and its warp. The header does not say so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RawColumns {
    /// The place of the mask, which has 8 digits, in the first line decides.
    Detect,
    /// The columns are missing.
    Plain,
    /// The columns exist.
    Core,
}

/// The maximum length of a line in bytes.
pub const MAX_LINE: usize = 64 * 1024;
