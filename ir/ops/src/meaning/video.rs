//! The reference functions of video instructions: arithmetic on bytes and 16-bit halves of 32-bit
//! registers. The operands are `a`, `b` and `c`.
//!
//! `ty` is the type of the result, and `src` is the type of `a`. [`crate::mods::Mods::bsigned`] states whether `b` is
//! signed. For `vset`, whose result is always unsigned, `ty` is the type of `a` and `src` is the type of `b`.
//!
//! Scalar forms select a part of each source, and compute the result in integers that are wide
//! enough for every exact result. With `.sat`, the result is saturated to the size of the part that
//! `dsel` selects. If `dsel` selects a byte or a half, the result replaces this part of `c`. If
//! `dsel` selects the whole word and the instruction has an `atom_op` (add, min or max), this
//! operation combines the result with `c`.
//!
//! For SIMD forms, `a` and `b` already consist of the selected parts, because the front end emits a
//! `prmt` for each operand, which selects these parts. A SIMD lane is a byte or half of the
//! operands. `dsel` is a mask of SIMD lanes (0 means all lanes). For an SIMD lane outside the mask,
//! the result is this lane's part of `c`. If `atom_op` is add, the op returns the sum of `c` and
//! the results of the SIMD lanes in the mask.

use super::{Bits, Desc, arg, compare, int, mask, sign_extend};
use crate::mods::{AtomOp, Mode};
use crate::ops::Opcode;
use crate::types::OpType;

/// Returns the position and the width, in bits, of the part of a word that a video selector
/// selects. `selector` is encoded as in `Mods::asel`; 0 selects the whole word.
fn part(selector: u8) -> (u32, u32) {
    match selector {
        1..=4 => (8 * (u32::from(selector) - 1), 8),
        5 => (0, 16),
        6 => (16, 16),
        _ => (0, 32),
    }
}

fn select(word: Bits, selector: u8, signed: bool) -> i128 {
    let (position, width) = part(selector);
    let bits = word >> position & mask(width);
    if signed {
        sign_extend(bits, width)
    } else {
        bits as i128
    }
}

/// Whether the result, the operand `a` and the operand `b` of a video instruction are signed.
#[derive(Clone, Copy)]
struct Signs {
    result: bool,
    a: bool,
    b: bool,
}

fn signs(desc: &Desc) -> Signs {
    let (first, second) = (desc.ty.is_signed(), desc.src.is_signed());
    if matches!(desc.opcode, Opcode::Vset | Opcode::Vset2 | Opcode::Vset4) {
        Signs {
            result: false,
            a: first,
            b: second,
        }
    } else {
        Signs {
            result: first,
            a: second,
            b: desc.mods.bsigned(),
        }
    }
}

/// Returns the parts of the operands `a` and `b` that the video selectors select.
fn sources(desc: &Desc, args: &[Bits]) -> (i128, i128) {
    let signs = signs(desc);
    let a = select(arg(args, 0), desc.mods.asel(), signs.a);
    let b = select(arg(args, 1), desc.mods.bsel(), signs.b);
    (a, b)
}

/// Returns the integer type with this signedness and this width in bits (8, 16 or 32).
fn part_type(signed: bool, width: u32) -> OpType {
    match (signed, width) {
        (true, 8) => OpType::S8,
        (true, 16) => OpType::S16,
        (true, _) => OpType::S32,
        (false, 8) => OpType::U8,
        (false, 16) => OpType::U16,
        (false, _) => OpType::U32,
    }
}

/// Computes the final result of a scalar form from `value`. With `.sat`, first limits `value` to
/// the range of its type. Then inserts it into the operand `c` or combines it with `c`, as `dsel`
/// and `atom_op` specify.
fn finish(desc: &Desc, args: &[Bits], value: i128) -> Bits {
    let (position, width) = part(desc.mods.dsel());
    let signed = signs(desc).result;
    let value = if desc.mods.sat() {
        int::saturate(part_type(signed, width), value)
    } else {
        value
    };
    let c = arg(args, 2);
    if width < 32 {
        let field = mask(width) << position;
        return (value as Bits) << position & field | c & !field;
    }
    let word = value as Bits & mask(32);
    match desc.mods.atom_op() {
        AtomOp::None => word,
        op => super::atomic::integer(part_type(signed, 32), op, word, &[c]),
    }
}

fn scalar(desc: &Desc, args: &[Bits], out: &mut [Bits], op: fn(i128, i128) -> i128) {
    let (a, b) = sources(desc, args);
    out[0] = finish(desc, args, op(a, b));
}

fn difference(a: i128, b: i128) -> i128 {
    (a - b).abs()
}

/// Computes the average of `a` and `b`, rounded away from zero.
fn average(a: i128, b: i128) -> i128 {
    let sum = a + b;
    (sum + i128::from(sum >= 0)) >> 1
}

/// Computes the sum of the operands `a` and `b`.
pub fn vadd(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    scalar(desc, args, out, |a, b| a + b);
}

/// Subtracts the operand `b` from the operand `a`.
pub fn vsub(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    scalar(desc, args, out, |a, b| a - b);
}

