//! Meanings that only move bits.

use super::{Bits, Desc, mask};

/// The same bits held as another type.
pub fn bitcast(_: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = args[0];
}

/// Joins equal parts, the first in the lowest bits; `ty` is the whole, `src` one part.
pub fn pack(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let part = desc.src.bits();
    out[0] = args.iter().enumerate().fold(0, |whole, (i, bits)| {
        whole | (bits & mask(part)) << (i as u32 * part)
    });
}

/// Splits into equal parts, the lowest bits first; `src` is the whole, `ty` one part.
pub fn unpack(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let part = desc.ty.bits();
    for (i, slot) in out.iter_mut().enumerate() {
        *slot = args[0] >> (i as u32 * part) & mask(part);
    }
}
