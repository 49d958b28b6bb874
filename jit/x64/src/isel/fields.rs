//! Bit fields, bitwise functions and permutations of bytes in vector registers.

use margay_ops::meaning::bits::selected_byte;
use margay_ops::mods::Mode;
use regalloc2::VReg;
use smallvec::smallvec;

use super::Selector;
use super::int::{Elements, select_bits};
use super::map::{Out, Task};
use super::pieces::{Piece, Source};
use super::prim::{ADD, MIN_UNSIGNED, SUB, Shift, length};
use super::shifts::amount;
use crate::asm::Op;

type S<'a> = Selector<'a>;

fn out(reg: VReg) -> Option<Out> {
    Some(smallvec![reg])
}

/// Returns a mask of the low `length` bits of each element; a `length` above the width counts as the width.
fn low_ones(s: &mut S<'_>, e: Elements, length: VReg) -> VReg {
    let rest = beyond(s, e, length);
    let ones = s.splat_constant(u64::MAX, 64);
    s.shift_by(Shift::Right, e.bits, e.lanes, ones, rest)
}

/// Returns the width of the elements minus `length`, or zero if `length` is greater.
fn beyond(s: &mut S<'_>, e: Elements, length: VReg) -> VReg {
    let width = s.splat_constant(e.bits.into(), e.bits);
    let length = s.by_width(&MIN_UNSIGNED, e.bits, e.lanes, length, width);
    s.by_width(&SUB, e.bits, e.lanes, width, length)
}

/// Returns the low byte of an operand of 32 bits, in elements as wide as those of the operation.
fn low_byte(s: &mut S<'_>, e: Elements, piece: &Piece) -> VReg {
    if let Source::Constant(bits) = piece.source {
        return s.splat_constant(bits & 0xff, e.bits);
    }
    let (whole, byte) = (amount(s, e, piece), s.splat_constant(0xff, e.bits));
    s.v2(Op::Vpandd, e.len(), whole, byte)
}

pub(super) fn bfe(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t)?;
    let a = s.reg(&p[0]);
    let (position, length) = (low_byte(s, e, &p[1]), low_byte(s, e, &p[2]));
    if !e.signed {
        let moved = s.shift_by(Shift::Right, e.bits, e.lanes, a, position);
        let kept = low_ones(s, e, length);
        return out(s.v2(Op::Vpandd, e.len(), moved, kept));
    }
    // The field moves to the top and from there to the bottom. If it ends above the top bit, it does not move up.
    let end = s.by_width(&ADD, e.bits, e.lanes, position, length);
    let up = beyond(s, e, end);
    let moved = s.shift_by(Shift::Left, e.bits, e.lanes, a, up);
    let down = s.by_width(&ADD, e.bits, e.lanes, up, position);
    let field = s.shift_by(Shift::Arithmetic, e.bits, e.lanes, moved, down);
    let present = s.test(e.bits, e.lanes, length, length);
    let zero = s.splat_constant(0, e.bits);
    out(s.select_lanes(present, e.bits, e.lanes, field, zero))
}

pub(super) fn bfi(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t)?;
    let (a, b) = (s.reg(&p[0]), s.reg(&p[1]));
    let (position, length) = (low_byte(s, e, &p[2]), low_byte(s, e, &p[3]));
    let ones = low_ones(s, e, length);
    let field = s.shift_by(Shift::Left, e.bits, e.lanes, ones, position);
    let inserted = s.shift_by(Shift::Left, e.bits, e.lanes, a, position);
    out(select_bits(s, e.len(), field, inserted, b))
}

pub(super) fn szext(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t).filter(|e| e.bits == 32)?;
    let (a, length) = (s.reg(&p[0]), wrapped(s, t, e, &p[1]));
    let by = beyond(s, e, length);
    let moved = s.shift_by(Shift::Left, 32, e.lanes, a, by);
    let how = if e.signed {
        Shift::Arithmetic
    } else {
        Shift::Right
    };
    out(s.shift_by(how, 32, e.lanes, moved, by))
}

fn wrapped(s: &mut S<'_>, t: &Task<'_>, e: Elements, piece: &Piece) -> VReg {
    let whole = s.reg(piece);
    if t.desc.mods.mode() != Mode::Wrap {
        return whole;
    }
    let low = s.splat_constant(31, 32);
    s.v2(Op::Vpandd, e.len(), whole, low)
}

pub(super) fn bmsk(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t).filter(|e| e.bits == 32)?;
    let (start, length) = (wrapped(s, t, e, &p[0]), wrapped(s, t, e, &p[1]));
    let ones = low_ones(s, e, length);
    out(s.shift_by(Shift::Left, 32, e.lanes, ones, start))
}

pub(super) fn lop3(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let table = p[3].constant()? as u8;
    if t.results.len() != 1 {
        return None;
    }
    let (a, b) = (s.reg(&p[0]), s.reg(&p[1]));
    let c = s.rm(&p[2]);
    out(s.ternary(table, p[0].len(), a, b, c))
}

pub(super) fn prmt(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let len = p[0].len();
    let (a, b) = (s.reg(&p[0]), s.reg(&p[1]));
    let lanes = 4 * t.lanes;
    let bytes = (32 * t.lanes).max(128) / 8;
    // `picks` has one byte for each byte of the result: the number of the source byte, and bit 3 for its sign.
    let (picks, signs) = match p[2].constant() {
        Some(selector) => {
            let picks: u64 = (0..4)
                .map(|i| {
                    u64::from(selected_byte(t.desc.mods.mode(), selector as u32, i)) << (8 * i)
                })
                .sum();
            (s.splat_constant(picks, 32), picks & 0x0808_0808 != 0)
        }
        None if t.desc.mods.mode() == Mode::None => {
            let selector = s.reg(&p[2]);
            (spread_nibbles(s, t.lanes, selector), true)
        }
        None => return None,
    };
    let in_lane = s.vector_constant(8, (0..u64::from(bytes)).map(|n| n % 16 / 4 * 4));
    let low_bits = s.splat_constant(3, 8);
    // The index in 16 bytes: the number of the source byte in its word, plus the start of the word.
    let index = s.ternary(0xf8, len, in_lane, picks, low_bits);
    let from_a = s.v2(Op::Vpshufb, len, a, index);
    let from_b = s.v2(Op::Vpshufb, len, b, index);
    let four = s.splat_constant(4, 8);
    let second = s.test(8, lanes, picks, four);
    let chosen = s.select_lanes(second, 8, lanes, from_b, from_a);
    if !signs {
        return out(chosen);
    }
    let eight = s.splat_constant(8, 8);
    let wants = s.test(8, lanes, picks, eight);
    let sign = s.signs(8, lanes, chosen);
    let sign = s.ones_in(sign, 8, lanes);
    out(s.select_lanes(wants, 8, lanes, sign, chosen))
}

/// Moves the four lowest groups of four bits of each word to the low bits of its four bytes.
fn spread_nibbles(s: &mut S<'_>, lanes: u32, selector: VReg) -> VReg {
    let len = length(32, lanes);
    let mut step = |from: VReg, shift: u32, keep: u64| {
        let moved = s.shift(Shift::Left, 32, lanes, from, shift);
        let keep = s.splat_constant(keep, 32);
        // (from | moved) & keep
        s.ternary(0xa8, len, from, moved, keep)
    };
    let low = step(selector, 0, 0xffff);
    let halves = step(low, 8, 0x00ff_00ff);
    step(halves, 4, 0x0f0f_0f0f)
}