/// Computes the absolute difference of the operands `a` and `b`.
pub fn vabsdiff(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    scalar(desc, args, out, difference);
}

/// Computes the minimum.
pub fn vmin(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    scalar(desc, args, out, i128::min);
}

/// Computes the maximum.
pub fn vmax(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    scalar(desc, args, out, i128::max);
}

/// Returns the number of bits of a shift: `b` modulo 32 with the modifier `.wrap`, and otherwise
/// `b` limited to the range from 0 to 32.
fn amount(desc: &Desc, b: i128) -> u32 {
    if desc.mods.mode() == Mode::Wrap {
        b as u32 & 31
    } else {
        b.clamp(0, 32) as u32
    }
}

/// Shifts left.
pub fn vshl(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let (a, b) = sources(desc, args);
    out[0] = finish(desc, args, a << amount(desc, b));
}

/// Shifts right.
pub fn vshr(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let (a, b) = sources(desc, args);
    out[0] = finish(desc, args, a >> amount(desc, b));
}

/// Computes `a * b + c` from the three operands. As the modifiers specify, negates the product or
/// `c`, adds 1 (`.po`), and shifts the sum right by 7 or 15 bits.
pub fn vmad(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let (a, b) = sources(desc, args);
    let negate = desc.mods.negate();
    let plus_one = desc.mods.flag() || desc.mods.mode() == Mode::PlusOne;
    let signed = desc.src.is_signed() || desc.mods.bsigned() || negate != 0;
    let word = part_type(signed, 32);
    let c = int::value(word, arg(args, 2));
    let sum = match (plus_one, negate) {
        (true, _) => a * b + c + 1,
        (false, 1) => c - a * b,
        (false, 2) => a * b - c,
        _ => a * b + c,
    };
    let scaled = match desc.mods.mode() {
        Mode::Shr7 => sum >> 7,
        Mode::Shr15 => sum >> 15,
        _ => sum,
    };
    let result = if desc.mods.sat() {
        int::saturate(word, scaled)
    } else {
        scaled
    };
    out[0] = result as Bits & mask(32);
}

/// Compares the operands `a` and `b`. The result is 1 if the comparison is true, and 0 otherwise.
pub fn vset(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let (a, b) = sources(desc, args);
    out[0] = finish(desc, args, compare::integers(desc.mods.cmp(), a, b).into());
}

/// Computes `op` in each of `lanes` SIMD lanes, and combines the results with the operand `c`.
fn simd(desc: &Desc, args: &[Bits], lanes: u32, op: impl Fn(i128, i128) -> i128) -> Bits {
    let width = 32 / lanes;
    let signs = signs(desc);
    let lane_type = part_type(signs.result, width);
    let chosen = if desc.mods.dsel() == 0 {
        u8::MAX
    } else {
        desc.mods.dsel()
    };
    let read = |operand, lane: u32, signed: bool| {
        let bits = arg(args, operand) >> (lane * width) & mask(width);
        if signed {
            sign_extend(bits, width)
        } else {
            bits as i128
        }
    };
    let c = arg(args, 2);
    (0..lanes)
        .filter(|lane| chosen >> lane & 1 != 0)
        .fold(c, |whole, lane| {
            let a = read(0, lane, signs.a);
            let value = op(a, read(1, lane, signs.b));
            let value = if desc.mods.sat() {
                int::saturate(lane_type, value)
            } else {
                value
            };
            if desc.mods.atom_op() == AtomOp::Add {
                return whole.wrapping_add(value as Bits) & mask(32);
            }
            let field = mask(width) << (lane * width);
            whole & !field | (value as Bits) << (lane * width) & field
        })
}

macro_rules! simd_forms {
    ($($(#[$doc:meta])* $two:ident $four:ident = $op:expr;)*) => {$(
        $(#[$doc])*
        pub fn $two(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
            out[0] = simd(desc, args, 2, $op);
        }

        $(#[$doc])*
        pub fn $four(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
            out[0] = simd(desc, args, 4, $op);
        }
    )*};
}

simd_forms! {
    /// Computes the sum of `a` and `b` in each SIMD lane.
    vadd2 vadd4 = |a, b| a + b;
    /// Subtracts `b` from `a` in each SIMD lane.
    vsub2 vsub4 = |a, b| a - b;
    /// Computes the average of `a` and `b` in each SIMD lane.
    vavrg2 vavrg4 = average;
    /// Computes the absolute difference of `a` and `b` in each SIMD lane.
    vabsdiff2 vabsdiff4 = difference;
    /// Computes the minimum of `a` and `b` in each SIMD lane.
    vmin2 vmin4 = i128::min;
    /// Computes the maximum of `a` and `b` in each SIMD lane.
    vmax2 vmax4 = i128::max;
}

/// Compares `a` and `b` in each of the two SIMD lanes of 16 bits.
pub fn vset2(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = simd(desc, args, 2, |a, b| {
        compare::integers(desc.mods.cmp(), a, b).into()
    });
}

/// Compares `a` and `b` in each of the four SIMD lanes of 8 bits.
pub fn vset4(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    out[0] = simd(desc, args, 4, |a, b| {
        compare::integers(desc.mods.cmp(), a, b).into()
    });
}
