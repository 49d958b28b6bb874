//! Instructions.

use super::operand::Operand;
use super::register::{Mask, Rounding, Width};
use super::table::Op;

/// The largest number of operands that an instruction states.
pub const MAX_OPERANDS: usize = 4;

/// An instruction with its operands, which [`Asm::emit`](super::Asm::emit) encodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Inst {
    /// The operation.
    pub op: Op,
    /// The width of the operands.
    pub width: Width,
    /// The operands, in the order of Intel's manuals: the destination first. [`Operand::None`] follows the last one.
    pub operands: [Operand; MAX_OPERANDS],
    /// The lanes that the instruction computes; [`Mask::NONE`] for all.
    pub mask: Mask,
    /// Whether the other lanes of the result become zero. Otherwise they keep the value of the destination.
    pub zeroing: bool,
    /// The rounding that the instruction states.
    pub rounding: Rounding,
    /// Whether the access to memory is atomic.
    pub lock: bool,
}

impl Inst {
    /// An instruction without a mask. With more than [`MAX_OPERANDS`] operands it cannot be encoded.
    pub fn new(op: Op, width: Width, operands: &[Operand]) -> Inst {
        let mut all = [Operand::None; MAX_OPERANDS];
        match all.get_mut(..operands.len()) {
            Some(all) => all.copy_from_slice(operands),
            // No instruction has its first operand missing.
            None => all[1] = operands[0],
        }
        Inst {
            op,
            width,
            operands: all,
            mask: Mask::NONE,
            zeroing: false,
            rounding: Rounding::Mxcsr,
            lock: false,
        }
    }

    /// With a mask; the other lanes keep the value of the destination.
    pub const fn masked(self, mask: Mask) -> Inst {
        Inst { mask, ..self }
    }

    /// With a mask; the other lanes become zero.
    pub const fn zeroed(self, mask: Mask) -> Inst {
        Inst {
            mask,
            zeroing: true,
            ..self
        }
    }

    /// With a rounding of its own.
    pub const fn rounded(self, rounding: Rounding) -> Inst {
        Inst { rounding, ..self }
    }

    /// With the `lock` prefix.
    pub const fn locked(self) -> Inst {
        Inst { lock: true, ..self }
    }
}
