//! `cvt.pack`: converts two integers with saturation and packs them into the low bits of the result, below the bits of
//! a third operand.

use crate::meaning::{Bits, Desc, arg, int, mask, sign_extend};

/// The operands are `a`, `b` and, if the elements of the destination are narrower than 16 bits,
/// `c`. Converts `a` and `b`, and packs them and the low bits of `c` into 32 bits. The lowest bits
/// of the result are `b`, followed by `a`, followed by the low bits of `c`.
pub fn cvt_pack(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let width = desc.ty.element_bits();
    let part = |i| {
        let value = sign_extend(arg(args, i), 32);
        int::saturate(desc.ty, value) as Bits & mask(width)
    };
    let pair = part(0).unbounded_shl(width) | part(1);
    out[0] = (pair | arg(args, 2).unbounded_shl(2 * width)) & mask(32);
}
