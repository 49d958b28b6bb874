//! The widths of fields.

/// The width of a field of a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Width {
    /// 32 bits.
    U32,
    /// 64 bits.
    U64,
}

impl Width {
    /// Returns the number of bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Width::U32 => 4,
            Width::U64 => 8,
        }
    }

    /// Returns the word of the probe file for the width.
    pub fn word(self) -> &'static str {
        match self {
            Width::U32 => "u32",
            Width::U64 => "u64",
        }
    }
}
