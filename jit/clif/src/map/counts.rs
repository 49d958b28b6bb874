//! Counts of bits, and reversals.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, types};

use super::{Operation, Results, one};
use crate::code::Code;
use crate::group::Group;

/// Counts the ones of each lane; the counts have 32 bits.
fn ones(code: &mut Code<'_, '_>, a: Group) -> Group {
    if !code.is_vector() {
        let count = code.b.ins().popcnt(a[0]);
        return match code.bits(a) {
            64 => code.low_words(count.into()),
            _ => count.into(),
        };
    }
    if code.bits(a) == 64 {
        let (low, high) = (code.low_words(a), code.high_words(a));
        let (low, high) = (ones(code, low), ones(code, high));
        return code.add(low, high);
    }
    let bytes = code.cast(a[0], types::I8X16);
    let counts = code.b.ins().popcnt(bytes);
    let counts = code.cast(counts, types::I32X4).into();
    // The highest byte of this product is the sum of all bytes.
    let factor = code.int(32, 0x0101_0101);
    let sums = code.mul(counts, factor);
    code.shr(sums, 24)
}

/// Counts the zeros above the highest one of each lane; the counts have 32 bits.
fn leading_zeros(code: &mut Code<'_, '_>, a: Group) -> Group {
    if !code.is_vector() {
        let count = code.b.ins().clz(a[0]);
        return match code.bits(a) {
            64 => code.low_words(count.into()),
            _ => count.into(),
        };
    }
    if code.bits(a) == 64 {
        let (low, high) = (code.low_words(a), code.high_words(a));
        let zeros = leading_zeros(code, high);
        let more = leading_zeros(code, low);
        let more = {
            let width = code.int(32, 32);
            code.add(more, width)
        };
        let is_small = code.icmp_with(IntCC::Equal, high, 0);
        return code.select(is_small, more, zeros);
    }
    // Sets all bits below the highest one.
    let mut filled = a;
    for by in [1, 2, 4, 8, 16] {
        let moved = code.shr(filled, by);
        filled = code.or(filled, moved);
    }
    let above = code.not(filled);
    ones(code, above)
}

pub(super) fn popc(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let a = wide(code, op)?;
    one(ones(code, a))
}

pub(super) fn clz(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let a = wide(code, op)?;
    one(leading_zeros(code, a))
}

/// Returns the first operand, which has 32 or 64 bits.
fn wide(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Group> {
    let ty = op.desc.ty;
    (ty.bits() >= 32).then_some(())?;
    op.integer(code, 0, ty)
}

pub(super) fn bfind(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let mut a = wide(code, op)?;
    let top = op.desc.ty.bits() - 1;
    if op.desc.ty.is_signed() {
        let sign = code.sar(a, top);
        a = code.xor(a, sign);
    }
    let zeros = leading_zeros(code, a);
    if op.desc.mods.flag() {
        let is_none = code.icmp_with(IntCC::Equal, a, 0);
        let none = code.int(32, u64::MAX);
        return one(code.select(is_none, none, zeros));
    }
    // If there is no bit, the number of zeros is the width, and the position is -1.
    let top = code.int(32, u64::from(top));
    one(code.sub(top, zeros))
}

pub(super) fn brev(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let mut a = wide(code, op)?;
    if !code.is_vector() {
        return one(code.b.ins().bitrev(a[0]).into());
    }
    let bits = code.bits(a);
    for (by, mask) in [
        (1, 0x5555_5555_5555_5555),
        (2, 0x3333_3333_3333_3333),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
    ] {
        let mask = code.int(bits, mask);
        let high = code.shr(a, by);
        let high = code.and(high, mask);
        let low = code.and(a, mask);
        let low = code.shl(low, by);
        a = code.or(high, low);
    }
    let bytes = (bits / 8) as u8;
    let ty = code.b.func.dfg.value_type(a[0]);
    one(a.map(|register| {
        // Reverses the bytes of each lane.
        let order = (0..16).map(|byte| byte / bytes * bytes + (bytes - 1 - byte % bytes));
        code.shuffle(register, register, order, ty)
    }))
}
