//! Reference functions of ops that only move bits.

use super::{Bits, Desc, arg, mask};

/// Returns the operand's bits unchanged; the result has another type.
#[inline(always)]
pub fn bitcast(_: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = arg(args, 0);
}

/// Joins parts of equal width into one value, with the first part in the lowest bits. `ty` is the type of the joined
/// value, and `src` is the type of a part.
#[inline(always)]
pub fn pack(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let part = desc.src.bits();
    let whole = args.iter().zip(0u32..).fold(0, |whole: Bits, (bits, i)| {
        whole | (bits & mask(part)).unbounded_shl(i * part)
    });
    out[0] = whole & mask(desc.ty.bits());
}

/// Splits a value into parts of equal width; the first part contains the lowest bits. `src` is the type of the value,
/// and `ty` is the type of a part.
pub fn unpack(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let part = desc.ty.bits();
    for (i, slot) in (0u32..).zip(out) {
        *slot = arg(args, 0).unbounded_shr(i * part) & mask(part);
    }
}
