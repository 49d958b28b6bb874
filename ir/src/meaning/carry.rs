//! Extended-precision integer arithmetic: the carry is an operand and a result.
//!
//! PTX's condition code register is an ordinary value here: `addc subc madc` take the carry-in as
//! their last operand, and with [`crate::mods::Mods::carry_out`] the last result is the carry-out
//! (of subtractions: the borrow), 0 or 1.

use super::int::product;
use super::{Bits, Desc, arg, mask};

/// Writes the sum of all terms and, if asked for, its carry.
fn finish_sum(desc: &Desc, out: &mut [Bits], terms: &[Bits]) {
    let width = desc.ty.bits().min(64);
    let sum: Bits = terms.iter().map(|term| term & mask(width)).sum();
    out[0] = sum & mask(width);
    write_carry(desc, out, sum >> width);
}

fn write_carry(desc: &Desc, out: &mut [Bits], carry: Bits) {
    if desc.mods.carry_out()
        && let Some(slot) = out.get_mut(1)
    {
        *slot = carry & 1;
    }
}

fn finish_difference(desc: &Desc, out: &mut [Bits], a: Bits, b: Bits, borrow: Bits) {
    let width = desc.ty.bits().min(64);
    let difference = (a & mask(width))
        .wrapping_sub(b & mask(width))
        .wrapping_sub(borrow & 1);
    out[0] = difference & mask(width);
    write_carry(desc, out, difference >> width);
}

fn product_bits(desc: &Desc, args: &[Bits]) -> Bits {
    product(desc.ty, desc.mods.half(), arg(args, 0), arg(args, 1)) as Bits
}

/// `a + b` with carry-out.
pub fn add(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    finish_sum(desc, out, &[arg(args, 0), arg(args, 1)]);
}

/// `a - b` with borrow-out.
pub fn sub(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    finish_difference(desc, out, arg(args, 0), arg(args, 1), 0);
}

/// `a * b + c` with carry-out of the addition.
pub fn mad(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    finish_sum(desc, out, &[product_bits(desc, args), arg(args, 2)]);
}

/// `a + b + carry`.
pub fn addc(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    finish_sum(desc, out, &[arg(args, 0), arg(args, 1), arg(args, 2) & 1]);
}

/// `a - (b + borrow)`.
pub fn subc(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    finish_difference(desc, out, arg(args, 0), arg(args, 1), arg(args, 2));
}

/// `a * b + c + carry`.
pub fn madc(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    finish_sum(
        desc,
        out,
        &[product_bits(desc, args), arg(args, 2), arg(args, 3) & 1],
    );
}
