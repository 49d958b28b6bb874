//! Constants: literals, and the values of constant expressions.
//!
//! PTX computes constant expressions of integers with 64 bits, and those of floating-point numbers
//! in f64. Integers are signed unless a `U` suffix, a value above 2^63 - 1, an unsigned operand or
//! a cast makes them unsigned. Invariant: a constant does not depend on the width of the operand or
//! variable for which the text specifies it. The code that uses the constant truncates it to this
//! width.

/// A constant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Constant {
    /// An integer in two's complement.
    Int {
        /// The 64 bits of the integer.
        bits: u64,
        /// Whether the integer is unsigned (`.u64`); false means signed (`.s64`).
        unsigned: bool,
    },
    /// The bits of an f64, which the text writes as a decimal literal, as `0d...`, or as a
    /// floating-point expression.
    Double(u64),
    /// The bits of an f32, which the text writes as `0f...`.
    Single(u32),
}

impl Constant {
    /// Creates a signed integer constant.
    pub const fn signed(value: i64) -> Self {
        Constant::Int {
            bits: value as u64,
            unsigned: false,
        }
    }

    /// Creates an unsigned integer constant.
    pub const fn unsigned(bits: u64) -> Self {
        Constant::Int {
            bits,
            unsigned: true,
        }
    }

    /// Returns the bits of an integer constant, or `None` for a floating-point constant.
    pub fn as_int(self) -> Option<u64> {
        match self {
            Constant::Int { bits, .. } => Some(bits),
            _ => None,
        }
    }

    /// Returns the value of a floating-point constant as f64, or `None` for an integer. The
    /// conversion of a [`Constant::Single`] is exact.
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Constant::Int { .. } => None,
            Constant::Double(bits) => Some(f64::from_bits(bits)),
            Constant::Single(bits) => Some(f64::from(f32::from_bits(bits))),
        }
    }

    /// Whether the constant is a floating-point constant.
    pub fn is_float(self) -> bool {
        !matches!(self, Constant::Int { .. })
    }
}
