//! The reference functions of logic operations, shifts, bit fields, bit counts and byte
//! permutations.

use super::{Bits, Desc, arg, mask, sign_extend};
use crate::mods::{BoolOp, Mode};

#[inline(always)]
fn width(desc: &Desc) -> u32 {
    desc.ty.bits().max(1)
}

#[inline(always)]
fn truncated(desc: &Desc, args: &[Bits], index: usize) -> Bits {
    arg(args, index) & mask(width(desc))
}

/// Returns the low 32 bits of the operand with the given index.
#[inline(always)]
fn word(args: &[Bits], index: usize) -> u32 {
    arg(args, index) as u32
}

/// Computes the bitwise "and" of the two operands.
#[inline(always)]
pub fn and(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = truncated(desc, args, 0) & truncated(desc, args, 1);
}

/// Computes the bitwise "or" of the two operands.
#[inline(always)]
pub fn or(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = truncated(desc, args, 0) | truncated(desc, args, 1);
}

/// Computes the bitwise "exclusive or" of the two operands.
#[inline(always)]
pub fn xor(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = truncated(desc, args, 0) ^ truncated(desc, args, 1);
}

/// Inverts all bits.
#[inline(always)]
pub fn not(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = truncated(desc, args, 0) ^ mask(width(desc));
}

/// Returns 1 if the operand is zero, and 0 otherwise.
pub fn cnot(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = Bits::from(truncated(desc, args, 0) == 0);
}

/// Combines two truth values with `op`; returns `a` if `op` is `None`.
#[inline(always)]
pub(super) fn combine(op: BoolOp, a: bool, b: bool) -> bool {
    match op {
        BoolOp::None => a,
        BoolOp::And => a && b,
        BoolOp::Or => a || b,
        BoolOp::Xor => a != b,
    }
}

/// Computes a bitwise function of three operands. The fourth operand is the truth table of the
/// function. With `.and`, `.or` or `.xor`, also returns a predicate. The predicate combines two
/// truth values with this operator: whether the result is not zero, and the predicate operand that
/// follows the table.
pub fn lop3(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let (a, b, c) = (word(args, 0), word(args, 1), word(args, 2));
    let table = word(args, 3);
    let minterm = |i: u32| {
        let pick = |on: u32, bits: u32| if on != 0 { bits } else { !bits };
        pick(i & 4, a) & pick(i & 2, b) & pick(i & 1, c)
    };
    let result = (0..8)
        .filter(|i| table >> i & 1 != 0)
        .fold(0, |bits, i| bits | minterm(i));
    out[0] = result.into();
    if let Some(slot) = out.get_mut(1) {
        *slot = combine(desc.mods.bool_op(), result != 0, arg(args, 4) & 1 != 0).into();
    }
}

/// Shifts the first operand left by the second operand. If the second operand is at least the width
/// of the type, the result is zero.
#[inline(always)]
pub fn shl(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let (bits, amount) = (truncated(desc, args, 0), word(args, 1));
    out[0] = match width(desc) {
        ..=64 => Bits::from((bits as u64).unbounded_shl(amount)),
        _ => bits.unbounded_shl(amount),
    } & mask(width(desc));
}

/// Shifts the first operand right by the second operand. If the second operand is at least the
/// width of the type, the result is zero for unsigned types; for signed types, all bits of the
/// result are copies of the sign bit.
#[inline(always)]
pub fn shr(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let (bits, amount) = (truncated(desc, args, 0), word(args, 1));
    let signed = desc.ty.is_signed();
    out[0] = match width(desc) {
        ..=64 if signed => {
            let extended = sign_extend(bits, width(desc)) as i64;
            extended.unbounded_shr(amount) as Bits
        }
        ..=64 => Bits::from((bits as u64).unbounded_shr(amount)),
        _ if signed => sign_extend(bits, width(desc)).unbounded_shr(amount) as Bits,
        _ => bits.unbounded_shr(amount),
    } & mask(width(desc));
}

/// Shifts 64 bits, of which the operand `b` is the upper word and the operand `a` the lower word
/// (funnel shift): returns the upper word of a left shift, or the lower word of a right shift.
#[inline(always)]
pub fn shf(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let pair = u64::from(word(args, 1)) << 32 | u64::from(word(args, 0));
    let amount = if desc.mods.flag() {
        word(args, 2) & 31
    } else {
        word(args, 2).min(32)
    };
    out[0] = if desc.mods.mode() == Mode::Left {
        Bits::from((pair << amount) >> 32)
    } else {
        Bits::from(pair >> amount) & mask(32)
    };
}

/// Returns the number of one bits in the operand.
#[inline(always)]
pub fn popc(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = truncated(desc, args, 0).count_ones().into();
}

/// Returns the number of zero bits above the highest one bit of the operand.
#[inline(always)]
pub fn clz(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = (truncated(desc, args, 0).leading_zeros() + width(desc) - 128).into();
}

/// Returns the bits of the operand in reverse order.
pub fn brev(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = truncated(desc, args, 0).reverse_bits() >> (128 - width(desc));
}

