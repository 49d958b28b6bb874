//! Constants: literals and folded expressions.
//!
//! PTX computes integer constants in 64 bits, and floating-point constants in f64. Integers are signed unless a `U`
//! suffix, an unsigned operand or a cast makes them unsigned. Invariant: a constant has the exact value that the text
//! specifies. The code that uses the constant truncates it to the width of the operand or variable.

/// A constant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Constant {
    /// An integer in two's complement.
    Int {
        /// The value as 64 bits.
        bits: u64,
        /// True for `.u64`, false for `.s64`.
        unsigned: bool,
    },
    /// An f64 as bits: a decimal literal, `0d...`, or a floating-point expression.
    Double(u64),
    /// An f32 as bits: `0f...`.
    Single(u32),
}

impl Constant {
    /// Creates a signed integer.
    pub const fn signed(value: i64) -> Self {
        Constant::Int {
            bits: value as u64,
            unsigned: false,
        }
    }

    /// Creates an unsigned integer.
    pub const fn unsigned(bits: u64) -> Self {
        Constant::Int {
            bits,
            unsigned: true,
        }
    }

    /// Returns the bits of an integer constant.
    pub fn as_int(self) -> Option<u64> {
        match self {
            Constant::Int { bits, .. } => Some(bits),
            _ => None,
        }
    }

    /// Returns the value of a floating-point constant as f64 (exact for [`Constant::Single`]).
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
