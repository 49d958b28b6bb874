//! The reference functions of ops that move bits without changing them.

use super::{Bits, Desc, arg, mask};

/// Returns the bits of the operand unchanged; only the type of the result differs.
#[inline(always)]
pub fn bitcast(_: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = arg(args, 0);
}

/// Joins the operands, which have equal widths, into one value, with the first operand in the
/// lowest bits. `ty` is the type of the joined value, and `src` is the type of the operands.
#[inline(always)]
pub fn pack(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let part = desc.src.bits();
    let whole = args.iter().zip(0u32..).fold(0, |whole: Bits, (bits, i)| {
        whole | (bits & mask(part)).unbounded_shl(i * part)
    });
    out[0] = whole & mask(desc.ty.bits());
}

/// Splits the operand into results of equal width; the first result contains the lowest bits. `src`
/// is the type of the operand, and `ty` is the type of the results.
pub fn unpack(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let part = desc.ty.bits();
    for (i, slot) in (0u32..).zip(out) {
        *slot = arg(args, 0).unbounded_shr(i * part) & mask(part);
    }
}
