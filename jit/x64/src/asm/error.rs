//! Errors of the encoder.

use std::fmt;

use super::features::Features;
use super::operand::{Constant, Label};
use super::register::Width;
use super::table::Op;

/// Why no row of an operation encodes an instruction. If several rows fail, the reason is that of the row that fits
/// best: whose reason comes last in the order of these variants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The operation does not exist in this width.
    Width,
    /// The instruction cannot have a mask, or requires one.
    Mask,
    /// It cannot set lanes to zero: it has no mask, or its result is memory or a mask.
    Zeroing,
    /// It has another number of operands.
    Count,
    /// The operand with this number has the wrong kind.
    Kind(u8),
    /// It cannot broadcast its memory operand.
    Broadcast,
    /// The operand with this number does not fit its field: a number that is too large, a register that the encoding
    /// cannot name, a label too far away, or an address with parts that exclude each other.
    Field(u8),
    /// It cannot state a rounding: not this operation, not this width, or not with a memory operand.
    Rounding,
    /// It cannot be atomic.
    Lock,
    /// The registers of a gather must differ.
    Overlap,
    /// It requires these features, of which some are not in the set of the encoder.
    Features(Features),
}

impl Reason {
    /// The position in the order of the checks.
    pub(super) const fn rank(self) -> u8 {
        match self {
            Reason::Width => 0,
            Reason::Mask => 1,
            Reason::Zeroing => 2,
            Reason::Count => 3,
            Reason::Kind(_) => 4,
            Reason::Broadcast => 5,
            Reason::Field(_) => 6,
            Reason::Rounding => 7,
            Reason::Lock => 8,
            Reason::Overlap => 9,
            Reason::Features(_) => 10,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Width => f.write_str("it does not exist in this width"),
            Reason::Count => f.write_str("it has another number of operands"),
            Reason::Kind(n) => write!(f, "operand {n} has the wrong kind"),
            Reason::Field(n) => write!(f, "operand {n} does not fit its field"),
            Reason::Mask => f.write_str("it cannot have a mask, or requires one"),
            Reason::Zeroing => f.write_str("it cannot set lanes to zero"),
            Reason::Broadcast => f.write_str("it cannot broadcast its memory operand"),
            Reason::Rounding => f.write_str("it cannot state this rounding"),
            Reason::Lock => f.write_str("it cannot be atomic"),
            Reason::Overlap => f.write_str("the registers of a gather must differ"),
            Reason::Features(features) => write!(f, "it requires {features:?}"),
        }
    }
}

/// An error of the encoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// An instruction that cannot be encoded.
    Instruction {
        /// The operation.
        op: Op,
        /// The width.
        width: Width,
        /// Why.
        reason: Reason,
    },
    /// A label that another encoder made.
    UnknownLabel(Label),
    /// A constant that another encoder made.
    UnknownConstant(Constant),
    /// A label that is bound twice; the label of a jump table is bound at the end.
    Rebound(Label),
    /// A label that is used and not bound.
    Unbound(Label),
    /// A constant with a length other than 1, 2, 4, 8, 16, 32 or 64 bytes.
    ConstantLength(usize),
    /// An alignment that is not a power of two up to 64.
    Alignment(u32),
    /// The code and its constants exceed a gigabyte, or a displacement does not fit 32 bits.
    TooLarge,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Instruction { op, width, reason } => {
                write!(f, "cannot encode {op:?} in {width:?}: {reason}")
            }
            Error::UnknownLabel(label) => write!(f, "{label:?} is of another encoder"),
            Error::UnknownConstant(constant) => write!(f, "{constant:?} is of another encoder"),
            Error::Rebound(label) => write!(f, "{label:?} is bound twice"),
            Error::Unbound(label) => write!(f, "{label:?} is used and not bound"),
            Error::ConstantLength(n) => write!(f, "a constant has {n} bytes"),
            Error::Alignment(n) => write!(f, "cannot align to {n} bytes"),
            Error::TooLarge => f.write_str("the code is too large"),
        }
    }
}

impl std::error::Error for Error {}
