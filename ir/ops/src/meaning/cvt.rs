//! The reference function of `cvt`, which converts a value of any type to any other type.
//!
//! `ty` is the destination type, and `src` is the source type. If the destination type is packed,
//! there are two cases. The op can have one scalar operand for each element, with the operand for
//! the highest element first. Or it has one packed operand, which is converted element by element.
//! If the conversion uses random bits (`.rs`) or a scale factor (`.scaled`), the last operand
//! contains them.
//!
//! A result has the width of the destination type. If the destination register is wider, the
//! lowering of the PTX instruction extends the result. The lowering sign-extends signed integers
//! and zero-extends other results.

mod number;
mod pack;

pub use pack::cvt_pack;

use self::number::{Value, encode_float, encode_integer};
use super::soft::Round;
use super::{Bits, Desc, arg, element, int, mask, stride};
use crate::mods::Rounding;
use crate::types::OpType;

/// Converts a value of any type to any other type.
#[inline(always)]
pub fn cvt(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let lanes = desc.ty.elements().max(1);
    let sources = if desc.src.elements() < lanes {
        lanes as usize
    } else {
        1
    };
    let random = arg(args, sources) as u32;
    let scale = args.get(sources).map(|bits| *bits as u16);
    out[0] = (0..lanes).fold(0, |whole, index| {
        let bits = if sources > 1 {
            arg(args, sources - 1 - index as usize) & mask(desc.src.bits())
        } else {
            element(desc.src, arg(args, 0), index)
        };
        let extra = Extra {
            random,
            index,
            lanes,
            scale: scale.map(|s| (s >> (8 * (index & 1))) as u8),
        };
        whole | convert(desc, bits, extra) << (index * stride(desc.ty))
    });
}

/// What the conversion of one element needs in addition to the element's value.
#[derive(Clone, Copy)]
struct Extra {
    /// The operand after the source operands, read as random bits for stochastic rounding.
    random: u32,
    /// The index of the element.
    index: u32,
    /// The number of elements that the instruction converts.
    lanes: u32,
    /// This element's byte of the same operand, read as a scale factor. `None` if there is no such operand.
    scale: Option<u8>,
}

impl Extra {
    /// Returns the rounding with which a floating-point result is computed.
    #[inline]
    fn round(self, desc: &Desc) -> Round {
        if desc.mods.rounding() != Rounding::Rs {
            return Round::of(desc.mods.rounding());
        }
        // If there are two elements, each element uses 16 of the random bits; if there are four, each uses 8. An f16
        // uses only the low 13 bits of these 16 bits, because its rounding drops 13 bits.
        let (share, bits) = match (self.lanes, desc.ty) {
            (2, OpType::F16x2) => (16, 13),
            (2, _) => (16, 16),
            _ => (8, 8),
        };
        let random = self.random.unbounded_shr(self.index * share);
        Round::Stochastic {
            bits,
            random: random & mask(bits) as u32,
        }
    }
}

#[inline(always)]
fn convert(desc: &Desc, bits: Bits, extra: Extra) -> Bits {
    if desc.src.is_integer() && desc.ty.is_integer() {
        return resize(desc, bits);
    }
    let value = Value::decode(desc, bits, extra.scale);
    if desc.ty.is_integer() {
        encode_integer(desc, value)
    } else {
        encode_float(desc, value, extra.round(desc), extra.scale)
    }
}

/// Converts an integer to another integer type. First, sign-extends or zero-extends the source, as
/// the source type requires. The value is then truncated or, with `.sat`, clamped to the range of
/// the destination type.
#[inline(always)]
fn resize(desc: &Desc, bits: Bits) -> Bits {
    let value = int::value(desc.src, bits);
    let value = if desc.mods.sat() {
        int::saturate(desc.ty, value)
    } else {
        value
    };
    value as Bits & mask(desc.ty.element_bits())
}
