//! The data of instructions: what they have besides a type, operands and targets.

use margay_ops::meaning::{Bits, Desc, mask};
use margay_ops::types::{OpType, Type};

/// How an instruction accesses memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The type in memory. Loads extend a narrower integer as its sign says, and stores truncate.
    pub memory: OpType,
    /// The distance in bytes between the elements of adjacent lanes, or the factor of the offsets.
    pub stride: i64,
    /// A number of bytes that is added to the address of each lane, so that back ends can encode it in an instruction.
    pub displacement: i32,
}

impl Access {
    /// Returns an access without a displacement.
    pub const fn new(memory: OpType, stride: i64) -> Access {
        Access {
            memory,
            stride,
            displacement: 0,
        }
    }
}

/// What an instruction has besides its type, operands and targets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Data {
    /// Nothing.
    Nothing,
    /// A number, or the bits of a constant.
    Number(u64),
    /// An operation of the IR.
    Lane(Desc),
    /// A memory access.
    Access(Access),
}

impl Data {
    /// Returns the number; 0 for other data.
    pub fn number(&self) -> u64 {
        match *self {
            Data::Number(number) => number,
            _ => 0,
        }
    }
}

/// Returns the number of lanes of an instruction with the type `ty`; 1 if it has no type.
pub(crate) fn lanes_of(ty: Option<Type>) -> usize {
    ty.map_or(1, |ty| ty.lanes() as usize)
}

/// Returns a value with ones in the bits of a lane of an instruction with the type `ty`; 0 if it has no type.
pub(crate) fn lane_mask(ty: Option<Type>) -> Bits {
    mask(ty.map_or(0, Type::lane_bits))
}
