//! The reference functions of integer arithmetic with a carry, which is an operand and a result of
//! the ops.
//!
//! In Margay's IR, PTX's condition code register is an ordinary value. The carry-in is the last operand of `addc`,
//! `subc` and `madc`. With [`crate::mods::Mods::carry_out`], the last result is the carry-out, 0 or 1.
//!
//! The condition code (flag) is the carry of the adder, for additions and for subtractions. The
//! difference `a - b` is computed as `a + !b + 1`, and `subc` as `a + !b + carry`, so the carry is
//! 1 if the subtraction does not borrow. For subtractions, the PTX ISA calls the flag a borrow. The
//! ISA does not define chains of mixed instructions (`sub.cc` followed by `addc`). NVIDIA's machine
//! code does define such chains. For sm_75, sm_90 and sm_100, ptxas 13.5 keeps the flag in one
//! predicate for all these instructions and never inverts it:
//!
//! ```text
//! sub.cc.u32 x, a, b;    IADD3 x, P0, a, -b, RZ
//! addc.u32   y, c, d;    IADD3.X y, c, d, RZ, P0, !PT
//! subc.u32   y, c, d;    IADD3.X y, c, ~d, RZ, P0, !PT
//! add.cc.u32 x, a, b;    IADD3 x, P0, a, b, RZ
//! madc.lo.u32 y, c, d, a;  IMAD.X y, c, d, a, P0
//! ```
//!
//! `IADD3.X` adds `P0` to `c + ~d`, so `P0` is 1 if `a - b` does not borrow. A 64-bit operation consists of two of
//! these instructions; its flag is the flag of the instruction for the upper half.

use super::int::product;
use super::{Bits, Desc, arg, mask};

/// Writes the sum of `terms` to `out` and, if the op has a carry-out, also the carry of the sum.
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

fn product_bits(desc: &Desc, args: &[Bits]) -> Bits {
    product(desc.ty, desc.mods.half(), arg(args, 0), arg(args, 1)) as Bits
}

/// Computes `a + b`, the sum of the two operands, and the carry-out.
pub fn add(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    finish_sum(desc, out, &[arg(args, 0), arg(args, 1)]);
}

/// Computes `a - b`, the difference of the two operands, as `a + !b + 1`, and the carry-out of this
/// sum.
pub fn sub(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    finish_sum(desc, out, &[arg(args, 0), !arg(args, 1), 1]);
}

/// Computes `a * b + c` from the three operands, and the carry-out of the addition.
pub fn mad(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    finish_sum(desc, out, &[product_bits(desc, args), arg(args, 2)]);
}

/// Computes `a + b + carry` from the three operands.
pub fn addc(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    finish_sum(desc, out, &[arg(args, 0), arg(args, 1), arg(args, 2) & 1]);
}

/// Computes `a + !b + carry` from the three operands. This is `a - b` if the carry is 1 (no borrow)
/// and `a - b - 1` if it is 0.
pub fn subc(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    finish_sum(desc, out, &[arg(args, 0), !arg(args, 1), arg(args, 2) & 1]);
}

/// Computes `a * b + c + carry` from the four operands.
pub fn madc(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    finish_sum(
        desc,
        out,
        &[product_bits(desc, args), arg(args, 2), arg(args, 3) & 1],
    );
}
