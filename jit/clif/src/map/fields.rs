//! Operations on bit fields and bytes. With constant positions, they are shifts and masks of whole vectors; otherwise
//! they are computed in scalars of 64 bits.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, types};
use margay_ops::mods::Mode;

use super::{Operation, Results, one};
use crate::code::Code;
use crate::group::Group;

/// Returns the low byte of a position or length operand, if it is known.
fn known_byte(op: &Operation<'_>, index: usize) -> Option<u32> {
    Some(op.arg(index)?.known? as u32 & 255)
}

/// Returns the first operand of an operation of 32 or 64 bits.
fn first(code: &mut Code<'_, '_>, op: &Operation<'_>, index: usize) -> Option<Group> {
    (op.desc.ty.bits() >= 32).then_some(())?;
    op.integer(code, index, op.desc.ty)
}

/// Returns a number with ones in the low `count` bits.
fn low_ones(count: u32) -> u64 {
    u64::MAX.checked_shr(64 - count.min(64)).unwrap_or(0)
}

/// Extends an integer to 64 bits.
fn extended(code: &mut Code<'_, '_>, a: Group, signed: bool) -> Group {
    match code.bits(a) {
        64 => a,
        _ => code.widen(a, signed),
    }
}

/// Returns the low bits of an integer of 64 bits.
fn reduced(code: &mut Code<'_, '_>, a: Group, bits: u32) -> Group {
    match bits {
        64 => a,
        _ => code.low_words(a),
    }
}

/// Returns the low byte of a position or length operand, a scalar, with 64 bits.
fn byte(code: &mut Code<'_, '_>, op: &Operation<'_>, index: usize) -> Option<Group> {
    let word = op.word(code, index)?;
    let wide = code.widen(word, false);
    Some(code.and_with(wide, 255))
}

/// Returns whether a scalar of 64 bits is at least `limit`.
fn reaches(code: &mut Code<'_, '_>, amount: Group, limit: u64) -> Group {
    code.icmp_with(IntCC::UnsignedGreaterThanOrEqual, amount, limit)
}

/// Shifts a scalar of 64 bits by an amount of which only the low 6 bits count.
fn shift(code: &mut Code<'_, '_>, a: Group, by: Group, is_left: bool, signed: bool) -> Group {
    code.each2(a, by, |b, a, by| match (is_left, signed) {
        (true, _) => b.ins().ishl(a, by),
        (false, true) => b.ins().sshr(a, by),
        (false, false) => b.ins().ushr(a, by),
    })
}

/// Returns a scalar of 64 bits whose `length` low bits are ones.
fn ones(code: &mut Code<'_, '_>, length: Group) -> Group {
    let one = code.int(64, 1);
    let power = shift(code, one, length, true, false);
    let low = code.sub(power, one);
    let all = code.int(64, u64::MAX);
    let is_full = reaches(code, length, 64);
    code.select(is_full, all, low)
}

pub(super) fn bfe(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let a = first(code, op, 0)?;
    let (bits, signed) = (op.desc.ty.bits(), op.desc.ty.is_signed());
    if let (Some(position), Some(length)) = (known_byte(op, 1), known_byte(op, 2)) {
        return one(known_field(code, a, signed, (position, length)));
    }
    if code.is_vector() {
        return None;
    }
    let a = extended(code, a, signed);
    let (position, length) = (byte(code, op, 1)?, byte(code, op, 2)?);
    let zero = code.int(64, 0);
    let is_past = reaches(code, position, 64);
    let field = if signed {
        let last = code.int(64, 63);
        let by = code.select(is_past, last, position);
        let moved = shift(code, a, by, false, true);
        // Two shifts drop the bits above the field. If it has 64 bits or more, both are by zero.
        let width = code.int(64, 64);
        let unused = code.sub(width, length);
        let is_full = reaches(code, length, 64);
        let by = code.select(is_full, zero, unused);
        let high = shift(code, moved, by, true, false);
        let field = shift(code, high, by, false, true);
        let is_empty = code.icmp(IntCC::Equal, length, zero);
        code.select(is_empty, zero, field)
    } else {
        let moved = shift(code, a, position, false, false);
        let moved = code.select(is_past, zero, moved);
        let mask = ones(code, length);
        code.and(moved, mask)
    };
    one(reduced(code, field, bits))
}

/// Emits the extraction of a field at a constant position.
fn known_field(
    code: &mut Code<'_, '_>,
    a: Group,
    signed: bool,
    (position, length): (u32, u32),
) -> Group {
    let bits = code.bits(a);
    if length == 0 || !signed && position >= bits {
        return code.int(bits, 0);
    }
    if !signed {
        let moved = code.shr(a, position);
        return code.truncated(moved, length.min(bits));
    }
    let position = position.min(bits - 1);
    let above = bits.saturating_sub(position + length);
    let high = code.shl(a, above);
    code.sar(high, position + above)
}