/// Returns the position in the operand of the highest one bit (for unsigned types) or of the
/// highest bit that differs from the sign bit (for signed types). Returns all ones if no such bit
/// exists. With `.shiftamt`, returns the distance of this bit from the top bit instead of its
/// position.
pub fn bfind(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let bits = truncated(desc, args, 0);
    let negative = desc.ty.is_signed() && bits >> (width(desc) - 1) != 0;
    let searched = if negative {
        bits ^ mask(width(desc))
    } else {
        bits
    };
    out[0] = match searched.checked_ilog2() {
        None => mask(32),
        Some(position) if desc.mods.flag() => (width(desc) - 1 - position).into(),
        Some(position) => position.into(),
    };
}

/// Returns the position of the n-th one bit of the first operand. The count begins at bit `base`,
/// the second operand, and goes upwards if n, the third operand, is positive, and downwards if n is
/// negative. For n = 0, returns `base` if bit `base` is set. Returns all ones if there is no such
/// bit.
pub fn fns(_: &Desc, args: &[Bits], out: &mut [Bits]) {
    let (bits, base, offset) = (word(args, 0), word(args, 1), word(args, 2) as i32);
    let is_set = |position: &u32| bits >> position & 1 != 0;
    let wanted = offset.unsigned_abs().saturating_sub(1) as usize;
    let found = match offset {
        _ if base > 31 => None,
        0 => Some(base).filter(is_set),
        1.. => (base..32).filter(is_set).nth(wanted),
        _ => (0..=base).rev().filter(is_set).nth(wanted),
    };
    out[0] = found.map_or(mask(32), Bits::from);
}

/// Returns the field of `c` bits that starts at bit `b` of the first operand. The operands `b` and
/// `c` are the second and the third. For signed types, the field is sign-extended.
pub fn bfe(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let bits = truncated(desc, args, 0);
    let (position, length) = (word(args, 1) & 255, word(args, 2) & 255);
    let top = width(desc) - 1;
    let sign_at = (position + length).saturating_sub(1).min(top);
    let negative = desc.ty.is_signed() && length != 0 && bits >> sign_at & 1 != 0;
    let present = length.min((top + 1).saturating_sub(position));
    let field = bits.unbounded_shr(position) & mask(present);
    let fill = if negative {
        mask(top + 1) & !mask(present)
    } else {
        0
    };
    out[0] = field | fill;
}

/// The operands are `a`, `b`, `c`, `d`. Returns `b`, in which the `d` bits from bit `c` on are
/// replaced by the low `d` bits of `a`.
pub fn bfi(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let (position, length) = (word(args, 2) & 255, word(args, 3) & 255);
    let field = mask(length).unbounded_shl(position) & mask(width(desc));
    let inserted = truncated(desc, args, 0).unbounded_shl(position);
    out[0] = truncated(desc, args, 1) & !field | inserted & field;
}

/// Sign-extends or zero-extends the low `b` bits of `a`, where `a` and `b` are the two operands. A
/// `b` above 31 is clamped to 32 or, with `.wrap`, taken modulo 32.
pub fn szext(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let (a, b) = (word(args, 0), word(args, 1));
    let bits = if desc.mods.mode() == Mode::Wrap {
        b & 31
    } else {
        b
    };
    let low = Bits::from(a) & mask(bits);
    let extended = if desc.ty.is_signed() {
        sign_extend(low, bits) as Bits
    } else {
        low
    };
    out[0] = extended & mask(32);
}

/// Returns a mask of `b` one bits that starts at bit `a`, where `a` and `b` are the two operands.
/// An `a` or `b` above 31 is clamped to 32 or, with `.wrap`, taken modulo 32.
pub fn bmsk(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let wrap = desc.mods.mode() == Mode::Wrap;
    let read = |i| {
        if wrap {
            word(args, i) & 31
        } else {
            word(args, i)
        }
    };
    out[0] = mask(read(1)).unbounded_shl(read(0)) & mask(32);
}

/// Returns a word of four bytes, each of which the third operand selects from the eight bytes of
/// the first operand (low bytes) and the second operand (high bytes).
pub fn prmt(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let bytes = (u64::from(word(args, 1)) << 32 | u64::from(word(args, 0))).to_le_bytes();
    let selector = word(args, 2);
    out[0] = (0..4).fold(0, |whole, i| {
        let pick = selected_byte(desc.mods.mode(), selector, i);
        let byte = bytes[(pick & 7) as usize];
        let replicated = if byte >> 7 != 0 { 0xff } else { 0 };
        let byte = if pick & 8 != 0 { replicated } else { byte };
        whole | Bits::from(byte) << (8 * i)
    });
}

/// Returns a number of four bits that selects the source of byte `i` of the result of `prmt`. The low three
/// bits of this number are the index of the source byte. If bit 3 is set, all bits of the result
/// byte are copies of the source byte's sign bit.
pub fn selected_byte(mode: Mode, selector: u32, i: u32) -> u32 {
    let start = selector & 3;
    match mode {
        Mode::F4e => start + i,
        Mode::B4e => start.wrapping_sub(i) & 7,
        Mode::Rc8 => start,
        Mode::Ecl => start.max(i),
        Mode::Ecr => start.min(i),
        Mode::Rc16 => (start & 1) * 2 + (i & 1),
        _ => selector >> (4 * i) & 15,
    }
}
