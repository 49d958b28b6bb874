//! `cvt.pack`: two integers converted with saturation and packed, above a third operand's bits.

use crate::meaning::{Bits, Desc, arg, int, mask, sign_extend};
use crate::types::OpType;

/// Operands `a`, `b` and, for destinations narrower than 16 bits, `c`. The result holds `a` above
/// `b` in its lowest bits, and above them the low bits of `c`.
pub fn cvt_pack(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let width = desc.ty.element_bits().clamp(1, 16);
    let part = |i| clamped(desc, width, sign_extend(arg(args, i) & mask(32), 32));
    let pair = part(0) << width | part(1);
    out[0] = (pair | arg(args, 2) << (2 * width)) & mask(32);
}

fn clamped(desc: &Desc, width: u32, value: i128) -> Bits {
    let ty = if desc.ty == OpType::None {
        OpType::S16
    } else {
        desc.ty
    };
    int::saturate(ty, value) as Bits & mask(width)
}