pub(super) fn bfi(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (a, b) = (first(code, op, 0)?, first(code, op, 1)?);
    let bits = op.desc.ty.bits();
    if let (Some(position), Some(length)) = (known_byte(op, 2), known_byte(op, 3)) {
        if position >= bits {
            return one(b);
        }
        let mask = code.int(bits, low_ones(length) << position);
        let moved = code.shl(a, position);
        return one(code.merge(mask, moved, b));
    }
    if code.is_vector() {
        return None;
    }
    let (a, b) = (extended(code, a, false), extended(code, b, false));
    let (position, length) = (byte(code, op, 2)?, byte(code, op, 3)?);
    let mask = ones(code, length);
    let mask = shift(code, mask, position, true, false);
    let zero = code.int(64, 0);
    let is_past = reaches(code, position, 64);
    let mask = code.select(is_past, zero, mask);
    let moved = shift(code, a, position, true, false);
    let merged = code.merge(mask, moved, b);
    one(reduced(code, merged, bits))
}

/// Returns a scalar operand with 64 bits that `.wrap` takes modulo 32 and `.clamp` limits to 32.
fn within_word(code: &mut Code<'_, '_>, op: &Operation<'_>, index: usize) -> Option<Group> {
    let word = op.word(code, index)?;
    let wide = code.widen(word, false);
    Some(match op.desc.mods.mode() {
        Mode::Wrap => code.and_with(wide, 31),
        _ => {
            let limit = code.int(64, 32);
            code.extreme(wide, limit, false, false)
        }
    })
}

pub(super) fn szext(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    (!code.is_vector()).then_some(())?;
    let a = op.word(code, 0)?;
    let a = code.widen(a, false);
    let count = within_word(code, op, 1)?;
    let one_ = code.int(64, 1);
    let power = shift(code, one_, count, true, false);
    let mask = code.sub(power, one_);
    let mut bits = code.and(a, mask);
    if op.desc.ty.is_signed() {
        // If the sign bit is set, the exclusive or clears it, and the subtraction borrows from all bits above it.
        let sign = code.shr(power, 1);
        let flipped = code.xor(bits, sign);
        bits = code.sub(flipped, sign);
    }
    one(code.low_words(bits))
}

pub(super) fn bmsk(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    (!code.is_vector()).then_some(())?;
    let (position, count) = (within_word(code, op, 0)?, within_word(code, op, 1)?);
    let mask = ones(code, count);
    let mask = shift(code, mask, position, true, false);
    one(code.low_words(mask))
}

pub(super) fn prmt(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let selector = op.arg(2)?.known?;
    (op.desc.mods.mode() == Mode::None).then_some(())?;
    let (low, high) = (op.word(code, 0)?, op.word(code, 1)?);
    let picks: Vec<u8> = (0..4).map(|i| (selector >> (4 * i)) as u8 & 15).collect();
    match code.is_vector() {
        true => one(shuffled(code, low, high, &picks)),
        false => one(assembled(code, low, high, &picks)),
    }
}

/// Emits the selection of bytes in all lanes of a group.
fn shuffled(code: &mut Code<'_, '_>, low: Group, high: Group, picks: &[u8]) -> Group {
    let sources = |word: u8| {
        picks.iter().map(move |pick| match pick & 7 {
            byte @ 0..4 => 4 * word + byte,
            byte => 12 + 4 * word + byte,
        })
    };
    let bytes: Vec<u8> = (0..4).flat_map(sources).collect();
    let plain = code.shuffle(low[0], high[0], bytes.iter().copied(), types::I32X4);
    if picks.iter().all(|pick| pick & 8 == 0) {
        return plain.into();
    }
    // Copies of the sign bit of each selected byte.
    let parts = code.cast(plain, types::I8X16);
    let last = code.b.ins().iconst(types::I32, 7);
    let signs = code.b.ins().sshr(parts, last);
    let signs = code.cast(signs, types::I32X4);
    let word = picks.iter().rev().fold(0, |word: u64, pick| {
        word << 8 | if pick & 8 != 0 { 0xff } else { 0 }
    });
    let mask = code.int(32, word);
    code.merge(mask, signs.into(), plain.into())
}

/// Emits the selection of bytes in a scalar.
fn assembled(code: &mut Code<'_, '_>, low: Group, high: Group, picks: &[u8]) -> Group {
    let whole = code.join_words(low, high);
    let mut word = code.int(64, 0);
    for (index, pick) in (0..).zip(picks) {
        let from = u32::from(pick & 7) * 8;
        let byte = match pick & 8 {
            0 => code.shr(whole, from),
            _ => {
                let top = code.shl(whole, 56 - from);
                code.sar(top, 63)
            }
        };
        let byte = code.and_with(byte, 255);
        let byte = code.shl(byte, 8 * index);
        word = code.or(word, byte);
    }
    code.low_words(word)
}
