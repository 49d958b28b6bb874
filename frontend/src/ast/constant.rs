//! Constants, as literals or folded expressions give them.
//!
//! PTX computes integer constants in 64 bits, signed unless a `U` suffix, an operand or a cast makes
//! them unsigned, and floating-point ones in f64. Invariant: a constant is exact as written; cutting
//! it to the width of its use is the user's affair.

/// A constant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Constant {
    /// An integer in two's complement.
    Int {
        /// Its 64 bits.
        bits: u64,
        /// True for `.u64`, false for `.s64`.
        unsigned: bool,
    },
    /// An f64, by its bits: a decimal literal, `0d...`, or a floating-point expression.
    Double(u64),
    /// An f32, by its bits: `0f...`.
    Single(u32),
}

impl Constant {
    /// A signed integer.
    pub const fn signed(value: i64) -> Self {
        Constant::Int {
            bits: value as u64,
            unsigned: false,
        }
    }

    /// An unsigned integer.
    pub const fn unsigned(bits: u64) -> Self {
        Constant::Int {
            bits,
            unsigned: true,
        }
    }

    /// The bits of an integer.
    pub fn as_int(self) -> Option<u64> {
        match self {
            Constant::Int { bits, .. } => Some(bits),
            _ => None,
        }
    }

    /// The value of a floating-point constant as f64 (exact for [`Constant::Single`]).
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Constant::Int { .. } => None,
            Constant::Double(bits) => Some(f64::from_bits(bits)),
            Constant::Single(bits) => Some(f64::from(f32::from_bits(bits))),
        }
    }

    /// True for a floating-point constant.
    pub fn is_float(self) -> bool {
        !matches!(self, Constant::Int { .. })
    }
}
