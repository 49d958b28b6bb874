//! `cvt.pack`: two integers converted with saturation and packed, above a third operand's bits.

use crate::meaning::{Bits, Desc, arg, int, mask, sign_extend};

/// Operands `a`, `b` and, for destinations narrower than 16 bits, `c`. The result holds `a` above
/// `b` in its lowest bits, and above them the low bits of `c`.
pub fn cvt_pack(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let width = desc.ty.element_bits();
    let part = |i| {
        let value = sign_extend(arg(args, i), 32);
        int::saturate(desc.ty, value) as Bits & mask(width)
    };
    let pair = part(0).unbounded_shl(width) | part(1);
    out[0] = (pair | arg(args, 2).unbounded_shl(2 * width)) & mask(32);
}
